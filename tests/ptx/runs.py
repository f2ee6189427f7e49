"""Runs the CUDA tests in a process of their own, whose device executes PTX."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import device
from .program import CACHE

ROOT = Path(__file__).parents[2]
#: Files of CUDA tests that need a GPU, or the compiler only, or start others.
OTHERS = ("test_gpu.py", "test_gpu_large.py", "test_ptx.py", "test_on_ptx.py")


def files_of_kernels() -> list[Path]:
    """Return the files whose tests run on any device."""
    tests = ROOT / "tests"
    names = ("random_indexing_passes", "gpu_variants", "tiled_cuda")
    of_papers = [tests / "benchmarks" / "papers" / f"test_{name}.py" for name in names]
    of_kernels = [path for path in sorted((tests / "kernels" / "cuda").rglob("test_*.py")) if path.name not in OTHERS]
    return [*of_kernels, *of_papers, tests / "benchmarks" / "test_gpu_commands.py"]


def run_tests(settings: str, tests: Sequence[str | Path] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tests, by default all. ``settings`` is a value of CORPUSMILL_PTX. Output of a failure is in the result."""
    options = ["-q", "-p", "no:cacheprovider", "--timeout", "3600"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, tests or files_of_kernels())]
    changed = {device.VARIABLE: settings, "CORPUSMILL_NO_SKIPS": "", **environment}
    return subprocess.run(command, env=os.environ | changed, cwd=ROOT, capture_output=True, text=True)


def run_with_table(name: str, settings: str, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests; return the exit code, and the table of the module ``name`` of this folder."""
    file = CACHE / f"{name}.md"
    file.unlink(missing_ok=True)
    done = run_tests(settings, tests, **{device.TABLE: f"{name},{file}"})
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)  # noqa: T201 what a command shows
    return done.returncode, file.read_text()
