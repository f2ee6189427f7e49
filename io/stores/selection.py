"""A corpus of some documents of another corpus."""

import hashlib
import os
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .chunk import Chunk, make_chunk
from .corpus import ChunkInfo, Corpus, commit_corpus, write_chunk
from .store import Store


def select_documents(corpus: Corpus, files: Collection[str], url: str | os.PathLike[str]) -> Corpus:
    """Write a corpus of the training documents that came from ``files``, with the same word ids, and open it.

    A corpus that is already at ``url`` is taken for the result of an earlier call.
    """
    store = Store(url)
    if not store.exists("corpus.json"):
        # Arrow looks each file up in a hash table. NumPy's `isin` would compare all documents with each of the files.
        is_wanted = pc.is_in(corpus.documents["file"], pa.array(files, pa.string()))
        _write_selection(store, corpus, is_wanted.to_numpy())
    return Corpus(url)


def _write_selection(store: Store, corpus: Corpus, is_wanted: np.ndarray) -> None:
    """Write the documents where ``is_wanted`` (D,) is True as a corpus."""
    term_frequency = np.zeros(corpus.n_words, np.int64)
    document_frequency = np.zeros(corpus.n_words, np.int64)
    infos: list[ChunkInfo] = []
    for chunk in _selected_chunks(corpus, is_wanted):
        # Words keep their ids, so a model of the whole corpus applies to the selection. Their frequencies change.
        counts = chunk.counts(corpus.n_words)
        term_frequency += np.asarray(counts.sum(axis=0)).ravel()
        document_frequency += counts.getnnz(axis=0)
        infos.append(write_chunk(store, "train", chunk))
    store.write_parquet("documents-train.parquet", corpus.documents.filter(pa.array(is_wanted)))
    store.write_parquet("documents-held_out.parquet", corpus.documents.slice(0, 0))
    vocabulary = pa.table(
        {
            "word": corpus.vocabulary["word"],
            "term_frequency": term_frequency,
            "document_frequency": document_frequency,
        }
    )
    # The corpus and the choice of documents decide the selection, so their digest needs no second pass over the chunks.
    digest = hashlib.sha256(corpus.hash.encode() + np.packbits(is_wanted).tobytes()).hexdigest()[:32]
    commit_corpus(
        store, vocabulary, {"train": infos, "held_out": []}, corpus.is_ordered, digest, about={"of": corpus.url}
    )


def _selected_chunks(corpus: Corpus, is_wanted: np.ndarray) -> Iterator[Chunk]:
    """Yield the wanted documents of each chunk that has any, as chunks with consecutive numbers."""
    number = 0
    for index, info in enumerate(corpus.chunks):
        rows = np.flatnonzero(is_wanted[info.first_document : info.first_document + info.documents])
        if not len(rows):
            continue
        chunk = corpus.read_chunk(index)
        words = [chunk.words[chunk.doc_ptr[row] : chunk.doc_ptr[row + 1]] for row in rows]
        doc_ptr = np.append(0, np.cumsum(np.diff(chunk.doc_ptr)[rows]))
        yield make_chunk(number, doc_ptr, np.concatenate(words))
        number += 1
