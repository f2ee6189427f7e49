"""Extrapolation of W: each epoch starts beyond the W of the previous epoch, in the direction of its last step.

After Ang and Gillis, "Accelerating nonnegative matrix factorization algorithms using extrapolation" (Neural Computation
2019). Only W is extrapolated. H follows it, so its rows need no second copy on disk.
"""

import numpy as np

from ....io.stores.store import Arrays
from ....kernels.nmf import hals as nmf

#: Share of the last step that the first extrapolation adds.
FIRST_MOMENTUM = 0.5
#: Factor of the momentum after an epoch in which the error fell.
GROWTH = 1.05
#: Divisor of the momentum after an epoch in which the error rose.
REDUCTION = 1.5


def extrapolate_step(block: Arrays, W: np.ndarray, S: np.ndarray, explained: np.float64) -> tuple[Arrays, np.ndarray]:
    """Extrapolate a block of W (rows, K) whose Gram matrix is S (K, K).

    ``block`` has the arrays of the previous epoch, and ``explained`` is the part of ‖A‖² that this block explains now.
    If it fell, the error rose, and the next epoch restarts at W itself with less momentum.

    Returns the arrays that the block keeps (``extrapolated``, ``momentum``, ``explained``), and the Gram matrix of the
    extrapolated rows, (K, K) float64.
    """
    momentum = block.get("momentum", np.float64(FIRST_MOMENTUM))
    if explained < block.get("explained", -np.inf):
        return {"extrapolated": W, "momentum": momentum / REDUCTION, "explained": explained}, S
    extrapolated = np.empty_like(W)
    gram = np.zeros_like(S)
    scratch = nmf.make_scratch(len(S), W.dtype)
    nmf.extrapolate(W, block["W"], W.dtype.type(momentum), extrapolated, gram, scratch)
    gram = nmf.symmetric(gram)
    # Columns keep the lengths that they have in W. H can undo any scale, so lengths would grow without limit.
    scale = np.sqrt(np.diag(S) / np.maximum(np.diag(gram), np.finfo(W.dtype).tiny))
    extrapolated *= scale.astype(W.dtype)
    kept = {
        "extrapolated": extrapolated,
        "momentum": np.minimum(momentum * GROWTH, 1.0),
        "explained": explained,
    }
    return kept, gram * np.outer(scale, scale)


def name_of_start(block: Arrays) -> str:
    """Return the name of the array that has the rows of W that an epoch starts from."""
    return "extrapolated" if "extrapolated" in block else "W"
