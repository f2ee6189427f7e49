"""Small trainings: without files if nobody can resume them, and without libraries that they do not need."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF
from corpusmill.io.stores import in_memory
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.pipeline.engine.device import has_cuda
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.plan import fits_in_memory

COUNTS = scipy.sparse.random(60, 25, 0.3, "csr", np.float32, random_state=0, data_rvs=lambda n: np.arange(n) % 3 + 1)


@pytest.mark.parametrize("kind", [NMF, LDA])
def test_a_run_in_memory_has_the_bits_of_one_in_a_folder(kind, tmp_path, monkeypatch):
    model = kind(3, max_iter=4, device="cpu")
    name = "W" if isinstance(model, NMF) else "counts"
    expected = type(model)(**model.get_params()).fit(COUNTS, run=str(tmp_path / "run"))
    seen = []
    # No folder for the run is made.
    monkeypatch.setattr(tempfile, "TemporaryDirectory", _only_for_data(tempfile.TemporaryDirectory, seen))
    found = model.fit(COUNTS)
    assert not [prefix for prefix in seen if "run" in prefix]
    np.testing.assert_array_equal(found.model_.joined(name), expected.model_.joined(name))
    assert [_computed(row) for row in found.history_] == [_computed(row) for row in expected.history_]
    assert not in_memory._GROUPS


@pytest.mark.parametrize("kind", [NMF, LDA])
def test_data_in_memory_does_not_wait_for_the_disk(kind, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    assert kind(3, max_iter=4).fit(COUNTS).transform(COUNTS[:1]).shape == (1, 3)
    assert not flushed


def _computed(row):
    """Return the metrics that depend neither on time, nor on memory, nor on where a run is stored."""
    others = ("requests_", "memory_")
    return {name: value for name, value in row.items() if "second" not in name and not name.startswith(others)}


def _only_for_data(make, seen):
    def note(*arguments, prefix="", **options):
        seen.append(prefix)
        return make(*arguments, prefix=prefix, **options)

    return note


def test_a_hundred_restarts_on_a_usual_number_of_cells_stay_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("corpusmill.pipeline.engine.executors.memory_limit", lambda: 16 << 30)
    cells = scipy.sparse.random(5000, 2000, 1e-4, "csr", np.float32, random_state=0)
    matrix = write_matrix(tmp_path / "matrix", cells)
    assert fits_in_memory(NMF(20, restarts=100)._algorithm(matrix), matrix, Synchronous())


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_large_runs_and_runs_on_a_cluster_do_not_stay_in_memory(tmp_path, cluster_of):
    matrix = write_matrix(tmp_path / "matrix", COUNTS)
    small = NMF(3)._algorithm(matrix)
    assert fits_in_memory(small, matrix, Synchronous())
    assert not fits_in_memory(NMF(500_000)._algorithm(matrix), matrix, Synchronous())
    assert not fits_in_memory(small, matrix, OnDask(cluster_of(2)))


@pytest.mark.skipif(has_cuda(), reason="this machine has a device")
def test_training_in_this_process_imports_neither_dask_nor_cuda():
    # Both together take half a second of the half that such a training has.
    program = """
import sys
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec
documents = [["boat", "sea"], ["bread", "oven"]] * 10
for model in LDA(2, max_iter=2), NMF(2, max_iter=2), Word2Vec(8, epochs=1), RandomIndexing(8, seed_length=2):
    model.fit(documents)
    heavy = {"dask", "distributed", "numba.cuda"} & set(sys.modules)
    assert not heavy, (model, heavy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
