"""partial_fit with any split and order of the documents."""

from collections import Counter

import numpy as np
import pytest
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec
from corpusmill.pipeline.ingest.ingest import corpus_from
from hypothesis import given
from hypothesis import strategies as st
from stateful.settings import few
from stateful.sums import sums_by_word

DOCUMENTS = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=6), min_size=2, max_size=8)
MODELS = {
    "lda": lambda: LDA(2, doc_topic_prior=0.1, max_iter=2, random_state=1),
    "nmf": lambda: NMF(2, max_iter=2, random_state=1),
    "word2vec": lambda: Word2Vec(vector_size=4, epochs=1, min_count=1, sample=0),
    "random-indexing": lambda: RandomIndexing(vector_size=16, seed_length=2, window=2),
}


@st.composite
def batches(draw):
    """Draw documents in any order, cut into batches."""
    documents = draw(DOCUMENTS)
    order = draw(st.permutations(range(len(documents))))
    cuts = sorted(draw(st.sets(st.integers(1, len(documents) - 1), max_size=3)))
    shuffled = [documents[index] for index in order]
    return documents, [shuffled[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(documents)], strict=True)]


@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.parametrize("kind", MODELS)
@few(examples=2, steps=1)
@given(drawn=batches())
def test_partial_fit_covers_all_batches(kind, drawn):
    documents, parts = drawn
    model = MODELS[kind]()
    known = []
    for part in parts:
        model.partial_fit(corpus_from(part))
        words = model.model_.vocabulary["word"].to_pylist()
        assert set(words) == set(known) | {word for document in part for word in document}
        known = words
    assert set(known) == {word for document in documents for word in document}
    for block in model.model_.blocks:
        for name, array in block.items():
            assert np.isfinite(array).all(), name
    if kind == "random-indexing":
        assert sums_by_word(model) == sums_by_word(MODELS[kind]().fit(corpus_from(documents)))
    if kind == "lda":
        counts = Counter(word for document in documents for word in document)
        frequencies = dict(zip(known, model.model_.vocabulary["term_frequency"].to_pylist(), strict=True))
        assert frequencies == counts
        assert int(model.model_.shared["totals"].sum()) == counts.total()
