"""How two models of one kind differ: topics matched and how far each moved, or neighbours that words kept."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ....io.stores.store import DataError
from ...models.base.similarity import top_indices
from ...models.base.vectors import WordVectors
from ...models.registry import load_model
from ...models.versions import Facts, Versions

#: Topics that can be matched: time grows with their number to the power of three.
MOST_TOPICS = 4096
#: Words whose neighbours are compared, the most frequent ones that both models have; and neighbours of each.
COMPARED, NEIGHBOURS = 2000, 10
#: Words shown of those that came and went.
SHOWN = 20


def compare_versions(url: str, old: int | None = None, new: int | None = None) -> Facts:
    """Compare two versions, by default the one in use and the one before it. Raises DataError, ValueError."""
    versions = Versions(url)
    versions.exist()
    new = versions.head.version if new is None else new
    old = versions.before(new) if old is None else old
    models = [load_model(versions.model(number)) for number in (old, new)]
    scores = [{name: versions.read(number)[name] for name in ("measure", "score")} for number in (old, new)]
    return {"url": url, "old": old, "new": new, "scores": scores} | compare_models(*models)


def compare_models(old: Any, new: Any) -> Facts:
    """Return the words that came and went, and what became of topics or of words' neighbours.

    Raises ValueError for models of two kinds.
    """
    if old.kind != new.kind:
        raise ValueError(f"models of kind {old.kind} and {new.kind} have nothing to compare")
    words = [estimator.model_.vocabulary["word"].to_pylist() for estimator in (old, new)]
    came, went = (_without(a, b) for a, b in (reversed(words), words))
    facts = {
        "kind": new.kind,
        "words": [len(some) for some in words],
        "words_added": {"number": len(came), "first": came[:SHOWN]},
        "words_removed": {"number": len(went), "first": went[:SHOWN]},
    }
    if hasattr(new, "wv"):
        return facts | compare_vectors(old.wv, new.wv)
    return facts | compare_topics(old, new)


def _without(some: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [word for word in some if word not in known]


# --- topics ---


def compare_topics(old: Any, new: Any, n_words: int = 10) -> Facts:
    """Match topics so that their distances are least in sum; return a row a topic, those that moved most first.

    ``drift`` is the Hellinger distance of the topics' distributions over words: 0 for the same, 1 for no word in
    common. Raises DataError for more topics than can be matched.
    """
    distances = topic_distances(old, new)
    matched = dict(zip(*(side.tolist() for side in linear_sum_assignment(distances.T)), strict=True))
    before, after = (estimator.topics(n_words) for estimator in (old, new))
    rows = [_topic_row(before, after, matched.get(k), k, distances) for k in range(len(after))]
    drifts = [row["drift"] for row in rows if row["drift"] is not None]
    return {
        "mean_drift": float(np.mean(drifts)) if drifts else 0.0,
        "topics": sorted(rows, key=lambda row: -1.0 if row["drift"] is None else -row["drift"]),
        "topics_removed": sorted(set(range(len(before))) - set(matched.values())),
    }


def topic_distances(old: Any, new: Any) -> np.ndarray:
    """Return the Hellinger distances (old K, new K) float32 of topics; words are those that either model has."""
    rows = [estimator.components_ for estimator in (old, new)]
    most = max(len(row) for row in rows)
    if most > MOST_TOPICS:
        raise DataError(f"{most:,} topics are more than the {MOST_TOPICS:,} that can be matched")
    roots = [np.sqrt(row / np.maximum(row.sum(axis=1, keepdims=True), np.finfo(row.dtype).tiny)) for row in rows]
    columns = {word: v for v, word in enumerate(_names(old))}
    places = np.array([columns.get(word, -1) for word in _names(new)])
    shared = places >= 0
    overlap = roots[0][:, places[shared]] @ roots[1][:, shared].T
    return np.sqrt(np.clip(1.0 - overlap, 0.0, 1.0))


def _names(estimator: Any) -> list[str]:
    return estimator.model_.vocabulary["word"].to_pylist()


def _topic_row(before: list[Facts], after: list[Facts], was: int | None, topic: int, distances: np.ndarray) -> Facts:
    words = [word["word"] for word in after[topic]["words"]]
    old = [word["word"] for word in before[was]["words"]] if was is not None else []
    return {
        "topic": topic,
        "was": was,
        "drift": float(distances[was, topic]) if was is not None else None,
        "size": after[topic]["size"],
        "size_before": before[was]["size"] if was is not None else None,
        "words": words,
        "entered": _without(words, old) if old else [],
        "left": _without(old, words),
    }


# --- vectors ---


def compare_vectors(old: WordVectors, new: WordVectors, n_words: int = SHOWN) -> Facts:
    """Return the share of nearest neighbours that the words of both models kept, and the words that kept least.

    Neighbours are looked for among the COMPARED words that come first in the new model and are in both.
    """
    words = [word for word in new.index_to_key if word in old][:COMPARED]
    if len(words) < 2:
        return {"compared": len(words), "kept_neighbours": None, "moved": []}
    near = [_neighbours(vectors.vectors[[vectors.key_to_index[w] for w in words]]) for vectors in (old, new)]
    kept = np.array([len(set(a) & set(b)) / len(b) for a, b in zip(*near, strict=True)])
    rows = [
        {
            "word": words[i],
            "kept": float(kept[i]),
            "before": [words[j] for j in near[0][i]],
            "now": [words[j] for j in near[1][i]],
        }
        for i in np.argsort(kept, kind="stable")[:n_words]
    ]
    return {"compared": len(words), "kept_neighbours": float(kept.mean()), "moved": rows}


def _neighbours(rows: np.ndarray) -> list[list[int]]:
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    similar = rows @ rows.T
    np.fill_diagonal(similar, -2.0)
    n = min(NEIGHBOURS, len(rows) - 1)
    return [top_indices(row, n).tolist() for row in similar]
