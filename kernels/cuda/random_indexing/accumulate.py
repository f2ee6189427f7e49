"""Random indexing on a CUDA device: a block a word, whose sums lie in shared memory.

A thread takes one neighbour of one occurrence and adds its rotated seed; a rotation is an address. Words that occur
often are cut into pieces, so that blocks have alike much to do. benchmarks/papers has the form of the paper.
"""

from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32

from ...random_indexing.accumulate import INT32_MAX, WIDTH
from ...random_indexing.text import Tokens, Window
from ..jit import device, kernel, launch, shared_limit
from ..memory import fetched, filled, new, resident
from ..warp import FULL, WARP

#: Threads a block.
THREADS = 256
#: Occurrences of one word that a block takes.
PIECE = 1 << 10
LOW, HALF = np.uint32(0xFFFF), np.uint32(16)


def pieces_of(ptr: np.ndarray) -> np.ndarray:
    """Cut words' occurrences into pieces: (P, 3) int64, word, first and last + 1 of ``at``."""
    words = np.repeat(np.arange(len(ptr) - 1), -(-np.diff(ptr) // PIECE))
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    first = ptr[words] + nth * PIECE
    return np.stack([words, first, np.minimum(first + PIECE, ptr[words + 1])], axis=1).astype(np.int64)


def window_of(window: Window, dimension: int) -> tuple[Any, ...]:
    """Return offsets, rotations from 0 to dimension - 1 and weights of a window on the device."""
    return filled(window.offsets), filled(window.shifts % dimension), filled(window.weights)


def text_of(tokens: Tokens) -> tuple[Any, Any]:
    """Return the padded text and the occurrences on the device."""
    return resident(tokens.text), resident(tokens.occurrences)


def check_sums(tokens: Tokens, window: Window) -> None:
    """Raise OverflowError when a word is so frequent in the chunk that a sum might pass 2^31."""
    most = int(np.diff(tokens.occurrence_ptr).max(initial=0)) * int(window.weights.sum())
    if most > INT32_MAX:
        raise OverflowError(f"a word's sums in one chunk can reach {most}, above 2^31 - 1: cut the corpus smaller")


def zeros(shape: tuple[int, int], dtype: Any) -> Any:
    """Return an array of zeros on the device."""
    out = new(shape, dtype)
    if min(shape):
        launch(_clear, -(-shape[0] * shape[1] // THREADS), THREADS, out)
    return out


@kernel
def _clear(out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i // out.shape[1], i % out.shape[1]] = 0


# --- sparse seeds ---


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Sum equation 2.7 over the words of ``ptr``: (words, dimension) int32, exactly; as the CPU's.

    ``seeds`` (items, L / 2) uint32 by number in text. Raises OverflowError as the CPU's; DeviceError.
    """
    check_sums(tokens, window)
    out, pieces = zeros((len(tokens.occurrence_ptr) - 1, dimension), np.int32), pieces_of(tokens.occurrence_ptr)
    width = min(dimension, shared_limit() // 4)
    tiles = -(-dimension // width)
    if len(pieces):
        where = text_of(tokens), window_of(window, dimension)
        launch(
            _accumulate, tiles * len(pieces), THREADS, *where, filled(pieces), resident(seeds), width, out,
            shared=4 * width,
        )  # fmt: skip
    return fetched(out)


@kernel
def _accumulate(text, window, pieces, seeds, width, out):
    """Sum a tile of ``width`` columns of a piece a block; pieces of the same word add up by atomics, exactly."""
    (words, at), (offsets, shifts, weights) = text, window
    dimension, n_offsets, thread = np.int64(out.shape[1]), len(offsets), cuda.threadIdx.x
    p, column = cuda.blockIdx.x % len(pieces), cuda.blockIdx.x // len(pieces) * width
    sums = cuda.shared.array(0, int32)
    for k in range(thread, width, cuda.blockDim.x):
        sums[k] = 0
    cuda.syncthreads()
    # Threads side by side take the window of the same occurrence: their neighbours stand side by side.
    for e in range(thread, (pieces[p, 2] - pieces[p, 1]) * n_offsets, cuda.blockDim.x):
        j = e % n_offsets
        w = words[np.int64(at[pieces[p, 1] + e // n_offsets]) + offsets[j]]
        if w < len(seeds):  # else it is the null term
            for k in range(seeds.shape[1]):
                up = rotated(np.int64(seeds[w, k] & LOW), shifts[j], dimension) - column
                down = rotated(np.int64(seeds[w, k] >> HALF), shifts[j], dimension) - column
                if 0 <= up < width:
                    cuda.atomic.add(sums, up, weights[j])
                if 0 <= down < width:
                    cuda.atomic.sub(sums, down, weights[j])
    cuda.syncthreads()
    for k in range(thread, min(width, dimension - column), cuda.blockDim.x):
        if sums[k]:
            cuda.atomic.add(out, (pieces[p, 0], column + k), sums[k])


@device
def rotated(position, shift, dimension):
    """Return a position moved by 0 <= shift < dimension."""
    position += shift
    return position - dimension if position >= dimension else position


# --- dense seeds ---


def make_slabs(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Normalise the rows ``rows`` of (V, D) and cut them by columns: (D / WIDTH rounded up, n, WIDTH) float32."""
    slabs = new((-(-matrix.shape[1] // WIDTH), len(rows), WIDTH), np.float32)
    launch(_make_slabs, len(rows), THREADS, resident(matrix), filled(rows), slabs)
    return fetched(slabs, remember=True)


@kernel
def _make_slabs(matrix, rows, slabs):
    row, dimension = np.int64(rows[cuda.blockIdx.x]), matrix.shape[1]
    scale = _scale(matrix, row)
    for k in range(cuda.threadIdx.x, slabs.shape[0] * WIDTH, cuda.blockDim.x):
        value = matrix[row, k] * scale if k < dimension else float32(0)
        slabs[k // WIDTH, cuda.blockIdx.x, k % WIDTH] = value


@device
def _scale(matrix, row):
    """Return one over the length of a row, 0 for a row of zeros: the whole block is on one vector (section 6)."""
    lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
    parts = cuda.shared.array(WARP, float64)
    square = float64(0)
    for k in range(cuda.threadIdx.x, matrix.shape[1], cuda.blockDim.x):
        square += float64(matrix[row, k]) * float64(matrix[row, k])
    for bits in (16, 8, 4, 2, 1):
        square += cuda.shfl_xor_sync(FULL, square, bits)
    if lane == 0:
        parts[warp] = square
    cuda.syncthreads()
    total = float64(0)
    for w in range(cuda.blockDim.x // WARP):
        total += parts[w]
    return float32(1.0 / total**0.5) if total > 0 else float32(0)


def accumulate_dense(tokens: Tokens, window: Window, slabs: np.ndarray, first: int, out: np.ndarray) -> None:
    """Add equation 2.7 with dense seeds to ``out`` (words, D) float32; slabs hold the words from number ``first`` on.

    Neighbours outside of the slabs add nothing, so that seeds may come in blocks. Sums run in a fixed order.
    """
    pieces = pieces_of(tokens.occurrence_ptr)
    if not len(pieces):
        return
    parts, sums = new((len(pieces), out.shape[1]), np.float32), new(out.shape, np.float32)
    tiles = -(-out.shape[1] // THREADS)
    where = text_of(tokens), window_of(window, out.shape[1])
    launch(_accumulate_dense, tiles * len(pieces), THREADS, *where, filled(pieces), resident(slabs), first, parts)
    heads = np.searchsorted(pieces[:, 0], np.arange(len(out) + 1)).astype(np.int64)
    launch(_add_pieces, tiles * len(out), THREADS, filled(heads), parts, sums)
    out += fetched(sums)


@kernel
def _accumulate_dense(text, window, pieces, slabs, first, parts):
    """Sum a piece: a thread an element of the vector (section 5), whose place in a neighbour's row is rotated back."""
    (words, at), (offsets, shifts, weights) = text, window
    dimension = np.int64(parts.shape[1])
    p, k = cuda.blockIdx.x % len(pieces), cuda.blockIdx.x // len(pieces) * cuda.blockDim.x + cuda.threadIdx.x
    if k >= dimension:
        return
    total = float32(0)
    for i in range(pieces[p, 1], pieces[p, 2]):
        for j in range(len(offsets)):
            row = np.int64(words[np.int64(at[i]) + offsets[j]]) - first
            if 0 <= row < slabs.shape[1]:
                source = k - shifts[j]
                source = source + dimension if source < 0 else source
                total += float32(weights[j]) * slabs[source // WIDTH, row, source % WIDTH]
    parts[p, k] = total


@kernel
def _add_pieces(heads, parts, sums):
    """Add up the pieces of a word in their order."""
    word = cuda.blockIdx.x % len(sums)
    k = cuda.blockIdx.x // len(sums) * cuda.blockDim.x + cuda.threadIdx.x
    if k < sums.shape[1]:
        total = float32(0)
        for p in range(heads[word], heads[word + 1]):
            total += parts[p, k]
        sums[word, k] = total


# --- rows ---


def normalised(rows: np.ndarray) -> np.ndarray:
    """Divide rows by their Euclidean length: (n, D) float32 of (n, D) int32 or float32; rows of zeros stay."""
    out = new(rows.shape, np.float32)
    if len(rows):
        launch(_normalise, len(rows), THREADS, resident(rows), out)
    return fetched(out)


@kernel
def _normalise(rows, out):
    scale = _scale(rows, cuda.blockIdx.x)
    for k in range(cuda.threadIdx.x, rows.shape[1], cuda.blockDim.x):
        out[cuda.blockIdx.x, k] = rows[cuda.blockIdx.x, k] * scale
