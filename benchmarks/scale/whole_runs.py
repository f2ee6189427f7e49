"""Whole runs, from the call of ``fit`` to the saved model: where does the CPU time go?

python -m benchmarks.scale.whole_runs --help

Each run has a process of its own, so that "start" includes all imports. The kernels must have been compiled before:
the program trains each model once to fill the cache. Times are CPU-seconds of this process and of the worker, because
other programs on the machine, and a busy disk, disturb time by the clock.
"""

import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
from corpusmill import Corpus, open_cluster
from corpusmill.pipeline.engine.events import EpochStarted, RunFinished
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import DATA, JSON, QUICK, Clock, Session, print_row, write_json
from benchmarks.scale.workers import MODELS, OF_TEXT, read_counts, read_text

#: The parts of a run, in the order of the columns. "other" is what an epoch does besides: rows, events, commits.
PARTS = ("start", "read", "kernels", "write", "merge", "evaluate", "other", "finish", "save")


@click.command(help=__doc__.split("\n")[0])
@DATA
@click.option("--model", "models", multiple=True, type=click.Choice(list(MODELS)), default=list(MODELS))
@click.option("--tokens", default=16_000_000, show_default=True)
@click.option("--chunk-tokens", default=1_000_000, show_default=True)
@click.option("--epochs", default=20, show_default=True)
@click.option("--rounds", default=3, show_default=True, help="Runs of each kind; that of the median is shown.")
@JSON
@QUICK
def main(data, models, tokens, chunk_tokens, epochs, rounds, target, quick):
    """Print the share of each part for every model, in this process and on one Dask worker."""
    if quick:
        tokens, chunk_tokens, epochs, rounds = 100_000, 50_000, 3, 1
    session = Session(data, quick)
    figures = {}
    print_row("model", "on", "CPU-seconds", *PARTS, "not kernels", width=11)
    for name in models:
        documents = read_text(session, tokens) if name in OF_TEXT else read_counts(session, tokens, 1)
        corpus = corpus_from(documents, chunk_tokens=chunk_tokens)
        run_alone(name, 1, corpus.url, 0)
        for n_workers in (0, 1):
            found = sorted((run_alone(name, epochs, corpus.url, n_workers) for _ in range(rounds)), key=total)
            median = found[len(found) // 2]
            place = "a worker" if n_workers else "in process"
            figures[f"{name} {place}"] = {"runs": found, "median": median}
            shares = [f"{median[part] / total(median):.1%}" for part in PARTS]
            rest = f"{1 - median['kernels'] / total(median):.1%}"
            print_row(name, place, total(median), *shares, rest, width=11)
    if target is not None:
        write_json(target, figures)


def total(parts: dict[str, float]) -> float:
    """Return the CPU-seconds of a run."""
    return sum(parts.values())


def run_alone(name: str, epochs: int, url: str, n_workers: int) -> dict[str, float]:
    """Train and save in a new process; return the CPU-seconds of each part."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, name, epochs, url, n_workers).result()


def run(name: str, epochs: int, url: str, n_workers: int) -> dict[str, float]:
    """Train with the default evaluations, and save the model; return the CPU-seconds of each part."""
    kind, options = ("local", {"n_workers": n_workers, "threads_per_worker": 1}) if n_workers else ("synchronous", {})
    times = {}
    now = Clock().cpu_seconds

    def note(event):
        if isinstance(event, EpochStarted | RunFinished):
            times.setdefault(type(event), now())

    count_cpu_time()
    with open_cluster(kind, **options) as client, tempfile.TemporaryDirectory() as folder:
        if n_workers:
            client.run(count_cpu_time)
        called = now()
        model = MODELS[name](epochs).fit(
            Corpus(url), run=f"{folder}/run", client=client, callbacks=[note], dashboard=False
        )
        fitted = now()
        model.save(str(Path(folder, "model")))
        saved = now()
    rows = model.history_
    found = {
        "start": times[EpochStarted] - called,
        "read": sum(row.get("seconds_read", 0.0) for row in rows),
        "kernels": sum(row["seconds_kernel"] for row in rows),
        "write": sum(row.get("seconds_write", 0.0) for row in rows),
        # On a worker, cells are trained while this process waits without CPU time. Then merging is a part of "other".
        "merge": max(0.0, sum(row["seconds_merge"] for row in rows)),
        "evaluate": sum(row.get("seconds_evaluate", 0.0) for row in rows),
        "finish": fitted - times[RunFinished],
        "save": saved - fitted,
    }
    return found | {"other": saved - called - sum(found.values())}


def count_cpu_time() -> None:
    """Let the engine measure the CPU time of a process instead of the time by the clock."""
    time.perf_counter = time.process_time


if __name__ == "__main__":
    main()
