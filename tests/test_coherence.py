"""Coherence against gensim's CoherenceModel on the same topics and documents."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.kernels import coherence

TOPICS = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [0, 5, 8, 9]])


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    return scipy.sparse.csr_matrix(rng.poisson(np.linspace(0.9, 0.2, 12), (80, 12)))


def pairs_of(counts):
    """Counted chunk by chunk."""
    return sum(coherence.document_pairs(counts[first : first + 30], np.arange(12)) for first in range(0, 80, 30))


def gensim_figures(counts, measure):
    models = pytest.importorskip("gensim.models.coherencemodel")
    from gensim.corpora import Dictionary

    texts = [[f"w{v:02d}" for v in np.repeat(row.indices, row.data)] for row in counts]
    dictionary = Dictionary([[f"w{v:02d}" for v in range(12)]])
    topics = [[f"w{v:02d}" for v in topic] for topic in TOPICS]
    data = {"corpus": [dictionary.doc2bow(t) for t in texts]} if measure == "u_mass" else {"texts": texts}
    model = models.CoherenceModel(
        topics=topics, dictionary=dictionary, coherence=measure, window_size=10_000, processes=1, **data
    )
    return model.get_coherence_per_topic()


def test_u_mass_is_gensims(counts):
    found = [coherence.u_mass(topic, pairs_of(counts), 80) for topic in TOPICS]
    np.testing.assert_allclose(found, gensim_figures(counts, "u_mass"), rtol=1e-9)


def test_npmi_of_documents_is_gensims_with_windows_as_long_as_documents(counts):
    found = [coherence.npmi(topic, pairs_of(counts), 80) for topic in TOPICS]
    np.testing.assert_allclose(found, gensim_figures(counts, "c_npmi"), rtol=1e-9)


def test_words_that_never_meet_have_the_least_npmi():
    pairs = coherence.document_pairs(scipy.sparse.csr_matrix(np.eye(4, dtype=int)), np.arange(4))
    assert coherence.npmi(np.arange(4), pairs, 4) == pytest.approx(-1, abs=0.15)


def test_diversity_counts_distinct_words():
    assert coherence.diversity(TOPICS) == 10 / 12
