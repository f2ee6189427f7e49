"""Compare two models of one kind: match their topics, or compare the nearest neighbours of their words."""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...io.errors import DataError
from ..models.base.estimator import Estimator
from ..models.base.text import HasWordVectors
from ..models.base.topics import TopicModel
from ..models.registry import load_model
from ..models.vectors.similarity import top_indices
from ..models.vectors.vectors import WordVectors
from ..topics import Topic, words_of
from .results import ModelDiff, NeighbourChange, TopicChange, VersionDiff, VersionScore, WordList
from .versions import Versions

#: More topics than this are not matched: the time grows with the third power of their number.
MAX_TOPICS = 4096
#: Number of words whose neighbours are compared (the most frequent ones), and number of neighbours of each.
COMPARED_WORDS = 2000
NEIGHBOURS = 10
#: Number of words listed as added, as removed, and as changed most.
LISTED_WORDS = 20


def compare_versions(url: str, old: int | None = None, new: int | None = None) -> VersionDiff:
    """Compare two versions of a model, by default the one in use with the one before it.

    Raises DataError if a version does not exist, ValueError if the versions are of different kinds.
    """
    versions = Versions(url)
    versions.check_exist()
    if new is None:
        new = versions.head.version
    if old is None:
        old = versions.before(new)
    difference = compare_models(load_model(versions.model(old)), load_model(versions.model(new)))
    scores = [_score(versions, number) for number in (old, new)]
    return {"url": url, "old": old, "new": new, "scores": scores, **difference}


def _score(versions: Versions, number: int) -> VersionScore:
    version = versions.read(number)
    return {"measure": version["measure"], "score": version["score"]}


def compare_models(old: Estimator, new: Estimator) -> ModelDiff:
    """Return which words were added and removed, and how the topics or the neighbours of words changed.

    Raises ValueError for models of different kinds.
    """
    if old._kind != new._kind:
        raise ValueError(f"cannot compare a model of kind {old._kind} with one of kind {new._kind}")
    old_words, new_words = _vocabulary(old), _vocabulary(new)
    difference: ModelDiff = {
        "kind": new._kind,
        "words": [len(old_words), len(new_words)],
        "words_added": _word_list(_missing(new_words, old_words)),
        "words_removed": _word_list(_missing(old_words, new_words)),
    }
    if isinstance(old, HasWordVectors) and isinstance(new, HasWordVectors):
        _compare_vectors(old.wv, new.wv, difference)
    elif isinstance(old, TopicModel) and isinstance(new, TopicModel):
        _compare_topics(old, new, topic_distances(old, new, old_words, new_words), difference)
    return difference


def _vocabulary(model: Estimator) -> list[str]:
    """Return the words of a model. For topic models, these are the names of the columns of ``components_``."""
    if isinstance(model, TopicModel):
        return model._names()
    return model.model_.vocabulary["word"].to_pylist()


def _missing(words: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the words that are not among ``others``, in their order."""
    known = set(others)
    return [word for word in words if word not in known]


def _word_list(words: list[str]) -> WordList:
    return {"number": len(words), "first": words[:LISTED_WORDS]}


# --- topics ---


def _compare_topics(old: TopicModel, new: TopicModel, distances: np.ndarray, difference: ModelDiff) -> None:
    """Match the topics so that the sum of their distances is least, and add the changes to ``difference``."""
    # With unequal numbers of topics, some remain unmatched: these are new or removed.
    new_numbers, old_numbers = linear_sum_assignment(distances.T)
    old_number_of = dict(zip(new_numbers.tolist(), old_numbers.tolist(), strict=True))
    old_topics, new_topics = old.topics(), new.topics()
    changes = []
    for topic in new_topics:
        was = old_number_of.get(topic["topic"])
        if was is None:
            change = _new_topic(topic)
        else:
            change = _topic_change(old_topics[was], topic, float(distances[was, topic["topic"]]))
        if "name" in topic:
            change["name"] = topic["name"]
        if was is not None and "name" in old_topics[was]:
            change["name_before"] = old_topics[was]["name"]
        changes.append(change)
    drifts = [change["drift"] for change in changes if change["drift"] is not None]
    difference["mean_drift"] = float(np.mean(drifts)) if drifts else 0.0
    # The largest drift is first, and new topics are last.
    difference["topics"] = sorted(changes, key=lambda change: -change["drift"] if change["drift"] is not None else 1.0)
    difference["topics_removed"] = sorted(set(range(len(old_topics))) - set(old_number_of.values()))


def topic_distances(old: TopicModel, new: TopicModel, old_words: list[str], new_words: list[str]) -> np.ndarray:
    """Return the Hellinger distances between topics: (old K, new K) float64.

    The words name the columns of each model. A word that one model does not have has probability 0 there. Raises
    DataError for too many topics.
    """
    old_roots, new_roots = _root_distributions(old), _root_distributions(new)
    most = max(len(old_roots), len(new_roots))
    if most > MAX_TOPICS:
        raise DataError(f"cannot match {most:,} topics: the limit is {MAX_TOPICS:,}")
    columns = {word: v for v, word in enumerate(old_words)}
    old_column = np.array([columns.get(word, -1) for word in new_words])
    shared = old_column >= 0
    overlap = old_roots[:, old_column[shared]] @ new_roots[:, shared].T
    return np.sqrt(np.clip(1.0 - overlap, 0.0, 1.0))


def _root_distributions(model: TopicModel) -> np.ndarray:
    """Return the square roots of the topics' distributions over words: (K, V) float64."""
    # With 32 bits, rounding errors would make equal topics differ by 0.001.
    rows = model.components_.astype(np.float64)
    sums = rows.sum(axis=1, keepdims=True)
    return np.sqrt(rows / np.maximum(sums, np.finfo(rows.dtype).tiny))


def _topic_change(old: Topic, new: Topic, drift: float) -> TopicChange:
    old_words, new_words = words_of(old), words_of(new)
    return {
        "topic": new["topic"],
        "was": old["topic"],
        "drift": drift,
        "size": new["size"],
        "size_before": old["size"],
        "words": new_words,
        "entered": _missing(new_words, old_words),
        "left": _missing(old_words, new_words),
    }


def _new_topic(topic: Topic) -> TopicChange:
    return {
        "topic": topic["topic"],
        "was": None,
        "drift": None,
        "size": topic["size"],
        "size_before": None,
        "words": words_of(topic),
        "entered": [],
        "left": [],
    }


# --- vectors ---


def _compare_vectors(old: WordVectors, new: WordVectors, difference: ModelDiff) -> None:
    """Add to ``difference`` the share of nearest neighbours that words kept, and the words that kept the fewest.

    Neighbours are searched among the compared words only: the first COMPARED_WORDS of the new model that are in both.
    """
    words = [word for word in new.index_to_key if word in old][:COMPARED_WORDS]
    difference["compared"] = len(words)
    # JSON output always has the same keys. None means that there was nothing to compare.
    difference["kept_neighbours"] = None
    difference["moved"] = []
    if len(words) < 2:
        return
    before, now = _neighbours(old, words), _neighbours(new, words)
    kept = np.array([len(set(a) & set(b)) / len(b) for a, b in zip(before, now, strict=True)])
    difference["kept_neighbours"] = float(kept.mean())
    for i in np.argsort(kept, kind="stable")[:LISTED_WORDS]:
        change: NeighbourChange = {
            "word": words[i],
            "kept": float(kept[i]),
            "before": [words[j] for j in before[i]],
            "now": [words[j] for j in now[i]],
        }
        difference["moved"].append(change)


def _neighbours(vectors: WordVectors, words: list[str]) -> list[list[int]]:
    """Return the nearest neighbours of each word among ``words``, as indices into ``words``, nearest first."""
    rows = vectors.vectors[[vectors.key_to_index[word] for word in words]]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit_rows = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
    similarities = unit_rows @ unit_rows.T
    np.fill_diagonal(similarities, -2.0)  # below every cosine: a word is no neighbour of itself
    number = min(NEIGHBOURS, len(rows) - 1)
    return [top_indices(row, number).tolist() for row in similarities]
