"""Deltas of LDA: counts by word or, on the CPU, the topics of a chunk that are to be counted later.

A chunk's topics are counted when the deltas of several chunks are merged. Then most words have topics in many of the
chunks, and one table is written instead of one per chunk. Until then, the delta refers to the chunk's arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.store import Arrays
from ....kernels.lda.chunk_counts import ChunkTopics, count_chunks
from ....kernels.lda.counts import WordCounts
from ...engine.algorithm import Merge
from ...engine.device import kernels
from ...engine.packing import pack_counts

#: The array of a delta that is not counted yet: its first word, and the one after its last word.
_WORDS = "words"
#: Adds tables of the same words, with this number of topics.
MergeMany = Callable[[Sequence[WordCounts], int], WordCounts]


def uncounted(chunk: Chunk, z: np.ndarray, words: tuple[int, int]) -> Arrays:
    """Return a delta for the topics ``z`` (T,) uint16 of a chunk. Only tokens of some words will be counted."""
    topics = ChunkTopics(chunk.group_ptr, chunk.word_ids, chunk.word_ptr, z)
    return topics._asdict() | {_WORDS: np.array(words)}


def counted(delta: Arrays, n_topics: int) -> Arrays:
    """Return the counts of a delta."""
    return delta if _WORDS not in delta else _count([delta], n_topics)._asdict()


@dataclass(frozen=True)
class TopicCounts(Merge):
    """Adds counts of topics by word, exactly: on a CUDA device if some of them are there."""

    n_topics: int
    block_bytes: int  # of a block of the model at most; `LdaAlgorithm.memory` counts three times as many for deltas
    device: str

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Return the sum of the counts. Topics that were to be counted later are counted now."""
        return add_up(deltas, self.n_topics, kernels("lda.esca", self.device).merge_many)

    def exact_bytes(self, step: int) -> int:
        """Return as many bytes as a block of the model can have."""
        return self.block_bytes

    def pack(self, arrays: Arrays) -> Arrays:
        """Pack rows of counts into a quarter of their size or less."""
        return pack_counts(arrays, "topics", self.device)


def add_up(deltas: Sequence[Arrays], n_topics: int, merge_many: MergeMany) -> Arrays:
    """Add up deltas of the same words, counted or not; return the sum of their counts, which ``merge_many`` adds."""
    tables = [WordCounts(**delta) for delta in deltas if _WORDS not in delta]
    waiting = [delta for delta in deltas if _WORDS in delta]
    if waiting:
        tables.append(_count(waiting, n_topics))
    return merge_many(tables, n_topics)._asdict()


def _count(deltas: Sequence[Arrays], n_topics: int) -> WordCounts:
    first, stop = deltas[0][_WORDS].tolist()
    chunks = [ChunkTopics(**{name: delta[name] for name in ChunkTopics._fields}) for delta in deltas]
    return count_chunks(chunks, (first, stop), n_topics)
