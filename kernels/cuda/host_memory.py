"""What the plan of a run must know of a worker with a device: its pinned memory of the host, and how it is kept busy.

Without Numba, because the process that plans loads no CUDA.

Pinned memory is memory that the device reads and writes directly. The operating system cannot move it, and it takes
long to allocate, so it is kept and used again: see ``memory.py`` for the buffers of copies, and ``pinned.py`` for
results.
"""

#: Bytes of a buffer that copies pass through. A larger copy is cut into parts of this size.
BUFFER_BYTES = 4 << 20
#: Such buffers of a host thread: one is filled or emptied while the other one is copied.
BUFFERS_PER_THREAD = 2
#: Bytes of this process's pinned results at most. Further results pass through the buffers above.
LIMIT_BYTES = 512 << 20
#: Bytes of buffers that no result uses, at most.
FREE_BYTES = 128 << 20
#: A buffer holds a result that is at least this part of it, so that small results do not take the largest buffers.
MIN_FILL = 0.5
#: Tokens of a chunk for whose sweep a device needs about as long as the host for its launches, by module of kernels.
#: Smaller chunks leave the device idle most of the time. The size makes no difference to the other modules.
BUSY_TOKENS = {
    "lda.esca": 1 << 22,
    "lda.minibatch": 1 << 22,
    "nmf.hals": 1 << 19,
    "random_indexing.accumulate": 1 << 19,
}


def pinned_bytes(threads: int, results: int) -> int:
    """Return the most pinned memory that a worker has in addition to ``results``.

    ``results`` are the bytes of all results that may be alive at the same time. The plan of a run counts them already.
    What comes in addition are the buffers of copies, buffers that are free, and the parts of buffers that are larger
    than their results.
    """
    of_copies = threads * BUFFERS_PER_THREAD * BUFFER_BYTES
    # A free buffer held a result before, so all of them have at most these bytes.
    free = min(FREE_BYTES, results)
    too_large = min(int((1 - MIN_FILL) * (LIMIT_BYTES - FREE_BYTES)), results)
    return of_copies + free + too_large
