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
from corpusmill.kernels.lda.changing_rows import DocumentRows, WordRows, padded, padded_to_four
from corpusmill.kernels.lda.counts import WordCounts
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
from helpers.naive import lda_counts, lda_uniforms, lda_weights
from helpers.naive_gibbs import lda_gibbs_sweep, lda_gibbs_sweep_in_pairs
from helpers.narrow_registers import NARROW
from scipy.special import gammaln, logsumexp

BETA = 0.01
KEY = random.key(5)


def form_of(chunk, n_topics):
    if n_topics <= gibbs_registers.MOST_TOPICS:
        return "registers"
    longest = np.diff(chunk.doc_ptr).max()
    return "dense" if gibbs.dense_width(n_topics, chunk.n_tokens, chunk.n_documents, longest) else "sparse"


def swept(chunk, model, z, key):
    z = z.copy()
    A, B = gibbs.document_rows(chunk, z, len(model.alpha)), word_rows(model)
    gibbs.draw(chunk, A, B, model.totals.astype(np.int64), model, z, key)
    return z


def word_rows(model):
    return gibbs.word_rows(WordCounts(model.row_ptr, model.topics, model.counts), len(model.alpha))


def reference_sweep(chunk, z, alpha, n_words):
    n_topics = len(alpha)
    form = form_of(chunk, n_topics)
    counts = dense_counts(chunk, z, n_topics, n_words)
    uniforms = lda_uniforms(KEY, chunk.n_tokens)
    if form != "sparse":
        uniforms = np.floor(uniforms * 2**24) / 2**24
    # The kernels hold alpha in single precision.
    prior = alpha.astype(np.float32).astype(float), BETA
    if not gibbs_registers.has_pairs(counts[2]):
        return lda_gibbs_sweep(*word_order(chunk), z, counts, prior, uniforms, form)
    groups = [tuple(chunk.word_ptr[chunk.group_ptr[g : g + 2]]) for g in range(len(chunk.group_ptr) - 1)]
    middles = [np.searchsorted(chunk.doc_ptr, (start + end) // 2) for start, end in groups]
    return lda_gibbs_sweep_in_pairs(*word_order(chunk), z, counts, prior, uniforms, groups, middles)


@pytest.mark.parametrize("n_topics", [2, 7, 24, 33, 64, 65, 90, 128, 150, 600])
@pytest.mark.parametrize("group_tokens", [1 << 20, 500])
def test_topics_are_those_of_the_reference(n_topics, group_tokens):
    n_words = 60
    alpha = np.linspace(0.05, 0.2, n_topics)
    chunk = zipf_chunk(40, 3_000, n_words, group_tokens)
    z = trained_topics(chunk, alpha, n_words, sweeps=2)
    assert (form_of(chunk, n_topics) == "sparse") == (n_topics > 200)
    found = swept(chunk, model_of(chunk, z, alpha, n_words), z, KEY)
    assert np.count_nonzero(found != z) > 100
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [20, 50, 70, 400])
def test_topics_drawn_from_random_ones_are_those_of_the_reference(n_topics):
    n_words, alpha = 60, np.full(n_topics, 0.1)
    chunk = zipf_chunk(20, 500, n_words)
    assert (form_of(chunk, n_topics) == "sparse") == (n_topics > 100)
    z = random_topics(chunk, n_topics)
    found = swept(chunk, model_of(chunk, z, alpha, n_words), z, KEY)
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


# Runs in a process of its own, because kernels are compiled for one width.
WIDTH = """
import sys
from corpusmill.kernels.lda.counts import WordCounts
from corpusmill.kernels.simd import tiles
assert tiles.BITS == int(sys.argv[1])
sys.path[:0] = sys.argv[2].split(":")
import test_gibbs
for n_topics in map(int, sys.argv[3:]):
    test_gibbs.test_topics_drawn_from_random_ones_are_those_of_the_reference(n_topics)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "topics"), [(128, "20 70"), (256, "50 400")])
def test_registers_of_other_widths(bits, topics):
    if bits >= tiles.BITS:
        pytest.skip("the other tests use the widest registers of this processor")
    arguments = [str(bits), f"{Path(__file__).parent}:{Path(__file__).parents[2]}", *topics.split()]
    subprocess.run([sys.executable, "-c", WIDTH, *arguments], check=True, env=os.environ | NARROW[bits])


def test_topics_of_long_documents_are_those_of_the_reference():
    n_words = 60
    alpha = np.linspace(0.05, 0.2, gibbs.MOST_DENSE_TOPICS)
    chunk = zipf_chunk(10, 3_000, n_words)
    z = trained_topics(chunk, alpha, n_words, sweeps=2)
    assert form_of(chunk, len(alpha)) == "dense"
    assert form_of(chunk, len(alpha) + 1) == "sparse"
    found = swept(chunk, model_of(chunk, z, alpha, n_words), z, KEY)
    assert np.count_nonzero(found != z) > 100
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [65, 128])
def test_documents_of_few_tokens_have_sparse_rows(n_topics):
    n_words, alpha = 60, np.full(n_topics, 0.1)
    short, longer = zipf_chunk(200, 1_599, n_words), zipf_chunk(200, 1_600, n_words)
    assert form_of(short, n_topics) == "sparse"
    assert form_of(longer, n_topics) == "dense"
    for chunk in (short, longer):
        z = trained_topics(chunk, alpha, n_words, sweeps=1)
        found = swept(chunk, model_of(chunk, z, alpha, n_words), z, KEY)
        np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [6, 90])
def test_empty_documents_and_documents_of_one_token(n_topics):
    n_words, alpha = 12, np.full(n_topics, 0.1)
    for seed in range(5):
        chunk = small_chunk(seed, length=60)
        assert form_of(chunk, n_topics) != "sparse"
        z = trained_topics(chunk, alpha, n_words, sweeps=1)
        found = swept(chunk, model_of(chunk, z, alpha, n_words), z, KEY)
        np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics, used, n_tokens", [(12, 9, 40), (80, 40, 400), (260, 9, 40)])
def test_draws_of_the_first_token_follow_the_full_conditional(n_topics, used, n_tokens):
    n_words, draws = 6, 6_000
    rng = np.random.default_rng(2)
    chunk = make_chunk(0, np.array([0, 15, n_tokens]), rng.integers(0, n_words, n_tokens).astype(np.uint32))
    alpha = np.full(n_topics, 2 / n_topics)
    z = rng.integers(0, used, n_tokens).astype(np.uint16)
    assert (form_of(chunk, n_topics) == "sparse") == (n_topics > 100)
    docs, words, _ = word_order(chunk)
    A, B, N = dense_counts(chunk, z, n_topics, n_words)
    model = model_of(chunk, z, alpha, n_words)
    found = [swept(chunk, model, z, random.key(1, t))[0] for t in range(draws)]
    weights = lda_weights(A[docs[0]], B[words[0]], N, alpha, BETA, n_words, z[0])
    if form_of(chunk, n_topics) == "dense":
        # The token itself stays in N.
        weights[z[0]] *= (N[z[0]] - 1 + n_words * BETA) / (N[z[0]] + n_words * BETA)
    assert chi_square(np.bincount(found, minlength=n_topics), weights / weights.sum() * draws) > 1e-4


@pytest.mark.parametrize("n_topics", [10, 50, 90, 300])
def test_counts_stay_exact_sweep_by_sweep_and_block_by_block(n_topics):
    n_words, cut = 60, 25
    alpha = np.full(n_topics, 0.1)
    chunk = zipf_chunk(20, 900, n_words, group_tokens=300)
    z = random_topics(chunk, n_topics)
    blocks = [model_of(chunk, z, alpha, n_words, words) for words in ((0, cut), (cut, n_words))]
    parts = [word_rows(block) for block in blocks]
    A, N = gibbs.document_rows(chunk, z, n_topics), blocks[0].totals.astype(np.int64)
    for t in range(4):
        for j in (1, 0):
            gibbs.draw(chunk, A, parts[j], N, blocks[j], z, random.key(t))
        expected = dense_counts(chunk, z, n_topics, n_words)
        np.testing.assert_array_equal(dense_documents(A, n_topics), expected[0])
        np.testing.assert_array_equal(np.concatenate([dense_words(B, n_topics) for B in parts]), expected[1])
        np.testing.assert_array_equal(N, expected[2])
        for B, rows in zip(parts, np.split(expected[1], [cut]), strict=True):
            packed = gibbs.packed_rows(B, n_topics)
            found = scipy.sparse.csr_array((packed.counts, packed.topics, packed.row_ptr), rows.shape)
            np.testing.assert_array_equal(found.toarray(), rows)
            assert found.has_canonical_format and found.data.all()
            used = gibbs.used_rows(B, n_topics)
            copy = gibbs.word_rows(used, n_topics)
            for left, right in zip(gibbs.used_rows(copy, n_topics), used, strict=True):
                np.testing.assert_array_equal(left, right)
            np.testing.assert_array_equal(dense_words(copy, n_topics), rows)
            if isinstance(B, WordRows):
                np.testing.assert_array_equal(copy.row_ptr, B.row_ptr)


def dense_documents(A, n_topics):
    if not isinstance(A, DocumentRows):
        return A.reshape(-1, padded(n_topics) if n_topics <= 64 else padded_to_four(n_topics))[:, :n_topics]
    rows = np.zeros((len(A.lengths), n_topics), int)
    for d, (start, n) in enumerate(zip(A.row_ptr, A.lengths, strict=False)):
        entries = A.entries[start : start + n]
        rows[d, entries >> 16] = entries & 0xFFFF
    return rows


def dense_words(B, n_topics):
    if not isinstance(B, WordRows):
        return B.reshape(-1, padded(n_topics))[:, :n_topics]
    rows = np.zeros((len(B.lengths), n_topics), int)
    for v, (start, n) in enumerate(zip(B.row_ptr, B.lengths, strict=False)):
        rows[v, B.topics[start : start + n]] = B.counts[start : start + n]
    return rows


@pytest.mark.parametrize(
    "n_topics, lengths, n_words, beta, form",
    [
        (2, [2, 1, 4], 3, 0.3, "registers"),
        (20, [3, 3], 3, 0.3, "registers"),
        (40, [3, 3], 3, 0.3, "registers"),
        (80, [8], 3_000, 0.5, "dense"),  # N hardly matters, since the kernel leaves the token in it
        (80, [3, 3], 3, 0.3, "sparse"),
    ],
)
def test_topics_of_a_tiny_corpus_follow_the_posterior(n_topics, lengths, n_words, beta, form):
    alpha = 0.5 / np.sqrt(n_topics)
    words = np.array([0, 1, 0, 0, 1, 2, 1, 0])[: sum(lengths)].astype(np.uint32)
    chunk = make_chunk(0, np.r_[0, np.cumsum(lengths)], words)
    assert form_of(chunk, n_topics) == form
    docs, words, _ = word_order(chunk)
    # Topics are exchangeable, so a state is which tokens have the same topic. Topics are numbered as they come.
    states = {}
    for state in partitions(len(words)):
        if max(state) < n_topics:
            A, B, N = (
                table + 0.0 for table in lda_counts(docs, words, np.array(state), len(lengths), n_words, max(state) + 1)
            )
            log_weight = (
                gammaln(A + alpha).sum() - A.size * gammaln(alpha) + gammaln(B + beta).sum() - B.size * gammaln(beta)
            )
            log_weight -= (gammaln(N + n_words * beta) - gammaln(n_words * beta)).sum()
            states[state] = log_weight + gammaln(n_topics + 1) - gammaln(n_topics - max(state))
    z = random_topics(chunk, n_topics)
    model = model_of(chunk, z, np.full(n_topics, alpha), n_words, beta=beta)
    A, B, N = gibbs.document_rows(chunk, z, n_topics), word_rows(model), model.totals.astype(np.int64)
    draws, thin = 5_000, 6
    found = dict.fromkeys(states, 0)
    for t in range(draws * thin):
        gibbs.draw(chunk, A, B, N, model, z, random.key(1, t))
        if t % thin == 0:
            numbers = {}
            found[tuple(numbers.setdefault(k, len(numbers)) for k in z.tolist())] += 1
    expected = np.exp(np.array(list(states.values())) - logsumexp(list(states.values()))) * draws
    assert chi_square(np.array(list(found.values())), expected) > 1e-4


def partitions(n):
    """All ways to give n tokens topics, up to the names of the topics."""
    if n == 0:
        yield ()
        return
    for state in partitions(n - 1):
        for k in range(max(state, default=-1) + 2):
            yield (*state, k)


@pytest.mark.parametrize("n_topics", [3, 100, 600])
def test_a_document_longer_than_a_packed_entry_can_count(n_topics):
    n_tokens = 150_000
    chunk = make_chunk(0, np.array([0, n_tokens]), (np.arange(n_tokens) % 2).astype(np.uint32))
    z = (np.arange(n_tokens) % 10 == 0).astype(np.uint16)
    alpha = np.full(n_topics, 0.1)
    found = swept(chunk, model_of(chunk, z, alpha, 2), z, KEY)
    # Topics 0 and 1 have the same words, so that tokens change between them, but their shares change slowly.
    assert np.mean(found == 0) == pytest.approx(0.9, abs=0.05)
