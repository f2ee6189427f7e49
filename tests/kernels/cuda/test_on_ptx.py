"""All CUDA tests without a GPU: the kernels' PTX is executed on the CPU, with the checks of tests/ptx."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.on_device import emulated
from numba import cuda

#: Tests that need a GPU, or the compiler only.
OTHERS = ("test_gpu.py", "test_gpu_large.py", "test_ptx.py", "test_on_ptx.py")
TESTS = Path(__file__).parents[2]


def files_of_kernels():
    """Return the files whose tests run on any device."""
    papers = TESTS / "benchmarks" / "papers"
    of_papers = [papers / f"test_{name}.py" for name in ("random_indexing_passes", "gpu_variants", "tiled_cuda")]
    of_kernels = [path for path in sorted((TESTS / "kernels" / "cuda").rglob("test_*.py")) if path.name not in OTHERS]
    return [*of_kernels, *of_papers, TESTS / "benchmarks" / "test_gpu_commands.py"]


@pytest.mark.skipif(emulated(), reason="this is the inner process")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("settings", ["9.0", "7.5,seed=2,explore=20,longest_turn=16"])
def test_all_cuda_tests_on_the_cpu(settings):
    from tests.ptx import device

    if lacking := device.missing():
        pytest.skip(lacking)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files_of_kernels())]
    environment = os.environ | {"CORPUSMILL_PTX": settings, "CORPUSMILL_NO_SKIPS": ""}
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(cuda.is_available(), reason="no test is skipped with the device of tests/ptx or another one")
def test_a_skipped_test_fails_where_make_gpu_runs_it():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(Path(__file__).parent / "test_warp.py"),
    ]
    environment = os.environ | {"CORPUSMILL_NO_SKIPS": "1"}
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True)
    assert done.returncode == 1
    assert "was skipped, but a test on a GPU must run: " in done.stdout
