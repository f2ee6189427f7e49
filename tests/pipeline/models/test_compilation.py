"""Users are told when a training compiles its kernels first."""

import importlib
import os
import subprocess
import sys

import pytest
from helpers.models import kernel_modules
from numba.core.dispatcher import Dispatcher

# Each of these trainings has kernels that the others have not.
SCRIPT = """
from corpusmill import LDA, ProgressLines
short = ["boat on the sea", "bread in the oven"] * 10
long = [text * 3 for text in short]
for sampler, n_topics, documents in [
    ("esca", 2, short),
    ("warp", 2, short),
    ("gibbs", 2, short),
    ("gibbs", 70, short),
    ("gibbs", 70, long),
]:
    LDA(n_topics, max_iter=2, sampler=sampler, device="cpu").fit(documents, callbacks=[ProgressLines()])
"""


@pytest.mark.slow
def test_the_first_training_by_each_sampler_says_that_it_compiles_and_the_second_does_not(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    shown = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        shown.append(run.stderr.splitlines())
    note = "train: compiling kernels first takes about 10 s; later trainings find them on disk"
    assert [lines.count(note) for lines in shown] == [5, 0]
    assert shown[0][1] == note, "before the first epoch"


@pytest.mark.parametrize("name", sorted(kernel_modules()))
def test_an_algorithm_names_a_module_that_has_kernels(name):
    module = importlib.import_module(f"corpusmill.kernels.{name}")
    kernels = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
    assert [kernel for kernel in kernels if kernel.py_func.__module__ == module.__name__]
