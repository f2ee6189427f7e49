"""Training is scored on a fixed sample of documents."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.lda.counts import count_documents
from corpusmill.kernels.lda.esca import log_likelihood
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.lda import scores
from corpusmill.pipeline.models.lda.scores import SCORED_TOKENS, sampled
from helpers.lda_cases import model_of, random_topics, zipf_chunk


def topics_by_word(chunk, z):
    """Triples of document, word and topic of all tokens, in order; documents in the order of the chunk."""
    words = np.repeat(chunk.word_ids, np.diff(chunk.word_ptr))
    return sorted(zip(chunk.docs.tolist(), words.tolist(), z.tolist(), strict=True))


# Warp reads neither of these arrays.
@pytest.mark.parametrize("unread", [(), ("words", "docs")])
def test_the_sample_has_whole_documents_with_their_topics(unread):
    chunk = zipf_chunk(2_000, 150_000, 400, group_tokens=40_000)
    z = random_topics(chunk, 7)
    given = chunk._replace(**{name: np.empty(0, np.uint32) for name in unread})
    part, part_z = sampled(given, z)
    assert SCORED_TOKENS <= part.n_tokens < 1.1 * SCORED_TOKENS
    lengths = np.diff(chunk.doc_ptr)
    by_document = {d: [] for d in range(chunk.n_documents)}
    for d, word, k in topics_by_word(chunk, z):
        by_document[d].append((word, k))
    found = {d: [] for d in range(part.n_documents)}
    for d, word, k in topics_by_word(part, part_z):
        found[d].append((word, k))
    # The documents of the sample follow each other as in the chunk.
    documents = iter(by_document[d] for d in range(chunk.n_documents) if lengths[d])
    assert all(any(document == tokens for document in documents) for tokens in found.values() if tokens)
    again, _ = sampled(given, random_topics(chunk, 7, seed=2))
    np.testing.assert_array_equal(again.words, part.words)
    # The chunk made anew of its documents is the same, up to its groups.
    same = make_chunk(chunk.number, part.doc_ptr, part.words)
    alpha = np.full(7, 0.1)
    z_same = part_z[np.argsort(part.word_to_doc_order)][same.word_to_doc_order]
    values = []
    for c, topics in ((part, part_z), (same, z_same)):
        rows = count_documents(c.doc_ptr, c.word_to_doc_order, topics)
        values.append(log_likelihood(c, rows, model_of(chunk, z, alpha, 400)))
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_a_small_chunk_and_a_long_document_are_scored_whole():
    small = zipf_chunk(20, 900, 60)
    part, z = sampled(small, random_topics(small, 5))
    assert part.n_tokens == len(z) == 900
    long = make_chunk(0, np.array([0, 50_000]), np.arange(50_000, dtype=np.uint32) % 60)
    part, z = sampled(long, random_topics(long, 5))
    assert part.n_tokens == len(z) == 50_000


def test_few_chunks_of_many_are_scored_and_the_metrics_say_how_many_tokens():
    most = scores.TopicScores.most_chunks
    counts = np.random.default_rng(0).poisson(0.5, (10 * most, 30))
    corpus = corpus_from(counts, chunk_tokens=60)
    assert len(corpus.chunks) > 2 * most
    rows = LDA(4, max_iter=3).fit(corpus, evaluate_every=1).history_
    evaluated = {row["evaluated_tokens"] for row in rows}
    spread = [i * len(corpus.chunks) // most for i in range(most)]
    assert evaluated == {sum(corpus.chunks[chunk].tokens for chunk in spread)}
