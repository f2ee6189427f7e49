"""Stores of training data as the engine uses them, and how they are cut into shards, and models into blocks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...io.data import open_data
from ...io.stores.store import Store


class ChunkSize(Protocol):
    """The sizes of one chunk, known without reading it."""

    @property
    def documents(self) -> int:
        """Number of documents, or of rows of a matrix."""

    @property
    def tokens(self) -> int:
        """Number of tokens, or of stored entries of a matrix."""


class TrainingData(Protocol):
    """A store that was cut into chunks, open for reading."""

    @property
    def url(self) -> str:
        """Path or URL of the store."""

    @property
    def title(self) -> str:
        """What messages call the store: its URL, or "documents in memory" if it is a temporary one."""

    @property
    def part(self) -> str:
        """The part of the store: "train" or "held_out"."""

    @property
    def kind(self) -> str:
        """The kind of store: "corpus", "matrix" or "graph"."""

    @property
    def hash(self) -> str:
        """Digest of the content. A store that is moved keeps it."""

    @property
    def chunks(self) -> Sequence[ChunkSize]:
        """Sizes of the chunks, in order."""

    @property
    def n_documents(self) -> int:
        """Number of documents in all chunks."""

    @property
    def n_words(self) -> int:
        """Number of words in the vocabulary, or of columns of the matrix."""

    @property
    def n_tokens(self) -> int:
        """Number of tokens in all chunks."""

    @property
    def held_out(self) -> "TrainingData | None":
        """The documents that ingestion set aside for evaluation."""

    def read_chunk(self, index: int) -> Any:
        """Read chunk number ``index`` of this part."""


class DataRef(NamedTuple):
    """Names a store of training data in the arguments of a task; the worker opens it."""

    url: str
    part: str

    def open(self) -> TrainingData:
        """Open the store."""
        return open_data(self.url, self.part)


def unit_of(kind: str) -> str:
    """Return what training counts on data of this kind, in the plural."""
    return "edges" if kind == "graph" else "tokens"


def count_shards(n_chunks: int, most: int) -> int:
    """Return the number of shards, each of equally many consecutive chunks, except for the last one."""
    return -(-n_chunks // -(-n_chunks // most))


def shard_chunks(n_chunks: int, most: int, shard: int) -> range:
    """Return the chunks of a shard, if there are at most ``most`` shards."""
    size = -(-n_chunks // most)
    return range(shard * size, min((shard + 1) * size, n_chunks))


def reference(data: TrainingData) -> DataRef:
    """Return the reference that opens ``data`` on any worker."""
    return DataRef(Store(data.url).absolute, data.part)


# --- blocks of consecutive rows of a model ---

# The result is the field ``bounds`` of an algorithm: the first row of each block, followed by the number of rows. There
# are never more blocks than rows.


def equal_blocks(n_rows: int, n_blocks: int) -> tuple[int, ...]:
    """Return the bounds of blocks with about the same number of rows."""
    bounds = np.linspace(0, n_rows, min(n_blocks, n_rows) + 1)
    return tuple(int(bound) for bound in bounds)


def cut_equally(bounds: tuple[int, ...], n_parts: int) -> tuple[int, ...]:
    """Return the bounds of blocks of which each was cut into ``n_parts``, with about the same number of rows."""
    starts = [first + part * (stop - first) // n_parts for first, stop in pairwise(bounds) for part in range(n_parts)]
    return (*starts, bounds[-1])


def cut_blocks(entries: np.ndarray, n_blocks: int) -> tuple[int, ...]:
    """Return the bounds of blocks with about the same number of entries, given those of each row, (V,).

    Use it for a sparse model, in which a few rows have most of the entries.
    """
    n_rows = len(entries)
    n_cuts = min(n_blocks, n_rows) - 1
    # Each row counts as one more entry, because row_ptr needs memory too.
    cumulative = np.cumsum(entries + 1.0)
    targets = cumulative[-1] * np.arange(1, n_cuts + 1) / (n_cuts + 1)
    cuts = np.searchsorted(cumulative, targets) + 1
    # A row with very many entries attracts several cuts, which would leave blocks without a row. First move each cut to
    # the right of the cut before it. The last cuts may then exceed the end, so limit each one such that every block
    # after it has a row.
    order = np.arange(n_cuts)
    cuts = np.maximum.accumulate(cuts - order) + order
    cuts = np.minimum(cuts, n_rows - n_cuts + order)
    return (0, *(int(cut) for cut in cuts), n_rows)
