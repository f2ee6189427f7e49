"""Addressed random numbers against SplitMix64 in Python's integers."""

import numpy as np
import pytest
from corpusmill.kernels import random
from helpers.naive import splitmix
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.integers(0, 2**64 - 1)


@given(KEYS, st.integers(0, 2**40))
def test_draws_are_those_of_splitmix64(key, index):
    expected = splitmix(key, index)
    key = np.uint64(key)
    assert int(random.draw(key, np.uint64(index))) == expected
    assert random.uniform64(key, np.uint64(index)) == (expected >> 11) / 2**53
    assert random.uniform(key, np.uint64(index)) == np.float32(expected >> 40) / np.float32(2**24)


@given(KEYS)
def test_a_stream_is_its_first_draws(key):
    assert random.stream(np.uint64(key), 5).tolist() == [splitmix(key, i) for i in range(5)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4), st.integers(0, 3))
def test_each_part_of_an_address_changes_the_key(address, position):
    position %= len(address)
    other = address.copy()
    other[position] += 1
    assert random.key(*address) == random.key(*address)
    assert random.key(*address) != random.key(*other)
    assert random.key(*address) != random.key(*address, 0)


def test_the_fingerprint_of_a_document_depends_on_its_words_and_their_order_alone():
    doc_ptr = np.array([0, 3, 3, 6, 9])
    words = np.array([4, 1, 1, 4, 1, 1, 1, 4, 1], np.uint32)
    found = random.fingerprints(doc_ptr, words, random.key(1))
    assert found[0] == found[2]
    assert len(set(found.tolist())) == 3
    alone = random.fingerprints(np.array([0, 3]), words[6:], random.key(1))
    assert alone[0] == found[3]
    assert random.fingerprints(doc_ptr, words, random.key(2))[0] != found[0]


@pytest.mark.parametrize("uniform", [random.uniform, random.uniform64])
def test_uniform_numbers_are_in_the_unit_interval(uniform):
    drawn = np.array([uniform(np.uint64(3), np.uint64(i)) for i in range(2000)])
    assert drawn.min() >= 0 and drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.03)
