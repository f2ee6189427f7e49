"""Users are told when a training compiles its kernels first."""

import importlib
import os
import subprocess
import sys

import pytest
from corpusmill import ingest
from helpers.models import kernel_modules
from numba.core.dispatcher import Dispatcher

# Each of these trainings has kernels that the others have not.
SCRIPT = """
import contextlib, sys
from corpusmill import LDA, ProgressLines, RunStarted

def stop(event):
    if sys.argv[1] == "stop" and isinstance(event, RunStarted):
        raise KeyboardInterrupt

for sampler, n_topics, corpus in [
    ("esca", 2, "short"),
    ("warp", 2, "short"),
    ("gibbs", 2, "short"),
    ("gibbs", 70, "short"),
    ("gibbs", 70, "long"),
]:
    model = LDA(n_topics, max_iter=2, sampler=sampler, device="cpu")
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(corpus, callbacks=[ProgressLines(), stop])
"""


@pytest.mark.slow
def test_a_training_by_each_sampler_says_that_it_compiles_unless_its_kernels_are_on_the_disk(tmp_path):
    texts = ["boat on the sea", "bread in the oven"] * 10
    for name, times in {"short": 1, "long": 3}.items():
        ingest([" ".join([text] * times) for text in texts], str(tmp_path / name))
    shown = []
    # With an empty cache, each training is stopped before it compiles. With that of all tests, the first training may
    # compile, and the second does not.
    for ending, cache in (("stop", {"NUMBA_CACHE_DIR": str(tmp_path / "empty")}), ("train", {}), ("train", {})):
        command = [sys.executable, "-c", SCRIPT, ending]
        run = subprocess.run(command, env=os.environ | cache, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        shown.append(run.stderr.splitlines())
    note = "train: compiling kernels first takes about 10 s; later trainings find them on disk"
    assert [shown[0].count(note), shown[2].count(note)] == [5, 0]
    assert shown[0][1] == note, "before the first epoch"


@pytest.mark.parametrize("name", sorted(kernel_modules()))
def test_an_algorithm_names_a_module_that_has_kernels(name):
    module = importlib.import_module(f"corpusmill.kernels.{name}")
    kernels = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
    assert [kernel for kernel in kernels if kernel.py_func.__module__ == module.__name__]
