"""Applies a trained factor W to documents and matrices: rows of H, and how well they fit.

Documents are given as ``doc_ptr`` (D + 1,) int64 and ``words`` (T,), word ids of the model in document order.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from ....io.stores.store import Arrays
from ....kernels.nmf import products
from ...engine.algorithm import Address
from ...engine.data import DataRef
from ..base.apply import ModelHandle, open_model
from ..base.saved import TrainedModel
from ..base.sparse_rows import select_tokens, split_mask
from .factorization import Factorization
from .rows import StoredRows, rows_of

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
    rows = algorithm.load_chunk(data.open(), index, model)
    sums: Arrays = algorithm.scores.score(model, rows, None, Address(0, 0, index), len(W))
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
    if "idf" in factor.model.shared:
        # Back from weights to counts.
        W = W / factor.model.shared["idf"][:, None]
    frequency = np.asarray(factor.model.vocabulary["term_frequency"], np.float64)
    background = BACKGROUND * frequency / frequency.sum()
    row_sums = rows @ W.sum(axis=0)
    log_likelihood = 0.0
    tokens = 0
    for d in range(len(doc_ptr) - 1):
        own = slice(doc_ptr[d], doc_ptr[d + 1])
        scored = words[own][~first_half[own]]
        share = 1 / len(W)
        if row_sums[d] > 0:
            share = (W[scored] @ rows[d]) / row_sums[d]
        log_likelihood += float(np.log((1 - BACKGROUND) * share + background[scored]).sum())
        tokens += len(scored)
    return {"log_likelihood": np.float64(log_likelihood), "tokens": np.int64(tokens)}
