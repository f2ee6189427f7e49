"""The rows of A (D, V) in the forms that the kernels take: word counts, tf-idf weights, or the numbers of a matrix.

A factor that is larger than the memory of a worker is read block by block for each product (`StreamedFactor`). A block
is a range of words. The entries of a chunk are ordered by word, so those of a block are a slice. Each sum adds its
products in the order of the words, as with a factor in memory, so the bits are the same.
"""

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....io.matrices.blocks import RowBlocks, check_not_negative
from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import CHUNK_NUMBERS, DenseMatrixChunk, Matrix, MatrixBlock, SparseMatrixChunk, write_matrix
from ....io.words import find_word_ids
from ....kernels.nmf import products, slices
from ....kernels.nmf.sums import gram_matrix
from ...engine.algorithm import PreviousModel
from ..base.inputs import InputMatrix, MatrixValues

#: What stores return for a chunk.
StoredRows = Chunk | SparseMatrixChunk | DenseMatrixChunk
#: Rows of A: sparse, or a dense array (D, V).
Rows = products.SparseRows | np.ndarray
#: Sparse rows both by row and by column, or as slices for both products.
Prepared = products.SparseMatrix | slices.SlicedMatrix


#: Bytes of P up to which one sweep in row order is faster than another form and a sweep. It writes P at random, so a
#: larger P would leave the last cache.
ROW_ORDER_BYTES = 16 << 20


class SparseChunk:
    """Sparse rows of a chunk, which get a faster form when they are swept a second time.

    To make that form takes longer than it saves in one sweep. A chunk that the worker's cache cannot keep is read anew
    for each sweep, so it stays as it is stored, unless P is large. Sweeps of all forms give the same bits.
    """

    def __init__(self, by_row: products.SparseRows, n_columns: int, K: int):
        self.by_row = by_row
        self._n_columns = n_columns
        self._K = K
        self._prepares = n_columns * K * by_row.data.itemsize > ROW_ORDER_BYTES
        self._prepared: Prepared | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the chunk occupies once it has the faster form."""
        entries = len(self.by_row.data)
        item = self.by_row.data.itemsize
        stored = sum(array.nbytes for array in self.by_row)
        if slices.pays_off(self.by_row, self._n_columns, self._K):
            return stored + (8 + 2 * item) * entries
        return stored + (4 + item) * entries + 8 * (self._n_columns + 1)

    def form(self) -> products.SparseRows | Prepared:
        """Return the rows in the form for the next sweep. Call it once for each sweep."""
        if self._prepares and self._prepared is None:
            self._prepared = prepare_for_hals(self.by_row, self._n_columns, self._K)
        self._prepares = True
        return self._prepared or self.by_row


class StreamedChunk:
    """Sparse rows of a chunk, of which products with a block of a factor take the entries of some words.

    ``stored`` is a chunk of a corpus, whose word order has these entries in few slices, or Aᵀ as sparse rows.
    """

    def __init__(self, stored: Chunk | products.SparseRows, n_rows: int, dtype: str):
        self._stored = stored
        self.n_rows = n_rows
        self._dtype = dtype

    def part(self, first: int, stop: int) -> products.SparseRows:
        """Return the rows ``first`` to ``stop - 1`` of Aᵀ."""
        if isinstance(self._stored, Chunk):
            return _count_words(self._stored, first, stop, self._dtype)
        return self._stored.part(first, stop)

    @property
    def by_row(self) -> products.SparseRows:
        """The rows in the order of documents."""
        if isinstance(self._stored, Chunk):
            return word_counts(self._stored, None, self._dtype)
        return products.transposed(self._stored, self.n_rows)

    @property
    def entries(self) -> np.ndarray:
        """The entries as one array. Those of a corpus are whole numbers, whose sums do not depend on their order."""
        if isinstance(self._stored, Chunk):
            return products.count_tokens(self._stored.word_ptr, self._stored.docs).data.astype(self._dtype)
        return self.by_row.data

    @property
    def nbytes(self) -> int:
        """Bytes of the stored arrays."""
        return sum(array.nbytes for array in self._stored if isinstance(array, np.ndarray))


def _count_words(chunk: Chunk, first: int, stop: int, dtype: str) -> products.SparseRows:
    """Return how often some words occur in each document. The words of each group of documents ascend."""
    words, counted = [], []
    for start, end in itertools.pairwise(chunk.group_ptr):
        own = slice(*(start + np.searchsorted(chunk.word_ids[start:end], (first, stop))))
        ptr = chunk.word_ptr[own.start : own.stop + 1]
        words.append(chunk.word_ids[own].astype(np.int64) - first)
        counted.append(products.count_tokens(ptr - ptr[0], chunk.docs[ptr[0] : ptr[-1]]))
    if len(counted) == 1:
        rows = counted[0]
        lengths = np.diff(rows.indptr)
        indices, data = rows.indices, rows.data
    else:
        lengths = np.concatenate([np.diff(rows.indptr) for rows in counted])
        # Where each segment is among all of its word, and these among all words.
        segments = np.concatenate(words)
        order = np.argsort(segments, kind="stable")
        starts = np.cumsum(np.r_[0, lengths[:-1]])[order]
        places = np.cumsum(np.r_[0, lengths[order][:-1]])
        entries = np.repeat(starts - places, lengths[order]) + np.arange(lengths.sum())
        indices = np.concatenate([rows.indices for rows in counted])[entries]
        data = np.concatenate([rows.data for rows in counted])[entries]
    indptr = np.zeros(stop - first + 1, np.int64)
    indptr[1:] = np.cumsum(np.bincount(np.concatenate(words), lengths, stop - first))
    return products.SparseRows(indptr, indices, data.astype(dtype))


class SpeckledRows(NamedTuple):
    """Rows of A, and which of their stored entries are left out."""

    by_row: products.SparseRows
    is_left_out: np.ndarray  # (n,) bool


#: Rows of A as they are loaded for sweeps.
PreparedRows = Prepared | Rows | SparseChunk | StreamedChunk | SpeckledRows
#: Rows of A as solvers take them.
SweptRows = Prepared | Rows


def rows_of(chunk: StoredRows, idf: np.ndarray | None, dtype: str) -> Rows:
    """Return the rows of a chunk. Word counts become tf-idf weights if ``idf`` (V,) is given."""
    if isinstance(chunk, Chunk):
        return word_counts(chunk, idf, dtype)
    if isinstance(chunk, SparseMatrixChunk):
        return products.SparseRows(chunk.indptr, chunk.indices, chunk.data.astype(dtype, copy=False))
    return chunk.data.astype(dtype, copy=False)


def prepare_for_hals(rows: products.SparseRows, n_columns: int, K: int) -> Prepared:
    """Return sparse rows in the form in which kernels of the processor multiply them fastest by K columns."""
    if slices.pays_off(rows, n_columns, K):
        return slices.sliced(rows, n_columns, K)
    return products.sparse_matrix(rows, n_columns)


def form_of(prepared: PreparedRows) -> SweptRows:
    """Return prepared rows in the form for the next sweep. Call it once for each sweep."""
    if isinstance(prepared, SparseChunk):
        return prepared.form()
    assert not isinstance(prepared, StreamedChunk | SpeckledRows)
    return prepared


def by_row(prepared: PreparedRows | Rows) -> Rows:
    """Return prepared rows in row order."""
    if isinstance(prepared, np.ndarray | products.SparseRows):
        return prepared
    return prepared.by_row


def n_rows_of(rows: Rows | PreparedRows) -> int:
    """Return the number of documents or samples, in whichever form their rows are."""
    if isinstance(rows, StreamedChunk):
        return rows.n_rows
    rows = by_row(rows)
    return len(rows.indptr) - 1 if isinstance(rows, products.SparseRows) else len(rows)


def entries_of(prepared: PreparedRows | Rows) -> np.ndarray:
    """Return the stored entries as one array."""
    if isinstance(prepared, StreamedChunk):
        return prepared.entries
    rows = by_row(prepared)
    return rows.data if isinstance(rows, products.SparseRows) else rows.reshape(-1)


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


def matrix_from(data: InputMatrix, dtype: str) -> Matrix:
    """Make a temporary store of a matrix in memory. Its files are deleted together with the returned object."""
    folder = tempfile.mkdtemp(prefix="corpusmill-matrix-")
    try:
        matrix = write_matrix(folder, blocks_of(data.values), dtype, columns=data.names, is_durable=False)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    matrix.title = "matrix in memory"
    weakref.finalize(matrix, shutil.rmtree, folder, ignore_errors=True)
    return matrix


def blocks_of(data: MatrixValues) -> Iterator[MatrixBlock]:
    """Yield blocks of rows of a matrix, after a check of their entries."""
    if not isinstance(data, RowBlocks):
        yield data
        return
    first = 0
    for block in data.blocks(numbers=CHUNK_NUMBERS):
        check_not_negative(block, data, first)
        yield block
        first += block.shape[0]


@dataclass(frozen=True)
class StreamedFactor:
    """The rows of a factor (V, K). ``read`` reads those of a block."""

    bounds: tuple[int, ...]
    read: Callable[[int], np.ndarray]

    def __len__(self) -> int:
        return self.bounds[-1]

    def blocks(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield the first row of each block, the one after its last row, and the rows."""
        for block, (first, stop) in enumerate(itertools.pairwise(self.bounds)):
            yield first, stop, self.read(block)

    def first(self, n_rows: int) -> "StreamedFactor":
        """Return the first rows only."""
        bounds = (*(bound for bound in self.bounds if bound < n_rows), n_rows)
        return StreamedFactor(bounds, lambda block: self.read(block)[: bounds[block + 1] - bounds[block]])


#: The rows of a factor, in memory or not.
AnyFactor = np.ndarray | StreamedFactor


def add_row_products(A: PreparedRows | Rows, W: AnyFactor, R: np.ndarray) -> None:
    """Add the products A·W of the rows of a chunk, (D, V), with a factor W (V, K) to R (D, K), in place.

    A factor that is read block by block needs a chunk as `stream_chunk` returns it.
    """
    if isinstance(W, StreamedFactor):
        for first, stop, rows in W.blocks():
            if isinstance(A, np.ndarray):
                products.add_dense_products(A[:, first:stop], rows, R)
            else:
                assert isinstance(A, StreamedChunk)
                products.add_transposed_products(A.part(first, stop), rows, R)
        return
    assert not isinstance(A, StreamedChunk)
    given = by_row(A)
    if isinstance(given, products.SparseRows):
        products.add_products(given, W, R)
    else:
        products.add_dense_products(given, W, R)


def add_column_products(A: PreparedRows, first: int, stop: int, H: np.ndarray, P: np.ndarray) -> None:
    """Add the rows ``first`` to ``stop - 1`` of AᵀH to P (stop - first, K), in place, for H (D, K)."""
    if isinstance(A, np.ndarray):
        products.add_dense_column_products(A[:, first:stop], H, P)
    else:
        assert isinstance(A, StreamedChunk | products.SparseMatrix)
        words = A.by_column if isinstance(A, products.SparseMatrix) else A
        products.add_products(words.part(first, stop), H, P)


def columns_of(W: AnyFactor, where: slice) -> AnyFactor:
    """Return a range of columns of a factor."""
    if isinstance(W, np.ndarray):
        return np.ascontiguousarray(W[:, where])
    return StreamedFactor(W.bounds, lambda block: np.ascontiguousarray(W.read(block)[:, where]))


def gram_of(W: AnyFactor, gram: Callable[[np.ndarray], np.ndarray] = gram_matrix) -> np.ndarray:
    """Return S of a factor: the sum of the S of its blocks."""
    if isinstance(W, np.ndarray):
        return gram(W)
    return np.sum([gram(rows) for _, _, rows in W.blocks()], axis=0)


def aligned_bounds(n_rows: int, n_blocks: int) -> tuple[int, ...]:
    """Return the bounds of blocks with about the same number of whole groups of rows. There may be fewer blocks."""
    n_groups = -(-n_rows // products.GROUP_ROWS)
    cuts = np.linspace(0, n_groups, min(n_blocks, n_groups) + 1).astype(int) * products.GROUP_ROWS
    return (*(int(cut) for cut in cuts[:-1]), n_rows)
