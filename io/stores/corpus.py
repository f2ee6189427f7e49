"""The corpus store: documents as word ids, cut into chunks.

Layout below the URL::

    corpus.json                  kind, format, counts, hash, and the name of the folder of content; written last: a
                                 folder without it is no corpus
    content-<digest>/            the content: all other files
        vocabulary.parquet       word, term_frequency, document_frequency; the row number is the word's id
        columns.parquet          word: the columns of the matrix that the corpus was made from, in its order, if they
                                 have names
        documents-<part>.parquet key, file, chunk, row, and kept columns of the source; one row per document, in order
        chunks-<part>.parquet    one row per chunk, see ChunkInfo
        <part>/<c>/              one Zarr group per chunk, see Chunk

The part is ``train`` or ``held_out``. Words are numbered by falling term frequency. If a vocabulary was given, its
words come first, in their order. A selection keeps the numbers of its corpus.

The digest is that of the source and the options. Corpora of walks and selections have no folder of content: all
files are below the URL.

A process that was paused, and continues after another one has written a different corpus here, writes only files that
nobody reads, because the folders of their content differ.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataError, Locked
from ..messages import pluralize
from .chunk import Chunk, read_chunk_table, write_chunk_table
from .conditional import write_if_unchanged
from .store import JsonObject, Store, check_format, encode_json

FORMAT = 2
#: Name of the lock of the process that writes a corpus.
LOCK = "ingest.lock"
#: Columns of every table of documents. Its other columns are those that ingest kept.
DOCUMENT_COLUMNS = ("key", "file", "chunk", "row")
#: Name in the store of the array ``Chunk.word_to_doc_order``.
PERMUTATION = "place"
#: The arrays of a chunk that hold its word order.
WORD_ORDER = ("group_ptr", "word_ids", "word_ptr", "docs", "word_to_doc_order")


@dataclass(frozen=True)
class ChunkInfo:
    """The sizes of one chunk of a corpus, which are a row of its table of chunks."""

    documents: int
    tokens: int
    segments: int
    longest: int  # tokens of the longest document
    first_document: int  # row of its first document in documents-<part>.parquet


class Corpus:
    """A corpus store, open for reading.

    `corpusmill.ingest` writes corpus stores. Opening one reads a single small file. The vocabulary, the tables of
    documents and chunks, and the chunks are read when they are first used.

    Parameters
    ----------
    url : str or os.PathLike
        Folder of the corpus: a local path, or any URL that fsspec supports, such as ``s3://bucket/corpus``.
    part : {"train", "held_out"}, default="train"
        Which documents to show: those for training, or those that were set aside for evaluation.

    Attributes
    ----------
    url : str
        The URL as given.
    part : str
        The part as given.
    chunks : list of ChunkInfo
        Numbers of documents and tokens of each chunk of this part.
    meta : dict
        The values of ``corpus.json``.

    Raises
    ------
    DataError
        If there is no corpus at ``url``, or one of a format that this version cannot read.
    ValueError
        If ``part`` is not known.

    See Also
    --------
    corpusmill.ingest : Make a corpus of documents.

    Examples
    --------
    >>> from corpusmill import Corpus, ingest
    >>> _ = ingest([["one", "fish"], ["two", "fish"]], "fish-corpus")
    >>> corpus = Corpus("fish-corpus")
    >>> corpus
    Corpus('fish-corpus', 'train': 2 documents, 4 tokens, 3 words)
    >>> corpus.vocabulary["word"].to_pylist()
    ['fish', 'one', 'two']
    >>> corpus.read_chunk(0).counts(corpus.n_words).toarray().tolist()
    [[1, 1, 0], [1, 0, 1]]
    """

    kind = "corpus"

    def __init__(self, url: str | os.PathLike[str], part: str = "train"):
        self.store = Store(url)
        self.url = self.store.url
        #: What messages call the corpus: its URL, unless it is a temporary copy of documents in memory.
        self.title = self.url
        self.part = part
        if not self.store.exists("corpus.json"):
            ways = {
                "graph": "`corpusmill export MODEL OUT --format vectors` writes the vectors of nodes (in Python, "
                "model.transform(graph))",
                "matrix": "NMF takes it in Python, such as model.transform(Matrix(URL))",
            }
            for kind, way_out in ways.items():
                if self.store.exists(f"{kind}.json"):
                    raise DataError(f"{self.url}: this is a {kind}, and a corpus is needed here; {way_out}")
            if self.store.is_local and Path(self.store.path).is_file():
                raise DataError(
                    f"{self.url}: this is a file, and a corpus is needed here; make one of it: "
                    f"corpusmill ingest {self.url} FOLDER (in Python, ingest({self.url!r}, FOLDER))"
                )
            raise DataError(
                f"{self.url}: no corpus here (no corpus.json); make one: corpusmill ingest SOURCE {self.url}"
            )
        self.meta: dict[str, Any] = self.store.read_json("corpus.json")
        check_format(self.meta, "corpus", FORMAT, self.url)
        if part not in self.meta["parts"]:
            raise ValueError(f"part={part!r} is not known: choose one of {', '.join(self.meta['parts'])}")
        #: The content: the folder of all files except corpus.json.
        self.content = content_store(self.store, self.meta)

    def __repr__(self) -> str:
        counts = f"{pluralize(self.n_documents, 'document')}, {pluralize(self.n_tokens, 'token')}, "
        counts += pluralize(self.n_words, "word")
        return f"Corpus({self.url!r}, {self.part!r}: {counts})"

    @property
    def held_out(self) -> "Corpus":
        """The part of this corpus that ingestion set aside for evaluation. It may be empty."""
        return Corpus(self.url, "held_out")

    @property
    def n_words(self) -> int:
        """Number of words in the vocabulary."""
        return self.meta["n_words"]

    @cached_property
    def chunks(self) -> list[ChunkInfo]:
        """The numbers of documents and tokens of each chunk of this part."""
        count = self.meta["parts"][self.part]["chunks"]
        return read_chunk_table(self.content, f"chunks-{self.part}.parquet", ChunkInfo, count)

    @property
    def n_documents(self) -> int:
        """Number of documents of this part, empty ones included."""
        return self.meta["parts"][self.part]["documents"]

    @property
    def n_tokens(self) -> int:
        """Number of tokens of this part. Words outside the vocabulary are not counted."""
        return self.meta["parts"][self.part]["tokens"]

    @property
    def is_ordered(self) -> bool:
        """Whether tokens are in the order of the text. If not, the corpus is a bag of words."""
        return self.meta["ordered"]

    @property
    def hash(self) -> str:
        """Digest of the vocabulary and of all chunks. A corpus that is copied or moved keeps it."""
        return self.meta["hash"]

    @property
    def vocabulary_hash(self) -> str:
        """Digest of the vocabulary."""
        return self.meta["vocabulary_hash"]

    @cached_property
    def vocabulary(self) -> pa.Table:
        """Columns word, term_frequency and document_frequency. A word's row number is its id."""
        return self.content.read_parquet("vocabulary.parquet")

    @cached_property
    def columns(self) -> list[str] | None:
        """Names of the columns of the matrix that the corpus was made from, empty ones included.

        None if the corpus was not made from a matrix, or from one without names.
        """
        if not self.content.exists("columns.parquet"):
            return None
        return self.content.read_parquet("columns.parquet")["word"].to_pylist()

    @cached_property
    def documents(self) -> pa.Table:
        """One row per document of this part, in order.

        Columns: key (from the source, or ``file:row``), file (URL of the source file), chunk, row (in the chunk), and
        those that ingest kept.
        """
        return self.content.read_parquet(f"documents-{self.part}.parquet")

    @cached_property
    def kept_columns(self) -> list[str]:
        """Names of the columns of the source that ingest kept, such as date and title."""
        # Reading no row reads the schema only.
        return [name for name in self.read_rows(0, 0).column_names if name not in DOCUMENT_COLUMNS]

    def read_rows(self, first: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read some rows of the table `documents`, without reading the rest of it.

        Parameters
        ----------
        first, stop : int
            The first row, and the row after the last one.
        columns : sequence of str, optional
            Some of the columns of `documents`. By default all.

        Returns
        -------
        pyarrow.Table
            One row per document.

        Examples
        --------
        >>> from corpusmill import ingest
        >>> corpus = ingest([["one", "fish"], ["two", "fish"]], "fish-corpus")
        >>> corpus.read_rows(0, 2, ["key"])["key"].to_pylist()
        ['0', '1']
        """
        return self.content.read_parquet_rows(f"documents-{self.part}.parquet", first, stop, columns)

    def read_chunk(self, index: int, without: Sequence[str] = ()) -> Chunk:
        """Read a chunk of this part, and verify its checksums.

        Parameters
        ----------
        index : int
            Number of the chunk, from 0.
        without : sequence of str, default=()
            Arrays of `Chunk` that are not read. They are empty in the result.

        Returns
        -------
        Chunk
            The documents, in both orders.

        Raises
        ------
        DataError
            If the chunk is missing or damaged, or if another ingest has replaced the corpus.

        Examples
        --------
        >>> from corpusmill import ingest
        >>> corpus = ingest([["one", "fish"], ["two", "fish"]], "fish-corpus")
        >>> corpus.read_chunk(0).n_tokens
        4
        """
        stored_names = {name: name for name in Chunk._fields if name not in ("number", *without)}
        if "word_to_doc_order" in stored_names:
            stored_names["word_to_doc_order"] = PERMUTATION
        try:
            found = self.content.read_arrays(self._chunk_name(index), tuple(stored_names.values()))
        except DataError:
            self._check_not_replaced()
            raise
        arrays = {name: found[stored_name] for name, stored_name in stored_names.items()}
        return Chunk(number=index, **arrays, **dict.fromkeys(without, np.empty(0, np.uint32)))

    def _check_not_replaced(self) -> None:
        """Raise DataError if another ingest has replaced the content since this corpus was opened."""
        there = self.store.read_json("corpus.json") if self.store.exists("corpus.json") else {}
        if there.get("content") != self.meta.get("content"):
            raise DataError(
                f"{self.url}: another ingest has replaced this corpus while it was read; give the command again, with "
                f"a new run if it trains"
            ) from None

    def read_document_order(self, index: int) -> Chunk:
        """Read a chunk in document order only.

        Parameters
        ----------
        index : int
            Number of the chunk, from 0.

        Returns
        -------
        Chunk
            The documents. The arrays of the word order are empty.

        Raises
        ------
        DataError
            As `read_chunk`.

        Examples
        --------
        >>> from corpusmill import ingest
        >>> corpus = ingest([["one", "fish"], ["two", "fish"]], "fish-corpus")
        >>> corpus.read_document_order(0).doc_ptr
        array([0, 2, 4])
        """
        return self.read_chunk(index, WORD_ORDER)

    def read_documents(self, index: int, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Read some documents of a chunk, without reading the rest of it. Checksums are not verified.

        Parameters
        ----------
        index : int
            Number of the chunk, from 0.
        first, stop : int
            The first document of the chunk to read, and the one after the last.

        Returns
        -------
        doc_ptr : numpy.ndarray
            (n + 1,) int64. Document d has the tokens ``doc_ptr[d]`` to ``doc_ptr[d + 1] - 1``; the first is 0.
        words : numpy.ndarray
            (T,) uint32: the ids of the words.

        Examples
        --------
        >>> from corpusmill import ingest
        >>> corpus = ingest([["one", "fish"], ["two", "fish"]], "fish-corpus")
        >>> doc_ptr, words = corpus.read_documents(0, 1, 2)
        >>> corpus.vocabulary["word"].take(words).to_pylist()
        ['two', 'fish']
        """
        name = self._chunk_name(index)
        doc_ptr = self.content.read_array_rows(name, "doc_ptr", first, stop + 1)
        words = self.content.read_array_rows(name, "words", int(doc_ptr[0]), int(doc_ptr[-1]))
        return doc_ptr - doc_ptr[0], words

    def _chunk_name(self, index: int) -> str:
        return f"{self.part}/{index:06d}"


def content_store(store: Store, meta: Mapping[str, Any]) -> Store:
    """Return the folder of a corpus's content, given the values of its corpus.json."""
    folder = meta.get("content", "")
    return store.child(folder) if folder else store


def write_chunk(store: Store, part: str, chunk: Chunk) -> ChunkInfo:
    """Write a chunk and return its row of the chunk table; `commit_corpus` sets ``first_document``.

    ``store`` is the folder of the corpus's content.
    """
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
    """Return a digest of the words in the order of their ids."""
    # Every word is followed by a newline, the last one too.
    lines = "\n".join([*words, ""])
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def commit_corpus(
    store: Store,
    vocabulary: pa.Table,
    parts: Mapping[str, Sequence[ChunkInfo]],
    ordered: bool,
    corpus_hash: str,
    about: dict[str, Any],
    check_lock: Callable[[], None] | None = None,
    folder: str = "",
) -> None:
    """Write the vocabulary and the tables of chunks, and then corpus.json, which makes the folder a corpus.

    A writer with a lock passes ``check_lock``, which raises Locked if the lock is lost. So does this function if there
    is a corpus.json already, which only another writer can have written.

    The chunks and documents-<part>.parquet must exist already, in ``folder``, which is the folder of content below the
    store. ``about`` is what `inspect` shows in addition: the source, its options and the version.
    """
    # corpus.json comes last. A reader that finds it also finds everything that it describes.
    meta: JsonObject = {
        "kind": "corpus",
        "format": FORMAT,
        "n_words": vocabulary.num_rows,
        "ordered": ordered,
        "vocabulary_hash": vocabulary_hash(vocabulary["word"].to_pylist()),
        "hash": corpus_hash,
        "parts": {part: _totals(chunks) for part, chunks in parts.items()},
        "about": about,
    }
    if folder:
        meta["content"] = folder
    content = content_store(store, meta)
    content.write_parquet("vocabulary.parquet", vocabulary)
    for part, chunks in parts.items():
        write_chunk_table(content, f"chunks-{part}.parquet", ChunkInfo, _numbered(chunks))
    if check_lock is None:
        store.write_json("corpus.json", meta)
        return
    check_lock()
    if not write_if_unchanged(store, "corpus.json", encode_json(meta), tag=""):
        raise Locked(f"{store.url}: this process lost its lock, and another one has written a corpus here")


def _totals(chunks: Sequence[ChunkInfo]) -> dict[str, int]:
    """Return the numbers of chunks, documents and tokens of a part. With these, readers need not read its table."""
    return {
        "chunks": len(chunks),
        "documents": sum(chunk.documents for chunk in chunks),
        "tokens": sum(chunk.tokens for chunk in chunks),
    }


def _numbered(chunks: Sequence[ChunkInfo]) -> list[ChunkInfo]:
    """Return the chunks of a part with the number of each chunk's first document."""
    rows = []
    first_document = 0
    for chunk in chunks:
        rows.append(replace(chunk, first_document=first_document))
        first_document += chunk.documents
    return rows
