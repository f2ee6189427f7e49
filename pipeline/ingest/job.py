"""What all tasks of an ingest have in common: the job, its work files, and the results that they return as JSON."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from ...io.readers.kinds import Fits
from ...io.stores.store import Store
from .options import IngestOptions

#: Parts of a corpus. The documents of ``held_out`` are set aside for evaluation.
PARTS = ("train", "held_out")
#: The lines that were skipped, one JSON object per line. Written only if on_bad_line is "quarantine".
BAD_LINES = "bad-lines.jsonl"


def content_folder(digest: str) -> str:
    """Return the name of the folder of content that an ingest with this folder of work files writes."""
    return f"content-{digest}"


@dataclass(frozen=True)
class IngestJob:
    """An ingest as its tasks see it. Every task gets a copy, so it is small."""

    corpus: str  # URL of the corpus
    work: str  # folder of the work files, relative to the corpus
    options: IngestOptions
    n_buckets: int  # number of buckets in which words are merged, by their hash
    has_vocabulary: bool  # whether the caller gave a vocabulary
    grows: bool  # whether words that the given vocabulary lacks are added to it
    is_temporary: bool = False  # whether the corpus is deleted before this process ends

    @property
    def store(self) -> Store:
        """The corpus store."""
        return Store(self.corpus, is_durable=not self.is_temporary)

    @property
    def folder(self) -> str:
        """Name in the store of the folder of the corpus's content."""
        return content_folder(self.work.rpartition("/")[2])

    @property
    def content(self) -> Store:
        """The folder of the chunks and tables of the corpus that this ingest makes."""
        return self.store.child(self.folder)

    @property
    def files(self) -> Store:
        """The folder of the work files, which are deleted in the end."""
        return self.store.child(self.work)


class DocumentRange(NamedTuple):
    """Consecutive documents of one part of the corpus in one batch of a partition.

    Only the documents of that part are counted: a range of the part ``train`` skips held-out documents.
    """

    partition: int
    batch: int
    first: int
    stop: int


class PartitionCounts(TypedDict):
    """The sizes of a partition of the source, as `tasks.count_partition` found them."""

    documents: int
    counted: int  # documents that are not held out; only they count for the frequencies of words
    tokens: int
    words: int  # distinct words
    batches: int
    bad_lines: int
    headers: int  # rows that are the header of their file again
    bad_example: str  # what is wrong with the first bad line; empty if there is none
    kept: list[Fits]  # for each kept column, how its values fit the kinds, see io.readers.kinds


class BucketCounts(TypedDict):
    """How many words of a bucket there are, and how many become part of the vocabulary; see `tasks.merge_bucket`."""

    words: int
    kept: int


class EncodedCounts(TypedDict):
    """The sizes of some partitions in words of the vocabulary, as `tasks.number_partitions` found them."""

    tokens: int
    unseen: int  # tokens whose words are not in the vocabulary
    longest: int  # tokens of the longest document
    empty: int  # documents without a token


class WrittenChunk(TypedDict):
    """What is known of a chunk of the corpus after `tasks.gather_chunk` has written it."""

    info: dict[str, int]  # the fields of ChunkInfo
    digest: str  # SHA-256 of the documents


# --- work files ---

# They are tables in Arrow's file format, which are mapped into memory if they are local files.


def write_table(store: Store, name: str, table: pa.Table, bounds: np.ndarray | None = None) -> None:
    """Write a table as one record batch.

    With ``bounds`` (B + 1,), write B record batches: batch b has the rows ``bounds[b]:bounds[b + 1]``.
    """
    table = table.combine_chunks()
    ends = [0, table.num_rows] if bounds is None else bounds.tolist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for first, stop in itertools.pairwise(ends):
            batches = table.slice(first, stop - first).to_batches()
            # An empty table has no batches, but readers count on one batch per pair of bounds.
            writer.write_batch(batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema))
    store.write_bytes(name, sink.getvalue())


def read_table(store: Store, name: str) -> pa.Table:
    """Read a whole table."""
    return _open_table(store, name).read_all()


def read_batch(store: Store, name: str, index: int) -> pa.Table:
    """Read the record batch ``index`` of a table, without the others."""
    return pa.Table.from_batches([_open_table(store, name).get_batch(index)])


def _open_table(store: Store, name: str) -> pa.ipc.RecordBatchFileReader:
    if store.is_local:
        source = pa.memory_map(store.where(name))
    else:
        source = pa.BufferReader(store.read_bytes(name))
    return pa.ipc.open_file(source)
