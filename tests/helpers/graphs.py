"""Random graphs, as dense matrices of weights and as the kernels take them."""

import numpy as np
from corpusmill.kernels.node2vec import walks


def adjacency(W, symmetric):
    """Return the kernels' form of a dense matrix of weights (V, V); weights that are all 1 are left out."""
    rows = [np.flatnonzero(row) for row in W]
    weights = np.concatenate([W[v, row] for v, row in enumerate(rows)]).astype(np.float32)
    return walks.Adjacency(
        np.r_[0, np.cumsum([len(row) for row in rows])].astype(np.int64),
        np.concatenate(rows).astype(np.uint32),
        weights if (weights != 1).any() else np.empty(0, np.float32),
        symmetric,
    )


def random_graph(n_nodes, density, directed, weighted, seed=0):
    """Return the matrix of weights (V, V) of a random graph."""
    rng = np.random.default_rng(seed)
    W = (rng.random((n_nodes, n_nodes)) < density).astype(float)
    if weighted:
        W *= rng.choice([0.25, 1.0, 3.0, 8.0], W.shape)
    return W if directed else np.triu(W) + np.triu(W, 1).T
