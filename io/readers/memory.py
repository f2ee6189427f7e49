"""Reader of documents in memory: strings, or lists of tokens."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..data import is_list_of_words
from ..errors import DataError, DataWarning
from ..matrices.memory import is_missing
from .batches import BATCH_BYTES, Batch, ReadOptions, as_text, as_token_lists, number_keys, replace_surrogates
from .reader import InMemoryReader
from .source import Partition

#: Most documents of a batch.
MAX_DOCUMENTS = 1 << 16
#: Bytes that a token counts for, when the size of a batch of token lists is estimated.
TOKEN_BYTES = 8
#: Words of a string that is surely a text, and no name of several words.
TEXT_WORDS = 5

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
