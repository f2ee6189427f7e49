"""Train the cases with the version of corpusmill that PYTHONPATH names: ``python -m recorded.train FOLDER ...``.

The parent process, `recorded.__main__`, starts this with the sources of two commits.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import dask
import numpy as np
from corpusmill import ingest, ingest_graph
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.pipeline.engine.cluster.open import dask_settings
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.run import RunStore
from distributed import Client, LocalCluster

from .cases import CASES, N_CHUNKS, Case, arrays_of, dense_matrix, documents, ring


class Stopped(BaseException):
    """Raised after the first epoch of a run that is to be resumed."""


def stop_after_an_epoch(event: object) -> None:
    """Stop a training when its first epoch is complete. It is a callback."""
    if isinstance(event, EpochFinished):
        raise Stopped


def write_data(folder: Path) -> None:
    """Write the corpora, the matrix and the graph that all trees train on."""
    for name, seed in (("corpus", 0), ("more", 5)):
        texts = documents(seed)
        tokens = sum(map(len, texts))
        corpus = ingest(texts, folder / name, chunk_tokens=tokens // N_CHUNKS + 25)
        assert len(corpus.chunks) == N_CHUNKS, len(corpus.chunks)
    matrix = write_matrix(folder / "matrix", dense_matrix(), np.float64, chunk_numbers=300)
    assert len(matrix.chunks) == N_CHUNKS, len(matrix.chunks)
    ingest_graph(ring(), folder / "graph")


def train(case: Case, data: Path, run: Path, client: Client | None, stops: bool) -> dict[str, np.ndarray]:
    """Return the arrays of a case, and the fingerprint of its run; with ``stops``, nothing after one epoch."""
    model = case.make()
    callbacks = [stop_after_an_epoch] if stops else []
    options = {"client": client, "callbacks": callbacks}
    first = run / "first"
    try:
        model.fit(str(data / case.data), run=str(first), **options)
        if case.continues:
            model.partial_fit(str(data / "more"), run=str(run / "more"), **options)
            first = run / "more"
    except Stopped:
        return {}
    return arrays_of(model) | {"fingerprint": np.array(RunStore(str(first)).meta["fingerprint"])}


@contextmanager
def workers(number: int) -> Iterator[Client | None]:
    """Yield a client of a cluster with this number of processes, or None for 0."""
    if not number:
        yield None
        return
    settings = {**dask_settings(), "distributed.worker.preload": ["helpers.few_shards"]}
    with (
        dask.config.set(settings),
        LocalCluster(number, threads_per_worker=1, memory_limit="2GiB", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--output", required=True, help="Name of the file of arrays.")
@click.option("--runs", default="", help="Name of the folder of runs, if it has another name.")
@click.option("--workers", "n_workers", default=0, help="Number of worker processes; 0 trains in this process.")
@click.option("--stops", is_flag=True, help="Stop each run after an epoch.")
def main(folder: Path, names: tuple[str, ...], output: str, runs: str, n_workers: int, stops: bool) -> None:
    """Train the cases of these names, or all, and write their arrays into one file."""
    data = folder / "data"
    if not data.exists():
        write_data(data)
    arrays, errors = {}, {}
    with workers(n_workers) as client:
        for name in names or CASES:
            run = folder / "runs" / (runs or output) / name
            try:
                found = train(CASES[name], data, run, client, stops)
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {error}"
                continue
            arrays.update({f"{name}/{key}": array for key, array in found.items()})
    np.savez(folder / f"{output}.npz", **arrays)
    (folder / f"{output}.json").write_text(json.dumps(errors))


if __name__ == "__main__":
    main()
