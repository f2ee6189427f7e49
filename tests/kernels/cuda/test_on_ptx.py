"""The CUDA tests without a GPU: the kernels' PTX is executed on the CPU, with the checks of tests/ptx."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.on_device import emulated
from numba import cuda

from tests.ptx import EVERYTHING

TESTS = Path(__file__).parents[2]
#: Another order of lanes, warps and blocks, for the oldest generation.
OTHER_ORDER = "7.5,seed=2,explore=20,longest_turn=16"
#: What is executed in that order unless everything is, by `make ptx`: some kernels of each kind of cooperation.
SOME = (
    "test_warp.py",
    "test_count_rows.py",
    "lda/test_word_counts.py",
    "nmf/test_sums.py",
    "random_indexing/test_accumulate.py",
    "word2vec/test_cells.py",
)


@pytest.mark.skipif(emulated(), reason="this is the inner process")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("settings", "files"), [("9.0", ()), (OTHER_ORDER, () if EVERYTHING else SOME)])
def test_cuda_tests_on_the_cpu(settings, files):
    from tests.ptx import device, runs

    if lacking := device.missing():
        pytest.skip(lacking)
    done = runs.run_tests(settings, [Path(__file__).parent / name for name in files])
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
