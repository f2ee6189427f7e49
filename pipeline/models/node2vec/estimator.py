"""Node2Vec: walks over a graph, Word2Vec on the walks, and how the vectors are judged."""

import os
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import scipy.sparse

from ....io.stores.corpus import Corpus
from ....io.stores.graph import Graph, write_graph
from ....io.stores.store import DataError, Store
from ..base.estimator import FitOptions
from ..base.saved import SavedModel
from ..base.sparse_rows import row_of_each_entry
from ..word2vec.estimator import Word2Vec
from .walks import WalkOptions, write_walks

#: Where Node2Vec's defaults differ from Word2Vec's: every node has a vector, and the paper's sizes.
DEFAULTS = {"vector_size": 128, "window": 10, "min_count": 1, "sample": 0.0}
#: Parts of the data that are judged in turn, and shuffles of the data before that.
FOLDS, SHUFFLES = 5, 5
#: Penalties that logistic regression chooses from, by its own cross-validation.
PENALTIES = (0.1, 0.3, 1.0, 3.0)


class Node2Vec(Word2Vec):
    """Vectors of a graph's nodes: random walks of second order, and Word2Vec on them (Grover and Leskovec 2016).

    ``p``: how unlikely a walk returns to where it came from. ``q``: how unlikely it leaves the neighbourhood.
    ``num_walks`` from every node, each over ``walk_length`` nodes. ``walk_method``: "rejection", or "tables" (an alias
    table an edge, of ``table_memory`` bytes at most). ``walks``: a folder or URL that keeps the walks; None: none is
    kept. All other parameters are Word2Vec's; ``vector_size`` is 128, ``window`` 10, ``min_count`` 1 and ``sample`` 0
    where not given.
    """

    kind = "node2vec"

    def __init__(
        self,
        p: float = 1.0,
        q: float = 1.0,
        num_walks: int = 10,
        walk_length: int = 80,
        walk_method: str = "rejection",
        table_memory: int = 1 << 30,
        walks: str | None = None,
        **word2vec: Any,
    ):
        super().__init__(**(DEFAULTS | word2vec))
        self.p = p
        self.q = q
        self.num_walks = num_walks
        self.walk_length = walk_length
        self.walk_method = walk_method
        self.table_memory = table_memory
        self.walks = walks

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Names of the constructor's parameters, Word2Vec's among them."""
        own = [name for name in super().parameter_names() if name != "word2vec"]
        return [*own, *Word2Vec.parameter_names()]

    def _train(self, X: Any, options: FitOptions, previous: SavedModel | None) -> Self:
        """Walk over a graph and train on the walks.

        ``X`` is a Graph, the URL of a graph store or of a file of edges, a square scipy sparse matrix (undirected), or
        a corpus of walks.
        """
        with self._walked(X, options.client) as corpus:
            return super()._train(corpus, options, previous)

    @contextmanager
    def _walked(self, data: Any, client: Any | None) -> Any:
        """Yield the corpus of walks; what is temporary is removed afterwards."""
        if isinstance(data, Corpus) or (isinstance(data, str | os.PathLike) and Store(data).exists("corpus.json")):
            yield self.open(data)
            return
        with tempfile.TemporaryDirectory(prefix="corpusmill-walks-") as folder:
            graph = open_graph(data, f"{folder}/graph")
            yield write_walks(graph, self.walks or f"{folder}/walks", self._walk_options(), client, self.device)

    def _walk_options(self) -> WalkOptions:
        return WalkOptions(
            p=self.p,
            q=self.q,
            num_walks=self.num_walks,
            walk_length=self.walk_length,
            method=self.walk_method,
            table_memory=self.table_memory,
            seed=self.seed,
        )

    def evaluate(self, labels: str | Mapping[str, set[str]] | None = None, graph: Any | None = None) -> dict[str, Any]:
        """Judge the vectors as in Moon's dissertation, section 4.6.3.2; needs scikit-learn.

        ``labels``: a file of lines "node label", or each node's set of labels: multi-label classification. ``graph``:
        a Graph or what ``fit`` takes: link prediction. Raises DataError where too few nodes with vectors are in them.
        """
        found: dict[str, Any] = {}
        if labels is not None:
            known = labels if isinstance(labels, Mapping) else read_labels(labels)
            found["classification"] = classify(self.words_, self.wv.vectors, known, self.seed)
        if graph is not None:
            with tempfile.TemporaryDirectory(prefix="corpusmill-graph-") as folder:
                found["links"] = predict_links(self.words_, self.wv.vectors, open_graph(graph, folder), self.seed)
        return found


def open_graph(data: Any, url: str) -> Graph:
    """Return the graph for a Graph, a graph store's URL, a file of edges or a matrix; these are written to ``url``."""
    if isinstance(data, Graph):
        return data
    if isinstance(data, str | os.PathLike) and Store(data).exists("graph.json"):
        return Graph(data)
    if not isinstance(data, str | os.PathLike) and not scipy.sparse.issparse(data):
        raise ValueError(f"a graph is needed, or edges, or a sparse matrix, not {type(data).__name__}")
    return write_graph(data, url)


# --- how good the vectors are ---


def read_labels(path: str) -> dict[str, set[str]]:
    """Return each node's labels from lines "node label", apart by a tab, a comma or spaces; raise DataError."""
    found: dict[str, set[str]] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            delimiter = next((d for d in "\t," if d in line), None)
            fields = [f.strip() for f in line.split(delimiter)]
            if len(fields) == 2 and all(fields):
                found.setdefault(fields[0], set()).add(fields[1])
            elif line.strip():
                raise DataError(f"{path}, line {number}: a node and a label are needed, not {line.strip()[:40]!r}")
    return found


def classify(
    names: list[str], vectors: np.ndarray, labels: Mapping[str, set[str]], seed: int = 0, shuffles: int = SHUFFLES
) -> dict[str, float]:
    """Predict nodes' labels from their vectors (V, D) float32: micro and macro F1, mean and deviation over shuffles.

    Nine tenths of the labelled nodes train one logistic regression a label; cross-validation among them chooses the
    penalty. A node of the last tenth gets as many labels as it has, the most probable ones, as in Grover and Leskovec's
    own test.
    """
    from sklearn.metrics import f1_score
    from sklearn.model_selection import train_test_split

    rows = [i for i, name in enumerate(names) if labels.get(name)]
    if len(rows) < 20:
        raise DataError(f"{len(rows)} nodes with vectors have labels: at least 20 are needed, named as in the graph")
    X, Y = vectors[rows], _indicators([labels[names[i]] for i in rows])
    splits = [train_test_split(np.arange(len(rows)), test_size=0.1, random_state=seed + s) for s in range(shuffles)]
    penalty = _best_penalty(X[splits[0][0]], Y[splits[0][0]])
    scores = []
    for train, test in splits:
        chances = _label_chances(X[train], Y[train], X[test], penalty)
        predicted = _most_probable(chances, Y[test])
        scores.append([f1_score(Y[test], predicted, average=a, zero_division=0) for a in ("micro", "macro")])
    return _mean_and_deviation(np.array(scores), ("micro_f1", "macro_f1"))


def _indicators(labels: list[set[str]]) -> np.ndarray:
    """(N, labels) int64: 1 where the node has the label."""
    order = {label: column for column, label in enumerate(sorted(set().union(*labels)))}
    found = np.zeros((len(labels), len(order)), np.int64)
    for row, own in enumerate(labels):
        found[row, [order[label] for label in own]] = 1
    return found


def _label_chances(X: np.ndarray, Y: np.ndarray, others: np.ndarray, penalty: float) -> np.ndarray:
    """Fit one regression a label on X (N, D) and Y (N, labels); return each label's chance for ``others``."""
    from sklearn.linear_model import LogisticRegression

    chances = np.tile(Y.mean(axis=0), (len(others), 1))
    for label in np.flatnonzero((Y.sum(axis=0) > 0) & (Y.sum(axis=0) < len(Y))):
        regression = LogisticRegression(C=penalty, max_iter=200).fit(X, Y[:, label])
        chances[:, label] = regression.predict_proba(others)[:, 1]
    return chances


def _best_penalty(X: np.ndarray, Y: np.ndarray, folds: int = 3) -> float:
    """Choose from PENALTIES what predicts most labels rightly, each of the folds left out in turn."""
    fold = np.arange(len(X)) % folds
    hits = dict.fromkeys(PENALTIES, 0)
    for penalty in PENALTIES:
        for f in range(folds):
            chances = _label_chances(X[fold != f], Y[fold != f], X[fold == f], penalty)
            hits[penalty] += int((_most_probable(chances, Y[fold == f]) * Y[fold == f]).sum())
    return max(hits, key=hits.__getitem__)


def _most_probable(chances: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Give each node as many labels as it has in Y (N, labels): the most probable ones."""
    predicted = np.zeros_like(Y)
    for row, wanted in enumerate(Y.sum(axis=1)):
        predicted[row, np.argsort(-chances[row], kind="stable")[:wanted]] = 1
    return predicted


def predict_links(
    names: list[str], vectors: np.ndarray, graph: Graph, seed: int = 0, most: int = 4000
) -> dict[str, float]:
    """Tell edges from pairs of nodes without one, by a support vector machine on the two vectors side by side.

    As many pairs as edges, ``most`` of each, drawn at random. Returns micro F1 (the share told rightly) and the area
    under the ROC curve over five parts of the data, means and deviations; for vectors (V, D) float32.
    """
    from sklearn.model_selection import cross_validate
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    edges, others = _pairs(graph, {name: row for row, name in enumerate(names)}, np.random.default_rng(seed), most)
    pairs = np.concatenate([edges, others])
    X = vectors[pairs].reshape(len(pairs), -1)
    y = np.r_[np.ones(len(edges)), np.zeros(len(others))]
    order = np.random.default_rng(seed).permutation(len(y))
    judge, measures = make_pipeline(StandardScaler(), SVC()), ("f1_micro", "roc_auc")
    scores = cross_validate(judge, X[order], y[order], cv=FOLDS, scoring=measures)
    return _mean_and_deviation(np.stack([scores[f"test_{m}"] for m in measures], axis=1), ("micro_f1", "auc"))


def _pairs(graph: Graph, rows: dict[str, int], rng: np.random.Generator, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw edges, and as many pairs of nodes without an edge, by the rows of their vectors: two (n, 2) int64."""
    arrays = graph.adjacency()
    place = np.array([rows.get(name, -1) for name in graph.nodes.to_pylist()])
    source = row_of_each_entry(arrays["row_ptr"])
    target = arrays["neighbours"].astype(np.int64)
    present = np.sort(source * graph.n_nodes + target)
    fits = (place[source] >= 0) & (place[target] >= 0) & ((source < target) | graph.is_directed)
    edges = np.stack([source, target], axis=1)[fits & (source != target)]
    edges = rng.permutation(edges)[:most]
    drawn = rng.integers(0, graph.n_nodes, (max(1000, 20 * len(edges)), 2))
    if not graph.is_directed:
        drawn.sort(axis=1)  # as edges are, or their order would tell them apart
    apart = (drawn[:, 0] != drawn[:, 1]) & (place[drawn] >= 0).all(axis=1)
    others = drawn[apart & ~np.isin(drawn[:, 0] * graph.n_nodes + drawn[:, 1], present)][: len(edges)]
    if len(edges) < 20 or len(others) < len(edges):
        raise DataError(f"{graph.url}: {len(edges)} edges and {len(others)} pairs without one are too few to judge by")
    return place[edges], place[others]


def _mean_and_deviation(table: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    means = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    return means | {f"{name}_deviation": float(d) for name, d in zip(names, table.std(axis=0), strict=True)}
