"""Clusters of the spectra of many restarts, as cNMF defines them.

Rows are scaled to Euclidean length 1. A row's local density is the mean distance to its nearest neighbours, which are a
share of the number of restarts. Rows whose mean distance is too large are left out. K-means finds one cluster per
component, and the consensus of a cluster is the median of its rows, scaled to sum 1.
"""

from typing import NamedTuple

import numpy as np
import scipy.cluster.hierarchy
from scipy.spatial.distance import squareform

from ....io.errors import DataError
from ....io.extras import needing

#: Starts and seed of k-means. With the same ones as cNMF, clusters are the same.
STARTS = 10
SEED = 1


class Clusters(NamedTuple):
    """The clusters of n rows, and their consensus."""

    rows: np.ndarray  # (n, genes): the rows that were kept, of length 1
    labels: np.ndarray  # (n,): the cluster of each row, 0 to K - 1
    medians: np.ndarray  # (K, genes): one consensus per cluster, of sum 1


def unit_rows(spectra: np.ndarray) -> np.ndarray:
    """Return rows scaled to Euclidean length 1. A row of zeros stays."""
    lengths = np.linalg.norm(spectra, axis=1, keepdims=True)
    return spectra / np.where(lengths > 0, lengths, 1)


def distances(rows: np.ndarray) -> np.ndarray:
    """Return the Euclidean distance of each two rows: (n, n)."""
    squares = np.einsum("ij,ij->i", rows, rows)
    squared = squares[:, None] + squares[None, :] - 2 * (rows @ rows.T)
    np.fill_diagonal(squared, 0)
    return np.sqrt(np.maximum(squared, 0))


def local_density(between: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Return the mean distance of each row to its ``n_neighbors`` nearest ones, given all distances (n, n): (n,)."""
    # The nearest of all is the row itself, at distance 0.
    nearest = np.partition(between, n_neighbors, axis=1)[:, : n_neighbors + 1]
    return nearest.sum(axis=1) / n_neighbors


def count_neighbors(n_rows: int, n_components: int, share: float) -> int:
    """Return how many neighbours are a share of the restarts; raise DataError if it is none."""
    restarts = n_rows // n_components
    found = int(share * n_rows / n_components)
    if found < 1:
        raise DataError(
            f"{share} of {restarts} restarts is less than one neighbour: train more restarts, or raise "
            f"--local-neighborhood-size"
        )
    return min(found, n_rows - 1)


def cluster(rows: np.ndarray, n_components: int) -> Clusters:
    """Divide rows of Euclidean length 1 into clusters by k-means, and find the median of each cluster."""
    with needing("sklearn", "corpusmill[cnmf]", "clustering"):
        from sklearn.cluster import KMeans

    if len(rows) < n_components:
        raise DataError(
            f"{len(rows)} spectra remain for {n_components} components: raise --local-density-threshold, or choose "
            f"fewer components"
        )
    labels = KMeans(n_clusters=n_components, n_init=STARTS, random_state=SEED).fit(rows).labels_
    n_clusters = len(np.unique(labels))
    if n_clusters < n_components:
        raise DataError(
            f"the spectra form {n_clusters} clusters, because many are equal, and {n_components} are needed: choose "
            f"fewer components"
        )
    medians = np.array([np.median(rows[labels == k], axis=0) for k in range(n_components)])
    sums = medians.sum(axis=1, keepdims=True)
    if (sums == 0).any():
        empty = int(np.argmin(sums)) + 1
        raise DataError(
            f"the median of cluster {empty} of {n_components} is zero in all genes: choose fewer components"
        )
    return Clusters(rows, labels, medians / sums)


def silhouette(clusters: Clusters) -> float:
    """Return the mean silhouette of the rows, by Euclidean distance."""
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(clusters.rows, clusters.labels, metric="euclidean"))


def order_of_rows(between: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the rows cluster by cluster, and similar ones of a cluster side by side, given their distances: (n,)."""
    order = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 2:
            own = squareform(between[np.ix_(members, members)], checks=False)
            members = members[scipy.cluster.hierarchy.leaves_list(scipy.cluster.hierarchy.linkage(own, "average"))]
        order.append(members)
    return np.concatenate(order)
