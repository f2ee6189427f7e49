"""Leaves out each barrier of each kernel in turn, while the CUDA tests run, and tells which of them nobody misses.

    python -m tests.ptx.mutations [FILE OR FOLDER OF TESTS]...

At each launch of a test, the kernel runs once as it is and then without a barrier, for each barrier that has not been
missed yet. All runs begin with the same memory. A barrier is missed if the machine finds a fault, or if the memory
differs afterwards although two orders of the unchanged kernel leave the same bits. The program ends with 1 if a barrier
is not missed by any launch.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click
import numpy as np

from . import device
from .program import KINDS, Finding, Program, Range, Schedule
from .runs import run_with_table

#: Launches in which a barrier that nobody misses is tried at most. Each one takes as long as the kernel.
MOST_TRIALS = 40


@dataclass
class Barrier:
    """What is known about a barrier."""

    by: str = ""  # what missed it: a fault or the result
    trials: int = 0


#: By kernel, line of source, and number among the barriers that the compiler made of this line.
BARRIERS: dict[tuple[str, str, int], Barrier] = {}


def barriers_of(program: Program) -> list[tuple[int, str, int]]:
    """Return index, line and number of each barrier of a kernel."""
    kinds = [KINDS.index(kind) for kind in ("barrier", "warp barrier")]
    found: list[tuple[int, str, int]] = []
    for index in np.flatnonzero(np.isin(program.table["kind"], kinds)):
        line = device.place_of(program, int(index))
        found.append((int(index), line, sum(other == line for _, other, _ in found)))
    return found


def run(
    name: str,
    program: Program,
    blocks: int,
    threads: int,
    shared: int,
    parameters: Sequence[int],
    ranges: list[Range],
    schedule: Schedule,
) -> tuple[list[Finding], np.ndarray]:
    """Run a launch as `Program.run` does, after its mutants."""
    before = device.contents(ranges)

    def attempt(chosen: Program, order: Schedule) -> tuple[list[Finding], list[bytes], np.ndarray]:
        device.restore(ranges, before)
        found, counts = chosen.run(blocks, threads, shared, parameters, ranges, order)
        return found, device.contents(ranges), counts

    other_found, other_memory, _ = attempt(program, replace(schedule, seed=schedule.seed + 1))
    found, memory, counts = attempt(program, schedule)
    known = {_places(one) for one in (*found, *other_found)}
    # A mutant may hang.
    patient = replace(schedule, most_steps=4 * int(counts["warps"].sum()) + 100_000, longest_turn=8)
    for index, line, number in barriers_of(program):
        barrier = BARRIERS.setdefault((name, line, number), Barrier())
        if barrier.by or barrier.trials == MOST_TRIALS or not counts[index]["warps"]:
            continue
        barrier.trials += 1
        faults, changed, _ = attempt(program.without(index), patient)
        new = [one for one in faults if _places(one) not in known]
        if new:
            barrier.by = new[0].fault.lower().replace("_", " ")
        elif memory == other_memory != changed:
            barrier.by = "result"
    device.restore(ranges, memory)
    return found, counts


def _places(found: Finding) -> tuple[str, int, int]:
    """Return what tells findings apart. Some kernels race on purpose, at the same places with all of their barriers."""
    return found.fault, min(found.at, found.other), max(found.at, found.other)


def table() -> str:
    """Return a row per barrier."""
    rows = ["| kernel | barrier | missed by | launches |", "|---|---|---|---|"]
    for (name, line, number), barrier in sorted(BARRIERS.items()):
        missed = barrier.by or ("NOBODY" if barrier.trials else "not reached")
        rows.append(f"| `{name}` | {line}{f' ({number + 1})' if number else ''} | {missed} | {barrier.trials} |")
    return "\n".join(rows)


def begin() -> None:
    """Try mutants in all launches of this process."""
    device.RUNNERS.append(run)


@click.command(help=__doc__.replace("\n    python", "\n\b\n    python", 1))
@click.argument("tests", nargs=-1)
@click.option("--ptx", default="9.0,explore=20", help="The value of CORPUSMILL_PTX.")
def main(tests: tuple[str, ...], ptx: str) -> None:
    """Run the CUDA tests with mutants."""
    code, found = run_with_table("mutations", ptx, tests)
    click.echo(found)
    sys.exit(bool(code or "NOBODY" in found))


if __name__ == "__main__":
    main()
