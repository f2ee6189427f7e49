"""How large the components of a factorisation are."""

import numpy as np

from ..base.saved import TrainedModel


def component_sizes(model: TrainedModel) -> np.ndarray:
    """Return the share of each component in H·Wᵀ: (K,) float64, sum 1.

    It is measured by the component's norms in H and W, for the Kullback-Leibler divergence by its sums. W alone would
    not do, because a component may be large in W and small in H, or the other way round.
    """
    W = model.joined("W").astype(np.float64)
    Q = model.shared["Q"]
    if Q.ndim == 1:
        sizes = Q * W.sum(axis=0)
    else:
        sizes = np.sqrt(np.diag(Q)) * np.linalg.norm(W, axis=0)
    return sizes / max(float(sizes.sum()), np.finfo(float).tiny)
