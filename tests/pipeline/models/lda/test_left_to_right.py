"""Scores of LDA by left-to-right evaluation."""

import pytest
from corpusmill import LDA
from helpers.toy import write_topic_corpus


def test_scores_prefer_the_better_model_on_any_number_of_workers(tmp_path, cluster_of):
    corpus = write_topic_corpus(tmp_path / "corpus", n_topics=4)
    held_out = corpus.held_out
    good = LDA(4, doc_topic_prior=0.1, max_iter=30, n_blocks=2, random_state=1).fit(corpus)
    poor = LDA(4, doc_topic_prior=0.1, max_iter=1, random_state=1).fit(corpus)
    found = good.score(held_out, method="left-to-right", particles=5)
    assert found > poor.score(held_out, method="left-to-right", particles=5) + 0.5
    assert good._sum_scores(held_out, None, {"method": "left-to-right"})["tokens"] == held_out.n_tokens
    client = cluster_of(2)
    assert good.score(held_out, client=client, method="left-to-right", particles=5) == found
    with pytest.raises(ValueError, match="completion, left-to-right"):
        good.score(held_out, method="harmonic")
    with pytest.raises(ValueError, match="particles is 0"):
        good.score(held_out, method="left-to-right", particles=0)
