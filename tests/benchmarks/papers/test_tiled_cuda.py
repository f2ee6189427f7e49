"""The three phases of ALO-NMF on a device against the CPU, and what they copy."""

from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels.cuda.memory import leave_on_device, upload
from corpusmill.kernels.cuda.nmf import products, sums
from corpusmill.kernels.cuda.word2vec.cells import active_blocks
from helpers.cuda_traffic import Traffic
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus

from benchmarks.papers.algorithms.nmf import PaperNMF
from benchmarks.papers.kernels import tiled, tiled_cuda

pytestmark = on_device


@pytest.fixture(autouse=True)
def _few_blocks():
    with mock.patch.multiple(products, BLOCKS=2):
        with mock.patch.multiple(sums, BLOCKS=2):
            yield


def test_the_three_phases_equal_those_of_the_cpu():
    rng = np.random.default_rng(1)
    X, P = (rng.random((70, 7)).astype(np.float32) for _ in range(2))
    Q = (X.T @ X).astype(np.float32)
    expected = tiled.sweep_columns(X, P, Q, 3, 2)
    found = tiled_cuda.sweep_columns(X, P, Q, 3, 2)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_sweep_has_the_same_bits_in_every_run():
    rng = np.random.default_rng(2)
    X, P = (rng.random((1500, 5)).astype(np.float32) for _ in range(2))
    Q = (X.T @ X).astype(np.float32)
    runs = [tiled_cuda.sweep_columns(X, P, Q, 5, 1)[0] for _ in range(4)]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0], other)


def test_a_sweep_waits_until_all_of_its_blocks_can_be_active():
    X = np.random.default_rng(3).random((2000, 2)).astype(np.float32)
    Q = (X.T @ X).astype(np.float32)
    with ThreadPoolExecutor(1) as pool, mock.patch.object(tiled_cuda, "multiprocessors", return_value=4):
        # Another thread has three of four multiprocessors, and the sweep needs two.
        with active_blocks(3, 4):
            sweep = pool.submit(tiled_cuda.sweep_columns, X, X, Q, 2, 1)
            with pytest.raises(TimeoutError):
                sweep.result(1)
        assert np.isfinite(sweep.result(60)[0]).all()


def test_training_on_a_device_equals_training_on_the_cpu(tmp_path):
    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=4, length=8)
    found, expected = (PaperNMF(3, solver="paper", max_iter=2, device=device).fit(corpus) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-5)


@pytest.mark.skipif(products.has_cupy(), reason="CuPy's products replace kernels")
def test_the_three_phases_launch_two_kernels_per_tile():
    rng = np.random.default_rng(1)
    X, P = (rng.random((70, 7)).astype(np.float32) for _ in range(2))
    Q = (X.T @ X).astype(np.float32)
    P = leave_on_device(upload(P, "P"), "P")
    found = Traffic(lambda: tiled_cuda.sweep_columns(X, P, Q, 3, 1))
    assert found.uploads == {"W": X.nbytes, "Q": Q.nbytes, "keep": 4 * 7}
    parts = sums.PARTS
    assert found.downloads == {"W": X.nbytes, "W sums": 8 * (7 * 7 + parts)}
    # Cleared are the number of blocks that have arrived, and the Gram matrix. X and P are transposed, and X back.
    kernels_of_tiles = {"multiply": 3, "sweep_tile": 3}
    of_factor = {"clear": 2, "transpose": 3, "multiply_columns": 1, "multiply_and_add": 1}
    assert found.launches == kernels_of_tiles | of_factor
    assert found.waits == {"W sums": 1, "W": 1}
