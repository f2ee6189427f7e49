"""Samplers whose counts follow every token, draw by draw against their reference implementations."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpusmill.kernels import random
from helpers import naive
from helpers.lda_cases import assert_counts, dense_counts, random_topics, small_chunk, tables_of, tokens_of, word_order

from benchmarks.papers.kernels import every_token

KEY = random.key(5, 1, 0)
BETA = 0.05
N_WORDS = 12
ALPHAS = [np.full(3, 0.25), np.linspace(0.1, 2, 37)]


@pytest.mark.parametrize("alpha", ALPHAS, ids=len)
@pytest.mark.parametrize("seed", range(3))
def test_sequential_draws_are_those_of_algorithm_1(seed, alpha):
    chunk = small_chunk(seed)
    docs, words, positions = word_order(chunk)
    z = random_topics(chunk, len(alpha))
    expected, counts = z.copy(), dense_counts(chunk, z, len(alpha), N_WORDS)
    uniforms = naive.lda_uniforms(KEY, len(z))
    naive.lda_collapsed(np.argsort(positions), docs, words, expected, counts, (alpha, BETA), uniforms)
    tables = tables_of(chunk, z, alpha, N_WORDS, BETA)
    every_token.sequential(tokens_of(chunk), tables, z, KEY)
    np.testing.assert_array_equal(z, expected)
    assert_counts(tables, chunk, z)


def run_diagonals(chunk, z, alpha, parts, threads):
    z, tables = z.copy(), tables_of(chunk, z, alpha, N_WORDS, BETA)
    with ThreadPoolExecutor(threads) as pool:
        every_token.diagonals(tokens_of(chunk), tables, z, KEY, parts, pool)
    assert_counts(tables, chunk, z)
    return z


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_draws_of_diagonals_are_those_of_algorithm_1_with_a_copy_of_the_totals_per_tile(parts):
    chunk, alpha = small_chunk(3, documents=12), ALPHAS[1]
    docs, words, _ = word_order(chunk)
    z = random_topics(chunk, len(alpha))
    expected, uniforms = z.copy(), naive.lda_uniforms(KEY, len(z))
    A, B, N = dense_counts(chunk, z, len(alpha), N_WORDS)
    order, tile_ptr = every_token.cut_into_tiles(tokens_of(chunk), parts)
    assert sorted(order) == list(range(len(z)))
    for step in range(parts):
        changed = np.zeros_like(N)
        for group in range(parts):
            tile = group * parts + (group + step) % parts
            own_totals = N.copy()
            batch = order[tile_ptr[tile] : tile_ptr[tile + 1]]
            naive.lda_collapsed(batch, docs, words, expected, (A, B, own_totals), (alpha, BETA), uniforms)
            changed += own_totals - N
        N += changed
    np.testing.assert_array_equal(run_diagonals(chunk, z, alpha, parts, 1), expected)


def test_the_number_of_threads_does_not_change_the_topics():
    chunk, alpha = small_chunk(4, documents=400, length=40), ALPHAS[0]
    z = random_topics(chunk, len(alpha))
    np.testing.assert_array_equal(run_diagonals(chunk, z, alpha, 6, 4), run_diagonals(chunk, z, alpha, 6, 1))


def test_tiles_of_a_diagonal_share_no_document_and_no_word():
    tokens = tokens_of(small_chunk(6, documents=50))
    order, tile_ptr = every_token.cut_into_tiles(tokens, 4)
    for step in range(4):
        diagonal = []
        for group in range(4):
            tile = group * 4 + (group + step) % 4
            diagonal.append(order[tile_ptr[tile] : tile_ptr[tile + 1]])
        for ids in (tokens.docs, tokens.words):
            distinct = [set(ids[tile]) for tile in diagonal]
            assert len(set().union(*distinct)) == sum(map(len, distinct)) > 0
