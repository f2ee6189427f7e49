"""Pairs of a chunk in cells, against their definition."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.word2vec.dealing import arrange
from corpusmill.kernels.word2vec.pairs import join_cells, split_pairs
from helpers import naive_cells
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = (random.key(1), random.key(2))


def make_case(lengths, n_words, n_blocks, share, seed):
    """Return documents' bounds, words, places and probabilities; some words are outside the vocabulary."""
    rng = np.random.default_rng(seed)
    ptr = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    words = np.minimum(rng.geometric(0.1, ptr[-1]) - 1, n_words).astype(np.uint32)
    places = arrange(rng.integers(0, n_blocks, n_words).astype(np.uint16), n_blocks).places
    keep = np.where(rng.random(n_words) < 0.5, 1, share).astype(np.float32)
    return ptr, words, places, keep


def wanted_pairs(ptr, words, places, keep, window, n_blocks, passage):
    """Return the pairs of all cells by the definition, sorted stably by centre, and their numbers."""
    tokens = list(enumerate(words.tolist()))
    docs = [tokens[a:b] for a, b in zip(ptr[:-1], ptr[1:], strict=True)]
    rows = [(int(place) >> 16, int(place) & 0xFFFF) for place in places]
    cells = naive_cells.pairs_of(docs, rows, keep, window, [int(key) for key in KEYS], passage)
    counts = np.zeros((n_blocks, n_blocks), int)
    listed = []
    for i in range(n_blocks):
        for j in range(n_blocks):
            found = sorted(cells.get((i, j), []), key=lambda pair: pair[0])
            counts[i, j] = len(found)
            listed += [centre << 16 | context for centre, context in found]
    return np.array(listed, np.uint32), counts


def split_in_one_pass(ptr, *arguments):
    pairs, counts = split_pairs(ptr, np.array([0, len(ptr) - 1]), *arguments)
    return pairs, counts[0]


@given(
    st.lists(st.integers(0, 40), max_size=8),
    st.sampled_from([1, 2, 5, 8, 9, 20, 255]),
    st.integers(1, 5),
    st.floats(0, 1),
    st.integers(0, 999),
    st.sampled_from([0, 1, 7, 1000]),
)
@settings(max_examples=100)
def test_each_cell_has_the_pairs_of_the_definition_sorted_by_centre(lengths, window, n_blocks, share, seed, passage):
    ptr, words, places, keep = make_case(lengths, 30, n_blocks, share, seed)
    pairs, counts = split_in_one_pass(ptr, words, places, keep, window, *KEYS, n_blocks, passage)
    wanted, wanted_counts = wanted_pairs(ptr, words, places, keep, window, n_blocks, passage)
    np.testing.assert_array_equal(counts, wanted_counts)
    np.testing.assert_array_equal(pairs, wanted)


def test_a_word_that_is_repeated_n_times_has_about_twice_the_root_of_n_centres():
    words = np.tile(np.arange(2, dtype=np.uint32), 1000)  # two words in turn, 100 times in each of ten passages
    places = np.arange(2, dtype=np.uint32)
    keep = np.ones(2, np.float32)
    ptr = np.array([0, len(words)])
    _, every = split_in_one_pass(ptr, words, places, keep, 1, *KEYS, 1, 0)
    _, thinned = split_in_one_pass(ptr, words, places, keep, 1, *KEYS, 1, 200)
    assert every.sum() == 2 * len(words) - 2
    centres = thinned.sum() / 2
    expected = 2 * 10 * (np.arange(1, 101) ** -0.5).sum()
    assert abs(centres - expected) < 4 * expected**0.5


def test_pairs_of_some_documents_have_the_draws_of_the_chunk():
    ptr, words, places, keep = make_case([9, 1, 20, 12], 30, 3, 0.5, 0)
    whole, counts = split_in_one_pass(ptr, words, places, keep, 5, *KEYS, 3)
    parts = [split_in_one_pass(ptr[part], words, places, keep, 5, *KEYS, 3) for part in (slice(0, 3), slice(2, 5))]
    np.testing.assert_array_equal(counts, parts[0][1] + parts[1][1])
    assert sorted(whole) == sorted(np.concatenate([pairs for pairs, _ in parts]))


def test_passes_have_the_pairs_of_their_documents_block_by_block():
    ptr, words, places, keep = make_case([9, 1, 20, 12], 30, 3, 0.5, 0)
    pairs, counts = split_pairs(ptr, np.array([0, 2, 2, 4]), words, places, keep, 5, *KEYS, 3)
    parts = [split_in_one_pass(ptr[part], words, places, keep, 5, *KEYS, 3) for part in (slice(0, 3), slice(2, 5))]
    np.testing.assert_array_equal(counts, [parts[0][1], np.zeros((3, 3)), parts[1][1]])
    by_block = [np.split(own, np.cumsum(own_counts.sum(axis=1))[:-1]) for own, own_counts in parts]
    wanted = [by_block[part][block] for block in range(3) for part in range(2)]
    np.testing.assert_array_equal(pairs, np.concatenate(wanted))


@pytest.mark.parametrize("bounds", [(0, 8), (0, 3, 8), (0, 1, 2, 3, 4, 5, 6, 7, 8)])
def test_joined_cells_do_not_depend_on_how_documents_are_grouped_into_segments(bounds):
    ptr, words, places, keep = make_case([30] * 8, 30, 2, 0.5, 0)
    whole, counts = split_in_one_pass(ptr, words, places, keep, 5, *KEYS, 2)
    segments, segment_counts = [], []
    for a, b in zip(bounds[:-1], bounds[1:], strict=True):
        pairs, part_counts = split_in_one_pass(ptr[a : b + 1], words, places, keep, 5, *KEYS, 2)
        segments.append(pairs[part_counts[0].sum() :])
        segment_counts.append(part_counts[1])
    passes = np.zeros(len(segments), np.int64)
    joined, cells = join_cells(np.concatenate(segments), np.array(segment_counts), passes, 1, 30)
    np.testing.assert_array_equal(joined, whole[counts[0].sum() :])
    np.testing.assert_array_equal(cells, np.cumsum([0, *counts[1]]))


def test_joined_cells_come_pass_by_pass():
    counts = np.array([[2, 1], [0, 1], [1, 1]])
    pairs = np.array([3 << 16 | 1, 4 << 16 | 2, 1 << 16 | 3, 5, 2 << 16 | 4, 6], np.uint32)
    joined, bounds = join_cells(pairs, counts, np.array([1, 0, 1]), 2, 5)
    np.testing.assert_array_equal(joined, pairs[[3, 4, 0, 1, 5, 2]])
    np.testing.assert_array_equal(bounds, [0, 0, 1, 4, 6])


def test_joined_cells_without_pairs_are_empty():
    joined, bounds = join_cells(np.empty(0, np.uint32), np.zeros((3, 2), np.int64), np.zeros(3, np.int64), 2, 5)
    assert len(joined) == 0
    assert not bounds.any()
