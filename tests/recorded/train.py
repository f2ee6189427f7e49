"""Train the cases with the version of corpusmill that PYTHONPATH names: ``python -m recorded.train FOLDER ...``.

The parent process, `recorded.__main__`, starts this with the sources of two commits.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import corpusmill
import dask
import numpy as np
from corpusmill.pipeline.engine.cluster.open import dask_settings
from corpusmill.pipeline.engine.events import EpochFinished
from distributed import Client, LocalCluster

from .cases import train


class Stopped(BaseException):
    """Raised after the first epoch of a run that is to be resumed."""


def stop_after_an_epoch(event: object) -> None:
    """Stop a training when its first epoch is complete. It is a callback."""
    if isinstance(event, EpochFinished):
        raise Stopped


@contextmanager
def workers(number: int) -> Iterator[Client | None]:
    """Yield a client of a cluster with this number of processes, or None for 0."""
    if not number:
        yield None
        return
    with (
        dask.config.set(dask_settings()),
        LocalCluster(number, threads_per_worker=1, memory_limit="2GiB", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--sources", required=True, type=click.Path(path_type=Path), help="The folder of the version's sources.")
@click.option("--output", required=True, help="Name of the file of arrays.")
@click.option("--runs", default="", help="Name of the folder of runs, if it has another name.")
@click.option("--workers", "n_workers", default=0, help="Number of worker processes; 0 trains in this process.")
@click.option("--stops", is_flag=True, help="Stop each run after an epoch.")
def main(
    folder: Path, names: tuple[str, ...], sources: Path, output: str, runs: str, n_workers: int, stops: bool
) -> None:
    """Train the cases of these names, and write their arrays into one file, and the errors of others into another."""
    imported = Path(corpusmill.__file__).resolve()
    assert imported.is_relative_to(sources.resolve()), f"{imported} is not in {sources}"
    arrays: dict[str, np.ndarray] = {}
    errors: dict[str, str] = {}
    with workers(n_workers) as client:
        options: dict[str, Any] = {"client": client, "dashboard": False} if client else {}
        if stops:
            options["callbacks"] = [stop_after_an_epoch]
        for name in names:
            try:
                found = train(name, folder / "data", folder / "runs" / (runs or output) / name, **options)
            except Stopped:
                continue
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {error}"
                continue
            if stops:
                errors[name] = "was not stopped"
            arrays.update({f"{name}/{key}": array for key, array in found.items()})
    np.savez(folder / f"{output}.npz", **arrays)
    (folder / f"{output}.json").write_text(json.dumps(errors))


if __name__ == "__main__":
    main()
