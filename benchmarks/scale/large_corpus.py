"""LDA on a corpus that is many times larger than the memory of its workers: their memory over time, beside the plan.

python -m benchmarks.scale.large_corpus --help

The corpus is one chunk of random words, linked many times, so that it needs little space. Its chunks and the states of
an epoch are read and written like those of any corpus. Dask ends a worker that exceeds its limit.
"""

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import click
import numpy as np
import psutil
import pyarrow as pa
from corpusmill import LDA, Corpus, open_cluster
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import commit_corpus, write_chunk
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.events import RunStarted
from dask.utils import format_bytes, parse_bytes

from benchmarks.common import JSON, QUICK, write_json

WORDS = 2000
LENGTH = 250
#: Seconds between two samples of memory.
INTERVAL = 0.25


@click.command(help=__doc__.split("\n")[0])
@click.option("--workers", default=1, show_default=True)
@click.option("--limit", default="600MiB", show_default=True, help="Memory limit of each worker.")
@click.option(
    "--times", default=8.0, show_default=True, help="Size of chunks and states, in memory limits of a worker."
)
@click.option("--topics", default=16, show_default=True)
@JSON
@QUICK
def main(workers, limit, times, topics, target, quick):
    if quick:
        times = 0.2
    with tempfile.TemporaryDirectory() as folder:
        corpus, size = write_linked_corpus(Path(folder) / "corpus", times * parse_bytes(limit))
        with open_cluster("local", n_workers=workers, memory_limit=limit, local_directory=folder) as client:
            figures = measure(client, corpus, topics, f"{folder}/run")
    figures |= {"corpus": size, "limit": parse_bytes(limit), "workers": workers, "topics": topics}
    figures |= {"tokens": corpus.n_tokens, "command": "python -m benchmarks.scale.large_corpus"}
    for name in ("corpus", "limit", "planned", "peak"):
        print(f"{name:>8}: {format_bytes(int(figures[name]))}")
    print(f" seconds: {figures['seconds']:.1f}")
    if target is not None:
        write_json(target, figures)


def write_linked_corpus(folder, size):
    """Return a corpus whose chunks and states have about ``size`` bytes, and their exact size."""
    random = np.random.default_rng(0)
    doc_ptr = np.arange(0, 6000 * LENGTH + 1, LENGTH)
    words = np.minimum(random.zipf(1.3, doc_ptr[-1]) - 1, WORDS - 1).astype(np.uint32)
    store = Store(str(folder))
    info = write_chunk(store, "train", make_chunk(0, doc_ptr, words))
    # A state of LDA has two bytes per token.
    of_chunk = store.size("train/000000") + 2 * info.tokens
    count = max(1, round(size / of_chunk))
    first = folder / "train" / "000000"
    for chunk in range(1, count):
        shutil.copytree(first, first.with_name(f"{chunk:06d}"), copy_function=os.link)
    counts = np.bincount(words, minlength=WORDS) * count
    vocabulary = pa.table(
        {"word": np.arange(WORDS).astype(str), "term_frequency": counts, "document_frequency": counts}
    )
    commit_corpus(store, vocabulary, {"train": [info] * count, "held_out": []}, True, "large", {})
    return Corpus(store.url), count * of_chunk


def measure(client, corpus, topics, run):
    """Return the plan, the time of one epoch, and the memory of the largest worker over time."""
    plans = []
    samples = []
    done = threading.Event()
    processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
    start = time.perf_counter()

    def watch():
        while not done.wait(INTERVAL):
            used = max(process.memory_info().rss for process in processes)
            samples.append((round(time.perf_counter() - start, 2), used))

    def keep_plan(event):
        if isinstance(event, RunStarted):
            plans.append(event.plan)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        LDA(topics, 50 / topics, max_iter=1).fit(corpus, client=client, run=run, callbacks=[keep_plan])
    finally:
        done.set()
        watcher.join()
    seconds = time.perf_counter() - start
    peak = max(used for _, used in samples)
    return {"plan": plans[0], "planned": plans[0]["total"], "samples": samples, "peak": peak, "seconds": seconds}


if __name__ == "__main__":
    main()
