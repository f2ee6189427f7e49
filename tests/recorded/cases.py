"""Small models of all kinds, which train in moments on data of 13 chunks.

Each case says how to make an estimator, and on which data it trains. `helpers.few_shards` puts up to five chunks into a
shard, so that deltas are added within a shard and along the tree of shards.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from corpusmill import LDA, NMF, FastRP, Node2Vec, RandomIndexing, Word2Vec, ingest, ingest_graph
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.pipeline.engine.run import RunStore
from helpers.few_shards import few_shards

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


def write_data(folder: Path) -> None:
    """Write the corpora, the matrix and the graph that the cases train on."""
    for name, seed in (("corpus", 0), ("more", 5)):
        texts = documents(seed)
        tokens = sum(map(len, texts))
        corpus = ingest(texts, folder / name, chunk_tokens=tokens // N_CHUNKS + 25)
        assert len(corpus.chunks) == N_CHUNKS, len(corpus.chunks)
    matrix = write_matrix(folder / "matrix", dense_matrix(), np.float64, chunk_numbers=300)
    assert len(matrix.chunks) == N_CHUNKS, len(matrix.chunks)
    ingest_graph(ring(), folder / "graph")
    chunks = ingest_graph(ring(), folder / "graph-chunks", chunk_edges=11).chunks
    assert len(chunks) == N_CHUNKS, len(chunks)


# --- the cases ---


CLASSES = {
    "lda": LDA,
    "nmf": NMF,
    "word2vec": Word2Vec,
    "node2vec": Node2Vec,
    "fastrp": FastRP,
    "random-indexing": RandomIndexing,
}
#: Where the classes are whose algorithms only papers compare with. A version without the module has these algorithms
#: in the product's classes.
PAPERS = {
    "lda": ("benchmarks.papers.algorithms.lda", "PaperLDA"),
    "nmf": ("benchmarks.papers.algorithms.nmf", "PaperNMF"),
    "word2vec": ("benchmarks.papers.algorithms.word2vec", "PaperWord2Vec"),
}


def _estimator(kind: str, *arguments: Any, is_paper: bool, **parameters: Any) -> Any:
    made_by = CLASSES[kind]
    if is_paper:
        module, name = PAPERS[kind]
        with suppress(ModuleNotFoundError):
            made_by = getattr(import_module(module), name)
            # The name of this solver in versions without the module is order="paper".
            if parameters.pop("order", None) == "paper":
                parameters["solver"] = "paper"
    return made_by(*arguments, **parameters)


def _of(
    kind: str, *arguments: Any, data: str = "corpus", continues: bool = False, is_paper: bool = False, **parameters: Any
) -> Case:
    return Case(partial(_estimator, kind, *arguments, is_paper=is_paper, **parameters), data, continues)


lda = partial(_of, "lda", 4, max_iter=3, random_state=1, device="cpu")
nmf = partial(_of, "nmf", 4, max_iter=4, random_state=1, device="cpu")
word2vec = partial(_of, "word2vec", vector_size=16, min_count=1, epochs=2, sample=0.01, device="cpu")
node2vec = partial(_of, "node2vec", p=2, q=0.5, num_walks=3, walk_length=10, vector_size=16, epochs=2, device="cpu")
fastrp = partial(_of, "fastrp", 16, data="graph-chunks", weights=(0.5, 0, 1), degree_exponent=-0.5)
indexing = partial(_of, "random-indexing", vector_size=32, window=2, seed_length=4, device="cpu")

CASES = {
    "lda": lda(),
    "lda-blocks": lda(n_blocks=3),
    "lda-warp": lda(sampler="warp"),
    # Fewer topics are those of "gibbs".
    "lda-auto": _of("lda", 1001, max_iter=3, random_state=1, device="cpu", sampler="auto", n_blocks=2),
    "lda-gibbs": lda(sampler="gibbs"),
    "lda-gibbs-blocks": lda(sampler="gibbs", n_blocks=4),
    "lda-minibatch": lda(sampler="minibatch"),
    "lda-reference": lda(sampler="reference", is_paper=True),
    "lda-uncollapsed": lda(sampler="uncollapsed", is_paper=True),
    "lda-asymmetric": lda(learn_priors="asymmetric", learn_every=2),
    "lda-seeds": lda(seeds=[["w00", "w01"], ["w20"]]),
    "lda-partial": lda(continues=True),
    "nmf": nmf(n_blocks=2),
    "nmf-tfidf": nmf(weighting="tfidf", n_blocks=2),
    "nmf-dense": nmf(data="matrix", dtype="float64"),
    "nmf-paper": nmf(data="matrix", order="paper", is_paper=True),
    "nmf-extrapolated": nmf(data="matrix", extrapolate=True),
    "nmf-nndsvda": nmf(data="matrix", init="nndsvda", n_blocks=2),
    "nmf-penalised": nmf(data="matrix", alpha_W=0.01, l1_ratio=0.5),
    "nmf-mu": nmf(data="matrix", solver="mu"),
    "nmf-anls": nmf(data="matrix", solver="anls", is_paper=True),
    "nmf-divergence": nmf(data="matrix", solver="mu", beta_loss="kullback-leibler"),
    "nmf-known": nmf(data="matrix", missing="unknown", alpha_W=0.01, l1_ratio=0.5, n_blocks=2),
    "nmf-speckled": nmf(restart_components=[3, 4], validation_fraction=0.1, n_blocks=2),
    "nmf-restarts": nmf(restarts=3, n_blocks=2),
    "nmf-partial": nmf(continues=True),
    "word2vec-strata": word2vec(n_blocks=4),
    "word2vec-window": word2vec(n_blocks=4, window=8, epochs=3),
    "word2vec-neighbours": word2vec(n_blocks=4, window=1),
    "word2vec-par": word2vec(method="par"),
    "word2vec-full": word2vec(method="full"),
    "word2vec-sgns": word2vec(method="sgns", is_paper=True),
    "word2vec-partial": word2vec(continues=True),
    "node2vec": node2vec(data="graph"),
    "node2vec-walks": node2vec(n_blocks=4),
    "fastrp": fastrp(),
    "fastrp-blocks": fastrp(n_blocks=3),
    "random-indexing": indexing(),
    "random-indexing-ranges": indexing(n_blocks=3, retrain=2),
    "random-indexing-direction": indexing(order="direction", retrain=1),
    "random-indexing-documents": indexing(contexts="documents", order="none", n_blocks=2),
    "random-indexing-partial": indexing(continues=True),
}
#: Cases that have one shard, of all chunks: their algorithms allow no more, or the graph has walks for one chunk.
ONE_SHARD = {"word2vec-par", "word2vec-full", "word2vec-sgns", "node2vec"}


# --- training ---


def train(name: str, data: Path, run: Path, **options: Any) -> dict[str, np.ndarray]:
    """Train a case with these options of ``fit``, and return the arrays of its model and what describes its run.

    ``data`` is the folder of `write_data`, and ``run`` one for the runs of this case.
    """
    case = CASES[name]
    model = case.make()
    last = run / "first"
    with few_shards():
        # Only the last training of a case is interrupted or resumed, so that it continues the same model.
        model.fit(str(data / case.data), run=str(last), **({} if case.continues else options))
        if case.continues:
            last = run / "more"
            model.partial_fit(str(data / "more"), run=str(last), **options)
    trained = RunStore(str(last))
    meta = trained.meta
    shards = [len(shard) for shard in meta["shards"]]
    expected = 1 if name in ONE_SHARD else 3
    assert len(shards) == expected, f"{name} has shards of {shards} chunks: few_shards does not fit this version"
    return arrays_of(model) | {
        "shards": np.array(shards),
        "epochs": np.array([row["epoch"] for row in trained.metrics]),
        "fingerprint": np.array(meta["fingerprint"]),
    }


def arrays_of(model: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a fitted model, and the measures of its training."""
    if hasattr(model, "wv"):
        return {"vectors": model.wv.vectors, "words": np.array(model.wv.index_to_key)}
    scores: list[float] = []
    for row in model.history_:
        scores += [row[name] for name in sorted(row) if name.endswith(MEASURES)]
    return {"components": model.components_, "scores": np.array(scores)}
