"""Seeds, hashes and statistics of words against their definitions."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.random_indexing import text as ri_text
from helpers.naive import ri_seed
from helpers.random_indexing_cases import SALT, chunk_of, corpora, hashes_of, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=40)
@given(dimension=st.integers(20, 65536), pairs=st.integers(1, 10), salt=st.integers(0, 2**64 - 1))
def test_seeds_have_as_many_ones_as_minus_ones(dimension, pairs, salt):
    seeds = ri_text.make_seeds(hashes_of(5), np.uint64(salt), dimension, pairs)
    for h, row in zip(hashes_of(5), unpacked(seeds, dimension), strict=True):
        assert (row == 1).sum() == (row == -1).sum() == pairs
        np.testing.assert_array_equal(row, ri_seed(int(h), salt, dimension, 2 * pairs))


def test_a_seed_depends_on_the_word_alone():
    words = ["abraham", "isaac", "jacob"]
    seeds = ri_text.make_seeds(ri_text.hash_words(words), SALT, 512, 5)
    for i, word in enumerate(words):
        np.testing.assert_array_equal(ri_text.make_seeds(ri_text.hash_words([word]), SALT, 512, 5)[0], seeds[i])
    assert not np.array_equal(ri_text.make_seeds(ri_text.hash_words(words), random.key(8), 512, 5), seeds)
    assert not np.array_equal(seeds[0], seeds[1])


def test_seeds_are_nearly_orthogonal():
    S = unpacked(ri_text.make_seeds(hashes_of(400), SALT, 2048, 5), 2048)
    products = S @ S.T - 10 * np.eye(400)
    assert abs(products.mean()) < 0.01
    # Products of independent seeds: variance 100 / 2048, so 5 is more than twenty standard deviations away.
    assert abs(products).max() <= 4


@settings(max_examples=40)
@given(docs=corpora, group_tokens=st.sampled_from([4, 1000]))
def test_statistics_count_words_and_documents(docs, group_tokens):
    chunk = chunk_of(docs, group_tokens=group_tokens)
    tokens = ri_text.prepare_tokens(chunk, np.arange(9) != 3, 0)
    found = ri_text.word_statistics(tokens.ids, chunk.word_ids, chunk.word_ptr, chunk.docs)
    assert 3 not in tokens.ids
    for v, (frequency, documents, information) in zip(tokens.ids, found, strict=True):
        counts = np.array([d.count(v) for d in docs if v in d])
        assert (frequency, documents) == (counts.sum(), len(counts))
        assert information == pytest.approx(
            (counts * np.log2(counts)).sum() * ri_text.INFORMATION_UNIT, abs=len(counts)
        )


def test_a_document_is_the_same_in_any_order_of_its_words():
    first = chunk_of([[1, 2, 2], [2, 1, 2], [1, 2]])
    hashes = ri_text.document_hashes(first.doc_ptr, first.words, hashes_of(3))
    assert hashes[0] == hashes[1] != hashes[2]
