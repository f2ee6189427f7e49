"""A factor that is larger than the memory of a worker: it is read block by block for each product.

A block is a range of words. The entries of a chunk are ordered by word, so those of a block are a slice. Each sum adds
its products in the order of the words, as with a factor in memory, so the bits are the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ....io.stores.store import Arrays
from ....kernels.nmf import products
from ....kernels.nmf.sums import gram_matrix
from .rows import PreparedRows, Rows, StreamedChunk, by_row

#: Bounds of blocks are multiples of this number of rows, if possible: whole groups of rows of `hals.sweep_rows` and of
#: `gram_matrix`. Sums over the rows then have the same parts, however many blocks there are.
GROUP_ROWS = 3072


@dataclass(frozen=True)
class StreamedFactor:
    """The rows of a factor (V, K). ``read`` reads those of a block."""

    bounds: tuple[int, ...]
    read: Callable[[int], np.ndarray]

    def __len__(self) -> int:
        return self.bounds[-1]

    def blocks(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield the first row of each block, the one after its last row, and the rows."""
        for block, (first, stop) in enumerate(pairwise(self.bounds)):
            yield first, stop, self.read(block)

    def first(self, n_rows: int) -> "StreamedFactor":
        """Return the first rows only."""
        bounds = (*(bound for bound in self.bounds if bound < n_rows), n_rows)
        return StreamedFactor(bounds, lambda block: self.read(block)[: bounds[block + 1] - bounds[block]])


#: The rows of a factor, in memory or not.
AnyFactor = np.ndarray | StreamedFactor


def add_row_products(A: PreparedRows | Rows, W: AnyFactor, R: np.ndarray) -> None:
    """Add A·W to R (D, K). With a streamed factor, A is a streamed chunk."""
    if isinstance(W, StreamedFactor):
        assert isinstance(A, StreamedChunk)
        for first, stop, rows in W.blocks():
            products.add_transposed_products(A.part(first, stop), rows, R)
        return
    assert not isinstance(A, StreamedChunk)
    dense_or_sparse: Rows = A if isinstance(A, products.SparseRows) else by_row(A)
    if isinstance(dense_or_sparse, products.SparseRows):
        products.add_products(dense_or_sparse, W, R)
    else:
        R += dense_or_sparse @ W


def gram_of(W: AnyFactor, gram: Callable[[np.ndarray], np.ndarray] = gram_matrix) -> np.ndarray:
    """Return S of a factor: the sum of the S of its blocks."""
    if isinstance(W, np.ndarray):
        return gram(W)
    return np.sum([gram(rows) for _, _, rows in W.blocks()], axis=0)


def range_sums(A: StreamedChunk, H: np.ndarray, words: tuple[int, int], deltas: list[Arrays] | None) -> Arrays:
    """Return P of the words of a block: AᵀH, added to that of the shard's earlier chunks."""
    first, stop = words
    P = np.zeros((stop - first, H.shape[1]), H.dtype) if deltas is None else deltas[0]["P"]
    products.add_products(A.part(first, stop), H, P)
    return {"P": P}


def aligned_bounds(n_rows: int, n_blocks: int) -> tuple[int, ...]:
    """Return the bounds of blocks with about the same number of whole groups of rows. There may be fewer blocks."""
    n_groups = -(-n_rows // GROUP_ROWS)
    cuts = np.linspace(0, n_groups, min(n_blocks, n_groups) + 1).astype(int) * GROUP_ROWS
    return (*(int(cut) for cut in cuts[:-1]), n_rows)
