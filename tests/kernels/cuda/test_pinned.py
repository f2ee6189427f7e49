"""Pinned results: their memory is used again, but never while an array refers to it."""

import numpy as np
import pytest
from corpusmill.kernels.cuda import pinned
from corpusmill.kernels.cuda.caches import COPIES
from corpusmill.kernels.cuda.ledger import LEDGER, Operation
from corpusmill.kernels.cuda.memory import download, download_during, upload
from corpusmill.kernels.cuda.pinned import MIN_BYTES, PINNED_RESULTS, PinnedResults
from helpers.on_device import on_device

pytestmark = on_device
N = MIN_BYTES // 4


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_when_no_array_refers_to_it():
    results = PinnedResults()
    first = results.empty((4, N), np.float32)
    where = address(first)
    part = first[1:2, 3:]
    del first
    second = results.empty((4, N), np.float32)
    assert address(second) != where, "a part of the first result is still in use"
    del part
    third = results.empty((3, N), np.int32)
    assert address(third) == where
    assert results.nbytes == 2 * 16 * N


def test_a_small_result_does_not_take_a_large_buffer():
    results = PinnedResults()
    results.empty((9, N), np.float32)
    assert results.empty((1, N), np.float32) is not None
    assert results.nbytes == 40 * N


def test_results_above_the_limit_and_small_ones_are_not_pinned():
    results = PinnedResults(limit=12 * N)
    held = results.empty((2, N), np.float32)
    assert results.empty((2, N), np.float32) is None
    assert results.empty((1, N), np.float32) is not None
    assert results.nbytes == 12 * N
    assert results.empty((N - 1,), np.float32) is None
    del held
    # Free buffers are given back for a larger one.
    assert results.empty((3, N), np.float32) is not None
    assert results.nbytes == 12 * N


def test_few_bytes_stay_without_a_result(monkeypatch):
    monkeypatch.setattr(pinned, "FREE_BYTES", 10 * N)
    results = PinnedResults()
    held = [results.empty((size, N), np.float32) for size in (1, 2, 9)]
    assert results.nbytes == 48 * N
    held.clear()
    # The largest one is used again, so the two others may stay if they have few bytes: the smallest one goes.
    held.append(results.empty((9, N), np.float32))
    assert results.nbytes == (9 + 2) * 4 * N


def test_large_results_are_downloaded_into_pinned_memory():
    host = np.random.default_rng(0).random((5, N), np.float32)
    before = PINNED_RESULTS.nbytes
    found = download(upload(host, "X"), "X")
    np.testing.assert_array_equal(found, host)
    assert not found.flags.owndata
    assert PINNED_RESULTS.nbytes >= before
    found[0] = 0
    assert (found[1:] == host[1:]).all()


def test_a_download_during_kernels_is_complete_at_any_size():
    for size in (3, N):
        host = np.random.default_rng(size).random(size, np.float32)
        array = upload(host, "X")
        done = []
        found = download_during(array, "X", lambda done=done: done.append("kernels"))
        np.testing.assert_array_equal(found, host)
        assert done == ["kernels"]
        assert COPIES.get(found) is array


def test_a_download_is_complete_even_if_a_launch_fails_meanwhile():
    array = upload(np.zeros(N, np.float32), "X")

    def fail():
        raise MemoryError("no memory for the sums")

    with LEDGER.recording() as found, pytest.raises(MemoryError, match=r"no memory for the sums"):
        download_during(array, "failed", fail)
    waits = [entry for entry in found if entry.operation == Operation.WAIT]
    assert [entry.cause for entry in waits] == ["failed"]
