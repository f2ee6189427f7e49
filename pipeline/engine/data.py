"""Stores of training data as the engine uses them: a corpus, a matrix, or a corpus of random walks."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ...io.data import open_data
from ...io.stores.store import Store


class ChunkSize(Protocol):
    """The sizes of one chunk, known without reading it."""

    @property
    def documents(self) -> int:
        """Documents, or rows of a matrix."""

    @property
    def tokens(self) -> int:
        """Tokens, or stored numbers of a matrix."""


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
        """ "corpus" or "matrix"."""

    @property
    def hash(self) -> str:
        """Digest of the content. A store that is moved keeps it."""

    @property
    def chunks(self) -> Sequence[ChunkSize]:
        """Sizes of the chunks, in order."""

    @property
    def n_documents(self) -> int:
        """Documents of all chunks."""

    @property
    def n_words(self) -> int:
        """Words of the vocabulary, or columns of the matrix."""

    @property
    def n_tokens(self) -> int:
        """Tokens of all chunks."""

    @property
    def held_out(self) -> "TrainingData | None":
        """The documents that ingestion set aside for evaluation."""

    def read_chunk(self, index: int) -> Any:
        """Read one chunk."""


class DataRef(NamedTuple):
    """Names a store of training data in the arguments of a task; the worker opens it."""

    url: str
    part: str

    def open(self) -> TrainingData:
        """Open the store."""
        return open_data(self.url, self.part)


def count_shards(n_chunks: int, most: int) -> int:
    """Return the number of shards: groups of equally many consecutive chunks, except for the last one."""
    return -(-n_chunks // -(-n_chunks // most))


def shard_chunks(n_chunks: int, most: int, shard: int) -> range:
    """Return the chunks of a shard, if there are at most ``most`` shards."""
    size = -(-n_chunks // most)
    return range(shard * size, min((shard + 1) * size, n_chunks))


def reference(data: TrainingData) -> DataRef:
    """Return the reference that opens ``data`` on any worker."""
    return DataRef(Store(data.url).absolute, data.part)
