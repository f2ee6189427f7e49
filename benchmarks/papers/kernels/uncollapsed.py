"""LDA by uncollapsed Gibbs sampling: θ and φ are drawn given the topics, then the topics given θ and φ.

    θ_d ~ Dirichlet(A_d + α),    φ_k ~ Dirichlet(B_k + β),    p(k) ∝ φ_vk θ_dk

Source: Moon's dissertation (2019), Algorithm 2 and equation 2.2. All chunks use the same φ, so this is one exact
sampler of the whole corpus, for any division into chunks. It mixes more slowly than the samplers that integrate θ and φ
out.

Layout: dense tables, as in minibatch.py; φ (V, K) and θ (D, K) are float32.

Reference implementation: tests/helpers/naive.py, `lda_uncollapsed`.
"""

import numpy as np
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.lda.minibatch import STRIDE, CountTables, Tokens, draw_index, weigh_topics
from corpusmill.kernels.random import uniform64


def sample(tokens: Tokens, tables: CountTables, keys: tuple[np.uint64, np.uint64], out: np.ndarray) -> None:
    """Draw θ and φ given the counts in ``tables``, then the topics ``out`` (T,) uint16 in word order given θ and φ.

    The tables hold all V words. The first key belongs to the chunk; θ and the topics are drawn with it. φ is drawn with
    the second key, which must be the same for all chunks.
    """
    theta = dirichlet(tables.A + tables.alpha, 1, keys[0])
    phi = dirichlet(tables.B + np.float32(tables.beta), 0, keys[1])
    draw_topics(tokens, theta, phi, keys[0], out)


def dirichlet(parameters: np.ndarray, axis: int, key: np.uint64) -> np.ndarray:
    """Draw from Dirichlet distributions with parameters along ``axis``; returns float32 of the same shape."""
    generator = np.random.Generator(np.random.Philox(key=int(key)))
    drawn = generator.standard_gamma(parameters.astype(np.float64))
    # Gamma draws with tiny parameters can all be zero; their sum must not divide by zero.
    total = np.maximum(drawn.sum(axis=axis, keepdims=True), np.finfo(np.float64).tiny)
    return (drawn / total).astype(np.float32)


@kernel
def draw_topics(tokens: Tokens, theta: np.ndarray, phi: np.ndarray, key: np.uint64, out: np.ndarray) -> None:
    """Draw ``out`` (T,) uint16 from φ (V, K) and θ (D, K), both float32; token i takes draw i of ``key``."""
    K = theta.shape[1]
    p = np.zeros((K + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    for i in range(len(out)):
        weigh_topics(phi[tokens.words[i]], theta[tokens.docs[i]], np.float32(0), p)
        out[i] = min(draw_index(p, uniform64(key, i)), K - 1)
