"""Random indexing on a device against the CPU: sums to the bit, dense seeds to 1e-5."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda import memory
from corpusmill.kernels.cuda.random_indexing import accumulate as ri
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.random_indexing import accumulate as cpu
from corpusmill.kernels.random_indexing import text as ri_text
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus


@pytest.fixture(autouse=True)
def _few_blocks():
    with mock.patch.multiple(ri, PIECE=40):
        yield


def small_case(order="permutation", weighting="uniform", dimension=41, n=300, reach=3):
    rng = np.random.default_rng(0)
    words = np.minimum(rng.geometric(0.25, n) - 1, 9).astype(np.uint32)
    chunk = make_chunk(0, np.array([0, 25, 26, n]), words, group_tokens=40)
    kept = np.ones(10, bool)
    kept[2] = False
    tokens, window = ri_text.prepare_tokens(chunk, kept, reach), ri_text.make_window(reach, order, weighting)
    seeds = ri_text.make_seeds(random.stream(random.key(1), len(tokens.ids)), random.key(2), dimension, 3)
    return tokens, window, seeds


def left_on_device(array):
    return memory.leave_on_device(memory.upload(array, "sums"), "sums")


def on_host(array):
    RESIDENTS.bring_back([array])
    return array


@on_device
@pytest.mark.parametrize(("order", "weighting"), [("permutation", "uniform"), ("direction", "linear")])
@pytest.mark.parametrize("tile_bytes", [80, 4096])
def test_sums_equal_those_of_the_cpu(order, weighting, tile_bytes):
    tokens, window, seeds = small_case(order, weighting)
    # Pieces of 32 to 40 occurrences are counted, shorter ones are not.
    with mock.patch.multiple(ri, COUNTED=3):
        limit = tile_bytes + 4 * (ri.QUEUES + ri.COUNTED * len(window.offsets))
        with mock.patch.object(ri, "shared_memory_limit", return_value=limit):
            found = on_host(ri.accumulate(tokens, window, seeds, 41))
    np.testing.assert_array_equal(found, cpu.accumulate(tokens, window, seeds, 41))
    some = tokens._replace(occurrence_ptr=tokens.occurrence_ptr[2:5])
    np.testing.assert_array_equal(on_host(ri.accumulate(some, window, seeds, 41)), found[2:4])


@on_device
def test_neighbours_that_fill_the_queue_of_a_warp_are_added():
    # A warp has hundreds of neighbours of a word, and several times 32 counters.
    tokens, window, seeds = small_case(n=1000, reach=30)
    for most_counted in (3, 9):
        with mock.patch.multiple(ri, PIECE=1 << 10, COUNTED=most_counted):
            found = on_host(ri.accumulate(tokens, window, seeds, 41))
        np.testing.assert_array_equal(found, cpu.accumulate(tokens, window, seeds, 41))


@on_device
@pytest.mark.parametrize("shared_bytes", [40, 64])
def test_a_window_that_is_too_wide_for_all_counters_has_fewer_or_none(shared_bytes):
    tokens, window, seeds = small_case()
    with mock.patch.multiple(ri, COUNTED=3):
        with mock.patch.object(ri, "shared_memory_limit", return_value=4 * ri.QUEUES + shared_bytes):
            found = on_host(ri.accumulate(tokens, window, seeds, 41))
    np.testing.assert_array_equal(found, cpu.accumulate(tokens, window, seeds, 41))


@on_device
@pytest.mark.parametrize("order", ["permutation", "none"])
def test_dense_seeds_give_the_sums_of_the_cpu(order):
    tokens, window, seeds = small_case(order)
    matrix = cpu.accumulate(tokens, window, seeds, 41)
    for lo, hi in ((0, len(matrix)), (2, 6)):
        rows = np.arange(lo, hi, dtype=np.uint32)
        slabs, expected = on_host(ri.make_slabs([(matrix, rows)])), cpu.make_slabs([(matrix, rows)])
        np.testing.assert_allclose(slabs, expected, atol=1e-6)
        out, wanted = np.ones((len(matrix), 41), np.float32), np.ones((len(matrix), 41), np.float32)
        ri.accumulate_dense(tokens, window, slabs, lo, out)
        cpu.accumulate_dense(tokens, window, expected, lo, wanted)
        np.testing.assert_allclose(on_host(out), wanted, rtol=1e-5, atol=1e-5)


@on_device
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_rows_are_added_at_their_positions(dtype):
    rng = np.random.default_rng(4)
    parts = [(np.array([0, 3]), rng.integers(-9, 9, (2, 45)).astype(dtype)), (np.array([3]), np.ones((1, 45), dtype))]
    parts.append((np.zeros(0, np.int64), np.zeros((0, 45), dtype)))
    expected = cpu.sum_at(5, parts)
    for on_the_device in ((0, 1), (0,), (1,), ()):
        placed = list(parts)
        for index in on_the_device:
            positions, rows = parts[index]
            placed[index] = positions, left_on_device(rows)
        found = ri.sum_at(5, placed)
        assert (RESIDENTS.find(found) is not None) == bool(on_the_device)
        np.testing.assert_array_equal(on_host(found), expected)
        assert found.dtype == expected.dtype


@on_device
@pytest.mark.parametrize("sign", [1, -1])
def test_an_overflow_is_an_error(sign):
    largest = np.full((1, 3), sign * 2**30, np.int32)
    twice = [(np.zeros(1, np.int64), left_on_device(largest)), (np.zeros(1, np.int64), largest)]
    if sign == -1:
        # -2^31 is a number of 32 bits, and 2^31 is not.
        assert (on_host(ri.sum_at(1, twice)) == -(2**31)).all()
        twice.append(twice[1])
    with pytest.raises(OverflowError, match="exclude the most frequent words"):
        ri.sum_at(1, twice)


def test_sums_that_may_overflow_are_refused():
    tokens, window, seeds = small_case()
    with pytest.raises(OverflowError, match="ingest with a smaller chunk_tokens"):
        ri.accumulate(tokens._replace(occurrence_ptr=np.array([0, 1 << 30])), window, seeds, 41)


@on_device
def test_training_on_a_device_equals_training_on_the_cpu(tmp_path):
    from corpusmill import RandomIndexing

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=3, length=6)
    models = {
        (device, retrain): RandomIndexing(45, window=2, seed_length=4, retrain=retrain, device=device).fit(corpus)
        for device in ("cuda", "cpu")
        for retrain in (0, 1)
    }
    sums = [models[device, 0].model_.block(0)["sums"] for device in ("cuda", "cpu")]
    np.testing.assert_array_equal(*sums)
    vectors = [models[device, 1].wv.vectors for device in ("cuda", "cpu")]
    np.testing.assert_allclose(*vectors, atol=1e-5)
