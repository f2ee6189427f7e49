"""The statistics by which a number of topics is chosen, as pycisTopic defines them.

Write phi_kw for the share of region w in the counts of topic k, theta_ck for the share of topic k in the counts of cell
c, L_c for the number of accessible regions of cell c, and D for a number of cells:

    Arun 2010           Σ_k s_k ln(s_k / w_k) + w_k ln(w_k / s_k), lower is better: s are the singular values of phi as
                        shares of their sum, w = Lᵀ theta as shares of their sum, both descending
    Cao Juan 2009       mean cosine of two rows of phi, lower is better
    Mimno 2011          2 / (N(N-1)) Σ_{l<m} ln((D(v_m, v_l) + 1e-12) / D(v_l)) over the N = 20 regions v of a topic
                        with the highest phi; the mean of the five best topics, higher is better
    log-likelihood      of Griffiths and Steyvers (2004), Γ-functions of all counts, higher is better
"""

from collections.abc import Iterable
from typing import NamedTuple, TypedDict

import numpy as np
import scipy.sparse
from scipy.special import gammaln

#: Regions of a topic that its coherence looks at, and topics whose coherence is averaged.
TOP_REGIONS = 20
BEST_TOPICS = 5
#: Added to the number of common cells, so that its logarithm is finite.
SMOOTHING = 1e-12
#: Columns of phi whose products are summed at a time.
COLUMNS = 1 << 16


class Statistics(TypedDict):
    """Measures of one model that help to choose the number of topics, as its file of statistics has them."""

    Arun_2010: float
    Cao_Juan_2009: float
    Mimno_2011: float
    loglikelihood: float
    coherence: list[float]  # of each topic
    marg_topic: list[float]  # share of each topic in all cells, weighted by their length
    assignments: list[int]  # tokens of each topic


class CellGroup(NamedTuple):
    """Some cells. C cells, R regions, K topics."""

    theta: np.ndarray  # (C, K) float32
    accessible: scipy.sparse.csr_matrix  # (C, R), entries are 1


def statistics(counts: np.ndarray, cells: Iterable[CellGroup], alpha: np.ndarray, eta: float) -> Statistics:
    """Return the statistics of a model in one pass over the cells.

    ``counts`` (K, R) integers: tokens of each region in each topic. ``alpha`` (K,) and ``eta`` are the priors of one
    topic and of one region.
    """
    n_topics = len(counts)
    phi = shares_of(counts)
    top = np.argsort(phi, axis=1)[:, ::-1][:, :TOP_REGIONS]
    together = np.zeros((n_topics, top.shape[1], top.shape[1]), np.int64)
    weights = np.zeros(n_topics)
    log_likelihood = _topics_log_likelihood(counts, eta)
    for group in cells:
        lengths = np.diff(group.accessible.indptr).astype(np.float64)
        weights += lengths @ group.theta
        log_likelihood += _cells_log_likelihood(group.theta * lengths[:, None], lengths, alpha)
        for topic, regions in enumerate(top):
            found = group.accessible[:, regions].astype(np.int64)
            together[topic] += (found.T @ found).toarray()
    coherence = np.array([_coherence(common) for common in together])
    gram = _gram(phi)
    return {
        "Arun_2010": _arun(gram, weights),
        "Cao_Juan_2009": _cao_juan(gram),
        "Mimno_2011": float(np.sort(coherence)[::-1][:BEST_TOPICS].mean()),
        "loglikelihood": float(log_likelihood),
        "coherence": coherence.tolist(),
        "marg_topic": (weights / weights.sum()).tolist(),
        "assignments": counts.sum(axis=1, dtype=np.int64).tolist(),
    }


def shares_of(counts: np.ndarray) -> np.ndarray:
    """Return counts as shares of their row, (K, R) float32. A row without counts stays 0."""
    sums = counts.sum(axis=1, keepdims=True, dtype=np.int64)
    return (counts / np.maximum(sums, 1)).astype(np.float32)


def _gram(phi: np.ndarray) -> np.ndarray:
    """Return the products of the rows of phi: (K, K) float64."""
    gram = np.zeros((len(phi), len(phi)))
    for first in range(0, phi.shape[1], COLUMNS):
        columns = phi[:, first : first + COLUMNS].astype(np.float64)
        gram += columns @ columns.T
    return gram


def _arun(gram: np.ndarray, weights: np.ndarray) -> float:
    # The singular values of phi are the roots of the eigenvalues of its Gram matrix.
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0))
    s = np.maximum(singular / singular.sum(), np.finfo(float).tiny)
    w = np.sort(weights)[::-1] / weights.sum()
    w = np.maximum(w, np.finfo(float).tiny)
    return float((s * np.log(s / w)).sum() + (w * np.log(w / s)).sum())


def _cao_juan(gram: np.ndarray) -> float:
    if len(gram) < 2:
        return 0.0
    lengths = np.maximum(np.sqrt(np.diag(gram)), np.finfo(float).tiny)
    cosines = gram / np.outer(lengths, lengths)
    return float(cosines[np.triu_indices(len(gram), 1)].mean())


def _coherence(together: np.ndarray) -> float:
    """Return the coherence of one topic; ``together`` (N, N) are the cells with two of its regions."""
    n_regions = len(together)
    # A region that no cell has is one of the first N only if a topic has fewer regions.
    single = np.maximum(np.diag(together), 1)
    logarithms = np.log((together + SMOOTHING) / single[None, :])
    return float(2 / max(1, n_regions * (n_regions - 1)) * logarithms[np.tril_indices(n_regions, -1)].sum())


def _topics_log_likelihood(counts: np.ndarray, eta: float) -> float:
    sum_of_priors = counts.shape[1] * eta
    total = 0.0
    for row in counts:
        present = row[row > 0]
        total += gammaln(sum_of_priors) - gammaln(row.sum(dtype=np.int64) + sum_of_priors)
        total += (gammaln(present + eta) - gammaln(eta)).sum()
    return float(total)


def _cells_log_likelihood(counts: np.ndarray, lengths: np.ndarray, alpha: np.ndarray) -> float:
    sum_of_priors = alpha.sum()
    # Terms of topics without a token are 0.
    topics = np.nonzero(counts)[1]
    present = counts[counts != 0].astype(np.float64)
    total = (gammaln(sum_of_priors) - gammaln(lengths + sum_of_priors)).sum()
    return float(total + (gammaln(present + alpha[topics]) - gammaln(alpha[topics])).sum())


def scaled(grid: list[Statistics]) -> dict[str, list[float]]:
    """Return the four statistics of each model, scaled to 0..1 over the grid so that higher is better."""
    signs = {"Arun_2010": -1, "Cao_Juan_2009": -1, "Mimno_2011": 1, "loglikelihood": 1}
    result = {}
    for name, sign in signs.items():
        values = sign * np.array([statistics[name] for statistics in grid])  # type: ignore[literal-required]
        spread = values.max() - values.min()
        result[name] = (np.ones(len(values)) if spread == 0 else (values - values.min()) / spread).tolist()
    return result


def best_number(numbers: list[int], grid: list[Statistics]) -> int:
    """Return the number of topics with the highest sum of scaled statistics.

    Models with fewer than five topics are left out if there are others.
    """
    sums = np.sum(list(scaled(grid).values()), axis=0)
    allowed = [position for position, number in enumerate(numbers) if number >= BEST_TOPICS]
    candidates = allowed or list(range(len(numbers)))
    return numbers[max(candidates, key=lambda position: sums[position])]
