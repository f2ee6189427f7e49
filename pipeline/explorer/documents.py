"""The documents of a corpus by their numbers, read in small ranges, so that a corpus of any size responds at once."""

import re
import threading
import time
from bisect import bisect_right
from dataclasses import fields
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...io.errors import DataError
from ...io.readers.batches import Bag, ReadOptions
from ...io.readers.open import open_source
from ...io.readers.reader import Reader
from ...io.readers.source import Partition
from ...io.stores.corpus import Corpus
from ...io.words import TOKEN_PATTERN

#: Row groups of the table of documents that are kept in memory, and the same number of partitions of the source.
CACHED_GROUPS = 6
#: Rows of single documents that are kept in memory, for lists that are shown again.
CACHED_ROWS = 5000
#: Seconds that the search for the text of a document may take.
TEXT_SECONDS = 3.0
#: Seconds after which a search for documents by key reads no further row group.
SEARCH_SECONDS = 0.08


class DocumentTable:
    """The documents of one part of a corpus, by their numbers from 0."""

    def __init__(self, corpus: Corpus):
        self.corpus = corpus
        self._name = f"documents-{corpus.part}.parquet"
        self._first = [chunk.first_document for chunk in corpus.chunks]
        self._lock = threading.Lock()
        self._cached_group = lru_cache(CACHED_GROUPS)(self._read_group)
        #: Returns the row of one document, by the document's number.
        self.row = lru_cache(CACHED_ROWS)(self._read_row)

    def __len__(self) -> int:
        return self.corpus.n_documents

    @cached_property
    def _file(self) -> pq.ParquetFile:
        store = self.corpus.content
        with store.explained_parquet_errors(self._name):
            opened = store.fs.open(store.where(self._name), "rb")
            # A corpus has few files and many documents, so names of files are stored once each.
            return pq.ParquetFile(opened, pre_buffer=False, read_dictionary=["file"], page_checksum_verification=True)

    @cached_property
    def _group_starts(self) -> list[int]:
        metadata = self._file.metadata
        rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        return np.cumsum([0, *rows]).tolist()

    def group(self, index: int) -> pa.Table:
        """Return one row group of the table of documents, by its number."""
        # Answers are computed in several threads. The file has one position, and no group is read twice.
        with self._lock:
            return self._cached_group(index)

    def _read_group(self, index: int) -> pa.Table:
        columns = [name for name in self._file.schema_arrow.names if name not in ("chunk", "row")]
        with self.corpus.content.explained_parquet_errors(self._name):
            return self._file.read_row_group(index, columns, use_threads=False)

    @property
    def n_groups(self) -> int:
        """Number of row groups (of Parquet) that hold the documents."""
        return len(self._group_starts) - 1

    def _read_row(self, number: int) -> dict[str, object]:
        return self.rows(number, number + 1).to_pylist()[0]

    def rows(self, first: int, stop: int) -> pa.Table:
        """Return some consecutive rows of the table of documents."""
        parts = []
        while first < stop:
            index = bisect_right(self._group_starts, first) - 1
            end = min(stop, self._group_starts[index + 1])
            start = self._group_starts[index]
            parts.append(self.group(index).slice(first - start, end - first))
            first = end
        return pa.concat_tables(parts)

    def chunk_and_row(self, number: int) -> tuple[int, int]:
        """Return the chunk of a document, and its row in the chunk."""
        chunk = bisect_right(self._first, number) - 1
        # An empty chunk has the same first document as the next one.
        return chunk, number - self._first[chunk]

    def words(self, number: int) -> np.ndarray:
        """Return the words of one document: (T,) uint32 ids of the corpus."""
        chunk, row = self.chunk_and_row(number)
        return self.corpus.read_documents(chunk, row, row + 1)[1]

    def find(self, text: str, limit: int) -> list[tuple[int, str]]:
        """Return numbers and keys of documents whose key contains a text; stops after SEARCH_SECONDS."""
        found: list[tuple[int, str]] = []
        end = time.monotonic() + SEARCH_SECONDS
        for index in range(self.n_groups):
            keys = self.group(index)["key"]
            matches = pc.match_substring(keys, text, ignore_case=True).to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(matches)[: limit - len(found)]:
                found.append((self._group_starts[index] + int(row), keys[int(row)].as_py()))
            if len(found) >= limit or time.monotonic() > end:
                break
        return found


class SourceTexts:
    """The texts of documents, read from the files that the corpus was made of, as long as these are unchanged."""

    def __init__(self, table: DocumentTable):
        self.table = table
        self.corpus = table.corpus
        self._lock = threading.Lock()
        self._partitions = lru_cache(None)(self._read_partitions)
        self._texts = lru_cache(CACHED_GROUPS)(self._read)

    @cached_property
    def identity(self) -> dict[str, object]:
        """What the corpus was made of; empty for corpora that do not record it."""
        return self.corpus.meta["about"].get("identity") or {}

    @cached_property
    def options(self) -> dict[str, object]:
        """The options of the ingest."""
        return dict(self.identity.get("options") or {})  # type: ignore[call-overload]  # JSON has no type

    @cached_property
    def _reader(self) -> Reader | None:
        sources = self.identity.get("source")
        if not isinstance(sources, list) or not sources:
            return None
        known = {field.name for field in fields(ReadOptions)}
        options = ReadOptions(**{name: value for name, value in self.options.items() if name in known})  # type: ignore[arg-type]
        try:
            reader = open_source([source[0] for source in sources], options)
        except (DataError, ValueError, OSError, ImportError):
            return None
        # Changed files may have other documents under the same keys.
        if reader.describe() != sources:
            return None
        return reader

    def text(self, number: int, row: dict[str, object]) -> str | None:
        """Return the text of a document; None if its source is gone, has no text, or if the search takes too long."""
        with self._lock:
            if self._reader is None:
                return None
            try:
                return self._find(number, str(row.get("file", "")), str(row["key"]))
            except (DataError, OSError, ValueError, IndexError):
                return None

    def _find(self, number: int, url: str, key: str) -> str | None:
        n_partitions = len(self._partitions(url))
        end = time.monotonic() + TEXT_SECONDS
        # The place of the document in a source of one file. The table does not say where one of several files begins.
        guess = round(number / len(self.table) * (n_partitions - 1))
        for index in sorted(range(n_partitions), key=lambda index: abs(index - guess)):
            keys, texts = self._texts(url, index)
            if key in keys:
                return str(texts[keys.index(key)].as_py())
            if time.monotonic() > end:
                return None
        return None

    def _read_partitions(self, url: str) -> list[Partition]:
        assert self._reader is not None, "texts are read only if the source is unchanged"
        files = [file for file in self._reader.files if file.stored_url == url]
        return list(self._reader.only(files).partitions())

    def _read(self, url: str, index: int) -> tuple[list[str], pa.Array]:
        """Return the keys and the texts of one partition of a file."""
        assert self._reader is not None, "texts are read only if the source is unchanged"
        keys: list[str] = []
        contents: list[pa.Array] = []
        for batch in self._reader.read(self._partitions(url)[index]):
            if isinstance(batch.content, Bag):
                raise ValueError("counted words have no text")
            keys += batch.keys.to_pylist()
            contents.append(_as_texts(batch.content))
        return keys, pa.chunked_array(contents, pa.large_string())

    def tokens(self, text: str) -> list[tuple[int, int, str]]:
        """Return the first position of each token of a text, the position after it, and the token in lower case.

        Tokens stay as they are if the vocabulary distinguishes upper and lower case.
        """
        pattern = re.compile(str(self.options.get("token_pattern") or TOKEN_PATTERN))
        lowered = text
        if self.options.get("tokens"):
            # The text is a list of tokens, which `_as_texts` has joined by blanks.
            pattern = re.compile(r"\S+")
        elif self.options.get("lowercase", True):
            lowered = text.lower()
        if len(lowered) != len(text):
            # Some letters become two in lower case. Positions would then be wrong.
            return []
        group = 1 if pattern.groups else 0
        return [(match.start(group), match.end(group), match.group(group)) for match in pattern.finditer(lowered)]


def _as_texts(content: pa.Array) -> pa.Array:
    """Return texts as they are, and lists of tokens joined by blanks."""
    if pa.types.is_large_list(content.type) or pa.types.is_list(content.type):
        return pc.binary_join(content, " ").cast(pa.large_string())
    return content.cast(pa.large_string())
