"""The input of skip-gram: a text from which frequent tokens are dropped, a table of negatives, and first vectors.

    P(keep w) = min(1, sqrt(s / f_w) + s / f_w),    P(negative w) ∝ n_w^0.75

with f_w the share of w in all tokens, n_w its count and s the ``sample`` threshold.

Source: Mikolov et al., "Distributed representations of words and phrases" (NIPS 2013), with the formula for subsampling
of word2vec's and gensim's code.

Layout: a text is the kept words of all documents, one after the other, with the position that each had in the chunk. A
draw belongs to that position, so it does not depend on which other tokens were dropped.

Tests: tests/kernels/word2vec/test_skip_gram.py, against these formulas.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..random import uniform, uniform64
from ..simd.aligned import empty_aligned

#: Words of a mini-batch that share negatives, by section 4.6.5 and footnote 10 of Moon's dissertation (2019).
MINIBATCH = 24
#: The length of a stored row is a multiple of this many numbers, on every processor: the longest strip. The numbers
#: that are added to a vector stay zero.
PAD = 64


class Text(NamedTuple):
    """The n words of a chunk's D documents after subsampling."""

    ptr: np.ndarray  # (D + 1,) int64: document d has the words ptr[d]:ptr[d + 1]
    words: np.ndarray  # (n,) uint32: rows of the matrices
    positions: np.ndarray  # (n,) uint32: the token of each word in the chunk


class TrainingOptions(NamedTuple):
    """How a text is trained."""

    window: int
    negative: int
    table: np.ndarray  # (n,) uint32, n a power of two: rows, each as often as it is drawn as a negative
    windows_key: np.uint64
    negatives_key: np.uint64
    alpha: float  # learning rate at the chunk's first token
    slope: float  # decrease of the learning rate per token
    min_alpha: float
    minibatch: int = MINIBATCH  # words that share negatives, for PAR-Word2Vec; a multiple of 4


def padded(dimension: int) -> int:
    """Return the length of a stored row."""
    return -(-dimension // PAD) * PAD


def empty_rows(rows: int, dimension: int) -> np.ndarray:
    """Return an uninitialised aligned array (rows, padded dimension) float32."""
    return empty_aligned((rows, padded(dimension)), np.float32)


def keep_probability(frequency: np.ndarray, sample: float, min_count: int = 0) -> np.ndarray:
    """Return the probability that a token of each word is kept: (V,) float32, for counts ``frequency`` (V,) int64.

    It is 0 for words that occur less than ``min_count`` times.
    """
    is_frequent = frequency >= min_count
    if sample <= 0:
        return is_frequent.astype(np.float32)
    frequency = frequency * is_frequent
    ratio = sample * frequency.sum() / np.maximum(frequency, 1)
    return is_frequent * np.minimum(1.0, np.sqrt(ratio) + ratio).astype(np.float32)


def negative_table(frequency: np.ndarray, exponent: float, size: int, key: np.uint64) -> np.ndarray:
    """Draw a table of words: (size,) uint32, each in proportion to frequency^exponent.

    Entry i is the quantile at a random point of the i-th of ``size`` equal steps. At fixed points, a rare word would
    either always or never be in the table.
    """
    return _quantiles(np.cumsum(frequency.astype(np.float64) ** exponent), size, key)


@kernel
def _quantiles(total: np.ndarray, size: int, key: np.uint64) -> np.ndarray:
    """Return the word at a random point of each step of the cumulative weights ``total`` (V,) float64."""
    out = np.empty(size, np.uint32)
    word = 0
    for i in range(size):
        point = (i + uniform64(key, i)) / size * total[-1]
        while word < len(total) - 1 and total[word] <= point:
            word += 1
        out[i] = word
    return out


@kernel
def first_vectors(words: np.ndarray, dimension: int, key: np.uint64) -> np.ndarray:
    """Return random vectors of words (R,), uniform within ± 1 / (2 dimension): (R, padded dimension) float32.

    A word's vector does not depend on the other words.
    """
    out = np.zeros((len(words), -(-dimension // PAD) * PAD), np.float32)
    for r in range(len(words)):
        for d in range(dimension):
            draw = uniform(key, np.int64(words[r]) * dimension + d)
            out[r, d] = (draw - np.float32(0.5)) / np.float32(dimension)
    return out


@kernel
def subsample(doc_ptr: np.ndarray, words: np.ndarray, keep: np.ndarray, key: np.uint64) -> Text:
    """Drop tokens of frequent words at random, and all tokens of words from V on.

    ``words`` (T,) uint32 in document order; ``keep`` (V,) float32 is the probability of each word. ``doc_ptr`` may
    cover some of the documents only.
    """
    bound = doc_ptr[-1] - doc_ptr[0]
    ptr = np.zeros(len(doc_ptr), np.int64)
    kept = np.empty(bound, np.uint32)
    positions = np.empty(bound, np.uint32)
    n = 0
    for d in range(len(doc_ptr) - 1):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            if words[i] < len(keep) and uniform(key, i) < keep[words[i]]:
                kept[n] = words[i]
                positions[n] = i
                n += 1
        ptr[d + 1] = n
    return Text(ptr, kept[:n], positions[:n])
