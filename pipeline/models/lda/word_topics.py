"""Word-topic counts: B in blocks of words, and the deltas of B.

A block has B's sparse rows for consecutive words: ``row_ptr`` (W + 1,) int64, ``topics`` (nnz,) uint16, ascending in
each row, and ``counts`` (nnz,) int32.

The topics of a chunk are counted when the deltas of several chunks are merged. Then most words have topics in many of
the chunks, and one table is written instead of one per chunk. Until then, the delta refers to the chunk's arrays.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ....io.stores.chunk import Chunk
from ....io.stores.store import Arrays
from ....io.words import find_word_ids, merge_vocabularies
from ....kernels.interfaces import EscaKernels
from ....kernels.lda.chunk_counts import ChunkTopics
from ....kernels.lda.counts import WordCounts, copy_ranges, topic_totals
from ....kernels.lda.model import ModelBlock
from ...engine.algorithm import Merge, ModelView, PreviousModel
from ...engine.device import kernels
from ...engine.packing import pack_counts
from ..base.saved import TrainedModel
from ..base.sparse_rows import row_of_each_entry

#: The array of a delta that is not counted yet: its first word, and the one after its last word.
_WORDS = "words"
#: Adds tables of the same words, with this number of topics.


def kernel_block(block: Arrays, shared: Arrays, first_word: int, n_words: int) -> ModelBlock:
    """Return a block of B, together with the totals and the priors, in the form that kernels take."""
    return ModelBlock(
        row_ptr=block["row_ptr"],
        topics=block["topics"],
        counts=block["counts"],
        first=first_word,
        totals=shared["totals"],
        alpha=shared["alpha"],
        beta=float(shared["beta"]),
        n_words=n_words,
    )


def stored_blocks(model: ModelView, bounds: tuple[int, ...]) -> Iterator[Arrays]:
    """Read the blocks of a model one after another."""
    return (model.block(j) for j in range(len(bounds) - 1))


def kernel_blocks(
    model: ModelView, bounds: tuple[int, ...], n_words: int, chunk: Chunk | None = None, first: int = 0
) -> Iterator[ModelBlock]:
    """Read the blocks from number ``first`` on one after another, in the form that kernels take.

    ``bounds`` has the first word of each block. With a chunk, the rows of words that do not occur in it may be empty.
    """
    used = None
    if chunk is not None:
        used = np.zeros(n_words, np.bool_)
        used[chunk.word_ids] = True
    for index in range(first, len(bounds) - 1):
        rows = None
        if used is not None:
            rows = used[bounds[index] : bounds[index + 1]]
        yield kernel_block(model.block(index, rows), model.shared, bounds[index], n_words)


#: Entries of B that are listed at a time. To sort them takes about 40 bytes each.
LISTED_ENTRIES = 1 << 21


class Entries(NamedTuple):
    """Entries of B for consecutive words, one by one."""

    words: np.ndarray  # (nnz,) int64: ids in the whole vocabulary
    topics: np.ndarray  # (nnz,) uint16
    counts: np.ndarray  # (nnz,) int32


def list_entries(blocks: Iterable[Arrays]) -> Iterator[Entries]:
    """Yield the entries of some words at a time. The blocks must be all blocks of a model, in order."""
    first_word = 0
    for block in blocks:
        row_ptr = block["row_ptr"]
        n_pieces = 1 + int(row_ptr[-1]) // LISTED_ENTRIES
        bounds = np.searchsorted(row_ptr, np.linspace(0, row_ptr[-1], n_pieces + 1))
        bounds[-1] = len(row_ptr) - 1
        for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
            part = slice(row_ptr[start], row_ptr[stop])
            words = first_word + start + row_of_each_entry(row_ptr[start : stop + 1])
            yield Entries(words, block["topics"][part], block["counts"][part])
        first_word += len(row_ptr) - 1


def gather_rows(words: np.ndarray, blocks: Iterable[Arrays]) -> Arrays:
    """Return the rows of ``words`` (W,) as one block, in the order of ``words``. A negative id has an empty row.

    The blocks may be read from a store: only one of them is held at a time.
    """
    words = np.asarray(words).astype(np.int64)
    lengths = np.zeros(len(words), np.int64)
    parts = []
    first_word = 0
    for block in blocks:
        stop_word = first_word + len(block["row_ptr"]) - 1
        positions = np.flatnonzero((words >= first_word) & (words < stop_word))
        part = _copy_rows(block, words[positions] - first_word)
        # The rows are copied in two passes, because the size of the result is known only after the last block.
        lengths[positions] = np.diff(part["row_ptr"])
        parts.append((positions, part))
        first_word = stop_word
    row_ptr = np.r_[0, np.cumsum(lengths)]
    topics = np.empty(row_ptr[-1], np.uint16)
    counts = np.empty(row_ptr[-1], np.int32)
    for positions, part in parts:
        starts = part["row_ptr"][:-1]
        targets = row_ptr[positions]
        copy_ranges(part["topics"], part["counts"], starts, topics, counts, targets, lengths[positions])
    return {"row_ptr": row_ptr, "topics": topics, "counts": counts}


def _copy_rows(block: Arrays, rows: np.ndarray) -> Arrays:
    """Return a copy of some rows of a block, so that the block itself can be released."""
    starts = block["row_ptr"][rows]
    lengths = block["row_ptr"][rows + 1] - starts
    row_ptr = np.r_[0, np.cumsum(lengths)]
    topics = np.empty(row_ptr[-1], np.uint16)
    counts = np.empty(row_ptr[-1], np.int32)
    copy_ranges(block["topics"], block["counts"], starts, topics, counts, row_ptr[:-1], lengths)
    return {"row_ptr": row_ptr, "topics": topics, "counts": counts}


def heaviest_entries(
    blocks: Iterable[Arrays], n_topics: int, n_words: int, word_order: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each topic the ``n_words`` words of largest count, and these counts. Equal counts are ordered by word.

    ``word_order`` (V,) is the word of each row of the blocks, by default its number.
    """
    best = Entries(np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32))
    for rows, topics, counts in list_entries(blocks):
        least = 1
        while True:
            # Few counts are large: sorting all would take most of the time.
            kept = np.flatnonzero(counts >= least)
            if np.bincount(topics[kept], minlength=n_topics).min() < max(1, n_words):
                break
            rows, topics, counts = rows[kept], topics[kept], counts[kept]
            least *= 2
        words = rows if word_order is None else word_order[rows]
        found = Entries(*map(np.concatenate, zip(best, (words, topics, counts), strict=True)))
        order = np.lexsort((found.words, -found.counts.astype(np.int64), found.topics))
        topic_ptr = np.searchsorted(found.topics[order], np.arange(n_topics + 1))
        is_kept = np.arange(len(order)) < topic_ptr[found.topics[order]] + n_words
        best = Entries(*(array[order[is_kept]] for array in found))
    topic_ptr = np.searchsorted(best.topics, np.arange(n_topics + 1))
    for own in map(slice, topic_ptr, topic_ptr[1:]):
        yield best.words[own], best.counts[own]


# --- deltas ---


def uncounted(chunk: Chunk, z: np.ndarray, words: tuple[int, int]) -> Arrays:
    """Return a delta for the topics ``z`` (T,) uint16 of a chunk. Only tokens of some words will be counted."""
    topics = ChunkTopics(chunk.group_ptr, chunk.word_ids, chunk.word_ptr, z)
    return topics._asdict() | {_WORDS: np.array(words)}


def counted(delta: Arrays, n_topics: int, esca: EscaKernels) -> Arrays:
    """Return the counts of a delta, whose topics may not be counted yet."""
    return delta if _WORDS not in delta else _count([delta], n_topics, esca)._asdict()


@dataclass(frozen=True)
class TopicCounts(Merge):
    """Adds counts of topics by word, exactly: on a CUDA device if some of them are there."""

    n_topics: int
    block_bytes: int  # of a block of the model at most; `LdaAlgorithm.memory` counts three times as many for deltas
    device: str

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Return the sum of the counts. Topics that were to be counted later are counted now."""
        return add_up(deltas, self.n_topics, kernels("lda.esca", self.device))

    def exact_bytes(self, step: int) -> int:
        """Return as many bytes as a block of the model can have."""
        return self.block_bytes

    def pack(self, arrays: Arrays) -> Arrays:
        """Pack rows of counts into a quarter of their size or less."""
        return pack_counts(arrays, "topics", self.device)


def add_up(deltas: Sequence[Arrays], n_topics: int, esca: EscaKernels) -> Arrays:
    """Add up deltas of the same words, counted or not; return the sum of their counts."""
    tables = [WordCounts(**delta) for delta in deltas if _WORDS not in delta]
    waiting = [delta for delta in deltas if _WORDS in delta]
    if waiting:
        tables.append(_count(waiting, n_topics, esca))
    return esca.merge_many(tables, n_topics)._asdict()


def _count(deltas: Sequence[Arrays], n_topics: int, esca: EscaKernels) -> WordCounts:
    first, stop = deltas[0][_WORDS].tolist()
    chunks = [ChunkTopics(**{name: delta[name] for name in ChunkTopics._fields}) for delta in deltas]
    return esca.count_chunks(chunks, (first, stop), n_topics)


# --- a model that training continues from; words are matched by name, since their ids differ from corpus to corpus ---


class PreviousTopics:
    """The word-topic counts of the model that training continues from. Its blocks are read one at a time."""

    def __init__(self, model: PreviousModel):
        self._model = model
        self._vocabulary = model.vocabulary
        self.shared = model.shared

    def rows(self, vocabulary: pa.Table) -> Arrays:
        """Return the counts of these words as a block. Words that the previous model lacks have empty rows."""
        return gather_rows(find_word_ids(vocabulary["word"], self._vocabulary), self._model.blocks())

    def row_lengths(self, vocabulary: pa.Table) -> np.ndarray:
        """Return the number of topics that each of these words has: (W,) int64."""
        return np.diff(self.rows(vocabulary)["row_ptr"])

    def n_words_outside(self, vocabulary: pa.Table) -> int:
        """Return the number of words that only the previous model has."""
        return int(np.count_nonzero(find_word_ids(self._vocabulary["word"], vocabulary) < 0))

    def totals_outside(self, vocabulary: pa.Table) -> np.ndarray:
        """Return the topic totals of the words that only the previous model has: (K,) int64."""
        totals = self.shared["totals"]
        inside = self.rows(vocabulary)
        return totals - topic_totals(inside["topics"], inside["counts"], len(totals))


def merge_models(new: TrainedModel, old: TrainedModel) -> TrainedModel:
    """Return the new model with the words that only the old one has appended.

    The counts of all other words are in the new model already: training adds them as constants.
    """
    merged = merge_vocabularies(new.vocabulary, old.vocabulary)
    blocks = list(new.blocks)
    if len(merged.only_in_old):
        blocks.append(gather_rows(merged.only_in_old, old.blocks))
    # From here on these totals belong to words of the model itself.
    shared = {name: array for name, array in new.shared.items() if name != "outside_totals"}
    return TrainedModel(blocks, shared, merged.table, new.metadata)
