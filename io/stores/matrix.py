"""The matrix store: a real matrix cut into chunks of rows, such as ratings, images or weights.

Layout below the URL::

    matrix.json          kind, format, shape, dtype, counts, hash; written last: a folder without it is no matrix
    chunks.parquet       one row per chunk, see MatrixChunkInfo
    columns.parquet      word: the names of the columns, if they have any
    rows.parquet         key: the names of the rows, if they have any
    train/<c>/           one Zarr group per chunk: indptr, indices and data of sparse (CSR) rows, or data of dense rows
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy

from ..errors import DataError
from ..ranges import bounded_ranges
from .chunk import TABLE, read_chunk_table, write_chunk_table
from .store import Store, check_format

FORMAT = 2
#: Most stored numbers of a chunk: 4 Mi float32 take 16 MiB dense and 32 MiB sparse.
CHUNK_NUMBERS = 1 << 22
#: Rows of a matrix in memory: a NumPy array, or a sparse matrix of SciPy, for which type checkers have no types.
MatrixBlock = Any


class SparseMatrixChunk(NamedTuple):
    """Consecutive rows of a matrix, of which only the non-zeros are stored. D rows, n non-zeros."""

    number: int  # of the chunk
    indptr: np.ndarray  # (D + 1,) int64
    indices: np.ndarray  # (n,) int32: columns, ascending in each row
    data: np.ndarray  # (n,) float32 or float64

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1


class DenseMatrixChunk(NamedTuple):
    """Consecutive rows of a matrix, of which every number is stored. D rows, V columns."""

    number: int  # of the chunk
    data: np.ndarray  # (D, V) float32 or float64

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return len(self.data)


@dataclass(frozen=True)
class MatrixChunkInfo:
    """One row of the chunk table. Names are those of a corpus, where a row is a document."""

    documents: int
    tokens: int  # stored numbers
    first_document: int


class Matrix:
    """A matrix store, open for reading.

    `NMF.fit` writes one when it is given an array. `corpusmill.write_matrix` writes one directly, for
    example from a sequence of blocks that do not fit in memory together. Properties have the names that they have in a
    `Corpus`: a row is a document, a column is a word, and a stored number is a token.

    Parameters
    ----------
    url : str or os.PathLike
        Folder of the matrix: a local path, or any URL that fsspec supports, such as ``s3://bucket/matrix``.
    part : {"train"}, default="train"
        Which rows to show. A matrix has no rows for evaluation, so all its rows are for training.

    Attributes
    ----------
    url : str
        The URL as given.
    part : str
        The part as given.
    chunks : list of MatrixChunkInfo
        Numbers of rows and of stored numbers of each chunk.
    meta : dict
        Content of ``matrix.json``.

    Raises
    ------
    DataError
        If there is no matrix at ``url``, or one of a format that this version cannot read.
    ValueError
        If ``part`` is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from corpusmill.io.stores.matrix import Matrix, write_matrix
    >>> blocks = (np.full((2, 3), value) for value in (1.0, 2.0))
    >>> _ = write_matrix("ratings", blocks)
    >>> matrix = Matrix("ratings")
    >>> matrix.shape, matrix.dtype, len(matrix.chunks)
    ((4, 3), dtype('float32'), 2)
    >>> matrix.read_chunk(1).data
    array([[2., 2., 2.],
           [2., 2., 2.]], dtype=float32)
    """

    kind = "matrix"

    def __init__(self, url: str | os.PathLike[str], part: str = "train"):
        self.store = Store(url)
        self.url = self.store.url
        #: What messages call the matrix: its URL, unless it is a temporary copy of a matrix in memory.
        self.title = self.url
        self.part = part
        if part != "train":
            raise ValueError(f"part={part!r} is not known: a matrix has only the part 'train'")
        if not self.store.exists("matrix.json"):
            raise DataError(f"{self.url}: no matrix here (no matrix.json); make one with write_matrix")
        self.meta: dict[str, Any] = self.store.read_json("matrix.json")
        check_format(self.meta, "matrix", FORMAT, self.url)

    def __repr__(self) -> str:
        storage = "sparse" if self.is_sparse else "dense"
        return f"Matrix({self.url!r}: {self.n_documents} × {self.n_words}, {storage}, {self.dtype})"

    @cached_property
    def chunks(self) -> list[MatrixChunkInfo]:
        """Numbers of rows and of stored numbers of each chunk."""
        return read_chunk_table(self.store, TABLE, MatrixChunkInfo, self.meta["chunks"])

    @property
    def held_out(self) -> None:
        """Always None, because a matrix has no rows set aside for evaluation."""
        return None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return self.n_documents, self.n_words

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return self.meta["n_documents"]

    @property
    def n_words(self) -> int:
        """Number of columns."""
        return self.meta["n_words"]

    @property
    def n_tokens(self) -> int:
        """Number of stored numbers: the non-zeros of a sparse matrix, all entries of a dense one."""
        return self.meta["n_tokens"]

    @property
    def is_sparse(self) -> bool:
        """Whether only non-zeros are stored."""
        return self.meta["sparse"]

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored numbers: float32 or float64."""
        return np.dtype(self.meta["dtype"])

    @property
    def total(self) -> float:
        """Sum of all entries."""
        return self.meta["total"]

    @property
    def hash(self) -> str:
        """Digest of dtype, content and chunks. A matrix that is copied or moved keeps it.

        The same numbers cut into other chunks have another digest, because chunks decide how sums are rounded: a run
        can only be continued with the same chunks. `write_matrix` cuts each block that it is given on its own.
        """
        return self.meta["hash"]

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns, or None if they have none."""
        if not self.meta.get("has_column_names", False):
            return None
        return self.store.read_parquet("columns.parquet")["word"].to_pylist()

    @property
    def keys(self) -> pa.ChunkedArray | None:
        """The names of the rows: (D,) large_string, or None if they have none."""
        if not self.meta.get("has_row_names", False):
            return None
        return self.store.read_parquet("rows.parquet")["key"]

    @property
    def vocabulary(self) -> pa.Table:
        """A table without columns: the columns of a matrix are no words that occur a number of times."""
        return pa.table({})

    @property
    def vocabulary_hash(self) -> str:
        """An empty string: a matrix has no vocabulary."""
        return ""

    def read_chunk(self, index: int) -> SparseMatrixChunk | DenseMatrixChunk:
        """Read a chunk, and verify its checksums.

        Parameters
        ----------
        index : int
            Number of the chunk, from 0.

        Returns
        -------
        SparseMatrixChunk or DenseMatrixChunk
            Consecutive rows.

        Raises
        ------
        DataError
            If the chunk is missing or damaged.

        Examples
        --------
        >>> import numpy as np
        >>> from corpusmill import write_matrix
        >>> write_matrix("ones", np.ones((2, 3))).read_chunk(0).data.shape
        (2, 3)
        """
        arrays = self.store.read_arrays(f"train/{index:06d}")
        return SparseMatrixChunk(index, **arrays) if self.is_sparse else DenseMatrixChunk(index, **arrays)


def write_matrix(
    url: str | os.PathLike[str],
    data: MatrixBlock | Iterable[MatrixBlock],
    dtype: npt.DTypeLike = np.float32,
    chunk_numbers: int = CHUNK_NUMBERS,
    columns: Sequence[str] | None = None,
    rows: pa.Array | None = None,
    is_durable: bool = True,
) -> Matrix:
    """Write a NumPy array, a SciPy sparse matrix, or an iterable of either (blocks of rows) as a store, and open it.

    Parameters
    ----------
    url : str or PathLike
        Folder or URL to write to.
    data : array, sparse matrix, or iterable of either
        The matrix, or blocks of its rows. Rows and columns may be empty.
    dtype : dtype, default=numpy.float32
        Type to store: float32 or float64.
    chunk_numbers : int, default=4_194_304
        Largest number of stored numbers in a chunk. A longer row has a chunk of its own.
    columns : sequence of str, optional
        Names of the columns.
    rows : pyarrow.Array, optional
        Names of the rows.
    is_durable : bool, default=True
        Whether to wait until the files are on the disk, so that a power cut does not damage them.

    Returns
    -------
    Matrix
        The store, open for reading.

    Raises
    ------
    DataError
        If an entry is negative or not finite, also after the conversion to ``dtype``. If only the conversion makes all
        entries 0. If blocks differ in width, or in whether they are sparse. If the number of names is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from corpusmill import NMF, write_matrix
    >>> blocks = (np.ones((3, 4)) * number for number in range(1, 4))
    >>> matrix = write_matrix("matrix", blocks)
    >>> matrix.shape
    (9, 4)
    >>> NMF(n_components=1).fit(matrix).components_.shape
    (1, 4)
    """
    store = Store(url, is_durable)
    # A folder without matrix.json is no matrix. So an interrupted write leaves none, instead of a mixture of two.
    store.delete("matrix.json")
    checked = _CheckedRows(store.url, np.dtype(dtype))
    chunks: list[MatrixChunkInfo] = []
    digest = hashlib.sha256(str(checked.dtype).encode())
    for block in _cut_all(data, chunk_numbers):
        first_row = checked.n_rows
        arrays = checked.arrays(block)
        store.write_arrays(f"train/{len(chunks):06d}", arrays)
        for name in sorted(arrays):
            digest.update(name.encode() + str(arrays[name].shape).encode() + arrays[name].tobytes())
        chunks.append(MatrixChunkInfo(block.shape[0], int(arrays["data"].size), first_row))
    checked.finish()
    for kind, names, length in (("columns", columns, checked.n_columns), ("rows", rows, checked.n_rows)):
        if names is not None and len(names) != length:
            raise DataError(f"{store.url}: the matrix has {length} {kind}, but {len(names)} names for them")
    if columns is not None:
        store.write_parquet("columns.parquet", pa.table({"word": pa.array(columns, pa.large_string())}))
    if rows is not None:
        store.write_parquet("rows.parquet", pa.table({"key": rows}))
    write_chunk_table(store, TABLE, MatrixChunkInfo, chunks)
    meta = {
        "kind": "matrix",
        "format": FORMAT,
        "n_documents": checked.n_rows,
        "n_words": checked.n_columns,
        "n_tokens": sum(chunk.tokens for chunk in chunks),
        "sparse": checked.is_sparse,
        "has_column_names": columns is not None,
        "has_row_names": rows is not None,
        "dtype": checked.dtype.name,
        "total": checked.total,
        "hash": digest.hexdigest()[:32],
        "chunks": len(chunks),
    }
    store.write_json("matrix.json", meta)
    return Matrix(store.url)


def chunks_of(
    data: MatrixBlock | Iterable[MatrixBlock], dtype: npt.DTypeLike, title: str
) -> Iterator[SparseMatrixChunk | DenseMatrixChunk]:
    """Yield the chunks that `write_matrix` would write. Raise the same errors, in which the matrix is ``title``."""
    checked = _CheckedRows(title, np.dtype(dtype))
    for number, block in enumerate(_cut_all(data, CHUNK_NUMBERS)):
        arrays = checked.arrays(block)
        yield SparseMatrixChunk(number, **arrays) if checked.is_sparse else DenseMatrixChunk(number, **arrays)
    checked.finish()


class _CheckedRows:
    """Checks blocks of rows, one after another, and converts them to the arrays of a chunk."""

    def __init__(self, title: str, dtype: np.dtype):
        self.title = title
        self.dtype = dtype
        self.n_rows = 0
        self.total = 0.0
        #: Width of the blocks, and whether they are sparse; known from the first block on.
        self.n_columns = -1
        self.is_sparse = False
        #: Whether a block lost all its non-zero entries, because they are too small for ``dtype``.
        self.has_vanished = False

    def arrays(self, block: MatrixBlock) -> dict[str, np.ndarray]:
        """Return the arrays of the next block; raise DataError for one that cannot be stored."""
        self._check_alike(block)
        self._check_entries(block)
        # An entry that becomes infinite is refused below.
        with np.errstate(over="ignore"):
            if self.is_sparse:
                arrays = _sparse_arrays(block, self.dtype)
            else:
                arrays = {"data": np.ascontiguousarray(block, self.dtype)}
        # The mean of the entries, total / size, scales the start of a factorisation.
        total = float(arrays["data"].sum(dtype=np.float64))
        self._check_converted(block, arrays["data"], total)
        self.total += total
        self.n_rows += block.shape[0]
        return arrays

    def finish(self) -> None:
        """Raise DataError if there was nothing, or if nothing is left of it."""
        if not self.n_rows or self.n_columns < 1:
            raise DataError(f"{self.title}: the matrix has no rows or no columns")
        if self.has_vanished and self.total == 0:
            raise DataError(
                f"{self.title}: all non-zero entries are too small for {self.dtype}, where they are 0: scale the matrix"
            )

    def _check_alike(self, block: MatrixBlock) -> None:
        is_sparse = scipy.sparse.issparse(block)
        n_columns = block.shape[1]
        if self.n_columns < 0:
            self.n_columns = n_columns
            self.is_sparse = is_sparse
        if (n_columns, is_sparse) != (self.n_columns, self.is_sparse):
            raise DataError(
                f"{self.title}: blocks of rows must have the same form, but the one at row {self.n_rows} has "
                f"{_describe_block(n_columns, is_sparse)}, and the one before it "
                f"{_describe_block(self.n_columns, self.is_sparse)}"
            )

    def _check_entries(self, block: MatrixBlock) -> None:
        entries = block.data if self.is_sparse else block
        is_bad = ~(np.isfinite(entries) & (entries >= 0))
        if is_bad.any():
            row, column, value = first_marked_entry(block, is_bad)
            raise DataError(
                f"{self.title}: row {self.n_rows + row}, column {column} is {value}: entries must be finite and not "
                f"negative"
            )

    def _check_converted(self, block: MatrixBlock, converted: np.ndarray, total: float) -> None:
        """Check the entries after the conversion to ``dtype``, given their sum."""
        if total == 0:
            self.has_vanished = self.has_vanished or bool((block.data if self.is_sparse else block).any())
        if np.isfinite(total):
            return
        is_bad = ~np.isfinite(converted)
        # The sum of finite float64 may be infinite, too.
        if is_bad.any():
            row, column, value = first_marked_entry(block, is_bad)
            raise DataError(
                f"{self.title}: row {self.n_rows + row}, column {column} is {value}: entries must be finite, and the "
                f"largest {self.dtype} is {np.finfo(self.dtype).max:.2g}; scale the matrix"
            )


def _describe_block(n_columns: int, is_sparse: bool) -> str:
    return f"{n_columns} columns ({'sparse' if is_sparse else 'dense'})"


def _cut_all(data: MatrixBlock | Iterable[MatrixBlock], chunk_numbers: int) -> Iterator[MatrixBlock]:
    """Cut a matrix, or blocks of its rows, as `_cut` does."""
    is_one_block = scipy.sparse.issparse(data) or hasattr(data, "shape")
    for block in [data] if is_one_block else data:
        yield from _cut(block, chunk_numbers)


def _cut(block: MatrixBlock, chunk_numbers: int) -> Iterator[MatrixBlock]:
    """Cut a block into parts with at most ``chunk_numbers`` stored numbers; a longer row is a part of its own."""
    if scipy.sparse.issparse(block):
        # An entry that is stored twice would count as two entries below.
        block = canonical_rows(block)
        numbers_before = block.indptr.astype(np.int64)
    else:
        block = np.asarray(block)
        numbers_before = np.arange(len(block) + 1) * block.shape[1]
    for first, stop in bounded_ranges(numbers_before, chunk_numbers):
        yield block[first:stop]


def canonical_rows(data: MatrixBlock) -> MatrixBlock:
    """Return a sparse matrix as CSR matrix with ascending columns, in which entries that occur twice are added up."""
    if data.dtype.kind in "iu" and not getattr(data, "has_canonical_format", True):
        # A sum of small integers may not fit into their own type.
        data = data.astype(np.int64, copy=False)
    rows = scipy.sparse.csr_matrix(data)
    if not rows.has_canonical_format:
        # A copy, because the arrays may belong to the caller.
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _sparse_arrays(block: MatrixBlock, dtype: np.dtype) -> dict[str, np.ndarray]:
    return {
        "indptr": block.indptr.astype(np.int64),
        "indices": block.indices.astype(np.int32),
        "data": block.data.astype(dtype),
    }


def first_marked_entry(block: MatrixBlock, is_marked: np.ndarray) -> tuple[int, int, float]:
    """Return row, column and value of the first entry that ``is_marked`` marks.

    ``block`` is a dense array, whose entries are marked, or a CSR matrix, whose stored entries (n,) are.
    """
    if not scipy.sparse.issparse(block):
        row, column = divmod(int(np.argmax(is_marked)), block.shape[1])
        return row, column, float(block[row, column])
    entry = int(np.argmax(is_marked))
    row = int(np.searchsorted(block.indptr, entry, "right")) - 1
    return row, int(block.indices[entry]), float(block.data[entry])
