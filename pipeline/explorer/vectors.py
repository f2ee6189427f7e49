"""Answers the questions of the page about word vectors, and about the nodes of a graph."""

import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...io.errors import DataError
from ...io.stores.store import Arrays, JsonObject
from ..models.base.text import HasWordVectors
from ..models.vectors.similarity import row_lengths, top_indices
from ..models.vectors.vectors import WordVectors
from .layout import map_points, reduce_dimensions, squared_distances
from .model import ExploredModel, Explorer, WordSearch
from .table import cached_arrays, rounded

#: Most frequent words on the map, and nodes of a graph. Names of nodes need less space, and colours tell more.
MAP_WORDS = 1000
MAP_NODES = 5000
#: Neighbours listed of a word, and kept in a page without a server.
NEIGHBOURS = 25
FOUND = 12
#: Groups into which points of a map are divided if they have no labels.
GROUPS = 12
#: Changes with the content of the cached map.
FORMAT = 2


class VectorExplorer(Explorer):
    """Answers requests about the vectors of Word2Vec, Node2Vec, FastRP and random indexing."""

    def __init__(
        self, model: ExploredModel, labels: dict[str, str] | None = None, comparison: JsonObject | None = None
    ):
        super().__init__(model, comparison)
        self.labels = labels or {}
        self._lock = threading.Lock()
        if labels is not None:
            self._check_labels(labels)
        self.map = cached_arrays(f"vectors-{FORMAT}-{model.kind}-{model.digest}", self._build)

    def _check_labels(self, labels: dict[str, str]) -> None:
        """Raise DataError if no word or node has a label, because the map would show none."""
        words = self.vectors.index_to_key
        if not any(word in labels for word in words):
            raise DataError(
                f"{self.model.url}: none of its {len(words):,} words has one of the {len(labels):,} labels; begin each "
                f"line with a name as the model has it, such as {words[0]!r}"
            )

    def start(self) -> None:
        """Begin to read the vectors. The map is shown meanwhile."""
        threading.Thread(target=lambda: self.vectors, daemon=True).start()

    def _build(self) -> Arrays:
        vectors = self.vectors
        counts = vectors.counts if vectors.counts is not None else -np.arange(len(vectors))
        n_points = MAP_NODES if self.model.kind in ("node2vec", "fastrp") else MAP_WORDS
        chosen = top_indices(counts, n_points)
        rows = vectors.vectors[chosen]
        features = reduce_dimensions(rows / row_lengths(rows)[:, None])
        xy = map_points(features, np.arange(len(chosen), 0, -1).astype(np.float64))
        return {"ids": chosen.astype(np.int64), "xy": xy, "groups": cluster(features, GROUPS)}

    @property
    def vectors(self) -> WordVectors:
        """The vectors. The first use reads the model."""
        with self._lock:
            return self._vectors

    @cached_property
    def _vectors(self) -> WordVectors:
        estimator = self.model.estimator
        if not isinstance(estimator, HasWordVectors):
            raise DataError(f"{self.model.url}: {self.model.kind} models have neither topics nor vectors")
        return estimator.wv

    @cached_property
    def _search(self) -> WordSearch:
        return WordSearch(self.vectors.index_to_key)

    # --- answers ---

    def answer_model(self) -> JsonObject:
        """Return the map of the most frequent words."""
        words = self.vectors.index_to_key
        ids = self.map["ids"].tolist()
        names = [words[number] for number in ids]
        answer: JsonObject = {
            "type": "vectors",
            "kind": self.model.kind,
            "title": self.model.title,
            "words": len(words),
            "dimensions": self.vectors.vector_size,
            "x": rounded(self.map["xy"][:, 0], 4),
            "y": rounded(self.map["xy"][:, 1], 4),
            "radius": [0.006] * len(ids),
            "ids": ids,
            "labels": names,
            "names": {},
            "compared": self.comparison is not None,
        }
        groups = self.map["groups"].tolist()
        if self.labels:
            labels = [self.labels.get(name, "no label") for name in names]
            known = sorted(set(labels))
            groups = [known.index(label) for label in labels]
            answer["groups"] = labels
        most = max(groups, default=0) + 1
        answer["hues"] = [(20 + 360 * group // most) % 360 for group in groups]
        return answer

    def answer_comparison(self) -> JsonObject:
        """Return how the neighbours of words differ from those in another model."""
        comparison = super().answer_comparison()
        ids = self.vectors.key_to_index
        moved = [{**change, "id": ids.get(str(change["word"]), -1)} for change in comparison.get("moved", [])]
        return {**comparison, "moved": moved}

    def answer_neighbours(self, word: int) -> JsonObject:
        """Return the words whose vectors are most similar to that of a word."""
        vectors = self.vectors
        name = vectors.index_to_key[word]
        answer: JsonObject = {"id": word, "word": name, "near": self._near([word])}
        if vectors.counts is not None:
            answer["count"] = int(vectors.counts[word])
        if name in self.labels:
            answer["group"] = self.labels[name]
        return answer

    def answer_analogy(self, a: str, b: str, c: str) -> JsonObject:
        """Return words that are to ``c`` what ``b`` is to ``a``."""
        numbers = [self._number(word) for word in (a, b, c)]
        return {"near": self._near(numbers[1:], numbers[:1])}

    def answer_search(self, text: str) -> JsonObject:
        """Return words that contain a text: those equal to it first, then those that begin with it."""
        found = self._search.containing(text.strip()[:100], FOUND)
        words = [{"id": number, "word": self.vectors.index_to_key[number]} for number in found]
        return {"words": words, "topics": [], "documents": []}

    def _number(self, word: str) -> int:
        if not word:
            raise DataError("fill in three words")
        number = self.vectors.get_index(word, -1)
        if number < 0:
            number = self._search.first(word)
        if number < 0:
            raise DataError(f"the word {word[:50]!r} is not in the vocabulary of this model")
        return number

    def _near(self, positive: Sequence[int], negative: Sequence[int] = ()) -> list[JsonObject]:
        found = self.vectors.most_similar(list(positive), list(negative), topn=NEIGHBOURS)
        number_of = self.vectors.key_to_index
        return [
            {"id": number_of[word], "word": word, "similarity": round(float(similarity), 4)}
            for word, similarity in found
        ]


def cluster(features: np.ndarray, n_groups: int) -> np.ndarray:
    """Divide points (n, D) into groups by k-means with the starts of k-means++: (n,) int64, the same in every call.

    SciPy's kmeans2 divides by zero where points coincide, and scikit-learn is not a dependency.
    """
    rng = np.random.default_rng(0)
    n_groups = min(n_groups, len(features))
    centres = features[:1]
    for _ in range(n_groups - 1):
        least = squared_distances(features, centres).min(axis=1)
        if least.sum() == 0:
            break
        centres = np.vstack([centres, features[rng.choice(len(features), p=least / least.sum())]])
    groups = np.zeros(len(features), np.int64)
    for _ in range(50):
        groups = squared_distances(features, centres).argmin(axis=1)
        means = [features[groups == g].mean(axis=0) if (groups == g).any() else centres[g] for g in range(len(centres))]
        if np.allclose(means, centres):
            break
        centres = np.array(means)
    return groups.astype(np.int64)
