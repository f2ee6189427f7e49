"""Place points of many dimensions on a map, so that neighbours stay neighbours."""

import numpy as np
import scipy.sparse

#: Dimensions that are kept before the map is made.
FEATURES = 50
#: Points that are placed by t-SNE, whose time grows with the square of their number. Others go near their neighbours.
LANDMARKS = 1200
ITERATIONS = 300
#: Iterations in which attraction is exaggerated, so that groups form (van der Maaten and Hinton, 2008, section 3.4).
EXAGGERATED_ITERATIONS = 80
EXAGGERATION = 8.0
LEARNING_RATE = 100.0
#: Most rounds in which overlapping circles are pushed away from each other.
SPREAD_ROUNDS = 200


def map_points(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a map of points (n, D): (n, 2) float32, each coordinate from 0 to 1.

    The ``LANDMARKS`` points of the largest ``weights`` (n,) are placed by t-SNE. Each other point is placed near the
    three landmarks that are most similar to it.
    """
    n = len(features)
    if n < 5:
        return fit_into_square(principal_axes(features, 2))
    first = np.sort(np.argsort(-weights, kind="stable")[:LANDMARKS])
    placed = t_sne(features[first])
    if n <= LANDMARKS:
        return fit_into_square(placed)
    points = np.empty((n, 2))
    points[first] = placed
    others = np.setdiff1d(np.arange(n), first)
    rng = np.random.default_rng(0)
    spread = 0.01 * np.ptp(placed, axis=0)
    for start in range(0, len(others), 1000):
        block = others[start : start + 1000]
        distances = squared_distances(features[block], features[first])
        nearest = np.argpartition(distances, 3, axis=1)[:, :3]
        closeness = 1 / (1e-9 + np.take_along_axis(distances, nearest, axis=1))
        shares = closeness / closeness.sum(axis=1, keepdims=True)
        points[block] = (shares[:, :, None] * placed[nearest]).sum(axis=1) + rng.normal(size=(len(block), 2)) * spread
    return fit_into_square(points)


def fit_into_square(points: np.ndarray) -> np.ndarray:
    """Scale a map to coordinates from 0 to 1, with the same scale on both axes: (n, 2) float32."""
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return (0.5 + points / max(float(np.ptp(points, axis=0).max()), 1e-12)).astype(np.float32)


def principal_axes(features: np.ndarray, n_axes: int) -> np.ndarray:
    """Return the coordinates of points (n, D) on their principal axes: (n, n_axes)."""
    centred = features - features.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    found = left[:, :n_axes] * scale[:n_axes]
    # The sign of an axis is arbitrary. Choose it, so that the map is the same everywhere.
    signs = np.sign(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])])
    found = found * np.where(signs == 0, 1, signs)
    return np.pad(found, ((0, 0), (0, n_axes - found.shape[1])))


def reduce_dimensions(rows: scipy.sparse.csr_matrix | np.ndarray, n_features: int = FEATURES) -> np.ndarray:
    """Reduce rows (n, V) to (n, min(n_features, n, V)): principal axes, by a randomised decomposition if n is large.

    Distances between rows are kept as far as that many dimensions can (Halko et al., 2011, algorithm 4.4).
    """
    n, width = rows.shape
    if max(n, width) <= 2000 or width <= n_features:
        dense = rows
        if not isinstance(rows, np.ndarray):
            dense = rows.toarray()
        return principal_axes(np.asarray(dense, np.float64), min(n_features, n, width))
    rng = np.random.default_rng(0)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    basis = _orthonormal(rows @ rng.normal(size=(width, n_features + 10)).astype(np.float32))
    for _ in range(2):
        basis = _orthonormal(rows @ _orthonormal(rows.T @ basis - np.outer(mean, basis.sum(axis=0))))
    small = (rows.T @ basis).T - np.outer(basis.sum(axis=0), mean)
    left, scale, _ = np.linalg.svd(small, full_matrices=False)
    return (basis @ (left[:, :n_features] * scale[:n_features])).astype(np.float64)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    return np.linalg.qr(columns)[0]


def squared_distances(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the squared Euclidean distances between (n, D) and (m, D): (n, m)."""
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * rows @ others.T
    return np.maximum(squares, 0)


def t_sne(features: np.ndarray) -> np.ndarray:
    """Return a map by t-SNE (van der Maaten and Hinton, 2008) from the first two principal axes: (n, 2).

    The result is the same in every call.
    """
    n = len(features)
    attraction = _affinities(squared_distances(features, features), perplexity=min(30.0, (n - 1) / 3))
    # Single precision takes half the time, and a map needs no more.
    attraction = attraction.astype(np.float32)
    early_attraction = attraction * np.float32(EXAGGERATION)
    start = principal_axes(features, 2)
    points = (start / max(float(start[:, 0].std()), 1e-12) * 1e-2).astype(np.float32)
    velocity = np.zeros_like(points)
    gains = np.ones_like(points)
    for iteration in range(ITERATIONS):
        is_early = iteration < EXAGGERATED_ITERATIONS
        near = squared_distances(points, points)
        near += 1
        np.reciprocal(near, out=near)
        np.fill_diagonal(near, 0)
        # The difference of attraction and repulsion, times closeness; in place, since these are the largest arrays.
        forces = near * (-1 / near.sum())
        forces += early_attraction if is_early else attraction
        forces *= near
        gradient = 4 * (forces.sum(axis=1)[:, None] * points - forces @ points)
        gains = np.where(np.sign(gradient) == np.sign(velocity), gains * 0.8, gains + 0.2).clip(0.01)
        velocity = (0.5 if is_early else 0.8) * velocity - LEARNING_RATE * gains * gradient
        points = points + velocity
        points = points - points.mean(axis=0)
    return points


def _affinities(distances: np.ndarray, perplexity: float) -> np.ndarray:
    """Return the joint probabilities of t-SNE: (n, n), symmetric, sum 1.

    The width of each point's Gaussian is found by bisection, so that its entropy is log(perplexity).
    """
    n = len(distances)
    # Only ratios of distances matter. With a mean of 1, the bounds of the bisection suit all data.
    scaled = distances / max(float(distances.mean()), 1e-12)
    np.fill_diagonal(scaled, np.inf)
    low, high = np.full(n, -20.0), np.full(n, 20.0)
    for _ in range(50):
        middle = (low + high) / 2
        rows = np.exp(-(scaled - scaled.min(axis=1, keepdims=True)) * np.exp(middle)[:, None])
        rows /= rows.sum(axis=1, keepdims=True)
        entropy = -(rows * np.log(rows + 1e-300)).sum(axis=1)
        is_wide = entropy > np.log(perplexity)
        low = np.where(is_wide, middle, low)
        high = np.where(is_wide, high, middle)
    return np.maximum((rows + rows.T) / (2 * n), 1e-12)


def spread_circles(points: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Move the centres of circles until few circles overlap: (n, 2), coordinates from 0 to 1."""
    points = points.astype(np.float64)
    n = len(points)
    if n < 2:
        return fit_into_square(points)
    needed = (radii[:, None] + radii) * 1.06
    np.fill_diagonal(needed, 0)
    # Two circles with the same centre could not be pushed in any direction.
    points = points + np.random.default_rng(0).normal(size=points.shape) * 1e-6
    for _ in range(SPREAD_ROUNDS):
        offsets = points[:, None] - points
        lengths = np.sqrt((offsets**2).sum(axis=2)) + 1e-12
        overlap = np.maximum(needed - lengths, 0)
        if overlap.max() < 1e-4:
            break
        points = points + 0.5 * ((overlap / lengths)[:, :, None] * offsets).sum(axis=1) / 2
    return points
