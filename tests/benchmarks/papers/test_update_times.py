"""Updates at once and after mini-batches, against the samplers that ship."""

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import minibatch

from benchmarks.papers.kernels import every_token
from benchmarks.papers.lda_samplers import count_tables
from benchmarks.papers.update_times import COMBINATIONS, minibatches

KEY = random.key(5, 1, 0)


def example():
    """Return a chunk's documents, its tokens, and tables that fit their topics."""
    rng = np.random.default_rng(0)
    doc_ptr = np.r_[0, np.cumsum(rng.integers(5, 30, 12))]
    words = rng.integers(0, 40, doc_ptr[-1]).astype(np.uint32)
    chunk = make_chunk(0, doc_ptr, words)
    tokens = minibatch.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
    z = rng.integers(0, 7, len(words)).astype(np.uint16)
    return doc_ptr, tokens, z


def tables_of(tokens, z):
    """Count the topics ``z`` of the tokens."""
    return count_tables(tokens, z, 12, 40, np.full(7, 0.5, np.float32), 0.1)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_tables_fit_the_topics_after_a_pass(name):
    doc_ptr, tokens, z = example()
    tables = tables_of(tokens, z)
    minibatches(tokens, tables, z, KEY, doc_ptr, 5, COMBINATIONS[name])
    for found, expected in zip(tables[:3], tables_of(tokens, z)[:3], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_with_immediate_updates_it_is_the_sequential_sampler():
    doc_ptr, tokens, z = example()
    expected, tables = z.copy(), tables_of(tokens, z)
    every_token.sequential(tokens, tables_of(tokens, z), expected, KEY)
    minibatches(tokens, tables, z, KEY, doc_ptr, 5, COMBINATIONS["all immediate (CGS)"])
    np.testing.assert_array_equal(z, expected)


def test_with_delayed_updates_it_is_the_sampler_of_mini_batches():
    doc_ptr, tokens, z = example()
    expected, tables = z.copy(), tables_of(tokens, z)
    minibatch.minibatch(tokens, tables_of(tokens, z), expected, KEY, doc_ptr, 5)
    minibatches(tokens, tables, z, KEY, doc_ptr, 5, COMBINATIONS["all delayed"])
    np.testing.assert_array_equal(z, expected)
