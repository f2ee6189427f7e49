"""Contexts of rare words: listed in each chunk, and summed later to the same bits."""

import numpy as np
import pytest
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import contexts as ri_contexts
from corpusmill.kernels.random_indexing import text as ri_text
from helpers.random_indexing_cases import ORDERS, SALT, WEIGHTINGS, chunk_of, corpora, hashes_of
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=40)
@given(
    docs=corpora,
    wanted=st.lists(st.booleans(), min_size=9, max_size=9),
    order=st.sampled_from(ORDERS),
    weighting=st.sampled_from(WEIGHTINGS),
    cut=st.integers(0, 6),
)
def test_contexts_of_several_chunks_have_the_sums_of_the_rows(docs, wanted, order, weighting, cut):
    window = ri_text.make_window(3, order, weighting)
    wanted = np.array(wanted)
    words, contexts = [], []
    expected = np.zeros((9, 16), np.int32)
    for part in (docs[:cut], docs[cut:]):
        tokens = ri_text.prepare_tokens(chunk_of(part), np.ones(9, bool), window.reach)
        listed = ri_contexts.list_contexts(tokens, window, wanted[tokens.ids], 9)
        words.append(tokens.ids[listed[0]].astype(np.int64))
        contexts.append(listed[1])
        seeds = ri_text.make_seeds(hashes_of(9)[tokens.ids], SALT, 16, 2)
        expected[tokens.ids] += ri.accumulate(tokens, window, seeds, 16)
    expected[~wanted] = 0
    found = np.zeros((9, 16), np.int32)
    seeds = ri.with_null(ri_text.make_seeds(hashes_of(9), SALT, 16, 2))
    ri_contexts.add_contexts(found, np.concatenate(words), np.concatenate(contexts), window, seeds)
    np.testing.assert_array_equal(found, expected)


# With 101, only 25 contexts are summed at once.
@pytest.mark.parametrize("neighbours_at_once", [101, 1 << 32])
def test_many_words_with_many_contexts(monkeypatch, neighbours_at_once):
    monkeypatch.setattr(ri_contexts, "WORDS_AT_ONCE", 2)
    monkeypatch.setattr(ri_contexts, "NEIGHBOURS_AT_ONCE", neighbours_at_once)
    window = ri_text.make_window(2, "permutation")
    tokens = ri_text.prepare_tokens(
        chunk_of([np.random.default_rng(0).integers(0, 5, 3000).tolist()]), np.ones(5, bool), 2
    )
    seeds = ri_text.make_seeds(hashes_of(5), SALT, 32, 3)
    words, contexts = ri_contexts.list_contexts(tokens, window, np.ones(5, bool), 5)
    found = np.zeros((5, 32), np.int32)
    ri_contexts.add_contexts(found, words, contexts, window, ri.with_null(seeds))
    np.testing.assert_array_equal(found, ri.accumulate(tokens, window, seeds, 32))
