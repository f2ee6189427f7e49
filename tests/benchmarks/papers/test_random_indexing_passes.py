"""Random indexing in the paper's passes on a device, against the CPU's sums, to the bit."""

from unittest import mock

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.random_indexing import accumulate as cpu
from corpusmill.kernels.random_indexing import text as ri_text
from helpers.on_device import on_device
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers import random_indexing_passes as passes


def small_case(dimension=41):
    """Three documents of ten words, one of which is left out, and seeds of six ones."""
    rng = np.random.default_rng(0)
    words = np.minimum(rng.geometric(0.25, 60) - 1, 9).astype(np.uint32)
    chunk = make_chunk(0, np.array([0, 25, 26, 60]), words, group_tokens=40)
    kept = np.ones(10, bool)
    kept[2] = False
    tokens, window = ri_text.prepare_tokens(chunk, kept, 3), ri_text.make_window(3, "permutation")
    seeds = ri_text.make_seeds(random.stream(random.key(1), len(tokens.ids)), random.key(2), dimension, 3)
    return tokens, window, seeds


@on_device
def test_passes_of_work_items_sum_the_same():
    tokens, window, seeds = small_case()
    sizes = {"SLICE": 3, "LARGEST": 4, "SMALLEST": 3, "SMALLEST_LAST": 1, "BANKS": 2}
    with mock.patch.multiple(passes, **sizes):
        kinds = {(items.primary, items.aligned) for items in passes.passes_of(tokens.occurrence_ptr)}
        found = passes.accumulate(tokens, window, seeds, 41)
    assert kinds == {(True, False), (True, True), (False, True)}
    np.testing.assert_array_equal(found, cpu.accumulate(tokens, window, seeds, 41))


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 12), st.integers(1, 4))
def test_passes_have_each_occurrence_once_and_primary_ones_each_word_once(lengths, largest, smallest):
    ptr = np.r_[0, np.cumsum(np.array(lengths, np.int64))].astype(np.int64)
    sizes = {"LARGEST": largest, "SMALLEST": smallest, "SMALLEST_LAST": 2, "BANKS": 5}
    with mock.patch.multiple(passes, **sizes):
        found = passes.passes_of(ptr)
    seen = np.zeros(ptr[-1], int)
    for items in found:
        assert len(items.words) <= (largest if items.primary else 5)
        assert not items.primary or len(set(items.words)) == len(items.words)
        for word, first, length in zip(*items[:3], strict=True):
            assert ptr[word] <= first <= first + length <= ptr[word + 1]
            seen[first : first + length] += 1
    assert (seen == 1).all()
