"""Random indexing on a CUDA device: sums of seeds over the neighbours of each word.

Source: Polok and Smrž, Implementing Random Indexing on GPU (2011), equation 2.7. The paper's passes, which need no
atomic operations, are in benchmarks/papers/random_indexing_passes.py.

Grid, sparse seeds (`accumulate`). A word's occurrences are cut into pieces of up to `PIECE`, so that blocks have about
the same work. A block has one piece, and as many columns of the word's sums as its shared memory holds. Each thread
takes one neighbour of one occurrence at a time, and adds the neighbour's seed, rotated, to the sums by atomic
additions. It reads four pairs of the seed at a time. Nothing is moved for a rotation: it changes the address. At the
end, the block adds its sums to the result. Sums are integers, so the order does not matter, and they equal the CPU's.

Atomic additions to shared memory limit the kernel: 32 lanes hit random banks, so each instruction takes 3.5 passes on
average. The kernel makes fewer of them. Almost half of all neighbours are among the `COUNTED` most frequent words of
the chunk. In long pieces, the block only counts these, by word and offset. Afterwards it adds the seed of each word and
offset once, times its count.

Grid, dense seeds (`accumulate_dense`). A block has one piece, and each thread has one column (section 5). Pieces are
added in their order, so that two runs give the same sums. They differ from the CPU's by rounding.

Tests against the CPU's sums: tests/kernels/cuda/random_indexing/test_accumulate.py.
Reference implementation: tests/helpers/naive.py, `ri_train` and `ri_normalised`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import cuda, float32, float64, int32, int64
from numpy.typing import DTypeLike

from ...random_indexing import rows as cpu
from ...random_indexing.accumulate import INT32_MAX, WIDTH
from ...random_indexing.rows import OVERFLOW
from ...random_indexing.text import Tokens, Window
from ..arrays import DeviceArray
from ..jit import device, kernel
from ..launch import launch, shared_memory_limit
from ..memory import allocate, cached_copy, clear, derived, download, leave_on_device, readable, resident, upload
from ..residents import RESIDENTS
from ..vectors import load4
from ..warp import WARP, warp_sum

#: The padded text and the occurrences on the device.
DeviceText = tuple[DeviceArray, DeviceArray]
#: Offsets, rotations and weights of a window on the device.
DeviceWindow = tuple[DeviceArray, DeviceArray, DeviceArray]

#: Threads per block.
THREADS = 256
#: Occurrences of one word that a block takes, at most.
PIECE = 1 << 10
#: Number of the chunk's most frequent words that are counted first, and the occurrences of a piece from which on this
#: pays. On wiki8, 64 words save a third of the additions, 32 save 30%. The number is odd, so that the counters of one
#: word at several offsets, which neighbouring lanes need at the same time, lie in different banks.
COUNTED = 65
COUNT_FROM = 32
#: The two positions of a packed pair: +1 in the low half, -1 in the high half.
LOW = np.uint32(0xFFFF)
HALF = np.uint32(16)


def cut_pieces(occurrence_ptr: np.ndarray) -> np.ndarray:
    """Cut the occurrences of each word into pieces ``occurrences[first:stop]``: (P, 3) int64, word, first and stop."""
    pieces = -(-np.diff(occurrence_ptr) // PIECE)
    words = np.repeat(np.arange(len(occurrence_ptr) - 1), pieces)
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    first = occurrence_ptr[words] + nth * PIECE
    last = np.minimum(first + PIECE, occurrence_ptr[words + 1])
    return np.stack([words, first, last], axis=1).astype(np.int64)


def upload_window(window: Window, dimension: int) -> DeviceWindow:
    """Return offsets, rotations from 0 to dimension - 1, and weights of a window on the device."""
    return (
        upload(window.offsets, "window"),
        upload(window.shifts % dimension, "window"),
        upload(window.weights, "window"),
    )


def text_on_device(tokens: Tokens) -> DeviceText:
    """Return the padded text and the occurrences on the device."""
    return cached_copy(tokens.text, "text"), cached_copy(tokens.occurrences, "occurrences")


def check_sums(tokens: Tokens, window: Window) -> None:
    """Raise OverflowError if a word is so frequent in the chunk that a sum might exceed 2^31 - 1."""
    most = int(np.diff(tokens.occurrence_ptr).max(initial=0)) * int(window.weights.sum())
    if most > INT32_MAX:
        raise OverflowError(
            f"a word's sums in one chunk can reach {most}, above 2^31 - 1: ingest with a smaller chunk_tokens"
        )


def zeros(shape: tuple[int, int], dtype: DTypeLike, cause: str) -> DeviceArray:
    """Return an array of zeros on the device."""
    out = allocate(shape, dtype, cause)
    clear(out)
    return out


# --- sparse seeds ---


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Sum equation 2.7 over the words of ``occurrence_ptr``: (words, dimension) int32, exactly.

    The result stays on the device. Otherwise arguments, result and OverflowError are those of the CPU function. Raises
    also DeviceError.
    """
    check_sums(tokens, window)
    out = zeros((len(tokens.occurrence_ptr) - 1, dimension), np.int32, "sums")
    pieces = cut_pieces(tokens.occurrence_ptr)
    # A block sums and counts in shared memory. A longer row is cut into tiles of columns, one block each.
    n_numbers = shared_memory_limit() // 4
    n_counted = _counted_words(len(window.offsets), n_numbers)
    n_counters = n_counted * len(window.offsets)
    width = min(dimension, n_numbers - n_counters)
    tiles = -(-dimension // width)
    if len(pieces):
        launch(
            _accumulate,
            tiles * len(pieces),
            THREADS,
            text_on_device(tokens),
            upload_window(window, dimension),
            upload(pieces, "pieces"),
            upload_seeds(seeds),
            width,
            n_counted,
            out,
            shared=4 * (width + n_counters),
        )
    return leave_on_device(out, "sums")


def _counted_words(n_offsets: int, n_numbers: int) -> int:
    """Return how many words are counted, `COUNTED` or fewer: a wide window has many counters for each of them.

    They take half of a block's ``n_numbers`` numbers in shared memory, at most.
    """
    n_words = min(COUNTED, n_numbers // 2 // n_offsets)
    if n_words % 2 == 0:
        n_words -= 1
    return max(0, n_words)


class DeviceSeeds(NamedTuple):
    """Seeds on the device, in rows that `load4` can read."""

    pairs: DeviceArray  # (n_words * length,) uint32: each row has n_pairs pairs, then zeros
    n_words: int
    length: int
    n_pairs: int


def upload_seeds(seeds: np.ndarray) -> DeviceSeeds:
    """Return seeds (V, pairs) uint32 on the device."""
    n_words, n_pairs = seeds.shape
    # A row of up to eight pairs lies in one sector of 32 bytes, which is what the device reads at least.
    length = 4 if n_pairs <= 4 else -(-n_pairs // 8) * 8

    def aligned() -> np.ndarray:
        rows = np.zeros((n_words, length), seeds.dtype)
        rows[:, :n_pairs] = seeds
        return rows.reshape(-1)

    return DeviceSeeds(cached_copy(derived(seeds, "aligned", aligned), "seeds"), n_words, length, n_pairs)


@kernel
def _accumulate(
    text: DeviceText,
    window: DeviceWindow,
    pieces: DeviceArray,
    seeds: DeviceSeeds,
    width: int,
    most_counted: int,
    out: DeviceArray,
) -> None:
    """Add up the rotated seeds of the neighbours of each piece. A thread block adds ``width`` columns of one piece.

    ``pieces`` (P, 3) are those of `cut_pieces`. Block b has piece b modulo P, and tile b divided by P, so that blocks
    that run at the same time work on neighbouring pieces, which read the same part of the text. A thread's neighbours
    are ``blockDim`` positions from each other in the list of all (occurrence, offset) of the piece.

    The dynamic shared memory has ``width`` sums, then a counter for each offset and each of ``most_counted`` words. The
    block adds its sums to row ``pieces[p, 0]`` of ``out`` (words, dimension) by atomic additions, since a word may have
    several pieces.
    """
    words, occurrences = text
    n_words = seeds.n_words
    offsets, shifts, weights = window
    dimension = np.int64(out.shape[1])
    n_offsets = len(offsets)
    thread = cuda.threadIdx.x
    p = cuda.blockIdx.x % len(pieces)
    column = cuda.blockIdx.x // len(pieces) * width
    n_occurrences = pieces[p, 2] - pieces[p, 1]
    # Words are numbered by falling frequency.
    n_counted = np.int64(0)
    if n_occurrences >= COUNT_FROM:
        n_counted = min(np.int64(most_counted), np.int64(n_words))
    sums = cuda.shared.array(0, int32)
    for k in range(thread, width + most_counted * n_offsets, cuda.blockDim.x):
        sums[k] = 0
    cuda.syncthreads()
    # Neighbouring threads have neighbours of the same occurrence, which are next to each other in the text.
    for e in range(thread, n_occurrences * n_offsets, cuda.blockDim.x):
        j = e % n_offsets
        w = np.int64(words[np.int64(occurrences[pieces[p, 1] + e // n_offsets]) + offsets[j]])
        if w < n_counted:
            cuda.atomic.add(sums, width + j * most_counted + w, 1)
        elif w < n_words:  # other numbers are padding between documents
            _add_seed(sums, seeds, w, weights[j], shifts[j], dimension, column, width)
    cuda.syncthreads()
    for e in range(thread, n_counted * n_offsets, cuda.blockDim.x):
        j = e % n_offsets
        w = np.int64(e // n_offsets)
        times = sums[width + j * most_counted + w]
        if times:
            _add_seed(sums, seeds, w, weights[j] * times, shifts[j], dimension, column, width)
    cuda.syncthreads()
    for k in range(thread, min(width, dimension - column), cuda.blockDim.x):
        if sums[k]:
            cuda.atomic.add(out, (pieces[p, 0], column + k), sums[k])


@device
def _add_seed(
    sums: DeviceArray,
    seeds: DeviceSeeds,
    w: int,
    weight: int,
    shift: int,
    dimension: int,
    column: int,
    width: int,
) -> None:
    """Add the seed of word ``w`` to a word's sums, ``weight`` times; see `_add_pair` for the other arguments."""
    pairs, _, length, n_pairs = seeds
    for first in range(0, n_pairs, 4):
        # Not a loop over the four: an index that varies would move them to local memory.
        a, b, c, d = load4(pairs, w * length + first)
        _add_pair(sums, a, weight, shift, dimension, column, width)
        if first + 1 < n_pairs:
            _add_pair(sums, b, weight, shift, dimension, column, width)
        if first + 2 < n_pairs:
            _add_pair(sums, c, weight, shift, dimension, column, width)
        if first + 3 < n_pairs:
            _add_pair(sums, d, weight, shift, dimension, column, width)


@device
def _add_pair(
    sums: DeviceArray, pair: np.uint32, weight: int, shift: int, dimension: int, column: int, width: int
) -> None:
    """Add a pair of a seed, rotated by ``shift``, to the ``width`` columns of a word's sums from ``column`` on."""
    up = rotated(np.int64(pair & LOW), shift, dimension) - column
    down = rotated(np.int64(pair >> HALF), shift, dimension) - column
    if 0 <= up < width:
        cuda.atomic.add(sums, up, weight)
    if 0 <= down < width:
        cuda.atomic.sub(sums, down, weight)


@device
def rotated(position: int, shift: int, dimension: int) -> int:
    """Return (position + shift) modulo dimension, for 0 <= shift < dimension."""
    position += shift
    return position - dimension if position >= dimension else position


# --- sums of a shard ---


def sum_at(n_rows: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the sum (n_rows, columns) of several parts, as the CPU function does: on the device if one is there.

    The sum stays there, too. For integers, the host waits for the answer whether one has overflowed. Raises
    OverflowError and DeviceError.
    """
    if not any(RESIDENTS.find(rows) is not None for _, rows in parts):
        return cpu.sum_at(n_rows, parts)
    first = parts[0][1]
    total = zeros((n_rows, first.shape[1]), first.dtype, "sums")
    is_float = first.dtype == np.float32
    overflow = upload(np.zeros(1, np.int32), "overflow")
    for positions, rows in parts:
        if not len(positions):
            continue
        where = upload(positions.astype(np.int64), "positions")
        if is_float:
            launch(_add_floats, len(positions), THREADS, where, readable(rows, "sums"), total)
        else:
            launch(_add_integers, len(positions), THREADS, where, readable(rows, "sums"), total, overflow)
    if not is_float and download(overflow, "overflow")[0]:
        raise OverflowError(OVERFLOW)
    return leave_on_device(total, "sums")


@kernel
def _add_floats(positions: DeviceArray, rows: DeviceArray, total: DeviceArray) -> None:
    """Add one row in each block."""
    position = positions[cuda.blockIdx.x]
    for k in range(cuda.threadIdx.x, total.shape[1], cuda.blockDim.x):
        total[position, k] += rows[cuda.blockIdx.x, k]


@kernel
def _add_integers(positions: DeviceArray, rows: DeviceArray, total: DeviceArray, overflow: DeviceArray) -> None:
    """Add one row in each block, and set ``overflow[0]`` if a sum does not fit into 32 bits."""
    position = positions[cuda.blockIdx.x]
    for k in range(cuda.threadIdx.x, total.shape[1], cuda.blockDim.x):
        added = int64(total[position, k]) + int64(rows[cuda.blockIdx.x, k])
        if added > INT32_MAX or added < -INT32_MAX - 1:
            overflow[0] = 1
        else:
            total[position, k] = added


# --- dense seeds ---


def make_slabs(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Normalise some rows of several blocks, and cut them by columns: (D / WIDTH rounded up, n, WIDTH) float32.

    Each part has a block (V, D), and which of its rows are wanted. The result stays on the device.
    """
    n = sum(len(rows) for _, rows in parts)
    slabs = allocate((-(-parts[0][0].shape[1] // WIDTH), n, WIDTH), np.float32, "slabs")
    first = 0
    for block, rows in parts:
        launch(_fill_slabs, len(rows), THREADS, cached_copy(block, "matrix"), upload(rows, "rows"), slabs, first)
        first += len(rows)
    return leave_on_device(slabs, "slabs")


@kernel
def _fill_slabs(matrix: DeviceArray, rows: DeviceArray, slabs: DeviceArray, first: int) -> None:
    """Normalise one row in each block, and write it to the rows of the slabs from ``first`` on."""
    row = np.int64(rows[cuda.blockIdx.x])
    dimension = matrix.shape[1]
    scale = _scale(matrix, row)
    for k in range(cuda.threadIdx.x, slabs.shape[0] * WIDTH, cuda.blockDim.x):
        value = matrix[row, k] * scale if k < dimension else float32(0)
        slabs[k // WIDTH, first + cuda.blockIdx.x, k % WIDTH] = value


@device
def _scale(matrix: DeviceArray, row: int) -> np.float32:
    """Return 1 / length of a row, 0 for a row of zeros. The whole block works on one row (section 6)."""
    lane = cuda.threadIdx.x % WARP
    warp = cuda.threadIdx.x // WARP
    sums = cuda.shared.array(WARP, float64)  # of each warp of the block
    square = float64(0)
    for k in range(cuda.threadIdx.x, matrix.shape[1], cuda.blockDim.x):
        square += float64(matrix[row, k]) * float64(matrix[row, k])
    square = warp_sum(square)
    if lane == 0:
        sums[warp] = square
    cuda.syncthreads()
    total = float64(0)
    for w in range(cuda.blockDim.x // WARP):
        total += sums[w]
    return float32(1.0 / total**0.5) if total > 0 else float32(0)


def accumulate_dense(tokens: Tokens, window: Window, slabs: np.ndarray, first: int, out: np.ndarray) -> None:
    """Add equation 2.7 with dense seeds to ``out`` (words, D) float32; slabs hold the words from number ``first`` on.

    Neighbours outside of the slabs add nothing, so seeds may be passed block by block. ``out`` stays on the device.
    Raises DeviceError.
    """
    pieces = cut_pieces(tokens.occurrence_ptr)
    if not len(pieces):
        return
    dimension = out.shape[1]
    parts = allocate((len(pieces), dimension), np.float32, "sums of pieces")
    tiles = -(-dimension // THREADS)
    launch(
        _accumulate_dense,
        tiles * len(pieces),
        THREADS,
        text_on_device(tokens),
        upload_window(window, dimension),
        upload(pieces, "pieces"),
        resident(slabs, "slabs"),
        first,
        parts,
    )
    heads = np.searchsorted(pieces[:, 0], np.arange(len(out) + 1)).astype(np.int64)
    launch(_add_pieces, tiles * len(out), THREADS, upload(heads, "heads"), parts, resident(out, "sums"))


@kernel
def _accumulate_dense(
    text: DeviceText,
    window: DeviceWindow,
    pieces: DeviceArray,
    slabs: DeviceArray,
    first: int,
    parts: DeviceArray,
) -> None:
    """Sum ``blockDim.x`` columns of a piece in each block, one per thread, which undoes the rotation of a neighbour."""
    words, occurrences = text
    offsets, shifts, weights = window
    dimension = np.int64(parts.shape[1])
    p = cuda.blockIdx.x % len(pieces)
    k = cuda.blockIdx.x // len(pieces) * cuda.blockDim.x + cuda.threadIdx.x
    if k >= dimension:
        return
    total = float32(0)
    for i in range(pieces[p, 1], pieces[p, 2]):
        for j in range(len(offsets)):
            row = np.int64(words[np.int64(occurrences[i]) + offsets[j]]) - first
            # Neighbours outside this block of seeds are added by another call.
            if 0 <= row < slabs.shape[1]:
                source = k - shifts[j]
                # The shifts are below the dimension, so one addition replaces the slow modulo.
                source = source + dimension if source < 0 else source
                total += float32(weights[j]) * slabs[source // WIDTH, row, source % WIDTH]
    parts[p, k] = total


@kernel
def _add_pieces(heads: DeviceArray, parts: DeviceArray, sums: DeviceArray) -> None:
    """Add the pieces of a word to its sums (W, D) float32, in their order; each thread has one column."""
    word = cuda.blockIdx.x % len(sums)
    k = cuda.blockIdx.x // len(sums) * cuda.blockDim.x + cuda.threadIdx.x
    if k < sums.shape[1]:
        total = float32(0)
        for p in range(heads[word], heads[word + 1]):
            total += parts[p, k]
        sums[word, k] += total
