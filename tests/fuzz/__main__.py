"""Fuzzes readers and stored formats with changed valid files: make fuzz SECONDS=600. See also guided.py."""

import sys
import tempfile
import time
import traceback
from pathlib import Path

import click

from .check import check
from .mutations import mutate
from .targets import TARGETS


@click.command()
@click.option("--seconds", default=60.0, help="Duration, of all targets together.")
@click.option("--target", "names", type=click.Choice(list(TARGETS)), multiple=True, help="By default all.")
@click.option("--seed", default=1)
@click.option("--failures", type=click.Path(path_type=Path), default=Path("fuzz-failures"), help="Inputs that failed.")
def main(seconds, names, seed, failures):
    """Print how many inputs were tried, and which failed."""
    chosen = names or list(TARGETS)
    n_failed = 0
    for name in chosen:
        n_failed += _fuzz(name, seconds / len(chosen), seed, failures)
    sys.exit(n_failed > 0)


def _fuzz(name, seconds, seed, failures):
    """Try mutations of a target's files for some seconds; return the number of different failures."""
    target = TARGETS[name]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        seeds = target.seeds(Path(folder))
    end = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < end:
        content = mutate(seeds[tried % len(seeds)], seed + tried)
        tried += 1
        try:
            check(target, content)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = f"{type(error).__name__} in {Path(frames[-1].filename).name}:{frames[-1].lineno}"
            if place not in found:
                found[place] = error
                failures.mkdir(exist_ok=True)
                (failures / f"{name} {len(found)}").write_bytes(content)
                click.echo(f"{name}: {place}: {str(error)[:300]}")
    click.echo(f"{name}: {tried} inputs, {len(found)} kinds of failures")
    return len(found)


if __name__ == "__main__":
    main()
