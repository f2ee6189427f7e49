"""Training is scored on a fixed sample of tokens."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.kernels.lda.counts import count_documents
from corpusmill.kernels.lda.esca import log_likelihood
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.lda.scores import SCORED_TOKENS, TopicScores, sampled
from helpers.lda_cases import model_of, random_topics, word_order, zipf_chunk


# Warp reads neither of these arrays.
@pytest.mark.parametrize("unread", [(), ("words", "docs")])
def test_the_score_is_that_of_every_nth_token_given_whole_documents(unread):
    n_words, n_topics = 400, 7
    chunk = zipf_chunk(2_000, 150_000, n_words, group_tokens=40_000)
    z = random_topics(chunk, n_topics)
    model = model_of(chunk, z, np.full(n_topics, 0.1), n_words)
    n = 9
    part = sampled(chunk._replace(**{name: np.empty(0, np.uint32) for name in unread}), n)
    docs, words, _ = (array[n // 2 :: n] for array in word_order(chunk))
    assert part.word_ptr[-1] == len(docs)
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    A, B, N = np.zeros((2_000, n_topics)), np.zeros((n_words, n_topics)), model.totals
    np.add.at(A, (word_order(chunk)[0], z), 1)
    np.add.at(B, (word_order(chunk)[1], z), 1)
    theta = (A + 0.1) / (A + 0.1).sum(axis=1, keepdims=True)
    phi = (B + 0.01) / (N + n_words * 0.01)
    expected = np.log((theta[docs] * phi[words]).sum(axis=1)).sum()
    assert log_likelihood(part, rows, model) == pytest.approx(expected, rel=1e-5)


def test_all_tokens_of_a_small_chunk_are_scored():
    chunk = zipf_chunk(20, 900, 60)
    np.testing.assert_array_equal(sampled(chunk, 1).docs, chunk.docs)


@pytest.mark.parametrize("n_chunks", [1, 3, 20])
def test_about_as_many_tokens_of_any_large_corpus_are_scored(n_chunks):
    counts = np.random.default_rng(1).poisson(40, (60, 80))
    corpus = corpus_from(counts, chunk_tokens=-(-int(counts.sum()) // n_chunks) + 3200)
    row = LDA(3, max_iter=1).fit(corpus).history_[-1]
    assert SCORED_TOKENS <= row["evaluated_tokens"] < 2 * SCORED_TOKENS


def test_few_chunks_of_many_are_scored_and_the_metrics_say_how_many_tokens():
    most = TopicScores.most_chunks
    counts = np.random.default_rng(0).poisson(0.5, (10 * most, 30))
    corpus = corpus_from(counts, chunk_tokens=60)
    assert len(corpus.chunks) > 2 * most
    rows = LDA(4, max_iter=3).fit(corpus, evaluate_every=1).history_
    evaluated = {row["evaluated_tokens"] for row in rows}
    spread = [i * len(corpus.chunks) // most for i in range(most)]
    assert evaluated == {sum(corpus.chunks[chunk].tokens for chunk in spread)}
