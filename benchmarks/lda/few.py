"""Programs with their defaults: held-out and joint likelihood, coherence and CPU time."""

from functools import partial
from typing import NamedTuple

import click
import numpy as np
from corpusmill import LDA
from corpusmill.io.stores.in_memory import url_in_memory
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.coherence import topic_coherence

from benchmarks.common import Clock, print_row
from benchmarks.lda.data import read, split, tokens_of
from benchmarks.lda.joint import joint_of_run, joint_of_tomotopy
from benchmarks.lda.quality import score
from benchmarks.lda.systems import PEERS

#: Words of a topic of which coherence is measured.
TOP_WORDS = 10
#: Passes of the variational programs, which converge sooner.
VARIATIONAL_PASSES = 30


class Trained(NamedTuple):
    """A model in the form in which all programs are compared."""

    phi: np.ndarray  # (K, V): the probability of each word in each topic
    alpha: np.ndarray  # (K,)
    cpu: float  # seconds of training
    joint: float = float("nan")  # log-likelihood per token of words and topics together


class Task(NamedTuple):
    """What a program is to train."""

    matrix: object  # (D, V) counts
    n_topics: int
    passes: int
    seed: int


def of_corpusmill(task: Task, **parameters) -> Trained:
    """Train LDA with some parameters, and the default of all others."""
    corpus = corpus_from(task.matrix)
    clock = Clock()
    lda = LDA(task.n_topics, max_iter=task.passes, random_state=task.seed, **parameters)
    # The run is in memory, as that of a small corpus is without a folder.
    with url_in_memory() as run:
        clock.time(lambda: lda.fit(corpus, run=run, evaluate_every=0))
        joint = joint_of_run(lda, corpus, run)
    phi = np.empty_like(lda.components_)
    # The words of a corpus are ordered by frequency, and named by their columns.
    phi[:, np.array(lda.words_, int)] = lda.components_
    return Trained(phi / phi.sum(axis=1, keepdims=True), lda.doc_topic_prior_, clock.cpu, joint)


def of_tomotopy(task: Task) -> Trained:
    """Train tomotopy with its defaults, which learn alpha."""
    import tomotopy

    model = tomotopy.LDAModel(k=task.n_topics, seed=task.seed + 1)
    doc_ptr, words = tokens_of(task.matrix)
    names = np.arange(task.matrix.shape[1]).astype(str).astype(object)[words]
    for start, end in zip(doc_ptr[:-1], doc_ptr[1:], strict=True):
        if end > start:
            model.add_doc(names[start:end].tolist())
    clock = Clock()
    clock.time(lambda: model.train(task.passes, workers=1))
    phi = np.zeros((task.n_topics, task.matrix.shape[1]))
    phi[:, np.array(model.used_vocabs, int)] = [model.get_topic_word_dist(k) for k in range(task.n_topics)]
    return Trained(phi, np.array(model.alpha), clock.cpu, joint_of_tomotopy(model))


def of_gensim(task: Task) -> Trained:
    """Train gensim with learned priors."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    columns = task.matrix.shape[1]
    model = LdaModel(
        id2word={v: str(v) for v in range(columns)},
        num_topics=task.n_topics,
        alpha="auto",
        eta="auto",
        passes=min(task.passes, VARIATIONAL_PASSES),
        eval_every=None,
        random_state=task.seed,
    )
    clock = Clock()
    clock.time(lambda: model.update(Sparse2Corpus(task.matrix.T.tocsc(), documents_columns=True)))
    return Trained(model.get_topics(), model.alpha, clock.cpu)


def of_scikit_learn(task: Task) -> Trained:
    """Train scikit-learn with its defaults, and more passes."""
    from sklearn.decomposition import LatentDirichletAllocation

    passes = min(task.passes, VARIATIONAL_PASSES)
    model = LatentDirichletAllocation(task.n_topics, max_iter=passes, random_state=task.seed)
    clock = Clock()
    clock.time(lambda: model.fit(task.matrix))
    phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return Trained(phi, np.full(task.n_topics, model.doc_topic_prior_), clock.cpu)


PROGRAMS = {
    "esca": partial(of_corpusmill, sampler="esca"),
    "esca, fixed priors": partial(of_corpusmill, sampler="esca", learn_priors="none"),
    "gibbs": partial(of_corpusmill, sampler="gibbs"),
    "auto": partial(of_corpusmill, sampler="auto"),
    "tomotopy": of_tomotopy,
    "gensim": of_gensim,
    "scikit-learn": of_scikit_learn,
}


def coherence(phi: np.ndarray, corpus) -> float:
    """Return the mean coherence (NPMI) of the topics, counted within the training documents."""
    best = np.argsort(-phi, axis=1, kind="stable")[:, :TOP_WORDS]
    return float(np.nanmean(topic_coherence(corpus, best.astype(str).tolist(), "npmi", window=0)))


@click.command()
@click.option("--corpus", "names", multiple=True, default=["kjv", "20news", "wikipedia", "nips"])
@click.option("--topics", multiple=True, type=int, default=[20, 100])
@click.option("--tokens", default=1_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--passes", default=200)
@click.option("--seeds", default=1, help="Number of trainings of each model.")
@click.option("--program", "programs", multiple=True, type=click.Choice(list(PROGRAMS)), default=list(PROGRAMS))
@click.pass_obj
def few(run, names, topics, tokens, passes, seeds, programs):
    """Held-out log-likelihood per token, coherence, joint log-likelihood per token and CPU-seconds."""
    passes = 2 if run.session.quick else passes
    print_row("corpus", "topics", "program", "held-out", "NPMI", "joint", "CPU-s")
    for name in names:
        train, first, second = split(read(run.session, name, tokens))
        corpus = corpus_from(train)
        # Compiles the kernels, also those that learn priors in the tenth epoch.
        for n_topics in topics:
            for program in set(programs) - set(PEERS):
                PROGRAMS[program](Task(train, n_topics, min(passes, 10), 0))
            figures = run.session.figures.setdefault(f"few {name} {n_topics}", {})
            for program in programs:
                rows = []
                for seed in range(seeds):
                    found = PROGRAMS[program](Task(train, n_topics, passes, seed))
                    likelihood = score(found.phi, first, second, found.alpha)
                    rows.append((likelihood, coherence(found.phi, corpus), found.joint, found.cpu))
                figures[program] = rows
                likelihood, npmi, joint, cpu = np.mean(rows, axis=0)
                spread = f"{likelihood:.3f}±{np.ptp(rows, axis=0)[0] / 2:.3f}"
                print_row(name, str(n_topics), program, spread, f"{npmi:.3f}", f"{joint:.3f}", f"{cpu:.1f}")
