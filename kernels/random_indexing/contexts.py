"""Contexts of rare words, which are summed after all chunks.

Most words of a corpus are rare. In each chunk, the row of such a word would take more memory than the neighbours that
are added to it. So the sweeps of chunks only list these neighbours, and the rows are summed once, at the end.

A context has the J neighbours of one occurrence of a word, in the order of the window's offsets.
"""

import numpy as np

from ..jit import kernel
from ..simd.prefetch import prefetch
from .accumulate import TEXT_AHEAD, make_scratch, sum_pieces
from .rows import add_exactly
from .text import Tokens, Window

#: Words that are summed at once. Their rows stay in the cache until they are added to the model's.
WORDS_AT_ONCE = 1024
#: Neighbours that are summed at once at most, because their positions have 32 bits.
NEIGHBOURS_AT_ONCE = 1 << 32


def most_occurrences(window: Window, dimension: int) -> int:
    """Return how many contexts of a word, with the word, take at most the memory of its row of sums."""
    return dimension // (len(window.offsets) + 1)


def list_contexts(tokens: Tokens, window: Window, wanted: np.ndarray, null: int) -> tuple[np.ndarray, np.ndarray]:
    """List the contexts of some words, those of the mask ``wanted`` (words,) bool: their words and neighbours.

    Returns the number of each context's word (n,) int64, and its neighbours (n, J) uint32, which are ids of words.
    ``null`` stands for a neighbour that does not exist.
    """
    counts = np.diff(tokens.occurrence_ptr)
    words = np.repeat(np.flatnonzero(wanted), counts[wanted])
    contexts = np.empty((len(words), len(window.offsets)), np.uint32)
    ids = np.append(tokens.ids, np.uint32(null))
    chosen = tokens.occurrences[tokens.occurrence_ptr[0] : tokens.occurrence_ptr[-1]][np.repeat(wanted, counts)]
    _copy_contexts(tokens.text, chosen, window.offsets, ids, contexts)
    return words, contexts


@kernel
def _copy_contexts(
    text: np.ndarray, occurrences: np.ndarray, offsets: np.ndarray, ids: np.ndarray, contexts: np.ndarray
) -> None:
    """Write the ids of the neighbours of each occurrence."""
    last = len(occurrences) - 1
    for i in range(len(occurrences)):
        prefetch(text, np.int64(occurrences[min(i + TEXT_AHEAD, last)]))
        for j in range(len(offsets)):
            contexts[i, j] = ids[text[np.int64(occurrences[i]) + offsets[j]]]


def add_contexts(total: np.ndarray, words: np.ndarray, contexts: np.ndarray, window: Window, seeds: np.ndarray) -> None:
    """Sum contexts (n, J) into the rows ``words`` (n,) int64 of ``total`` (V, D) int32.

    ``seeds`` (items, pairs) are those of all ids, and of the null term. Raises OverflowError if a sum exceeds 2^31 - 1.
    """
    step = NEIGHBOURS_AT_ONCE // contexts.shape[1]
    for start in range(0, len(words), step):
        _add_some(total, words[start : start + step], contexts[start : start + step], window, seeds)


def _add_some(total: np.ndarray, words: np.ndarray, contexts: np.ndarray, window: Window, seeds: np.ndarray) -> None:
    """Do what `add_contexts` does, for at most NEIGHBOURS_AT_ONCE neighbours."""
    order = np.argsort(words, kind="stable")
    ids, first = np.unique(words[order], return_index=True)
    # The contexts, one after the other, are a text in which each window begins at its first neighbour.
    n_neighbours = len(window.offsets)
    as_text = window._replace(offsets=np.arange(n_neighbours))
    ptr = np.append(first, len(words)).astype(np.int64)
    tokens = Tokens(ids.astype(np.uint32), contexts.ravel(), (order * n_neighbours).astype(np.uint32), ptr)
    scratch = make_scratch(as_text, len(seeds), total.shape[1])
    for lo in range(0, len(ids), WORDS_AT_ONCE):
        some = ids[lo : lo + WORDS_AT_ONCE]
        part = tokens._replace(occurrence_ptr=ptr[lo : lo + len(some) + 1])
        pieces = sum_pieces(part, as_text, seeds, total.shape[1], np.ones(len(some), bool), scratch)
        add_exactly(total, some[pieces.words], pieces.rows)
