"""Every model on a device with a million tokens or more: many blocks, several chunks, up to 20,000 topics.

With few tokens, a grid has few blocks, and most races between blocks cannot show. LDA, random indexing and walks must
have the bits of the CPU. The other models add numbers in another order, so errors and losses are compared.
"""

from functools import partial

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.lda import esca as cpu_esca
from corpusmill.kernels.lda import minibatch as cpu_minibatch
from corpusmill.kernels.lda.counts import topic_totals
from corpusmill.kernels.lda.model import ModelBlock
from corpusmill.kernels.nmf import hals as cpu_hals
from corpusmill.kernels.node2vec import walks as cpu_walks
from corpusmill.kernels.random_indexing import accumulate as cpu_sums
from corpusmill.kernels.random_indexing import text as ri_text
from corpusmill.kernels.word2vec import skip_gram as cpu_skip_gram
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table
from corpusmill.pipeline.engine.device import has_cuda
from helpers.on_device import emulated

from benchmarks.gpu.data import random_documents
from benchmarks.gpu.nmf import factors
from benchmarks.gpu.walks import power_law
from benchmarks.papers.kernels import tiled, tiled_cuda

pytestmark = pytest.mark.skipif(not has_cuda() or emulated(), reason="this machine has no CUDA device")
N_WORDS = 20_000
N_CHUNKS = 4


@pytest.fixture(scope="module")
def chunks():
    """A million tokens in all."""
    return [random_documents(c, 250_000, N_WORDS) for c in range(N_CHUNKS)]


def trained(kernels, chunks, n_topics, epochs):
    """Return the topics of all chunks, and the counts of words, after some epochs."""
    topics = [None] * len(chunks)
    none = np.zeros(N_WORDS + 1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32)
    alpha = np.full(n_topics, 0.1, np.float32)
    model = ModelBlock(*none, 0, np.zeros(n_topics, np.int64), alpha, 0.01, N_WORDS)
    for epoch in range(epochs):
        counts = None
        for c, chunk in enumerate(chunks):
            topics[c] = kernels.sweep(chunk, [model], topics[c], random.key(1, epoch, c))
            counts = kernels.add_words(chunk.word_ids, chunk.word_ptr, topics[c], (0, N_WORDS), n_topics, counts)
        counts = kernels.finish_words(counts)
        RESIDENTS.bring_back(counts.values(), keep=True)
        totals = topic_totals(counts["topics"], counts["counts"], n_topics)
        model = model._replace(**counts, totals=totals)
    return topics, counts


@pytest.mark.parametrize("n_topics", [100, 1000, 5000, 20_000])
def test_lda_has_the_bits_of_the_cpu(chunks, n_topics):
    from corpusmill.kernels.cuda.lda import esca

    found, found_counts = trained(esca, chunks, n_topics, epochs=3)
    expected, expected_counts = trained(cpu_esca, chunks, n_topics, epochs=3)
    for c in range(N_CHUNKS):
        np.testing.assert_array_equal(found[c], expected[c])
    for name in expected_counts:
        np.testing.assert_array_equal(found_counts[name], expected_counts[name])


def test_mini_batches_of_lda_differ_from_the_cpu_by_rounding_only(chunks):
    from corpusmill.kernels.cuda.lda import minibatch

    chunk = chunks[0]
    tokens = cpu_minibatch.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
    z = np.random.default_rng(2).integers(0, 100, chunk.n_tokens).astype(np.uint16)
    B = np.zeros((N_WORDS, 100), np.int32)
    np.add.at(B, (tokens.words, z), 1)
    results = []
    for module in (minibatch, cpu_minibatch):
        A = cpu_minibatch.document_counts(tokens, z, chunk.n_documents, 100)
        alpha = np.full(100, 0.1, np.float32)
        tables = cpu_minibatch.CountTables(A, B.copy(), B.sum(axis=0, dtype=np.int32), alpha, 0.01, 0.01 * N_WORDS)
        drawn = z.copy()
        module.minibatch(tokens, tables, drawn, random.key(1), chunk.doc_ptr, 256)
        results.append(drawn)
    # A draw that differs changes the counts of later mini-batches, so a few more draws follow it.
    assert np.mean(results[0] != results[1]) < 1e-2


@pytest.mark.parametrize("K", [100, 1000])
def test_a_sweep_of_nmf_has_the_numbers_of_the_cpu(K):
    from corpusmill.kernels.cuda.nmf import hals
    from corpusmill.kernels.cuda.residents import RESIDENTS

    A, W, H = factors(11_314, 26_214, 1_018_191, K)
    rule = cpu_hals.update_rule(W.T.astype(float) @ W)
    results = []
    for module in (hals, cpu_hals):
        P, Q = np.zeros_like(W), np.zeros((K, K))
        swept = module.sweep_sparse(A, W, rule, H.copy(), P, Q, 1, cpu_hals.make_scratch(K, np.float32))
        RESIDENTS.bring_back([P, Q])
        results.append((swept, P, np.triu(Q)))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_the_three_phases_of_nmf_have_the_numbers_of_the_cpu():
    """All blocks of a device wait for each other here, many more than on a CPU."""
    rng = np.random.default_rng(1)
    X, P = (rng.random((100_000, 100), np.float32) for _ in range(2))
    Q = np.asarray(X.T @ X, np.float32)
    found, _, _ = tiled_cuda.sweep_columns(X, P, Q, 10, 1)
    expected, _, _ = tiled.sweep_columns(X, P, Q, 10, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("method", ["full", "par"])
def test_word2vec_reaches_the_loss_of_the_cpu(chunks, method):
    from corpusmill.kernels.cuda.residents import RESIDENTS
    from corpusmill.kernels.cuda.word2vec import skip_gram

    n_words = 2000
    table = negative_table(np.arange(n_words, 0, -1), 0.75, 1 << 16, random.key(5))
    options = TrainingOptions(5, 5, table, random.key(6), random.key(7), 0.025, 1e-9, 1e-4)
    rng = np.random.default_rng(4)
    first = [rng.normal(0, 0.1, (n_words, 128)).astype(np.float32) for _ in range(2)]
    texts = [
        Text(c.doc_ptr, (c.words % n_words).astype(np.uint32), np.arange(c.n_tokens, dtype=np.uint32)) for c in chunks
    ]
    words = texts[0].words[:100_001].astype(np.int64)
    pairs = np.stack([words[:-1], words[1:]], axis=1)
    negatives = rng.integers(0, n_words, (len(pairs), 5))
    losses = []
    for module in (skip_gram, cpu_skip_gram):
        W_in, W_out = (W.copy() for W in first)
        for text in texts:
            module.train(method, text, options, W_in, W_out)
        RESIDENTS.bring_back([W_in, W_out])
        losses.append(cpu_skip_gram.loss(W_in, W_out, pairs, negatives))
    start = cpu_skip_gram.loss(*first, pairs, negatives)
    assert losses[1] < 0.95 * start
    assert abs(losses[0] - losses[1]) < 0.1 * (start - losses[1])


def test_random_indexing_has_the_bits_of_the_cpu(chunks):
    from corpusmill.kernels.cuda.random_indexing import accumulate
    from corpusmill.kernels.cuda.residents import RESIDENTS

    window = ri_text.make_window(5, "permutation")
    totals = []
    for module in (accumulate, cpu_sums):
        parts = []
        for chunk in chunks:
            tokens = ri_text.prepare_tokens(chunk, np.ones(N_WORDS, bool), window.reach)
            seeds = ri_text.make_seeds(random.stream(random.key(1), len(tokens.ids)), random.key(2), 1024, 5)
            sums = module.accumulate(tokens, window, seeds, 1024)
            parts.append((np.arange(len(sums)), sums))
        total = module.sum_at(N_WORDS, parts)
        RESIDENTS.bring_back([total])
        totals.append(total)
    np.testing.assert_array_equal(*totals)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.5, 2.0)])
def test_walks_have_the_nodes_of_the_cpu(p, q):
    from corpusmill.kernels.cuda.node2vec import walks

    walker = cpu_walks.make_walker(power_law(20_000), p, q)
    call = partial(cpu_walks.walk, walker, np.arange(20_000, dtype=np.uint32), 60, random.key(1))
    expected = call()
    assert len(expected[1]) > 1_000_000
    found = walks.walk(*call.args)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
