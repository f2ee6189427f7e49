"""The rows of A (D, V) in the forms that the kernels take: word counts, tf-idf weights, or the numbers of a matrix."""

from collections.abc import Iterator

import numpy as np

from ....io.matrices.blocks import RowBlocks, check_not_negative
from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import CHUNK_NUMBERS, DenseRows, SparseRows
from ....io.text.vocabulary import find_word_ids
from ....kernels.nmf import products, slices
from ...engine.algorithm import PreviousModel
from ..base.inputs import DataLike

#: What stores return for a chunk.
StoredRows = Chunk | SparseRows | DenseRows
#: Rows of A: sparse, or a dense array (D, V).
Rows = products.SparseRows | np.ndarray
#: Rows of A as sweeps take them: sparse ones both by row and by column, or as slices for both products.
PreparedRows = products.SparseMatrix | slices.SlicedMatrix | np.ndarray


def rows_of(chunk: StoredRows, idf: np.ndarray | None, dtype: str) -> Rows:
    """Return the rows of a chunk. Word counts become tf-idf weights if ``idf`` (V,) is given."""
    if isinstance(chunk, Chunk):
        return word_counts(chunk, idf, dtype)
    if isinstance(chunk, SparseRows):
        return products.SparseRows(chunk.indptr, chunk.indices, chunk.data.astype(dtype, copy=False))
    return chunk.data.astype(dtype, copy=False)


def prepare(rows: Rows, n_columns: int) -> PreparedRows:
    """Return rows in the form that sweeps take."""
    if isinstance(rows, products.SparseRows):
        return products.sparse_matrix(rows, n_columns)
    return rows


def prepare_for_hals(rows: Rows, n_columns: int, K: int) -> PreparedRows:
    """Return rows in the form in which kernels of the processor multiply them fastest by factors of K columns."""
    if isinstance(rows, products.SparseRows) and slices.pays_off(rows, n_columns, K):
        return slices.sliced(rows, n_columns, K)
    return prepare(rows, n_columns)


def by_row(prepared: PreparedRows) -> Rows:
    """Return prepared rows in row order."""
    if isinstance(prepared, np.ndarray):
        return prepared
    return prepared.by_row


def n_rows_of(rows: Rows) -> int:
    """Return the number of rows."""
    if isinstance(rows, products.SparseRows):
        return len(rows.indptr) - 1
    return len(rows)


def entries_of(rows: Rows) -> np.ndarray:
    """Return the stored entries as one array."""
    if isinstance(rows, products.SparseRows):
        return rows.data
    return rows.reshape(-1)


def word_counts(chunk: Chunk, idf: np.ndarray | None, dtype: str) -> products.SparseRows:
    """Return a chunk's word counts, or their tf-idf weights with each row scaled to Euclidean length 1."""
    by_word = products.count_tokens(chunk.word_ptr, chunk.docs)
    A = products.transposed(by_word, chunk.n_documents)
    A = products.SparseRows(A.indptr, chunk.word_ids.astype(np.int32)[A.indices], A.data.astype(dtype))
    if idf is not None:
        products.apply_tfidf(A, idf)
    return A


def inverse_document_frequency(corpus: Corpus, previous: PreviousModel | None) -> np.ndarray:
    """Return ln((1 + D) / (1 + df)) + 1 of each word: (V,) float64.

    A word of the previous model keeps its weight. Otherwise the rows that the model was trained on would change.
    """
    frequency = np.asarray(corpus.vocabulary["document_frequency"], np.float64)
    idf = np.log((1 + corpus.n_documents) / (1 + frequency)) + 1
    if previous is not None:
        ids = find_word_ids(corpus.vocabulary["word"], previous.vocabulary)
        idf[ids >= 0] = previous.shared["idf"][ids[ids >= 0]]
    return idf


def blocks_of(data: DataLike) -> Iterator[DataLike]:
    """Yield blocks of rows of a matrix, after a check of their entries."""
    if not isinstance(data, RowBlocks):
        yield data
        return
    first = 0
    for block in data.blocks(numbers=CHUNK_NUMBERS):
        check_not_negative(block, data, first)
        yield block
        first += block.shape[0]
