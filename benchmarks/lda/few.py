"""Few topics, with fixed and with learned priors: held-out likelihood, coherence and CPU time of each program."""

from typing import NamedTuple

import click
import numpy as np
from corpusmill import LDA
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.coherence import topic_coherence

from benchmarks.common import Clock, print_row
from benchmarks.lda.data import read, split, tokens_of
from benchmarks.lda.quality import score

#: Words of a topic of which coherence is measured.
TOP_WORDS = 10
#: Passes of the variational programs, which converge sooner.
VARIATIONAL_PASSES = 30


class Trained(NamedTuple):
    """A model in the form in which all programs are compared."""

    phi: np.ndarray  # (K, V): the probability of each word in each topic
    alpha: np.ndarray  # (K,)
    cpu: float  # seconds of training


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
    clock.time(lambda: lda.fit(corpus, evaluate_every=0))
    phi = np.empty_like(lda.components_)
    # The words of a corpus are ordered by frequency, and named by their columns.
    phi[:, np.array(lda.words_, int)] = lda.components_
    return Trained(phi / phi.sum(axis=1, keepdims=True), lda.model_.shared["alpha"], clock.cpu)


def of_fixed_priors(task: Task) -> Trained:
    """Train LDA with the default priors, unchanged."""
    return of_corpusmill(task, learn_priors="none")


def of_learned_priors(task: Task) -> Trained:
    """Train LDA with one alpha per topic and beta learned, which is the default for up to 50 topics."""
    return of_corpusmill(task, learn_priors="asymmetric")


def of_gibbs(task: Task) -> Trained:
    """Train LDA with learned priors by its sampler "gibbs"."""
    return of_corpusmill(task, learn_priors="asymmetric", sampler="gibbs")


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
    return Trained(phi, np.array(model.alpha), clock.cpu)


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
    "fixed priors": of_fixed_priors,
    "learned priors": of_learned_priors,
    "gibbs, learned": of_gibbs,
    "tomotopy": of_tomotopy,
    "gensim": of_gensim,
    "scikit-learn": of_scikit_learn,
}


def coherence(phi: np.ndarray, corpus) -> float:
    """Return the mean coherence (NPMI) of the topics, counted within the training documents."""
    best = np.argsort(-phi, axis=1, kind="stable")[:, :TOP_WORDS]
    return float(np.nanmean(topic_coherence(corpus, best.astype(str).tolist(), "npmi", window=0)))


@click.command()
@click.option("--corpus", "names", multiple=True, default=["20news", "nips", "kjv", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[20, 50, 100])
@click.option("--tokens", default=1_000_000, help="Tokens of Wikipedia. The other corpora are taken as they are.")
@click.option("--passes", default=200)
@click.option("--seeds", default=1, help="Number of trainings of each model.")
@click.option("--program", "programs", multiple=True, type=click.Choice(list(PROGRAMS)), default=list(PROGRAMS))
@click.pass_obj
def few(run, names, topics, tokens, passes, seeds, programs):
    """Held-out log-likelihood per token, coherence and CPU-seconds of few topics."""
    passes = 2 if run.session.quick else passes
    print_row("corpus", "topics", "program", "held-out", "NPMI", "CPU-s")
    for name in names:
        matrix = read(run.session, name, tokens if name == "wikipedia" else 0)
        train, first, second = split(matrix)
        corpus = corpus_from(train)
        # Compiles the kernels, also those that learn priors in the tenth epoch.
        for program in (of_learned_priors, of_gibbs):
            program(Task(train, topics[0], min(passes, 10), 0))
        for n_topics in topics:
            figures = run.session.figures.setdefault(f"few {name} {n_topics}", {})
            for program in programs:
                rows = []
                for seed in range(seeds):
                    found = PROGRAMS[program](Task(train, n_topics, passes, seed))
                    likelihood = score(found.phi, first, second, found.alpha)
                    rows.append((likelihood, coherence(found.phi, corpus), found.cpu))
                figures[program] = rows
                likelihood, npmi, cpu = np.mean(rows, axis=0)
                print_row(name, str(n_topics), program, f"{likelihood:.3f}", f"{npmi:.3f}", f"{cpu:.1f}")
