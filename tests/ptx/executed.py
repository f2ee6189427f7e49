"""Tells what the tests have executed of each kernel: from PTX on a CPU, and what has never run elsewhere.

    python -m tests.ptx.executed [--write] [FILE OR FOLDER OF TESTS]...

With ``--write``, the table replaces the one in docs/how-to/gpus.md.
"""

import re
import sys
from dataclasses import dataclass, field

import click

from . import device
from .runs import ROOT, run_with_table

PAGE = ROOT / "docs" / "how-to" / "gpus.md"
#: Where the table lies on the page.
MARKS = "<!-- kernels: python -m tests.ptx.executed --write -->", "<!-- end of kernels -->"


@dataclass
class Total:
    """All launches of a kernel."""

    launches: int = 0
    warp_instructions: int = 0
    threads: int = 0  # of the largest launch
    forms: set[int] = field(default_factory=set)  # for different types, numbers of topics and so on


TOTALS: dict[str, Total] = {}


def begin() -> None:
    """Count all launches of this process."""
    device.LISTENERS.append(count)


def count(one: device.Launched) -> None:
    """Add a launch."""
    total = TOTALS.setdefault(one.name, Total())
    total.launches += 1
    total.forms.add(id(one.program))
    total.threads = max(total.threads, one.blocks * one.threads)
    total.warp_instructions += int(one.counts["warps"].sum())


def table() -> str:
    """Return a row per kernel."""
    rows = ["| kernel | forms | launches | most threads | million warp instructions |", "|---|---|---|---|---|"]
    for name, total in sorted(TOTALS.items()):
        if "test_" in name:
            continue
        millions = total.warp_instructions / 1e6
        short = name.replace("._make_", ".").replace("kernels.", "")
        rows.append(f"| `{short}` | {len(total.forms)} | {total.launches:,} | {total.threads:,} | {millions:,.2f} |")
    return "\n".join(rows)


@click.command(help=__doc__.replace("\n    python", "\n\b\n    python", 1))
@click.argument("tests", nargs=-1)
@click.option("--write", is_flag=True, help="Replace the table of the page.")
@click.option("--ptx", default="9.0", help="The value of CORPUSMILL_PTX.")
def main(tests: tuple[str, ...], write: bool, ptx: str) -> None:
    """Run the CUDA tests, and print the table."""
    code, found = run_with_table("executed", ptx, tests)
    click.echo(found)
    if write and not code:
        begin_mark, end_mark = MARKS
        between = re.compile(f"{re.escape(begin_mark)}.*{re.escape(end_mark)}", re.DOTALL)
        PAGE.write_text(between.sub(f"{begin_mark}\n\n{found}\n\n{end_mark}", PAGE.read_text()))
    sys.exit(code)


if __name__ == "__main__":
    main()
