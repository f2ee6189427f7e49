"""Manifests: which files of a source are new, changed or removed since the last ingest; and documents by file."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .readers.source import SourceFile
from .stores.chunk import Chunk, make_chunk
from .stores.corpus import ChunkInfo, Corpus, commit_corpus, write_chunk
from .stores.store import DataError, Store


@dataclass(frozen=True)
class FileVersion:
    """One file as it was when it was ingested."""

    size: int
    modified: str  # time of change, or the object store's tag of the content
    digest: str  # of the content, or the object store's tag
    batch: str = ""  # the corpus that holds its documents


Manifest = dict[str, FileVersion]


@dataclass(frozen=True)
class Changes:
    """URLs of files, each list sorted."""

    added: list[str]
    changed: list[str]
    removed: list[str]

    @property
    def to_ingest(self) -> list[str]:
        """The files whose documents have to be read: added and changed ones."""
        return sorted([*self.added, *self.changed])


def describe_files(files: Iterable[SourceFile], known: Mapping[str, FileVersion]) -> Manifest:
    """Return the manifest of files. A file with the same size and time of change as in ``known`` is not read again."""
    found: Manifest = {}
    for file in files:
        before = known.get(file.url)
        if before is None or (before.size, before.modified) != (file.size, file.modified):
            found[file.url] = FileVersion(file.size, file.modified, _digest(file))
        else:
            found[file.url] = before
    return found


def _digest(file: SourceFile) -> str:
    if not Path(file.url).is_file():
        return file.modified
    with open(file.url, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


def compare_manifests(known: Mapping[str, FileVersion], found: Mapping[str, FileVersion]) -> Changes:
    """Return which files were added, changed and removed. A file whose time of change alone differs is not changed."""
    return Changes(
        added=sorted(found.keys() - known.keys()),
        changed=sorted(url for url in found.keys() & known.keys() if found[url].digest != known[url].digest),
        removed=sorted(known.keys() - found.keys()),
    )


def date_in_url(url: str, pattern: str) -> date | None:
    """Return the last date in a URL, or None. ``pattern`` has three groups: year, month and day."""
    for match in reversed(list(re.finditer(pattern, url))):
        try:
            return date(*(int(group) for group in match.groups()))
        except (TypeError, ValueError):
            continue
    return None


def files_up_to(urls: Collection[str], last: date, pattern: str) -> set[str]:
    """Return the URLs whose date is ``last`` or earlier, and all URLs without a date.

    Raises DataError if no URL has a date.
    """
    dates = {url: date_in_url(url, pattern) for url in urls}
    if urls and not any(dates.values()):
        raise DataError(
            f"{min(urls)}: no date is in this path, nor in the paths of the {len(urls) - 1} other files, so --as-of "
            f"cannot select files: set retrain.dates to a pattern with a group each for year, month and day"
        )
    return {url for url, found in dates.items() if found is None or found <= last}


def select_documents(corpus: Corpus, files: Collection[str], url: str) -> Corpus:
    """Write a corpus of the training documents that came from ``files``, with the same word ids, and open it."""
    store = Store(url)
    if not store.exists("corpus.json"):
        wanted = np.isin(corpus.documents["file"].to_numpy(zero_copy_only=False), sorted(files))
        chunks = (_rows_of(corpus.read_chunk(c), wanted, info) for c, info in enumerate(corpus.chunks))
        _write(store, corpus, [chunk for chunk in chunks if chunk.n_documents], wanted)
    return Corpus(url)


def _rows_of(chunk: Chunk, wanted: np.ndarray, info: ChunkInfo) -> Chunk:
    rows = np.flatnonzero(wanted[info.first_document : info.first_document + info.documents])
    words = [chunk.words[chunk.doc_ptr[d] : chunk.doc_ptr[d + 1]] for d in rows]
    doc_ptr = np.r_[0, np.cumsum(np.diff(chunk.doc_ptr)[rows])]
    return make_chunk(chunk.number, doc_ptr, np.concatenate(words) if words else np.empty(0, np.uint32))


def _write(store: Store, corpus: Corpus, chunks: list[Chunk], wanted: np.ndarray) -> None:
    frequencies = np.zeros((2, corpus.n_words), np.int64)
    infos, digest = [], hashlib.sha256(corpus.hash.encode() + np.packbits(wanted).tobytes())
    for number, chunk in enumerate(chunks):
        counts = chunk.counts(corpus.n_words)
        frequencies += np.stack([np.asarray(counts.sum(axis=0)).ravel(), counts.getnnz(axis=0)])
        infos.append(write_chunk(store, "train", chunk._replace(number=number)))
    documents = corpus.documents.filter(pa.array(wanted))
    sink = pa.BufferOutputStream()
    pq.write_table(documents, sink)
    store.write_bytes("documents-train.parquet", sink.getvalue().to_pybytes())
    names = ("term_frequency", "document_frequency")
    vocabulary = pa.table({"word": corpus.vocabulary["word"], **dict(zip(names, frequencies, strict=True))})
    parts: dict[str, list[ChunkInfo]] = {"train": infos, "held_out": []}
    commit_corpus(store, vocabulary, parts, corpus.is_ordered, digest.hexdigest()[:32], {"of": corpus.url})
