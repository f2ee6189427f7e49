"""Small models of all kinds, which train in moments on data of 13 chunks.

Each case says how to make an estimator, and on which data it trains. `helpers.few_shards` puts up to five chunks into a
shard, so that deltas are added within a shard and along the tree of shards.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from corpusmill import LDA
from corpusmill.pipeline.models.registry import estimator_class

N_CHUNKS = 13
#: Ends of the names of measures that depend on the model only.
MEASURES = ("likelihood", "error", "divergence")


class Case(NamedTuple):
    """An estimator and its data."""

    make: Callable[[], Any]
    data: str = "corpus"
    #: Whether the model then learns other documents by ``partial_fit``.
    continues: bool = False


def documents(seed: int, n_documents: int = 130) -> list[list[str]]:
    """Return documents of a small vocabulary with two planted topics."""
    rng = np.random.Generator(np.random.PCG64(seed))
    words = np.array([f"w{i:02d}" for i in range(40)])
    found = []
    for _ in range(n_documents):
        half = rng.integers(2)
        ids = np.minimum(rng.geometric(0.12, rng.integers(15, 40)), 20) - 1 + 20 * half
        found.append(words[ids].tolist())
    return found


def dense_matrix() -> np.ndarray:
    """Return a matrix (130, 30) float64 of positive numbers."""
    return np.random.Generator(np.random.PCG64(3)).gamma(0.5, size=(130, 30))


def ring() -> scipy.sparse.csr_array:
    """Return the adjacency matrix of a ring of sixty nodes with a few chords."""
    starts = [*range(60), 0, 3, 6, 9, 40]
    ends = [*((node + 1) % 60 for node in range(60)), 7, 10, 13, 16, 20]
    upper = scipy.sparse.coo_array((np.ones(65), (starts, ends)), (60, 60)).tocsr()
    return upper + upper.T


def _of(kind: str, *arguments: Any, data: str = "corpus", continues: bool = False, **parameters: Any) -> Case:
    return Case(partial(_estimator, kind, *arguments, **parameters), data, continues)


def _estimator(kind: str, *arguments: Any, **parameters: Any) -> Any:
    if kind == "lda" and parameters.get("sampler") in ("reference", "uncollapsed"):
        return _paper_class("lda:PaperLDA", LDA)(*arguments, **parameters)
    return estimator_class(kind)(*arguments, **parameters)


def _paper_class(name: str, former: type) -> type:
    """Return the class that has an algorithm for comparison. In former versions, that is the estimator itself."""
    try:
        return estimator_class(f"benchmarks.papers.algorithms.{name}")
    except KeyError:
        return former


lda = partial(_of, "lda", 4, max_iter=3, random_state=1, device="cpu")
nmf = partial(_of, "nmf", 4, max_iter=4, random_state=1, device="cpu")
word2vec = partial(_of, "word2vec", vector_size=16, min_count=1, epochs=2, sample=0.01, device="cpu")
node2vec = partial(_of, "node2vec", p=2, q=0.5, num_walks=3, walk_length=10, vector_size=16, epochs=2, device="cpu")
indexing = partial(_of, "random-indexing", vector_size=32, window=2, seed_length=4, device="cpu")

CASES = {
    "lda": lda(),
    "lda-blocks": lda(n_blocks=3),
    "lda-warp": lda(sampler="warp"),
    "lda-auto": lda(sampler="auto", n_blocks=2),
    "lda-cgs": lda(sampler="cgs"),
    "lda-gibbs": lda(sampler="gibbs"),
    "lda-minibatch": lda(sampler="minibatch"),
    "lda-reference": lda(sampler="reference"),
    "lda-uncollapsed": lda(sampler="uncollapsed"),
    "lda-asymmetric": lda(learn_priors="asymmetric", learn_every=2),
    "lda-seeds": lda(seeds=[["w00", "w01"], ["w20"]]),
    "lda-partial": lda(continues=True),
    "nmf": nmf(n_blocks=2),
    "nmf-tfidf": nmf(weighting="tfidf", n_blocks=2),
    "nmf-dense": nmf(data="matrix", dtype="float64"),
    "nmf-paper": nmf(data="matrix", order="paper"),
    "nmf-extrapolated": nmf(data="matrix", extrapolate=True),
    "nmf-nndsvda": nmf(data="matrix", init="nndsvda", n_blocks=2),
    "nmf-penalised": nmf(data="matrix", alpha_W=0.01, l1_ratio=0.5),
    "nmf-mu": nmf(data="matrix", solver="mu"),
    "nmf-anls": nmf(data="matrix", solver="anls"),
    "nmf-divergence": nmf(data="matrix", solver="mu", beta_loss="kullback-leibler"),
    "nmf-restarts": nmf(restarts=3, n_blocks=2),
    "nmf-partial": nmf(continues=True),
    "word2vec-strata": word2vec(n_blocks=4),
    "word2vec-window": word2vec(n_blocks=4, window=8, epochs=3),
    "word2vec-par": word2vec(method="par"),
    "word2vec-full": word2vec(method="full"),
    "word2vec-sgns": word2vec(method="sgns"),
    "word2vec-partial": word2vec(continues=True),
    "node2vec": node2vec(data="graph"),
    "random-indexing": indexing(),
    "random-indexing-blocks": indexing(n_blocks=3),
    "random-indexing-direction": indexing(order="direction", retrain=1),
    "random-indexing-documents": indexing(contexts="documents", order="none", n_blocks=2),
    "random-indexing-partial": indexing(continues=True),
}


def arrays_of(model: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a fitted model."""
    if hasattr(model, "wv"):
        return {"vectors": model.wv.vectors, "words": np.array(model.wv.index_to_key)}
    scores: list[float] = []
    for row in model.history_:
        scores += [row[name] for name in sorted(row) if name.endswith(MEASURES)]
    return {"components": model.components_, "scores": np.array(scores)}
