"""One large run from start to end: a billion tokens of text, ingest, and epochs of LDA on workers with little memory.

python -m benchmarks.scale.long_run FOLDER

Every step continues after an interruption, so the same command may be repeated until all epochs are done. FOLDER needs
about 30 bytes per token. It is not deleted at the end.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

import click
import psutil
from corpusmill import LDA, Corpus, ingest, open_cluster
from corpusmill.pipeline.engine.events import EpochFinished, RunStarted
from dask.utils import format_bytes, parse_bytes

from benchmarks.common import DATA, JSON, QUICK, print_row, write_json
from benchmarks.scale.renamed_text import read_words, variant, write_copy

#: Seconds between two samples of memory.
INTERVAL = 0.5
CAUSES = ("seconds_kernel", "seconds_read", "seconds_write", "seconds_merge")


@click.command(help=__doc__.split("\n")[0])
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--tokens", default=1e9, show_default=True, help="Tokens of the text, at least.")
@click.option("--topics", default=1000, show_default=True)
@click.option("--epochs", default=20, show_default=True)
@click.option("--blocks", default=8, show_default=True, help="Blocks of words that the model is cut into.")
@click.option("--workers", default=2, show_default=True)
@click.option("--limit", default="2GiB", show_default=True, help="Memory limit of each worker.")
@click.option("--minutes", default=1e9, help="Stop after the epoch that ends later than this. [default: never]")
@DATA
@JSON
@QUICK
def main(folder, tokens, topics, epochs, blocks, workers, limit, minutes, data, target, quick):
    started = time.perf_counter()
    if quick:
        tokens, topics, epochs, blocks = 2e6, 50, 3, 2
    figures = {"command": "python -m benchmarks.scale.long_run", "topics": topics, "workers": workers}
    figures |= {"limit": parse_bytes(limit), "blocks": blocks}
    folder.mkdir(parents=True, exist_ok=True)
    figures["text"] = write_text(folder / "text", data, tokens, quick)
    options = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": limit}
    with open_cluster("local", local_directory=str(folder / "spill"), **options) as client:
        memory = MemoryByWorker(client)
        with memory:
            figures["ingest"] = ingest_text(folder, client)
        figures["ingest"]["peak_by_worker"] = memory.peaks()
        corpus = Corpus(str(folder / "corpus"))
        figures["corpus"] = {
            "tokens": corpus.n_tokens,
            "documents": corpus.n_documents,
            "words": corpus.n_words,
            "chunks": len(corpus.chunks),
            "bytes": bytes_below(folder / "corpus"),
        }
        print_facts("corpus", figures["corpus"])
        epoch_table = EpochTable(started + 60 * minutes)
        with memory:
            model = LDA(topics, 50 / topics, max_iter=epochs, sampler="warp", n_blocks=blocks, random_state=1)
            # Ctrl-C ends the training, and the epochs until then are reported.
            with contextlib.suppress(KeyboardInterrupt):
                model.fit(corpus, client=client, run=str(folder / "run"), callbacks=[epoch_table], dashboard=False)
    figures["training"] = {
        "planned": epoch_table.plan["total"],
        "plan": epoch_table.plan,
        "peak_by_worker": memory.peaks(),
        "epochs": epoch_table.rows,
        "run_bytes": bytes_below(folder / "run"),
    }
    figures["machine_load"] = os.getloadavg()
    print_training(figures["training"])
    if target is not None:
        write_json(target, figures)


def write_text(folder, data, tokens, quick):
    """Write as many copies of the text as are needed; return how much text that is, and the time."""
    folder.mkdir(exist_ok=True)
    start = time.perf_counter()
    words, ids = read_words(data, quick)
    copies = max(1, -(-int(tokens) // len(ids)))
    written = 0
    for copy in range(copies):
        target = folder / f"copy-{copy:03d}.jsonl.zst"
        if not target.exists():
            write_copy(target, words, ids, copy)
            written += 1
    facts = {"copies": copies, "tokens": copies * len(ids), "variants": variant(copies - 1) + 1}
    facts |= {"compressed_bytes": bytes_below(folder), "copies_written": written}
    facts["seconds"] = time.perf_counter() - start
    print_facts("text", facts)
    return facts


def ingest_text(folder, client):
    """Ingest the text; return the time and the size of the files. Another call returns at once."""
    start = time.perf_counter()
    stages = {}

    def note(progress):
        stages[progress.stage] = time.perf_counter() - start

    files = str(folder / "text" / "*.jsonl.zst")
    ingest(files, str(folder / "corpus"), min_df=5, client=client, progress=note)
    facts = {"seconds": time.perf_counter() - start, "ends_of_stages": stages}
    print_facts("ingest", facts)
    return facts


class MemoryByWorker:
    """Samples the resident memory of the workers while a block of code runs."""

    def __init__(self, client):
        self._processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]

    def __enter__(self):
        self._most = [0] * len(self._processes)
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def __exit__(self, *error):
        self._done.set()
        self._watcher.join()

    def _watch(self):
        while not self._done.wait(INTERVAL):
            for worker, process in enumerate(self._processes):
                self._most[worker] = max(self._most[worker], process.memory_info().rss)

    def peaks(self):
        """Return the most bytes that each worker had."""
        return self._most


class EpochTable:
    """Keeps the metrics of all epochs, and stops the run at a time of the clock."""

    def __init__(self, deadline):
        self._deadline = deadline
        self.plan = {}
        self.rows = []

    def __call__(self, event):
        if isinstance(event, RunStarted):
            self.plan = event.plan
            self.rows = list(event.history)
            print(f"epoch {event.epoch} of {event.epochs}, {event.shards} shards", flush=True)
            print_row("epoch", "seconds", "M tokens/s", *CAUSES, width=14)
        if isinstance(event, EpochFinished):
            row = event.metrics
            self.rows.append(row)
            causes = [row.get(cause, 0.0) for cause in CAUSES]
            print_row(row["epoch"], row["seconds"], row["tokens_per_second"] / 1e6, *causes, width=14)
            return time.perf_counter() > self._deadline
        return False


def print_training(training):
    """Print the memory by worker beside the plan, and the time of all epochs by cause."""
    print(f"memory planned for each worker: {format_bytes(training['planned'])}")
    for worker, peak in enumerate(training["peak_by_worker"]):
        print(f"  worker {worker}: at most {format_bytes(peak)}")
    print(f"run on disk: {format_bytes(training['run_bytes'])}")
    for cause in ("seconds", *CAUSES):
        print(f"{cause:>16}: {sum(row.get(cause, 0.0) for row in training['epochs']):.0f} s")


def print_facts(title, facts):
    """Print figures on one line."""
    shown = ", ".join(
        f"{name} {value if isinstance(value, dict) else round(value, 1)}" for name, value in facts.items()
    )
    print(f"{title}: {shown}", flush=True)


def bytes_below(folder):
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
