"""The likelihood of a whole document under fixed topics, by particles from left to right.

Source: Wallach, Murray, Salakhutdinov and Mimno, "Evaluation methods for topic models" (ICML 2009), algorithm 3. Its
cost grows with the square of a document's length: for small sets.

Reference implementation: tests/helpers/naive.py, `lda_left_to_right`.
"""

import numpy as np

from .. import random
from ..jit import kernel


@kernel
def left_to_right(words, phi, alpha, key, particles):
    """Estimate log p(words) of one document.

    ``words`` (T,) int64 rows of ``phi`` (W, K) float64, the topics' probabilities of each word; ``alpha`` (K,) float64;
    ``key`` uint64 of the document's draws: particle r takes those of the stream ``random.draw(key, r)`` in turn.
    """
    likelihood, line = np.zeros(len(words)), np.empty(len(alpha))
    total = alpha.sum()
    for r in range(particles):
        stream, taken = random.draw(key, r), 0
        z, counts = np.empty(len(words), np.int64), np.zeros(len(alpha), np.int64)
        for n in range(len(words)):
            for i in range(n):
                counts[z[i]] -= 1
                _line(phi[words[i]], alpha, counts, line)
                z[i] = _draw(line, random.uniform64(stream, taken))
                counts[z[i]] += 1
                taken += 1
            likelihood[n] += _line(phi[words[n]], alpha, counts, line) / (total + n)
            z[n] = _draw(line, random.uniform64(stream, taken))
            counts[z[n]] += 1
            taken += 1
    return np.log(likelihood / particles).sum()


@kernel
def _line(phi, alpha, counts, line):
    mass = 0.0
    for k in range(len(alpha)):
        mass += (counts[k] + alpha[k]) * phi[k]
        line[k] = mass
    return mass


@kernel
def _draw(line, x):
    return min(np.searchsorted(line, x * line[-1], "right"), len(line) - 1)
