"""What a reader is, and the readers of plain text: one document a line, a folder of files, what is in memory already.

A reader cuts a source into partitions and reads each on its own, in batches of bounded size; `open_source` picks one.
"""

import codecs
import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ..stores.store import DataError
from .source import (
    BATCH_BYTES,
    MAX_PARTITIONS,
    PARTITION_BYTES,
    Batch,
    Partition,
    ReadOptions,
    SourceFile,
    as_text,
    clean,
    line_blocks,
    open_file,
    read_some,
    row_keys,
    token_lists,
)


@dataclass(frozen=True)
class Reader(ABC):
    """A source of documents. It travels with every task, so it holds names and numbers only."""

    files: tuple[SourceFile, ...]
    options: ReadOptions
    #: Recorded in corpus.json, where it tells readers of the same files from each other. Never change a value.
    kind: ClassVar[str]
    #: Whether tokens come in the order of a text (False: a bag of words).
    ordered: ClassVar[bool] = True
    #: Whether a partition can be read again: False for what stands in memory.
    repeatable: ClassVar[bool] = True

    @abstractmethod
    def partitions(self) -> Iterable[Partition]:
        """Cut the source; what a partition's numbers mean is the reader's business."""

    @abstractmethod
    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the partition's documents in order; raise DataError that names file and row or line."""

    def describe(self) -> list[list[Any]]:
        """Return what identifies the source's content: name, size and time of change of each file."""
        return [[f.url, f.size, f.modified] for f in self.files]

    def only(self, files: Iterable[SourceFile]) -> "Reader":
        """Return the reader of some of the files, whose documents keep the keys that they have among all."""
        fewer = copy.copy(self)
        object.__setattr__(fewer, "files", tuple(files))
        return fewer

    def for_tasks(self) -> "Reader":
        """Return this reader without its files: a partition names its own, tasks need not carry the names of all."""
        return self.only(())


class LineBasedReader(Reader):
    """Base of formats where lines stand on their own: large files are cut into byte ranges at line ends."""

    def partitions(self) -> Iterable[Partition]:
        """Ranges of about PARTITION_BYTES; a packed file is one partition."""
        return line_partitions(self.files)

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the documents of the partition's lines."""
        for data, line in line_blocks(part.file, part):
            yield self.parse(part.file, data, line)

    @abstractmethod
    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return the documents of whole lines, the first of which is number ``line`` of the file."""


def line_partitions(files: Iterable[SourceFile]) -> Iterator[Partition]:
    """Cut files of lines into byte ranges of about PARTITION_BYTES; a packed file is one partition."""
    files = list(files)
    size = max(PARTITION_BYTES, sum(f.size for f in files) // MAX_PARTITIONS)
    for file in files:
        if file.compression or file.size <= size * 3 // 2:
            yield Partition(file)
        else:
            yield from _ranges(file, size)


def _ranges(file: SourceFile, size: int) -> Iterator[Partition]:
    """Cut a file into byte ranges; lines are counted on the way, so that each range knows its first line's number."""
    first, counted = 1, 0
    with open_file(file) as stream:
        for start in range(0, file.size, size):
            # A range begins after the line end at or after start - 1.
            target = max(0, start - 1)
            while counted < target:
                block = stream.read(min(BATCH_BYTES, target - counted))
                first += block.count(b"\n")
                counted += len(block)
            yield Partition(file, start, start + size, first + (start > 0))


class LinesReader(LineBasedReader):
    """One document a line."""

    kind = "Lines"

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return a document for each line, empty ones too."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if b"\r" in data:
            lines = [one.removesuffix(b"\r") for one in lines]
        texts = as_text(pa.array(lines, pa.large_binary()), self.options, lambda row: f"{file.url}, line {line + row}")
        return Batch(row_keys(file.name, line, len(lines)), texts)


class TextFilesReader(Reader):
    """Each file is a document; its key is its path below the folder."""

    kind = "TextFiles"

    def partitions(self) -> Iterable[Partition]:
        """Consecutive files of about PARTITION_BYTES."""
        limit = max(PARTITION_BYTES, sum(f.size for f in self.files) // MAX_PARTITIONS)
        start, size = 0, 0
        for number, file in enumerate(self.files, 1):
            size += file.size
            if size >= limit or number == len(self.files):
                yield Partition(self.files[start], more=self.files[start + 1 : number])
                start, size = number, 0

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the files' whole content."""
        waiting: list[tuple[SourceFile, bytes]] = []
        size = 0
        for file in (part.file, *part.more):
            with open_file(file) as stream:
                waiting.append((file, read_some(stream, -1, file).removeprefix(codecs.BOM_UTF8)))
            size += len(waiting[-1][1])
            if size >= BATCH_BYTES:
                yield self._batch(waiting)
                waiting, size = [], 0
        if waiting:
            yield self._batch(waiting)

    def _batch(self, read: list[tuple[SourceFile, bytes]]) -> Batch:
        content = pa.array([data for _, data in read], pa.large_binary())
        return Batch(
            pa.array([file.name for file, _ in read], pa.string()),
            as_text(content, self.options, lambda row: f"{read[row][0].url}, row 1"),
        )


class DocumentsReader(Reader):
    """An iterable of strings or of token lists; each is numbered from 0. It is read once, batch by batch."""

    kind = "Documents"

    repeatable = False

    def __init__(self, documents: Iterable[Any], options: ReadOptions):
        super().__init__((), options)
        object.__setattr__(self, "documents", documents)

    def partitions(self) -> Iterable[Partition]:
        """One: the iterable may not be read twice."""
        return [Partition(SourceFile("documents", "", 0, ""), first=0)]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the documents in batches of bounded size."""
        first = 0
        for documents in _bounded(self.documents):  # type: ignore[attr-defined]
            yield _in_memory(documents, self.options, first)
            first += len(documents)

    def describe(self) -> list[list[Any]]:
        """Nothing that could be compared."""
        return [["documents in memory"]]


def _bounded(documents: Iterable[Any]) -> Iterator[list[Any]]:
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        # A token takes about eight bytes of text.
        size += (1 if isinstance(document, str) else 8) * (len(document) if hasattr(document, "__len__") else 0)
        if size >= BATCH_BYTES or len(batch) >= 1 << 16:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _in_memory(documents: list[Any], options: ReadOptions, first: int) -> Batch:
    is_text = isinstance(next((d for d in documents if d is not None), ""), str)
    for row, document in enumerate(documents):
        if document is not None and not _is_document(document, is_text):
            raise DataError(
                f"document {first + row} is {str(document)[:40]!r}: all must be strings, or all lists of strings"
            )
    try:
        values = pa.array(documents, pa.large_string() if is_text else pa.large_list(pa.large_string()))
    except UnicodeEncodeError as error:
        if options.encoding_errors == "strict":
            raise DataError(
                f"documents {first} to {first + len(documents) - 1}: {error.object[error.start]!r} in one of them "
                f"cannot be encoded; pass encoding_errors='replace' to go on"
            ) from None
        return _in_memory([clean(d) for d in documents], options, first)
    check = as_text if is_text else token_lists
    keys = pa.array([str(i) for i in range(first, first + len(documents))], pa.string())
    return Batch(keys, check(values, options, lambda row: f"document {first + row}"))


def _is_document(document: Any, is_text: bool) -> bool:
    if is_text or isinstance(document, str):
        return is_text and isinstance(document, str)
    return isinstance(document, Iterable) and all(isinstance(token, str) for token in document)
