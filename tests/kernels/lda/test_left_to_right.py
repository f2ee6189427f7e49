"""Left-to-right evaluation against a naive oracle, against the exact likelihood, and through the estimator."""

import itertools

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.kernels import random
from corpusmill.kernels.lda.left_to_right import left_to_right
from helpers.naive import lda_left_to_right, lda_uniforms
from helpers.toy import write_topic_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1 << 32), st.integers(0, 9), st.integers(1, 4))
def test_it_is_the_naive_algorithm(seed, length, particles):
    rng = np.random.default_rng(seed)
    phi, alpha = rng.random((6, 3)), rng.random(3)
    words, key = rng.integers(0, 6, length), np.uint64(seed)
    streams = [iter(lda_uniforms(random.draw(key, r), 100)) for r in range(particles)]
    found = left_to_right(words, phi, alpha, key, particles)
    assert found == pytest.approx(lda_left_to_right(words.tolist(), phi, alpha, streams))


def test_many_particles_come_near_the_exact_likelihood():
    rng = np.random.default_rng(1)
    phi, alpha, words = rng.dirichlet(np.ones(5), 2).T.copy(), np.array([0.3, 0.6]), np.array([0, 3, 3, 1, 4])
    total = 0.0
    for z in itertools.product(range(2), repeat=5):
        A = np.bincount(z, minlength=2)
        prior = gammaln(alpha.sum()) - gammaln(5 + alpha.sum()) + (gammaln(A + alpha) - gammaln(alpha)).sum()
        total += np.exp(prior) * phi[words, list(z)].prod()
    assert left_to_right(words, phi, alpha, np.uint64(7), 20_000) == pytest.approx(np.log(total), abs=0.03)


def test_models_are_scored_by_it(tmp_path, cluster_of):
    corpus = write_topic_corpus(tmp_path / "corpus", n_topics=4)
    held_out = corpus.held_out
    good = LDA(4, doc_topic_prior=0.1, max_iter=30, n_blocks=2, random_state=1).fit(corpus)
    poor = LDA(4, doc_topic_prior=0.1, max_iter=1, random_state=1).fit(corpus)
    found = good.score(held_out, method="left-to-right", particles=5)
    assert found > poor.score(held_out, method="left-to-right", particles=5) + 0.5
    assert good.score_sums(held_out, method="left-to-right", particles=1)["tokens"] == held_out.n_tokens
    client = cluster_of(2)
    assert good.score(held_out, client=client, method="left-to-right", particles=5) == found
    with pytest.raises(ValueError, match="completion, left-to-right"):
        good.score(held_out, method="harmonic")
    with pytest.raises(ValueError, match="particles is 0"):
        good.score(held_out, method="left-to-right", particles=0)
