"""What random indexing sums: windows, seeds of words, and a chunk's tokens by word.

As in section 3 of the paper (Polok, Smrž: Random indexing on GPU, 2011), documents are padded by a null term, so that
no window needs a check.

Reference implementation: tests/helpers/naive.py, `ri_seed` and `ri_rotation`.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import random
from ..jit import kernel

HALF = np.uint32(16)
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

    ``occurrence_ptr`` may be cut to [lo : hi + 1]: then the sums are those of the words lo to hi.
    """

    ids: np.ndarray  # (n,) uint32: the words' ids, ascending
    text: np.ndarray  # (T + reach * (D + 1),) uint32: documents in order, padded; n is the null term
    occurrences: np.ndarray  # (T',) uint32: positions in text, by word
    occurrence_ptr: np.ndarray  # (n + 1,) int64: each word's range of ``occurrences``


def make_window(radius: int, order: str, weighting: str = "uniform") -> Window:
    """Return the window of equation 2.5 with the rotations of equation 2.6.

    ``order``: "permutation" rotates by the offset, "direction" by its sign, "none" not at all. ``weighting``:
    "uniform", or "linear", radius + 1 - |offset|: integers, so that sums stay exact.
    """
    offsets = np.array([j for j in range(-radius, radius + 1) if j], np.int64)
    shifts = {"permutation": offsets, "direction": np.sign(offsets), "none": np.zeros_like(offsets)}[order]
    weights = {"uniform": np.ones_like(offsets), "linear": radius + 1 - np.abs(offsets)}[weighting]
    return Window(offsets, shifts.copy(), weights.astype(np.int32))


#: A token's only neighbour is itself: with documents' numbers as text, contexts are documents.
SELF_WINDOW = Window(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int32))


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


def prepare_tokens(chunk: Any, kept: np.ndarray, reach: int) -> Tokens:
    """Number the words of a chunk (an io Chunk) that count, ``kept`` (V,) bool, and pad its documents by null terms."""
    ids, local = _number(chunk.word_ids, kept)
    text = _pad(chunk.doc_ptr, chunk.words, local, np.uint32(len(ids)), reach)
    order = np.argsort(chunk.word_ids, kind="stable")
    at, ptr = _by_word(
        order, chunk.word_ids, chunk.word_ptr, chunk.word_to_doc_order, chunk.docs, local, len(ids), reach
    )
    return Tokens(ids, text, at, ptr)


def document_numbers(chunk: Any) -> np.ndarray:
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
def _by_word(order, word_ids, word_ptr, word_to_doc_order, docs, local, n, reach):
    at = np.empty(len(word_to_doc_order), np.uint32)
    ptr = np.zeros(n + 1, np.int64)
    end = 0
    for s in order:
        word = local[word_ids[s]]
        if word == n:
            continue
        for i in range(word_ptr[s], word_ptr[s + 1]):
            at[end] = word_to_doc_order[i] + reach * (docs[i] + 1)
            end += 1
        ptr[word + 1] = end
    return at[:end], ptr


@kernel
def word_statistics(tokens_ids, word_ids, word_ptr, docs):
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
