"""AGA-LDA against the CPU's mini-batches."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda.lda import minibatch as lda_minibatch
from corpusmill.kernels.lda import minibatch as cpu
from helpers.on_device import on_device

K, W = 20, 12


def case(n_tokens=120, n_documents=9):
    rng = np.random.default_rng(0)
    doc_ptr = np.r_[0, np.sort(rng.integers(0, n_tokens, n_documents - 1)), n_tokens]
    words = np.minimum(rng.geometric(0.2, n_tokens) - 1, W - 1).astype(np.uint32)
    chunk = make_chunk(0, doc_ptr, words, group_tokens=40)
    return chunk, cpu.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)


def tables_of(tokens, z, n_documents):
    A, B = cpu.document_counts(tokens, z, n_documents, K), np.zeros((W, K), np.int32)
    np.add.at(B, (tokens.words, z), 1)
    alpha = np.random.default_rng(1).uniform(0.1, 0.5, K).astype(np.float32)
    return cpu.CountTables(A, B, B.sum(axis=0, dtype=np.int32), alpha, 0.05, 0.05 * W)


@on_device
@pytest.mark.parametrize("documents", [4, 100])
@pytest.mark.parametrize("words_of_a_panel", [5, W])
def test_mini_batches_equal_those_of_the_cpu(documents, words_of_a_panel, monkeypatch):
    monkeypatch.setattr(lda_minibatch, "PANEL_BYTES", 4 * (K | 1) * words_of_a_panel)
    chunk, tokens = case()
    z = np.random.default_rng(2).integers(0, K, chunk.n_tokens).astype(np.uint16)
    tables, expected, found = tables_of(tokens, z, chunk.n_documents), z.copy(), z.copy()
    with mock.patch.multiple(lda_minibatch, BLOCKS=2):
        lda_minibatch.minibatch(tokens, tables, found, random.key(1), chunk.doc_ptr, documents)
    cpu.minibatch(tokens, tables, expected, random.key(1), chunk.doc_ptr, documents)
    # Sums are rounded in another order, so a draw next to the boundary of two topics may differ.
    assert np.count_nonzero(found != expected) <= 1
    assert np.count_nonzero(found != z) > 80


@pytest.mark.parametrize("width", [1, 5, 100])
def test_panels_hold_each_token_once_in_order_of_documents(width):
    chunk, tokens = case()
    n_panels = -(-W // width)
    order, ptr = lda_minibatch.make_tiles(tokens, chunk.doc_ptr, 4, width, n_panels)
    np.testing.assert_array_equal(np.sort(order), np.arange(chunk.n_tokens))
    tile = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    np.testing.assert_array_equal(tile, tokens.docs[order] // 4 * n_panels + tokens.words[order] // width)
    same = np.diff(tile) == 0
    assert (np.diff(tokens.docs[order].astype(int))[same] >= 0).all()


@on_device
def test_too_many_topics_are_refused():
    tables = cpu.CountTables(*(np.zeros((1, 1 << 20), np.int32),) * 3, np.zeros(1 << 20, np.float32), 0.1, 0.1)
    with pytest.raises(ValueError, match=r"1,048,576 topics do not fit a block's shared memory"):
        lda_minibatch.minibatch(None, tables, np.zeros(1, np.uint16), random.key(0), np.array([0, 1]), 4)
