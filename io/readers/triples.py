"""Readers of files with one line per document, word and count: UCI docword and MatrixMarket."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ..errors import DataError
from ..messages import line_start
from .bags import MAX_COUNT, bag_batches, read_names, whole_number
from .batches import Batch, row_keys
from .reader import Reader
from .source import Partition, SourceFile, line_blocks

#: Bytes at the start of a file in which its header must be.
HEADER_BYTES = 1 << 16
#: Documents without words that a block of lines may have. Their number comes from the header or from a line, so
#: without a limit, a damaged digit would take all memory.
MOST_EMPTY_DOCUMENTS = 1 << 22


@dataclass(frozen=True)
class Header:
    """What the first lines of a file of counts say: how many documents, words and counts follow."""

    n_documents: int
    n_words: int
    n_entries: int
    n_lines: int  # of the header
    n_bytes: int  # of the header
    value_type: str = "integer"  # or "real", or "pattern": every entry counts 1


class TriplesReader(Reader):
    """Base of docword and MatrixMarket.

    Each line has a document, a word and a count. Documents and words are numbered from 1, and the lines are sorted by
    document.
    """

    is_ordered = False
    #: Most words that the vocabulary may have beyond those of the header.
    most_spare_names: ClassVar[int] = 0

    @abstractmethod
    def header(self, file: SourceFile) -> Header:
        """Read the header of a file; raise DataError if it has none."""

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the documents, including those without words."""
        file = partition.file
        header = self.header(file)
        if header.n_documents < 0 or header.n_words < 0:
            raise DataError(
                f"{file.url}, line {header.n_lines}: a negative number of documents or words; correct the header"
            )
        names = read_names(self.options.vocabulary_file)
        if names is not None and not header.n_words <= len(names) <= header.n_words + self.most_spare_names:
            raise DataError(
                f"{file.url}: its header says {header.n_words} words, but {self.options.vocabulary_file} has "
                f"{len(names)}"
            )
        collector = _Collector(file, header, names, self.options.binarize)
        for triples, lines in entry_blocks(file, header, partition):
            yield from collector.add(triples, lines)
        yield from collector.finish()


class DocwordReader(TriplesReader):
    """The UCI bag-of-words format: lines D, W and NNZ, then lines of document, word and count."""

    kind = "Docword"
    # gensim writes the number of the last word that occurs into the header, and all words into the vocabulary.
    most_spare_names = 1 << 62

    def header(self, file: SourceFile) -> Header:
        """Read the first three lines."""
        lines = _head(file).split(b"\n", 3)[:3]
        try:
            n_documents, n_words, n_entries = (int(line) for line in lines)
        except ValueError:
            raise DataError(f"{file.url}, line 1: a docword file begins with three lines D, W and NNZ") from None
        return Header(n_documents, n_words, n_entries, 3, sum(len(line) + 1 for line in lines))


class MatrixMarketReader(TriplesReader):
    """A sparse matrix of counts in the coordinate format of MatrixMarket. A row is a document."""

    kind = "MatrixMarket"

    def header(self, file: SourceFile) -> Header:
        """Read the banner, the comments and the line of sizes."""
        data = _head(file)
        banner = data.split(b"\n", 1)[0].decode("ascii", "replace").lower().split()
        if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"] or banner[4:5] != ["general"]:
            raise DataError(f"{file.url}, line 1: not a '%%MatrixMarket matrix coordinate ... general' file")
        comments = re.match(rb"(?:%[^\n]*\n|[ \t\r]*\n)*", data)
        assert comments is not None  # the pattern matches an empty text too
        start = comments.end()
        sizes = data[start:].split(b"\n", 1)[0]
        line = data[:start].count(b"\n") + 1
        try:
            n_documents, n_words, n_entries = (int(size) for size in sizes.split())
        except ValueError:
            raise DataError(
                f"{file.url}, line {line}: numbers of rows, columns and entries are needed, not {line_start(sizes)!r}"
            ) from None
        return Header(n_documents, n_words, n_entries, line, start + len(sizes) + 1, banner[3])


def entry_blocks(file: SourceFile, header: Header, partition: Partition) -> Iterator[tuple[np.ndarray, Sequence[int]]]:
    """Yield blocks of documents, words and counts, (3, n) int64, each with the numbers of its lines."""
    for data, line in line_blocks(file, partition):
        if line == 1:
            data = data[header.n_bytes :]
            line = header.n_lines + 1
        if data.strip():
            yield _parse(file, data, line, header.value_type)


def _head(file: SourceFile) -> bytes:
    blocks = line_blocks(file, Partition(file), HEADER_BYTES)
    return next((data for data, _ in blocks), b"")


class _Collector:
    """Gathers triples into documents. The entries of the last document wait for the next block."""

    def __init__(self, file: SourceFile, header: Header, names: pa.Array | None, binarize: bool):
        self.binarize = binarize
        self.file = file
        self.header = header
        self.names = names
        self.n_entries = 0
        self.n_yielded = 0  # documents
        #: Entries that were read, but not yielded: document, word and count, (3, n) int64.
        self.waiting = np.empty((3, 0), np.int64)
        self.last_document = 1

    def add(self, triples: np.ndarray, lines: Sequence[int]) -> Iterator[Batch]:
        """Add the entries of a block, which has lines of these numbers; yield complete documents."""
        check_entries(self.file, self.header, triples, lines, ("document", "word"), self.last_document)
        self.last_document = int(triples[0][-1])
        self.n_entries += triples.shape[1]
        # R and SciPy also write entries that are stored zeros.
        triples = triples[:, triples[2] > 0]
        if self.binarize:
            triples[2] = 1
        triples = np.concatenate([self.waiting, triples], axis=1)
        if not triples.shape[1]:
            return
        documents = triples[0]
        last_document = int(documents[-1])
        cut = int(np.searchsorted(documents, last_document))
        self.waiting = triples[:, cut:]
        if cut:
            yield from self._batches(triples[:, :cut], last_document - 1)

    def finish(self) -> Iterator[Batch]:
        """Yield the last documents; raise DataError if the number of entries differs from the header's."""
        check_number(self.file, self.header, self.n_entries)
        yield from self._batches(self.waiting, self.header.n_documents)

    def _batches(self, triples: np.ndarray, last_document: int) -> Iterator[Batch]:
        """Yield the documents up to number ``last_document``, to which the triples belong, in several batches."""
        documents, words, counts = triples
        n_documents = last_document - self.n_yielded
        self._check_number(n_documents, len(documents))
        first = self.n_yielded + 1
        entry_ptr = np.append(0, np.cumsum(np.bincount(documents - first, minlength=n_documents)))
        keys = row_keys(self.file.name, first, n_documents)
        yield from bag_batches(
            keys, entry_ptr, words - 1, counts, self.names, lambda row: f"{self.file.url}, document {first + row}"
        )
        self.n_yielded = last_document

    def _check_number(self, n_documents: int, n_entries: int) -> None:
        """Raise DataError if there are too many documents for this number of entries."""
        if n_documents > n_entries + MOST_EMPTY_DOCUMENTS:
            raise DataError(
                f"{self.file.url}: {n_documents:,} documents after number {self.n_yielded:,} have {n_entries:,} "
                f"entries together; correct the number of documents in the header (line {self.header.n_lines}) and in "
                f"the lines"
            )


def check_entries(
    file: SourceFile,
    header: Header,
    triples: np.ndarray,
    lines: Sequence[int],
    axes: tuple[str, str],
    previous: int | None = None,
) -> None:
    """Raise DataError with the number of the first line of a block that has a bad number, given those of its lines.

    ``axes`` is what messages call the first two numbers of a line. The first ones must ascend from ``previous``, unless
    that is None.
    """
    firsts, seconds, counts = triples
    n_firsts, n_seconds = header.n_documents, header.n_words
    checks = [
        (axes[0], firsts, (firsts < 1) | (firsts > n_firsts), f"is not in 1..{n_firsts}"),
        (axes[1], seconds, (seconds < 1) | (seconds > n_seconds), f"is not in 1..{n_seconds}"),
        ("count", counts, counts < 0, "is negative"),
    ]
    if previous is not None:
        is_descending = np.diff(firsts, prepend=previous) < 0
        checks.append((axes[0], firsts, is_descending, f"comes after a higher one; sort the file by {axes[0]}"))
    for name, values, is_bad, reason in checks:
        if is_bad.any():
            row = int(np.argmax(is_bad))
            raise DataError(f"{file.url}, line {lines[row]}: the {name} {values[row]} {reason}")


def check_number(file: SourceFile, header: Header, n_entries: int) -> None:
    """Raise DataError if a file has another number of entries than its header says."""
    if n_entries != header.n_entries:
        raise DataError(
            f"{file.url}: its header (line {header.n_lines}) says {header.n_entries:,} entries, but there are "
            f"{n_entries:,}; fetch the file again, or correct the header"
        )


def _parse(file: SourceFile, data: bytes, line: int, value_type: str) -> tuple[np.ndarray, Sequence[int]]:
    """Parse whole lines; return the documents, words and counts, (3, n) int64, and the numbers of the n lines."""
    n_columns = 2 if value_type == "pattern" else 3
    columns = _parse_quickly(data, n_columns, value_type)
    lines: Sequence[int] = range(line, line + len(columns[0])) if columns else []
    if columns is None:
        columns, lines = _parse_slowly(file, data, line, n_columns)
    if value_type == "pattern":
        columns.append(np.ones(len(columns[0]), np.int64))
    return np.stack([column.astype(np.int64) for column in columns]), lines


def _parse_quickly(data: bytes, n_columns: int, value_type: str) -> list[np.ndarray] | None:
    """Parse numbers that are separated by single spaces; return None for anything else."""
    names = [str(column) for column in range(n_columns)]
    types = dict.fromkeys(names, pa.int64())
    if value_type == "real":
        types["2"] = pa.float64()
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(delimiter=" ", ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(column_types=types, null_values=[]),
        )
        columns = [column.to_numpy() for column in table.columns]
    except pa.ArrowInvalid:
        return None
    if value_type == "real" and not ((columns[2] % 1 == 0) & (np.abs(columns[2]) <= MAX_COUNT)).all():
        return None
    return columns


def _parse_slowly(
    file: SourceFile, data: bytes, first_line: int, n_columns: int
) -> tuple[list[np.ndarray], Sequence[int]]:
    """Parse numbers that are separated and spelled in any way, in lines that may be blank.

    Returns the columns, and the numbers of the lines that are not blank. Raises DataError for the first bad line.
    """
    rows = []
    lines = []
    for line, text in enumerate(data.splitlines(), first_line):
        fields = text.split()
        if not fields:
            continue
        try:
            values = [whole_number(field) for field in fields]
        except ValueError:
            values = []
        if len(values) != n_columns:
            raise DataError(f"{file.url}, line {line}: {n_columns} whole numbers are needed, not {line_start(text)!r}")
        rows.append(values)
        lines.append(line)
    return list(np.array(rows, np.int64).T), lines
