"""Packing of sparse rows of counts on a CUDA device: the bytes of kernels/count_rows.py.

Counts that are on the device are packed there, so that only packed bytes are copied to the host. Each warp takes row
after row. A first kernel measures the rows, and the host adds up where each of them begins. A second one writes them:
each lane has one of 32 consecutive entries, and a prefix sum of their lengths says where it is written.

Tests against the CPU's bytes: tests/kernels/cuda/test_count_rows.py.
Reference implementation: tests/helpers/naive_packing.py, `pack_rows`.
"""

import numpy as np
from numba import cuda, int64

from .. import count_rows as cpu
from ..count_rows import HEADER_BYTES, LOW_SEVEN, SEVEN, CountRows, make_header
from .arrays import DeviceArray
from .jit import device, kernel
from .launch import launch
from .memory import allocate, cached_copy, download, readable, upload, workspace
from .port import to_device
from .warp import ALL_LANES, WARP, prefix_sum, warp_sum

#: Blocks of a launch, at most. A block is one warp, and takes several rows.
BLOCKS = 4096
#: In place of the bytes of an entry that cannot be packed. Its row then has less than 0.
INVALID = -(1 << 40)

_entry = to_device(cpu.entry)
_put = to_device(cpu.put)


def pack_rows(rows: CountRows) -> np.ndarray | None:
    """Return the bytes of some rows, (n,) uint8, or None, as the CPU function does. Raises DeviceError."""
    n_rows = len(rows.row_ptr) - 1
    if not len(rows.columns) or np.diff(rows.row_ptr).min() < 0 or rows.row_ptr[-1] > len(rows.columns):
        return cpu.pack_rows(rows)
    arrays = (
        cached_copy(rows.row_ptr, "row_ptr of counts"),
        readable(rows.columns, "columns of counts"),
        readable(rows.counts, "counts"),
    )
    lengths = workspace("lengths of packed rows", n_rows, np.int64)
    blocks = min(BLOCKS, n_rows)
    launch(_measure_rows, blocks, WARP, *arrays, lengths)
    n_bytes = download(lengths, "lengths of packed rows")
    if n_bytes.min() < 0:
        return None
    starts = HEADER_BYTES + np.r_[0, np.cumsum(n_bytes)]
    packed = allocate(starts[-1], np.uint8, "packed counts")
    launch(_write_rows, blocks, WARP, *arrays, upload(starts, "starts of packed rows"), packed)
    found = download(packed, "packed counts")
    found[:HEADER_BYTES] = make_header(n_rows, len(rows.columns))
    return found


@kernel
def _measure_rows(row_ptr: DeviceArray, columns: DeviceArray, counts: DeviceArray, lengths: DeviceArray) -> None:
    """Write the number of bytes of each row, or less than 0."""
    lane = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, len(lengths), cuda.gridDim.x):
        start = row_ptr[row]
        stop = row_ptr[row + 1]
        n_bytes = int64(0)
        for j in range(start + lane, stop, WARP):
            n_bytes += _entry_bytes(columns, counts, start, j)
        n_bytes = warp_sum(n_bytes)
        if lane == 0:
            lengths[row] = n_bytes + _bytes_of(np.uint64(stop - start))


@kernel
def _write_rows(
    row_ptr: DeviceArray, columns: DeviceArray, counts: DeviceArray, starts: DeviceArray, packed: DeviceArray
) -> None:
    """Write the bytes of each row from ``starts[row]`` on."""
    lane = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, len(row_ptr) - 1, cuda.gridDim.x):
        start = row_ptr[row]
        stop = row_ptr[row + 1]
        end = starts[row]
        if lane == 0:
            _put(packed, end, np.uint64(stop - start))
        end += _bytes_of(np.uint64(stop - start))
        # All lanes take part in the prefix sum, also after the last entry.
        for first in range(start, stop, WARP):
            j = first + lane
            n_bytes = int64(0)
            if j < stop:
                n_bytes = _entry_bytes(columns, counts, start, j)
            after = end + prefix_sum(n_bytes, lane)
            if j < stop:
                at = _put(packed, after - n_bytes, _entry(_gap(columns, start, j), int64(counts[j])))
                if counts[j] > 3:
                    _put(packed, at, np.uint64(counts[j] - 4))
            end = cuda.shfl_sync(ALL_LANES, after, WARP - 1)


@device
def _gap(columns: DeviceArray, start: int, j: int) -> int:
    """Return how many columns lie between entry ``j`` of a row that begins at ``start`` and the entry before it."""
    before = int64(columns[j - 1]) if j > start else int64(-1)
    return int64(columns[j]) - before - 1


@device
def _entry_bytes(columns: DeviceArray, counts: DeviceArray, start: int, j: int) -> int:
    """Return the number of bytes of entry ``j`` of a row that begins at ``start``, or `INVALID`."""
    gap = _gap(columns, start, j)
    count = int64(counts[j])
    if gap < 0 or count < 1:
        return int64(INVALID)
    n_bytes = _bytes_of(_entry(gap, count))
    if count > 3:
        n_bytes += _bytes_of(np.uint64(count - 4))
    return n_bytes


@device
def _bytes_of(number: np.uint64) -> int:
    """Return how many bytes an integer takes, seven bits in each."""
    n_bytes = int64(1)
    while number > LOW_SEVEN:
        number >>= SEVEN
        n_bytes += 1
    return n_bytes
