"""How NMF is scored and shown, and how a trained W applies to documents and matrices: rows of H, and how well they fit.

Documents are given as ``doc_ptr`` (D + 1,) int64 and ``words`` (T,), word ids of the model in document order.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels.nmf import products
from ...engine.algorithm import Address, Metrics, ModelView, Scores
from ...engine.data import DataRef
from ...topics import WordList
from ..base.apply import ModelHandle, open_model
from ..base.saved import TrainedModel
from ..base.sparse_rows import select_tokens, split_mask
from ..vectors.similarity import top_indices
from .factorization import Factorization
from .rows import AnyFactor, PreparedRows, StoredRows, by_row, gram_of, rows_of

#: Share of a document's words that a score leaves to their overall frequency.
BACKGROUND = 0.05


class TrainedFactor(NamedTuple):
    """The matrix W of a trained model, with which rows of the data are given their rows of H."""

    algorithm: Factorization  # its ``fold_in`` finds rows of H for a fixed W
    W: np.ndarray  # (V, K)
    model: TrainedModel


def rows_of_matrix(handle: ModelHandle, data: DataRef, index: int) -> np.ndarray:
    """Return the rows of H of a chunk of a matrix: (D, K). This is a task."""
    return rows_of_chunk(data.open().read_chunk(index), open_model(handle)._factor)


def rows_of_chunk(chunk: StoredRows, factor: TrainedFactor) -> np.ndarray:
    """Return the rows of H of a chunk: (D, K)."""
    algorithm, W, model = factor
    return algorithm.fold_in(rows_of(chunk, model.shared.get("idf"), algorithm.dtype), W, model.shared["S"])[0]


def error_of_matrix(handle: ModelHandle, data: DataRef, index: int) -> Arrays:
    """Return the sums of the error of a chunk of a matrix. This is a task."""
    algorithm, W, trained = open_model(handle)._factor
    model = TrainedModel([{"W": W}], trained.shared, trained.vocabulary, trained.metadata)
    store = data.open()
    rows = algorithm.load_chunk(store, index, model)
    sums: Arrays = algorithm.scores.score(model, rows, None, Address(0, 0, index), store)
    return sums


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, factor: TrainedFactor) -> np.ndarray:
    """Return the rows of H of documents: (D, K)."""
    algorithm, W, model = factor
    shape = (len(doc_ptr) - 1, len(W))
    counts = scipy.sparse.csr_matrix((np.ones(len(words), algorithm.dtype), words, doc_ptr), shape)
    counts.sum_duplicates()
    A = products.SparseRows(counts.indptr.astype(np.int64), counts.indices.astype(np.int32), counts.data)
    if "idf" in model.shared:
        products.apply_tfidf(A, model.shared["idf"])
    return algorithm.fold_in(A, W, model.shared["S"])[0]


def score_by_completion(doc_ptr: np.ndarray, words: np.ndarray, factor: TrainedFactor, keys: np.ndarray) -> Arrays:
    """Score each document: a random half of its tokens predicts the other half.

    ``keys`` (D,) uint64 are the keys of the documents' random draws. Returns the sums ``log_likelihood`` and
    ``tokens``.

    The first half gives the document's row of H. The other half is scored by the products of that row with W, as shares
    of their sum. A twentieth of the probability goes to the words' overall frequencies, because a factor may exclude a
    word, which would make its logarithm minus infinity. That mixture is not part of the model. Compare NMF models by
    this score, but not NMF with LDA.
    """
    first_half = split_mask(doc_ptr, keys)
    rows = fold_in(*select_tokens(doc_ptr, words, first_half), factor)
    W = factor.W
    # Back from weights to counts.
    scale = 1 / factor.model.shared["idf"].astype(W.dtype) if "idf" in factor.model.shared else np.ones(len(W), W.dtype)
    frequency = np.asarray(factor.model.vocabulary["term_frequency"], np.float64)
    background = BACKGROUND * frequency / frequency.sum()
    row_sums = rows @ (scale @ W)
    log_likelihood = 0.0
    tokens = 0
    for d in range(len(doc_ptr) - 1):
        own = slice(doc_ptr[d], doc_ptr[d + 1])
        scored = words[own][~first_half[own]]
        share = 1 / len(W)
        if row_sums[d] > 0:
            share = scale[scored] * (W[scored] @ rows[d]) / row_sums[d]
        log_likelihood += float(np.log((1 - BACKGROUND) * share + background[scored]).sum())
        tokens += len(scored)
    return {"log_likelihood": np.float64(log_likelihood), "tokens": np.int64(tokens)}


#: Components that `FactorScores.describe` shows, and words of each.
DESCRIBED = 24
DESCRIBED_WORDS = 8


@dataclass(frozen=True)
class FactorScores(Scores):
    """How the losses of NMF are scored and shown: what they have in common."""

    algorithm: Factorization

    def scored_rows(self, model: ModelView, n_rows: int) -> tuple[AnyFactor, np.ndarray]:
        """Return the first ``n_rows`` rows of W, and their S."""
        W = self.algorithm.factor(model, "W")
        if n_rows >= len(W):
            return W, model.shared["S"]
        some = W[:n_rows] if isinstance(W, np.ndarray) else W.first(n_rows)
        return some, gram_of(some, self.algorithm.gram)

    def score(
        self, model: ModelView, chunk: PreparedRows, state: Arrays | None, address: Address, data: Corpus | Matrix
    ) -> Arrays:
        """Return the norm and the error of a held-out chunk. A training chunk's error is known from the epoch."""
        if state is not None:
            return {}
        W, S = self.scored_rows(model, data.n_words)
        error = self.algorithm.fold_in(chunk, W, S)[1]
        return {"norm": self.algorithm.norm(by_row(chunk)), "error": np.float64(error)}

    def describe(self, model: ModelView, data: Corpus | Matrix) -> list[WordList]:
        """Return the heaviest words of the first components; no lists for a matrix, which has no words."""
        if not isinstance(data, Corpus):
            return []
        W = self.algorithm.factor(model, "W")
        names = data.vocabulary["word"]
        lists = []
        for k, column in enumerate(_columns(W, DESCRIBED)):
            words = [names[int(word)].as_py() for word in top_indices(column, DESCRIBED_WORDS)]
            lists.append(WordList(str(k), words))
        return lists

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether the last epoch reduced the error by less than the share ``tol`` of it.

        Penalties count: with them, the error alone may rise while training goes on.
        """
        tol = self.algorithm.tol
        if len(history) < 2 or tol == 0:
            return False
        before, after = (metrics.get("penalised_error", metrics["error"]) for metrics in history[-2:])
        return self._decrease(before, after) < tol * before

    def _decrease(self, before: float, after: float) -> float:
        return before - after


@dataclass(frozen=True)
class FrobeniusScores(FactorScores):
    """Errors in the Frobenius norm."""

    convergence: str
    extrapolates: bool

    def metrics(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the relative error of the held-out rows."""
        if not held_out:
            return {}
        ratio = max(sums["error"], 0.0) / max(sums["norm"], 1e-300)
        return {"held_out_relative_error": float(np.sqrt(ratio))}

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether the error, or the projected gradient, has fallen as far as ``tol`` demands."""
        if self.convergence == "error":
            return super().converged(history)
        tol = self.algorithm.tol
        return bool(history) and tol > 0 and history[-1]["violation"] <= tol * history[0]["violation"]

    def _decrease(self, before: float, after: float) -> float:
        if self.extrapolates:
            # A rise of the error is a restart of the extrapolation, and no sign of convergence.
            return abs(before - after)
        return before - after


def _columns(W: AnyFactor, n: int) -> np.ndarray:
    """Return the first columns of a factor as rows: (n, V)."""
    if isinstance(W, np.ndarray):
        return W.T[:n]
    return np.concatenate([rows[:, :n] for _, _, rows in W.blocks()]).T
