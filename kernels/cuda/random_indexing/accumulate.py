"""Random indexing on a CUDA device: sums of seeds over the neighbours of each word.

Source: Polok and Smrž, Implementing Random Indexing on GPU (2011), equation 2.7. The paper's passes, which need no
atomic operations, are in benchmarks/papers/random_indexing_passes.py.

Grid, sparse seeds (`accumulate`). A word's occurrences are cut into pieces of up to `PIECE`, so that blocks have about
the same work. A block has one piece, and as many columns of the word's sums as its shared memory holds. Each thread
takes one neighbour of one occurrence at a time, and puts it into the queue of its warp. When the queue has a neighbour
for each thread, each adds the seed of one, rotated, to the sums by atomic additions. It reads four pairs of the seed at
a time. Nothing is moved for a rotation: it changes the address. At the end, the block adds its sums to the result. Sums
are integers, so the order does not matter, and they equal the CPU's.

The kernel makes fewer additions to shared memory than the equation has. Almost half of all neighbours are among the
`COUNTED` most frequent words of the chunk. In long pieces, the block only counts these, by word and offset. Afterwards
it adds the seed of each word and offset once, times its count. What limits the kernel is instructions, and not shared
memory, although 32 threads hit random banks, so that an addition takes 3.5 passes on average.

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
from ..arrays import Compiled, DeviceArray
from ..jit import device, kernel
from ..launch import launch, shared_memory_limit
from ..memory import allocate, cached_copy, clear, derived, download, leave_on_device, readable, resident, upload
from ..residents import RESIDENTS
from ..vectors import load4, store4
from ..warp import WARP, ballot, warp_sum

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
#: Numbers of a warp's queue of neighbours, two for each, and of all queues of a block.
QUEUE = 2 * 2 * WARP
QUEUES = THREADS // WARP * QUEUE
#: Bits of a queued number for how often a seed is added, at most `PIECE` times. The others have the offset's number.
TIMES_BITS = np.uint32(11)
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
    n_numbers = shared_memory_limit() // 16 * 4 - QUEUES
    n_counted = _counted_words(len(window.offsets), n_numbers)
    n_counters = n_counted * len(window.offsets)
    width = min(dimension, n_numbers - n_counters)
    tiles = -(-dimension // width)
    if len(pieces):
        launch(
            _ACCUMULATE[tiles > 1],
            tiles * len(pieces),
            THREADS,
            text_on_device(tokens),
            upload_window(window, dimension),
            upload(pieces, "pieces"),
            upload_seeds(seeds),
            width,
            n_counted,
            out,
            shared=-(-(width + n_counters) // 4) * 16,  # threads clear four numbers at a time
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


def _make_accumulate(is_tiled: bool) -> Compiled:
    """Return the kernel whose blocks add up ``width`` columns of one piece; ``is_tiled`` if these are not all columns.

    ``pieces`` (P, 3) are those of `cut_pieces`. Block b has piece b modulo P, and tile b divided by P, so that blocks
    that run at the same time work on neighbouring pieces, which read the same part of the text. A thread's neighbours
    are ``blockDim`` positions from each other in the list of all (occurrence, offset) of the piece.

    The dynamic shared memory has ``width`` sums, then a counter for each offset and each of ``most_counted`` words. The
    block adds its sums to row ``pieces[p, 0]`` of ``out`` (words, dimension) by atomic additions, since a word may have
    several pieces.
    """

    @kernel
    def accumulate_piece(
        text: DeviceText,
        window: DeviceWindow,
        pieces: DeviceArray,
        seeds: DeviceSeeds,
        width: int,
        most_counted: int,
        out: DeviceArray,
    ) -> None:
        words, occurrences = text
        offsets, shifts, weights = window
        # Without a sign: Numba lets other indices count from the end, and looks at each of them.
        thread = np.uint32(cuda.threadIdx.x)
        lane = np.uint32(thread % WARP)
        n_threads = np.uint32(cuda.blockDim.x)
        n_offsets = np.uint32(len(offsets))
        p = np.uint64(cuda.blockIdx.x % len(pieces))
        column = cuda.blockIdx.x // len(pieces) * width
        first = pieces[p, np.uint64(1)]
        n_occurrences = np.uint32(pieces[p, np.uint64(2)] - first)
        # Words are numbered by falling frequency.
        n_words = np.uint32(seeds.n_words)
        n_counted = np.uint32(min(most_counted, seeds.n_words) if n_occurrences >= COUNT_FROM else 0)
        place = (out.shape[1], shifts, weights, column, width)
        sums = cuda.shared.array(0, int32)
        queues = cuda.shared.array(QUEUES, int32)
        own = np.uint32(thread // WARP * QUEUE)
        _clear_numbers(sums, width + (n_counted > 0) * most_counted * len(offsets), thread)
        cuda.syncthreads()
        # Neighbouring threads have neighbours of the same occurrence, which are next to each other in the text.
        i, j = np.uint32(thread // n_offsets), np.uint32(thread % n_offsets)
        n_queued = np.uint32(0)
        n_rounds = np.uint32((n_occurrences * n_offsets + n_threads - 1) // n_threads)
        for _ in range(n_rounds):
            w = n_words
            if i < n_occurrences:
                w = words[np.uint64(occurrences[np.uint64(first + i)] + offsets[j])]
                if w < n_counted:
                    cuda.atomic.add(sums, np.uint32(width + j * most_counted + w), 1)
                    w = n_words
            # Other numbers are padding between documents.
            n_queued = _add_later(is_tiled, sums, queues, own, n_queued, w < n_words, w, j, 1, seeds, place, lane)
            i, j = _next_neighbour(i, j, n_threads, n_offsets)
        # The counters are complete. Now the seeds of counted words are added.
        cuda.syncthreads()
        for before in range(thread - lane, n_counted * n_offsets, n_threads):
            e = np.uint32(before + lane)
            w, j = np.uint32(e // n_offsets), np.uint32(e % n_offsets)
            times = sums[np.uint32(width + j * most_counted + w)] if w < n_counted else 0
            n_queued = _add_later(is_tiled, sums, queues, own, n_queued, times > 0, w, j, times, seeds, place, lane)
        if lane < n_queued:
            _add_queued(is_tiled, sums, queues, np.uint32(own + 2 * lane), seeds, place)
        cuda.syncthreads()
        _add_sums(sums, out[pieces[p, np.uint64(0)]], column, min(width, out.shape[1] - column), thread)

    return accumulate_piece


_ACCUMULATE = {is_tiled: _make_accumulate(is_tiled) for is_tiled in (False, True)}


@device
def _next_neighbour(i: np.uint32, j: np.uint32, step: np.uint32, n_offsets: np.uint32) -> tuple[np.uint32, np.uint32]:
    """Return occurrence and offset of the neighbour that is ``step`` after the one of occurrence i and offset j."""
    i = np.uint32(i + step // n_offsets)
    j = np.uint32(j + step % n_offsets)
    if j >= n_offsets:
        return np.uint32(i + 1), np.uint32(j - n_offsets)
    return i, j


@device
def _clear_numbers(numbers: DeviceArray, n: int, thread: np.uint32) -> None:
    """Set the first n numbers to zero, and up to three after them."""
    k = np.uint32(4 * thread)
    while k < n:
        store4(numbers, k, (int32(0), int32(0), int32(0), int32(0)))
        k = np.uint32(k + 4 * cuda.blockDim.x)


@device
def _add_sums(sums: DeviceArray, row: DeviceArray, column: int, n: int, thread: np.uint32) -> None:
    """Add the first n sums to a row of the result, from a column on."""
    k = thread
    while k < n:
        number = sums[k]
        if number:
            cuda.atomic.add(row, np.uint32(column + k), number)
        k = np.uint32(k + cuda.blockDim.x)


@device
def _add_later(
    is_tiled: bool,
    sums: DeviceArray,
    queues: DeviceArray,
    own: np.uint32,
    n: np.uint32,
    is_wanted: bool,
    w: np.uint32,
    j: np.uint32,
    times: int,
    seeds: DeviceSeeds,
    place: tuple[int, DeviceArray, DeviceArray, int, int],
    lane: np.uint32,
) -> np.uint32:
    """Append a neighbour w, at the offset number j, of each thread that wants it to the warp's queue of n neighbours.

    Return the new length of the queue. When it has a neighbour for each thread of the warp, their seeds are added.
    Without it, threads whose neighbours are counted, or are padding, would wait for the others.
    """
    votes = ballot(is_wanted)
    if is_wanted:
        at = np.uint32(own + 2 * (n + cuda.popc(votes & ((np.uint32(1) << lane) - np.uint32(1)))))
        queues[at] = np.int32(w)
        queues[np.uint32(at + 1)] = np.int32(j << TIMES_BITS | np.uint32(times))
    n = np.uint32(n + cuda.popc(votes))
    cuda.syncwarp()
    if n >= WARP:
        n = np.uint32(n - WARP)
        _add_queued(is_tiled, sums, queues, np.uint32(own + 2 * (n + lane)), seeds, place)
        cuda.syncwarp()
    return n


@device
def _add_queued(
    is_tiled: bool,
    sums: DeviceArray,
    queues: DeviceArray,
    at: np.uint32,
    seeds: DeviceSeeds,
    place: tuple[int, DeviceArray, DeviceArray, int, int],
) -> None:
    """Add the seed of the queued neighbour to a word's sums, as often as the queue says.

    ``place``: dimension, shifts and weights of the window, first column, and width of the sums.
    """
    dimension, shifts, weights, column, width = place
    pairs, _, length, n_pairs = seeds
    queued = np.uint32(queues[np.uint32(at + 1)])
    j = np.uint32(queued >> TIMES_BITS)
    weight = np.int32(weights[j] * (queued & (np.uint32(1) << TIMES_BITS) - np.uint32(1)))
    tile = np.uint32(shifts[j]), np.uint32(dimension), np.uint32(column), np.uint32(width)
    head = np.uint64(np.uint32(queues[at])) * np.uint64(length)
    for first in range(0, n_pairs, 4):
        # Not a loop over the four: an index that varies would move them to local memory.
        a, b, c, d = load4(pairs, head + np.uint64(first))
        _add_pair(is_tiled, sums, a, weight, tile)
        if first + 1 < n_pairs:
            _add_pair(is_tiled, sums, b, weight, tile)
        if first + 2 < n_pairs:
            _add_pair(is_tiled, sums, c, weight, tile)
        if first + 3 < n_pairs:
            _add_pair(is_tiled, sums, d, weight, tile)


@device
def _add_pair(
    is_tiled: bool, sums: DeviceArray, pair: np.uint32, weight: np.int32, tile: tuple[np.uint32, ...]
) -> None:
    """Add a pair of a seed, rotated, to a word's sums; ``tile``: rotation, dimension, first column, width of the sums.

    The smaller of a number and of the number less the dimension is the remainder: without a sign, what is below zero
    is large.
    """
    shift, dimension, column, width = tile
    up = np.uint32((pair & LOW) + shift)
    up = np.uint32(min(up, np.uint32(up - dimension)) - column)
    down = np.uint32((pair >> HALF) + shift)
    down = np.uint32(min(down, np.uint32(down - dimension)) - column)
    if not is_tiled or up < width:
        cuda.atomic.add(sums, up, weight)
    if not is_tiled or down < width:
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
