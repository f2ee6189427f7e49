"""Small kernels of three models, for a comparison between processors: small_kernels.py OUT writes their results.

They are the smallest ones whose floating-point sums run in vector registers, because another processor type means that
they are compiled again.
"""

import sys

import numpy as np
import scipy.sparse
from corpusmill.kernels.lda.inference import WordWeights, fold_in
from corpusmill.kernels.nmf.products import SparseRows, add_products
from corpusmill.kernels.word2vec.batches import empty_list, empty_workspace, repel


def topics_of_documents():
    """Return the topics of two documents under a random model of LDA: (2, K) float32."""
    draw = np.random.default_rng(1)
    n_words, n_topics = 40, 50
    rows = WordWeights(
        np.arange(0, (n_words + 1) * n_topics, n_topics),
        np.tile(np.arange(n_topics, dtype=np.uint16), n_words),
        draw.random(n_words * n_topics, np.float32),
        draw.random(n_topics, np.float32) * np.float32(0.01),
        np.full(n_topics, 0.1, np.float32),
    )
    words = draw.integers(0, n_words, 300).astype(np.uint32)
    return fold_in(np.array([0, 100, 300]), words, rows)


def product():
    """Return the product of a sparse matrix and a factor of NMF: (60, 13) float32."""
    A = scipy.sparse.random(60, 40, 0.3, format="csr", random_state=2)
    rows = SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(np.float32))
    out = np.zeros((60, 13), np.float32)
    add_products(rows, np.random.default_rng(3).random((40, 13), np.float32), out)
    return out


def repelled():
    """Return vectors of Word2Vec after one batch of negatives: (28, 128) float32, those of W_in and of W_out."""
    draw = np.random.default_rng(4)
    n_rows, n_negatives, D = 8, 16, 128
    rows, negatives = empty_list(n_rows), empty_list(n_negatives)
    space = empty_workspace(n_rows, n_negatives, D)
    rows[:n_rows] = np.arange(n_rows)
    negatives[:n_negatives] = draw.integers(0, 20, n_negatives)
    space.strengths[:] = 0.05
    W_in, W_out = (draw.normal(size=(n, D)).astype(np.float32) for n in (n_rows, 20))
    repel(n_rows, rows, n_negatives, negatives, space, np.zeros(0, np.uint32), W_in, W_out)
    return np.concatenate([W_in, W_out])


def results():
    """Return the results of all kernels by name."""
    return {"lda": topics_of_documents(), "nmf": product(), "word2vec": repelled()}


if __name__ == "__main__":
    np.savez(sys.argv[1], **results())
