"""The likelihood of a whole document under a fixed model, estimated by particles from left to right.

    p(w) ≈ Π_n (1/R) Σ_r Σ_k φ_{w_n, k} (n_k^(r) + α_k) / (n + Σ α)

where particle r has drawn topics for the first n words, and n_k^(r) counts them. Before each word, a particle draws the
topics of all earlier words again.

Source: Wallach, Murray, Salakhutdinov and Mimno, "Evaluation methods for topic models" (ICML 2009), algorithm 3. The
cost grows with the square of the document's length, so this is for small sets of documents.

Reference implementation: tests/helpers/naive.py, `lda_left_to_right`.
"""

import numpy as np

from .. import random
from ..jit import kernel
from ..search import rank


@kernel
def left_to_right(words: np.ndarray, phi: np.ndarray, alpha: np.ndarray, key: np.uint64, particles: int) -> float:
    """Estimate log p(words) of one document.

    ``words`` (T,) int64 are rows of ``phi`` (W, K) float64, the probability of each word under each topic; ``alpha``
    (K,) float64. Particle r takes the draws of the stream ``random.draw(key, r)`` in turn.
    """
    likelihood = np.zeros(len(words))
    ends = np.empty(len(alpha))
    total = alpha.sum()
    for r in range(particles):
        stream = random.draw(key, r)
        taken = 0
        z = np.empty(len(words), np.int64)
        counts = np.zeros(len(alpha), np.int64)
        for n in range(len(words)):
            # Draw the topics of all earlier words again, given the other topics so far (Wallach et al., Algorithm 3).
            for i in range(n):
                counts[z[i]] -= 1
                _accumulate(phi[words[i]], alpha, counts, ends)
                z[i] = _draw(ends, random.uniform64(stream, taken))
                counts[z[i]] += 1
                taken += 1
            likelihood[n] += _accumulate(phi[words[n]], alpha, counts, ends) / (total + n)
            # `ends` still has the distribution of word n, which the line above scored.
            z[n] = _draw(ends, random.uniform64(stream, taken))
            counts[z[n]] += 1
            taken += 1
    return np.log(likelihood / particles).sum()


@kernel
def _accumulate(phi: np.ndarray, alpha: np.ndarray, counts: np.ndarray, ends: np.ndarray) -> float:
    """Write the prefix sums of (n_k + α_k) φ_k to ``ends`` (K,); return the last one."""
    mass = 0.0
    for k in range(len(alpha)):
        mass += (counts[k] + alpha[k]) * phi[k]
        ends[k] = mass
    return mass


@kernel
def _draw(ends: np.ndarray, u: float) -> int:
    """Return the topic that a uniform number u falls on."""
    return min(rank(ends, len(ends), u * ends[-1]), len(ends) - 1)
