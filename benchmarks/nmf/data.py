"""Matrices to factorise: 20 Newsgroups, TDT2 and faces from the folder CORPUSMILL_DATA, or a small random one."""

import os
from pathlib import Path

import numpy as np
import scipy.sparse


def load(name):
    """Return a float32 matrix (documents, words): CSR with words by falling frequency, or dense for faces."""
    folder = Path(os.environ.get("CORPUSMILL_DATA", "data"))
    if name == "quick":
        return scipy.sparse.random(400, 300, 0.05, "csr", np.float32, random_state=0)
    if name == "faces":
        stored = np.load(folder / "faces" / "att_faces_400x10304.npz")
        return np.ascontiguousarray(stored[stored.files[0]], np.float32) / 255
    path = folder / ("tdt2/tdt2_9394x36771.npz" if name == "tdt2" else "20news_bow_18846x26810.npz")
    A = scipy.sparse.load_npz(path).tocsr().astype(np.float32)
    if name != "tdt2":
        A = A[:11314]  # the documents for training
    A = A[:, np.argsort(-np.bincount(A.indices, minlength=A.shape[1]), kind="stable")]
    A.sort_indices()
    if name == "20news-counts":
        return A
    return tfidf(A)


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
