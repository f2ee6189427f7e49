"""Small corpora and seeds for the tests of random indexing's kernels."""

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.random_indexing import text as ri_text
from hypothesis import strategies as st

SALT = random.key(7)
ORDERS = ("permutation", "direction", "none")
WEIGHTINGS = ("uniform", "linear")
#: Up to six documents of up to fourteen words each, out of nine words.
corpora = st.lists(st.lists(st.integers(0, 8), max_size=14), min_size=1, max_size=6)


def chunk_of(docs, index=0, group_tokens=1 << 20):
    """Return the chunk of some documents, which are lists of word ids."""
    words = np.array([w for d in docs for w in d], np.uint32)
    return make_chunk(index, np.r_[0, np.cumsum([len(d) for d in docs])].astype(np.int64), words, group_tokens)


def unpacked(seeds, dimension):
    """Return the seeds as rows of S: (words, dimension) int64."""
    S = np.zeros((len(seeds), dimension), np.int64)
    for row, pairs in zip(S, seeds, strict=True):
        row[pairs & 0xFFFF] += 1
        row[pairs >> 16] -= 1
    return S


def hashes_of(n_words):
    """Return the hashes of the words word0, word1 and so on: (n_words,) uint64."""
    return ri_text.hash_words(f"word{v}" for v in range(n_words))
