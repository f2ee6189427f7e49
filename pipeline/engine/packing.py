"""Smaller forms of arrays, for the network and for the store. `unpack` and `widen` recognise them by their names."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...io.stores.store import Arrays
from ...kernels.count_rows import (
    CountRows,
    find_rows,
    read_header,
    unpack_chosen_rows,
    unpack_rows,
)
from .algorithm import nbytes
from .device import kernels

#: Begins the name of an array of packed rows of counts. The rest is the name of the array of columns.
PACKED = "packed_"
#: Begins the name of an array of bytes. The rest is the name of the uint16 array that has the same numbers.
NARROW = "narrow_"
#: Bytes of the parts that `split_block` makes of a block.
PART_BYTES = 64 << 20
#: Name of the array that `index_rows` adds.
STARTS = "row_starts"


def pack_counts(arrays: Arrays, columns: str, device: str) -> Arrays:
    """Pack sparse rows of counts: ``row_ptr`` int64, ``counts`` int32, and ``columns``, the name of a uint16 array.

    Return the arrays unchanged if they are of another form. ``device`` is that of the algorithm. A CUDA device packs
    counts that are there, so that the host gets packed bytes only.
    """
    rows = CountRows(arrays["row_ptr"], arrays[columns], arrays["counts"])
    if len(arrays) != len(rows) or [array.dtype for array in rows] != ["int64", "uint16", "int32"]:
        return arrays
    packed = kernels("count_rows", device).pack_rows(rows)
    if packed is None:
        return arrays
    return {PACKED + columns: packed}


def unpack(arrays: Arrays, chosen: np.ndarray | None = None) -> Arrays:
    """Return arrays that were packed in their usual form, and others unchanged.

    If only the rows ``chosen`` (n_rows,) bool are needed, the others are empty, unless the arrays were not packed.
    """
    name = _packed_name(arrays)
    if name is None:
        return arrays
    if chosen is not None and STARTS in arrays:
        rows = unpack_chosen_rows(arrays[name], arrays[STARTS], chosen)
    else:
        rows = unpack_rows(arrays[name])
    return {"row_ptr": rows.row_ptr, name.removeprefix(PACKED): rows.columns, "counts": rows.counts}


def narrow(arrays: Arrays) -> Arrays:
    """Return uint16 arrays as bytes if all of their numbers are below 256, and others unchanged."""
    stored = {}
    for name, array in arrays.items():
        if array.dtype == np.uint16 and array.max(initial=0) < 256:
            stored[NARROW + name] = array.astype(np.uint8)
        else:
            stored[name] = array
    return stored


def widen(arrays: Arrays) -> Arrays:
    """Return the arrays that `narrow` was given."""
    given = {}
    for name, array in arrays.items():
        if name.startswith(NARROW):
            given[name.removeprefix(NARROW)] = array.astype(np.uint16)
        else:
            given[name] = array
    return given


def index_rows(arrays: Arrays) -> Arrays:
    """Add to packed arrays where each row begins, so that `unpack` can skip rows."""
    name = _packed_name(arrays)
    if name is None:
        return arrays
    return arrays | {STARTS: find_rows(arrays[name])}


def unpacked_bytes(arrays: Arrays) -> int:
    """Return the bytes of arrays in their usual form."""
    name = _packed_name(arrays)
    if name is None:
        return sum(array.nbytes for array in arrays.values())
    n_rows, n_entries = read_header(arrays[name])
    return 8 * (n_rows + 1) + 6 * n_entries


def rows_of_block(arrays: Arrays, n_rows: int, first: int, stop: int) -> Arrays:
    """Return the rows ``first`` to ``stop - 1`` of a block of ``n_rows`` rows, dense or sparse. Scalars stay."""
    if (row_ptr := arrays.get("row_ptr")) is not None:
        entries = slice(row_ptr[first], row_ptr[stop])
        found = {name: array[entries] for name, array in arrays.items() if name != "row_ptr"}
        return {"row_ptr": row_ptr[first : stop + 1] - row_ptr[first]} | found
    return {
        name: array[first:stop] if np.ndim(array) and len(array) == n_rows else array for name, array in arrays.items()
    }


def split_block(arrays: Arrays) -> list[Arrays]:
    """Return a block as several of at most about PART_BYTES, which share its memory."""
    lengths = [len(array) for array in arrays.values() if np.ndim(array)]
    n_rows = len(arrays["row_ptr"]) - 1 if "row_ptr" in arrays else max(lengths)
    bounds = np.linspace(0, n_rows, 1 + max(1, nbytes(arrays) // PART_BYTES)).astype(int)
    return [rows_of_block(arrays, n_rows, *own) for own in pairwise(bounds)]


def join_blocks(parts: Sequence[Arrays]) -> Arrays:
    """Return consecutive parts of a block as one."""
    if len(parts) == 1:
        return parts[0]
    joined = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts]
        if name == "row_ptr":
            ends = np.cumsum([0, *(array[-1] for array in arrays)])
            arrays = [array[min(1, i) :] + end for i, (array, end) in enumerate(zip(arrays, ends, strict=False))]
        joined[name] = np.concatenate(arrays) if np.ndim(arrays[0]) else arrays[0]
    return joined


def _packed_name(arrays: Arrays) -> str | None:
    """Return the name of the packed array, if there is one."""
    return next((name for name in arrays if name.startswith(PACKED)), None)
