"""Non-negative matrix factorisation A (D, V) ≈ H·Wᵀ as an algorithm of the engine: what all losses and solvers share.

H (D, K) is the state: each chunk keeps the rows of its documents. W (V, K) is the model, cut into blocks of rows.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....io.words import find_word_ids
from ....kernels import random
from ....kernels.nmf import hals as nmf
from ....kernels.nmf import products
from ...engine.algorithm import (
    MAX_SHARDS,
    Address,
    Algorithm,
    MemoryEstimate,
    ModelView,
    Needs,
    PreviousModel,
    Shard,
    SweepResult,
)
from ...engine.data import ChunkSize
from ...engine.worker.merging import count_waiting
from ..vectors.similarity import top_indices
from .deltas import FactorSums
from .nndsvd import Fill, begin_bytes, fill_zeros, nndsvd
from .rows import (
    AnyFactor,
    PreparedRows,
    Rows,
    StreamedChunk,
    StreamedFactor,
    add_column_products,
    add_row_products,
    gram_of,
    inverse_document_frequency,
    n_rows_of,
    rows_of,
)

#: Step in the address of the draws of the first W. No real step has this number.
BEGIN = -1
#: Mean of the first rows of new words, as a share of the mean of the known rows. If the new rows were as large, many
#: of them would decide the first H, and change the known components.
NEW_ROWS = 0.01
#: Arrays of a chunk of a corpus that streamed products do not need.
UNREAD = ("words", "word_to_doc_order")
#: Bytes of the rows of a trained factor that are read at a time.
PART_BYTES = 64 << 20
#: Sweeps over the rows of new documents while W is fixed.
FOLD_IN_SWEEPS = 100


@dataclass(frozen=True, kw_only=True)
class Factorization(Algorithm[Corpus | Matrix, PreparedRows]):
    """Base class of the losses.

    A chunk's delta is P, its part of AᵀH for Frobenius' norm, by block; and Q, its part of HᵀH. The shared array S is
    WᵀW. The Kullback-Leibler divergence defines P, Q and S differently.
    """

    name: ClassVar[str] = "nmf"
    #: Module of the kernels that take most of the time of a sweep.
    kernel_module: ClassVar[str] = "nmf.products"
    #: Maximum number of shards.
    most_shards: ClassVar[int] = MAX_SHARDS

    n_components: int
    sweeps: int = 1  # over a factor per epoch
    init: str = "random"
    scale: float = 1.0  # mean of the first random numbers
    weighting: str = "counts"
    dtype: str = "float32"
    tol: float = 1e-4
    seed: int = 0
    continues: bool = False  # whether there is a previous model
    device: str = "cpu"
    n_ranges: int = 1  # see `Needs.ranges`; with more than one, W is not held as a whole

    @property
    def delta_columns(self) -> int:
        """Columns of P."""
        return self.n_components

    def __post_init__(self) -> None:
        """Let products that read W block by block run on the CPU, wherever the run was begun."""
        if self.n_ranges > 1:
            object.__setattr__(self, "device", "cpu")

    def memory(self, data: Corpus | Matrix, chunk: ChunkSize) -> MemoryEstimate:
        """Return the bytes of one sweep, or of the start from singular vectors, if that takes more."""
        item = np.dtype(self.dtype).itemsize
        is_whole = self.n_ranges == 1
        factor = self.swept_rows * self.n_components * item
        copies_of_blocks = 1 if self.n_blocks == 1 else 2
        copies_of_W = copies_of_blocks
        if self.continues:
            copies_of_W += 1
        # Blocks share the Q of a sweep, but each has its own once the sums of two shards are merged.
        gram = 8 * (1 + (self.n_blocks if is_whole else 1)) * self.n_components**2
        scratch = 2 * (4 + item) * chunk.tokens + 16 * self.n_rows + 4 * self.n_components**2 * item
        if not is_whole:
            # Products with all blocks.
            scratch += chunk.documents * self.n_components * item
        if self._starts_from_singular_vectors:
            # The first step also has the array that gives the first H.
            copies_of_W += copies_of_blocks
            scratch = max(scratch, begin_bytes(self.n_rows, chunk.documents, self.n_components))
        return MemoryEstimate(
            # The chunk by row and by column, or by row and in slices, or in both orders.
            data=(24 + 2 * item) * chunk.tokens + 16 * chunk.documents,
            # H before and after the sweep.
            state=2 * chunk.documents * self.n_components * item,
            model=factor * copies_of_W,
            # P of this chunk, P of the shard, and one that is merged; Q, which is in the state if there are ranges.
            delta=3 * self.swept_rows * self.delta_columns * item + (gram if is_whole else 3 * gram),
            scratch=scratch,
            # The chunk by row and by column; H and W before and after a sweep, with their products; P of the shard, and
            # one that is merged; several blocks of W joined; Q.
            device=2 * ((8 + item) * chunk.tokens + 8 * chunk.documents + 8 * self.n_rows)
            + item * self.n_components * (3 * chunk.documents + (4 + copies_of_blocks) * self.n_rows)
            + 3 * gram,
        )

    @property
    def swept_rows(self) -> int:
        """The rows of W that a task holds: all, or those of the largest block."""
        return self.n_rows if self.n_ranges == 1 else int(max(np.diff(self.bounds)))

    def needs(self, data: Corpus | Matrix, n_workers: int) -> Needs:
        """Return the kernels, and the bytes of the P that wait to be merged, except for the one in `memory`."""
        P = self.swept_rows * self.delta_columns * np.dtype(self.dtype).itemsize
        return Needs(
            kernels={self.kernel_module},
            device=self.device,
            kept=P * max(0, count_waiting(min(len(data.chunks), self.most_shards)) - 1),
            shards=self.most_shards,
            ranges=self.n_ranges,
        )

    @property
    def merge(self) -> FactorSums:
        """Sums of P and Q."""
        return FactorSums(self.device)

    # --- before the first sweep ---

    def begin(self, data: Corpus | Matrix, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first blocks of W."""
        if not self._starts_from_singular_vectors:
            for block in blocks:
                yield self.first_block(data, block, previous)
            return
        shared = self.begin_shared(data, None)

        exact = replace(self, dtype="float64")

        def chunks() -> Iterator[PreparedRows]:
            return (exact.streamed_chunk(data, index, shared) for index in range(len(data.chunks)))

        read = nndsvd(chunks, self.n_rows, self.n_components, self._fill)
        for block in blocks:
            yield read(self.bounds[block], self.bounds[block + 1], self.dtype)

    @property
    def _fill(self) -> Fill:
        """How zeros of singular vectors are filled."""
        return Fill(self.init, self.scale**2 * self.n_components, self.seed)

    def first_block(self, data: Corpus | Matrix, block: int, previous: PreviousModel | None) -> Arrays:
        """Return the first arrays of a block: random rows of W, or those of the previous model.

        With a previous model, ``seen`` approximates what the rows that it was trained on would add to P.
        """
        if previous is not None:
            W = self._previous_rows(previous, data, block)
            return {"W": W, "seen": self.explained(W, previous.shared["Q"]).astype(self.dtype)}
        return {"W": self._random_rows(block, self.scale)}

    def _random_rows(self, block: int, mean: float) -> np.ndarray:
        """Return a block of W (rows, K) with numbers drawn uniformly from 0 to twice ``mean``."""
        first = self.bounds[block]
        W = np.empty((self.bounds[block + 1] - first, self.n_components), self.dtype)
        nmf.fill_uniform(random.key(self.seed, BEGIN, 0), first, W, 2 * mean)
        return W

    def _previous_rows(self, previous: PreviousModel, data: Corpus | Matrix, block: int) -> np.ndarray:
        """Return a block of W (rows, K): the previous model's rows, and small random ones for words that are new.

        The previous model is read one block at a time.
        """
        first = self.bounds[block]
        stop = self.bounds[block + 1]
        if isinstance(data, Corpus):
            ids = find_word_ids(data.vocabulary["word"].slice(first, stop - first), previous.vocabulary)
        else:
            ids = np.arange(first, stop)
        known = np.zeros(len(ids), bool)
        values = np.zeros((len(ids), self.n_components), self.dtype)
        total = 0.0
        size = 0
        old_first = 0
        for arrays in previous.blocks():
            W = arrays["W"]
            here = (ids >= old_first) & (ids < old_first + len(W))
            values[here] = W[ids[here] - old_first]
            known |= here
            total += float(W.sum(dtype=np.float64))
            size += W.size
            old_first += len(W)
        rows = self._random_rows(block, NEW_ROWS * total / max(1, size))
        rows[known] = values[known]
        return rows

    @property
    def _starts_from_singular_vectors(self) -> bool:
        return self.init != "random" and not self.continues

    def begin_shared(self, data: Corpus | Matrix, previous: PreviousModel | None) -> Arrays:
        """Return the weights of words, and Q of the rows that the previous model was trained on."""
        shared: Arrays = {}
        if previous is not None:
            shared["seen"] = previous.shared["Q"]
        if self.weighting == "tfidf":
            assert isinstance(data, Corpus)
            shared["idf"] = inverse_document_frequency(data, previous)
        return shared

    def load_chunk(self, data: Corpus | Matrix, index: int, model: ModelView) -> PreparedRows:
        """Read a chunk in the form that sweeps take."""
        if self.n_ranges > 1:
            return self.streamed_chunk(data, index, model.shared)
        return self.prepared(self.rows(data, index, model.shared))

    def prepared(self, rows: Rows) -> PreparedRows:
        """Return rows in the form that sweeps take."""
        return products.sparse_matrix(rows, self.n_rows) if isinstance(rows, products.SparseRows) else rows

    def streamed_chunk(self, data: Corpus | Matrix, index: int, shared: Arrays) -> PreparedRows:
        """Read a chunk in the form for products with a block of a factor. Dense rows stay as they are."""
        if isinstance(data, Corpus) and "idf" not in shared:
            chunk = data.read_chunk(index, UNREAD)
            return StreamedChunk(chunk, chunk.n_documents, self.dtype)
        rows = self.rows(data, index, shared)
        if isinstance(rows, np.ndarray):
            return rows
        return StreamedChunk(products.transposed(rows, self.n_rows), len(rows.indptr) - 1, self.dtype)

    def recut_block(self, arrays: Arrays, block: int) -> Arrays:
        """Set the number of a block's first row."""
        if "first_row" in arrays or self.n_blocks > 1:
            return arrays | {"first_row": np.int64(self.bounds[block])}
        return arrays

    def factor(self, model: ModelView, name: str) -> AnyFactor:
        """Return the rows of an array of all blocks (V, K)."""
        if self.n_ranges == 1:
            return model.joined(name)
        return StreamedFactor(self.bounds, lambda block: model.block(block)[name])

    def rows(self, data: Corpus | Matrix, index: int, shared: Arrays) -> Rows:
        """Read the rows of a chunk."""
        return rows_of(data.read_chunk(index), shared.get("idf"), self.dtype)

    # --- what a loss defines ---

    @abstractmethod
    def gram(self, W: np.ndarray) -> np.ndarray:
        """Return S of rows of W. The S of all rows is the sum over the blocks."""

    @abstractmethod
    def explained(self, W: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return what rows of A add to P if they equal H·Wᵀ, given their Q."""

    @abstractmethod
    def norm(self, rows: Rows) -> np.float64:
        """Return the number that the error of these rows is compared with."""

    @abstractmethod
    def fold_in(
        self, A: Rows | PreparedRows, W: AnyFactor, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS
    ) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows while W is fixed, and their error, in the unit of `norm`."""

    def add_columns(self, A: PreparedRows, H: np.ndarray, block: int, model: ModelView, P: np.ndarray) -> None:
        """Add AᵀH of the words of a block to its P (rows, K), for H (D, K)."""
        add_column_products(A, self.bounds[block], self.bounds[block + 1], H, P)

    # --- what sweeps of all losses use ---

    def range_deltas(
        self, A: PreparedRows, H: np.ndarray, Q: np.ndarray, shard: Shard, model: ModelView
    ) -> list[Arrays]:
        """Return P of the shard so far for the words of a range, which is one block, and Q."""
        (block,) = shard.blocks
        rows = self.bounds[block + 1] - self.bounds[block]
        P = np.zeros((rows, H.shape[1]), H.dtype) if shard.deltas is None else shard.deltas[0]["P"]
        self.add_columns(A, H, block, model, P)
        return [{"P": P, "Q": Q}]

    def sweep_later_range(
        self, model: ModelView, chunk: PreparedRows, state: Arrays | None, shard: Shard
    ) -> SweepResult:
        """Return P of the words of another range, and Q, which the first range has computed."""
        assert state is not None
        return SweepResult(None, self.range_deltas(chunk, state["H"], state["Q"], shard, model), {})

    def first_rows(self, model: ModelView, chunk: PreparedRows, address: Address) -> np.ndarray:
        """Return the H (D, K) of a chunk before its first sweep."""
        if self.continues:
            W = self.factor(model, "W")
            return self.fold_in(chunk, W, gram_of(W, self.gram))[0]
        if "start" not in model.block(0):
            return self.random_first_rows(n_rows_of(chunk), address)
        H = np.zeros((n_rows_of(chunk), self.n_components), self.dtype)
        add_row_products(chunk, self.factor(model, "start"), H)
        fill_zeros(H, self._fill, 1 + address.chunk)
        return H

    def random_first_rows(self, n: int, address: Address) -> np.ndarray:
        """Return an H (n, K) of random numbers."""
        H = np.zeros((n, self.n_components), self.dtype)
        nmf.fill_uniform(random.key(*address), 0, H, 2 * self.scale)
        return H


def parts_of_rows(W: np.ndarray) -> Iterator[np.ndarray]:
    """Yield some rows of a factor after others, because it may be larger than memory."""
    step = max(1, PART_BYTES // max(1, W[:1].nbytes))
    return (W[first : first + step] for first in range(0, len(W), step))


def heaviest_rows(W: np.ndarray, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each column of a factor (V, K), the numbers of the rows of its n largest entries, and these entries.

    Of equal entries, the first rows come first.
    """
    found = [(np.empty(0, np.int64), np.empty(0, W.dtype)) for _ in range(W.shape[1])]
    first = 0
    for rows in parts_of_rows(W):
        for k, column in enumerate(np.ascontiguousarray(rows.T)):
            own = top_indices(column, n)
            numbers = np.concatenate([found[k][0], first + own])
            entries = np.concatenate([found[k][1], column[own]])
            best = top_indices(entries, n)
            found[k] = numbers[best], entries[best]
        first += len(rows)
    return found


def component_sizes(W: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the share of each component in H·Wᵀ, (K,) float64, for W (V, K).

    ``Q`` is HᵀH (K, K), or the sums of H's columns (K,) for the Kullback-Leibler divergence.
    """
    total = np.zeros(W.shape[1])
    for rows in parts_of_rows(W):
        total += np.sum(rows if Q.ndim == 1 else np.square(rows, dtype=np.float64), axis=0, dtype=np.float64)
    sizes = Q * total if Q.ndim == 1 else np.sqrt(np.diag(Q) * total)
    return sizes / max(float(sizes.sum()), np.finfo(float).tiny)


def scaled_penalties(
    alpha_W: float, alpha_H: float | str, l1_ratio: float, D: int, V: int
) -> tuple[float, float, float, float]:
    """Return ℓ1 and ℓ2 of W, then ℓ1 and ℓ2 of H, from scikit-learn's parameters.

    scikit-learn's W is our H, the factor of the rows, and its penalty is scaled by the number of columns.
    """
    weight_of_W = D * (alpha_W if alpha_H == "same" else float(alpha_H))
    weight_of_H = alpha_W * V
    return weight_of_W * l1_ratio, weight_of_W * (1 - l1_ratio), weight_of_H * l1_ratio, weight_of_H * (1 - l1_ratio)
