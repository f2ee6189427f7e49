"""Coherence of topics' words: counted out of core, a chunk a task, for these words alone."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ....io.stores.corpus import Corpus
from ....io.stores.store import DataError, Store
from ....kernels import coherence as kernels
from ...engine.executors import executor_for
from .text import map_words

#: Words of a sliding window by measure; 0: a whole document.
WINDOWS = {"u_mass": 0, "npmi": 10, "c_v": 110}


def coherence(
    corpus: Corpus,
    topics: Sequence[Sequence[str]],
    measure: str = "npmi",
    window: int | None = None,
    client: Any | None = None,
) -> np.ndarray:
    """Return how well each topic's words, heaviest first, belong together in a corpus: (K,) float64.

    ``measure``: "u_mass", "npmi" or "c_v". ``window``: words of the sliding window in which words meet; 0 takes whole
    documents; by default that of gensim's CoherenceModel. Words that do not occur are left out; a topic of which fewer
    than two are left is nan. Raises ValueError for another measure, DataError for windows over a bag of words.
    """
    if measure not in WINDOWS:
        raise ValueError(f"measure is {measure!r}: choose one of {', '.join(WINDOWS)}")
    window = WINDOWS[measure] if window is None else window
    if window < 0:
        raise ValueError(f"window is {window}: choose a number of words, or 0 for whole documents")
    if window and not corpus.is_ordered:
        raise DataError(f"{corpus.url}: a bag of words has no windows: choose window=0 or u_mass, or ingest the text")
    words = sorted({word for topic in topics for word in topic})
    ids = map_words(pa.table({"word": pa.array(words, pa.large_string())}), corpus.vocabulary)
    words = [word for word, v in zip(words, ids, strict=True) if v >= 0]
    pairs, contexts = _count(corpus, ids[ids >= 0], window, client)
    place = {word: i for i, word in enumerate(words) if pairs[i, i]}
    known = [np.array([place[w] for w in topic if w in place], np.int64) for topic in topics]
    score = kernels.MEASURES[measure]
    return np.array([score(topic, pairs, contexts) if len(topic) > 1 else np.nan for topic in known])


def _count(corpus: Corpus, ids: np.ndarray, window: int, client: Any | None) -> tuple[np.ndarray, int]:
    """Return in how many contexts both words of each pair are, and the number of contexts."""
    tasks = [(Store(corpus.url).absolute, corpus.part, c, ids, window) for c in range(len(corpus.chunks))]
    pairs, contexts = np.zeros((len(ids), len(ids)), np.int64), 0
    for _, (more, number) in executor_for(client).run(_count_chunk, tasks, key=f"coherence-{os.urandom(4).hex()}"):
        pairs += more
        contexts += number
    return pairs, contexts


def _count_chunk(url: str, part: str, index: int, ids: np.ndarray, window: int) -> tuple[np.ndarray, int]:
    corpus = Corpus(url, part)
    chunk = corpus.read_chunk(index)
    number = np.full(corpus.n_words, -1, np.int64)
    number[ids] = np.arange(len(ids))
    return kernels.count_pairs(chunk.doc_ptr, number[chunk.words], len(ids), window or max(1, chunk.n_tokens))
