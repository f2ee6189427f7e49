"""Matrices to factorise: 20 Newsgroups, TDT2 and faces from the folder CORPUSMILL_DATA, and generated ones."""

import numpy as np
import scipy.sparse

from benchmarks.common import DEFAULT_DATA, data_file


def load(name, folder=DEFAULT_DATA):
    """Return a float32 matrix (documents, words): CSR with words by falling frequency, or dense for faces."""
    if name == "quick":
        return scipy.sparse.random(400, 300, 0.05, "csr", np.float32, random_state=0)
    if name.startswith("cells"):
        return cells(int(name.removeprefix("cells-")))
    if name == "faces":
        stored = np.load(data_file(folder, "faces/att_faces_400x10304.npz"))
        return np.ascontiguousarray(stored[stored.files[0]], np.float32) / 255
    path = "tdt2/tdt2_9394x36771.npz" if name == "tdt2" else "20news_bow_18846x26810.npz"
    A = scipy.sparse.load_npz(data_file(folder, path)).tocsr().astype(np.float32)
    if name != "tdt2":
        A = A[:11314]  # the documents for training
    A = A[:, np.argsort(-np.bincount(A.indices, minlength=A.shape[1]), kind="stable")]
    A.sort_indices()
    if name == "20news-counts":
        return A
    return tfidf(A)


def cells(D, V=2000, programs=30, density=0.07, seed=0):
    """Return counts of genes in cells (D, V), scaled as for consensus NMF: programs of genes, and noise."""
    rng = np.random.default_rng(seed)
    usages = rng.dirichlet(np.full(programs, 0.2), D)
    spectra = rng.gamma(0.3, size=(programs, V)) * rng.gamma(1.0, size=V)
    # Most counts of a Poisson distribution with a small mean are zero.
    mean = usages @ spectra
    mean *= -np.log(1 - density) / mean.mean()
    counts = scipy.sparse.csr_matrix(rng.poisson(rng.gamma(2.0, size=(D, 1)) * mean).astype(np.float32))
    squares = np.asarray(counts.multiply(counts).mean(axis=0)).ravel() - np.asarray(counts.mean(axis=0)).ravel() ** 2
    scaled = scipy.sparse.csr_matrix(
        counts @ scipy.sparse.diags(1 / np.sqrt(np.maximum(squares, 1e-6))), dtype=np.float32
    )
    # As in a store of matrices, which sorts the entries when they are written.
    scaled.sort_indices()
    return scaled


def tfidf(A):
    """Weight counts as scikit-learn does."""
    frequency = np.bincount(A.indices, minlength=A.shape[1])
    A = A @ scipy.sparse.diags((np.log((1 + A.shape[0]) / (1 + frequency)) + 1).astype(np.float32))
    lengths = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags(1 / np.maximum(lengths, 1e-30)) @ A, dtype=np.float32)


def squared_norm(A):
    """Return ‖A‖²."""
    values = A.data if scipy.sparse.issparse(A) else A
    return float(np.sum(np.square(values, dtype=float)))
