"""Packs sparse rows of counts into bytes, for storage and for the network.

A row is stored as its length, followed by its entries. An entry has a count, and the gap between its column and that of
the previous entry. In rows of topic counts, most gaps and counts are small, so most entries take one or two bytes
instead of six.

Lengths and entries are stored as integers of variable length (LEB128): seven bits per byte, the lowest first. The
highest bit of a byte says whether another byte follows.

An entry is one such integer. Its two lowest bits are the count minus one, and the other bits are the gap. A count above
3 does not fit: then the two bits are 3, and a second integer follows, which is the count minus four.

Reference implementation: tests/helpers/naive_packing.py, `pack_rows`.
"""

from typing import NamedTuple

import numpy as np

from .jit import kernel

#: The header has two integers of 8 bytes: the number of rows and the number of entries.
HEADER_BYTES = 16
#: Most bytes of the length of a row. Columns are numbers of 16 bits and ascend, so a row has at most 2^16 entries.
MAX_LENGTH_BYTES = 3
#: Most bytes of an entry: three for the gap with the bits of the count, and five for a count that does not fit in them.
MAX_ENTRY_BYTES = 8
SEVEN = np.uint64(7)
TWO = np.uint64(2)
LOW_SEVEN = np.uint64(0x7F)
MORE = np.uint64(0x80)
#: The two lowest bits of an entry whose count follows as a second integer.
LARGE = np.uint64(3)


class CountRows(NamedTuple):
    """Sparse rows of counts; columns ascend inside a row, and counts are positive."""

    row_ptr: np.ndarray  # (n_rows + 1,) int64
    columns: np.ndarray  # (n_entries,) uint16
    counts: np.ndarray  # (n_entries,) int32


def pack_rows(rows: CountRows) -> np.ndarray | None:
    """Return the bytes of some rows: (n,) uint8; None if their columns do not ascend or a count is not positive."""
    n_rows = len(rows.row_ptr) - 1
    n_entries = len(rows.columns)
    # Memory is used only as far as it is written, so a bound that is too high costs nothing.
    packed = np.empty(HEADER_BYTES + MAX_LENGTH_BYTES * n_rows + MAX_ENTRY_BYTES * n_entries, np.uint8)
    packed[:HEADER_BYTES] = make_header(n_rows, n_entries)
    size = _pack(rows.row_ptr, rows.columns, rows.counts, packed)
    if size < 0:
        return None
    return packed[:size].copy()


def make_header(n_rows: int, n_entries: int) -> np.ndarray:
    """Return the first bytes of packed rows: (HEADER_BYTES,) uint8."""
    return np.array([n_rows, n_entries], "<i8").view(np.uint8)


def read_header(packed: np.ndarray) -> tuple[int, int]:
    """Return the numbers of rows and of entries; raise ValueError if they cannot be right."""
    if len(packed) < HEADER_BYTES:
        raise ValueError("rows of counts end early")
    n_rows, n_entries = packed[:HEADER_BYTES].view("<i8").tolist()
    # Each row and each entry has at least one byte. Without this check, a wrong header could ask for any memory.
    if min(n_rows, n_entries) < 0 or n_rows + n_entries > len(packed):
        raise ValueError("rows of counts have a wrong header")
    return n_rows, n_entries


def unpack_rows(packed: np.ndarray) -> CountRows:
    """Return the rows that `pack_rows` packed; raise ValueError if the bytes are not of that form."""
    n_rows, n_entries = read_header(packed)
    rows = _empty_rows(n_rows, n_entries)
    if _unpack(packed, rows.row_ptr, rows.columns, rows.counts) != len(packed):
        raise ValueError("rows of counts have a wrong length")
    return rows


def find_rows(packed: np.ndarray) -> np.ndarray:
    """Return the index of each row's first byte, and the number of bytes: (n_rows + 1,) int64.

    Raises ValueError if the bytes are not of the form that `pack_rows` writes.
    """
    n_rows, n_entries = read_header(packed)
    starts = np.empty(n_rows + 1, np.int64)
    if _find_rows(packed, n_entries, starts) != len(packed):
        raise ValueError("rows of counts have a wrong length")
    return starts


def unpack_chosen_rows(packed: np.ndarray, starts: np.ndarray, chosen: np.ndarray) -> CountRows:
    """Return all rows, of which those that are not ``chosen`` (n_rows,) bool are empty.

    ``starts`` is what `find_rows` returned, which has checked the bytes. Raises ValueError if there are fewer or more
    rows than ``chosen`` has.
    """
    # The kernels do not check indices.
    if len(chosen) != len(starts) - 1:
        raise ValueError(f"{len(starts) - 1} rows of counts in place of {len(chosen)}")
    row_ptr = np.zeros(len(starts), np.int64)
    rows = _empty_rows(len(chosen), _chosen_lengths(packed, starts, chosen, row_ptr))
    _unpack_chosen(packed, starts, chosen, row_ptr, rows.columns, rows.counts)
    return rows._replace(row_ptr=row_ptr)


def _empty_rows(n_rows: int, n_entries: int) -> CountRows:
    return CountRows(np.zeros(n_rows + 1, np.int64), np.empty(n_entries, np.uint16), np.empty(n_entries, np.int32))


@kernel
def entry(gap: int, count: int) -> np.uint64:
    """Return the first integer of an entry, uint64: the gap, then two bits of the count minus one, at most 3."""
    return np.uint64(gap) << TWO | np.uint64(min(count - 1, 3))


@kernel
def put(packed: np.ndarray, end: int, number: np.uint64) -> int:
    """Write an integer into ``packed`` (n,) uint8 from ``end`` on; return the index of the byte after it."""
    while number > LOW_SEVEN:
        packed[end] = number & LOW_SEVEN | MORE
        number >>= SEVEN
        end += 1
    packed[end] = number
    return end + 1


@kernel
def _pack(row_ptr: np.ndarray, columns: np.ndarray, counts: np.ndarray, packed: np.ndarray) -> np.int64:
    """Write all rows; return the index of the byte after them, or -1 if they cannot be packed."""
    # A literal has a type of its own, for which `put` would be compiled again.
    end = np.int64(HEADER_BYTES)
    for row in range(len(row_ptr) - 1):
        start = row_ptr[row]
        stop = row_ptr[row + 1]
        # Wrong bounds would make the rows longer than the memory for their bytes.
        if stop < start or stop > len(columns):
            return np.int64(-1)
        end = put(packed, end, np.uint64(stop - start))
        last = np.int64(-1)
        for j in range(start, stop):
            column = np.int64(columns[j])
            count = np.int64(counts[j])
            if column <= last or count < 1:
                return np.int64(-1)
            end = put(packed, end, entry(column - last - 1, count))
            if count > 3:
                end = put(packed, end, np.uint64(count - 4))
            last = column
    return end


@kernel
def _get(packed: np.ndarray, start: np.int64) -> tuple[np.uint64, np.int64]:
    """Read the integer that begins at ``start``; return it and the index of the byte after it.

    If the bytes end within the integer, the index is too large, and `unpack_rows` raises an error.
    """
    number = np.uint64(0)
    shift = np.uint64(0)
    for j in range(start, len(packed)):
        byte = np.uint64(packed[j])
        number |= (byte & LOW_SEVEN) << shift
        if byte < MORE:
            return number, np.int64(j + 1)
        shift += SEVEN
    return number, np.int64(len(packed) + 1)


@kernel
def _get_entries(
    packed: np.ndarray, position: np.int64, columns: np.ndarray, counts: np.ndarray, start: np.int64, stop: np.int64
) -> np.int64:
    """Read the entries ``start`` to ``stop - 1``, which are those of one row; return the index after the last byte."""
    last = np.int64(-1)
    for j in range(start, stop):
        entry, position = _get(packed, position)
        last += np.int64(entry >> TWO) + 1
        columns[j] = last
        small = entry & LARGE
        if small == LARGE:
            large, position = _get(packed, position)
            counts[j] = np.int64(large) + 4
        else:
            counts[j] = np.int64(small) + 1
    return position


@kernel
def _unpack(packed: np.ndarray, row_ptr: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> np.int64:
    """Fill the arrays; return the index after the last byte that was read, or -1 if there are too many entries."""
    position = np.int64(HEADER_BYTES)
    end = np.int64(0)
    for row in range(len(row_ptr) - 1):
        length, position = _get(packed, position)
        if np.int64(length) < 0 or np.int64(length) > len(columns) - end:
            return np.int64(-1)
        start = end
        end += np.int64(length)
        position = _get_entries(packed, position, columns, counts, start, end)
        row_ptr[row + 1] = end
    if end != len(columns):
        return np.int64(-1)
    return position


@kernel
def _find_rows(packed: np.ndarray, n_entries: np.int64, starts: np.ndarray) -> np.int64:
    """Fill ``starts``; return the index after the last byte that was read, or -1 if the entries are not as many."""
    position = np.int64(HEADER_BYTES)
    left = np.int64(n_entries)
    for row in range(len(starts) - 1):
        starts[row] = position
        length, position = _get(packed, position)
        if np.int64(length) < 0 or np.int64(length) > left:
            return np.int64(-1)
        left -= np.int64(length)
        for _ in range(np.int64(length)):
            entry, position = _get(packed, position)
            if entry & LARGE == LARGE:
                _, position = _get(packed, position)
    starts[-1] = position
    if left:
        return np.int64(-1)
    return position


@kernel
def _chosen_lengths(packed: np.ndarray, starts: np.ndarray, chosen: np.ndarray, row_ptr: np.ndarray) -> np.int64:
    """Fill ``row_ptr``, in which other rows are empty; return the number of entries."""
    end = np.int64(0)
    for row in range(len(chosen)):
        if chosen[row]:
            length, _ = _get(packed, starts[row])
            end += np.int64(length)
        row_ptr[row + 1] = end
    return end


@kernel
def _unpack_chosen(
    packed: np.ndarray,
    starts: np.ndarray,
    chosen: np.ndarray,
    row_ptr: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
) -> None:
    for row in range(len(chosen)):
        if chosen[row]:
            _, position = _get(packed, starts[row])
            _get_entries(packed, position, columns, counts, row_ptr[row], row_ptr[row + 1])
