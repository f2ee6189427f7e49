"""Warnings of data that can be trained on, but that a user probably did not mean."""

import warnings

import pytest
from corpusmill import LDA, NMF, TrainingWarning, ingest

TEXTS = ["the boat on the sea", "the sea and a boat", "bread from the oven", "the oven for a bread"] * 5


@pytest.mark.parametrize("model", [LDA(2, max_iter=2), NMF(2, max_iter=2)], ids=lambda model: type(model).__name__)
def test_stop_words_that_only_the_new_documents_have_are_noticed(model, tmp_path):
    model.fit(ingest([text.split() for text in TEXTS], tmp_path / "first", stop_words="english"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        model.partial_fit(["boat sea bread", "oven bread flour"])
    texts = [*TEXTS, "by day"]
    with pytest.warns(TrainingWarning, match=r"of the 10 most frequent words are new to the model \('the', "):
        model.partial_fit(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        model.partial_fit(texts)
