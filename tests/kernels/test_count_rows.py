"""Packed rows of counts: the same bytes as the slow version, and the same rows again."""

import numpy as np
import pytest
from corpusmill.kernels.count_rows import (
    HEADER_BYTES,
    CountRows,
    find_rows,
    pack_rows,
    unpack_chosen_rows,
    unpack_rows,
)
from helpers import naive_packing
from hypothesis import given
from hypothesis import strategies as st

COUNTS = st.one_of(st.integers(1, 6), st.integers(1, 2**31 - 1))
COLUMNS = st.one_of(st.integers(0, 20), st.integers(0, 2**16 - 1))
ROWS = st.lists(st.dictionaries(COLUMNS, COUNTS, max_size=12), max_size=12)


def as_arrays(rows):
    """Return rows, given as dictionaries from columns to counts, as arrays."""
    entries = [sorted(row.items()) for row in rows]
    flat = [entry for row in entries for entry in row]
    return CountRows(
        np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64),
        np.array([column for column, _ in flat], np.uint16),
        np.array([count for _, count in flat], np.int32),
    )


@given(rows=ROWS)
def test_rows_are_packed_as_described_and_come_back(rows):
    arrays = as_arrays(rows)
    packed = pack_rows(arrays)
    assert packed.tobytes() == naive_packing.pack_rows(rows)
    for found, array in zip(unpack_rows(packed), arrays, strict=True):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@given(rows=ROWS, data=st.data())
def test_chosen_rows_come_back_and_the_others_are_empty(rows, data):
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
    packed = pack_rows(as_arrays(rows))
    expected = as_arrays([row if is_chosen else {} for row, is_chosen in zip(rows, chosen, strict=True)])
    for found, array in zip(unpack_chosen_rows(packed, find_rows(packed), chosen), expected, strict=True):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("columns, counts", [([3, 3], [1, 1]), ([4, 3], [1, 1]), ([1, 2], [1, 0]), ([1, 2], [-5, 1])])
def test_rows_of_another_form_are_not_packed(columns, counts):
    assert pack_rows(CountRows(np.array([0, 2]), np.array(columns, np.uint16), np.array(counts, np.int32))) is None


@pytest.mark.parametrize("row_ptr", [[0, 3], [0, 2, 1], [0, 1 << 40]])
def test_rows_with_wrong_bounds_are_not_packed(row_ptr):
    columns = np.array([1, 2], np.uint16)
    assert pack_rows(CountRows(np.array(row_ptr), columns, np.array([1, 1], np.int32))) is None


def test_the_largest_entries_are_packed():
    rows = [{2**16 - 1: 2**31 - 1}] * 100
    assert pack_rows(as_arrays(rows)).tobytes() == naive_packing.pack_rows(rows)


@given(rows=ROWS, data=st.data())
def test_damaged_bytes_never_crash(rows, data):
    packed = pack_rows(as_arrays([*rows, {1: 2, 70: 900}]))
    position = data.draw(st.integers(0, len(packed) - 1))
    damaged = packed.copy()
    damaged[position] = data.draw(st.integers(0, 255))
    for content in (damaged, packed[:position], packed[: max(position, HEADER_BYTES)]):
        try:
            found = unpack_rows(content)
        except ValueError:
            continue
        assert len(found.columns) == len(found.counts) == found.row_ptr[-1]
        # What one of the two ways of reading accepts, the other one accepts too.
        starts = find_rows(content)
        all_rows = unpack_chosen_rows(content, starts, np.ones(len(starts) - 1, bool))
        for array, expected in zip(all_rows, found, strict=True):
            np.testing.assert_array_equal(array, expected)


@given(rows=ROWS, data=st.data())
def test_rows_are_not_found_in_damaged_bytes_that_cannot_be_unpacked(rows, data):
    packed = pack_rows(as_arrays([*rows, {1: 2, 70: 900}]))
    position = data.draw(st.integers(0, len(packed) - 1))
    packed[position] = data.draw(st.integers(0, 255))
    try:
        starts = find_rows(packed)
    except ValueError:
        with pytest.raises(ValueError):
            unpack_rows(packed)
        return
    assert (np.diff(starts) > 0).all()
    unpack_rows(packed)


def test_rows_of_small_counts_take_less_than_half():
    rng = np.random.default_rng(0)
    rows = [dict.fromkeys(rng.choice(1000, 30, replace=False).tolist(), int(rng.geometric(0.4))) for _ in range(50)]
    arrays = as_arrays(rows)
    assert len(pack_rows(arrays)) < 0.4 * sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("n_rows", [1, 3])
def test_rows_are_not_chosen_from_a_block_of_another_size(n_rows):
    packed = pack_rows(as_arrays([{1: 2}, {3: 4}]))
    with pytest.raises(ValueError, match=f"2 rows of counts in place of {n_rows}"):
        unpack_chosen_rows(packed, find_rows(packed), np.ones(n_rows, bool))
