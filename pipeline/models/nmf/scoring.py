"""The likelihood of documents under a factorisation, by document completion."""

import numpy as np

from ....io.stores.store import Arrays
from ..base.saved import Fitted

#: Share of a document's words that a score leaves to their overall frequency.
BACKGROUND = 0.05


def score_other_half(
    model: Fitted, rows: np.ndarray, doc_ptr: np.ndarray, words: np.ndarray, first: np.ndarray
) -> Arrays:
    """Score the tokens that ``first`` (tokens,) bool leaves out, given the ``rows`` (D, K) of H of all others.

    Returns the sums ``log_likelihood`` and ``tokens``.
    """
    W = model.joined("W")
    if "idf" in model.shared:
        # Back from weights to counts.
        W = W / model.shared["idf"][:, None]
    frequency = np.asarray(model.vocabulary["term_frequency"], np.float64)
    background = BACKGROUND * frequency / frequency.sum()
    row_sums = rows @ W.sum(axis=0)
    log_likelihood = 0.0
    tokens = 0
    for d in range(len(doc_ptr) - 1):
        own = slice(doc_ptr[d], doc_ptr[d + 1])
        scored = words[own][~first[own]]
        share = 1 / len(W)
        if row_sums[d] > 0:
            share = (W[scored] @ rows[d]) / row_sums[d]
        log_likelihood += float(np.log((1 - BACKGROUND) * share + background[scored]).sum())
        tokens += len(scored)
    return {"log_likelihood": np.float64(log_likelihood), "tokens": np.int64(tokens)}
