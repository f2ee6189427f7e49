"""Skip-gram with negative sampling: training on a text, and the loss.

    loss = −Σ_(w, c) [log σ(w·c) + Σ_k log σ(−w_k·c)]

over pairs of a word w (W_out) and a context word c (W_in), with ``negative`` negatives w_k.

Source: Mikolov et al., "Distributed representations of words and phrases" (NIPS 2013), equation 4. The updates can be
made in several orders: ``full`` (full.py) and ``par`` (par.py) share negatives among pairs.

Layout: W_in and W_out are (R, D) float32, one row per word; D is a multiple of PAD, and padding stays zero.

Reference implementation: tests/helpers/naive.py, `word2vec_full` and `word2vec_par`.
"""

import numpy as np

from ..jit import vector_kernel
from .full import train_full
from .par import train_par
from .text import Text, TrainingOptions

METHODS = {"par": train_par, "full": train_full}


def train(
    method: str,
    text: Text,
    options: TrainingOptions,
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Train W_in and W_out (R, D) float32 in place on a text; ``method`` is one of METHODS."""
    METHODS[method](0, len(text.ptr) - 1, text, options, W_in, W_out)


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
