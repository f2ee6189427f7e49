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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .chunk import Chunk
from .parquet import read_parquet
from .store import DataError, Store, check_format

FORMAT = 1
#: Name in the store of the array ``Chunk.word_to_doc_order``.
PERMUTATION = "place"


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


def commit_corpus(
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
