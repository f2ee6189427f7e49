"""Tiles with shared totals: sequential on one thread, and no count is lost on several."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda.minibatch import CountTables, Tokens
from helpers import naive

from benchmarks.papers import atomic_totals
from benchmarks.papers.kernels.every_token import cut_into_tiles

KEY = random.key(5, 1, 0)
N_WORDS = 12


def example(documents, length, n_topics):
    """Tokens of a random chunk and their first topics, (T,) uint16."""
    rng = np.random.default_rng(documents)
    lengths = rng.integers(0, length, documents)
    words = np.minimum(rng.geometric(0.2, lengths.sum()) - 1, N_WORDS - 1).astype(np.uint32)
    chunk = make_chunk(0, np.r_[0, np.cumsum(lengths)], words, 30)
    z = rng.integers(0, n_topics, len(words)).astype(np.uint16)
    return Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order), z


def counts_of(tokens, z, documents, n_topics):
    return naive.lda_counts(tokens.docs.astype(int), tokens.words.astype(int), z, documents, N_WORDS, n_topics)


def draw(tokens, z, alpha, documents, parts, threads):
    """Draw once with ``parts`` x ``parts`` tiles and check the tables against the new topics."""
    z = z.copy()
    A, B, N = (table.astype(np.int32) for table in counts_of(tokens, z, documents, len(alpha)))
    tables = CountTables(A, B, N, alpha.astype(np.float32), 0.05, N_WORDS * 0.05)
    with ThreadPoolExecutor(threads) as pool:
        atomic_totals.diagonals(tokens, tables, z, KEY, parts, pool)
    for found, expected in zip(tables[:3], counts_of(tokens, z, documents, len(alpha)), strict=True):
        np.testing.assert_array_equal(found, expected)
    return z


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_on_one_thread_tiles_are_drawn_one_after_the_other(parts):
    alpha = np.linspace(0.1, 2, 37)
    tokens, z = example(12, 12, len(alpha))
    order, tile_ptr = cut_into_tiles(tokens, parts)
    diagonal_order = [group * parts + (group + step) % parts for step in range(parts) for group in range(parts)]
    order = np.concatenate([order[tile_ptr[t] : tile_ptr[t + 1]] for t in diagonal_order])
    expected, counts = z.copy(), counts_of(tokens, z, 12, len(alpha))
    naive.lda_collapsed(
        order, tokens.docs, tokens.words, expected, counts, (alpha, 0.05), naive.lda_uniforms(KEY, len(z))
    )
    np.testing.assert_array_equal(draw(tokens, z, alpha, 12, parts, 1), expected)


def test_four_threads_lose_no_count():
    tokens, z = example(3000, 60, 3)
    assert (draw(tokens, z, np.full(3, 0.25), 3000, 8, 4) != z).any()
