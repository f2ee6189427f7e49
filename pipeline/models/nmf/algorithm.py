"""FAST-HALS as an algorithm of the engine: rows of H with their documents, W by block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix, SparseRows
from ....io.stores.store import Arrays
from ....io.text.vocabulary import find_word_ids
from ....kernels import random
from ....kernels.nmf import hals as nmf
from ....kernels.nmf import solvers as nmf_solvers
from ....kernels.nmf.tiled import tile_size
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Model, PreviousModel, SweepResult, add
from ...engine.device import kernels
from .nndsvd import fill, singular_start

#: Addresses of draws that belong to no epoch: W before training, and components that come to nothing.
BEGIN, REVIVE = -1, -2
#: Sweeps over the rows of new documents.
FOLD_IN_SWEEPS = 100
#: Share of a step of W that extrapolation adds to the first one, and its factors where the error falls and rises.
MOMENTUM, FASTER, SLOWER = 0.5, 1.05, 1.5
#: Cache for which a tile of W's columns is chosen by equation 11.
CACHE_BYTES = 32 << 20


@dataclass(frozen=True, kw_only=True)
class HALS(Algorithm[Corpus | Matrix, Any]):
    """A (D, V) ≈ H·Wᵀ. State: H by chunk. Model: W by block. Delta: P = AᵀH by block, Q = HᵀH. Shared: S = WᵀW.

    The error is that of the new H and W: ‖A‖² − 2⟨P, W⟩ + ⟨S, Q⟩, all of which an epoch has at hand. With
    ``extrapolate`` block and shared arrays also hold ``ahead``, the point beyond W that the next epoch starts from.
    """

    name: ClassVar[str] = "nmf"
    n_components: int
    solver: str = "hals"
    sweeps: int = 1
    extrapolate: bool = False
    order: str = "separable"
    init: str = "random"
    scale: float = 1.0  # of the first random numbers
    penalties: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # ℓ1 and ℓ2 of W, ℓ1 and ℓ2 of H
    weighting: str = "counts"
    dtype: str = "float32"
    tol: float = 1e-4
    seed: int = 0
    continues: bool = False  # whether there is a previous model

    def memory(self, data: Any, chunk: Any) -> MemoryEstimate:
        """Bytes of one sweep: the chunk, by row and by column; H old and new; W; P of this chunk and of the shard."""
        item = np.dtype(self.dtype).itemsize
        factor = self.n_rows * self.n_components * item
        return MemoryEstimate(
            data=32 * chunk.tokens + 16 * chunk.documents,
            state=2 * chunk.documents * self.n_components * item,
            model=factor * ((1 if self.n_blocks == 1 else 2) + self.continues + 2 * self.extrapolate),
            delta=3 * factor + 16 * self.n_components**2,
            scratch=2 * (4 + item) * chunk.tokens + 16 * self.n_rows + 4 * self.n_components**2 * item,
            # The chunk by row and by column, H, W, P and Q, and products on the way.
            device=2 * (12 * chunk.tokens + 8 * chunk.documents + 8 * self.n_rows)
            + 3 * item * self.n_components * (chunk.documents + self.n_rows)
            + 16 * self.n_components**2,
        )

    def begin(self, data: Corpus | Matrix, block: int, previous: PreviousModel | None) -> Arrays:
        """Return a random W, or the previous model's.

        With a previous model, ``seen`` is the P of the rows that it was trained on, as far as it knows them.
        """
        if previous is not None:
            W = known_rows(previous, data, self, block)
            return {"W": W, "seen": self.explained(W, previous.shared["Q"]).astype(self.dtype)}
        W = np.empty((self.bounds[block + 1] - self.bounds[block], self.n_components), self.dtype)
        nmf.fill_uniform(random.key(self.seed, BEGIN, 0), self.bounds[block], W, 2 * self.scale)
        return {"W": W / np.linalg.norm(W, axis=0) if self.order == "paper" else W}

    @property
    def _starts_from_singular_vectors(self) -> bool:
        return self.init != "random" and not self.continues

    def begin_ranges(self) -> list[range]:
        """All blocks are begun by one task if they start from the same singular vectors."""
        if self._starts_from_singular_vectors:
            return [range(self.n_blocks)]
        return super().begin_ranges()

    def begin_blocks(self, data: Corpus | Matrix, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first blocks of W. Singular vectors are computed once for all of them."""
        if not self._starts_from_singular_vectors:
            yield from super().begin_blocks(data, blocks, previous)
            return
        start = singular_start(data, self)
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
            shared["idf"] = _idf(data, previous)
        return shared

    def summed(self, W: np.ndarray) -> np.ndarray:
        """Return S of W."""
        return gram(W)

    def explained(self, W: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return the P of rows of A that are just HWᵀ, for their Q."""
        return W @ Q

    def load_chunk(self, data: Corpus | Matrix, index: int, model: Model) -> Any:
        """Read a chunk in the form that sweeps take: sparse in both orders, or a dense array (D, V)."""
        A = self.rows(data.read_chunk(index), model.shared)
        if isinstance(A, nmf.SparseRows):
            return nmf.sparse_matrix(A, self.n_rows)
        return A

    def rows(self, chunk: Any, shared: Arrays) -> Any:
        """Return a chunk as the kernels take it: sparse rows, or a dense array (D, V)."""
        if isinstance(chunk, Chunk):
            return word_counts(chunk, shared.get("idf"), self.dtype)
        if isinstance(chunk, SparseRows):
            return nmf.SparseRows(chunk.indptr, chunk.indices, chunk.data.astype(self.dtype, copy=False))
        return chunk.data.astype(self.dtype, copy=False)

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Update the chunk's rows of H, then add up P and Q."""
        A = _by_row(chunk)
        W = _joined([_start(model.block(j)) for j in range(self.n_blocks)])
        known = model.shared.get("ahead", model.shared.get("S"))
        S = self.summed(W) if known is None else known
        H = self._first(model, A, address) if state is None else state["H"].copy()
        P, Q = np.zeros_like(W), np.zeros_like(S)
        self._update_rows(chunk, W, S, H, P, Q)
        Q = nmf.symmetric(Q)
        found = [{"P": P[i:j], "Q": Q} for i, j in zip(self.bounds[:-1], self.bounds[1:], strict=True)]
        if deltas is not None:
            found = [self.merge(a, b) for a, b in zip(deltas, found, strict=True)]
        entries = A.data if isinstance(A, nmf.SparseRows) else A.reshape(-1)
        return SweepResult({"H": H}, found, {"norm": np.float64(nmf.inner_product(entries, entries))})

    def _update_rows(self, A: Any, W: np.ndarray, S: np.ndarray, H: np.ndarray, P: np.ndarray, Q: np.ndarray) -> None:
        sparse = isinstance(A, nmf.SparseMatrix)
        room = nmf.make_scratch(self.n_components, self.dtype)
        rule = nmf.update_rule(S, self.order, "H", *self.penalties[2:], self.dtype)
        if self.solver == "hals" and sparse:
            kernels("nmf.hals", self.device).sweep_sparse(A, W, rule, H, P, Q, self.sweeps, room)
            return
        R = np.zeros_like(H) if sparse else A @ W
        if sparse:
            nmf.add_products(A.by_row, W, R)
        self._solve(R, S, H, rule, Q)
        if sparse:
            nmf.add_products(A.by_column, H, P)
        else:
            np.matmul(A.T, H, out=P)

    def _solve(self, R: np.ndarray, S: np.ndarray, X: np.ndarray, rule: nmf.UpdateRule, Q: np.ndarray) -> float:
        """Update rows X from their products; add half of XᵀX to Q; return ⟨R, X⟩."""
        if self.solver == "hals":
            room = nmf.make_scratch(self.n_components, self.dtype)
            return kernels("nmf.hals", self.device).sweep_rows(R, rule, X, Q, self.sweeps, room)
        if self.solver == "mu":
            X[:] = nmf_solvers.multiplicative_update(X, R, S.astype(self.dtype))
        else:
            X[:] = nmf_solvers.block_principal_pivoting(R, S)
        Q += np.triu(gram(X))
        return float(np.sum(R * X, dtype=np.float64))

    def _joined(self, model: Model, name: str) -> np.ndarray:
        return _joined([model.block(j)[name] for j in range(self.n_blocks)])

    def _first(self, model: Model, A: Any, address: Address) -> np.ndarray:
        H = self._nothing(A)
        if self.continues:
            W = self._joined(model, "W")
            return self.fold_in(A, W, self.summed(W))[0]
        if "start" not in model.block(0):
            nmf.fill_uniform(random.key(*address), 0, H, 2 * self.scale)
            return H
        if isinstance(A, nmf.SparseRows):
            nmf.add_products(A, self._joined(model, "start"), H)
        else:
            H[:] = A @ self._joined(model, "start")
        fill(H, self, 1 + address.chunk)
        return H

    def _nothing(self, A: Any) -> np.ndarray:
        """Zeros (D, K) for the rows of A."""
        n = len(A.indptr) - 1 if isinstance(A, nmf.SparseRows) else len(A)
        return np.zeros((n, self.n_components), self.dtype)

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add P and Q, in the order of the tree."""
        return add(left, right)

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Update rows of W from P and Q; return S and the part of the error that these rows make.

        Rows of A that an earlier model has seen count as A ≈ HWᵀ, which is all that is known of them: P ≈ W·Q.
        """
        W, P, Q = _start(block).copy(), delta["P"], delta["Q"]
        if self.continues:
            P, Q = P + block["seen"], Q + shared["seen"]
        _revive(W, Q, self.scale, self.seed)
        if self.order == "paper" and self.solver == "hals":
            tile = tile_size(self.n_components, CACHE_BYTES)
            for _ in range(self.sweeps):
                kernels("nmf.tiled", self.device).update(W, P, Q.astype(self.dtype), tile, True)
            S, inner = gram(W), nmf.inner_product(P.reshape(-1), W.reshape(-1))
        else:
            S = np.zeros_like(Q)
            rule = nmf.update_rule(Q, self.order, "W", *self.penalties[:2], self.dtype)
            inner = self._solve(P, Q, W, rule, S)
            S = nmf.symmetric(S)
        kept, totals = {"W": W}, {"S": S, "Q": Q / self.n_blocks}
        if self.extrapolate:
            further, totals["ahead"] = go_ahead(block, W, S, np.float64(2 * inner - np.sum(S * Q)))
            kept |= further
        if self.continues:
            kept["seen"] = block["seen"]
            inner -= float(np.sum(block["seen"] * W, dtype=np.float64))
        return kept, totals | {"explained": np.float64(2 * inner - np.sum(S * delta["Q"]))}

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """Keep what the blocks' factors add up to; report ‖A − HWᵀ‖ and its ratio to ‖A‖."""
        squared = max(float(sums["norm"] - totals["explained"]), 0.0)
        norm = max(float(sums["norm"]), np.finfo(float).tiny)
        metrics = {"error": float(np.sqrt(squared)), "relative_error": float(np.sqrt(squared / norm))}
        return shared | {k: v for k, v in totals.items() if k != "explained"}, metrics

    def fold_in(self, A: Any, W: np.ndarray, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows and ⟨R, H⟩, W being fixed."""
        R = self._nothing(A)
        if isinstance(A, nmf.SparseRows):
            nmf.add_products(A, W, R)
        else:
            np.matmul(A, W, out=R)
        H = np.zeros_like(R)
        rule = nmf.update_rule(S, "separable", "H", *self.penalties[2:], self.dtype)
        room = nmf.make_scratch(self.n_components, self.dtype)
        return H, nmf.sweep_rows(R, rule, H, np.zeros_like(S), sweeps, room)

    def score(self, model: Model, chunk: Any, state: Arrays | None, address: Address) -> Arrays:
        """Squared error of a held-out chunk, its rows of H found with W fixed."""
        if state is not None:
            return {}
        A, S = _by_row(chunk), model.shared["S"]
        H, inner = self.fold_in(A, self._joined(model, "W"), S)
        norm = np.sum(np.square(A.data if isinstance(A, nmf.SparseRows) else A, dtype=np.float64))
        return {"norm": norm, "error": norm - 2 * inner + np.sum(S * gram(H))}

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Relative error of the held-out rows."""
        if not held_out:
            return {}
        return {"held_out_relative_error": float(np.sqrt(max(sums["error"], 0.0) / max(sums["norm"], 1e-300)))}

    def describe(self, model: Model, data: Any) -> list[str]:
        """The heaviest words of the first components of a corpus."""
        if not isinstance(data, Corpus):
            return []
        W, names = self._joined(model, "W"), data.vocabulary["word"]
        return [" ".join(names[int(v)].as_py() for v in heaviest(W[:, k], 8)) for k in range(min(W.shape[1], 24))]

    def converged(self, history: list[dict[str, float]]) -> bool:
        """Whether the error has fallen by less than ``tol`` of itself; a larger rise is a restart of extrapolation."""
        errors = [row["error"] for row in history[-2:]]
        if len(errors) < 2 or self.tol == 0:
            return False
        fall = errors[0] - errors[1]
        return (abs(fall) if self.extrapolate else fall) < self.tol * errors[0]


def gram(X: np.ndarray) -> np.ndarray:
    """XᵀX in float64, summed by blocks of rows."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for first in range(0, len(X), 1024):
        total += X[first : first + 1024].T @ X[first : first + 1024]
    return total


def _by_row(prepared: Any) -> Any:
    return prepared.by_row if isinstance(prepared, nmf.SparseMatrix) else prepared


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _start(block: Arrays) -> np.ndarray:
    return block["ahead"] if "ahead" in block else block["W"]


def go_ahead(block: Arrays, W: np.ndarray, S: np.ndarray, explained: np.float64) -> tuple[Arrays, np.ndarray]:
    """Go beyond W along its last step, ever further while the error falls; where it has risen, restart at W.

    Returns what a block keeps of it, and the point's product with itself, as S is W's: (K, K) float64.

    After Ang and Gillis, "Accelerating NMF algorithms using extrapolation" (Neural Computation 2019), W alone: H
    follows it, and its rows need no second copy on disk. Columns keep the lengths of W's: their scale, which H can
    undo, would run away.
    """
    momentum = block.get("momentum", np.float64(MOMENTUM))
    if explained < block.get("explained", -np.inf):
        return {"ahead": W, "momentum": momentum / SLOWER, "explained": explained}, S
    ahead, beyond = np.empty_like(W), np.zeros_like(S)
    nmf.extrapolate(W, block["W"], W.dtype.type(momentum), ahead, beyond, nmf.make_scratch(len(S), W.dtype))
    beyond = nmf.symmetric(beyond)
    scale = np.sqrt(np.diag(S) / np.maximum(np.diag(beyond), np.finfo(W.dtype).tiny))
    ahead *= scale.astype(W.dtype)
    kept = {"ahead": ahead, "momentum": np.minimum(momentum * FASTER, 1.0), "explained": explained}
    return kept, beyond * np.outer(scale, scale)


def _revive(W: np.ndarray, Q: np.ndarray, scale: float, seed: int) -> None:
    """Give a component that H nowhere uses a new column: the product stays, and the next sweep may use it."""
    for k in np.flatnonzero(np.diag(Q) == 0):
        column = np.empty((len(W), 1), W.dtype)
        nmf.fill_uniform(random.key(seed, REVIVE, int(k)), 0, column, 2 * scale)
        W[:, k] = column[:, 0]


def known_rows(previous: PreviousModel, data: Corpus | Matrix, algorithm: HALS, block: int) -> np.ndarray:
    """Return a block of W: the previous model's rows, and small random ones for words that are new.

    The previous model is read one block at a time.
    """
    first = algorithm.bounds[block]
    stop = algorithm.bounds[block + 1]
    rows = np.empty((stop - first, algorithm.n_components), algorithm.dtype)
    if isinstance(data, Corpus):
        ids = find_word_ids(data.vocabulary["word"].slice(first, stop - first), previous.vocabulary)
    else:
        ids = np.arange(first, stop)
    total = 0.0
    size = 0
    old_first = 0
    known = np.zeros(len(ids), bool)
    known_values = np.zeros_like(rows)
    for arrays in previous.blocks():
        W = arrays["W"]
        here = (ids >= old_first) & (ids < old_first + len(W))
        known_values[here] = W[ids[here] - old_first]
        known |= here
        total += float(W.sum(dtype=np.float64))
        size += W.size
        old_first += len(W)
    nmf.fill_uniform(random.key(algorithm.seed, BEGIN, 0), first, rows, 2 * total / max(1, size))
    rows[known] = known_values[known]
    return rows


def _idf(corpus: Corpus, previous: PreviousModel | None) -> np.ndarray:
    """Return ln((1 + D) / (1 + df)) + 1 of each word: (V,) float64.

    A word that the previous model knows keeps the weight that it had there.
    """
    frequency = np.asarray(corpus.vocabulary["document_frequency"], np.float64)
    idf = np.log((1 + corpus.n_documents) / (1 + frequency)) + 1
    if previous is not None:
        ids = find_word_ids(corpus.vocabulary["word"], previous.vocabulary)
        idf[ids >= 0] = previous.shared["idf"][ids[ids >= 0]]
    return idf


def word_counts(chunk: Chunk, idf: np.ndarray | None, dtype: str) -> nmf.SparseRows:
    """Return a chunk's word counts, or their tf-idf in rows of length 1."""
    by_word = nmf.count_tokens(chunk.word_ptr, chunk.docs)
    A = nmf.transposed(by_word, chunk.n_documents)
    A = nmf.SparseRows(A.indptr, chunk.word_ids.astype(np.int32)[A.indices], A.data.astype(dtype))
    if idf is not None:
        nmf.apply_tfidf(A, idf)
    return A


def heaviest(column: np.ndarray, n: int) -> np.ndarray:
    """Return the places of the n largest of (V,) numbers, falling."""
    return np.argsort(-column, kind="stable")[:n]
