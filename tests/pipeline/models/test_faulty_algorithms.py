"""The algorithm that injects faults is like the one that it wraps, so tests of lost workers merge as training does."""

import pytest
from corpusmill import LDA, NMF, RandomIndexing
from helpers.faults import Faulty
from helpers.toy import write_toy_corpus


@pytest.mark.parametrize(
    "estimator", [LDA(3), LDA(3, sampler="warp"), NMF(3), RandomIndexing(64)], ids=["lda", "warp", "nmf", "ri"]
)
def test_every_part_is_that_of_the_wrapped_algorithm(tmp_path, estimator):
    corpus = write_toy_corpus(tmp_path / "corpus")
    inner = estimator._algorithm(corpus)
    faulty = Faulty(inner, (), str(tmp_path))
    assert faulty.bounds == inner.bounds
    assert faulty.needs(corpus, 2) == inner.needs(corpus, 2)
    assert faulty.memory(corpus, corpus.chunks[0]) == inner.memory(corpus, corpus.chunks[0])
    assert type(faulty.merge) is type(inner.merge)
    assert type(faulty.scores) is type(inner.scores)
