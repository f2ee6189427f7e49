"""Collapsed Gibbs sampling by mini-batches, in which each table of counts changes at once or after the mini-batch.

Source: Moon's dissertation (2019), section 2.4.2.1 and Figure 2.8: all combinations for DT (here A, counts by
document), WT (here B, counts by word) and NT (here N, their totals). If all change at once, this is the sequential
sampler; if none does, it is ``corpusmill.kernels.lda.minibatch.minibatch`` up to rounding. A token is always left out
of its own counts.
"""

from typing import NamedTuple

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.lda import minibatch
from corpusmill.kernels.lda.minibatch import STRIDE, CountTables, Tokens, draw_index

from benchmarks.papers.kernels.every_token import invert_totals, weigh_counts


class Immediate(NamedTuple):
    """Which tables change after each token; the others change after each mini-batch."""

    documents: bool  # A, the dissertation's DT
    words: bool  # B, WT
    totals: bool  # N, NT


#: All combinations, by their names in the dissertation.
COMBINATIONS = {
    "all immediate (CGS)": Immediate(True, True, True),
    "DT, WT immediate": Immediate(True, True, False),
    "DT, NT immediate": Immediate(True, False, True),
    "WT, NT immediate": Immediate(False, True, True),
    "DT immediate": Immediate(True, False, False),
    "WT immediate": Immediate(False, True, False),
    "NT immediate": Immediate(False, False, True),
    "all delayed": Immediate(False, False, False),
}


def minibatches(
    tokens: Tokens,
    tables: CountTables,
    z: np.ndarray,
    key: np.uint64,
    doc_ptr: np.ndarray,
    documents: int,
    immediate: Immediate,
) -> None:
    """Draw ``z`` (T,) uint16, in word order, by mini-batches of ``documents``; update it and the tables."""
    for batch in minibatch.minibatches(tokens, doc_ptr, documents):
        old = z[batch]
        _draw(batch, tokens, tables, z, key, immediate)
        _catch_up(batch, tokens, tables, old, z, immediate)


@kernel
def _draw(batch, tokens, tables, z, key, immediate):
    docs, words, (A, B, N, alpha, beta, _) = tokens.docs, tokens.words, tables
    K = len(alpha)
    mass = np.float32(tables.mass)
    p = np.zeros((K + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    inverse = np.empty(K, np.float32)
    invert_totals(N, mass, inverse)
    for i in batch:
        a, b, old = A[docs[i]], B[words[i]], z[i]
        a[old] -= 1
        b[old] -= 1
        N[old] -= 1
        inverse[old] = 1 / (np.float32(N[old]) + mass)
        weigh_counts(a, b, inverse, alpha, np.float32(beta), p)
        new = z[i] = min(draw_index(p, random.uniform64(key, i)), K - 1)
        # A table that changes later gets the token back as it was.
        a[new if immediate.documents else old] += 1
        b[new if immediate.words else old] += 1
        kept = new if immediate.totals else old
        N[kept] += 1
        inverse[old] = 1 / (np.float32(N[old]) + mass)
        inverse[kept] = 1 / (np.float32(N[kept]) + mass)


@kernel
def _catch_up(batch, tokens, tables, old, z, immediate):
    """Bring the tables that change later up to date: tokens had the topics ``old`` (n,) and now have z."""
    for j in range(len(batch)):
        i = batch[j]
        if not immediate.documents:
            tables.A[tokens.docs[i], old[j]] -= 1
            tables.A[tokens.docs[i], z[i]] += 1
        if not immediate.words:
            tables.B[tokens.words[i], old[j]] -= 1
            tables.B[tokens.words[i], z[i]] += 1
        if not immediate.totals:
            tables.N[old[j]] -= 1
            tables.N[z[i]] += 1
