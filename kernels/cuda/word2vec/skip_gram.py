"""Word2Vec on a CUDA device: FULL-W2V (`full.py`) and PAR-Word2Vec (`par.py`), the updates of the CPU's kernels.

Each thread block trains stretches of documents, without locks. A row's changes are added by atomic additions, so none
is lost, but a block may read a row before it has another block's changes. So two runs differ slightly, and one block
alone makes the CPU's updates in the CPU's order. Negatives are drawn on the device, each by the address of its word:
they are the CPU's, and no list of them is uploaded.

Tests against the CPU's rows: tests/kernels/cuda/word2vec/test_skip_gram.py.
"""

import numpy as np

from ...word2vec.text import PAD, Text, TrainingOptions
from ..launch import launch, shared_memory_limit
from ..memory import cached_copies, cached_copy, on_device, resident, upload
from ..warp import WARP
from . import full, par

#: Threads per block of PAR-Word2Vec, at most.
THREADS = 256
#: Blocks of a launch, at most. The more blocks are active, the older are the rows that a block reads.
BLOCKS = 2048
#: Mini-batches of a stretch. Longer documents are cut.
STRETCH = 40


def train(
    method: str,
    text: Text,
    options: TrainingOptions,
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Train W_in and W_out (R, D) float32 in place on a text; ``method`` is "full" or "par".

    The matrices stay on the device; `RESIDENTS.bring_back` copies them to the host.

    Raises ValueError if a window's or a mini-batch's rows do not fit a block's shared memory, and DeviceError.
    """
    D = W_in.shape[1]
    if D % PAD:
        # Each thread of a warp has a column, and all threads of a warp must take part in a product.
        raise ValueError(f"rows have {D} columns: pad them to a multiple of {PAD}")
    stretches = cut_stretches(text.ptr, options.minibatch)
    if not len(stretches):
        return
    if method == "full":
        function = full.train_full
        threads = WARP
    else:
        function = par.train_par
        threads = min(THREADS, D)
    shared = _shared_bytes(method, options, D)
    launch(
        function,
        min(BLOCKS, len(stretches)),
        threads,
        upload(stretches, "stretches"),
        cached_copies(text, "text"),
        on_device(options, table=cached_copy(options.table, "negatives")),
        D,
        resident(W_in, "W_in").reshape(W_in.size),
        resident(W_out, "W_out").reshape(W_out.size),
        shared=shared,
    )


def _shared_bytes(method: str, options: TrainingOptions, D: int) -> int:
    """Return the bytes of a block's shared memory. Raises ValueError if a device does not have them."""
    if method == "full":
        nbytes = 4 * full.shared_floats(options, D)
        fits = full.fits_static_arrays(options)
    else:
        nbytes = 4 * par.shared_floats(options, D)
        fits = True
    limit = shared_memory_limit()
    if not fits or nbytes > limit:
        raise ValueError(
            f"{D} columns, window {options.window}, {options.negative} negatives and mini-batches of "
            f"{options.minibatch} words take {nbytes:,} bytes of a "
            f"block's shared memory, which has {limit:,}: choose smaller ones, or device 'cpu'"
        )
    return nbytes


def cut_stretches(ptr: np.ndarray, minibatch: int) -> np.ndarray:
    """Cut documents into stretches: (n, 4) int64, first and stop of the document, first and stop of the stretch."""
    length = STRETCH * minibatch
    pieces = -(-np.diff(ptr) // length)
    document = np.repeat(np.arange(len(ptr) - 1), pieces)
    nth = np.arange(len(document)) - np.searchsorted(document, document)
    first = ptr[document] + nth * length
    last = np.minimum(first + length, ptr[document + 1])
    return np.stack([ptr[document], ptr[document + 1], first, last], axis=1).astype(np.int64)
