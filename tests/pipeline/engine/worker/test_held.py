"""Arrays that wait for a cell: in memory, or in files that are changed in place."""

import numpy as np
import pytest
from corpusmill.pipeline.engine.worker.held import HeldArrays, release_files

ONE = ("row", 0, 1)
TWO = ("column", 3, 1)


def numbers(first=0):
    return {"x": np.arange(first, first + 10.0)}


def files(folder):
    return sorted(folder.rglob("*.npy"))


def test_arrays_are_requested_before_or_after_they_come(tmp_path):
    held = HeldArrays(1000, tmp_path)
    waiting = held.request(ONE)
    assert not waiting.done()
    held.put(ONE, numbers())
    held.put(TWO, numbers(5))
    np.testing.assert_array_equal(waiting.result(0)["x"], numbers()["x"])
    np.testing.assert_array_equal(held.request(TWO).result(0)["x"], numbers(5)["x"])
    assert held.wait_until_empty(0)
    assert not files(tmp_path)


def test_arrays_beyond_the_budget_are_changed_in_their_files(tmp_path):
    held = HeldArrays(80, tmp_path / "new")
    held.put(ONE, numbers())
    held.put(TWO, numbers(5))
    assert len(files(tmp_path)) == 1
    for key in (("column", 3, 2), ("column", 3, 3)):
        arrays = held.request((*key[:2], key[2] - 1)).result(0)
        arrays["x"] += 1
        held.put(key, arrays)
    assert held.written == 80
    last = held.request(("column", 3, 3)).result(0)
    np.testing.assert_array_equal(release_files(last)["x"], numbers(7)["x"])
    assert not files(tmp_path)


def test_arrays_that_are_used_soon_stay_in_memory(tmp_path):
    held = HeldArrays(0, tmp_path)
    held.put(ONE, numbers(), soon=True)
    assert not files(tmp_path)
    assert not held.wait_until_empty(0)


def test_arrays_for_reading_are_mapped_if_they_do_not_fit(tmp_path):
    held = HeldArrays(80, tmp_path)
    in_memory, mapped = held.keep(numbers()), held.keep(numbers(5))
    assert len(files(tmp_path)) == 1
    np.testing.assert_array_equal(in_memory["x"], numbers()["x"])
    np.testing.assert_array_equal(mapped["x"], numbers(5)["x"])


def test_a_withdrawn_request_leaves_the_arrays(tmp_path):
    held = HeldArrays(1000, tmp_path)
    held.request(ONE)
    assert held.withdraw(ONE)
    held.put(ONE, numbers())
    assert not held.withdraw(ONE)
    assert held.request(ONE).done()


def test_an_error_ends_present_and_later_requests(tmp_path):
    held = HeldArrays(1000, tmp_path)
    waiting = held.request(ONE)
    held.fail(OSError("disk full"))
    held.fail(ValueError("a consequence"))
    for request in (waiting, held.request(TWO)):
        with pytest.raises(OSError, match="disk full"):
            request.result(0)
