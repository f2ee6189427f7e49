"""Readers of svmlight (libsvm) files, and of LDA-C files, the format of the data sets of Blei's programs."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from ..errors import DataError
from ..messages import line_start
from .bags import bag_batches, read_names, whole_number
from .batches import Batch
from .reader import Reader, line_partitions
from .source import Partition, SourceFile, line_blocks

#: What dump_svmlight_file of scikit-learn writes at the start.
_COLUMNS = re.compile(rb"# Column indices are (zero|one)-based")


class SVMLightReader(Reader):
    """One document per line, as ``label column:count column:count ...``. Labels and comments are ignored."""

    kind = "SVMLight"
    is_ordered = False
    #: What a line begins with, for messages.
    _first_field = "label"

    def partitions(self) -> Iterable[Partition]:
        """Cut files into byte ranges; a compressed file is one partition."""
        return line_partitions(self.files)

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the documents of the lines that begin in the partition."""
        names = read_names(self.options.vocabulary_file)
        for data, line in line_blocks(partition.file, partition):
            yield from self._batches(partition.file, data, line, names)

    def _batches(self, file: SourceFile, data: bytes, first_line: int, names: pa.Array | None) -> Iterator[Batch]:
        lines: list[int] = []
        columns: list[int] = []
        counts: list[int] = []
        entry_ptr = [0]
        for line, text in enumerate(data.split(b"\n"), first_line):
            # Without label and comment.
            fields = text.split(b"#", 1)[0].split()
            if not fields:
                self._check_comment(text, f"{file.url}, line {line}")
                continue
            # Where labels are sets, such as "1,3", that of a document may be empty.
            pairs = fields[1:] if b":" not in fields[0] else fields
            found = self._parse_line(pairs, text, f"{file.url}, line {line}", names)
            # Some programs write zeros too.
            found = {column: 1 if self.options.binarize else count for column, count in found.items() if count}
            lines.append(line)
            columns += sorted(found)
            counts += [found[column] for column in sorted(found)]
            entry_ptr.append(len(columns))
        # Words of a vocabulary file are numbered from 0; without one, a column's word is its number in the file.
        shift = self._first_column if names is not None else 0
        all_columns = np.array(columns, np.int64) - shift
        all_counts = np.array(counts, np.int64)
        keys = pa.array([f"{file.name}:{line}" for line in lines], pa.string())
        return bag_batches(
            keys, entry_ptr, all_columns, all_counts, names, lambda row: f"{file.url}, line {lines[row]}"
        )

    def _check_comment(self, text: bytes, where: str) -> None:
        """Raise DataError if a comment of scikit-learn says that columns count from another number."""
        said = _COLUMNS.search(text)
        is_zero_based = self._first_column == 0
        if said and (said[1] == b"zero") != is_zero_based:
            raise DataError(f"{where}: {line_start(text)!r}; read it with zero_based={not is_zero_based}")

    @property
    def _first_column(self) -> int:
        return 0 if self.options.zero_based else 1

    def _parse_line(self, fields: list[bytes], text: bytes, where: str, names: pa.Array | None) -> dict[int, int]:
        """Return the counts of a line by column; raise DataError for a bad one."""
        # A field qid:7 assigns the line to a query, which matters for ranking only.
        pairs = [field.split(b":") for field in fields if not field.startswith(b"qid:")]
        try:
            found = {whole_number(column): whole_number(count) for column, count in pairs}
        except ValueError:
            raise DataError(
                f"{where}: needs '{self._first_field} column:count ...' with whole counts, not {line_start(text)!r}"
            ) from None
        if len(found) < len(pairs):
            column, times = Counter(whole_number(column) for column, _ in pairs).most_common(1)[0]
            raise DataError(f"{where}: column {column} occurs {times} times; add up its counts")
        self._check_first_field(text.split()[0], len(found), where)
        first = self._first_column
        last = None if names is None else first + len(names) - 1
        for column, count in found.items():
            if count < 0:
                raise DataError(f"{where}: the count {count} of column {column} is negative")
            if column < first or (last is not None and column > last):
                allowed = f"{first} or more" if last is None else f"{first}..{last}"
                raise DataError(f"{where}: the column {column} is not {allowed} (zero_based={not first})")
        return found

    def _check_first_field(self, field: bytes, n_columns: int, where: str) -> None:
        """Raise DataError if what a line begins with does not fit its columns. Every label fits."""


class LDACReader(SVMLightReader):
    """One document per line, as ``N word:count word:count ...`` with N pairs. Words are numbered from 0."""

    kind = "LDAC"
    _first_field = "N"
    _first_column = 0

    def _check_first_field(self, field: bytes, n_columns: int, where: str) -> None:
        if field != str(n_columns).encode():
            raise DataError(
                f"{where}: the line has {n_columns} different words, but begins with {line_start(field)!r}; an LDA-C "
                f"line begins with the number of its word:count pairs"
            )
