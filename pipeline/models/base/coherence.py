"""Coherence and diversity of topics, given as lists of words. Any topic model can use them.

Coherence counts how often pairs of topic words occur close together. One task counts the pairs in one chunk of
the corpus, and only pairs of topic words are counted, so memory does not grow with the corpus or its vocabulary.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....io.errors import DataError
from ....io.messages import listed, pluralize
from ....io.stores.corpus import Corpus
from ....io.words import find_word_ids
from ....kernels import coherence as kernels
from ...engine.data import DataRef, reference
from ...engine.executors import executor_for
from .advice import TrainingWarning, warn_user

if TYPE_CHECKING:
    from distributed import Client

#: Default length of the sliding window in words, by measure, as in gensim. 0 counts within whole documents.
DEFAULT_WINDOWS = {"u_mass": 0, "npmi": 10, "c_v": 110}


def topic_coherence(
    corpus: Corpus,
    topics: Sequence[Sequence[str]],
    measure: str = "npmi",
    window: int | None = None,
    client: "Client | None" = None,
) -> np.ndarray:
    """Measure how well the words of each topic belong together, as `TopicModel.coherence` does: (K,) float64.

    A topic is a list of its words, heaviest first. Words that do not occur in the corpus are ignored. Topics with fewer
    than two words in the corpus are NaN; a warning names the words that they lack.
    """
    if measure not in DEFAULT_WINDOWS:
        raise ValueError(f"measure is {measure!r}: choose one of {', '.join(DEFAULT_WINDOWS)}")
    if window is None:
        window = DEFAULT_WINDOWS[measure]
    if window < 0:
        raise ValueError(f"window is {window}: choose a number of words, or 0 for whole documents")
    if window and not corpus.is_ordered:
        raise DataError(
            f"{corpus.title}: a bag of words has no windows: choose u_mass, or ingest the text (in Python, window=0 "
            f"counts within whole documents)"
        )

    words = sorted({word for topic in topics for word in topic})
    ids = find_word_ids(words, corpus.vocabulary)
    pairs, n_contexts = _count_pairs(corpus, ids[ids >= 0], window, client)

    # Rows of `pairs` are the known words in sorted order. A word in the vocabulary may still have no occurrence in
    # this part of the corpus; its diagonal entry is zero then, and it is left out like an unknown word.
    known = [word for word, word_id in zip(words, ids, strict=True) if word_id >= 0]
    row_of = {word: row for row, word in enumerate(known) if pairs[row, row] > 0}
    score = kernels.MEASURES[measure]
    coherence = np.full(len(topics), np.nan)
    for k, topic in enumerate(topics):
        rows = np.array([row_of[word] for word in topic if word in row_of], np.int64)
        if len(rows) > 1:
            coherence[k] = score(rows, pairs, n_contexts)
    missing = [word for word in words if word not in row_of]
    n_undefined = int(np.isnan(coherence).sum())
    # Without missing words, the topics themselves have fewer than two words, because training has emptied them.
    if missing and n_undefined:
        warn_user(
            f"{corpus.title}: {n_undefined:,} of {pluralize(len(topics), 'topic')} have fewer than two words here, so "
            f"their coherence is NaN; {len(missing):,} of {pluralize(len(words), 'word')} are missing: "
            f"{listed(missing)}",
            TrainingWarning,
        )
    return coherence


def topic_diversity(topics: Sequence[Sequence[str]]) -> float:
    """Return the share of distinct words among the words of all topics (Dieng et al., 2020); 1 if none is shared."""
    words = [word for topic in topics for word in topic]
    return len(set(words)) / max(1, len(words))


def _count_pairs(corpus: Corpus, ids: np.ndarray, window: int, client: "Client | None") -> tuple[np.ndarray, int]:
    """Count the contexts that hold both words of each pair: (n, n) int64; and the number of contexts."""
    data = reference(corpus)
    tasks = [(data, chunk, ids, window) for chunk in range(len(corpus.chunks))]
    pairs = np.zeros((len(ids), len(ids)), np.int64)
    n_contexts = 0
    executor = executor_for(client)
    executor.check_folders([data.url])
    with executor.guarded():
        counted = executor.run(_count_pairs_of_chunk, tasks, name="coherence")
        for _, (chunk_pairs, chunk_contexts) in counted:
            pairs += chunk_pairs
            n_contexts += chunk_contexts
    return pairs, n_contexts


def _count_pairs_of_chunk(data: DataRef, index: int, ids: np.ndarray, window: int) -> tuple[np.ndarray, int]:
    """Count the pairs of one chunk."""
    corpus = Corpus(*data)
    chunk = corpus.read_chunk(index)
    row_of_word = np.full(corpus.n_words, -1, np.int64)
    row_of_word[ids] = np.arange(len(ids))
    # A window as long as the chunk is longer than any document, so each document is one window.
    length = window or max(1, chunk.n_tokens)
    return kernels.count_pairs(chunk.doc_ptr, row_of_word[chunk.words], len(ids), length)
