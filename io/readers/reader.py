"""Base classes of readers. A reader cuts a source into partitions, and reads each one in batches of bounded size."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from ..data import is_list_of_words
from ..errors import DataError, DataWarning
from ..matrices.memory import is_missing
from .batches import (
    BATCH_BYTES,
    Batch,
    ReadOptions,
    as_text,
    as_token_lists,
    bad_line,
    check_kept_names,
    halve_block,
    number_keys,
    parse_good_lines,
    replace_surrogates,
)
from .source import Partition, SourceFile, line_blocks, open_file

#: Bytes of a partition. A partition is the unit of work that is repeated after an interruption.
PARTITION_BYTES = 16 << 20
#: Most partitions of a source, about: more tasks would slow down the scheduler.
MAX_PARTITIONS = 4096
#: Most documents of a batch.
MAX_DOCUMENTS = 1 << 16
#: Bytes that a token counts for, when the size of a batch of token lists is estimated.
TOKEN_BYTES = 8
#: Words of a string that is surely a text, and no name of several words.
TEXT_WORDS = 5

#: A document: its text, its tokens, or None.
Document = str | Iterable[str] | None


class Reader(ABC):
    """A source of documents in one format. Readers are sent to workers with every task, so they hold no data.

    Readers of data in memory are the exception; they run in the client's process.
    """

    #: Recorded in corpus.json, where it distinguishes readers of the same files. Never change a value.
    kind: ClassVar[str]
    #: Whether tokens are in the order of a text. If not, documents are bags of words.
    is_ordered: ClassVar[bool] = True
    #: Whether a partition can be read again, by any process. False for data in memory.
    is_repeatable: ClassVar[bool] = True

    def __init__(self, files: Sequence[SourceFile], options: ReadOptions):
        check_kept_names(options.keep)
        self.files = tuple(files)
        self.options = options

    def partitions(self) -> Iterable[Partition]:
        """Cut the source into partitions, in the order of the documents: by default, one for each file."""
        return [Partition(file) for file in self.files]

    @abstractmethod
    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the documents of a partition in order; raise DataError with file and row for bad data."""

    def describe(self) -> list[list[Any]]:
        """Return what identifies the content of the source: name, size and version of each file."""
        return [[file.stored_url, file.size, file.modified] for file in self.files]

    def column_names(self) -> list[str] | None:
        """Return the names of the columns if the source is a matrix whose columns have names, else None."""
        return None

    def field_names(self) -> list[str]:
        """Return the names of the fields of the first documents, for messages; none if documents have no fields."""
        return []

    def only(self, files: Iterable[SourceFile]) -> Self:
        """Return the reader of some of these files. Their documents have the same keys as before."""
        fewer = copy.copy(self)
        fewer.files = tuple(files)
        return fewer

    def for_tasks(self) -> Self:
        """Return this reader without its files: a partition names its own, so tasks stay small."""
        return self.only(())


class InMemoryReader(Reader):
    """Base of readers of data in memory, which is read once and not sent to workers."""

    is_repeatable = False
    #: What the data is, such as "table".
    what: ClassVar[str]

    def __init__(self, options: ReadOptions):
        super().__init__((), options)

    def partitions(self) -> Iterable[Partition]:
        """Return one partition for everything, since data in memory is read by one process."""
        return [Partition(SourceFile(self.what, "", 0, ""))]

    def describe(self) -> list[list[Any]]:
        """Return a fixed text: data in memory has no version that could be compared."""
        return [[f"{self.what} in memory"]]


class LineBasedReader(Reader):
    """Base of formats in which every line is a document. Large files are cut into byte ranges."""

    def partitions(self) -> Iterable[Partition]:
        """Cut files into ranges of about PARTITION_BYTES, if their lines can be found without those before."""
        return line_partitions(self.files)

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the documents of the lines that begin in the partition."""
        for data, line in line_blocks(partition.file, partition):
            yield parse_good_lines(
                (data, line),
                parse=lambda block: self.parse(partition.file, *block),
                halve=halve_block,
                describe=lambda block, error: bad_line(partition.file.stored_url, block[1], error, block[0]),
                options=self.options,
            )

    @abstractmethod
    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return the documents of whole lines, the first of which is number ``line`` of the file."""


def line_partitions(files: Sequence[SourceFile]) -> Iterator[Partition]:
    """Cut files of lines into byte ranges of about PARTITION_BYTES; others are one partition each."""
    size = partition_bytes(files)
    for file in files:
        # A file that is a little larger is not worth a second, small partition.
        if not file.can_be_cut or file.size <= size * 3 // 2:
            yield Partition(file)
        else:
            yield from _byte_ranges(file, size)


def partition_bytes(files: Sequence[SourceFile]) -> int:
    """Return the size of a partition: PARTITION_BYTES, or more if there would be more than MAX_PARTITIONS."""
    return max(PARTITION_BYTES, sum(file.size for file in files) // MAX_PARTITIONS)


def _byte_ranges(file: SourceFile, size: int) -> Iterator[Partition]:
    """Cut a file into byte ranges. The file is read once to count lines, so that errors can name the line."""
    first_line = 1
    counted = 0
    with open_file(file) as stream:
        for start in range(0, file.size, size):
            # A range begins after the first newline at or after the byte start - 1.
            target = max(0, start - 1)
            while counted < target:
                block = stream.read(min(BATCH_BYTES, target - counted))
                if not block:
                    raise DataError(
                        f"{file.url}: has {counted:,} bytes, and {file.size:,} when it was listed; wait until no "
                        f"program changes the file, and run the command again"
                    )
                first_line += block.count(b"\n")
                counted += len(block)
            yield Partition(file, start, start + size, first_line + (start > 0))


# --- documents in memory ---


class DocumentsReader(InMemoryReader):
    """An iterable of strings or of token lists, numbered from 0. It is read once, batch by batch."""

    kind = "Documents"
    what = "documents"

    def __init__(self, documents: Iterable[Document], options: ReadOptions):
        super().__init__(options)
        self.documents = documents

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the documents."""
        first = 0
        for documents in _bounded(self.documents):
            yield _documents_batch(documents, self.options, first)
            first += len(documents)


def _bounded(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Cut documents into lists of about BATCH_BYTES of text, and of at most MAX_DOCUMENTS."""
    batch: list[Document] = []
    size = 0
    for given in documents:
        # The words of a document may come from a generator, which can be read once.
        document = given
        if is_list_of_words(given) and not isinstance(given, Sequence | np.ndarray):
            document = list(given)
        batch.append(document)
        size += _estimated_bytes(document)
        if size >= BATCH_BYTES or len(batch) >= MAX_DOCUMENTS:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _estimated_bytes(document: Document) -> int:
    if isinstance(document, str):
        return len(document)
    if isinstance(document, Sequence | np.ndarray):
        return TOKEN_BYTES * len(document)
    return 0


def _documents_batch(documents: Sequence[Document], options: ReadOptions, first: int) -> Batch:
    """Return documents, the first of which has number ``first``, as a batch."""
    documents = [None if is_missing(document) else document for document in documents]
    # The first document that is not missing shows whether documents are texts or token lists.
    are_texts = isinstance(next((d for d in documents if d is not None), ""), str)
    for row, document in enumerate(documents, first):
        if document is not None and not _is_document(document, are_texts):
            raise DataError(
                f"document {row} is {str(document)[:40]!r}: all documents must be strings, or all lists of strings"
            )
    # What is wrong with later documents only is no table. So the answer does not depend on the size of batches.
    if not are_texts and first == 0:
        _check_for_rows(documents)
    if options.encoding_errors == "replace":
        documents = [_without_surrogates(document) for document in documents]
    value_type = pa.large_string() if are_texts else pa.large_list(pa.large_string())
    try:
        values = pa.array(documents, value_type)
    except UnicodeEncodeError as error:
        raise DataError(
            f"documents {first} to {first + len(documents) - 1}: {error.object[error.start]!r} in one of them cannot "
            f"be encoded as UTF-8; pass encoding_errors='replace' to replace such characters"
        ) from None
    convert = as_text if are_texts else as_token_lists
    return Batch(number_keys(first, len(documents)), convert(values, options, lambda row: f"document {first + row}"))


def _check_for_rows(documents: Sequence[Any]) -> None:
    """Warn if documents may be the rows of a table, in which a whole text would become one word.

    They have the same length, and the same place always has several words, which may also be a name such as "new york".
    Raises DataError if it always has as many words as a text.
    """
    rows = [list(document) for document in documents if document is not None]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        return
    for place, example in enumerate(rows[0]):
        fewest = min(len(row[place].split()) for row in rows)
        message = (
            f"rows with a text, such as {example!r:.40}, which would become one word: pass the texts alone, "
            f"[row[{place}] for row in rows]"
        )
        if fewest >= TEXT_WORDS:
            raise DataError(f"the documents are {message}")
        if fewest > 1 and len(rows) > 1:
            warnings.warn(f"the documents may be {message}", DataWarning, stacklevel=2)
            return


def _is_document(document: Any, are_texts: bool) -> bool:
    if are_texts:
        return isinstance(document, str)
    return is_list_of_words(document) and all(isinstance(token, str) for token in document)


def _without_surrogates(document: Any) -> Any:
    if document is None:
        return None
    if isinstance(document, str):
        return replace_surrogates(document)
    return [replace_surrogates(token) for token in document]
