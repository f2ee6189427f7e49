"""Arrays that wait for a cell: in memory, or in files."""

import time
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.memory import UNLIMITED
from corpusmill.pipeline.engine.worker.held import HeldArrays
from hypothesis import given
from hypothesis import strategies as st

ONE = ("row", 0, 1)
TWO = ("column", 3, 1)


def held_of(budget, folder):
    """Return an object that expects keys in the order of their strata, and then of their blocks."""
    return HeldArrays(budget, folder, lambda key: 100 * key[2] + key[1])


def numbers(first=0):
    return {"x": np.arange(first, first + 10.0), "y": np.float32(first)}


def put(held, key, arrays):
    held.use(arrays)
    held.put(key, arrays)


def files(folder):
    return sorted(folder.rglob("*.arrays"))


def test_arrays_are_requested_before_or_after_they_come(tmp_path):
    held = held_of(1000, tmp_path)
    waiting = held.request(ONE)
    assert not waiting.done()
    put(held, ONE, numbers())
    put(held, TWO, numbers(5))
    np.testing.assert_array_equal(waiting.result(0)["x"], numbers()["x"])
    np.testing.assert_array_equal(held.request(TWO).result(0)["x"], numbers(5)["x"])
    assert held.wait_until_empty(0)
    assert not held.written


@given(st.integers(0, 500), st.lists(st.integers(0, 9), min_size=1, max_size=40), st.data())
def test_arrays_come_back_unchanged_and_most_of_those_beyond_the_budget_are_written(budget, blocks, data):
    folder = Path(mkdtemp())
    held = held_of(budget, folder)
    expected = {}
    for number, block in enumerate(blocks):
        key = ("row", block, number)
        expected[key] = numbers(number)
        put(held, key, numbers(number))
        if data.draw(st.booleans()):
            some = data.draw(st.sampled_from(sorted(expected)))
            assert_equal(held.request(some).result(5), expected.pop(some))
    for key, arrays in sorted(expected.items(), key=lambda item: item[0][2]):
        assert_equal(held.request(key).result(5), arrays)
    assert held.wait_until_empty(5)
    held.close()
    assert not files(folder)
    if budget >= 84 * len(blocks):
        assert not held.written


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_is_needed_last_is_written_and_comes_back_before_it_is_needed(tmp_path):
    held = held_of(200, tmp_path / "new")
    for block in (2, 0, 3, 1):
        put(held, ("row", block, 1), numbers(block))
    wait_for(lambda: len(files(tmp_path)) == 2)
    for block in (0, 1):  # they are in memory
        assert held.request(("row", block, 1)).done()
    held.use({})  # what was requested is not counted as used, so there is space
    wait_for(lambda: not files(tmp_path))
    for block in (2, 3):
        assert held.request(("row", block, 1)).done()
    held.close()


def wait_for(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def test_arrays_for_reading_are_mapped_unless_all_have_space(tmp_path):
    in_memory = numbers()
    assert held_of(UNLIMITED, tmp_path).keep(in_memory) is in_memory
    mapped = held_of(80, tmp_path / "new").keep(numbers(5))
    assert_equal(mapped, numbers(5))
    assert not mapped["x"].flags.owndata


def test_a_withdrawn_request_leaves_the_arrays(tmp_path):
    held = held_of(1000, tmp_path)
    held.request(ONE)
    assert held.withdraw(ONE)
    put(held, ONE, numbers())
    assert not held.withdraw(ONE)
    assert held.request(ONE).done()


def test_an_error_ends_present_and_later_requests(tmp_path):
    held = held_of(1000, tmp_path)
    waiting = held.request(ONE)
    held.fail(OSError("disk full"))
    held.fail(ValueError("a consequence"))
    for request in (waiting, held.request(TWO)):
        with pytest.raises(OSError, match="disk full"):
            request.result(0)


def test_a_disk_that_cannot_be_written_ends_requests(tmp_path):
    (tmp_path / "file").touch()
    held = held_of(0, tmp_path / "file")
    put(held, ONE, numbers())
    held.close()
    with pytest.raises(DataError, match="file cannot take 84 B that wait for later tasks"):
        held.request(ONE).result(5)


def test_a_file_that_is_cut_off_ends_requests(tmp_path):
    held = held_of(0, tmp_path)
    put(held, ONE, numbers())
    wait_for(lambda: files(tmp_path) and not held._leaving)
    files(tmp_path)[0].write_bytes(b"1234")
    with pytest.raises(DataError, match=r"\.arrays: this file of the scratch folder is cut off; resume the run"):
        held.request(ONE).result(5)
    held.close()


def test_arrays_that_have_no_bytes_to_write_end_requests(tmp_path):
    held = held_of(0, tmp_path)
    waiting = held.request(TWO)
    put(held, ONE, {"x": np.zeros(3, "datetime64[s]")})
    with pytest.raises(ValueError, match="buffer"):
        waiting.result(5)
    held.close()
