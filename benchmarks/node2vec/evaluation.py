"""Quality of node vectors: prediction of labels and of edges, as in Moon (2019), section 4.6.3.2.

All functions except `read_labels` need scikit-learn, which is not a dependency of corpusmill.
"""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from corpusmill import Node2Vec
from corpusmill.io.errors import DataError
from corpusmill.io.extras import needing
from corpusmill.io.matrices.memory import is_missing
from corpusmill.io.stores.graph import Graph
from corpusmill.pipeline.models.base.graphs import GraphSource, open_graph
from corpusmill.pipeline.models.base.sparse_rows import row_of_each_entry

#: Number of parts of the data for the cross-validation of links.
FOLDS = 5
#: Number of splits of the labelled nodes into training and test nodes.
SPLITS = 5
#: Values of the inverse penalty of logistic regression to choose from. The numbers of vectors have a mean square of 1.
INVERSE_PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: One of so many parts of the training nodes judges them.
PENALTY_FOLDS = 3
#: Largest number of edges that an evaluation predicts.
MAX_EDGES = 4000
#: Fewer labelled nodes, or fewer edges, are not worth an evaluation.
MIN_EXAMPLES = 20

#: A label, or several labels, of each node.
NodeLabels: TypeAlias = Mapping[Any, str | float | Iterable[str | float]]


def evaluate(
    model: Node2Vec, labels: str | os.PathLike[str] | NodeLabels | None = None, graph: GraphSource | None = None
) -> dict[str, dict[str, float]]:
    """Measure how well vectors predict labels of nodes ("classification"), and edges ("links")."""
    found = {}
    if labels is not None:
        sets = read_labels(labels) if isinstance(labels, str | os.PathLike) else label_sets(labels)
        found["classification"] = classify(model.words_, model.wv.vectors, sets, model.seed)
    if graph is not None:
        with tempfile.TemporaryDirectory() as folder:
            found["links"] = predict_links(model.words_, model.wv.vectors, open_graph(graph, folder), model.seed)
    return found


# --- prediction of labels ---


def label_sets(labels: NodeLabels) -> dict[str, set[str]]:
    """Return the labels of each node, as text, from a dictionary or a series of pandas.

    Raises ValueError for other objects, such as data frames, whose columns would be taken for nodes.
    """
    if not hasattr(labels, "items") or hasattr(labels, "columns"):
        raise ValueError(
            f"labels of type {type(labels).__name__} do not say which node has which label: pass a dictionary, such as "
            f"dict(zip(nodes, labels)), or the path of a file of lines 'node label'"
        )
    return {str(node): {str(label) for label in _as_labels(own)} for node, own in labels.items()}


def _as_labels(own: str | float | Iterable[str | float]) -> Iterable[str | float]:
    """Return the labels of one node, of which there may be none, one, or several in a container."""
    if is_missing(own):
        return []
    return [own] if isinstance(own, str) or not isinstance(own, Iterable) else own


def read_labels(path: str | os.PathLike[str]) -> dict[str, set[str]]:
    """Return the labels of each node from lines "node label", separated by a tab, a comma or spaces.

    A node with several labels has several lines. Raises DataError for a line that has another number of fields.
    """
    labels: dict[str, set[str]] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            fields = _fields(line)
            if len(fields) != 2 or not all(fields):
                raise DataError(f"{path}, line {number}: a node and a label are needed, not {line.strip()[:40]!r}")
            node, label = fields
            labels.setdefault(node, set()).add(label)
    return labels


def _fields(line: str) -> list[str]:
    for delimiter in "\t,":
        if delimiter in line:
            return [field.strip() for field in line.split(delimiter)]
    return line.split()


def classify(
    names: Sequence[str],
    vectors: np.ndarray,
    labels: Mapping[str, set[str]],
    seed: int = 0,
) -> dict[str, float]:
    """Predict the labels of nodes from their vectors (V, D) float32; return micro and macro F1.

    Each is a mean over SPLITS random splits, with its standard deviation. In each split, nine tenths of the
    labelled nodes train one logistic regression per label. Each node of the last tenth receives its most probable
    labels, as many as it really has, as in the evaluation by Grover and Leskovec. The penalty is chosen among the
    training nodes of the first split. All vectors are multiplied by one number, so that the penalties suit each system.

    Raises DataError if fewer than 20 nodes with a vector have labels.
    """
    with needing("sklearn", "scikit-learn", "the classification of nodes"):
        from sklearn.metrics import f1_score
        from sklearn.model_selection import train_test_split
        from threadpoolctl import threadpool_limits  # scikit-learn depends on it

    rows = [row for row, name in enumerate(names) if labels.get(name)]
    if len(rows) < MIN_EXAMPLES:
        raise DataError(
            f"{len(rows)} nodes with vectors have labels: at least {MIN_EXAMPLES} are needed, named as in the graph"
        )
    X = vectors[rows] / np.sqrt(np.mean(np.square(vectors[rows])))
    Y = _label_matrix([labels[names[row]] for row in rows])
    splits = []
    scores = []
    for split in range(SPLITS):
        # The number of the split is part of the seed, so a repeated evaluation has the same splits.
        splits.append(train_test_split(np.arange(len(rows)), test_size=0.1, random_state=seed + split))
    # Each step of a regression has little to compute, and takes longer with several threads, which wait for each other.
    with threadpool_limits(1):
        # One search for the penalty instead of one per split. It must not see the test nodes of the first split.
        first_train, _ = splits[0]
        penalty = _best_penalty(X[first_train], Y[first_train])
        for train, test in splits:
            # Y[test] says only how many labels each node has.
            predicted = _most_probable(_label_probabilities(X[train], Y[train], X[test], penalty), Y[test])
            scores.append([f1_score(Y[test], predicted, average=mean, zero_division=0) for mean in ("micro", "macro")])
    return _means_and_deviations(np.array(scores), ("micro_f1", "macro_f1"))


def _label_matrix(labels: list[set[str]]) -> np.ndarray:
    """Return (N, labels) int64: 1 where the node has the label."""
    every_label = sorted(set().union(*labels))
    column_of = {label: column for column, label in enumerate(every_label)}
    matrix = np.zeros((len(labels), len(every_label)), np.int64)
    for row, own in enumerate(labels):
        matrix[row, [column_of[label] for label in own]] = 1
    return matrix


def _label_probabilities(X: np.ndarray, Y: np.ndarray, test: np.ndarray, penalty: float) -> np.ndarray:
    """Fit one regression per label on X (N, D) and Y (N, labels); return the probabilities for ``test`` (n, D)."""
    from sklearn.linear_model import LogisticRegression

    # A label that all nodes or none have cannot be learned: its probability is its frequency.
    probabilities = np.tile(Y.mean(axis=0), (len(test), 1))
    counts = Y.sum(axis=0)
    for label in np.flatnonzero((counts > 0) & (counts < len(Y))):
        regression = LogisticRegression(C=penalty, max_iter=200).fit(X, Y[:, label])
        probabilities[:, label] = regression.predict_proba(test)[:, 1]
    return probabilities


def _best_penalty(X: np.ndarray, Y: np.ndarray) -> float:
    """Choose from INVERSE_PENALTIES the value that predicts most labels of a part correctly."""
    is_test = np.arange(len(X)) % PENALTY_FOLDS == 0
    correct = {}
    for penalty in INVERSE_PENALTIES:
        probabilities = _label_probabilities(X[~is_test], Y[~is_test], X[is_test], penalty)
        correct[penalty] = int((_most_probable(probabilities, Y[is_test]) * Y[is_test]).sum())
    return max(correct, key=correct.__getitem__)


def _most_probable(probabilities: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Give each node its most probable labels, as many as it has in Y (N, labels); return (N, labels) int64."""
    predicted = np.zeros_like(Y)
    for row, n_labels in enumerate(Y.sum(axis=1)):
        predicted[row, np.argsort(-probabilities[row], kind="stable")[:n_labels]] = 1
    return predicted


# --- prediction of edges ---


def predict_links(names: Sequence[str], vectors: np.ndarray, graph: Graph, seed: int = 0) -> dict[str, float]:
    """Distinguish edges from pairs of nodes without an edge by their vectors (V, D) float32.

    The examples are up to MAX_EDGES edges and the same number of other pairs, drawn at random. The features of a
    pair are its two vectors, and the classifier is a support vector machine. Returns micro F1 (the accuracy) and the
    area under the ROC curve: means over five parts of the data, with standard deviations.

    Raises DataError if there are fewer than 20 edges between nodes with vectors, or too few other pairs.
    """
    with needing("sklearn", "scikit-learn", "the prediction of links"):
        from sklearn.model_selection import cross_validate
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

    row_of = {name: row for row, name in enumerate(names)}
    edges, others = _draw_pairs(graph, row_of, np.random.default_rng(seed), MAX_EDGES)
    pairs = np.concatenate([edges, others])
    X = vectors[pairs].reshape(len(pairs), -1)
    y = np.concatenate([np.ones(len(edges)), np.zeros(len(others))])
    # Edges come first and other pairs last, but scikit-learn cuts the parts without shuffling.
    order = np.random.default_rng(seed).permutation(len(y))
    measures = ("f1_micro", "roc_auc")
    classifier = make_pipeline(StandardScaler(), SVC())
    scores = cross_validate(classifier, X[order], y[order], cv=FOLDS, scoring=measures)
    columns = [scores[f"test_{measure}"] for measure in measures]
    return _means_and_deviations(np.stack(columns, axis=1), ("micro_f1", "auc"))


def _draw_pairs(
    graph: Graph, row_of: dict[str, int], rng: np.random.Generator, max_edges: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw edges, and the same number of pairs of nodes without an edge.

    Both are (n, 2) int64, rows of the vectors. ``row_of`` gives the row of each node that has a vector.
    """
    rows = np.array([row_of.get(name, -1) for name in graph.nodes.to_pylist()])
    arrays = graph.adjacency()
    source = row_of_each_entry(arrays["row_ptr"])
    target = arrays["neighbours"].astype(np.int64)
    edges = rng.permutation(_usable_edges(graph, rows, source, target))[:max_edges]
    drawn = rng.integers(0, graph.n_nodes, (max(1000, 20 * len(edges)), 2))
    if not graph.is_directed:
        # Edges have the smaller node first. In another order, the others could be recognised by it.
        drawn.sort(axis=1)
    is_usable = (drawn[:, 0] != drawn[:, 1]) & (rows[drawn] >= 0).all(axis=1)
    is_edge = np.isin(drawn[:, 0] * graph.n_nodes + drawn[:, 1], np.sort(source * graph.n_nodes + target))
    others = drawn[is_usable & ~is_edge][: len(edges)]
    if len(edges) < MIN_EXAMPLES or len(others) < len(edges):
        raise DataError(
            f"{graph.url}: {len(edges)} edges and {len(others)} pairs without one are too few for an evaluation"
        )
    return rows[edges], rows[others]


def _usable_edges(graph: Graph, rows: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the edges between two different nodes with vectors, each undirected edge once: (n, 2) int64."""
    have_vectors = (rows[source] >= 0) & (rows[target] >= 0)
    if graph.is_directed:
        is_first = source != target
    else:
        is_first = source < target
    return np.stack([source, target], axis=1)[have_vectors & is_first]


def _means_and_deviations(scores: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    """Return the mean and the standard deviation of each column of (n, names), as NAME and NAME_deviation."""
    result = {name: float(mean) for name, mean in zip(names, scores.mean(axis=0), strict=True)}
    for name, deviation in zip(names, scores.std(axis=0), strict=True):
        result[f"{name}_deviation"] = float(deviation)
    return result
