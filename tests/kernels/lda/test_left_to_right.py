"""Left-to-right evaluation against its reference implementation, and against the exact likelihood."""

import itertools

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.lda.inference import left_to_right
from helpers.naive import lda_left_to_right, lda_uniforms
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1 << 32), st.integers(0, 9), st.integers(1, 4))
def test_the_estimate_is_that_of_the_reference_implementation(seed, length, particles):
    rng = np.random.default_rng(seed)
    phi, alpha = rng.random((6, 3)), rng.random(3)
    words, key = rng.integers(0, 6, length), np.uint64(seed)
    streams = [iter(lda_uniforms(random.draw(key, r), 100)) for r in range(particles)]
    found = left_to_right(words, phi, alpha, key, particles)
    assert found == pytest.approx(lda_left_to_right(words.tolist(), phi, alpha, streams))


def test_the_estimate_of_many_particles_is_near_the_exact_likelihood():
    rng = np.random.default_rng(1)
    phi, alpha, words = rng.dirichlet(np.ones(5), 2).T.copy(), np.array([0.3, 0.6]), np.array([0, 3, 3, 1, 4])
    total = 0.0
    for z in itertools.product(range(2), repeat=5):
        A = np.bincount(z, minlength=2)
        prior = gammaln(alpha.sum()) - gammaln(5 + alpha.sum()) + (gammaln(A + alpha) - gammaln(alpha)).sum()
        total += np.exp(prior) * phi[words, list(z)].prod()
    assert left_to_right(words, phi, alpha, np.uint64(7), 20_000) == pytest.approx(np.log(total), abs=0.03)
