"""Skip-gram with negative sampling: training on a text, joining models that were trained in parallel, and the loss.

    loss = −Σ_(w, c) [log σ(w·c) + Σ_k log σ(−w_k·c)]

over pairs of a word w (W_out) and a context word c (W_in), with ``negative`` negatives w_k.

Source: Mikolov et al., "Distributed representations of words and phrases" (NIPS 2013), equation 4. The same updates can
be made in three orders: ``sgns`` (sgns.py), ``full`` (full.py) and ``par`` (par.py).

Layout: W_in and W_out are (R, D) float32, one row per word; D is a multiple of PAD, and padding stays zero.

Reference implementation: tests/helpers/naive.py, `word2vec_sgns`, `word2vec_full` and `word2vec_par`.
"""

import numpy as np

from ..jit import kernel, vector_kernel
from .full import train_full
from .par import BATCH, train_par
from .sgns import train_sgns
from .text import (
    PAD,
    Text,
    TrainingOptions,
    empty_rows,
    first_vectors,
    keep_probability,
    negative_table,
    padded,
    subsample,
)
from .updates import TABLE_BITS

__all__ = [
    "BATCH",
    "METHODS",
    "PAD",
    "PULL",
    "TABLE_BITS",
    "Text",
    "TrainingOptions",
    "empty_rows",
    "first_vectors",
    "keep_probability",
    "loss",
    "merge_row_copies",
    "merge_weights",
    "negative_table",
    "padded",
    "subsample",
    "train",
]

METHODS = ("par", "full", "sgns")
#: The part of its distance to the optimum by which one pair moves a row, divided by the learning rate. Found in trials.
PULL = 0.03


def train(
    method: str,
    text: Text,
    options: TrainingOptions,
    W_in: np.ndarray,
    W_out: np.ndarray,
    documents: slice | None = None,
) -> None:
    """Train W_in and W_out (R, D) float32 in place on a text or some of its documents; ``method`` is one of METHODS."""
    first, last, _ = (documents or slice(None)).indices(len(text.ptr) - 1)
    sweep = {"par": train_par, "full": train_full, "sgns": train_sgns}[method]
    sweep(first, last, text, options, W_in, W_out)


def merge_weights(pairs: np.ndarray, shards: int, alpha: float) -> np.ndarray:
    """Return the weight of each row in the sum of the changes of n shards that trained it in parallel: (R,) float32.

    ``pairs`` (R,) counts the pairs that trained the row in all shards. If one shard moves a row by the part p of its
    distance to the optimum, n shards one after the other would move it by 1 − (1 − p)^n, and the sum of n parallel
    changes by n p. The weight is the quotient. So rare rows, with small p, take the sum, and frequent rows, which each
    shard moves all the way, take the mean. The sum for all rows diverges with many shards; the mean for all would hold
    back the rare ones.
    """
    p = np.maximum(-np.expm1(-PULL * alpha * pairs / shards), 1e-6)
    return (-np.expm1(shards * np.log1p(-np.minimum(p, 1 - 1e-6))) / (shards * p)).astype(np.float32)


@kernel
def merge_row_copies(W: np.ndarray, first: int, before: np.ndarray, share: np.ndarray) -> None:
    """Add the changes of a thread's copies of the H most frequent rows to the model, then renew the copies.

    The copies are the rows first:first + H of W (any, D) float32. ``before`` (H, D) is what they were after the last
    merge, and is brought up to date. ``share`` (H,) float32 is the weight of each row's change.
    """
    for r in range(len(before)):
        for d in range(W.shape[1]):
            W[r, d] += share[r] * (W[first + r, d] - before[r, d])
            before[r, d] = W[first + r, d] = W[r, d]


@vector_kernel
def loss(W_in: np.ndarray, W_out: np.ndarray, pairs: np.ndarray, negatives: np.ndarray) -> float:
    """Sum the loss of pairs (n, 2) of rows of W_out and W_in (R, D) float32, with negatives (n, N)."""
    total = 0.0
    for i in range(len(pairs)):
        # k = -1 is the pair itself, the others are its negatives.
        for k in range(-1, negatives.shape[1]):
            row = pairs[i, 0] if k < 0 else negatives[i, k]
            product = np.float32(0)
            for d in range(W_in.shape[1]):
                product += W_out[row, d] * W_in[pairs[i, 1], d]
            # -log σ(x) in a form that neither overflows nor loses digits.
            x = -product if k < 0 else product
            total += max(x, 0) + np.log1p(np.exp(-abs(x)))
    return total
