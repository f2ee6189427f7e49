"""A chunk of a corpus: consecutive documents, stored in document order and in word order; and tables of chunks."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import scipy  # it loads scipy.sparse at the first use, because that takes a tenth of the start of a command

from ..errors import DataError
from .store import Store

#: Tokens of a group of documents. The topic counts of a group's documents stay in a core's cache while its tokens are
#: visited in word order.
GROUP_TOKENS = 1 << 20


class Chunk(NamedTuple):
    """Consecutive documents in both orders. D documents, T tokens, G groups, S segments.

    Document order is the order of the text. Word order (PDOW: partition by document, order by word) cuts the documents
    into G consecutive groups, and orders the tokens of a group by word and then by document. A segment is the tokens
    of one word in one group: segment s has the tokens ``word_ptr[s]:word_ptr[s + 1]`` of word order, all of the word
    ``word_ids[s]``. Group g has the segments ``group_ptr[g]:group_ptr[g + 1]``, with ascending words.
    """

    number: int
    doc_ptr: np.ndarray  # (D + 1,) int64: document d has the tokens doc_ptr[d]:doc_ptr[d + 1] of document order
    words: np.ndarray  # (T,) uint32: word ids in document order; in a bag of words they ascend in each document
    group_ptr: np.ndarray  # (G + 1,) int64: segments of each group
    word_ids: np.ndarray  # (S,) uint32: the word of each segment
    word_ptr: np.ndarray  # (S + 1,) int64: tokens of each segment, in word order
    docs: np.ndarray  # (T,) uint32: document of each token, counted from 0 in this chunk, in word order
    word_to_doc_order: np.ndarray  # (T,) uint32: token i of word order is token word_to_doc_order[i] of document order

    @property
    def n_documents(self) -> int:
        """Number of documents, empty ones included."""
        return len(self.doc_ptr) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.doc_ptr[-1])

    def completed(self) -> "Chunk":
        """Return the chunk with ``words`` and ``docs``, derived from the other arrays if they were not read."""
        words = self.words
        if len(words) < self.n_tokens:
            words = np.empty(self.n_tokens, np.uint32)
            words[self.word_to_doc_order] = np.repeat(self.word_ids, np.diff(self.word_ptr))
        docs = self.docs
        if len(docs) < self.n_tokens:
            documents = np.arange(self.n_documents, dtype=np.uint32)
            docs = np.repeat(documents, np.diff(self.doc_ptr))[self.word_to_doc_order]
        return self._replace(words=words, docs=docs)

    def counts(self, n_words: int) -> "scipy.sparse.csr_matrix":
        """Return how often each word occurs in each document: (D, n_words) int32."""
        ones = np.ones(self.n_tokens, np.int32)
        shape = (self.n_documents, n_words)
        matrix = scipy.sparse.csr_matrix((ones, self.words.astype(np.int32), self.doc_ptr), shape=shape)
        matrix.sum_duplicates()
        return matrix


class _WordOrder(NamedTuple):
    """The tokens of one group in word order. N tokens, W distinct words."""

    words: np.ndarray  # (W,): the distinct words, ascending
    first_tokens: np.ndarray  # (W,) int64: the first token of each word
    docs: np.ndarray  # (N,) int32: document of each token, counted from 0 in the group
    positions: np.ndarray  # (N,) int32: position of each token in the group's document order


def make_chunk(index: int, doc_ptr: np.ndarray, words: np.ndarray, group_tokens: int = GROUP_TOKENS) -> Chunk:
    """Make a chunk of documents: ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order."""
    doc_ptr = np.ascontiguousarray(doc_ptr, np.int64)
    words = np.ascontiguousarray(words, np.uint32)
    word_to_doc_order = np.empty(len(words), np.uint32)
    docs = np.empty(len(words), np.uint32)
    word_ids = [np.empty(0, np.uint32)]
    first_tokens = [np.empty(0, np.int64)]
    group_ptr = [0]
    bounds = _group_bounds(doc_ptr, group_tokens)
    for first, stop in zip(bounds[:-1], bounds[1:], strict=True):
        start, end = doc_ptr[first], doc_ptr[stop]
        order = _sort_by_word(doc_ptr[first : stop + 1] - start, words[start:end])
        # Positions and documents of a group become those of the chunk.
        np.add(order.positions, start, out=word_to_doc_order[start:end], casting="unsafe")
        np.add(order.docs, first, out=docs[start:end], casting="unsafe")
        word_ids.append(order.words)
        first_tokens.append(order.first_tokens + start)
        group_ptr.append(group_ptr[-1] + len(order.words))
    return Chunk(
        number=index,
        doc_ptr=doc_ptr,
        words=words,
        group_ptr=np.array(group_ptr, np.int64),
        word_ids=np.concatenate(word_ids).astype(np.uint32),
        word_ptr=np.append(np.concatenate(first_tokens), len(words)).astype(np.int64),
        docs=docs,
        word_to_doc_order=word_to_doc_order,
    )


def _sort_by_word(doc_ptr: np.ndarray, words: np.ndarray) -> _WordOrder:
    """Order the tokens of a group by word, then by position."""
    distinct = None
    # The counting sort below takes time and memory in proportion to the largest word id.
    if len(words) and int(words.max()) > 4 * len(words):
        distinct, words = np.unique(words, return_inverse=True)
    n_columns = int(words.max()) + 1 if len(words) else 0
    positions = np.arange(len(words), dtype=np.int32)
    # SciPy converts rows to columns by a counting sort, which compares nothing and keeps the order within a column.
    rows = scipy.sparse.csr_array((positions, words.astype(np.int32), doc_ptr), shape=(len(doc_ptr) - 1, n_columns))
    columns = rows.tocsc()
    used = np.flatnonzero(np.diff(columns.indptr))
    first_tokens = columns.indptr[used].astype(np.int64)
    used_words = used if distinct is None else distinct[used]
    return _WordOrder(used_words, first_tokens, columns.indices, columns.data)


def _group_bounds(doc_ptr: np.ndarray, group_tokens: int) -> np.ndarray:
    """Cut D documents into groups of about ``group_tokens`` tokens: return the first document of each, then D."""
    n_documents = len(doc_ptr) - 1
    n_tokens = int(doc_ptr[-1])
    n_groups = max(1, round(n_tokens / group_tokens))
    token_bounds = np.arange(1, n_groups) * (n_tokens / n_groups)
    inner = np.searchsorted(doc_ptr, token_bounds)
    return np.unique(np.concatenate([[0], np.clip(inner, 0, n_documents), [n_documents]]))


# --- tables of chunks ---

# They have one row of whole numbers per chunk, and are read when they are needed: a store may have a hundred thousand
# chunks, so its JSON file has only their number.

#: The table of a store that has one part.
TABLE = "chunks.parquet"

#: A dataclass with one whole number per column; functions take its class as ``kind``.
Row = TypeVar("Row")


def write_chunk_table(store: Store, name: str, kind: Callable[..., Row], rows: Sequence[Row]) -> None:
    """Write the rows, of class ``kind``, to a Parquet file."""
    columns = _columns(kind)
    numbers = [[getattr(row, column) for row in rows] for column in columns]
    store.write_parquet(name, pa.table({c: np.array(n, np.int64) for c, n in zip(columns, numbers, strict=True)}))


def read_chunk_table(store: Store, name: str, kind: Callable[..., Row], count: int) -> list[Row]:
    """Return the rows of a table; raise DataError if it does not have ``count`` rows of the class ``kind``."""
    table = store.read_parquet(name)
    if table.num_rows != count or table.column_names != _columns(kind):
        raise DataError(f"{store.url}/{name}: not the table of this store; restore it or write the store again")
    return [kind(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _columns(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]
