"""A cell of strata on a device: one group is the CPU's cell, and several groups are the CPU's cells one by one."""

import itertools
import threading
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.cuda.word2vec import cells
from corpusmill.kernels.word2vec import cells as cpu
from corpusmill.kernels.word2vec.sub_cells import number_of_groups
from corpusmill.pipeline.engine.training import MemoryPlan
from corpusmill.pipeline.engine.worker.grid_training import DEVICE_SHARE, plan_grid
from corpusmill.pipeline.models.skip_gram import grid_size
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus

from benchmarks.gpu.cells import train_sub_cells

pytestmark = on_device


@pytest.fixture(autouse=True)
def _few_blocks():
    yield


def make_case(n, n_centres, skew=0.1, dimension=64, n_contexts=40):
    """Return both blocks, pairs sorted by centre, the table of negatives, and options."""
    rng = np.random.default_rng(n)
    centres = np.sort(np.minimum(rng.geometric(skew, n) - 1, n_centres - 1))
    pairs = (centres << 16 | rng.integers(0, n_contexts, n)).astype(np.uint32)
    table = np.sort(np.minimum(rng.geometric(0.1, 256) - 1, n_contexts - 1)).astype(np.uint16)
    W = [rng.normal(0, 0.3, (rows, dimension)).astype(np.float32) for rows in (n_centres, n_contexts)]
    return W, pairs, table, cpu.CellOptions(5, 1.3, 1.0, 0.05, 1e-4, 0.04, random.key(3))


def train(W, *arguments):
    """Return both blocks after training on the device."""
    found = [block.copy() for block in W]
    cells.train_cell(*found, *arguments)
    RESIDENTS.bring_back(found)
    return found


@pytest.mark.parametrize(
    ("n", "n_centres", "skew", "dimension"),
    [(1, 5, 0.5, 64), (50, 30, 0.1, 64), (90, 20, 0.3, 64)],
    ids=["one pair", "several batches", "heavy centres"],
)
def test_a_cell_of_one_group_is_trained_as_on_the_cpu(n, n_centres, skew, dimension):
    W, *arguments = make_case(n, n_centres, skew, dimension)
    expected = [block.copy() for block in W]
    train_sub_cells(*expected, *arguments, 1)
    for found, wanted, old in zip(train(W, *arguments), expected, W, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert np.abs(found - old).max() > 1e-3


def test_sub_cells_are_trained_as_cells_on_the_cpu():
    W, *arguments = make_case(90, 32, 0.05, n_contexts=32)
    expected = [block.copy() for block in W]
    train_sub_cells(*expected, *arguments, 4)
    with mock.patch.object(cells, "number_of_groups", return_value=4):
        found = train(W, *arguments)
    for block, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(block, wanted, atol=1e-5)


def test_a_cell_waits_until_all_of_its_blocks_can_be_active():
    W, *arguments = make_case(20, 5)
    found = [block.copy() for block in W]
    trained = threading.Event()

    def train_in_another_thread():
        cells.train_cell(*found, *arguments)
        RESIDENTS.bring_back(found)
        trained.set()

    with mock.patch.object(cells, "multiprocessors", return_value=8):
        # Two other cells have all multiprocessors.
        with cells.active_blocks(2, 8), cells.active_blocks(6, 8):
            thread = threading.Thread(target=train_in_another_thread)
            thread.start()
            assert not trained.wait(1)
        thread.join(60)
    assert trained.is_set()
    for block, wanted in zip(found, train(W, *arguments), strict=True):
        np.testing.assert_array_equal(block, wanted)


def test_a_cell_without_pairs_uploads_nothing():
    W, pairs, *arguments = make_case(5, 5)
    found = train(W, pairs[:0], *arguments)
    for block, old in zip(found, W, strict=True):
        np.testing.assert_array_equal(block, old)


def test_vectors_too_long_for_shared_memory_are_refused():
    W, *arguments = make_case(5, 5)
    with (
        mock.patch.object(cells, "shared_memory_limit", return_value=1000),
        pytest.raises(ValueError, match=r"64 columns take .* bytes of a block's shared memory, which has 1,000"),
    ):
        cells.train_cell(*W, *arguments)


def test_blocks_stay_on_the_device_for_a_step_and_the_vectors_are_those_of_sub_cells(tmp_path):
    from corpusmill import Word2Vec

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=8, n_chunks=1, documents=4, length=5)
    options = {"window": 2, "min_count": 1, "negative": 2, "sample": 0, "epochs": 1, "n_blocks": 2}

    def train_sub_cells_on_cpu(W_in, W_out, *arguments):
        train_sub_cells(W_in, W_out, *arguments, number_of_groups(len(W_in), len(W_out)))

    with mock.patch.object(grid_size, "MIN_PASSES", 2):
        found = Word2Vec(8, **options, device="cuda").fit(corpus, evaluate_every=0)
        with mock.patch.object(cpu, "train_cell", train_sub_cells_on_cpu):
            expected = Word2Vec(8, **options, device="cpu").fit(corpus, evaluate_every=0)
    np.testing.assert_allclose(found.wv.vectors, expected.wv.vectors, atol=1e-5)
    (step,) = found.history_
    # Two passes over four cells, and no copy of a block between them: each of the four blocks comes back once.
    assert step["device_launch_calls"] == 2 * 2 * 4  # each cell clears its count of diagonals, and trains
    assert step["device_download_calls"] == 4
    assert step["device_download_bytes"] == 2 * 16 * 64 * 4


@on_device
def test_a_worker_with_one_thread_trains_the_cells_of_a_stratum_at_the_same_time(tmp_path):
    from corpusmill import Word2Vec

    corpus = write_topic_corpus(str(tmp_path), 1, words_per_topic=16, n_chunks=1, documents=20, length=20)
    barrier, calls, launch = threading.Barrier(2, timeout=20), itertools.count(), cells.launch

    def launch_when_all_are_there(*arguments, **options):
        # The cells of the first stratum share no block.
        if next(calls) < 2:
            barrier.wait()
        launch(*arguments, **options)

    with mock.patch.multiple(grid_size, MIN_PASSES=1), mock.patch.object(cells, "launch", launch_when_all_are_there):
        options = {"min_count": 1, "sample": 0, "epochs": 1, "n_blocks": 4, "threads": 1}
        Word2Vec(8, 2, **options, device="cuda").fit(corpus, evaluate_every=0)
    assert next(calls) > 4
    assert not barrier.broken


def test_blocks_that_do_not_fit_on_the_device_are_used_by_turns(tmp_path):
    from corpusmill import Word2Vec

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=8, n_chunks=1, documents=4, length=5)
    algorithm = Word2Vec(8, 2, min_count=1, n_blocks=8, device="cuda")._algorithm(corpus)
    job = SimpleNamespace(algorithm=algorithm, open=lambda data: data, data=corpus, plan=MemoryPlan(held=1 << 40))
    phase = SimpleNamespace(job=job)
    cell = algorithm.cell_memory(corpus).device
    assert cell > 2 * 2 * 64 * 4  # two rows of each matrix, and pairs

    def size(addresses, n_cells):
        return plan_grid(phase, "", addresses, int(n_cells * cell / DEVICE_SHARE) + 1).size

    assert plan_grid(phase, "", ["a"] * 8).size == 8
    assert [size(["a"] * 8, n) for n in (8, 4, 3, 1, 0.5)] == [8, 4, 2, 1, 1]
    assert size(["a"] * 4 + ["b"] * 4, 4) == 8
