"""Learning LDA's Dirichlet priors from histograms of counts, by Minka's fixed point.

    α_k ← α_k Σ_d (ψ(A_dk + α_k) - ψ(α_k)) / Σ_d (ψ(n_d + Σ α) - ψ(Σ α)),    n_d the length of document d

and likewise β from the counts in B, with one number for all words.

Source: Minka, "Estimating a Dirichlet distribution" (2000), equation 55; with histograms as in Wallach's thesis (2008),
section 2.3. The sums run over documents, but only the values of the counts matter, and small ones repeat. So a chunk
sends a histogram of its counts. Histograms add up, and the priors are learned from all documents without reading them.

Layout: counts below 64 have a bin each. Above, each doubling has 8 bins. The value of a bin is the mean of its counts.

Reference implementation: tests/helpers/naive.py, `lda_learned_alpha`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from .counts import MAX_COUNT, MAX_TOPICS, SIXTEEN, SURPLUS, DocumentCounts

#: Counts below this number have bins of their own.
EXACT_BINS = 64
#: Bins for each doubling of larger counts.
BINS_PER_DOUBLING = 8
#: Lower limit of a prior: a topic whose prior is zero could never get a token again.
MIN_PRIOR = 1e-6
#: Steps of the fixed point, at most.
MAX_STEPS = 50
#: The relative change of a prior at which the fixed point is reached.
TOLERANCE = 1e-5


def bins_of(counts: np.ndarray) -> np.ndarray:
    """Return the bin of each count >= 0: int64 of the same shape."""
    counts = np.asarray(counts, np.int64)
    doublings = np.log2(np.maximum(counts, EXACT_BINS) / EXACT_BINS)
    return np.where(counts < EXACT_BINS, counts, EXACT_BINS + (doublings * BINS_PER_DOUBLING).astype(np.int64))


class Histogram(NamedTuple):
    """How many counts fall into each of n bins, and the sum of the counts in each bin.

    The histogram of several chunks is the sum of their histograms.
    """

    numbers: np.ndarray  # (n,) int64, or (K, n) with one row per topic
    sums: np.ndarray  # (n,) int64, over all topics

    def values(self) -> np.ndarray:
        """Return the mean count of each bin: (n,) float64."""
        numbers = self.numbers.reshape(-1, len(self.sums)).sum(axis=0)
        return self.sums / np.maximum(numbers, 1)


def histogram(counts: np.ndarray, n_bins: int) -> Histogram:
    """Return the histogram of counts (n,)."""
    # Most counts are small, and their bins need no logarithm.
    is_large = counts >= EXACT_BINS
    large = counts[is_large]
    bins = bins_of(large)
    small = np.bincount(counts[~is_large], minlength=n_bins)
    sums = small * np.arange(n_bins)
    np.add.at(sums, bins, large)
    return Histogram(small + np.bincount(bins, minlength=n_bins), sums)


def topic_histogram(rows: DocumentCounts, n_topics: int, n_bins: int) -> Histogram:
    """Return the histogram of the documents' counts of each topic, without zeros: ``numbers`` (K, n_bins)."""
    found = Histogram(np.zeros((n_topics, n_bins), np.int64), np.zeros(n_bins, np.int64))
    _fill(rows.row_ptr, rows.entries, bins_of(np.arange(MAX_COUNT + 1)), *found)
    return found


@kernel
def _fill(row_ptr: np.ndarray, entries: np.ndarray, bins: np.ndarray, numbers: np.ndarray, sums: np.ndarray) -> None:
    """Add the counts of all rows to the histogram; ``bins`` (MAX_COUNT + 1,) is the bin of each packed count."""
    # A topic with more than MAX_COUNT tokens has several entries. The surplus ones are added up first.
    beyond = np.zeros(MAX_TOPICS, np.int64)
    for d in range(len(row_ptr) - 1):
        row = entries[row_ptr[d] : row_ptr[d + 1]]
        for entry in row:
            if (entry >> SIXTEEN) & SURPLUS and entry & MAX_COUNT:
                beyond[(entry >> SIXTEEN) & (MAX_TOPICS - 1)] += entry & MAX_COUNT
        for entry in row:
            k = np.int64(entry >> SIXTEEN)
            count = np.int64(entry & MAX_COUNT)
            if count and k < MAX_TOPICS:
                where = bins[count]
                if beyond[k]:
                    count += beyond[k]
                    beyond[k] = 0
                    where = EXACT_BINS + np.int64(np.log2(count / EXACT_BINS) * BINS_PER_DOUBLING)
                numbers[k, where] += 1
                sums[where] += count


def learn_alpha(alpha: np.ndarray, topics: Histogram, lengths: Histogram, symmetric: bool) -> np.ndarray:
    """Return the alpha (K,) float64 that makes the documents' topics most likely.

    ``topics`` is the histogram of the documents' counts of each topic, ``lengths`` that of their lengths. With
    ``symmetric``, all topics have the same value.
    """
    # Here, because this import takes a tenth of a second, and most runs learn no priors.
    from scipy.special import digamma

    alpha = np.asarray(alpha, np.float64)
    # Topics without tokens add zero to the sum, and would only cost digammas.
    used = np.flatnonzero(topics.sums)
    numbers = topics.numbers[:, used]
    values = topics.values()[used]
    sizes = lengths.values()
    for _ in range(MAX_STEPS):
        gained = (numbers * (digamma(values + alpha[:, None]) - digamma(alpha)[:, None])).sum(axis=1)
        total = alpha.sum()
        spent = float(lengths.numbers @ (digamma(sizes + total) - digamma(total)))
        if spent <= 0:
            return alpha
        # Minka's fixed point: alpha_k grows if documents have more of topic k than alpha predicts.
        factor = np.full_like(alpha, gained.mean() / spent) if symmetric else gained / spent
        before = alpha
        alpha = np.maximum(alpha * factor, MIN_PRIOR)
        if np.abs(alpha / before - 1).max() < TOLERANCE:
            break
    return alpha


def learn_beta(beta: float, words: Histogram, totals: np.ndarray, n_words: int) -> float:
    """Return the beta that makes the topics' words most likely: one number for all words.

    ``words`` is the histogram of the counts in B, ``totals`` (K,) int64 the tokens of each topic, ``n_words`` V.
    """
    # Here, because this import takes a tenth of a second, and most runs learn no priors.
    from scipy.special import digamma

    values = words.values()
    for _ in range(MAX_STEPS):
        gained = float(words.numbers @ (digamma(values + beta) - digamma(beta)))
        spent = n_words * float((digamma(totals + n_words * beta) - digamma(n_words * beta)).sum())
        if spent <= 0:
            return beta
        before = beta
        # At zero, digamma is infinite and the iteration would stay there.
        beta = max(beta * gained / spent, MIN_PRIOR)
        if abs(beta / before - 1) < TOLERANCE:
            break
    return beta
