"""Sparse rows (CSR), whose row i has the entries ``row_ptr[i]`` to ``row_ptr[i + 1] - 1``, and documents as such rows.

A held-out document is split in two halves: one estimates the document's weights, and the other is scored.
"""

import numpy as np

from ....kernels import random

#: Separates these draws from all others that use a document's key.
_SPLIT = np.uint64(0xFFFF)


def row_of_each_entry(row_ptr: np.ndarray) -> np.ndarray:
    """Return the row that each entry belongs to: (nnz,) int64, for ``row_ptr`` (n + 1,)."""
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))


def split_mask(doc_ptr: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Choose about half of each document's tokens at random: (T,) bool.

    ``doc_ptr`` (D + 1,) int64; ``keys`` (D,) uint64, one key of random draws per document. The choice depends on
    nothing else.
    """
    mask = np.empty(int(doc_ptr[-1]), bool)
    for d, key in enumerate(keys):
        start = doc_ptr[d]
        stop = doc_ptr[d + 1]
        highest_bit = random.stream(key ^ _SPLIT, stop - start) >> np.uint64(63)
        mask[start:stop] = highest_bit == 1
    return mask


def select_tokens(doc_ptr: np.ndarray, words: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``doc_ptr`` (D + 1,) int64 and ``words`` of the same documents, reduced to the tokens in the mask (T,)."""
    selected_before = np.r_[0, np.cumsum(mask)]
    return selected_before[doc_ptr], words[mask]
