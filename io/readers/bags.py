"""Readers of counted words: UCI docword, MatrixMarket, svmlight, and matrices in memory."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy.sparse

from ..stores.store import DataError
from .lines import Reader, line_partitions
from .source import Bag, Batch, Partition, ReadOptions, SourceFile, as_text, find_files, line_blocks, row_keys

#: Tokens that a batch may hold.
BATCH_TOKENS = 1 << 21
#: Largest whole number that a floating-point number holds exactly.
MOST = 1 << 53


def read_names(path: str | None) -> pa.Array | None:
    """Return the words of a vocabulary file, one a line; raise DataError for a word that stands there twice."""
    if path is None:
        return None
    file = find_files(path)[0]
    lines = [line.strip() for data, _ in line_blocks(file, Partition(file)) for line in data.splitlines()]
    words = as_text(pa.array(lines, pa.large_binary()), ReadOptions(), lambda row: f"{file.url}, line {row + 1}")
    return check_names(words.to_pylist(), file.url)


def check_names(words: Sequence[str], where: str) -> pa.Array:
    """Return the words as an array; raise DataError for a word that is there twice."""
    names = pa.array(words, pa.large_string())
    if len(names.unique()) < len(names):
        seen: set[str] = set()
        row, word = next((i, w) for i, w in enumerate(words, 1) if w in seen or seen.add(w))  # type: ignore[func-returns-value]
        raise DataError(f"{where}, line {row}: the word {word!r} stands there a second time")
    return names


@dataclass(frozen=True)
class Header:
    """What a file of triples says of itself."""

    documents: int
    words: int
    entries: int
    lines: int  # of the header
    bytes: int
    value: str = "integer"  # or "real", or "pattern": each entry counts 1


@dataclass(frozen=True)
class TriplesReader(Reader):
    """Base of docword and MatrixMarket: lines of document, word and count, numbered from 1, documents ascending."""

    ordered: ClassVar[bool] = False

    def partitions(self) -> Iterable[Partition]:
        """One a file."""
        return [Partition(f) for f in self.files]

    def header(self, file: SourceFile) -> Header:
        """Read what the file says of itself."""
        raise NotImplementedError

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the documents, those without words too."""
        file = part.file
        header, names = self.header(file), read_names(self.options.vocabulary_file)
        if names is not None and len(names) != header.words:
            raise DataError(
                f"{file.url}: its header says {header.words} words, {self.options.vocabulary_file} has {len(names)}"
            )
        rows = _Rows(file, header)
        for data, line in line_blocks(file, part):
            if line == 1:
                data, line = data[header.bytes :], header.lines + 1
            if data.strip():
                yield from rows.take(data, line, names)
        yield from rows.finish(names)


class DocwordReader(TriplesReader):
    """The UCI bag-of-words format: three header lines D, W and NNZ, then lines of document, word and count."""

    kind = "Docword"

    def header(self, file: SourceFile) -> Header:
        """Read the first three lines."""
        data = _head(file)
        lines = data.split(b"\n", 3)
        try:
            d, w, entries = (int(x) for x in lines[:3])
        except ValueError:
            raise DataError(f"{file.url}, line 1: a docword file begins with three lines D, W and NNZ") from None
        return Header(d, w, entries, 3, sum(len(x) + 1 for x in lines[:3]))


class MatrixMarketReader(TriplesReader):
    """A sparse matrix of counts in MatrixMarket coordinate format: a row is a document."""

    kind = "MatrixMarket"

    def header(self, file: SourceFile) -> Header:
        """Read the banner, comments and the line of sizes."""
        data = _head(file)
        banner = data.split(b"\n", 1)[0].decode("ascii", "replace").lower().split()
        if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"] or banner[4:5] != ["general"]:
            raise DataError(f"{file.url}, line 1: not a '%%MatrixMarket matrix coordinate ... general' file")
        match = re.match(rb"(?:%[^\n]*\n|[ \t\r]*\n)*", data)
        assert match is not None
        sizes = data[match.end() :].split(b"\n", 1)[0]
        line = data[: match.end()].count(b"\n") + 1
        try:
            d, w, entries = (int(x) for x in sizes.split())
        except ValueError:
            raise DataError(f"{file.url}, line {line}: needs rows, columns and entries, not {sizes[:40]!r}") from None
        return Header(d, w, entries, line, match.end() + len(sizes) + 1, banner[3])


def _head(file: SourceFile) -> bytes:
    return next((data for data, _ in line_blocks(file, Partition(file), 1 << 16)), b"")


class _Rows:
    """Gathers triples into documents; what belongs to the last document waits for the next block."""

    def __init__(self, file: SourceFile, header: Header):
        self.file, self.header = file, header
        self.seen = 0
        self.done = 0  # documents handed on
        self.waiting = [np.empty((3, 0), np.int64)]

    def take(self, data: bytes, line: int, names: pa.Array | None) -> Iterator[Batch]:
        """Add a block of lines and yield what is complete."""
        triples = _parse(self.file, data, line, self.header.value)
        self._check(triples, line)
        self.seen += triples.shape[1]
        self.waiting.append(triples)
        joined = np.concatenate(self.waiting, axis=1)
        cut = int(np.searchsorted(joined[0], joined[0, -1]))
        self.waiting = [joined[:, cut:]]
        if cut:
            yield from self._batches(joined[:, :cut], int(joined[0, cut]) - 1, names)

    def finish(self, names: pa.Array | None) -> Iterator[Batch]:
        """Yield the last documents; raise DataError when the body has other than the promised entries."""
        if self.seen != self.header.entries:
            raise DataError(
                f"{self.file.url}: its header (line {self.header.lines}) says {self.header.entries:,} entries, "
                f"its body has {self.seen:,}; fetch the file again, or correct the header"
            )
        yield from self._batches(np.concatenate(self.waiting, axis=1), self.header.documents, names)

    def _batches(self, triples: np.ndarray, until: int, names: pa.Array | None) -> Iterator[Batch]:
        """Yield documents ``self.done + 1 .. until`` in batches of bounded size."""
        lengths = np.zeros(until - self.done, np.int64)
        np.add.at(lengths, triples[0] - 1 - self.done, triples[2])
        entries = np.r_[0, np.cumsum(np.bincount(triples[0] - 1 - self.done, minlength=len(lengths)))]
        for first, last in _cuts(lengths):
            mine = triples[:, entries[first] : entries[last]]
            doc_ptr = np.r_[0, np.cumsum(lengths[first:last])]
            yield Batch(
                row_keys(self.file.name, self.done + 1 + first, last - first),
                Bag(doc_ptr, np.repeat(mine[1] - 1, mine[2]), names),
            )
        self.done = until

    def _check(self, triples: np.ndarray, line: int) -> None:
        docs, words, counts = triples
        before = self.waiting[-1][0, -1] if self.waiting[-1].shape[1] else 1
        limits = self.header.documents, self.header.words
        checks = (
            ("document", docs, (docs < 1) | (docs > limits[0]), f"is not in 1..{limits[0]}"),
            ("word", words, (words < 1) | (words > limits[1]), f"is not in 1..{limits[1]}"),
            ("count", counts, counts < 1, "is not 1 or more"),
            (
                "document",
                docs,
                np.diff(docs, prepend=before) < 0,
                "comes after a higher one: sort the file by document",
            ),
        )
        for what, values, bad, why in checks:
            if bad.any():
                row = int(np.argmax(bad))
                raise DataError(f"{self.file.url}, line {line + row}: the {what} {values[row]} {why}")


def _cuts(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut documents into runs of about BATCH_TOKENS tokens."""
    if not len(lengths):
        return
    # An empty document costs something too.
    sums = np.cumsum(lengths + 1)
    first = 0
    while first < len(lengths):
        base = sums[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(sums, base + BATCH_TOKENS)))
        yield first, last
        first = last


def _parse(file: SourceFile, data: bytes, line: int, value: str) -> np.ndarray:
    """Return (3, N) int64 of lines of whole numbers."""
    columns = 2 if value == "pattern" else 3
    names = [str(i) for i in range(columns)]
    kinds = dict.fromkeys(names, pa.int64()) | ({"2": pa.float64()} if value == "real" else {})
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(delimiter=" ", ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(column_types=kinds, null_values=[]),
        )
        triples = [column.to_numpy() for column in table.columns]
    except pa.ArrowInvalid:
        triples = None
    if triples is None or (value == "real" and (triples[2] % 1).any()):
        triples = _parse_slowly(file, data, line, columns)
    ones = [np.ones(len(triples[0]), np.int64)] if value == "pattern" else []
    return np.stack([column.astype(np.int64) for column in triples + ones])


def _parse_slowly(file: SourceFile, data: bytes, line: int, columns: int) -> list[np.ndarray]:
    """Parse lines that stray from single spaces and plain digits, or say which line is wrong."""
    rows = []
    for number, text in enumerate(data.splitlines(), line):
        try:
            values = [_whole_number(f) for f in text.split()]
        except ValueError:
            values = []
        if len(values) != columns:
            shown = text[:40].decode("ascii", "replace")
            raise DataError(f"{file.url}, line {number}: {columns} whole numbers are needed, not {shown!r}")
        rows.append(values)
    return list(np.array(rows, np.int64).T)


def _whole_number(field: bytes) -> int:
    value = float(field)
    if not value.is_integer() or abs(value) > MOST:
        raise ValueError
    return int(value)


@dataclass(frozen=True)
class SVMLightReader(Reader):
    """svmlight / libsvm: a document a line, ``label column:count column:count ...``; labels are left aside."""

    kind = "SVMLight"

    ordered: ClassVar[bool] = False

    def partitions(self) -> Iterable[Partition]:
        """Byte ranges at line ends."""
        return line_partitions(self.files)

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the documents of the partition's lines; lines of comments are left out."""
        names = read_names(self.options.vocabulary_file)
        first = 0 if self.options.zero_based else 1
        for data, line in line_blocks(part.file, part):
            yield from self._parse(part.file, data, line, names, first)

    def _parse(self, file: SourceFile, data: bytes, line: int, names: pa.Array | None, first: int) -> Iterator[Batch]:
        keys, columns, counts, lengths = [], [], [], []
        for number, text in enumerate(data.split(b"\n"), line):
            fields = text.split(b"#", 1)[0].split()
            if not fields:
                continue
            pairs = [f.split(b":") for f in fields[1:] if not f.startswith(b"qid:")]
            where = f"{file.url}, line {number}"
            try:
                found = {_whole_number(c): _whole_number(v) for c, v in pairs}
            except ValueError:
                raise DataError(
                    f"{where}: needs 'label column:count ...' with whole counts, not {text[:40]!r}"
                ) from None
            self._check(found, names, first, where)
            keys.append(number)
            columns += sorted(found)
            counts += [found[c] for c in sorted(found)]
            lengths.append(sum(found.values()))
        shift = first if names is not None else 0
        tokens = np.repeat(np.array(columns, np.int64) - shift, np.array(counts, np.int64))
        labels = pa.array([f"{file.name}:{k}" for k in keys], pa.string())
        doc_ptr = np.r_[0, np.cumsum(np.array(lengths, np.int64))]
        for a, b in _cuts(np.diff(doc_ptr)):
            yield Batch(labels[a:b], Bag(doc_ptr[a : b + 1] - doc_ptr[a], tokens[doc_ptr[a] : doc_ptr[b]], names))

    def _check(self, found: dict[int, int], names: pa.Array | None, first: int, where: str) -> None:
        for column, count in found.items():
            if count < 1:
                raise DataError(f"{where}: the count {count} of column {column} is not 1 or more")
            if column < first or (names is not None and column >= len(names) + first):
                last = f"..{len(names) + first - 1}" if names is not None else " or more"
                raise DataError(f"{where}: the column {column} is not {first}{last} (zero_based={not first})")


class MatrixReader(Reader):
    """A sparse or dense matrix of counts in memory: a row is a document, numbered from 0."""

    kind = "Matrix"

    ordered = False
    repeatable = False

    def __init__(self, matrix: Any, names: Sequence[str] | None, options: ReadOptions):
        super().__init__((), options)
        rows = scipy.sparse.csr_matrix(matrix)
        if names is not None and len(names) != rows.shape[1]:
            raise DataError(f"the matrix has {rows.shape[1]} columns, the vocabulary {len(names)} words")
        object.__setattr__(self, "matrix", rows)
        object.__setattr__(self, "names", None if names is None else check_names(list(names), "vocabulary"))

    def partitions(self) -> Iterable[Partition]:
        """One: the matrix does not travel."""
        return [Partition(SourceFile("matrix", "", 0, ""), first=0)]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows in batches of bounded size."""
        matrix = self.matrix  # type: ignore[attr-defined]
        counts = _counts(matrix)
        sums = np.r_[0, np.cumsum(counts)]
        ptr = sums[matrix.indptr]
        for first, last in _cuts(np.diff(ptr)):
            lo, hi = matrix.indptr[first], matrix.indptr[last]
            columns = np.repeat(matrix.indices[lo:hi].astype(np.int64), counts[lo:hi])
            keys = pa.array(np.arange(first, last)).cast(pa.string())
            yield Batch(keys, Bag(ptr[first : last + 1] - ptr[first], columns, self.names))  # type: ignore[attr-defined]

    def describe(self) -> list[list[Any]]:
        """Nothing that could be compared."""
        return [["matrix in memory"]]


def _counts(matrix: scipy.sparse.csr_matrix) -> np.ndarray:
    """Return the entries as whole counts; raise DataError, with the row, for one that is not 0 or more."""
    bad = ~(matrix.data >= 0) | (matrix.data % 1 != 0)
    if bad.any():
        entry = int(np.argmax(bad))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise DataError(f"matrix, row {row}: the entry {matrix.data[entry]} is not a count (0, 1, 2, ...)")
    return matrix.data.astype(np.int64)
