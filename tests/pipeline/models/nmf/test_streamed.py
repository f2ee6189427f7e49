"""The words of a block, taken from the word order of a chunk, have the entries that the whole matrix has."""

import itertools

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.nmf import products
from corpusmill.kernels.nmf.products import GROUP_ROWS
from corpusmill.pipeline.models.nmf.rows import StreamedChunk, aligned_bounds, word_counts
from hypothesis import given
from hypothesis import strategies as st

V = 30


@given(
    st.lists(st.lists(st.integers(0, V - 1), max_size=12), min_size=1, max_size=9),
    st.integers(1, 30),
    st.tuples(st.integers(0, V), st.integers(0, V)).map(sorted),
)
def test_a_part_has_the_columns_of_its_words(documents, group_tokens, words):
    ptr = np.cumsum([0, *map(len, documents)])
    chunk = make_chunk(0, ptr, np.array(list(itertools.chain(*documents)), np.uint32), group_tokens)
    found = StreamedChunk(chunk, len(documents), "float32").part(*words)
    columns = products.transposed(word_counts(chunk, None, "float32"), V).part(*words)
    entries = slice(columns.indptr[0], columns.indptr[-1])
    np.testing.assert_array_equal(found.indptr, columns.indptr - columns.indptr[0])
    np.testing.assert_array_equal(found.indices, columns.indices[entries])
    np.testing.assert_array_equal(found.data, columns.data[entries])


@given(st.integers(1, 10**6), st.integers(1, 500))
def test_blocks_are_whole_groups_of_rows(n_rows, n_blocks):
    bounds = aligned_bounds(n_rows, n_blocks)
    assert bounds[0] == 0
    assert bounds[-1] == n_rows
    assert all(first < stop for first, stop in zip(bounds, bounds[1:], strict=False))
    assert all(bound % GROUP_ROWS == 0 for bound in bounds[:-1])
    assert len(bounds) <= n_blocks + 1
