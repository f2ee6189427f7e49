"""A transposition through files gives the same rows as one in memory, for any size of the buckets."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.matrices.memory import RowsInMemory
from corpusmill.io.matrices.transposition import Entries, transposed


def entries_of(matrix, rng, size):
    coo = scipy.sparse.coo_matrix(matrix)
    order = rng.permutation(coo.nnz)
    for start in range(0, coo.nnz, size):
        part = order[start : start + size]
        yield Entries(coo.row[part], coo.col[part], coo.data[part])


@pytest.mark.parametrize("bucket_entries", [1, 7, 50, 10_000])
@pytest.mark.parametrize("shape", [(1, 40), (300, 5), (40, 60)])
def test_any_size_of_buckets_gives_the_same_rows(bucket_entries, shape):
    rng = np.random.default_rng(1)
    dense = scipy.sparse.random(*shape, 0.2, random_state=2).toarray()
    # Most entries are in few rows, so that some buckets are too large and are distributed again.
    dense[: shape[0] // 10 + 1] += 1
    matrix = scipy.sparse.csr_matrix(dense)
    source = RowsInMemory(matrix, None, None, "matrix")
    blocks = list(transposed(entries_of(matrix, rng, 11), matrix.nnz, source, matrix.dtype, bucket_entries))
    found = scipy.sparse.vstack(blocks).tocsr()
    assert all(block.has_sorted_indices and block.shape[0] for block in blocks)
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())


def test_a_wrong_guess_of_the_number_of_entries_changes_nothing():
    matrix = scipy.sparse.random(50, 20, 0.5, "csr", random_state=3)
    source = RowsInMemory(matrix, None, None, "matrix")
    for guess in (0, 10**6):
        parts = entries_of(matrix, np.random.default_rng(4), 100)
        found = scipy.sparse.vstack(list(transposed(parts, guess, source, np.float64, 20)))
        np.testing.assert_array_equal(found.toarray(), matrix.toarray())


def test_an_entry_that_occurs_twice_is_refused():
    source = RowsInMemory(np.zeros((5, 4)), None, None, "matrix")
    parts = [Entries(np.array([3, 1, 3]), np.array([2, 0, 2]), np.ones(3))]
    with pytest.raises(DataError, match="row 3 has two entries in column 2"):
        list(transposed(parts, 3, source, np.float64))
