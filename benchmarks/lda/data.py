"""Matrices of word counts to train on: public corpora, or random ones."""

from pathlib import Path

import numpy as np
import scipy.sparse

from benchmarks.common import Session, data_file

#: Files of the corpora below the folder of the data.
FILES = {
    "20news": "20news_bow_18846x26810.npz",
    "kjv": "kjv.tsv",
    "kos": "uci-kos/docword.kos.txt",
    "nips": "nips_bow_1740x12419.npz",
    "tdt2": "tdt2/tdt2_9394x36771.npz",
    "wikipedia": "wiki-bow-252k.npz",
}


def read(session: Session, name: str, tokens: int = 0) -> scipy.sparse.csr_matrix:
    """Read a corpus as a (D, V) matrix of counts, or make a small random one if the session is quick."""
    if session.quick:
        return zipf_counts(1000, 20_000)
    return load_counts(str(data_file(session.data, FILES[name])), tokens)


def load_counts(path: str, tokens: int = 0, seed: int = 0) -> scipy.sparse.csr_matrix:
    """Read a (D, V) matrix of counts from .npz, UCI docword, or a .tsv file whose last column is text.

    ``tokens`` above 0 keeps a random choice of documents with about as many tokens. The columns are the words that
    occur, by falling frequency.
    """
    matrix = READERS[Path(path).suffix](path).astype(np.int32)
    if 0 < tokens < matrix.sum():
        order = np.random.default_rng(seed).permutation(matrix.shape[0])
        ends = np.cumsum(matrix.sum(axis=1).A1[order])
        matrix = matrix[np.sort(order[: np.searchsorted(ends, tokens)])]
    frequency = matrix.sum(axis=0).A1
    kept = np.argsort(-frequency, kind="stable")[: np.count_nonzero(frequency)]
    matrix = matrix[:, kept].tocsr()
    matrix.sort_indices()
    return matrix


def _read_texts(path: str) -> scipy.sparse.csr_matrix:
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [line.rpartition("\t")[2] for line in Path(path).read_text().splitlines()]
    return CountVectorizer(stop_words="english", min_df=3).fit_transform(texts)


def _read_docword(path: str) -> scipy.sparse.csr_matrix:
    document, word, count = np.loadtxt(path, skiprows=3, dtype=np.int64).T
    return scipy.sparse.csr_matrix((count, (document - 1, word - 1)))


#: What reads a file, by the ending of its name.
READERS = {".npz": scipy.sparse.load_npz, ".tsv": _read_texts, ".txt": _read_docword}


def zipf_counts(n_words: int, tokens: int, length: int = 200) -> scipy.sparse.csr_matrix:
    """Return (D, V) counts of documents of ``length`` words drawn by Zipf's law; every word occurs."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, n_words + 1)
    words = np.r_[rng.permutation(n_words), rng.choice(n_words, tokens - n_words, p=share / share.sum())]
    documents = rng.permutation(tokens) // length
    return scipy.sparse.csr_matrix((np.ones(tokens, np.int32), (documents, words)))


def tokens_of(matrix: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 of a matrix of counts."""
    words = np.repeat(matrix.indices, matrix.data).astype(np.uint32)
    doc_ptr = np.r_[0, np.cumsum(matrix.data)][matrix.indptr].astype(np.int64)
    return doc_ptr, words


def split(matrix, seed: int = 0, held_out: float = 0.1, most: int = 300):
    """Return training rows, and the held-out documents as two random halves of their tokens."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(matrix.shape[0])
    count = min(most, max(1, int(held_out * matrix.shape[0])))
    test = matrix[order[:count]]
    first = test.copy()
    first.data = rng.binomial(test.data, 0.5).astype(test.data.dtype)
    second = (test - first).tocsr()
    train = matrix[np.sort(order[int(held_out * matrix.shape[0]) :])]
    # Systems cannot score words that they have not seen.
    seen = np.flatnonzero(train.sum(axis=0).A1)
    return train[:, seen], first[:, seen].tocsr(), second[:, seen].tocsr()
