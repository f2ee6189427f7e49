"""Smaller forms of arrays, for the network and for the store. `unpack` recognises them by their names."""

from ...io.stores.store import Arrays
from ...kernels.count_rows import CountRows, pack_rows, unpack_rows

#: Begins the name of an array of packed rows of counts. The rest is the name of the array of columns.
PACKED = "packed_"


def pack_counts(arrays: Arrays, columns: str) -> Arrays:
    """Pack sparse rows of counts: ``row_ptr`` int64, ``counts`` int32, and ``columns``, the name of a uint16 array.

    Return the arrays unchanged if they are of another form.
    """
    rows = CountRows(arrays["row_ptr"], arrays[columns], arrays["counts"])
    if len(arrays) != len(rows) or [array.dtype for array in rows] != ["int64", "uint16", "int32"]:
        return arrays
    packed = pack_rows(rows)
    if packed is None:
        return arrays
    return {PACKED + columns: packed}


def unpack(arrays: Arrays) -> Arrays:
    """Return arrays that were packed in their usual form, and others unchanged."""
    for name, packed in arrays.items():
        if name.startswith(PACKED):
            rows = unpack_rows(packed)
            return {"row_ptr": rows.row_ptr, name.removeprefix(PACKED): rows.columns, "counts": rows.counts}
    return arrays
