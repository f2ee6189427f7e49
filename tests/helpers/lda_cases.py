"""Small chunks and models for the tests of LDA's kernels."""

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import esca, minibatch
from corpusmill.kernels.lda.counts import count_documents, count_words, topic_totals
from corpusmill.kernels.lda.model import ModelBlock
from helpers.naive import lda_counts
from scipy import stats


def zipf_chunk(n_documents, n_tokens, n_words, group_tokens=1 << 20, seed=0):
    """A chunk whose words have Zipf's frequencies."""
    rng = np.random.default_rng(seed)
    lengths = rng.multinomial(n_tokens, rng.dirichlet(np.full(n_documents, 2.0)))
    weights = 1 / np.arange(1, n_words + 1)
    words = rng.choice(n_words, n_tokens, p=weights / weights.sum()).astype(np.uint32)
    return make_chunk(0, np.r_[0, np.cumsum(lengths)], words, group_tokens)


def small_chunk(seed=0, documents=9, n_words=12, group_tokens=30, length=12):
    """A chunk of several groups, with one empty document and one of a single token."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, length, documents)
    lengths[:2] = 0, 1
    words = np.minimum(rng.geometric(0.2, lengths.sum()) - 1, n_words - 1).astype(np.uint32)
    return make_chunk(0, np.r_[0, np.cumsum(lengths)], words, group_tokens)


def random_topics(chunk, n_topics, seed=1):
    """Topics of a chunk's tokens: (T,) uint16."""
    return np.random.default_rng(seed).integers(0, n_topics, chunk.n_tokens).astype(np.uint16)


def word_order(chunk):
    """Documents, words and positions in document order of the tokens in word order, all (T,) int64."""
    positions = chunk.word_to_doc_order.astype(int)
    return chunk.docs.astype(int), chunk.words[positions].astype(int), positions


def dense_counts(chunk, z, n_topics, n_words):
    """A (D, K), B (V, K) and N (K,) of a chunk."""
    docs, words, _ = word_order(chunk)
    return lda_counts(docs, words, z, chunk.n_documents, n_words, n_topics)


def model_of(chunk, z, alpha, n_words, words=None, beta=0.01):
    """The model of a corpus that consists of this chunk, or the model's block of ``words``."""
    n_topics = len(alpha)
    whole = count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    totals = topic_totals(whole.topics, whole.counts, n_topics)
    first, stop = words or (0, n_words)
    block = count_words(chunk.word_ids, chunk.word_ptr, z, (first, stop), n_topics)
    return ModelBlock(*block, first, totals, np.asarray(alpha, np.float32), beta, n_words)


def empty_model(alpha, n_words, beta=0.01):
    """A model without counts."""
    counts = np.zeros(n_words + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.int32)
    totals = np.zeros(len(alpha), np.int64)
    return ModelBlock(*counts, 0, totals, np.asarray(alpha, np.float32), beta, n_words)


def trained_topics(chunk, alpha, n_words, sweeps, leave_out=True):
    """Topics after a few sweeps, when rows are as sparse as in use: (T,) uint16."""
    z = esca.draw_initial(chunk, empty_model(alpha, n_words), random.key(7))
    for t in range(sweeps):
        rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
        z = esca.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(7, t), leave_out)
    return z


def chi_square(observed, expected):
    """The p-value of counts, with all bins that expect fewer than five pooled into one."""
    rare = expected < 5
    pooled = [np.r_[counts[~rare], counts[rare].sum()] for counts in (observed, expected)]
    if pooled[1][-1] < 1:
        pooled = [p[:-1] for p in pooled]
        pooled[1] *= pooled[0].sum() / pooled[1].sum()
    return stats.chisquare(*pooled).pvalue


def tokens_of(chunk):
    """Return the tokens of a chunk in word order, as collapsed sampling takes them."""
    return minibatch.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)


def tables_of(chunk, z, alpha, n_words, beta):
    """Return the dense tables of counts of the topics z."""
    A, B, N = (table.astype(np.int32) for table in dense_counts(chunk, z, len(alpha), n_words))
    np.testing.assert_array_equal(A, minibatch.document_counts(tokens_of(chunk), z, len(A), len(alpha)))
    return minibatch.CountTables(A, B, N, np.asarray(alpha, np.float32), beta, n_words * beta)


def assert_counts(tables, chunk, z):
    """Assert that the tables count the topics z."""
    for found, expected in zip(tables[:3], dense_counts(chunk, z, len(tables.alpha), len(tables[1])), strict=True):
        np.testing.assert_array_equal(found, expected)
