"""The matrix store: it returns what was written, chunk by chunk; errors name the row and column of a bad entry."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from corpusmill.io.data import open_data
from corpusmill.io.errors import DataError
from corpusmill.io.readers.edges import read_edges
from corpusmill.io.stores.corpus import Corpus
from corpusmill.io.stores.graph import write_graph
from corpusmill.io.stores.matrix import Matrix, write_matrix
from hypothesis import given, settings
from hypothesis import strategies as st


def whole(matrix):
    chunks = [matrix.read_chunk(c) for c in range(len(matrix.chunks))]
    assert [c.number for c in chunks] == list(range(len(chunks)))
    assert [c.n_documents for c in chunks] == [info.documents for info in matrix.chunks]
    if not matrix.is_sparse:
        return np.concatenate([c.data for c in chunks])
    parts = [scipy.sparse.csr_matrix((c.data, c.indices, c.indptr), (c.n_documents, matrix.n_words)) for c in chunks]
    return scipy.sparse.vstack(parts).toarray()


@settings(max_examples=15)
@given(
    st.integers(1, 30), st.integers(1, 9), st.integers(1, 60), st.booleans(), st.sampled_from(["float32", "float64"])
)
def test_a_matrix_is_read_as_it_was_written(tmp_path_factory, rows, columns, numbers, sparse, dtype):
    A = scipy.sparse.random(rows, columns, 0.4, "csr", random_state=rows)
    matrix = write_matrix(str(tmp_path_factory.mktemp("m")), A if sparse else A.toarray(), dtype, numbers)
    assert matrix.shape == A.shape
    assert matrix.dtype == dtype
    np.testing.assert_array_equal(whole(matrix), A.toarray().astype(dtype))
    assert matrix.total == pytest.approx(float(A.sum()), rel=1e-6)
    firsts = np.cumsum([0] + [c.documents for c in matrix.chunks])
    assert [c.first_document for c in matrix.chunks] == firsts[:-1].tolist()
    assert all(c.tokens <= numbers or c.documents == 1 for c in matrix.chunks)


def test_blocks_of_rows_are_joined(tmp_path):
    A = np.arange(12.0).reshape(4, 3)
    matrix = write_matrix(str(tmp_path / "a"), iter([A[:1], A[1:]]))
    np.testing.assert_array_equal(whole(matrix), A)
    assert isinstance(open_data(str(tmp_path / "a")), Matrix)


def test_the_matrix_of_the_caller_stays_as_it_was(tmp_path):
    # Row 0 has an entry twice, and the columns of row 1 do not ascend.
    arrays = np.array([1.0, 2, 3, 4]), np.array([1, 1, 1, 0], np.int32), np.array([0, 2, 4], np.int32)
    A = scipy.sparse.csr_matrix(tuple(array.copy() for array in arrays), shape=(2, 2))
    # Arrays of a memory map cannot be written to.
    for array in (A.data, A.indices, A.indptr):
        array.flags.writeable = False
    np.testing.assert_array_equal(whole(write_matrix(str(tmp_path / "a"), A)), [[0, 3], [4, 3]])
    for array, before in zip((A.data, A.indices, A.indptr), arrays, strict=True):
        np.testing.assert_array_equal(array, before)


def test_an_interrupted_write_over_a_matrix_leaves_no_mixture_of_two(tmp_path):
    def blocks():
        yield np.full((2, 3), 7.0)
        raise KeyboardInterrupt

    write_matrix(str(tmp_path / "a"), np.ones((4, 3)))
    with pytest.raises(KeyboardInterrupt):
        write_matrix(str(tmp_path / "a"), blocks())
    with pytest.raises(DataError, match=r"no matrix here \(no matrix\.json\)"):
        Matrix(str(tmp_path / "a"))


def test_the_hash_is_that_of_the_content(tmp_path):
    A = np.eye(4)
    found = [write_matrix(str(tmp_path / n), m).hash for n, m in (("a", A), ("b", A), ("c", 2 * A))]
    assert found[0] == found[1] != found[2]


def test_the_hash_covers_the_chunks_because_results_depend_on_them(tmp_path):
    A = np.arange(12.0).reshape(4, 3)
    whole = write_matrix(str(tmp_path / "whole"), A)
    cut = write_matrix(str(tmp_path / "cut"), A, chunk_numbers=6)
    assert len(cut.chunks) == 2
    assert cut.hash != whole.hash
    assert cut.hash == write_matrix(str(tmp_path / "blocks"), [A[:2], A[2:]]).hash


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_bad_entry_is_named_by_row_and_column(tmp_path, sparse, value):
    A = np.ones((6, 4))
    A[4, 2] = value
    with pytest.raises(DataError, match="row 4, column 2 is"):
        write_matrix(str(tmp_path / "a"), scipy.sparse.csr_matrix(A) if sparse else A, chunk_numbers=8)
    with pytest.raises(DataError, match="no matrix here"):
        Matrix(str(tmp_path / "a"))


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_entries_that_float32_cannot_hold_are_refused(tmp_path, convert):
    A = np.eye(4)
    A[2, 3] = 1e39
    with pytest.raises(DataError, match=r"row 2, column 3 is 1e\+39: .* the largest float32 is 3\.4e\+38"):
        write_matrix(tmp_path / "a", convert(A), chunk_numbers=4)
    with pytest.raises(DataError, match=r"all non-zero entries are too small for float32"):
        write_matrix(tmp_path / "b", convert(np.eye(4) * 1e-50))
    # Other entries are 0 as well, so these may be.
    assert write_matrix(tmp_path / "c", convert(np.diag([1e-50, 1])), chunk_numbers=1).total == 1
    assert write_matrix(tmp_path / "d", convert(A), np.float64).total == 3 + 1 + 1e39


def test_unequal_blocks_are_refused(tmp_path):
    with pytest.raises(DataError, match="3 columns"):
        write_matrix(str(tmp_path / "a"), iter([np.ones((2, 4)), np.ones((2, 3))]))
    with pytest.raises(DataError, match="no rows"):
        write_matrix(str(tmp_path / "b"), iter([]))


@pytest.mark.parametrize("kind, length, names", [("columns", 3, ["a", "b"]), ("rows", 2, pa.array(["a", "b", "c"]))])
def test_a_wrong_number_of_names_is_refused(tmp_path, kind, length, names):
    with pytest.raises(DataError, match=f"the matrix has {length} {kind}, but {len(names)} names for them"):
        write_matrix(str(tmp_path / "a"), np.ones((2, 3)), **{kind: names})


def test_a_format_of_the_future_is_refused(tmp_path):
    matrix = write_matrix(str(tmp_path / "a"), np.ones((2, 2)))
    matrix.store.write_json("matrix.json", matrix.meta | {"format": 99})
    with pytest.raises(DataError, match="format 99"):
        Matrix(matrix.url)


def test_a_matrix_has_no_part_for_evaluation(tmp_path):
    matrix = write_matrix(tmp_path / "a", np.ones((2, 2)))
    assert (matrix.part, matrix.held_out, matrix.vocabulary.num_columns) == ("train", None, 0)
    with pytest.raises(ValueError, match="part='held_out' is not known"):
        open_data(matrix.url, "held_out")


def test_a_graph_is_no_corpus(tmp_path):
    graph = write_graph(read_edges(scipy.sparse.eye_array(3, format="csr")), tmp_path)
    assert open_data(tmp_path).hash == graph.hash
    with pytest.raises(DataError, match="no corpus and no matrix here"):
        open_data(tmp_path / "nothing")
    with pytest.raises(DataError, match="this is a graph, and a corpus is needed here"):
        Corpus(tmp_path)
