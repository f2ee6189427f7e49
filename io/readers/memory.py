"""Reader of documents in memory: strings, or lists of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..data import is_list_of_words
from ..errors import DataError
from ..matrices.memory import is_missing
from .batches import BATCH_BYTES, Batch, ReadOptions, as_text, as_token_lists, number_keys, replace_surrogates
from .reader import InMemoryReader
from .source import Partition

#: Most documents of a batch.
MAX_DOCUMENTS = 1 << 16
#: Bytes that a token counts for, when the size of a batch of token lists is estimated.
TOKEN_BYTES = 8

#: A document: its text, its tokens, or None.
Document = str | Iterable[str] | None


class DocumentsReader(InMemoryReader):
    """An iterable of strings or of token lists, numbered from 0. It is read once, batch by batch."""

    kind = "Documents"
    what = "documents"

    def __init__(self, documents: Iterable[Document], options: ReadOptions):
        super().__init__(options)
        self.documents = documents

    def read(self, part: Partition) -> Iterator[Batch]:
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
                f"{_hint_for_bag(document)}"
            )
    if not are_texts:
        _check_for_rows(documents, first)
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


def _check_for_rows(documents: Sequence[Any], first: int) -> None:
    """Raise DataError if documents are the rows of a table, whose texts would be taken for words.

    Each has one string, or is a tuple of the same length, and the same place always has several words.
    """
    rows = [document for document in documents if document is not None]
    length = len(rows[0]) if rows else 0
    are_tuples = all(isinstance(row, tuple) for row in rows)
    if not length or (len(rows) < 2 and not are_tuples) or any(len(row) != length for row in rows):
        return
    if length > 1 and not are_tuples:
        return
    for place in range(length):
        if all(len(row[place].split()) > 1 for row in rows):
            raise DataError(
                f"document {first} and those after it are rows with a text, such as {rows[0][place]!r:.40}, which "
                f"would become one word: pass the texts alone, [row[{place}] for row in rows]"
            )


def _hint_for_bag(document: Any) -> str:
    """Say how to convert gensim's bags of words, which are lists of pairs (word id, count)."""
    if isinstance(document, list) and document and isinstance(document[0], tuple):
        return "; make a matrix of gensim's bags of words: gensim.matutils.corpus2csc(bags).T"
    return ""


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
