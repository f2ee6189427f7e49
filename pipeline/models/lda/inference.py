"""Applies trained topics to documents: topic weights, and two estimates of the likelihood of held-out documents.

Documents are given as ``doc_ptr`` (D + 1,) int64 and ``words`` (T,), word ids of the model in document order.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ....io.stores.store import Arrays
from ....kernels.lda import inference as kernels
from ....kernels.lda.inference import left_to_right as left_to_right_kernel
from ..base.sparse_rows import row_of_each_entry, select_tokens, split_mask
from .word_topics import gather_rows, kernel_block


class TrainedTopics(NamedTuple):
    """The counts of words by topics and the priors of a trained model, with which documents are given their topics."""

    blocks: Iterable[Arrays]  # all blocks of B; only `score_left_to_right` iterates more than once
    shared: Arrays
    n_words: int  # V; may be more than the rows of all blocks, for words that only a previous model has

    def rows_used_by(self, words: np.ndarray) -> tuple[np.ndarray, kernels.WordWeights]:
        """Return the rows of the words that occur in ``words`` (T,), and the row number of each token, (T,) uint32."""
        occurs = np.zeros(int(words.max(initial=0)) + 1, bool)
        occurs[words] = True
        row_of_word = np.cumsum(occurs, dtype=np.uint32) - np.uint32(1)
        block = gather_rows(np.flatnonzero(occurs), self.blocks)
        return row_of_word[words], kernels.word_weights(kernel_block(block, self.shared, 0, self.n_words))


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, topics: TrainedTopics) -> np.ndarray:
    """Estimate the topic weights of documents: (D, K) float32, rows sum to one."""
    rows_of_tokens, rows = topics.rows_used_by(words)
    return kernels.fold_in(doc_ptr, rows_of_tokens, rows)


def score_by_completion(doc_ptr: np.ndarray, words: np.ndarray, topics: TrainedTopics, keys: np.ndarray) -> Arrays:
    """Estimate the topics of each document from a random half of its tokens, and score the other half.

    ``keys`` (D,) uint64 are the keys of the documents' random draws. Returns the sums ``log_likelihood`` and
    ``tokens``.
    """
    rows_of_tokens, rows = topics.rows_used_by(words)
    first_half = split_mask(doc_ptr, keys)
    given = select_tokens(doc_ptr, rows_of_tokens, first_half)
    scored = select_tokens(doc_ptr, rows_of_tokens, ~first_half)
    total = kernels.score_completion(given, scored, rows)
    n_scored = len(scored[1])
    return {"log_likelihood": np.float64(total), "tokens": np.int64(n_scored)}


def score_left_to_right(
    doc_ptr: np.ndarray, words: np.ndarray, topics: TrainedTopics, keys: np.ndarray, particles: int
) -> Arrays:
    """Estimate the likelihood of whole documents (Wallach et al. 2009, algorithm 3).

    Returns the sums ``log_likelihood`` and ``tokens``. The time grows with the square of a document's length.
    """
    alpha = topics.shared["alpha"].astype(np.float64)
    total = 0.0
    for d, key in enumerate(keys):
        used, rows_of_tokens = np.unique(words[doc_ptr[d] : doc_ptr[d + 1]], return_inverse=True)
        phi = _word_probabilities(used, topics)
        total += left_to_right_kernel(rows_of_tokens.astype(np.int64), phi, alpha, key, particles)
    return {"log_likelihood": np.float64(total), "tokens": np.int64(doc_ptr[-1])}


def _word_probabilities(words: np.ndarray, topics: TrainedTopics) -> np.ndarray:
    """Return the probability of each of ``words`` (W,) in each topic: (W, K) float64."""
    beta = float(topics.shared["beta"])
    totals = topics.shared["totals"]
    rows = gather_rows(words, topics.blocks)
    phi = np.full((len(words), len(totals)), beta)
    phi[row_of_each_entry(rows["row_ptr"]), rows["topics"]] += rows["counts"]
    return phi / (totals + topics.n_words * beta)
