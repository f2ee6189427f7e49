"""The input of the sums of random indexing: windows, seeds of words, and a chunk's tokens by word.

    S_w: ``n_pairs`` positions with +1 and as many with -1, all different, drawn from the word's hash (equation 2.4)
    window: the offsets j with |j| <= radius, j != 0, and their weights (equation 2.5)
    shift_j: j, its sign, or 0 (equation 2.6)

Source: Polok and Smrž, "Implementing Random Indexing on GPU" (2011), sections 2 and 3. The paper cuts documents into
chunks of constant length, which overlap (equations 3.1 and 3.4). Here a chunk has whole documents.

Layout: the words of a chunk that are kept are numbered from 0, and its documents are one text with ``reach`` null terms
between them. So a window at any token reads inside the text, and no window needs a test for the end of its document.

Reference implementation: tests/helpers/naive.py, `ri_seed` and `ri_rotation`.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel
from ..search import rank

HALF = np.uint32(16)
#: Sums of tf log2 tf are kept as integers in this unit, so that adding and subtracting documents is exact.
INFORMATION_UNIT = 1 << 16


class Window(NamedTuple):
    """The J offsets that make a word's context. Offsets with the same shift follow one another."""

    offsets: np.ndarray  # (J,) int64: position of the neighbour minus that of the word
    shifts: np.ndarray  # (J,) int64: rotation of the neighbour's seed
    weights: np.ndarray  # (J,) int32

    @property
    def reach(self) -> int:
        """The largest distance, which is the number of null terms between documents."""
        return int(np.abs(self.offsets).max())

    @property
    def halo(self) -> int:
        """The largest rotation."""
        return int(np.abs(self.shifts).max())


class Tokens(NamedTuple):
    """A chunk's tokens by word. Words are numbered from 0 to n - 1, among the words of the chunk that are kept.

    ``occurrence_ptr`` may be cut to [lo:hi + 1]: then the sums are those of the words lo to hi.
    """

    ids: np.ndarray  # (n,) uint32: the words' ids, ascending
    text: np.ndarray  # (T + reach * (D + 1),) uint32: documents in order, padded; n is the null term
    occurrences: np.ndarray  # (T',) uint32: indices into text, by word
    occurrence_ptr: np.ndarray  # (n + 1,) int64: word w has occurrences[occurrence_ptr[w]:occurrence_ptr[w + 1]]


def make_window(radius: int, order: str, weighting: str = "uniform") -> Window:
    """Return the window of equation 2.5 with the rotations of equation 2.6.

    ``order`` "permutation" rotates by the offset, "direction" by its sign, "none" not at all. ``weighting`` is
    "uniform", or "linear": radius + 1 - |offset|. Weights are integers, so that sums stay exact.
    """
    offsets = np.array([j for j in range(-radius, radius + 1) if j], np.int64)
    shifts = {"permutation": offsets, "direction": np.sign(offsets), "none": np.zeros_like(offsets)}[order]
    weights = {"uniform": np.ones_like(offsets), "linear": radius + 1 - np.abs(offsets)}[weighting]
    return Window(offsets, shifts.copy(), weights.astype(np.int32))


#: A window in which each token is its own only neighbour. With documents' numbers as text, contexts are documents.
SELF_WINDOW = Window(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int32))


# --- seeds ---


def hash_words(words: Iterable[str]) -> np.ndarray:
    """Return a hash of each word's text: (V,) uint64, the same in every corpus and on every machine."""
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


@kernel
def make_seeds(hashes: np.ndarray, salt: np.uint64, dimension: int, n_pairs: int) -> np.ndarray:
    """Draw the seed vectors of words: (n, n_pairs) uint32, each a position of +1 (lower half) and of -1 (upper half).

    All 2 * n_pairs positions of a word differ. They depend only on ``salt`` and the word's hash, ``hashes`` (n,)
    uint64. The dimension is at most 65536.
    """
    out = np.empty((len(hashes), n_pairs), np.uint32)
    drawn = np.empty(2 * n_pairs, np.uint32)
    for r in range(len(hashes)):
        key = random.draw(salt, hashes[r])
        n = 0
        index = 0
        while n < 2 * n_pairs:
            position = np.uint32(((random.draw(key, index) >> np.uint64(32)) * np.uint64(dimension)) >> np.uint64(32))
            index += 1
            is_new = True
            for k in range(n):
                # Without a branch: there are only a few positions, and an early exit would be mispredicted.
                is_new &= drawn[k] != position
            if is_new:
                drawn[n] = position
                n += 1
        for k in range(n_pairs):
            out[r, k] = drawn[2 * k] | (drawn[2 * k + 1] << HALF)
    return out


# --- a chunk by word ---


def prepare_tokens(chunk: Chunk, kept: np.ndarray, reach: int) -> Tokens:
    """Number the words of a chunk that the mask ``kept`` (V,) bool keeps, and pad its documents with null terms."""
    ids, local = _number(chunk.word_ids, kept)
    text = _pad(chunk.doc_ptr, chunk.words, local, np.uint32(len(ids)), reach)
    order = np.argsort(chunk.word_ids, kind="stable")
    occurrences, occurrence_ptr = _by_word(
        order, chunk.word_ids, chunk.word_ptr, chunk.word_to_doc_order, chunk.docs, local, len(ids), reach
    )
    return Tokens(ids, text, occurrences, occurrence_ptr)


def document_numbers(chunk: Chunk) -> np.ndarray:
    """Return the number of each token's document, (T,) uint32: the text for contexts that are documents."""
    return np.repeat(np.arange(chunk.n_documents, dtype=np.uint32), np.diff(chunk.doc_ptr))


@kernel
def _number(word_ids: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the kept words of a chunk: their ids (n,) uint32, and each word's number (V,) uint32, n for all others."""
    local = np.zeros(len(kept), np.uint32)
    n = 0
    for v in word_ids:
        # `local` marks words here. It gets their numbers below.
        if kept[v] and not local[v]:
            local[v] = 1
            n += 1
    ids = np.empty(n, np.uint32)
    null = n
    n = 0
    for v in range(len(kept)):
        if local[v]:
            ids[n] = v
            local[v] = n
            n += 1
        else:
            local[v] = null
    return ids, local


@kernel
def _pad(doc_ptr: np.ndarray, words: np.ndarray, local: np.ndarray, null: np.uint32, reach: int) -> np.ndarray:
    """Return the words' numbers in document order, with ``reach`` null terms before, between and after documents."""
    text = np.full(len(words) + reach * len(doc_ptr), null, np.uint32)
    for d in range(len(doc_ptr) - 1):
        gap = reach * (d + 1)
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            text[i + gap] = local[words[i]]
    return text


@kernel
def _by_word(
    order: np.ndarray,
    word_ids: np.ndarray,
    word_ptr: np.ndarray,
    word_to_doc_order: np.ndarray,
    docs: np.ndarray,
    local: np.ndarray,
    n: int,
    reach: int,
) -> tuple[np.ndarray, np.ndarray]:
    """List the occurrences of the n words; ``order`` (S,) are the segments sorted by word."""
    occurrences = np.empty(len(word_to_doc_order), np.uint32)
    occurrence_ptr = np.zeros(n + 1, np.int64)
    end = 0
    for s in order:
        word = local[word_ids[s]]
        # Words without a number are null words. They have no row, but other words still count them as neighbours.
        if word == n:
            continue
        for i in range(word_ptr[s], word_ptr[s + 1]):
            occurrences[end] = word_to_doc_order[i] + reach * (docs[i] + 1)
            end += 1
        occurrence_ptr[word + 1] = end
    return occurrences[:end], occurrence_ptr


# --- statistics ---


@kernel
def word_statistics(ids: np.ndarray, word_ids: np.ndarray, word_ptr: np.ndarray, docs: np.ndarray) -> np.ndarray:
    """Return frequency, document frequency and Σ tf log2 tf (in INFORMATION_UNIT) of words: (n, 3) int64.

    ``ids`` (n,) uint32 are the words, ascending. ``word_ids`` (S,), ``word_ptr`` (S + 1,) and ``docs`` (T,) are those
    of a chunk. tf is the count of the word in one document.
    """
    out = np.zeros((len(ids), 3), np.int64)
    for s in range(len(word_ids)):
        row = rank(ids, len(ids), word_ids[s]) - 1
        if row < 0 or ids[row] != word_ids[s]:
            continue
        lo, hi = word_ptr[s], word_ptr[s + 1]
        out[row, 0] += hi - lo
        # A word's tokens of one document follow one another.
        while lo < hi:
            end = lo
            while end < hi and docs[end] == docs[lo]:
                end += 1
            out[row, 1] += 1
            out[row, 2] += np.int64(np.rint((end - lo) * np.log2(end - lo) * INFORMATION_UNIT))
            lo = end
    return out


@kernel
def document_hashes(doc_ptr: np.ndarray, words: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Return a hash of each document that does not depend on the order of its words: (D,) uint64.

    ``words`` (T,) uint32 are in document order, ``hashes`` (V,) uint64 those of the words.
    """
    out = np.zeros(len(doc_ptr) - 1, np.uint64)
    for d in range(len(out)):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            out[d] += random.mix_cpu(hashes[words[i]])
    return out
