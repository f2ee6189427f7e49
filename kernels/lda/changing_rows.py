"""Rows of A and B that change while a chunk is swept, for gibbs.py.

The counts of `counts` are packed: a row has exactly its entries. Here, a row also has a free place for each topic that
the tokens of the chunk may bring. Entries in use are at its beginning, in no particular order.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel, read_only_tuple
from ..simd.lanes import LANES
from .counts import MAX_TOPICS, SIXTEEN, DocumentCounts, WordCounts
from .model import ModelBlock, TokenOrder, inlined

#: The bits of a packed entry of A that hold its count.
LOW = np.uint32(0xFFFF)
ZERO = np.float32(0)
ONE = np.float32(1)


class DocumentRows(NamedTuple):
    """Sparse rows of A that change. A row has a place for each topic that its tokens can have."""

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of eight
    lengths: np.ndarray  # (D,) int64: entries in use
    topics: np.ndarray  # (n,) uint32; K in places that are not in use, so that they are never a token's topic
    counts: np.ndarray  # (n,) float32; 0 in places that are not in use


class WordRows(NamedTuple):
    """Sparse rows of B (W words) that change. A row has a place for each topic it can get in the chunk."""

    row_ptr: np.ndarray  # (W + 1,) int64
    lengths: np.ndarray  # (W,) int64: entries in use
    topics: np.ndarray  # (n,) uint16
    counts: np.ndarray  # (n,) int32


class Word(NamedTuple):
    """Row B_v of the word v whose tokens are drawn, with what the draws need of it. Counts follow each draw."""

    phi: np.ndarray  # (K + 8,) float32, zeros from K on
    counts: np.ndarray  # (K,) int32: its row of B
    place: np.ndarray  # (K,) int32: the place of each of its topics in ``topics``, or -1
    topics: np.ndarray  # (K + 8,) int32: its topics, those without tokens included
    weights: np.ndarray  # (K + 8,) float32: α_k B_vk / (N_k + Vβ) of these topics, then zeros


@kernel
def padded(n: int) -> int:
    """Return a number of topics (int) rounded up to whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@kernel
def padded_to_four(n: int) -> int:
    """Return a number of topics (int) rounded up to whole fours of vectors."""
    return (n + 4 * LANES - 1) // (4 * LANES) * (4 * LANES)


@kernel
def count_dense(docs: np.ndarray, z: np.ndarray, n_documents: int, width: int) -> np.ndarray:
    """Count topics ``z`` (T,) uint16 of the documents ``docs`` (T,): flat float32, ``width`` numbers per document."""
    A = np.zeros(n_documents * width, np.float32)
    for i in range(len(z)):
        A[np.int64(docs[i]) * width + z[i]] += ONE
    return A


@kernel
def growable_documents(doc_ptr: np.ndarray, rows: DocumentCounts, n_topics: int) -> DocumentRows:
    """Copy rows of A to rows with a place for each topic that the document's tokens can have.

    ``doc_ptr`` (D + 1,) int64 counts the tokens of the documents.
    """
    D = len(doc_ptr) - 1
    row_ptr = np.zeros(D + 1, np.int64)
    for d in range(D):
        places = min(doc_ptr[d + 1] - doc_ptr[d], n_topics)
        row_ptr[d + 1] = row_ptr[d] + padded(places)
    lengths = np.zeros(D, np.int64)
    topics = np.full(row_ptr[-1], n_topics, np.uint32)
    counts = np.zeros(row_ptr[-1], np.float32)
    place = np.full(n_topics, -1, np.int64)
    for d in range(D):
        start = row_ptr[d]
        end = start
        for entry in rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]]:
            if entry & LOW == 0:
                continue
            k = np.int64(entry >> SIXTEEN) & (MAX_TOPICS - 1)
            # A topic of many tokens has several packed entries.
            if place[k] < 0:
                place[k] = end
                topics[end] = k
                end += 1
            counts[place[k]] += np.float32(entry & LOW)
        for j in range(start, end):
            place[topics[j]] = -1
        lengths[d] = end - start
    return DocumentRows(row_ptr, lengths, topics, counts)


@kernel
def growable_words(order: TokenOrder, model: ModelBlock) -> WordRows:
    """Copy the rows of B, (W, K), to rows with a place for each topic that a word can have in this chunk."""
    n_topics = len(model.alpha)
    W = len(model.row_ptr) - 1
    places = np.zeros(W, np.int64)
    for s in range(len(order.word_ids)):
        word = np.int64(order.word_ids[s]) - model.first
        if 0 <= word < W:
            places[word] += order.word_ptr[s + 1] - order.word_ptr[s]
    row_ptr = np.zeros(W + 1, np.int64)
    lengths = model.row_ptr[1:] - model.row_ptr[:-1]
    for row in range(W):
        # The words that the chunk lacks are not read.
        if places[row] == 0:
            lengths[row] = 0
        row_ptr[row + 1] = row_ptr[row] + min(places[row] + lengths[row], n_topics)
    topics = np.empty(row_ptr[-1], np.uint16)
    counts = np.empty(row_ptr[-1], np.int32)
    for row in range(W):
        for j in range(lengths[row]):
            topics[row_ptr[row] + j] = model.topics[model.row_ptr[row] + j]
            counts[row_ptr[row] + j] = model.counts[model.row_ptr[row] + j]
    return WordRows(row_ptr, lengths, topics, counts)


@inlined
def move_in_row(
    topics: np.ndarray, tokens: np.ndarray, start: int, length: int, old: int, new: int, n_topics: int
) -> int:
    """Move one token of a document from one topic to another; return the new length of its row of A.

    Entries in use stay at the beginning of the row.
    """
    end = start + length
    at = start
    while topics[at] != old:
        at += 1
    tokens[at] -= ONE
    if tokens[at] == ZERO:
        end -= 1
        topics[at] = topics[end]
        tokens[at] = tokens[end]
        topics[end] = n_topics
        tokens[end] = ZERO
    at = start
    while at < end and topics[at] != new:
        at += 1
    if at == end:
        topics[end] = new
        end += 1
    tokens[at] += ONE
    return end - start


# --- the current word ---


@kernel
def new_word(n_topics: int) -> Word:
    """Return scratch for one word after another; ``n_topics`` (int) is K."""
    phi = np.zeros(n_topics + LANES, np.float32)
    counts = np.zeros(n_topics, np.int32)
    place = np.full(n_topics, -1, np.int32)
    topics = np.zeros(n_topics + LANES, np.int32)
    return Word(phi, counts, place, topics, np.zeros(n_topics + LANES, np.float32))


@kernel
def open_word(word: Word, B: WordRows, row: int) -> int:
    """Read the row (int) of B of a word; return the number of its topics (int)."""
    # Local names, because each access to an array inside a tuple changes its reference count.
    counts = word.counts
    place = word.place
    topics = word.topics
    row_topics = B.topics
    row_counts = B.counts
    start = B.row_ptr[row]
    n = B.lengths[row]
    for j in range(n):
        k = np.int64(row_topics[start + j])
        counts[k] = row_counts[start + j]
        place[k] = j
        topics[j] = k
    return n


@kernel
def close_word(word: Word, B: WordRows, row: int, n: int) -> None:
    """Write the counts of the current word, which had ``n`` (int) topics, to its row of B, and reset the scratch."""
    counts = word.counts
    place = word.place
    topics = word.topics
    row_topics = B.topics
    row_counts = B.counts
    end = B.row_ptr[row]
    for j in range(n):
        k = topics[j]
        if counts[k] > 0:
            row_topics[end] = k
            row_counts[end] = counts[k]
            end += 1
        counts[k] = 0
        place[k] = -1
    B.lengths[row] = end - B.row_ptr[row]


@inlined
def move(counts: np.ndarray, place: np.ndarray, topics: np.ndarray, N: np.ndarray, old: int, new: int, n: int) -> int:
    """Move one token of the current word from one topic to another; return the number of the word's topics.

    The first arrays are those of `Word`. They are separate arguments, because each access to an array inside a tuple
    changes its reference count, which takes longer than the rest.
    """
    counts[old] -= 1
    counts[new] += 1
    N[old] -= 1
    N[new] += 1
    return add_topic(place, topics, new, n)


@inlined
def add_topic(place: np.ndarray, topics: np.ndarray, new: int, n: int) -> int:
    """Add a topic to the n topics of the current word if it is new; return their number. Arrays are as for `move`."""
    if place[new] < 0:
        place[new] = n
        topics[n] = new
        n += 1
    return n


# --- changes of the model ---


def with_changes(model: ModelBlock, gained: WordCounts, lost: WordCounts, totals: np.ndarray) -> ModelBlock:
    """Return a block of the model with the counts ``gained`` added and ``lost`` subtracted, and with the given N.

    The rows need not be in ascending order for `sweep`, and they are not.
    """
    counts = _with_changes(read_only_tuple(model), read_only_tuple(gained), read_only_tuple(lost))
    return model._replace(row_ptr=counts[0], topics=counts[1], counts=counts[2], totals=totals)


@kernel
def _with_changes(model: ModelBlock, gained: WordCounts, lost: WordCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of `with_changes`: the fields of `WordCounts`."""
    W = len(model.row_ptr) - 1
    row = np.zeros(len(model.alpha), np.int32)
    row_ptr = np.zeros(W + 1, np.int64)
    topics = np.empty(len(model.topics) + len(gained.topics), np.uint16)
    counts = np.empty(len(topics), np.int32)
    end = 0
    for v in range(W):
        start = end
        for j in range(model.row_ptr[v], model.row_ptr[v + 1]):
            row[model.topics[j]] = model.counts[j]
            topics[end] = model.topics[j]
            end += 1
        for j in range(gained.row_ptr[v], gained.row_ptr[v + 1]):
            if row[gained.topics[j]] == 0:
                topics[end] = gained.topics[j]
                end += 1
            row[gained.topics[j]] += gained.counts[j]
        for j in range(lost.row_ptr[v], lost.row_ptr[v + 1]):
            row[lost.topics[j]] -= lost.counts[j]
        used = start
        for j in range(start, end):
            k = topics[j]
            if row[k] > 0:
                topics[used] = k
                counts[used] = row[k]
                used += 1
            row[k] = 0
        end = used
        row_ptr[v + 1] = end
    return row_ptr, topics[:end].copy(), counts[:end].copy()
