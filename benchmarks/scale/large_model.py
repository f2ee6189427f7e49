"""Word vectors that are many times larger than the memory of the workers: time, memory and restarts.

python -m benchmarks.scale.large_model --help

The words are random. Every worker has a memory limit, which Dask enforces: it ends and restarts a worker that exceeds
it. Training ends after the first of 16 epochs, which is a sixteenth of the usual number of passes.
"""

import os
import tempfile
import threading
import time
from pathlib import Path

import click
import numpy as np
import psutil
import pyarrow as pa
from corpusmill import Word2Vec, open_cluster
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import Corpus, commit_corpus, write_chunk
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import CellsTrained, EpochFinished, RunStarted
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.run import RunStore
from dask.utils import format_bytes, parse_bytes

from benchmarks.common import JSON, QUICK, write_json

DOCUMENT = 100
EPOCHS = 16


@click.command(help=__doc__.split("\n")[0])
@click.option("--workers", default=2, show_default=True)
@click.option("--limit", default="1GiB", show_default=True, help="Memory limit of each worker.")
@click.option("--times", default=8.0, show_default=True, help="Size of the model, in memory limits of one worker.")
@click.option("--vector-size", default=1024, show_default=True)
@click.option("--blocks", default=256, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Where to store the run: three times the model's size.")
@JSON
@QUICK
def main(workers, limit, times, vector_size, blocks, folder, target, quick):
    if quick:
        times, vector_size, blocks = 0.05, 64, 8
    n_words = int(times * parse_bytes(limit) / (8 * vector_size))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        corpus = write_random_corpus(f"{place}/corpus", n_words, 3 * n_words // 2)
        estimator = Word2Vec(vector_size, min_count=1, sample=0, epochs=EPOCHS, n_blocks=blocks, device="cpu")
        algorithm = estimator._algorithm(corpus)
        with open_cluster("local", n_workers=workers, memory_limit=limit, local_directory=place) as client:
            figures = measure(client, algorithm, corpus, f"{place}/run")
    figures |= {"model": 8 * vector_size * n_words, "limit": parse_bytes(limit), "workers": workers}
    for name, value in figures.items():
        is_bytes = name in ("model", "limit", "peak", "planned") or name.startswith("task_")
        print(f"{name:>16}: {format_bytes(int(value)) if is_bytes else value}")
    if target is not None:
        write_json(target, figures)


def write_random_corpus(url, n_words, n_tokens):
    """Write documents of words drawn with probability 1 / (rank + 100), in which each word occurs at least once."""
    rng = np.random.default_rng(1)
    drawn = (100 * ((n_words + 100) / 100) ** rng.random(n_tokens - n_words) - 100).astype(np.int64)
    words = rng.permutation(np.concatenate([np.arange(n_words), drawn]))
    frequency = np.bincount(words, minlength=n_words)
    # A word's number is its rank by falling frequency.
    rank = np.empty(n_words, np.uint32)
    rank[np.argsort(-frequency, kind="stable")] = np.arange(n_words)
    store, infos = Store(url), []
    per_chunk = 1000 * DOCUMENT
    for number, first in enumerate(range(0, n_tokens, per_chunk)):
        part = rank[words[first : first + per_chunk]]
        doc_ptr = np.unique(np.r_[np.arange(0, len(part), DOCUMENT), len(part)])
        infos.append(write_chunk(store, "train", make_chunk(number, doc_ptr, part)))
    n_documents = -(-n_tokens // DOCUMENT)
    keys = pa.table({"key": np.arange(n_documents).astype(str)})
    store.write_parquet("documents-train.parquet", keys)
    store.write_parquet("documents-held_out.parquet", keys.slice(0, 0))
    counts = np.sort(frequency)[::-1]
    vocabulary = pa.table(
        {"word": np.arange(n_words).astype(str), "term_frequency": counts, "document_frequency": counts}
    )
    commit_corpus(store, vocabulary, {"train": infos, "held_out": []}, True, "random words", {"source": "random"})
    return Corpus(url)


def measure(client, algorithm, corpus, folder):
    """Train one epoch, and return times, the plan's numbers, and the peak of the workers' memory."""
    pids = client.run(os.getpid)
    figures = {"peak": 0}
    finished = threading.Event()

    def sample():
        processes = [psutil.Process(pid) for pid in pids.values()]
        while not finished.wait(0.1):
            for process in processes:
                if process.is_running():
                    figures["peak"] = max(figures["peak"], process.memory_info().rss)

    def show(event):
        if isinstance(event, RunStarted):
            figures.update({name: value for name, value in event.plan.items() if name.startswith("task_")})
            figures["planned"] = event.plan["total"]
            figures["begin seconds"] = time.perf_counter() - started
        if isinstance(event, CellsTrained):
            figures["cells"] = figures.get("cells", 0) + event.cells
        return isinstance(event, EpochFinished)

    sampler = threading.Thread(target=sample)
    sampler.start()
    started = time.perf_counter()
    try:
        run = RunStore(folder)
        train(Training(algorithm, corpus, run, EPOCHS, evaluate_every=0, callbacks=[show]), OnDask(client))
        figures["epoch seconds"] = run.metrics[-1]["seconds"]
        figures["kernel seconds"] = run.metrics[-1]["seconds_kernel"]
    finally:
        finished.set()
        sampler.join()
    figures["restarts"] = len(set(client.run(os.getpid).values()) - set(pids.values()))
    return figures


if __name__ == "__main__":
    main()
