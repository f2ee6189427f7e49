"""Applying a trained LDA model to documents: folding in, document completion, left-to-right evaluation."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ....io.stores.store import Arrays
from ....kernels.lda import esca as lda
from ....kernels.lda import inference as kernels
from ....kernels.lda.left_to_right import left_to_right as left_to_right_kernel
from ..base.document_completion import select_tokens, split_mask
from ..base.sparse_rows import row_of_each_entry


class Table(NamedTuple):
    """A trained model as inference takes it: B by block, and what the blocks share."""

    blocks: Iterable[Arrays]  # more than once only by left_to_right
    shared: Arrays
    n_words: int  # V, which may count words that no block has

    def of(self, words: np.ndarray) -> tuple[np.ndarray, kernels.WordWeights]:
        """Number the words that occur among ``words`` (T,): return these numbers, (T,) uint32, and the words' rows."""
        seen = np.zeros(self.n_words, bool)
        seen[words] = True
        number = np.cumsum(seen, dtype=np.uint32) - np.uint32(1)
        block = rows_of(np.flatnonzero(seen), self.blocks)
        return number[words], kernels.word_weights(kernel_model(block, self.shared, 0, self.n_words))


def kernel_model(block: Arrays, shared: Arrays, first: int, n_words: int) -> lda.ModelBlock:
    """Return a block of B and what blocks share as the kernels take them."""
    return lda.ModelBlock(
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
        starts = block["row_ptr"][words[mine] - first]
        lengths[mine] = block["row_ptr"][words[mine] - first + 1] - starts
        places = np.r_[0, np.cumsum(lengths[mine])]
        part = np.empty(places[-1], np.uint16), np.empty(places[-1], np.int32)
        kernels.copy_ranges(block["topics"], block["counts"], starts, *part, places[:-1], lengths[mine])
        parts.append((mine, places[:-1], part))
        first = behind
    row_ptr = np.r_[0, np.cumsum(lengths)]
    whole = np.empty(row_ptr[-1], np.uint16), np.empty(row_ptr[-1], np.int32)
    for mine, places, part in parts:
        kernels.copy_ranges(*part, places, *whole, row_ptr[mine], lengths[mine])
    return {"row_ptr": row_ptr, "topics": whole[0], "counts": whole[1]}


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, table: Table) -> np.ndarray:
    """Estimate documents' topics: (D, K) float32, rows sum to one."""
    return kernels.fold_in(doc_ptr, *table.of(words))


def complete(doc_ptr: np.ndarray, words: np.ndarray, table: Table, keys: np.ndarray) -> Arrays:
    """Document completion: a random half of each document estimates its topics, the other half is scored."""
    local, rows = table.of(words)
    first_half = split_mask(doc_ptr, keys)
    given = select_tokens(doc_ptr, local, first_half)
    scored = select_tokens(doc_ptr, local, ~first_half)
    total = kernels.score_completion(given, scored, rows)
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
        phi[row_of_each_entry(rows["row_ptr"]), rows["topics"]] += rows["counts"]
        total += left_to_right_kernel(local.astype(np.int64), phi / norm, alpha, key, particles)
    return {"log_likelihood": np.float64(total), "tokens": np.int64(doc_ptr[-1])}
