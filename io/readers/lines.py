"""Readers of plain text: one document per line, and one document per file."""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from .batches import BATCH_BYTES, Batch, as_text, bad_line, halve_columns, parse_good_lines, row_keys
from .reader import LineBasedReader, Reader, partition_bytes
from .source import Partition, SourceFile, open_file, read_some


class LinesReader(LineBasedReader):
    """Plain text, of which every line is one document. An empty line is a document without words."""

    kind = "Lines"

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return one document per line."""
        lines = data.split(b"\n")
        # What follows the last newline is a line only if it is not empty.
        if not lines[-1]:
            lines.pop()
        if b"\r" in data:
            lines = [one.removesuffix(b"\r") for one in lines]
        texts = as_text(pa.array(lines, pa.large_binary()), self.options, lambda row: f"{file.url}, line {line + row}")
        return Batch(row_keys(file.name, line, len(lines)), texts)


class MalletReader(LineBasedReader):
    """Lines of a name, a label and a text, as MALLET's import-file reads them. The name is the key."""

    kind = "Mallet"
    #: That of import-file: blanks and commas separate the three.
    _LINE = re.compile(rb"(\S*)[\s,]*(\S*)[\s,]*(.*)")

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return one document per line that is not blank."""
        names, texts, lines = [], [], []
        for number, one in enumerate(data.split(b"\n"), line):
            found = self._LINE.match(one.strip())
            if found is not None and found[1]:
                names.append(found[1])
                texts.append(found[3])
                lines.append(number)
        row_name = lambda row: f"{file.url}, line {lines[row]}"  # noqa: E731
        keys = as_text(pa.array(names, pa.large_binary()), self.options, row_name)
        return Batch(keys.cast(pa.string()), as_text(pa.array(texts, pa.large_binary()), self.options, row_name))


class _Files(NamedTuple):
    """Some files, and the content of each."""

    files: list[SourceFile]
    contents: list[bytes]


class TextFilesReader(Reader):
    """Every file is one document. The document's key is the path of the file below the folder that is read."""

    kind = "TextFiles"

    def partitions(self) -> Iterable[Partition]:
        """Group consecutive files into partitions of about PARTITION_BYTES."""
        limit = partition_bytes(self.files)
        first = 0
        size = 0
        for stop, file in enumerate(self.files, 1):
            size += file.size
            if size >= limit or stop == len(self.files):
                yield Partition(self.files[first], more_files=self.files[first + 1 : stop])
                first = stop
                size = 0

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the files' whole contents."""
        files = _Files([], [])
        size = 0
        for file in (partition.file, *partition.more_files):
            with open_file(file) as stream:
                content = read_some(stream, -1, file).removeprefix(codecs.BOM_UTF8)
            files.files.append(file)
            files.contents.append(content)
            size += len(content)
            # Files are read whole, so a batch exceeds BATCH_BYTES by at most the size of its last file.
            if size >= BATCH_BYTES:
                yield self._batch(files)
                files = _Files([], [])
                size = 0
        if files.files:
            yield self._batch(files)

    def _batch(self, files: _Files) -> Batch:
        # Here, a bad line is a whole file.
        return parse_good_lines(
            files,
            parse=self._parse,
            halve=halve_columns,
            describe=lambda one, error: bad_line(one.files[0].stored_url, None, error, one.contents[0]),
            options=self.options,
        )

    def _parse(self, documents: _Files) -> Batch:
        files, contents = documents
        keys = pa.array([file.name for file in files], pa.string())
        values = pa.array(contents, pa.large_binary())
        return Batch(keys, as_text(values, self.options, lambda row: f"{files[row].url}, row 1"))
