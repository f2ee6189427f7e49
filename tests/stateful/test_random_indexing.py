"""Merging, growing and forgetting in any order: a model is that of the multiset of its documents, bit for bit."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from corpusmill import RandomIndexing
from corpusmill.io.errors import DataError
from corpusmill.pipeline.ingest.ingest import corpus_from
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule
from stateful.settings import few
from stateful.sums import sums_by_word

DOCUMENTS = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5), min_size=1, max_size=4)


def model():
    """Return an untrained model."""
    return RandomIndexing(vector_size=16, seed_length=2, window=2, random_state=5)


def keyed(documents):
    """Return documents as a multiset."""
    return Counter(tuple(document) for document in documents)


class SumsMachine(RuleBasedStateMachine):
    """Keeps pairs of a model and the multiset of its documents."""

    models = Bundle("models")

    @rule(target=models, documents=DOCUMENTS)
    def fit(self, documents):
        return model().fit(corpus_from(documents)), keyed(documents)

    @rule(target=models, documents=DOCUMENTS)
    def begin_with_partial_fit(self, documents):
        return model().partial_fit(corpus_from(documents)), keyed(documents)

    @rule(target=models, left=models, right=models)
    def merge(self, left, right):
        merged = left[0].merge(right[0])
        self.check(left)
        self.check(right)
        assert sums_by_word(merged) == sums_by_word(right[0].merge(left[0]))
        return merged, left[1] + right[1]

    @rule(target=models, known=consumes(models), documents=DOCUMENTS)
    def grow(self, known, documents):
        return known[0].partial_fit(corpus_from(documents)), known[1] + keyed(documents)

    @rule(target=models, known=consumes(models), data=st.data())
    def forget(self, known, data):
        documents = sorted(known[1].elements())
        gone = data.draw(st.lists(st.sampled_from(range(len(documents))), min_size=1, unique=True))
        if len(gone) == len(documents):
            return known
        forgotten = [list(documents[index]) for index in gone]
        return known[0].forget(corpus_from(forgotten)), known[1] - keyed(forgotten)

    @rule(known=models)
    def forget_more_than_there_is(self, known):
        documents = [list(document) for document in known[1].elements()]
        with pytest.raises((DataError, ValueError)):
            known[0].forget(corpus_from(documents + documents))
        self.check(known)

    @rule(target=models, known=models)
    def save_and_load(self, known):
        with tempfile.TemporaryDirectory() as folder:
            known[0].save(Path(folder, "model"))
            loaded = RandomIndexing.load(str(Path(folder, "model")))
            self.check((loaded, known[1]))
        return multiple()

    @rule(known=models)
    def check(self, known):
        estimator, documents = known
        expected = model().fit(corpus_from([list(document) for document in documents.elements()]))
        assert sums_by_word(estimator) == sums_by_word(expected)
        assert estimator.model_.shared["documents"] == documents.total()


TestSums = SumsMachine.TestCase
TestSums.settings = few(examples=2, steps=8)
