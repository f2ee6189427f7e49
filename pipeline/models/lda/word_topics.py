"""Word-topic counts B in blocks of words.

A block has B's sparse rows for consecutive words: ``row_ptr`` (W + 1,) int64, ``topics`` (nnz,) uint16, ascending in
each row, and ``counts`` (nnz,) int32.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.store import Arrays
from ....kernels.lda import inference as kernels
from ....kernels.lda.model import ModelBlock
from ...engine.algorithm import ModelView
from ..base.sparse_rows import row_of_each_entry


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
        kernels.copy_ranges(part["topics"], part["counts"], starts, topics, counts, targets, lengths[positions])
    return {"row_ptr": row_ptr, "topics": topics, "counts": counts}


def _copy_rows(block: Arrays, rows: np.ndarray) -> Arrays:
    """Return a copy of some rows of a block, so that the block itself can be released."""
    starts = block["row_ptr"][rows]
    lengths = block["row_ptr"][rows + 1] - starts
    row_ptr = np.r_[0, np.cumsum(lengths)]
    topics = np.empty(row_ptr[-1], np.uint16)
    counts = np.empty(row_ptr[-1], np.int32)
    kernels.copy_ranges(block["topics"], block["counts"], starts, topics, counts, row_ptr[:-1], lengths)
    return {"row_ptr": row_ptr, "topics": topics, "counts": counts}


def top_words(blocks: Iterable[Arrays], n_topics: int, n_words: int) -> list[list[tuple[int, int]]]:
    """Return for each topic the ``n_words`` (word, count) pairs of largest count. Equal counts are ordered by word."""
    best: list[list[tuple[int, int]]] = [[] for _ in range(n_topics)]
    for words, topics, counts in list_entries(blocks):
        order = np.lexsort((words, -counts.astype(np.int64), topics))
        topic_ptr = np.searchsorted(topics[order], np.arange(n_topics + 1))
        for k in range(n_topics):
            last = min(topic_ptr[k] + n_words, topic_ptr[k + 1])
            largest = order[topic_ptr[k] : last]
            best[k] += zip(words[largest].tolist(), counts[largest].tolist(), strict=True)
    # Each group of words contributed its own largest counts.
    return [sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:n_words] for pairs in best]
