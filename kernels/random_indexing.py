"""Random indexing: term vectors as sums of rotated seed vectors (Polok, Smrž: Random indexing on GPU, 2011).

The context of a word is a sum over its occurrences, so tokens are taken in word order and one row is summed in the L1
cache. Neighbours are counted before they are added: a seed is added once for all occurrences of the same neighbour at
the same offset, exactly, since sums are integers. As in section 3 of the paper, documents are padded by a null term, so
that no window needs a check. A rotated seed may reach beyond either end of its row, into cells that are put back when
the word is done, so that rotation is an addition, without mask or comparison, in any dimension.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from . import random
from .jit import kernel, vector_kernel
from .lanes import load, splat, store
from .vector import prefetch

#: Occurrences of one word that are counted together: their neighbours, one line an offset, stay in L2.
PIECE = 1 << 13
#: A line's length: lines that began a power of two apart would take each other's place in the cache.
LINE = PIECE + 16
#: Columns of a slab of dense seeds, eight registers of eight: a chunk's slab stays in L3, its frequent rows in L2.
WIDTH = 64
#: Occurrences whose neighbour lists are held at once when seeds are dense.
BATCH = 1 << 19
#: Seeds and rows are asked for this many steps before they are needed.
AHEAD, ROWS_AHEAD, TEXT_AHEAD = 10, 16, 24
#: Pairs of a seed in a line of the cache.
PAIRS_A_LINE = 16
LOW, HALF = np.uint32(0xFFFF), np.uint32(16)
INT32_MAX = 2**31 - 1
#: Fixed point of the sums of tf log2 tf, so that they add and subtract exactly.
INFORMATION_UNIT = 1 << 16
ORDERS = ("permutation", "direction", "none")
WEIGHTINGS = ("uniform", "linear")


class Window(NamedTuple):
    """What surrounds a word: J offsets; those with the same shift stand together."""

    offsets: np.ndarray  # (J,) int64: place of the neighbour, from the word in focus
    shifts: np.ndarray  # (J,) int64: rotation of the neighbour's seed
    weights: np.ndarray  # (J,) int32

    @property
    def reach(self) -> int:
        """The farthest offset: null terms between documents."""
        return int(np.abs(self.offsets).max())

    @property
    def halo(self) -> int:
        """The largest rotation."""
        return int(np.abs(self.shifts).max())


class Tokens(NamedTuple):
    """A chunk's tokens by word, words numbered by their rank among the n words of the chunk that count.

    ``ptr`` may be a part of itself, ptr[lo : hi + 1]: then the sums are those of the words lo to hi.
    """

    ids: np.ndarray  # (n,) uint32: the words' ids, ascending
    text: np.ndarray  # (T + reach * (D + 1),) uint32: documents in order, padded; n is the null term
    at: np.ndarray  # (T',) uint32: places in text, by word
    ptr: np.ndarray  # (n + 1,) int64: each word's part of ``at``


class Lists(NamedTuple):
    """Neighbours of a batch of pieces, counted: list l is of one piece and one shift."""

    ptr: np.ndarray  # (L + 1,) int64
    items: np.ndarray  # (entries,) uint32
    counts: np.ndarray  # (entries,) float32


def make_window(radius: int, order: str, weighting: str = "uniform") -> Window:
    """Return the window of equation 2.5 with the rotations of equation 2.6.

    ``order``: "permutation" rotates by the offset, "direction" by its sign, "none" not at all. ``weighting``:
    "uniform", or "linear", radius + 1 - |offset|: integers, so that sums stay exact.
    """
    offsets = np.array([j for j in range(-radius, radius + 1) if j], np.int64)
    shifts = {"permutation": offsets, "direction": np.sign(offsets), "none": np.zeros_like(offsets)}[order]
    weights = {"uniform": np.ones_like(offsets), "linear": radius + 1 - np.abs(offsets)}[weighting]
    return Window(offsets, shifts.copy(), weights.astype(np.int32))


#: A token's only neighbour stands in its own place: with documents' numbers as text, contexts are documents.
IN_PLACE = Window(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int32))


# --- seeds ---


def hash_words(words: Iterable[str]) -> np.ndarray:
    """Return a number for each word that depends on nothing else: (V,) uint64."""
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


@kernel
def make_seeds(hashes, salt, dimension, n_pairs):
    """Draw the seed vectors of words: (n, n_pairs) uint32, each a position of +1 (low half) and one of -1 (high half).

    All 2 * n_pairs positions of a word differ; they depend on ``salt`` and the word's hash alone. dimension <= 65536.
    """
    out = np.empty((len(hashes), n_pairs), np.uint32)
    drawn = np.empty(2 * n_pairs, np.uint32)
    for r in range(len(hashes)):
        key = random.draw(salt, hashes[r])
        n, index = 0, 0
        while n < 2 * n_pairs:
            position = np.uint32(((random.draw(key, index) >> np.uint64(32)) * np.uint64(dimension)) >> np.uint64(32))
            index += 1
            is_new = True
            for k in range(n):
                is_new &= drawn[k] != position
            if is_new:
                drawn[n] = position
                n += 1
        for k in range(n_pairs):
            out[r, k] = drawn[2 * k] | (drawn[2 * k + 1] << HALF)
    return out


# --- a chunk by word ---


def localise(chunk: Any, kept: np.ndarray, reach: int) -> Tokens:
    """Number the words of a chunk (an io Chunk) that count, ``kept`` (V,) bool, and pad its documents by null terms."""
    ids, local = _number(chunk.word_ids, kept)
    text = _pad(chunk.doc_ptr, chunk.words, local, np.uint32(len(ids)), reach)
    order = np.argsort(chunk.word_ids, kind="stable")
    at, ptr = _by_word(order, chunk.word_ids, chunk.word_ptr, chunk.place, chunk.docs, local, len(ids), reach)
    return Tokens(ids, text, at, ptr)


def documents_as_text(chunk: Any) -> np.ndarray:
    """Return the number of each token's document, (T,) uint32: the text for contexts that are documents."""
    return np.repeat(np.arange(chunk.n_documents, dtype=np.uint32), np.diff(chunk.doc_ptr))


@kernel
def _number(word_ids, kept):
    local = np.zeros(len(kept), np.uint32)
    n = 0
    for v in word_ids:
        if kept[v] and not local[v]:
            local[v] = 1
            n += 1
    ids = np.empty(n, np.uint32)
    null, n = n, 0
    for v in range(len(kept)):
        if local[v]:
            ids[n] = v
            local[v] = n
            n += 1
        else:
            local[v] = null
    return ids, local


@kernel
def _pad(doc_ptr, words, local, null, reach):
    text = np.full(len(words) + reach * len(doc_ptr), null, np.uint32)
    for d in range(len(doc_ptr) - 1):
        gap = reach * (d + 1)
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            text[i + gap] = local[words[i]]
    return text


@kernel
def _by_word(order, word_ids, word_ptr, place, docs, local, n, reach):
    at = np.empty(len(place), np.uint32)
    ptr = np.zeros(n + 1, np.int64)
    end = 0
    for s in order:
        word = local[word_ids[s]]
        if word == n:
            continue
        for i in range(word_ptr[s], word_ptr[s + 1]):
            at[end] = place[i] + reach * (docs[i] + 1)
            end += 1
        ptr[word + 1] = end
    return at[:end], ptr


@kernel
def statistics(tokens_ids, word_ids, word_ptr, docs):
    """Return frequency, documents and the sum of tf log2 tf (fixed point) of a chunk's words: (n, 3) int64."""
    out = np.zeros((len(tokens_ids), 3), np.int64)
    for s in range(len(word_ids)):
        row = np.searchsorted(tokens_ids, word_ids[s])
        if row == len(tokens_ids) or tokens_ids[row] != word_ids[s]:
            continue
        lo, hi = word_ptr[s], word_ptr[s + 1]
        out[row, 0] += hi - lo
        while lo < hi:
            end = lo
            while end < hi and docs[end] == docs[lo]:
                end += 1
            out[row, 1] += 1
            out[row, 2] += np.int64(np.rint((end - lo) * np.log2(end - lo) * INFORMATION_UNIT))
            lo = end
    return out


@kernel
def document_hashes(doc_ptr, words, hashes):
    """Return a number for each document that depends on its words and not on their order: (D,) uint64."""
    out = np.zeros(len(doc_ptr) - 1, np.uint64)
    for d in range(len(out)):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            out[d] += random.mix_cpu(hashes[words[i]])
    return out


# --- counting neighbours ---


def cut_pieces(ptr: np.ndarray) -> np.ndarray:
    """Cut words' occurrences into pieces of at most PIECE: (P, 3) int64, word, first and last + 1 of ``at``."""
    words = np.repeat(np.arange(len(ptr) - 1), -(-np.diff(ptr) // PIECE))
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    first = ptr[words] + nth * PIECE
    return np.stack([words, first, np.minimum(first + PIECE, ptr[words + 1])], axis=1)


@kernel
def _collect(text, at, offsets, buffer):
    """Copy the neighbours of all occurrences, one line of ``buffer`` an offset: the text is read once."""
    last = len(at) - 1
    for i in range(len(at)):
        prefetch(text, np.int64(at[min(i + TEXT_AHEAD, last)]))
        for j in range(len(offsets)):
            buffer[j, i] = text[np.int64(at[i]) + offsets[j]]


@kernel
def _tally(line, n, weight, count, touched, n_touched):
    """Add ``weight`` to the count of each neighbour; ``touched`` lists those that had none."""
    for i in range(n):
        w = line[i]
        c = count[w]
        touched[n_touched] = w
        n_touched += c == 0
        count[w] = c + weight
    return n_touched


# --- sparse seeds ---


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Sum equation 2.7 over the words of ``ptr``: (words, dimension) int32, exactly.

    ``seeds`` (items, L / 2) uint32 by number in text.
    Raises OverflowError when a word is so frequent in the chunk that a sum might pass 2^31.
    """
    most = int(np.diff(tokens.ptr).max(initial=0)) * int(window.weights.sum())
    if most > INT32_MAX:
        raise OverflowError(f"a word's sums in one chunk can reach {most}, above 2^31 - 1: cut the corpus smaller")
    saved = np.zeros(window.halo, np.int32)
    cells = np.zeros((len(tokens.ptr) - 1) * dimension + 2 * window.halo, np.int32)
    pairs = tuple(range(seeds.shape[1]))
    _accumulate(tokens, cut_pieces(tokens.ptr), window, seeds.ravel(), pairs, dimension, saved, cells)
    return cells[window.halo : len(cells) - window.halo].reshape(-1, dimension)


@kernel
def _accumulate(tokens, pieces, window, seeds, pairs, dimension, saved, cells):
    halo = len(saved)
    null = max(len(tokens.ids), len(seeds) // len(pairs))
    count, touched = np.zeros(null + 1, np.int32), np.empty(null + 2, np.uint32)
    buffer = np.empty((len(window.offsets), LINE), np.uint32)
    for p in range(len(pieces)):
        word, lo, hi = pieces[p]
        row = cells[word * dimension : (word + 1) * dimension + 2 * halo]
        saved[:] = row[:halo]
        _collect(tokens.text, tokens.at[lo:hi], window.offsets, buffer)
        count[null] = 1  # so that the null term is never new, hence never touched
        n_touched = 0
        for j in range(len(window.offsets)):
            n_touched = _tally(buffer[j], hi - lo, window.weights[j], count, touched, n_touched)
            if j + 1 == len(window.offsets) or window.shifts[j + 1] != window.shifts[j]:
                _scatter(row, window.shifts[j] + halo, seeds, pairs, touched, n_touched, count)
                n_touched = 0
        _wrap(row, saved)


@kernel
def _scatter(row, shift, seeds, pairs, touched, n_touched, count):
    """Add the rotated seeds of the touched neighbours, times their counts, and clear the counts.

    ``pairs`` is a tuple for its length alone, which the compiler then knows: the loop over a seed is unrolled.
    """
    shift = np.uint32(shift)
    for t in range(n_touched):
        ahead = np.int64(touched[min(t + AHEAD, n_touched - 1)]) * len(pairs)
        for line in range(0, len(pairs), PAIRS_A_LINE):
            prefetch(seeds, ahead + line)
        w = touched[t]
        c = count[w]
        count[w] = 0
        first = np.int64(w) * len(pairs)
        for k in range(len(pairs)):
            pair = seeds[first + k]
            row[(pair & LOW) + shift] += c
            row[(pair >> HALF) + shift] -= c


@kernel
def _wrap(row, saved):
    """Bring in at the other end what was added beyond either; those cells are other words' and get their sums back.

    Before the row they are done, and ``saved``; after it they are not begun, and zero.
    """
    halo = len(saved)
    dimension = len(row) - 2 * halo
    for k in range(halo):
        row[halo + (k - halo) % dimension] += row[k] - saved[k]
        row[k] = saved[k]
        row[halo + k % dimension] += row[halo + dimension + k]
        row[halo + dimension + k] = 0


# --- dense seeds ---


@vector_kernel
def make_slabs(matrix, rows):
    """Normalise the rows ``rows`` of (V, D) and cut them by columns: (D / WIDTH rounded up, n, WIDTH) float32."""
    n, dimension = len(rows), matrix.shape[1]
    slabs = np.zeros((-(-dimension // WIDTH), n, WIDTH), np.float32)
    for r in range(n):
        row = matrix[rows[r]]
        scale = _scale(row)
        for s in range(len(slabs)):
            for k in range(min(WIDTH, dimension - s * WIDTH)):
                slabs[s, r, k] = row[s * WIDTH + k] * scale
    return slabs


@vector_kernel
def _scale(row):
    square = 0.0
    for k in range(len(row)):
        square += np.float64(row[k]) * np.float64(row[k])
    return np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)


def accumulate_dense(tokens: Tokens, window: Window, slabs: np.ndarray, first: int, out: np.ndarray) -> None:
    """Add equation 2.7 with dense seeds to ``out`` (words, D) float32; slabs hold the words from number ``first`` on.

    Neighbours outside of the slabs add nothing, so that seeds may come in blocks. Sums run in a fixed order.
    """
    pieces = cut_pieces(tokens.ptr)
    groups = np.r_[np.flatnonzero(np.diff(window.shifts)), len(window.shifts) - 1]
    shifts = window.shifts[groups]
    ends = np.cumsum(pieces[:, 2] - pieces[:, 1])
    start = 0
    while start < len(pieces):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + BATCH, side="right")))
        lists = _list_neighbours(tokens, pieces[start:stop], window, first, slabs.shape[1])
        for s, slab in enumerate(slabs):
            _multiply(lists, pieces[start:stop, 0], shifts, window.halo, slab.ravel(), s * WIDTH, out)
        start = stop


@kernel
def _list_neighbours(tokens, pieces, window, first, n_seeds):
    null = len(tokens.ids)
    n_offsets = len(window.offsets)
    count, touched = np.zeros(null + 1, np.int32), np.empty(null + 2, np.uint32)
    buffer = np.empty((n_offsets, LINE), np.uint32)
    bound = n_offsets * (pieces[-1, 2] - pieces[0, 1])
    ptr = np.zeros(len(pieces) * n_offsets + 1, np.int64)
    items, counts = np.empty(bound, np.uint32), np.empty(bound, np.float32)
    n_lists, n_touched, end = 0, 0, 0
    for p in range(len(pieces)):
        lo, hi = pieces[p, 1], pieces[p, 2]
        _collect(tokens.text, tokens.at[lo:hi], window.offsets, buffer)
        count[null] = 1
        for j in range(n_offsets):
            n_touched = _tally(buffer[j], hi - lo, window.weights[j], count, touched, n_touched)
            if j + 1 < n_offsets and window.shifts[j + 1] == window.shifts[j]:
                continue
            for t in range(n_touched):
                w = np.int64(touched[t])
                if first <= w < first + n_seeds:
                    items[end], counts[end] = w - first, count[w]
                    end += 1
                count[w] = 0
            n_touched = 0
            n_lists += 1
            ptr[n_lists] = end
    return Lists(ptr[: n_lists + 1], items[:end], counts[:end])


@kernel
def _multiply(lists, words, shifts, halo, slab, column, out):
    """Add the lists' rows of one slab, times their counts; a list is summed in registers."""
    acc = np.zeros(WIDTH + 2 * halo, np.float32)
    for p in range(len(words)):
        for g in range(len(shifts)):
            index = p * len(shifts) + g
            _add_list(lists, lists.ptr[index], lists.ptr[index + 1], slab, acc, shifts[g] + halo)
        _fold_slab(acc, column - halo, out[words[p]])


@kernel
def _add_list(lists, lo, hi, slab, acc, at):
    a, b, c, d = load(acc, at), load(acc, at + 8), load(acc, at + 16), load(acc, at + 24)
    e, f, g, h = load(acc, at + 32), load(acc, at + 40), load(acc, at + 48), load(acc, at + 56)
    last = len(lists.items) - 1
    for i in range(lo, hi):
        ahead = np.int64(lists.items[min(i + ROWS_AHEAD, last)]) * WIDTH
        for line in (0, 16, 32, 48):
            prefetch(slab, ahead + line)
        x, r = splat(lists.counts[i]), np.int64(lists.items[i]) * WIDTH
        a, b, c, d = (
            a + x * load(slab, r),
            b + x * load(slab, r + 8),
            c + x * load(slab, r + 16),
            d + x * load(slab, r + 24),
        )
        e, f, g, h = (
            e + x * load(slab, r + 32),
            f + x * load(slab, r + 40),
            g + x * load(slab, r + 48),
            h + x * load(slab, r + 56),
        )
    store(acc, at, a), store(acc, at + 8, b), store(acc, at + 16, c), store(acc, at + 24, d)
    store(acc, at + 32, e), store(acc, at + 40, f), store(acc, at + 48, g), store(acc, at + 56, h)


@kernel
def _fold_slab(acc, first, row):
    """Move a slab's sums to the columns from ``first`` on; what lies past either end comes in at the other."""
    dimension = len(row)
    if first >= 0 and first + len(acc) <= dimension:
        for k in range(len(acc)):
            row[first + k] += acc[k]
    else:
        for k in range(len(acc)):
            row[(first + k) % dimension] += acc[k]
    acc[:] = 0


# --- rows ---


@kernel
def add_rows(out, rows, sums, sign):
    """Add ``sign`` times ``sums`` (n, D) to the rows ``rows`` (n,) int64 of ``out`` (V, D), all of them integers.

    Returns False where a sum overflows: int64 holds any two int32, so that it is seen before anything wraps.
    """
    exact = True
    for r in range(len(rows)):
        row = out[rows[r]]
        for k in range(len(row)):
            total = np.int64(row[k]) + sign * np.int64(sums[r, k])
            row[k] = total
            exact &= row[k] == total
    return exact


@vector_kernel
def normalised(rows):
    """Divide rows by their Euclidean length: (n, D) float32 of (n, D) int32 or float32; rows of zeros stay."""
    out = np.empty(rows.shape, np.float32)
    for r in range(len(rows)):
        scale = _scale(rows[r])
        for k in range(rows.shape[1]):
            out[r, k] = rows[r, k] * scale
    return out


@vector_kernel
def sum_documents(doc_ptr, words, weights, vectors):
    """Sum weighted term vectors (V, D) float32 by document: (documents, D) float32."""
    out = np.zeros((len(doc_ptr) - 1, vectors.shape[1]), np.float32)
    for d in range(len(out)):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            w, row = weights[words[i]], vectors[words[i]]
            for k in range(len(row)):
                out[d, k] += w * row[k]
    return out
