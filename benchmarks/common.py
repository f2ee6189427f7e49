"""What several benchmarks share: their options, tables, clocks and pictures."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

#: Where the corpora are: the environment variable, or the folder that the tests use as well.
DEFAULT_DATA = Path(os.environ.get("CORPUSMILL_DATA") or "../shared/data")
#: Where corpora are unpacked to.
UNPACKED = Path("benchmarks/results/data")
DATA = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=DEFAULT_DATA,
    help="Folder of the corpora. The default is the environment variable CORPUSMILL_DATA, else ../shared/data.",
)
JSON = click.option("--json", "target", type=click.Path(path_type=Path), help="Write all figures to this file.")
QUICK = click.option("--quick", is_flag=True, help="Tiny input, to see that the program runs.")
#: The environment variable that turns on the device of tests/ptx, which executes kernels on the CPU.
EMULATOR = "CORPUSMILL_PTX"


def emulated() -> bool:
    """Return whether CUDA kernels are executed on the CPU: then counts are exact, and times mean nothing."""
    return bool(os.environ.get(EMULATOR))


def install_emulator() -> None:
    """Replace Numba's device by that of tests/ptx, if `emulated`."""
    if emulated():
        from tests import ptx

        ptx.install()


@dataclass
class Session:
    """The options that all commands of a program share, and the figures that they measured."""

    data: Path
    quick: bool
    figures: dict[str, Any] = field(default_factory=dict)
    seed: int = 1  # of random numbers, where a program is run several times


def data_file(folder: Path, name: str) -> Path:
    """Return the path of a corpus. If it is missing, unpack.py in the same folder unpacks it first."""
    path = folder / name
    if path.exists():
        return path
    program = folder / "unpack.py"
    unpacked = UNPACKED / name
    if program.exists() and not unpacked.exists():
        subprocess.run([sys.executable, program, UNPACKED, Path(name).stem], check=True)
    if unpacked.exists():
        return unpacked
    raise click.ClickException(
        f"there is no file {path}; name the folder of the corpora by CORPUSMILL_DATA or --data (benchmarks/README.md, "
        f"'The corpora', says where to get them)"
    )


def open_session(context: click.Context, data: Path, quick: bool, target: Path | None) -> Session:
    """Make the session the context's object; write its figures to ``target`` when the program ends."""
    session = Session(data, quick)
    context.obj = session
    if target is not None:
        context.call_on_close(lambda: write_json(target, session.figures))
    return session


def write_json(target: Path, figures: Any) -> None:
    """Write figures, and the folder for them if it is missing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n")


def print_row(*cells: object, width: int = 15) -> None:
    """Print one row of a table: text as it is, numbers with three digits."""
    shown = [f"{cell:>{width}}" if isinstance(cell, str) else f"{cell:>{width}.3g}" for cell in cells]
    print("  ".join(shown), flush=True)


def fastest_cpu_seconds(call: Callable[[], object], turns: int = 5) -> float:
    """Return the CPU-seconds of the fastest of some calls."""
    found = []
    for _ in range(turns):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


class Clock:
    """Seconds, and CPU-seconds of this process and its children, summed over the calls that it times."""

    def __init__(self) -> None:
        self.process = psutil.Process()
        self.wall = 0.0
        self.cpu = 0.0

    def time(self, action: Callable[[], object]) -> tuple[float, float]:
        """Run ``action`` and return its seconds and its CPU-seconds."""
        wall = time.perf_counter()
        cpu = self.cpu_seconds()
        action()
        wall = time.perf_counter() - wall
        cpu = self.cpu_seconds() - cpu
        self.wall += wall
        self.cpu += cpu
        return wall, cpu

    def cpu_seconds(self) -> float:
        """Return the CPU-seconds of this process and its children so far."""
        ended = self.process.cpu_times()
        total = time.process_time() + ended.children_user + ended.children_system
        for child in self.process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = child.cpu_times()
                total += times.user + times.system
        return total


def figure_grid(rows: int, columns: int, width: float, height: float) -> Any:
    """Return a matplotlib figure and its (rows, columns) axes, each ``width`` by ``height`` inches."""
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False)
