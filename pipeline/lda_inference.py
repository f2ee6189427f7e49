"""Applying a trained LDA model to documents: folding in and document completion, some documents at a time."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..io.store import Arrays
from ..kernels import lda, random
from ..kernels.left_to_right import left_to_right as left_to_right_kernel

#: The address of the draws that split held-out documents; it belongs to no epoch.
SPLIT = -1
#: Sweeps over a new document.
FOLD_IN_SWEEPS = 20
#: Bytes of the dense rows of topics that are held at once, at least one document's.
PIECE_BYTES = 16 << 20


class Table(NamedTuple):
    """A trained model as inference takes it: B by block, and what the blocks share."""

    blocks: list[Arrays]
    shared: Arrays
    n_words: int  # V, which may count words that no block has

    def of(self, words: np.ndarray) -> lda.Model:
        """Return the rows of some words (W,), in their order, as one small block."""
        return kernel_model(rows_of(words, self.blocks), self.shared, 0, self.n_words)


def kernel_model(block: Arrays, shared: Arrays, first: int, n_words: int) -> lda.Model:
    """Return a block of B and what blocks share as the kernels take them."""
    return lda.Model(
        block["row_ptr"],
        block["topics"],
        block["counts"],
        first,
        shared["totals"],
        shared["alpha"],
        float(shared["beta"]),
        n_words,
    )


def rows_of(words: np.ndarray, blocks: Iterable[Arrays]) -> Arrays:
    """Gather the rows of B of ``words`` (W,), in their order, from the blocks; an id below 0 has an empty row."""
    words = np.asarray(words).astype(np.int64)
    lengths, parts, first = np.zeros(len(words), np.int64), [], 0
    for block in blocks:
        behind = first + len(block["row_ptr"]) - 1
        mine = np.flatnonzero((words >= first) & (words < behind))
        rows, first = words[mine] - first, behind
        lengths[mine] = np.diff(block["row_ptr"])[rows]
        entries = _ranges(block["row_ptr"][rows], lengths[mine])
        parts.append((mine, block["topics"][entries], block["counts"][entries]))
    row_ptr = np.r_[0, np.cumsum(lengths)]
    topics, counts = np.empty(row_ptr[-1], np.uint16), np.empty(row_ptr[-1], np.int32)
    for mine, *values in parts:
        places = _ranges(row_ptr[mine], lengths[mine])
        topics[places], counts[places] = values
    return {"row_ptr": row_ptr, "topics": topics, "counts": counts}


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate the ranges of these starts and lengths."""
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, table: Table, keys: np.ndarray) -> np.ndarray:
    """Estimate documents' topics: (D, K) float32, rows sum to one."""
    theta = np.empty((len(doc_ptr) - 1, len(table.shared["alpha"])), np.float32)
    for piece in _pieces(theta.shape):
        theta[piece] = _fold_in(*_part(doc_ptr, words, piece), table, keys[piece])
    return theta


def complete(doc_ptr: np.ndarray, words: np.ndarray, table: Table, keys: np.ndarray) -> Arrays:
    """Document completion: a random half of each document estimates its topics, the other half is scored."""
    total = 0.0
    first = split_mask(doc_ptr, keys)
    given, scored = (_pointers(doc_ptr, first), words[first]), (_pointers(doc_ptr, ~first), words[~first])
    for piece in _pieces((len(doc_ptr) - 1, len(table.shared["alpha"]))):
        theta = _fold_in(*_part(*given, piece), table, keys[piece])
        own_ptr, own = _part(*scored, piece)
        used, local = np.unique(own, return_inverse=True)
        total += lda.completion(theta, table.of(used), own_ptr, local.astype(np.uint32))[0]
    return {"log_likelihood": np.float64(total), "tokens": np.int64(len(scored[1]))}


def left_to_right(doc_ptr: np.ndarray, words: np.ndarray, table: Table, keys: np.ndarray, particles: int) -> Arrays:
    """Estimate the likelihood of whole documents, by particles."""
    alpha, total = table.shared["alpha"].astype(np.float64), 0.0
    beta = float(table.shared["beta"])
    norm = table.shared["totals"] + table.n_words * beta
    for d, key in enumerate(keys):
        used, local = np.unique(words[doc_ptr[d] : doc_ptr[d + 1]], return_inverse=True)
        rows = rows_of(used, table.blocks)
        phi = np.full((len(used), len(alpha)), beta)
        phi[np.repeat(np.arange(len(used)), np.diff(rows["row_ptr"])), rows["topics"]] += rows["counts"]
        total += left_to_right_kernel(local.astype(np.int64), phi / norm, alpha, key, particles)
    return {"log_likelihood": np.float64(total), "tokens": np.int64(doc_ptr[-1])}


def _fold_in(doc_ptr: np.ndarray, words: np.ndarray, table: Table, keys: np.ndarray) -> np.ndarray:
    used, local = np.unique(words, return_inverse=True)
    return lda.fold_in(doc_ptr, local.astype(np.uint32), table.of(used), FOLD_IN_SWEEPS, keys)


def _pieces(shape: tuple[int, int]) -> Iterator[slice]:
    """Cut D documents of K topics so that their rows fit in PIECE_BYTES."""
    step = max(1, PIECE_BYTES // (4 * shape[1]))
    return (slice(d, min(d + step, shape[0])) for d in range(0, shape[0], step))


def _part(doc_ptr: np.ndarray, words: np.ndarray, piece: slice) -> tuple[np.ndarray, np.ndarray]:
    ptr = doc_ptr[piece.start : piece.stop + 1]
    return ptr - ptr[0], words[ptr[0] : ptr[-1]]


def split_mask(doc_ptr: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Choose about half of each document's tokens: (T,) bool, a function of the document's key alone."""
    mask = np.empty(int(doc_ptr[-1]), bool)
    for d, key in enumerate(keys):
        tokens = slice(doc_ptr[d], doc_ptr[d + 1])
        mask[tokens] = random.stream(key ^ np.uint64(SPLIT & 0xFFFF), doc_ptr[d + 1] - doc_ptr[d]) >> np.uint64(63) == 1
    return mask


def _pointers(doc_ptr: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.r_[0, np.cumsum(mask)][doc_ptr]
