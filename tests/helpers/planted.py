"""Data of a known number of components."""

import numpy as np


def planted_counts(seed, n_rows=200, n_columns=120):
    """Return a number of components from 3 to 8, and counts (D, V) float64 that are drawn from so many."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 9))
    shares = rng.dirichlet(np.full(K, 0.3), n_rows)
    topics = rng.dirichlet(np.full(n_columns, 0.1), K)
    lengths = rng.integers(50, 400, (n_rows, 1))
    return K, rng.poisson(lengths * (shares @ topics)).astype(float)


def planted_ratings(seed, K, n_rows=300, n_columns=120, share=0.3, noise=0.1):
    """Return ratings (D, V) of which a ``share`` is known, with NaN for the others, and all numbers without noise."""
    rng = np.random.default_rng(seed)
    truth = rng.gamma(0.5, 1, (n_rows, K)) @ rng.gamma(0.5, 1, (n_columns, K)).T
    ratings = np.maximum(truth + noise * rng.standard_normal(truth.shape), 0)
    ratings[rng.random(truth.shape) > share] = np.nan
    return ratings, truth
