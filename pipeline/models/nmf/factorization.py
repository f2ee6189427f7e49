"""Non-negative matrix factorisation A (D, V) ≈ H·Wᵀ as an algorithm of the engine: what all losses and solvers share.

H (D, K) is the state: each chunk keeps the rows of its documents. W (V, K) is the model, cut into blocks of rows.
"""

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....io.text.vocabulary import find_word_ids
from ....kernels import random
from ....kernels.nmf import hals as nmf
from ....kernels.nmf import products
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Metrics, ModelView, PreviousModel
from ...engine.data import ChunkSize
from ...engine.device import kernels
from ...engine.worker.merging import count_waiting
from ...topics import WordGroup
from ..base.similarity import top_indices
from .nndsvd import fill_zeros, nndsvd
from .rows import PreparedRows, Rows, inverse_document_frequency, n_rows_of, prepare, rows_of

#: Step in the address of the draws of the first W. No real step has this number.
BEGIN = -1
#: Mean of the first rows of new words, as a share of the mean of the known rows. If the new rows were as large, many
#: of them would decide the first H, and change the known components.
NEW_ROWS = 0.01
#: Sweeps over the rows of new documents while W is fixed.
FOLD_IN_SWEEPS = 100
#: Components that `describe` shows, and words of each.
DESCRIBED = 24
DESCRIBED_WORDS = 8


@dataclass(frozen=True, kw_only=True)
class Factorization(Algorithm[Corpus | Matrix, PreparedRows]):
    """Base class of the losses.

    A chunk's delta is P, its part of AᵀH for Frobenius' norm, by block; and Q, its part of HᵀH. The shared array S is
    WᵀW. The Kullback-Leibler divergence defines P, Q and S differently.
    """

    name: ClassVar[str] = "nmf"
    kernel_module: ClassVar[str] = "nmf.products"
    size_hint: ClassVar[str] = "lower n_components, cut the model with n_blocks"
    device_chunk_tokens: ClassVar[int] = 1 << 19

    n_components: int
    sweeps: int = 1  # over a factor per epoch
    init: str = "random"
    scale: float = 1.0  # mean of the first random numbers
    weighting: str = "counts"
    dtype: str = "float32"
    tol: float = 1e-4
    seed: int = 0
    continues: bool = False  # whether there is a previous model

    def memory(self, data: Corpus | Matrix, chunk: ChunkSize) -> MemoryEstimate:
        """Return the bytes of one sweep."""
        item = np.dtype(self.dtype).itemsize
        factor = self.n_rows * self.n_components * item
        copies_of_blocks = 1 if self.n_blocks == 1 else 2
        copies_of_W = copies_of_blocks
        if self.continues:
            copies_of_W += 1
        # Blocks share the Q of a sweep, but each has its own once the sums of two shards are merged.
        gram = 8 * (1 + self.n_blocks) * self.n_components**2
        return MemoryEstimate(
            # The chunk by row and by column, or by row and in slices.
            data=(24 + 2 * item) * chunk.tokens + 16 * chunk.documents,
            # H before and after the sweep.
            state=2 * chunk.documents * self.n_components * item,
            model=factor * copies_of_W,
            # P of this chunk, P of the shard, and one that is merged; Q.
            delta=3 * factor + gram,
            scratch=2 * (4 + item) * chunk.tokens + 16 * self.n_rows + 4 * self.n_components**2 * item,
            # The chunk by row and by column; H and W before and after a sweep, with their products; P of the shard, and
            # one that is merged; several blocks of W joined; Q.
            device=2 * ((8 + item) * chunk.tokens + 8 * chunk.documents + 8 * self.n_rows)
            + item * self.n_components * (3 * chunk.documents + (4 + copies_of_blocks) * self.n_rows)
            + 3 * gram,
        )

    def swept_memory(self, data: Corpus | Matrix, n_workers: int) -> int:
        """Return the bytes of the P that wait to be merged, except for the last one, which `memory` includes."""
        factor = self.n_rows * self.n_components * np.dtype(self.dtype).itemsize
        return factor * max(0, count_waiting(self.count_shards(data)) - 1)

    # --- before the first sweep ---

    def begin(self, data: Corpus | Matrix, block: int, previous: PreviousModel | None) -> Arrays:
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

    def begin_ranges(self) -> list[range]:
        """Return one range of all blocks if they start from the same singular vectors, else one range per block."""
        if self._starts_from_singular_vectors:
            return [range(self.n_blocks)]
        return super().begin_ranges()

    def begin_blocks(self, data: Corpus | Matrix, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first blocks of W. Singular vectors are computed once for all of them."""
        if not self._starts_from_singular_vectors:
            yield from super().begin_blocks(data, blocks, previous)
            return
        start = nndsvd(data, self)
        for block in blocks:
            rows = slice(self.bounds[block], self.bounds[block + 1])
            yield {name: array[rows] for name, array in start.items()}

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
        return prepare(self.rows(data, index, model.shared), self.n_rows)

    def rows(self, data: Corpus | Matrix, index: int, shared: Arrays) -> Rows:
        """Read the rows of a chunk."""
        return rows_of(data.read_chunk(index), shared.get("idf"), self.dtype)

    def scored_rows(self, model: ModelView, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first ``n_rows`` rows of W, and their S."""
        W = model.joined("W")
        if n_rows >= len(W):
            return W, model.shared["S"]
        return W[:n_rows], self.gram(W[:n_rows])

    # --- what a loss defines ---

    @abstractmethod
    def gram(self, W: np.ndarray) -> np.ndarray:
        """Return S of rows of W. The S of all rows is the sum over the blocks."""

    @abstractmethod
    def explained(self, W: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return what rows of A add to P if they equal H·Wᵀ, given their Q."""

    @abstractmethod
    def fold_in(self, A: Rows, W: np.ndarray, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows while W is fixed, and a number from which `score` computes their error."""

    # --- what sweeps of all losses use ---

    def first_rows(self, model: ModelView, A: Rows, address: Address) -> np.ndarray:
        """Return the H (D, K) of a chunk before its first sweep."""
        if self.continues:
            W = model.joined("W")
            return self.fold_in(A, W, self.gram(W))[0]
        if "start" not in model.block(0):
            return self.random_first_rows(n_rows_of(A), address)
        H = np.zeros((n_rows_of(A), self.n_components), self.dtype)
        start = model.joined("start")
        if isinstance(A, products.SparseRows):
            products.add_products(A, start, H)
        else:
            H[:] = A @ start
        fill_zeros(H, self, 1 + address.chunk)
        return H

    def random_first_rows(self, n: int, address: Address) -> np.ndarray:
        """Return an H (n, K) of random numbers."""
        H = np.zeros((n, self.n_components), self.dtype)
        nmf.fill_uniform(random.key(*address), 0, H, 2 * self.scale)
        return H

    def merge_many(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add P in place if the deltas may be overwritten."""
        return reduce(add_in_place if may_overwrite else self.merge, deltas)

    # --- evaluation ---

    def describe(self, model: ModelView, data: Corpus | Matrix) -> list[WordGroup]:
        """Return the heaviest words of the first components; no groups for a matrix, which has no words."""
        if not isinstance(data, Corpus):
            return []
        W = model.joined("W")
        names = data.vocabulary["word"]
        groups = []
        for k, column in enumerate(W.T[:DESCRIBED]):
            words = [names[int(word)].as_py() for word in top_indices(column, DESCRIBED_WORDS)]
            groups.append(WordGroup(str(k), words))
        return groups

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether the last epoch reduced the error by less than the share ``tol`` of it.

        Penalties count: with them, the error alone may rise while training goes on.
        """
        if len(history) < 2 or self.tol == 0:
            return False
        before, after = (metrics.get("penalised_error", metrics["error"]) for metrics in history[-2:])
        return self._decrease(before, after) < self.tol * before

    def _decrease(self, before: float, after: float) -> float:
        return before - after


def add_in_place(left: Arrays, right: Arrays) -> Arrays:
    """Add two deltas, P in place. The deltas of all blocks have the same Q, so its sum is a new array."""
    np.add(left["P"], right["P"], out=left["P"])
    return {"P": left["P"], "Q": left["Q"] + right["Q"]}


def shard_sums(
    shape: tuple[int, ...], like: np.ndarray, deltas: list[Arrays] | None, device: str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Return P and Q of the shard so far, to which a sweep adds: P as ``like`` (V, K), Q float64 of this shape.

    They are zero for the shard's first chunk. All chunks add to the same arrays. Those of a CUDA device are on the
    device from the beginning.
    """
    if deltas is None:
        return kernels("nmf.sums", device).zero_sums(len(like), shape, like.shape[1], like.dtype)
    # `cut_sums` has cut P into the blocks' deltas, without a copy.
    P = deltas[0]["P"].base
    assert P is not None
    return P, deltas[0]["Q"]


def cut_sums(bounds: tuple[int, ...], P: np.ndarray, Q: np.ndarray) -> list[Arrays]:
    """Return the deltas of the blocks: each has its rows of P, as a view, and Q."""
    return [{"P": P[first:stop], "Q": Q} for first, stop in itertools.pairwise(bounds)]


def component_sizes(W: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the share of each component in H·Wᵀ, (K,) float64, for W (V, K).

    ``Q`` is HᵀH (K, K), or the sums of H's columns (K,) for the Kullback-Leibler divergence.
    """
    W = W.astype(np.float64)
    sizes = Q * W.sum(axis=0) if Q.ndim == 1 else np.sqrt(np.diag(Q)) * np.linalg.norm(W, axis=0)
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
