"""Solvers of NMF side by side: each has ``epoch`` and ``error``."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import scipy.sparse
from corpusmill.kernels.nmf import hals as nmf
from corpusmill.kernels.nmf import products as nmf_products
from corpusmill.kernels.nmf import solvers as nmf_solvers
from corpusmill.kernels.nmf.sums import gram_matrix
from corpusmill.pipeline.models.nmf.frobenius import extrapolate_step
from corpusmill.pipeline.models.nmf.rows import prepare_for_hals

from benchmarks.nmf.data import squared_norm
from benchmarks.papers import nmf_sweeps
from benchmarks.papers.kernels import pivoting, tiled

#: The solver that all others are compared with.
PEER = "scikit-learn cd"


def start(A, K, normalise=False):
    """Return W (V, K) and H (D, K) at random, as scikit-learn scales them."""
    rng = np.random.default_rng(0)
    scale = np.sqrt(A.mean() / K)
    H, W = (scale * np.abs(rng.standard_normal((n, K))).astype(np.float32) for n in A.shape)
    if normalise:
        W = W / np.linalg.norm(W, axis=0)
    return W, H


def _prepared(A, K):
    rows = nmf_products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)
    return prepare_for_hals(rows, A.shape[1], K)


class Blocks:
    """corpusmill's solver without the engine. Threads share the documents for H, then the words for W."""

    def __init__(self, A, W, H, order="separable", sweeps=1, threads=1, extrapolate=False):
        self.W = W
        self.H = H
        self.order = order
        self.sweeps = sweeps
        self.threads = threads
        self.block = {"W": W.copy()} if extrapolate else {}
        self.S = W.T.astype(float) @ W
        cuts = np.linspace(0, A.shape[0], threads + 1).astype(int)
        self.parts = [A[i:j] for i, j in zip(cuts[:-1], cuts[1:], strict=True)]
        self.sparse = scipy.sparse.issparse(A)
        if self.sparse:
            self.parts = [_prepared(part, W.shape[1]) for part in self.parts]
        self.rows = cuts
        self.pool = ThreadPoolExecutor(threads)
        self.columns = np.linspace(0, A.shape[1], threads + 1).astype(int)
        self.norm = squared_norm(A)
        self.explained = 0.0

    def epoch(self):
        """Run one epoch."""
        K = self.W.shape[1]
        products = list(self.pool.map(self._documents, range(self.threads)))
        Q = nmf.symmetric(sum(q for _, q in products))
        if self.order == "paper":
            P = self._sum(products, slice(None))
            for _ in range(self.sweeps):
                tiled.update(self.W, P, Q.astype(np.float32), tiled.tile_size(K), True)
            self.S = gram_matrix(self.W)
            inner = nmf.inner_product(P.reshape(-1), self.W.reshape(-1))
        else:
            found = list(self.pool.map(lambda i: self._words(i, products, Q), range(self.threads)))
            inner = sum(product for product, _ in found)
            self.S = nmf.symmetric(sum(gram_matrix for _, gram_matrix in found))
        self.explained = 2 * inner - np.sum(self.S * Q)
        if self.block:
            new = self.W.copy()
            further, self.S = extrapolate_step(self.block, new, self.S, self.explained)
            self.block = {"W": new} | further
            self.W[:] = further["extrapolated"]

    def error(self):
        """Return the relative error, from sums that the last epoch left."""
        return float(np.sqrt(max(self.norm - self.explained, 0) / self.norm))

    def _documents(self, i):
        """Update H of one range of documents; return its shares of P and Q."""
        A = self.parts[i]
        H = self.H[self.rows[i] : self.rows[i + 1]]
        W = self.W
        K = W.shape[1]
        P = np.zeros_like(W)
        Q = np.zeros((K, K))
        scratch = nmf.make_scratch(K, np.float32)
        rule = tiled.rule_of_documents(self.S) if self.order == "paper" else nmf.update_rule(self.S)
        if self.sparse:
            H[:] = nmf.sweep_sparse(A, W, rule, H, P, Q, self.sweeps, scratch)
        else:
            nmf.sweep_rows(A @ W, rule, H, Q, self.sweeps, scratch)
            np.matmul(A.T, H, out=P)
        return P, Q

    def _sum(self, products, rows):
        P = products[0][0][rows]
        for other, _ in products[1:]:
            P += other[rows]
        return P

    def _words(self, i, products, Q):
        """Update W of one range of words; return its shares of the inner product and of S."""
        words = slice(self.columns[i], self.columns[i + 1])
        K = len(Q)
        P = self._sum(products, words)
        S = np.zeros((K, K))
        return nmf.sweep_rows(P, nmf.update_rule(Q), self.W[words], S, self.sweeps, nmf.make_scratch(K, np.float32)), S


class Whole:
    """Solvers over whole matrices on BLAS: Algorithm 1 by columns, Algorithm 2 in phases, MU, ANLS-BPP."""

    def __init__(self, A, W, H, solver):
        self.A = A
        self.T = A.T.tocsr() if scipy.sparse.issparse(A) else A.T
        self.W = W
        self.H = H
        self.solver = solver
        self.tile = tiled.tile_size(W.shape[1])

    def epoch(self):
        """Run one epoch."""
        self.H = self._update(self.H, self.A @ self.W, self.W.T @ self.W, False)
        self.W = self._update(self.W, self.T @ self.H, self.H.T @ self.H, True)

    def error(self):
        """Return the relative error without forming H·Wᵀ."""
        norm = squared_norm(self.A)
        P = self.T @ self.H
        explained = 2 * np.sum(P * self.W, dtype=float) - np.sum(gram_matrix(self.W) * gram_matrix(self.H))
        return float(np.sqrt(max(norm - explained, 0) / norm))

    def _update(self, X, R, S, normalise):
        if self.solver == "columns":
            nmf_sweeps.update_by_columns(X, R, S, normalise)
        elif self.solver == "phases":
            nmf_sweeps.update_in_phases(X, R, S, self.tile, normalise)
        elif self.solver == "mu":
            X = nmf_solvers.multiplicative_update(X, R, S)
        else:
            X = pivoting.block_principal_pivoting(R, S).astype(np.float32)
        return X


class ScikitLearn(Whole):
    """scikit-learn's solvers, one epoch per call."""

    def epoch(self):
        """Run one epoch."""
        from sklearn.decomposition import non_negative_factorization

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The solver transposes this argument, so Wᵀ as a view saves a copy.
            self.H, transposed, _ = non_negative_factorization(
                self.A, self.H, self.W.T, init="custom", solver=self.solver, max_iter=1, tol=0
            )
        self.W = transposed.T


def contenders(threads, slow):
    """Return by name functions of (matrix, K) that make a solver, each with its own copy of the same start."""
    found = {}
    for order in ("separable", "paper"):
        for sweeps in (1, 2):
            name = f"corpusmill {order}" + (f", {sweeps} sweeps" if sweeps > 1 else "")
            found[name] = partial(_blocks, order, sweeps, threads, False)
    found["corpusmill separable, extrapolated"] = partial(_blocks, "separable", 1, threads, True)
    if threads == 1:
        found["ALO-NMF in phases"] = lambda A, K: Whole(A, *start(A, K, True), "phases")
        found["FAST-HALS by columns"] = lambda A, K: Whole(A, *start(A, K, True), "columns")
        found["MU"] = lambda A, K: Whole(A, *start(A, K), "mu")
        found["scikit-learn mu"] = lambda A, K: ScikitLearn(A, *start(A, K), "mu")
        if slow:
            found["ANLS-BPP"] = lambda A, K: Whole(A, *start(A, K), "anls")
    return found | {PEER: lambda A, K: ScikitLearn(A, *start(A, K), "cd")}


def _blocks(order, sweeps, threads, extrapolate, A, K):
    return Blocks(A, *start(A, K, order == "paper"), order, sweeps, threads, extrapolate)
