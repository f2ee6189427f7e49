"""Readers of matrices of counts: AnnData, 10x Genomics, SciPy's .npz, transposed MatrixMarket, and data in memory."""

import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pyarrow as pa
import scipy

from ..errors import DataError
from ..matrices.anndata import open_anndata
from ..matrices.blocks import RowBlocks, whole_counts
from ..matrices.memory import row_blocks
from ..matrices.names import check_unique
from ..matrices.tenx import open_tenx
from .bags import bag_batches, read_names
from .batches import Batch, ReadOptions, number_keys, row_keys
from .reader import InMemoryReader, Reader
from .source import Partition, SourceFile, open_file

#: Stored numbers of a partition.
PARTITION_NUMBERS = 1 << 22


class MatrixFileReader(Reader):
    """Base of files with one matrix each. A row is a document, and its name is the document's key."""

    is_ordered = False

    @abstractmethod
    def open(self, file: SourceFile) -> AbstractContextManager[RowBlocks]:
        """Open the matrix of a file."""

    def partitions(self) -> Iterable[Partition]:
        """Cut each matrix into ranges of rows with about PARTITION_NUMBERS numbers, if its form allows that."""
        for file in self.files:
            with self.open(file) as matrix:
                for first, stop in matrix.ranges(PARTITION_NUMBERS):
                    yield Partition(file, first, stop)

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the rows of the partition."""
        with self.open(partition.file) as matrix:
            yield from count_batches(matrix, (partition.start, partition.stop), self.options, partition.file.name)

    def column_names(self) -> list[str] | None:
        """Return the names of the columns if all files have the same ones."""
        found = None
        for file in self.files:
            with self.open(file) as matrix:
                if matrix.column_names is None or found not in (None, matrix.column_names):
                    return None
                found = matrix.column_names
        return found


class AnnDataReader(MatrixFileReader):
    """A matrix of an AnnData file (.h5ad), chosen by the option ``layer``."""

    kind = "AnnData"

    def open(self, file: SourceFile) -> AbstractContextManager[RowBlocks]:
        """Open the matrix of a file."""
        return open_anndata(file.url, self.options.layer)


class AnnDataZarrReader(AnnDataReader):
    """A matrix of an AnnData store in Zarr's format 2 or 3."""

    kind = "AnnDataZarr"


class TenXReader(MatrixFileReader):
    """A feature-barcode matrix of 10x Genomics in HDF5. Cells are documents."""

    kind = "TenX"

    def open(self, file: SourceFile) -> AbstractContextManager[RowBlocks]:
        """Open the matrix of a file."""
        return open_tenx(file.url, self.options.names, self.options.feature_type)


class NpzReader(MatrixFileReader):
    """A sparse matrix that scipy.sparse.save_npz wrote. With the option ``transpose``, columns are documents."""

    kind = "Npz"

    @contextmanager
    def open(self, file: SourceFile) -> Iterator[RowBlocks]:
        """Read the matrix into memory."""
        with open_file(file, unpack=False) as stream:
            try:
                matrix = scipy.sparse.load_npz(stream)
            except MemoryError:
                raise
            except Exception as error:  # NumPy and zipfile have several classes of errors
                raise DataError(f"{file.url}: {no_sparse_matrix(error)}") from None
        where = file.url
        if self.options.transpose:
            matrix = matrix.T
            where += ", transposed"
        names = read_names(self.options.vocabulary_file)
        column_names = None if names is None else names.to_pylist()
        yield row_blocks(matrix, column_names, read_names(self.options.keys_file), where)


def no_sparse_matrix(error: Exception) -> str:
    """Say that SciPy cannot load a file. Its errors have the addresses of objects, and advise to unpickle files."""
    is_file = isinstance(error, zipfile.BadZipFile | zlib.error | OSError | EOFError)
    return f"not a sparse matrix that scipy.sparse.save_npz wrote, or a damaged one{f' ({error})' if is_file else ''}"


class MatrixReader(InMemoryReader):
    """A sparse or dense matrix of counts in memory. A row is a document, numbered from 0 if it has no name."""

    kind = "Matrix"
    is_ordered = False
    what = "matrix"

    def __init__(self, matrix: RowBlocks, options: ReadOptions):
        super().__init__(options)
        self.matrix = matrix
        if matrix.column_names is not None:
            names = pa.array(matrix.column_names, pa.large_string())
            check_unique(names, f"{matrix.where}, columns", "rename or remove it")

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the rows."""
        return count_batches(self.matrix, (0, self.matrix.shape[0]), self.options)

    def column_names(self) -> list[str] | None:
        """Return the names of the columns."""
        return self.matrix.column_names


def count_batches(
    matrix: RowBlocks, rows: tuple[int, int], options: ReadOptions, file_name: str | None = None
) -> Iterator[Batch]:
    """Yield a range of the rows of a matrix of counts as batches.

    A row without a name gets the key ``file_name:number``, or its number from 0 if ``file_name`` is None. Raises
    DataError for entries that are not counts.
    """
    names = None if matrix.column_names is None else pa.array(matrix.column_names, pa.large_string())
    first_row, stop_row = rows
    for block in matrix.blocks(first_row, stop_row):
        if not scipy.sparse.issparse(block):
            block = scipy.sparse.csr_matrix(block)
        counts = whole_counts(block, matrix, first_row, options.binarize)
        if matrix.row_names is not None:
            keys = matrix.row_names.slice(first_row, block.shape[0]).cast(pa.string())
        elif file_name is None:
            keys = number_keys(first_row, block.shape[0])
        else:
            keys = row_keys(file_name, first_row + 1, block.shape[0])

        def row_name(row: int, first: int = first_row) -> str:
            return f"{matrix.where}, row {first + row + 1}"

        yield from bag_batches(keys, block.indptr, block.indices.astype(np.int64), counts, names, row_name)
        first_row += block.shape[0]
