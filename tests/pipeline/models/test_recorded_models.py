"""Models trained with a fixed seed keep the arrays that were recorded in ``recorded_models.npz``.

Integers must be equal. Floating-point arrays must be equal on a machine like the one that recorded them. On other
machines they may differ in rounding, because vector width and library versions change the order of sums. After a
deliberate change of results, record them again with
``PYTHONPATH=tests python tests/pipeline/models/test_recorded_models.py``.
"""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, FastRP, Node2Vec, RandomIndexing, Word2Vec
from corpusmill.pipeline.models.lda import samplers
from recorded.arrays import assert_as_recorded, record

from benchmarks.papers.algorithms.lda import PaperLDA
from benchmarks.papers.algorithms.nmf import PaperNMF
from benchmarks.papers.algorithms.word2vec import PaperWord2Vec

RECORDED = Path(__file__).with_name("recorded_models.npz")


def documents(seed, n_documents=60):
    """Return documents of a small vocabulary with two planted topics."""
    rng = np.random.Generator(np.random.PCG64(seed))
    words = np.array([f"w{i:02d}" for i in range(40)])
    found = []
    for _ in range(n_documents):
        half = rng.integers(2)
        ids = np.minimum(rng.geometric(0.12, rng.integers(5, 40)), 20) - 1 + 20 * half
        found.append(words[ids].tolist())
    return found


def matrix():
    return np.random.Generator(np.random.PCG64(3)).gamma(0.5, size=(50, 30))


def ring():
    """Return the adjacency matrix of a ring of twenty nodes with a few chords."""
    starts = [*range(20), 0, 3, 6, 9]
    ends = [*((node + 1) % 20 for node in range(20)), 7, 10, 13, 16]
    upper = scipy.sparse.coo_array((np.ones(24), (starts, ends)), (20, 20)).tocsr()
    return upper + upper.T


def topics(model):
    return {"components": model.components_, "transformed": model.transform(documents(9, 5))}


def factors(model):
    return {"components": model.components_, "error": np.array(model.reconstruction_err_)}


def vectors(model):
    return {"vectors": model.wv.vectors, "words": np.array(model.wv.index_to_key)}


def lda(**parameters):
    return topics(LDA(4, max_iter=4, random_state=1, device="cpu", **parameters).fit(documents(0)))


def paper_lda(**parameters):
    return topics(PaperLDA(4, max_iter=4, random_state=1, device="cpu", **parameters).fit(documents(0)))


def nmf(data, **parameters):
    return factors(NMF(4, max_iter=6, random_state=1, device="cpu", **parameters).fit(data))


def paper_nmf(solver):
    return factors(PaperNMF(4, solver=solver, max_iter=6, random_state=1, device="cpu").fit(matrix()))


def word2vec(made_by=Word2Vec, **parameters):
    options = {"vector_size": 16, "min_count": 1, "epochs": 2, "sample": 0.01, "device": "cpu"} | parameters
    return vectors(made_by(**options).fit(documents(0)))


def random_indexing(**parameters):
    options = {"vector_size": 32, "window": 2, "seed_length": 4, "device": "cpu"} | parameters
    return vectors(RandomIndexing(**options).fit(documents(0)))


def warp_then_esca():
    """Train few topics as "auto" trains more than a thousand."""
    with mock.patch.object(samplers, "EXACT_TOPICS", 0):
        return lda(sampler="auto")


def continued(model, read):
    return read(model.fit(documents(0)).partial_fit(documents(5)))


CASES = {
    "lda": lambda: lda(),
    "lda-blocks": lambda: lda(n_blocks=3),
    "lda-warp": lambda: lda(sampler="warp"),
    "lda-auto": lambda: warp_then_esca(),
    "lda-gibbs": lambda: lda(sampler="gibbs"),
    "lda-minibatch": lambda: lda(sampler="minibatch"),
    "lda-reference": lambda: paper_lda(sampler="reference"),
    "lda-uncollapsed": lambda: paper_lda(sampler="uncollapsed"),
    "lda-asymmetric": lambda: lda(learn_priors="asymmetric", learn_every=2),
    "lda-seeds": lambda: lda(seeds=[["w00", "w01"], ["w20"]]),
    "lda-partial": lambda: continued(LDA(4, max_iter=4, random_state=1, device="cpu"), topics),
    "nmf": lambda: nmf(documents(0)),
    "nmf-tfidf": lambda: nmf(documents(0), weighting="tfidf", n_blocks=2),
    "nmf-dense": lambda: nmf(matrix(), dtype="float64"),
    "nmf-paper": lambda: paper_nmf("paper"),
    "nmf-extrapolated": lambda: nmf(matrix(), extrapolate=True),
    "nmf-nndsvda": lambda: nmf(matrix(), init="nndsvda", n_blocks=2),
    "nmf-penalised": lambda: nmf(matrix(), alpha_W=0.01, l1_ratio=0.5),
    "nmf-mu": lambda: nmf(matrix(), solver="mu"),
    "nmf-anls": lambda: paper_nmf("anls"),
    "nmf-divergence": lambda: nmf(matrix(), solver="mu", beta_loss="kullback-leibler"),
    "nmf-partial": lambda: continued(NMF(4, max_iter=6, random_state=1, device="cpu"), factors),
    "word2vec-strata": lambda: word2vec(n_blocks=4),
    "word2vec-par": lambda: word2vec(method="par"),
    "word2vec-full": lambda: word2vec(method="full"),
    "word2vec-sgns": lambda: word2vec(PaperWord2Vec, method="sgns"),
    "word2vec-partial": lambda: continued(
        Word2Vec(vector_size=16, min_count=1, epochs=2, sample=0.01, device="cpu"), vectors
    ),
    "node2vec": lambda: vectors(
        Node2Vec(p=2, q=0.5, num_walks=3, walk_length=10, vector_size=16, epochs=2, device="cpu").fit(ring())
    ),
    "fastrp": lambda: vectors(FastRP(16, n_blocks=3).fit(ring())),
    "random-indexing": lambda: random_indexing(),
    "random-indexing-direction": lambda: random_indexing(order="direction", retrain=1),
    "random-indexing-documents": lambda: random_indexing(contexts="documents", order="none", n_blocks=2),
    "random-indexing-partial": lambda: continued(
        RandomIndexing(vector_size=32, window=2, seed_length=4, device="cpu"), vectors
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_seed_gives_the_recorded_arrays(case):
    assert_as_recorded(RECORDED, case, CASES[case]())


if __name__ == "__main__":
    record(RECORDED, {case: train() for case, train in CASES.items()})
