"""Learning LDA's Dirichlet priors by Minka's fixed point, from histograms of counts.

Source: Minka, "Estimating a Dirichlet distribution" (2000), equation 55; by histograms as Wallach's thesis (2008),
section 2.3. The counts of chunks add up, so that the priors are learned from all documents without a look at any.

Reference implementation: tests/helpers/naive.py, `lda_learned_alpha`.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from ..jit import kernel
from .counts import MAX_COUNT, MAX_TOPICS, SIXTEEN, SURPLUS, DocumentCounts

#: Counts below have bins of their own; above, so many bins for each doubling.
EXACT, PER_DOUBLING = 64, 8
#: No prior falls below: a topic of no tokens could never come back.
LEAST = 1e-6
#: Steps of the fixed point, at most, and the relative change at which it ends.
STEPS, TOLERANCE = 50, 1e-5


def bins_of(counts: np.ndarray) -> np.ndarray:
    """Return the bin of each count >= 0: an array of int64 of the same shape."""
    counts = np.asarray(counts, np.int64)
    doublings = np.log2(np.maximum(counts, EXACT) / EXACT)
    return np.where(counts < EXACT, counts, EXACT + (doublings * PER_DOUBLING).astype(np.int64))


class Histogram(NamedTuple):
    """How many counts each bin has, and what they add up to; histograms of chunks add up."""

    numbers: np.ndarray  # (n,) or, a topic a row, (K, n) int64
    sums: np.ndarray  # (n,) int64

    def values(self) -> np.ndarray:
        """Return the mean count of each bin: (n,) float64."""
        numbers = self.numbers.reshape(-1, len(self.sums)).sum(axis=0)
        return self.sums / np.maximum(numbers, 1)


def histogram(counts: np.ndarray, n_bins: int) -> Histogram:
    """Bin counts (n,)."""
    bins = bins_of(counts)
    sums = np.zeros(n_bins, np.int64)
    np.add.at(sums, bins, counts)
    return Histogram(np.bincount(bins, minlength=n_bins), sums)


def topic_histogram(rows: DocumentCounts, n_topics: int, n_bins: int) -> Histogram:
    """Bin documents' counts of each topic, zeros left out: ``numbers`` (K, n_bins)."""
    found = Histogram(np.zeros((n_topics, n_bins), np.int64), np.zeros(n_bins, np.int64))
    _fill(rows.row_ptr, rows.entries, bins_of(np.arange(MAX_COUNT + 1)), *found)
    return found


@kernel
def _fill(row_ptr, entries, bins, numbers, sums):
    beyond = np.zeros(MAX_TOPICS, np.int64)
    for d in range(len(row_ptr) - 1):
        row = entries[row_ptr[d] : row_ptr[d + 1]]
        for entry in row:
            if (entry >> SIXTEEN) & SURPLUS and entry & MAX_COUNT:
                beyond[(entry >> SIXTEEN) & (MAX_TOPICS - 1)] += entry & MAX_COUNT
        for entry in row:
            k, count = np.int64(entry >> SIXTEEN), np.int64(entry & MAX_COUNT)
            if count and k < MAX_TOPICS:
                place = bins[count]
                if beyond[k]:
                    count, beyond[k] = count + beyond[k], 0
                    place = EXACT + np.int64(np.log2(count / EXACT) * PER_DOUBLING)
                numbers[k, place] += 1
                sums[place] += count


def learn_alpha(alpha: np.ndarray, topics: Histogram, lengths: Histogram, symmetric: bool) -> np.ndarray:
    """Return the alpha (K,) float64 under which documents' topics are likeliest.

    ``topics``: of documents' counts of each topic; ``lengths``: of documents. ``symmetric``: one number for all topics.
    """
    alpha = np.asarray(alpha, np.float64)
    used = np.flatnonzero(topics.sums)
    numbers, values, sizes = topics.numbers[:, used], topics.values()[used], lengths.values()
    for _ in range(STEPS):
        gained = (numbers * (digamma(values + alpha[:, None]) - digamma(alpha)[:, None])).sum(axis=1)
        total = alpha.sum()
        spent = float(lengths.numbers @ (digamma(sizes + total) - digamma(total)))
        if spent <= 0:
            return alpha
        factor = np.full_like(alpha, gained.mean() / spent) if symmetric else gained / spent
        before, alpha = alpha, np.maximum(alpha * factor, LEAST)
        if np.abs(alpha / before - 1).max() < TOLERANCE:
            break
    return alpha


def learn_beta(beta: float, words: Histogram, totals: np.ndarray, n_words: int) -> float:
    """Return the beta under which topics' words are likeliest: one number for all words.

    ``words``: of the counts in B; ``totals`` (K,) int64: tokens of each topic; ``n_words``: V.
    """
    values = words.values()
    for _ in range(STEPS):
        gained = float(words.numbers @ (digamma(values + beta) - digamma(beta)))
        spent = n_words * float((digamma(totals + n_words * beta) - digamma(n_words * beta)).sum())
        if spent <= 0:
            return beta
        before, beta = beta, max(beta * gained / spent, LEAST)
        if abs(beta / before - 1) < TOLERANCE:
            break
    return beta
