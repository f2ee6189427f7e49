"""The matrix store: a real matrix cut into chunks of rows, sparse (CSR) or dense, for ratings, images and weights.

Layout below the URL::

    matrix.json          kind, format, shape, type, chunk table, hash; written last: without it there is no matrix
    train/<c>/           one Zarr group a chunk: indptr, indices, data of sparse rows, or data of dense ones
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from .store import DataError, Store, check_format

FORMAT = 1
#: Stored numbers in a chunk: 4 Mi float32 are 16 MiB dense, 32 MiB sparse.
CHUNK_NUMBERS = 1 << 22


class SparseRows(NamedTuple):
    """Rows of a chunk, their non-zeros in ascending columns."""

    index: int  # type: ignore[assignment]
    indptr: np.ndarray  # (D + 1,) int64
    indices: np.ndarray  # (n,) int32
    data: np.ndarray  # (n,) float32 or float64

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1


class DenseRows(NamedTuple):
    """Rows of a chunk, every number stored."""

    index: int  # type: ignore[assignment]
    data: np.ndarray  # (D, V) float32 or float64

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return len(self.data)


@dataclass(frozen=True)
class MatrixChunk:
    """What the chunk table says of one chunk; names as in a corpus, where a row is a document."""

    documents: int
    tokens: int  # stored numbers
    first_document: int


class Matrix:
    """A matrix store, open for reading."""

    kind = "matrix"
    part = "train"
    folder: Any = None  # a temporary folder, kept as long as the matrix that lies in it

    def __init__(self, url: str):
        self.store = Store(url)
        self.url = self.store.url
        if not self.store.exists("matrix.json"):
            raise DataError(f"{url}: no matrix here (no matrix.json)")
        self.meta: dict[str, Any] = self.store.read_json("matrix.json")
        check_format(self.meta, "matrix", FORMAT, self.url)
        self.chunks = [MatrixChunk(**c) for c in self.meta["chunks"]]

    @property
    def held_out(self) -> None:
        """A matrix keeps no rows apart for evaluation."""
        return None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.n_documents, self.n_words

    @property
    def n_documents(self) -> int:
        """D, the number of rows."""
        return sum(c.documents for c in self.chunks)

    @property
    def n_words(self) -> int:
        """V, the number of columns."""
        return self.meta["n_words"]

    @property
    def n_tokens(self) -> int:
        """Stored numbers."""
        return sum(c.tokens for c in self.chunks)

    @property
    def is_sparse(self) -> bool:
        """Whether only non-zeros are stored."""
        return self.meta["sparse"]

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64."""
        return np.dtype(self.meta["dtype"])

    @property
    def total(self) -> float:
        """Sum of all entries."""
        return self.meta["total"]

    @property
    def hash(self) -> str:
        """A digest of shape and content."""
        return self.meta["hash"]

    def read_chunk(self, index: int) -> SparseRows | DenseRows:
        """Read chunk ``index``, checksums verified."""
        arrays = self.store.read_arrays(f"train/{index:06d}")
        return SparseRows(index, **arrays) if self.is_sparse else DenseRows(index, **arrays)


def write_matrix(
    url: str,
    data: Any,
    dtype: Any = np.float32,
    chunk_numbers: int = CHUNK_NUMBERS,
    about: dict[str, Any] | None = None,
) -> Matrix:
    """Write a NumPy array, a SciPy sparse matrix or an iterable of either (blocks of rows) as a store, and open it.

    Raises DataError with row and column for an entry that is negative or not finite, and for blocks of unequal width
    or kind. Empty rows and columns are allowed.
    """
    writer = _Writer(Store(url), np.dtype(dtype))
    blocks = data if not (scipy.sparse.issparse(data) or hasattr(data, "shape")) else [data]
    for block in blocks:
        for part in _cut(block, chunk_numbers):
            writer.add(part)
    return writer.finish()


class _Writer:
    def __init__(self, store: Store, dtype: np.dtype):
        self.store, self.dtype = store, dtype
        self.chunks: list[MatrixChunk] = []
        self.rows, self.total = 0, 0.0
        self.digest = hashlib.sha256(str(dtype).encode())
        self.width, self.sparse = -1, False

    def add(self, block: Any) -> None:
        sparse = scipy.sparse.issparse(block)
        if self.width < 0:
            self.width, self.sparse = block.shape[1], sparse
        if (block.shape[1], sparse) != (self.width, self.sparse):
            raise DataError(
                f"{self.store.url}: a block of rows from row {self.rows} has {block.shape[1]} columns "
                f"({'sparse' if sparse else 'dense'}), those before it {self.width}: blocks must be alike"
            )
        self._check(block)
        arrays = _sparse_arrays(block, self.dtype) if sparse else {"data": np.ascontiguousarray(block, self.dtype)}
        self.store.write_arrays(f"train/{len(self.chunks):06d}", arrays)
        for name in sorted(arrays):
            self.digest.update(name.encode() + str(arrays[name].shape).encode() + arrays[name].tobytes())
        self.total += float(arrays["data"].sum(dtype=np.float64))
        self.chunks.append(MatrixChunk(block.shape[0], int(arrays["data"].size), self.rows))
        self.rows += block.shape[0]

    def _check(self, block: Any) -> None:
        entries = block.data if scipy.sparse.issparse(block) else block
        bad = ~(np.isfinite(entries) & (entries >= 0))
        if bad.any():
            row, column, value = _first(block, bad)
            raise DataError(
                f"{self.store.url}: row {self.rows + row}, column {column} is {value}: entries must be finite and "
                f"not negative"
            )

    def finish(self) -> Matrix:
        if not self.rows or self.width < 1:
            raise DataError(f"{self.store.url}: the matrix has no rows or no columns")
        self.store.write_json(
            "matrix.json",
            {
                "kind": "matrix",
                "format": FORMAT,
                "n_words": self.width,
                "sparse": self.sparse,
                "dtype": self.dtype.name,
                "total": self.total,
                "hash": self.digest.hexdigest()[:32],
                "chunks": [asdict(c) for c in self.chunks],
            },
        )
        return Matrix(self.store.url)


def _cut(block: Any, numbers: int) -> Iterable[Any]:
    """Cut rows into pieces of about so many stored numbers, at least one row each."""
    if scipy.sparse.issparse(block):
        block = scipy.sparse.csr_matrix(block)
        block.sum_duplicates()
        ends = block.indptr[1:].astype(np.int64)
    else:
        block = np.asarray(block)
        ends = np.arange(1, len(block) + 1) * block.shape[1]
    first, n = 0, len(ends)
    while first < n:
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + numbers, "right")))
        yield block[first:last]
        first = last


def _sparse_arrays(block: Any, dtype: np.dtype) -> dict[str, np.ndarray]:
    return {
        "indptr": block.indptr.astype(np.int64),
        "indices": block.indices.astype(np.int32),
        "data": block.data.astype(dtype),
    }


def _first(block: Any, bad: np.ndarray) -> tuple[int, int, float]:
    """Row, column and value of the first bad entry."""
    if not scipy.sparse.issparse(block):
        row, column = np.argwhere(bad)[0]
        return int(row), int(column), float(block[row, column])
    i = int(np.flatnonzero(bad)[0])
    row = int(np.searchsorted(block.indptr, i, "right")) - 1
    return row, int(block.indices[i]), float(block.data[i])
