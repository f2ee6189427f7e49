"""Readers of MatrixMarket files whose columns are documents: 10x Genomics' folders, and regions by cells."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from ..errors import DataError
from ..matrices.blocks import BLOCK_NUMBERS, Block, RowBlocks
from ..matrices.names import check_unique
from ..matrices.tenx import feature_names, select_features
from ..matrices.transposition import Entries, transposed
from ..stores.store import filesystem_of
from .bags import read_names
from .batches import ReadOptions, check_utf8
from .matrices import MatrixFileReader
from .source import Partition, SourceFile, find_files, line_blocks
from .triples import MOST_EMPTY_DOCUMENTS, MatrixMarketReader, check_entries, check_number, entry_blocks


class TransposedMatrixMarketReader(MatrixFileReader):
    """A matrix of counts in MatrixMarket's coordinate format. A column is a document."""

    kind = "TransposedMatrixMarket"

    @contextmanager
    def open(self, file: SourceFile) -> Iterator[RowBlocks]:
        """Open the matrix of a file."""
        names = read_names(self.options.vocabulary_file)
        keys = read_names(self.options.keys_file)
        column_names = None if names is None else names.to_pylist()
        yield MarketColumns(file, self.options, keys, column_names)


class TenXFolderReader(MatrixFileReader):
    """A folder of 10x Genomics with matrix.mtx, barcodes.tsv and features.tsv or genes.tsv, packed or not."""

    kind = "TenXFolder"

    @contextmanager
    def open(self, file: SourceFile) -> Iterator[RowBlocks]:
        """Open the matrix of a folder."""
        barcodes = _table_columns(_file_in(file.url, "barcodes.tsv"))[0]
        check_unique(barcodes, f"{file.url}, barcodes", "every cell needs a name of its own")
        features = _table_columns(_file_in(file.url, "features.tsv", "genes.tsv"))
        names = feature_names(features[0], features[min(1, len(features) - 1)], self.options.names)
        matrix: RowBlocks = MarketColumns(_file_in(file.url, "matrix.mtx"), self.options, barcodes, names)
        if self.options.feature_type is not None:
            if len(features) < 3:
                raise DataError(f"{file.url}: its table of features has no types; leave out feature_type")
            matrix = select_features(matrix, features[2], self.options.feature_type)
        yield matrix


def is_tenx_folder(folder: str) -> bool:
    """Return whether a folder has a matrix as 10x Genomics' programs write it."""
    return bool(_candidates(folder, "matrix.mtx")) and bool(_candidates(folder, "barcodes.tsv"))


def _candidates(folder: str, *names: str) -> list[str]:
    filesystem, path = filesystem_of(folder)
    packed = [f"{name}{ending}" for name in names for ending in ("", ".gz")]
    return [name for name in packed if filesystem.isfile(f"{path.rstrip('/')}/{name}")]


def _file_in(folder: str, *names: str) -> SourceFile:
    found = _candidates(folder, *names)
    if not found:
        raise DataError(f"{folder}: no {' or '.join(names)} in this folder (packed with gzip or not)")
    return find_files(f"{folder.rstrip('/')}/{found[0]}")[0]


def _table_columns(file: SourceFile) -> list[pa.Array]:
    """Return the columns of a table without a header, separated by tabs: large_string each."""
    rows: list[list[str]] = []
    for data, first in line_blocks(file, Partition(file), any_ends=True):
        for number, line in enumerate(data.splitlines(), first):
            text = check_utf8(line, f"{file.url}, line {number}")
            if text.strip():
                rows.append(text.split("\t"))
    if not rows:
        raise DataError(f"{file.url}: the file is empty")
    n_columns = min(len(row) for row in rows)
    return [pa.array([row[column].strip() for row in rows], pa.large_string()) for column in range(n_columns)]


class MarketColumns(RowBlocks):
    """The columns of a MatrixMarket file. A transposition through temporary files makes rows of them."""

    def __init__(
        self, file: SourceFile, options: ReadOptions, row_names: pa.Array | None, column_names: list[str] | None
    ):
        self.file = file
        self.header = MatrixMarketReader((file,), options).header(file)
        # The header calls a row a document. Here, a column is one.
        super().__init__(file.url, (self.header.n_words, self.header.n_documents), row_names, column_names)
        if not 0 <= self.shape[0] <= self.header.n_entries + MOST_EMPTY_DOCUMENTS or self.shape[1] < 0:
            raise DataError(
                f"{file.url}, line {self.header.n_lines}: {self.shape[0]:,} columns and {self.shape[1]:,} rows cannot "
                f"have {self.header.n_entries:,} entries; correct the header"
            )
        self._binarize = options.binarize

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield all columns of the file; a range of them cannot be read alone."""
        value_type = np.uint8 if self._binarize else np.int64
        return transposed(self._entries(), self.header.n_entries, self, value_type, numbers)

    def _entries(self) -> Iterator[Entries]:
        n_entries = 0
        for triples, lines in entry_blocks(self.file, self.header, Partition(self.file)):
            check_entries(self.file, self.header, triples, lines, ("row", "column"))
            rows, columns, counts = triples
            n_entries += len(rows)
            if self._binarize:
                counts = counts > 0
            # The format counts from 1. Rows and columns are exchanged, because the columns of the file are documents.
            yield Entries(columns - 1, rows - 1, counts)
        check_number(self.file, self.header, n_entries)
