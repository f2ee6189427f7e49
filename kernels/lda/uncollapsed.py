"""Latent Dirichlet allocation by uncollapsed Gibbs sampling: topics of tokens, then θ and φ, each given the other.

Source: Moon's dissertation (2019), Algorithm 2 and equation 2.2: p(k) ∝ φ_vk θ_dk. φ is the same for all chunks, so
this is one exact sampler of the whole corpus, however it is cut; it mixes more slowly than those that integrate θ and φ
out.

Reference implementation: tests/helpers/naive.py, `lda_uncollapsed`.
"""

import numpy as np

from ..jit import kernel
from ..random import uniform64
from .collapsed import STRIDE, CountTables, Tokens, draw_index, weigh_topics


def sample(tokens: Tokens, tables: CountTables, keys: tuple[np.uint64, np.uint64], out: np.ndarray) -> None:
    """Draw topics ``out`` (T,) uint16, in word order, from θ and φ drawn given the tables, which hold all V words.

    The first key is the chunk's: it gives θ, and the draw of token i; the second, which all chunks share, gives φ.
    """
    theta = dirichlet(tables.A + tables.alpha, 1, keys[0])
    phi = dirichlet(tables.B + np.float32(tables.beta), 0, keys[1])
    draw_topics(tokens, theta, phi, keys[0], out)


def dirichlet(parameters: np.ndarray, axis: int, key: np.uint64) -> np.ndarray:
    """Draw from Dirichlet distributions whose parameters lie along ``axis``: float32, of the same shape."""
    drawn = np.random.Generator(np.random.Philox(key=int(key))).standard_gamma(parameters.astype(np.float64))
    return (drawn / np.maximum(drawn.sum(axis=axis, keepdims=True), np.finfo(np.float64).tiny)).astype(np.float32)


@kernel
def draw_topics(tokens, theta, phi, key, out):
    """Draw ``out`` (T,) uint16 from φ (V, K) and θ (D, K), both float32; token i takes draw i of ``key``."""
    K = theta.shape[1]
    p = np.zeros((K + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    for i in range(len(out)):
        weigh_topics(phi[tokens.words[i]], theta[tokens.docs[i]], np.float32(0), p)
        out[i] = min(draw_index(p, uniform64(key, i)), K - 1)
