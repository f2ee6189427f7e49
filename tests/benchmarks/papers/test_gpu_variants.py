"""Variants of CUDA kernels that only the papers' comparisons need, in the simulator and on a device."""

from unittest import mock

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda.lda import collapsed
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.cuda.word2vec import skip_gram
from corpusmill.kernels.lda import collapsed as cpu_collapsed
from corpusmill.kernels.word2vec import skip_gram as cpu_skip_gram
from helpers.cuda_simulator import few_threads, on_device

from benchmarks.papers import aga_lda, full_register


@on_device
def test_full_w2v_without_a_ring_makes_the_updates_of_the_cpu():
    rng = np.random.default_rng(4)
    words = np.minimum(rng.geometric(0.2, 24) - 1, 8).astype(np.uint32)
    text = cpu_skip_gram.Text(np.array([0, 6, 7, 24]), words, np.arange(24, dtype=np.uint32))
    table = cpu_skip_gram.negative_table(np.arange(9, 0, -1), 0.75, 64, random.key(5))
    options = cpu_skip_gram.TrainingOptions(3, 2, table, random.key(6), random.key(7), 0.05, 1e-3, 0.02)
    first = [rng.normal(0, 0.3, (9, 64)).astype(np.float32) for _ in range(2)]
    expected, found = [W.copy() for W in first], [W.copy() for W in first]
    cpu_skip_gram.train("full", text, options, *expected)
    with few_threads(skip_gram, THREADS=64), mock.patch.object(skip_gram, "BLOCKS", 1):
        full_register.train(text, options, *found)
        RESIDENTS.bring_back(found)
    for a, b, old in zip(found, expected, first, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        assert np.abs(a - old).max() > 1e-2


@on_device
def test_immediate_updates_equal_delayed_ones_if_no_two_tokens_of_a_batch_share_a_word():
    # Eight documents of one token each. With one document per mini-batch, no draw depends on another one of its batch.
    chunk = make_chunk(0, np.arange(9), np.arange(8, dtype=np.uint32) % 4)
    tokens = cpu_collapsed.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
    z = np.array([0, 1, 2, 3, 3, 2, 1, 0], np.uint16)
    for documents in (1, 8):
        drawn = []
        for draw in aga_lda.FORMS.values():
            tables = aga_lda.tables_of(tokens, z, 8, 4, 5)
            drawn.append(z.copy())
            with few_threads(collapsed, THREADS=32, BLOCKS=1):
                draw(tokens, tables, drawn[-1], random.key(1), chunk.doc_ptr, documents)
        if documents == 1:
            np.testing.assert_array_equal(*drawn)
        assert (drawn[1] != z).any()
        assert drawn[1].max() < 5
