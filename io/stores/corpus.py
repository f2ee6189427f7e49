"""The corpus store: documents cut into chunks, each in word order (and in document order where order is known).

Layout below the URL::

    corpus.json          kind, format, counts, chunk table, hash; written last: without it there is no corpus
    vocabulary.parquet   word, term_frequency, document_frequency; the row is the id, by falling term frequency
    documents-<part>.parquet   key, file, chunk, row; one row a document, in order
    <part>/<c>/          one Zarr group a chunk (see Chunk); part is train or held_out
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from .parquet import read_parquet
from .store import DataError, Store, check_format

FORMAT = 1
#: Tokens whose documents' topic rows stay in a core's cache: the inner level of the word order.
GROUP_TOKENS = 1 << 20
#: Name in the store of the array ``Chunk.word_to_doc_order``.
PERMUTATION = "place"


class Chunk(NamedTuple):
    """A run of documents in both orders. T tokens, D documents, G groups, S segments (a word in a group).

    Word order (PDOW: partition by document, order by word): documents are cut into G consecutive groups; inside a
    group tokens are ordered by word, then by document. Segment s holds the tokens
    ``word_ptr[s]:word_ptr[s + 1]`` of word ``word_ids[s]``; group g holds the segments
    ``group_ptr[g]:group_ptr[g + 1]``, its words ascending.
    """

    number: int
    doc_ptr: np.ndarray  # (D + 1,) int64: tokens of document d stand at doc_ptr[d]:doc_ptr[d + 1] of document order
    words: np.ndarray  # (T,) uint32: word ids in document order; in a bag of words they ascend in a document
    group_ptr: np.ndarray  # (G + 1,) int64: segments of each group
    word_ids: np.ndarray  # (S,) uint32: the word of each segment
    word_ptr: np.ndarray  # (S + 1,) int64: tokens of each segment, in word order
    docs: np.ndarray  # (T,) uint32: row of the document, from 0 in this chunk, in word order
    word_to_doc_order: np.ndarray  # (T,) uint32: position in document order, so the word of i is words[it[i]]

    @property
    def n_documents(self) -> int:
        """Number of documents, empty ones included."""
        return len(self.doc_ptr) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.doc_ptr[-1])

    def counts(self, n_words: int) -> scipy.sparse.csr_matrix:
        """Return the (D, n_words) int32 matrix of word counts."""
        ones = np.ones(self.n_tokens, np.int32)
        matrix = scipy.sparse.csr_matrix(
            (ones, self.words.astype(np.int32), self.doc_ptr), shape=(self.n_documents, n_words)
        )
        matrix.sum_duplicates()
        return matrix


def make_chunk(index: int, doc_ptr: np.ndarray, words: np.ndarray, group_tokens: int = GROUP_TOKENS) -> Chunk:
    """Order documents by word: ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order."""
    doc_ptr = np.ascontiguousarray(doc_ptr, np.int64)
    words = np.ascontiguousarray(words, np.uint32)
    cuts = _group_cuts(doc_ptr, group_tokens)
    word_to_doc_order = np.empty(len(words), np.uint32)
    docs = np.empty(len(words), np.uint32)
    word_ids, starts, group_ptr = [], [], [0]
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        lo, hi = doc_ptr[first], doc_ptr[last]
        ids, heads, group_docs, order = _by_word(doc_ptr[first : last + 1] - lo, words[lo:hi])
        np.add(order, lo, out=word_to_doc_order[lo:hi], casting="unsafe")
        np.add(group_docs, first, out=docs[lo:hi], casting="unsafe")
        word_ids.append(ids)
        starts.append(heads + lo)
        group_ptr.append(group_ptr[-1] + len(ids))
    return Chunk(
        number=index,
        doc_ptr=doc_ptr,
        words=words,
        group_ptr=np.array(group_ptr, np.int64),
        word_ids=np.concatenate(word_ids).astype(np.uint32) if word_ids else np.empty(0, np.uint32),
        word_ptr=np.r_[np.concatenate(starts) if starts else np.empty(0, np.int64), len(words)].astype(np.int64),
        docs=docs,
        word_to_doc_order=word_to_doc_order,
    )


def _by_word(doc_ptr: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Order a group's tokens by word, then by place: return words, first token of each, documents, places."""
    distinct = None
    if len(words) and int(words.max()) > 4 * len(words):
        distinct, words = np.unique(words, return_inverse=True)
    width = int(words.max()) + 1 if len(words) else 0
    places = np.arange(len(words), dtype=np.int32)
    # From rows to columns is a counting sort by column that keeps the order of rows: no comparisons.
    rows = scipy.sparse.csr_array((places, words.astype(np.int32), doc_ptr), shape=(len(doc_ptr) - 1, width))
    columns = rows.tocsc()
    used = np.flatnonzero(np.diff(columns.indptr))
    heads = columns.indptr[used].astype(np.int64)
    return used if distinct is None else distinct[used], heads, columns.indices, columns.data


def _group_cuts(doc_ptr: np.ndarray, group_tokens: int) -> np.ndarray:
    """Cut D documents into groups of about ``group_tokens`` tokens: the first document of each, then D."""
    n_documents = len(doc_ptr) - 1
    n_groups = max(1, round(int(doc_ptr[-1]) / group_tokens))
    marks = np.arange(1, n_groups) * (int(doc_ptr[-1]) / n_groups)
    inner = np.searchsorted(doc_ptr, marks)
    return np.unique(np.r_[0, np.clip(inner, 0, n_documents), n_documents])


@dataclass(frozen=True)
class ChunkInfo:
    """What the chunk table says of one chunk."""

    documents: int
    tokens: int
    segments: int
    longest: int  # tokens of the longest document
    first_document: int  # number of its first document in documents.parquet


class Corpus:
    """A corpus store, open for reading. ``part`` is "train" or "held_out": the chunks that it shows."""

    kind = "corpus"

    def __init__(self, url: str, part: str = "train"):
        self.store = Store(url)
        self.url, self.part = self.store.url, part
        if not self.store.exists("corpus.json"):
            raise DataError(f"{url}: no corpus here (no corpus.json); write one with `corpusmill ingest SOURCE {url}`")
        self.meta: dict[str, Any] = self.store.read_json("corpus.json")
        check_format(self.meta, "corpus", FORMAT, self.url)
        if part not in self.meta["parts"]:
            raise ValueError(f"part {part!r} is not known: choose one of {', '.join(self.meta['parts'])}")
        self.chunks = [ChunkInfo(**c) for c in self.meta["parts"][part]]

    def __repr__(self) -> str:
        counts = f"{self.n_documents} documents, {self.n_tokens} tokens, {self.n_words} words"
        return f"Corpus({self.url!r}, {self.part!r}: {counts})"

    @property
    def held_out(self) -> "Corpus":
        """The same corpus, showing the documents that ingest set apart for evaluation (maybe none)."""
        return Corpus(self.url, "held_out")

    @property
    def n_words(self) -> int:
        """V, the size of the vocabulary."""
        return self.meta["n_words"]

    @property
    def n_documents(self) -> int:
        """D, empty documents included."""
        return sum(c.documents for c in self.chunks)

    @property
    def n_tokens(self) -> int:
        """T, after pruning."""
        return sum(c.tokens for c in self.chunks)

    @property
    def is_ordered(self) -> bool:
        """Whether tokens stand in the order of the text (False for a bag of words)."""
        return self.meta["ordered"]

    @property
    def hash(self) -> str:
        """A digest of vocabulary and chunks' content."""
        return self.meta["hash"]

    @property
    def vocabulary_hash(self) -> str:
        """A digest of the vocabulary, repeated by every model trained on it."""
        return self.meta["vocabulary_hash"]

    @cached_property
    def vocabulary(self) -> pa.Table:
        """Table of V rows: word, term_frequency, document_frequency; the row number is the word's id."""
        return _read_table(self.store, "vocabulary.parquet")

    @cached_property
    def documents(self) -> pa.Table:
        """Table of the part's documents in order: key (the source's own, or file:row), its file's URL, chunk, row."""
        return _read_table(self.store, f"documents-{self.part}.parquet")

    def read_chunk(self, index: int) -> Chunk:
        """Read chunk ``index`` of this part, checksums verified."""
        arrays = self.store.read_arrays(f"{self.part}/{index:06d}")
        return Chunk(number=index, word_to_doc_order=arrays.pop(PERMUTATION), **arrays)

    def read_document_order(self, index: int) -> Chunk:
        """Read chunk ``index`` in document order alone: the arrays of the word order are empty."""
        nothing = dict.fromkeys(Chunk._fields[3:], np.empty(0, np.uint32))
        return Chunk(index, **nothing, **self.store.read_arrays(f"{self.part}/{index:06d}", Chunk._fields[1:3]))


def _read_table(store: Store, name: str) -> pa.Table:
    try:
        with store.fs.open(store.where(name), "rb") as file:
            return read_parquet(file)
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        why = "missing" if isinstance(error, FileNotFoundError) else "damaged"
        raise DataError(f"{store.where(name)}: {why}; ingest anew with --overwrite") from None


def write_chunk(store: Store, part: str, chunk: Chunk) -> ChunkInfo:
    """Write one chunk and return its row of the chunk table (first_document is left 0 for the caller)."""
    arrays = chunk._asdict()
    del arrays["number"]
    arrays[PERMUTATION] = arrays.pop("word_to_doc_order")
    store.write_arrays(f"{part}/{chunk.number:06d}", arrays)
    lengths = np.diff(chunk.doc_ptr)
    return ChunkInfo(
        documents=chunk.n_documents,
        tokens=chunk.n_tokens,
        segments=len(chunk.word_ids),
        longest=int(lengths.max(initial=0)),
        first_document=0,
    )


def vocabulary_hash(words: Iterable[str]) -> str:
    """Digest of the words in id order."""
    return hashlib.sha256("".join(f"{word}\n" for word in words).encode()).hexdigest()[:32]


def write_corpus_table(
    store: Store,
    vocabulary: pa.Table,
    parts: Mapping[str, Sequence[ChunkInfo]],
    ordered: bool,
    content_hash: str,
    about: dict[str, Any],
) -> None:
    """Finish a corpus: number the documents, write vocabulary.parquet, then corpus.json, which makes it one.

    ``about`` is what `inspect` shows besides: source, options, version. documents-<part>.parquet and the chunks
    must be there already.
    """
    numbered = {}
    for part, infos in parts.items():
        first, rows = 0, []
        for info in infos:
            rows.append(asdict(info) | {"first_document": first})
            first += info.documents
        numbered[part] = rows
    sink = pa.BufferOutputStream()
    pq.write_table(vocabulary, sink)
    store.write_bytes("vocabulary.parquet", sink.getvalue().to_pybytes())
    store.write_json(
        "corpus.json",
        {
            "kind": "corpus",
            "format": FORMAT,
            "n_words": vocabulary.num_rows,
            "ordered": ordered,
            "vocabulary_hash": vocabulary_hash(vocabulary["word"].to_pylist()),
            "hash": content_hash,
            "parts": numbered,
            "about": about,
        },
    )
