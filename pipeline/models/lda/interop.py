"""Converts trained topics for other libraries: pyLDAvis and gensim."""

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ....io.extras import needing
from ....io.stores.corpus import Corpus
from ....io.words import find_word_ids
from ..base.saved import TrainedModel
from .word_topics import list_entries

if TYPE_CHECKING:
    from gensim.models import LdaModel


class PyLdavisArguments(TypedDict):
    """The arguments of ``pyLDAvis.prepare``, for D documents and V words."""

    topic_term_dists: np.ndarray  # (K, V) float64, rows sum to one
    doc_topic_dists: np.ndarray  # (D, K) float64, rows sum to one
    doc_lengths: np.ndarray  # (D,) int64
    vocab: list[str]  # (V,)
    term_frequency: np.ndarray  # (V,) int64


def pyldavis_arguments(model: TrainedModel, lengths: np.ndarray, weights: np.ndarray) -> PyLdavisArguments:
    """Return the arguments of ``pyLDAvis.prepare`` from documents' lengths (D,) and topic weights (D, K).

    Documents without tokens are left out, because pyLDAvis divides by the length.
    """
    used = lengths > 0
    rows = weights[used].astype(np.float64)
    return {
        "topic_term_dists": word_probabilities(model),
        "doc_topic_dists": rows / rows.sum(axis=1, keepdims=True),
        "doc_lengths": lengths[used],
        "vocab": model.vocabulary["word"].to_pylist(),
        # A word of the vocabulary may have no token, but pyLDAvis takes the logarithm.
        "term_frequency": np.maximum(1, word_counts(model).sum(axis=0)),
    }


def word_counts(model: TrainedModel) -> np.ndarray:
    """Return the number of tokens of each word in each topic, pseudo-counts of seeds included: (K, V) int64."""
    counts = np.zeros((len(model.shared["alpha"]), model.vocabulary.num_rows), np.int64)
    for block in list_entries(model.blocks):
        counts[block.topics, block.words] = block.counts
    return counts


def word_probabilities(model: TrainedModel) -> np.ndarray:
    """Return the topics' distributions over words: (K, V) float64, rows sum to one."""
    weights = word_counts(model) + float(model.shared["beta"])
    return weights / weights.sum(axis=1, keepdims=True)


def known_lengths(model: TrainedModel, corpus: Corpus) -> np.ndarray:
    """Return how many tokens of each document have a word that the model has, too: (D,) int64."""
    is_known = find_word_ids(corpus.vocabulary["word"], model.vocabulary) >= 0
    lengths = [np.zeros(0, np.int64)]
    for index in range(len(corpus.chunks)):
        chunk = corpus.read_document_order(index)
        known_before = np.r_[0, np.cumsum(is_known[chunk.words])]
        lengths.append(np.diff(known_before[chunk.doc_ptr]))
    return np.concatenate(lengths)


def gensim_model(model: TrainedModel) -> "LdaModel":
    """Return a gensim LdaModel with the same topics and a Dictionary with the same words.

    Raises ImportError without gensim.
    """
    with needing("gensim", "gensim", "to_gensim"):
        from gensim.corpora import Dictionary
        from gensim.models import LdaModel

    words = model.vocabulary["word"].to_pylist()
    dictionary = Dictionary()
    dictionary.token2id = {word: v for v, word in enumerate(words)}
    dictionary.id2token = dict(enumerate(words))
    dictionary.dfs = dict(enumerate(model.vocabulary["document_frequency"].to_pylist()))
    alpha = np.asarray(model.shared["alpha"], np.float32)
    lda = LdaModel(id2word=dictionary, num_topics=len(alpha), alpha=alpha, eta=float(model.shared["beta"]))
    # gensim computes its topics as eta + sstats, so sstats are the counts.
    lda.state.sstats = word_counts(model).astype(lda.dtype)
    lda.sync_state()
    return lda
