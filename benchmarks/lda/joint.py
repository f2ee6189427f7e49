"""The log-likelihood of words and topics together, which compares samplers of the same posterior."""

from types import SimpleNamespace

import numpy as np
from corpusmill import LDA
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.lda.interop import word_counts
from scipy.special import gammaln


def joint_log_likelihood(
    by_document: np.ndarray, by_word: np.ndarray, alpha: float | np.ndarray, beta: float | np.ndarray
) -> float:
    """Return the logarithm of the probability of all words and topics, per token.

    ``by_document`` (D, K) and ``by_word`` (K, V) are counts of topics. The priors are numbers, or alpha is (K,).
    """
    total = 0.0
    for counts, prior in ((by_document, alpha), (by_word, beta)):
        priors = np.broadcast_to(np.asarray(prior, float), counts.shape[1])
        total += gammaln(counts + priors).sum() - len(counts) * gammaln(priors).sum()
        total += (gammaln(priors.sum()) - gammaln(counts.sum(axis=1) + priors.sum())).sum()
    return float(total / by_document.sum())


def joint_of_run(lda: LDA, corpus: Corpus, run: str) -> float:
    """Return the likelihood of a model that was trained on a corpus in the folder ``run``."""
    store = RunStore(run)
    shared = store.shared(store.step)
    algorithm = lda._algorithm(corpus)
    by_document = []
    for index in range(len(corpus.chunks)):
        chunk = algorithm.load_chunk(corpus, index, SimpleNamespace(shared=shared))
        drawn = chunk.docs.astype(np.int64) * lda.n_components + store.state(store.step, index)["z"]
        counts = np.bincount(drawn, minlength=chunk.n_documents * lda.n_components)
        by_document.append(counts.reshape(-1, lda.n_components))
    return joint_log_likelihood(
        np.concatenate(by_document), word_counts(lda.model_), lda.doc_topic_prior_, lda.topic_word_prior_
    )


def joint_of_tomotopy(model) -> float:
    """Return the likelihood of a model of tomotopy."""
    by_document = np.zeros((len(model.docs), model.k), np.int64)
    by_word = np.zeros((model.k, len(model.used_vocabs)), np.int64)
    for row, document in enumerate(model.docs):
        topics = np.asarray(document.topics)
        by_document[row] = np.bincount(topics, minlength=model.k)
        np.add.at(by_word, (topics, np.asarray(document.words)), 1)
    return joint_log_likelihood(by_document, by_word, np.array(model.alpha), model.eta)
