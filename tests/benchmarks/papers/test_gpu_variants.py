"""Variants of CUDA kernels that only the papers' comparisons need."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda.launch import launch, synchronize
from corpusmill.kernels.cuda.lda import document_counts, esca, minibatch
from corpusmill.kernels.cuda.memory import cached_copy
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.cuda.word2vec import skip_gram
from corpusmill.kernels.lda import minibatch as cpu_minibatch
from corpusmill.kernels.lda.counts import count_words, topic_totals
from corpusmill.kernels.lda.model import ModelBlock, make_prior
from corpusmill.kernels.word2vec import skip_gram as cpu_skip_gram
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table
from helpers.on_device import on_device
from numba import cuda

from benchmarks.papers import aga_lda, full_register, saberlda_alias, saberlda_cuda, vector_lengths


@on_device
def test_full_w2v_without_a_ring_makes_the_updates_of_the_cpu():
    rng = np.random.default_rng(4)
    words = np.minimum(rng.geometric(0.2, 24) - 1, 8).astype(np.uint32)
    text = Text(np.array([0, 6, 7, 24]), words, np.arange(24, dtype=np.uint32))
    table = negative_table(np.arange(9, 0, -1), 0.75, 64, random.key(5))
    options = TrainingOptions(3, 2, table, random.key(6), random.key(7), 0.05, 1e-3, 0.02)
    first = [rng.normal(0, 0.3, (9, 64)).astype(np.float32) for _ in range(2)]
    expected, found = [W.copy() for W in first], [W.copy() for W in first]
    cpu_skip_gram.train("full", text, options, *expected)
    with mock.patch.object(skip_gram, "BLOCKS", 1):
        full_register.train(text, options, *found)
        RESIDENTS.bring_back(found)
    for a, b, old in zip(found, expected, first, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        assert np.abs(a - old).max() > 1e-2


@on_device
def test_immediate_updates_equal_delayed_ones_if_no_two_tokens_of_a_batch_share_a_word():
    # Eight documents of one token each. With one document per mini-batch, no draw depends on another one of its batch.
    chunk = make_chunk(0, np.arange(9), np.arange(8, dtype=np.uint32) % 4)
    tokens = cpu_minibatch.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
    z = np.array([0, 1, 2, 3, 3, 2, 1, 0], np.uint16)
    for documents in (1, 8):
        drawn = []
        for draw in aga_lda.FORMS.values():
            tables = aga_lda.tables_of(tokens, z, 8, 4, 5)
            drawn.append(z.copy())
            with mock.patch.multiple(minibatch, BLOCKS=1):
                draw(tokens, tables, drawn[-1], random.key(1), chunk.doc_ptr, documents)
        if documents == 1:
            np.testing.assert_array_equal(*drawn)
        assert (drawn[1] != z).any()
        assert drawn[1].max() < 5


@on_device
def test_alias_tables_give_each_topic_its_probability_and_never_the_old_one():
    rng = np.random.default_rng(0)
    n_topics, n_draws = 7, 3000
    row_ptr = np.array([0, 3, 8])
    topics = np.array([1, 3, 6, 0, 1, 2, 4, 5], np.uint16)
    counts = rng.integers(1, 9, 8).astype(np.int32)
    totals = np.bincount(topics, counts, n_topics).astype(np.int64)
    alpha = rng.uniform(0.5, 2, n_topics).astype(np.float32)
    model = ModelBlock(row_ptr, topics, counts, 0, totals, alpha, 0.5, 2)
    prior = make_prior(model, 1, 1)
    row, old = 1, 4
    weights = np.diff(prior.smooth)
    own = prior.word_factor[topics[3:]] * counts[3:]
    weights[topics[3:]] += own
    weights[old] = 0
    tables = saberlda_alias.to_alias_model(model, 1)

    @cuda.jit
    def draw(model, row, mass, old, key, out):
        i = cuda.grid(1)
        if i < len(out):
            out[i] = saberlda_alias.draw_prior_by_alias(model, row, mass, old, key, i)

    out = np.zeros(n_draws, np.int64)
    synchronize("alias tables")
    draw[-(-n_draws // 64), 64](tables, row, own.sum(), old, np.uint64(random.key(1)), out)
    expected = n_draws * weights / weights.sum()
    found = np.bincount(out, minlength=n_topics)
    assert found[old] == 0
    # Four standard deviations.
    assert (np.abs(found - expected) <= 4 * np.sqrt(expected)).all()


@on_device
def test_draws_by_alias_tables_do_not_depend_on_the_order_of_tokens():
    with mock.patch.multiple(esca, BLOCKS=2), mock.patch.multiple(document_counts, BLOCKS=2, WARPS=2):
        chunk = make_chunk(0, np.array([0, 9, 10, 24]), np.minimum(np.random.default_rng(1).geometric(0.3, 24), 5) - 1)
        z = np.random.default_rng(2).integers(0, 16, 24).astype(np.uint16)
        counts = count_words(chunk.word_ids, chunk.word_ptr, z, (0, 5), 16)
        totals = topic_totals(counts.topics, counts.counts, 16)
        model = ModelBlock(*counts, 0, totals, np.full(16, 0.1, np.float32), 0.01, 5)
        words = tuple(cached_copy(array, "every word") for array in saberlda_cuda.every_word(model))
        with saberlda_alias.alias_sampling(), mock.patch.object(esca, "DENSE", 1):
            by_words = esca.sweep(chunk, [model], z, random.key(3))
        with mock.patch.object(saberlda_cuda.by_words, "BLOCKS", 2):
            by_documents = saberlda_cuda.draw_by_documents(chunk, z, model, words, random.key(3))
    np.testing.assert_array_equal(by_words, by_documents)
    assert (by_words != z).any()


@on_device
@pytest.mark.parametrize("form", vector_lengths.FORMS)
def test_lengths_and_scaled_vectors_are_those_of_numpy(form):
    function, each, _ = vector_lengths.FORMS[form]
    rng = np.random.default_rng(1)
    rows, scales = rng.random((5, 70)).astype(np.float32), rng.random(5)
    found = cuda.to_device(rows), cuda.to_device(scales if "scale" in form else np.zeros(5))
    items = {"vector": 70, "thread": 5, "block": 5 * vector_lengths.THREADS, "number": 5 * 70}[each]
    for v in range(5 if each == "vector" else 1):
        launch(function, -(-items // vector_lengths.THREADS), vector_lengths.THREADS, *found, v)
    squares = np.sum(rows.astype(float) ** 2, axis=1)
    if "scale" in form:
        np.testing.assert_allclose(found[0].copy_to_host(), rows * scales[:, None], rtol=1e-6)
    else:
        expected = 1 / np.sqrt(squares) if form == "block" else squares
        np.testing.assert_allclose(found[1].copy_to_host(), expected, rtol=1e-6)
