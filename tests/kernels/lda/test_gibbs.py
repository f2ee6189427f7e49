"""Collapsed Gibbs sampling in word order, against a plain implementation and against its distribution."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import gibbs
from corpusmill.kernels.lda import gibbs_registers as gibbs_registers
from corpusmill.kernels.simd import tiles
from helpers.lda_cases import (
    chi_square,
    dense_counts,
    model_of,
    random_topics,
    small_chunk,
    trained_topics,
    word_order,
    zipf_chunk,
)
from helpers.naive import lda_uniforms, lda_weights
from helpers.naive_gibbs import lda_gibbs_sweep
from helpers.narrow_registers import NARROW

BETA = 0.01
KEY = random.key(5)


def is_dense(chunk, n_topics):
    return gibbs.has_dense_rows(n_topics, chunk.n_tokens, chunk.n_documents)


def reference_sweep(chunk, z, alpha, n_words):
    n_topics = len(alpha)
    counts = dense_counts(chunk, z, n_topics, n_words)
    uniforms = lda_uniforms(KEY, chunk.n_tokens)
    dense = is_dense(chunk, n_topics)
    if dense:
        uniforms = np.floor(uniforms * 2**24) / 2**24
    # The kernels hold alpha in single precision.
    prior = alpha.astype(np.float32).astype(float), BETA
    apart = n_topics > gibbs_registers.MOST_TOPICS
    return lda_gibbs_sweep(*word_order(chunk), z, counts, prior, uniforms, dense, apart)


@pytest.mark.parametrize("n_topics", [2, 7, 24, 64, 65, 90, 128, 150, 600])
@pytest.mark.parametrize("group_tokens", [1 << 20, 500])
def test_topics_are_those_of_the_reference(n_topics, group_tokens):
    n_words = 60
    alpha = np.linspace(0.05, 0.2, n_topics)
    chunk = zipf_chunk(40, 3_000, n_words, group_tokens)
    z = trained_topics(chunk, alpha, n_words, sweeps=2)
    assert is_dense(chunk, n_topics) == (n_topics < 200)
    found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
    assert np.count_nonzero(found != z) > 100
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [50, 70, 400])
def test_topics_drawn_from_random_ones_are_those_of_the_reference(n_topics):
    n_words, alpha = 60, np.full(n_topics, 0.1)
    chunk = zipf_chunk(20, 500, n_words)
    assert is_dense(chunk, n_topics) == (n_topics < 100)
    z = random_topics(chunk, n_topics)
    found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


# Runs in a process of its own, because kernels are compiled for one width.
WIDTH = """
import sys
from corpusmill.kernels.simd import tiles
assert tiles.BITS == int(sys.argv[1])
sys.path[:0] = sys.argv[2].split(":")
import test_gibbs
for n_topics in (50, 70, 400):
    test_gibbs.test_topics_drawn_from_random_ones_are_those_of_the_reference(n_topics)
"""


@pytest.mark.slow
@pytest.mark.parametrize("bits", [128, 256])
def test_registers_of_other_widths(bits):
    if bits >= tiles.BITS:
        pytest.skip("the other tests use the widest registers of this processor")
    arguments = [str(bits), f"{Path(__file__).parent}:{Path(__file__).parents[2]}"]
    subprocess.run([sys.executable, "-c", WIDTH, *arguments], check=True, env=os.environ | NARROW[bits])


def test_topics_of_long_documents_are_those_of_the_reference():
    n_words = 60
    alpha = np.linspace(0.05, 0.2, gibbs.MOST_DENSE_TOPICS)
    chunk = zipf_chunk(10, 3_000, n_words)
    z = trained_topics(chunk, alpha, n_words, sweeps=2)
    assert is_dense(chunk, len(alpha))
    assert not is_dense(chunk, len(alpha) + 1)
    found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
    assert np.count_nonzero(found != z) > 100
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [65, 128])
def test_documents_of_few_tokens_have_sparse_rows(n_topics):
    n_words, alpha = 60, np.full(n_topics, 0.1)
    short, longer = zipf_chunk(200, 1_599, n_words), zipf_chunk(200, 1_600, n_words)
    assert not is_dense(short, n_topics)
    assert is_dense(longer, n_topics)
    for chunk in (short, longer):
        z = trained_topics(chunk, alpha, n_words, sweeps=1)
        found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
        np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [6, 90])
def test_empty_documents_and_documents_of_one_token(n_topics):
    n_words, alpha = 12, np.full(n_topics, 0.1)
    for seed in range(5):
        chunk = small_chunk(seed, length=60)
        assert is_dense(chunk, n_topics)
        z = trained_topics(chunk, alpha, n_words, sweeps=1)
        found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
        np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics, used, n_tokens", [(12, 9, 40), (80, 40, 400), (260, 9, 40)])
def test_draws_of_the_first_token_follow_the_full_conditional(n_topics, used, n_tokens):
    n_words, draws = 6, 6_000
    rng = np.random.default_rng(2)
    chunk = make_chunk(0, np.array([0, 15, n_tokens]), rng.integers(0, n_words, n_tokens).astype(np.uint32))
    alpha = np.full(n_topics, 2 / n_topics)
    z = rng.integers(0, used, n_tokens).astype(np.uint16)
    assert is_dense(chunk, n_topics) == (n_topics < 100)
    docs, words, _ = word_order(chunk)
    A, B, N = dense_counts(chunk, z, n_topics, n_words)
    model = model_of(chunk, z, alpha, n_words)
    found = [gibbs.sweep(chunk, [model], z, random.key(1, t))[0] for t in range(draws)]
    weights = lda_weights(A[docs[0]], B[words[0]], N, alpha, BETA, n_words, z[0])
    assert chi_square(np.bincount(found, minlength=n_topics), weights / weights.sum() * draws) > 1e-4


@pytest.mark.parametrize("n_topics", [40, 300])
def test_blocks_of_words_give_the_topics_of_the_whole_model(n_topics):
    n_words, alpha = 90, np.full(n_topics, 0.1)
    chunk = zipf_chunk(30, 4_000, n_words, group_tokens=1_000)
    z = trained_topics(chunk, alpha, n_words, sweeps=3)
    blocks = [model_of(chunk, z, alpha, n_words, words) for words in ((0, 1), (1, 40), (40, 40), (40, 90))]
    whole = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
    np.testing.assert_array_equal(gibbs.sweep(chunk, blocks, z, KEY), whole)


def test_counts_of_few_topics_follow_the_tokens_from_chunk_to_chunk():
    n_topics, n_words = 10, 60
    alpha = np.full(n_topics, 0.1)
    chunks = [zipf_chunk(20, 900, n_words, group_tokens=300, seed=seed) for seed in range(3)]
    before = [np.random.default_rng(seed).integers(0, n_topics, 900).astype(np.uint16) for seed in range(3)]
    lengths = np.concatenate([np.diff(chunk.doc_ptr) for chunk in chunks])
    whole = make_chunk(0, np.r_[0, np.cumsum(lengths)], np.concatenate([chunk.words for chunk in chunks]))
    # In document order, the topics of the chunks follow each other.
    in_documents = np.concatenate([z[np.argsort(c.word_to_doc_order)] for z, c in zip(before, chunks, strict=True)])
    z = in_documents[whole.word_to_doc_order]
    blocks = [model_of(whole, z, alpha, n_words, words) for words in ((0, 25), (25, n_words))]
    counts = gibbs_registers.begin(blocks[0].totals, n_words)
    # The tokens of the last chunk are not drawn.
    drawn = [gibbs_registers.sweep(chunks[i], blocks, before[i], random.key(i), counts) for i in range(2)]
    assert np.count_nonzero(drawn[0] != before[0]) > 100
    tables = [dense_counts(*pair, n_topics, n_words) for pair in zip(chunks, [*drawn, before[2]], strict=True)]
    np.testing.assert_array_equal(counts.totals, sum(N for _, _, N in tables))
    B = sum(B for _, B, _ in tables)
    rows = counts.rows.reshape(n_words, -1)
    np.testing.assert_array_equal(rows[counts.known, :n_topics], B[counts.known])
    for first, stop in ((0, 25), (25, n_words)):
        found = gibbs_registers.drawn_counts(counts, first, stop)
        dense = scipy.sparse.csr_matrix((found.counts, found.topics, found.row_ptr), (stop - first, n_topics))
        assert dense.has_sorted_indices and dense.data.min() > 0
        np.testing.assert_array_equal(dense.toarray(), (tables[0][1] + tables[1][1])[first:stop])


@pytest.mark.parametrize("n_topics", [3, 100, 600])
def test_a_document_longer_than_a_packed_entry_can_count(n_topics):
    n_tokens = 150_000
    chunk = make_chunk(0, np.array([0, n_tokens]), (np.arange(n_tokens) % 2).astype(np.uint32))
    z = (np.arange(n_tokens) % 10 == 0).astype(np.uint16)
    alpha = np.full(n_topics, 0.1)
    found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, 2)], z, KEY)
    # Topics 0 and 1 have the same words, so that tokens change between them, but their shares change slowly.
    assert np.mean(found == 0) == pytest.approx(0.9, abs=0.05)
