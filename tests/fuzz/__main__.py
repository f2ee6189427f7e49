"""Fuzzes readers and stored formats with changed valid files: make fuzz SECONDS=600. See also guided.py."""

import multiprocessing
import sys
import tempfile
import time
import traceback
from pathlib import Path

import click

from .check import SECONDS, check
from .mutations import mutate
from .targets import IN_C, TARGETS

#: What is printed for a process that hung or crashed in C code. This is a known limit, and no failure.
LOST = "hangs or crashes in C code"


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
    attempt = _attempt_in_a_process if name in IN_C else _attempt
    with tempfile.TemporaryDirectory() as folder:
        seeds = TARGETS[name].seeds(Path(folder))
    end = time.monotonic() + seconds
    tried = 0
    n_lost = 0
    found = set()
    while time.monotonic() < end:
        content = mutate(seeds[tried % len(seeds)], seed + tried)
        tried += 1
        place, message = attempt(name, content)
        if place == LOST:
            n_lost += 1
        elif place and place not in found:
            found.add(place)
            failures.mkdir(exist_ok=True)
            (failures / f"{name} {len(found)}").write_bytes(content)
            click.echo(f"{name}: {place}: {message[:300]}")
    lost = f", {LOST}: {n_lost}" if n_lost else ""
    click.echo(f"{name}: {tried} inputs, {len(found)} kinds of failures{lost}")
    return len(found)


def _attempt(name, content):
    """Return where an input fails, and its message; two empty strings if it does not."""
    try:
        check(TARGETS[name], content)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return f"{type(error).__name__} in {Path(frames[-1].filename).name}:{frames[-1].lineno}", str(error)
    return "", ""


def _attempt_in_a_process(name, content):
    """Return the same, and LOST if the process that tries the input hangs or crashes."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(_attempt(name, content)))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(SECONDS) else (LOST, "")
    except EOFError:
        return LOST, ""
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
