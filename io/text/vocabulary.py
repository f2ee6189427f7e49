"""Vocabularies: counting words per partition, merging the counts in bounded memory, pruning and ranking."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse

from ..stores.store import DataError
from .stop_words import ENGLISH
from .tokens import Tokens

#: Ids are 32 bits wide.
MAX_WORDS = 1 << 32
#: The columns that a vocabulary has besides ``word``.
FREQUENCIES = ("term_frequency", "document_frequency")


@dataclass(frozen=True)
class VocabularyOptions:
    """Which words are kept. Names and meanings are scikit-learn's: a float is a share of the documents."""

    stop_words: str | tuple[str, ...] | None = None  # "english" or a list
    min_df: int | float = 1
    max_df: int | float = 1.0
    max_features: int | None = None


def count_table(words: pa.Array, term_frequency: np.ndarray, document_frequency: np.ndarray) -> pa.Table:
    """Return a table with the columns word, term_frequency and document_frequency."""
    columns = {"term_frequency": term_frequency, "document_frequency": document_frequency}
    return pa.table({"word": words} | {k: np.asarray(v, np.int64) for k, v in columns.items()})


def frequencies(tokens: Tokens, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return term and document frequency, each (W,) int64, over the documents where ``counted`` (D,) bool is True."""
    n_words, n_documents = len(tokens.words), len(tokens.doc_ptr) - 1
    keep = np.repeat(counted, np.diff(tokens.doc_ptr)) if not counted.all() else slice(None)
    ids = tokens.ids[keep]
    doc_ptr = np.r_[0, np.cumsum(np.diff(tokens.doc_ptr) * counted)]
    ones = np.broadcast_to(np.int8(1), len(ids)).copy()
    # The conversion is a counting sort by word that keeps documents in order.
    by_word = scipy.sparse.csr_matrix((ones, ids, doc_ptr), shape=(n_documents, n_words)).tocsc()
    repeated = np.zeros(max(2, len(ids) + 1), np.int64)
    if len(ids) > 1:
        np.cumsum(by_word.indices[1:] == by_word.indices[:-1], out=repeated[2:])
    term_frequency = np.diff(by_word.indptr).astype(np.int64)
    first, last = by_word.indptr[:-1], by_word.indptr[1:]
    within = repeated[np.maximum(last, 1)] - repeated[np.minimum(first + 1, len(ids))]
    return term_frequency, np.where(term_frequency > 0, term_frequency - within, 0)


class Lexicon:
    """Words with their counts, numbered in the order in which they were first added."""

    def __init__(self) -> None:
        self.words = pa.array([], pa.large_string())
        self.term_frequency = np.empty(0, np.int64)
        self.document_frequency = np.empty(0, np.int64)

    def add(self, words: pa.Array, term_frequency: np.ndarray, document_frequency: np.ndarray) -> np.ndarray:
        """Add the counts of words, new or already present; return the words' numbers: (n,) int32."""
        encoded = pa.concat_arrays([self.words, words]).dictionary_encode()
        numbers = encoded.indices.to_numpy()[len(self.words) :]
        self.words, size = encoded.dictionary, len(encoded.dictionary)
        self.term_frequency = _added(self.term_frequency, numbers, term_frequency, size)
        self.document_frequency = _added(self.document_frequency, numbers, document_frequency, size)
        return numbers

    def table(self) -> pa.Table:
        """Return the count table, in the order of the numbers."""
        return count_table(self.words, self.term_frequency, self.document_frequency)


def _added(counts: np.ndarray, numbers: np.ndarray, more: np.ndarray, size: int) -> np.ndarray:
    grown = np.zeros(size, np.int64)
    grown[: len(counts)] = counts
    np.add.at(grown, numbers, more)
    return grown


def bucket_of(words: pa.Array, buckets: int) -> np.ndarray:
    """Assign each word to a bucket by a hash of its bytes, the same on every machine: (W,) int64."""
    if buckets == 1 or not len(words):
        return np.zeros(len(words), np.int64)
    words = pa.concat_arrays([words.cast(pa.large_string())])
    _, offsets, data = words.buffers()
    ptr = np.frombuffer(offsets, np.int64)[: len(words) + 1]
    body = np.frombuffer(data, np.uint8)[: ptr[-1]].astype(np.uint64)
    place = (np.arange(len(body)) - np.repeat(ptr[:-1], np.diff(ptr))).astype(np.uint64)
    mixed = (body + np.uint64(1)) * (place * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03))
    sums = np.r_[np.uint64(0), np.cumsum(mixed, dtype=np.uint64)]
    hashed = sums[ptr[1:]] - sums[ptr[:-1]]
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        hashed = (hashed ^ (hashed >> np.uint64(shift))) * np.uint64(factor)
    return ((hashed >> np.uint64(33)) % np.uint64(buckets)).astype(np.int64)


def merge_counts(tables: Iterable[pa.Table], bound: int) -> pa.Table:
    """Add up count tables. Tables of up to ``bound`` bytes are collected and then added in one pass."""
    lexicon, waiting, size = Lexicon(), [], 0
    for table in tables:
        waiting.append(table)
        size += table.nbytes
        # Each addition is a pass over all words so far. So collect about as many bytes as these words take.
        if size > min(bound, max(1 << 20, lexicon.words.nbytes)):
            _add_tables(lexicon, waiting)
            waiting, size = [], 0
    _add_tables(lexicon, waiting)
    return lexicon.table()


def _add_tables(lexicon: Lexicon, tables: list[pa.Table]) -> None:
    if tables:
        joined = pa.concat_tables(tables)
        lexicon.add(words_of(joined), *(joined[k].to_numpy() for k in FREQUENCIES))


def check_limits(options: VocabularyOptions, documents: int) -> None:
    """Raise ValueError if max_df allows fewer of the ``documents`` documents than min_df requires."""
    low, high = _documents(options.min_df, documents), _documents(options.max_df, documents)
    if high < low and documents:
        raise ValueError(
            f"max_df={options.max_df} means fewer documents than min_df={options.min_df} ({high:g} < {low:g})"
        )


def prune(counts: pa.Table, options: VocabularyOptions, documents: int) -> pa.Table:
    """Keep the words that min_df, max_df and stop_words allow. ``documents`` is the number of documents counted."""
    low, high = _documents(options.min_df, documents), _documents(options.max_df, documents)
    df = counts["document_frequency"]
    kept = pc.and_(pc.greater_equal(df, max(low, 1)), pc.less_equal(df, high))
    stop = stop_list(options.stop_words)
    if stop:
        kept = pc.and_(kept, pc.invert(pc.is_in(counts["word"], pa.array(stop, pa.large_string()))))
    return counts.filter(kept)


def _documents(limit: int | float, documents: int) -> float:
    return int(limit) if isinstance(limit, Integral) else limit * documents


def stop_list(stop_words: str | tuple[str, ...] | None) -> list[str]:
    """Return the words of "english", or the list itself; raise ValueError for another name."""
    if stop_words is None:
        return []
    if isinstance(stop_words, str):
        if stop_words != "english":
            raise ValueError(f"stop_words is {stop_words!r}, but must be 'english', a list of words, or None")
        return sorted(ENGLISH)
    return list(stop_words)


def rank(counts: pa.Table, max_features: int | None = None) -> pa.Table:
    """Sort words by descending term frequency, then by word; a row's number is its id. Keep up to ``max_features``."""
    check_size(counts.num_rows)
    order = pc.sort_indices(counts, sort_keys=[("term_frequency", "descending"), ("word", "ascending")])
    return counts.take(order[: max_features if max_features is not None else len(order)]).combine_chunks()


def check_size(n_words: int) -> None:
    """Raise DataError for a vocabulary whose ids do not fit into 32 bits."""
    if n_words > MAX_WORDS:
        raise DataError(f"{n_words:,} words are more than the limit of {MAX_WORDS:,}: raise min_df")


def words_of(table: pa.Table) -> pa.Array:
    """Return the column ``word`` as one array (W,) of large_string."""
    column = table["word"].cast(pa.large_string())
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_string())


def recount(given: pa.Table, counts: pa.Table) -> pa.Table:
    """Return the given words in the same order, with their frequencies in ``counts``, or 0 if they are not in it."""
    numbers = find_word_ids(words_of(counts), given)
    columns = []
    for name in FREQUENCIES:
        column = np.zeros(given.num_rows, np.int64)
        column[numbers] = counts[name].to_numpy()
        columns.append(column)
    return count_table(words_of(given), *columns)


def extend(given: pa.Table, counts: pa.Table, max_features: int | None = None) -> pa.Table:
    """Return the given words, which keep their ids, followed by the other words of ``counts`` in the order of `rank`.

    All frequencies come from ``counts``. ``max_features`` limits the total, but given words are never dropped.
    """
    further = counts.filter(pc.invert(pc.is_in(counts["word"], words_of(given))))
    most = None
    if max_features is not None:
        most = max(0, max_features - given.num_rows)
    known = counts.filter(pc.is_in(counts["word"], words_of(given)))
    grown = pa.concat_tables([recount(given, known), rank(further, most)])
    check_size(grown.num_rows)
    return grown.combine_chunks()


def find_word_ids(words: pa.Array | pa.ChunkedArray | Sequence[str], vocabulary: pa.Table) -> np.ndarray:
    """Return the id of each word in a vocabulary: (W,) int64, -1 for a word that the vocabulary does not have."""
    if not isinstance(words, pa.Array | pa.ChunkedArray):
        words = pa.array(words, pa.large_string())
    found = pc.index_in(words.cast(pa.large_string()), words_of(vocabulary))
    return pc.fill_null(found, -1).to_numpy().astype(np.int64)


class MergedVocabulary(NamedTuple):
    """Two vocabularies in one. V words in all, V_old of them in the older vocabulary."""

    table: pa.Table  # (V,) rows: word, term_frequency, document_frequency
    old_ids: np.ndarray  # (V_old,) int64: the row in ``table`` of each word of the older vocabulary
    only_in_old: np.ndarray  # (n,) int64: rows of the older vocabulary that became the last n rows of ``table``


def merge_vocabularies(new: pa.Table, old: pa.Table) -> MergedVocabulary:
    """Merge the vocabulary of a model that was trained further with that of the model it started from.

    Words of ``new`` keep their ids. Words that only ``old`` has follow, in the order of ``old``. Frequencies of words
    in both add up. Both tables have the columns word, term_frequency and document_frequency.
    """
    ids = find_word_ids(old["word"], new)
    only_in_old = np.flatnonzero(ids < 0)
    ids[only_in_old] = new.num_rows + np.arange(len(only_in_old))
    words = pa.concat_arrays([words_of(new), words_of(old).take(pa.array(only_in_old))])
    frequencies = []
    for name in FREQUENCIES:
        column = np.zeros(len(words), np.int64)
        column[: new.num_rows] = new[name].to_numpy()
        column[ids] += old[name].to_numpy()
        frequencies.append(column)
    return MergedVocabulary(count_table(words, *frequencies), ids, only_in_old)


def encode(doc_ptr: np.ndarray, numbers: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace numbers of words by ids, and drop tokens without an id: doc_ptr (D + 1,) int64 and words (n,) uint32.

    ``ids`` (W,) int64 has the id of each number, or -1.
    """
    mapped = ids[numbers]
    kept = mapped >= 0
    if kept.all():
        return doc_ptr, mapped.astype(np.uint32)
    before = np.r_[0, np.cumsum(kept)]
    return before[doc_ptr], mapped[kept].astype(np.uint32)
