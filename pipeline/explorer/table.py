"""The table of topics that the page needs at once, computed in one pass over a model and then kept in a cache."""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ...io.errors import DataError
from ...io.stores.store import Arrays, Store
from ..models.vectors.similarity import top_indices
from .layout import map_points, reduce_dimensions, spread_circles, squared_distances

#: Words kept of each topic. Relevance orders these words only.
TABLE_WORDS = 400
#: Words of a topic that may be in its title, and the weight of frequency in their relevance.
TITLE_POOL = 60
TITLE_LAMBDA = 0.6
#: Topics nearest to a topic that are listed.
NEIGHBOURS = 12
#: Most topics whose circles are moved apart. More circles are too small to overlap much.
SPREAD_TOPICS = 400
#: Share of the map's area that all circles cover together.
COVERED = 0.16
#: Changes with the content of the table, so that an older one in the cache is not used.
FORMAT = 2


class TopicTable(NamedTuple):
    """What is shown of K topics: their place and size, and their heaviest words."""

    xy: np.ndarray  # (K, 2) float32: place on the map, 0 to 1
    radii: np.ndarray  # (K,) float32: in units of the map's width
    sizes: np.ndarray  # (K,) float64: share of the model, sum 1
    word_ptr: np.ndarray  # (K + 1,) int64
    words: np.ndarray  # (n,) int32: ids of the words of each topic, heaviest first
    probabilities: np.ndarray  # (n,) float32: of the word in the topic
    overall: np.ndarray  # (V,) float32: probability of each word in the model
    near: np.ndarray  # (K, N) int32: the nearest topics
    distances: np.ndarray  # (K, N) float32: their Hellinger distances, 0 to 1

    def most_relevant(self, topic: int, n: int) -> np.ndarray:
        """Return the ids of the ``n`` most relevant words of a topic (Sievert and Shirley, 2014, equation 1)."""
        # Rare words come later in the table. The heaviest are enough for a title.
        start = self.word_ptr[topic]
        stop = min(self.word_ptr[topic + 1], start + TITLE_POOL)
        words = self.words[start:stop]
        logs = np.log(self.probabilities[start:stop])
        relevance = logs - (1 - TITLE_LAMBDA) * np.log(np.maximum(self.overall[words], 1e-12))
        return words[top_indices(relevance, n)]


class Distributions(NamedTuple):
    """The topics of a model of V words and K topics, of which a part is in memory at a time."""

    prior: float  # added to each count; 0 for models without a prior
    totals: np.ndarray  # (K,) float64: sum of each topic, priors included
    sizes: np.ndarray  # (K,) float64: share of each topic
    #: Returns, for each topic, this number of its words, heaviest first, and their counts or weights.
    heaviest: Callable[[int], Iterable[tuple[np.ndarray, np.ndarray]]]
    #: Returns, for each word, the sum over the topics of its count times this weight (K,) of the topic: (V,).
    weighted: Callable[[np.ndarray], np.ndarray]
    #: Returns the counts or weights of some words in each topic: (n, K).
    entries: Callable[[np.ndarray], np.ndarray]

    def rows(self, words: np.ndarray) -> np.ndarray:
        """Return the probability of some words in each topic: (n, K) float32."""
        dense = self.entries(words).astype(np.float32)
        return (dense + np.float32(self.prior)) / np.maximum(self.totals, 1e-12).astype(np.float32)


def build_table(model: Distributions) -> TopicTable:
    """Return the best words of each topic, and its place on the map. A hundred million entries take some seconds."""
    n_topics = len(model.totals)
    pointers = [0]
    kept_words: list[np.ndarray] = []
    kept_weights: list[np.ndarray] = []
    for (found, weights), total in zip(model.heaviest(TABLE_WORDS), model.totals, strict=True):
        kept_words.append(found[weights > 0])
        kept_weights.append((weights[weights > 0] + model.prior) / max(total, 1e-12))
        pointers.append(pointers[-1] + len(kept_words[-1]))
    word_ptr = np.array(pointers)
    words = np.concatenate(kept_words).astype(np.int32)
    probabilities = np.concatenate(kept_weights).astype(np.float32)
    overall = model.weighted(model.sizes / np.maximum(model.totals, 1e-12)).astype(np.float32)
    # Other words change no distance.
    used, columns = np.unique(words, return_inverse=True)
    roots = scipy.sparse.csr_matrix((np.sqrt(probabilities), columns, word_ptr), shape=(n_topics, len(used)))
    features = reduce_dimensions(roots)
    radii = np.sqrt(np.maximum(model.sizes, 0) * COVERED / np.pi)
    xy = map_points(features, model.sizes)
    if n_topics <= SPREAD_TOPICS:
        xy, radii = _spread(xy, radii)
    near, distances = _nearest(features, roots)
    return TopicTable(
        xy.astype(np.float32),
        radii.astype(np.float32),
        model.sizes,
        word_ptr,
        words,
        probabilities,
        overall,
        near,
        distances,
    )


def _spread(xy: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move circles until none overlap, then scale centres and radii by one factor to fit the unit square."""
    moved = spread_circles(xy, radii)
    low = (moved - radii[:, None]).min(axis=0)
    high = (moved + radii[:, None]).max(axis=0)
    scale = 1 / max(float((high - low).max()), 1e-12)
    return 0.5 + (moved - (low + high) / 2) * scale, radii * scale


def _nearest(features: np.ndarray, roots: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest topics by reduced features, and their Hellinger distances over the words of the table."""
    n_topics = len(features)
    n = min(NEIGHBOURS, n_topics - 1)
    near = np.zeros((n_topics, n), np.int32)
    distances = np.zeros((n_topics, n), np.float32)
    for start in range(0, n_topics, 1000):
        block = np.arange(start, min(start + 1000, n_topics))
        squares = squared_distances(features[block], features)
        squares[np.arange(len(block)), block] = np.inf
        found = np.argsort(squares, axis=1)[:, :n] if n_topics <= 1000 else np.argpartition(squares, n, axis=1)[:, :n]
        for topic, others in zip(block, found, strict=True):
            overlap = (roots[others] @ roots[topic].T).toarray().ravel()
            exact = np.sqrt(np.clip(1 - overlap, 0, 1))
            order = np.argsort(exact, kind="stable")
            near[topic], distances[topic] = others[order], exact[order]
    return near, distances


def rounded(values: np.ndarray, digits: int) -> list[float]:
    """Return numbers as they are sent to the page, with this number of decimals."""
    return np.round(values.astype(np.float64), digits).tolist()


def cached_arrays(name: str, compute: Callable[[], Arrays]) -> Arrays:
    """Return arrays from the cache of this user, or compute and store them. A folder without rights is no error."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    store = Store(f"{base}/corpusmill/explorer")
    with contextlib.suppress(DataError, OSError):
        return store.read_arrays(name)
    arrays = compute()
    # If they cannot be written, the next call computes them again.
    with contextlib.suppress(DataError, OSError):
        store.write_arrays(name, arrays)
    return arrays
