"""Chapter 4 of Moon's dissertation: graphs, and tasks that use the vectors of words and of nodes."""

import json
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse
from corpusmill import Node2Vec
from corpusmill.kernels.word2vec.par import train_par

from benchmarks.common import Session, data_file
from benchmarks.node2vec.evaluation import MAX_EDGES, evaluate
from benchmarks.node2vec.links import split, without_copies
from benchmarks.papers.registry import Chart, Curve, Measured, Run
from benchmarks.papers.word2vec_figures import DIMENSION, PAIRS, pair_scores, text_of, vectors
from benchmarks.papers.word2vec_in_order import Parameters, start, train_in_order

NEWS = "20news-bydate.jsonl"
#: Return and in-out parameters of the walks by graph (Table 4.5).
WALKS = {"ppi": (4.0, 1.0), "blogcatalog": (0.25, 0.25), "facebook": (1.0, 1.0)}
#: The end of the name of a score's standard deviation.
DEVIATION = "_deviation"
#: Epochs of the vectors of nodes.
EPOCHS = 10


# --- graphs ---


def sizes_of_graphs(session: Session, graphs: tuple[str, ...] = ("blogcatalog", "ppi", "facebook")) -> Measured:
    """Tables 4.3 and 4.4: nodes, edges and labels; and sentences and tokens of ten walks of 80 nodes from each node."""
    values = {}
    for graph in graphs:
        edges = read_pairs(session, f"graphs/{graph}.edges.tsv")
        n_nodes = len(np.unique(edges))
        once = np.unique(np.sort(edges, axis=1), axis=0)
        loops = int((once[:, 0] == once[:, 1]).sum())
        values[f"{graph}: nodes"] = n_nodes
        values[f"{graph}: edges, each once"] = len(once)
        values[f"{graph}: edges, both directions"] = 2 * len(once) - loops
        values[f"{graph}: edges from a node to itself"] = loops
        if graph != "facebook":
            values[f"{graph}: labels"] = len(np.unique(read_pairs(session, f"graphs/{graph}.labels.tsv")[:, 1]))
        values[f"{graph}: walks"] = 10 * n_nodes
        values[f"{graph}: tokens of the walks, with an end of sentence each"] = 10 * n_nodes * 81
    return Measured(values)


def read_pairs(session: Session, name: str) -> np.ndarray:
    """Return the pairs of numbers in a file (n, 2); some of a ring if the session is quick."""
    if session.quick:
        return np.stack([np.arange(30), (np.arange(30) + 1) % 30], axis=1)
    return np.loadtxt(data_file(session.data, name), np.int64, usecols=(0, 1))


def node_vectors(
    session: Session, graph: str = "ppi", task: str = "labels", epochs: int = EPOCHS, method: str = "par"
) -> Measured:
    """Table 4.8: scores of predicted labels of nodes, or of predicted edges."""
    p, q = WALKS[graph]
    if session.quick:
        rows = np.argwhere(np.triu(np.random.default_rng(0).random((60, 60)) < 0.2, 1))
        matrix = scipy.sparse.coo_array((np.ones(len(rows)), rows.T), shape=(60, 60)).tocsr()
        model = Node2Vec(p=p, q=q, epochs=1, method=method, vector_size=16).fit(matrix)
        values = {f"{graph}: nodes": float(len(model.words_))}
        return Measured(values, [Chart("random graph", "", "nodes", [Curve("", ["nodes"], [60])], bars=True)])
    edges = str(data_file(session.data, f"graphs/{graph}.edges.tsv"))
    model = Node2Vec(p=p, q=q, epochs=epochs, seed=1, method=method).fit(edges, evaluate_every=0)
    if task == "labels":
        labels = str(data_file(session.data, f"graphs/{graph}.labels.tsv"))
        found = dict(evaluate(model, labels=labels)["classification"])
    else:
        found = dict(evaluate(model, graph=edges)["links"])
        found |= linear_scores(model, read_pairs(session, f"graphs/{graph}.edges.tsv"))
    # One training, scored on several parts of the data: the spread is one standard deviation to either side.
    means = {measure: float(value) for measure, value in found.items() if f"{measure}{DEVIATION}" in found}
    deviations = {measure: float(found[f"{measure}{DEVIATION}"]) for measure in means}
    spread = {f"{graph}: {one}": (mean - deviations[one], mean + deviations[one]) for one, mean in means.items()}
    return Measured({f"{graph}: {measure}": mean for measure, mean in means.items()}, spread=spread)


def linear_scores(model: Node2Vec, edges: np.ndarray, most: int = MAX_EDGES) -> dict[str, float]:
    """Return accuracies of a linear support vector machine for as many edges as `evaluate` takes, with deviations.

    With the smaller number of a pair first, with either first, and with other pairs that have the degrees of edges.
    """
    edges = without_copies(edges)
    rng = np.random.default_rng(0)
    _, kept, others = split(edges, int(edges.max()) + 1, 0)
    kept, others = rng.permutation(kept)[:most], rng.permutation(others)[:most]
    ends = np.sort(rng.permutation(edges.ravel()).reshape(-1, 2), axis=1)
    known = set(map(tuple, edges.tolist()))
    by_degree = np.array([pair for pair in ends.tolist() if pair[0] != pair[1] and tuple(pair) not in known][:most])
    pairs = {
        "micro_f1 of a linear machine": (kept, others),
        "micro_f1 of a linear machine, nodes in either order": (
            in_either_order(kept, rng),
            in_either_order(others, rng),
        ),
        "micro_f1 of a linear machine, either order, others by degree": (
            in_either_order(kept, rng),
            in_either_order(by_degree, rng),
        ),
    }
    found = {}
    for label, (edges_of, others_of) in pairs.items():
        scores = accuracies_of_edges(model, edges_of, others_of)
        found |= {label: scores.mean(), f"{label}{DEVIATION}": scores.std()}
    return found


def in_either_order(pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return pairs of nodes (n, 2) in which a random half of the pairs have their two nodes exchanged."""
    return np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])


def accuracies_of_edges(model: Node2Vec, kept: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how often a linear machine tells edges from other pairs (n, 2) in each of five parts of the data."""
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    row_of = {int(name): row for row, name in enumerate(model.words_)}
    rows = np.array([[row_of[a], row_of[b]] for a, b in np.concatenate([kept, others]).tolist()])
    X = model.wv.vectors[rows].reshape(len(rows), -1)
    order = np.random.default_rng(0).permutation(len(rows))
    classifier = make_pipeline(StandardScaler(), LinearSVC(dual=False))
    return cross_val_score(classifier, X[order], np.arange(len(rows))[order] < len(kept), cv=5)


def settings(session: Session) -> Measured:
    """Table 4.5: the defaults of Node2Vec, and what the runs of Table 4.8 set."""
    values: dict[str, float] = {}
    for graph, (p, q) in WALKS.items():
        model = Node2Vec(p=p, q=q)
        values |= {f"{graph}: p": p, f"{graph}: q": q, f"{graph}: window C": model.window}
        values |= {f"{graph}: negative samples T": model.negative, f"{graph}: dimension K": model.vector_size}
        values[f"{graph}: epochs I"] = EPOCHS
    return Measured(values)


# --- stale rows ---


def scores_by_blocks(
    session: Session,
    blocks: tuple[int, ...] = (1, 2, 4),
    window: int = 8,
    epochs: int = 2,
    alpha: float = 0.05,
    words: int = 700_000,
) -> Measured:
    """Figure 4.7: scores by the number of thread blocks, which is the number of sentences that read the same rows."""
    text = text_of(session, words)
    parameters = Parameters(dimension=DIMENSION, window=window, alpha=alpha, epochs=epochs, seed=session.seed)
    values = {}
    scores = {name: [] for name in PAIRS}
    for number in blocks:
        found = train_in_order(text, parameters, "par", in_lock_step(number))
        found_scores = pair_scores(session, vectors(text, found.W_in))
        for name, score in found_scores.items():
            values[f"NB = {number}: {name}"] = score
            scores[name].append(score)
    curves = [Curve(name, blocks, found) for name, found in scores.items()]
    return Measured(values, [Chart("PAR-Word2Vec", "thread blocks NB", "rank correlation", curves, x_log=True)])


def in_lock_step(blocks: int) -> Callable[..., None]:
    """Return a function with the arguments of `word2vec_in_order.train`.

    ``blocks`` sentences at a time read the rows as they were before, and then their changes are added.
    """

    def train(method: str, text, options, W_in: np.ndarray, W_out: np.ndarray) -> None:
        del method  # always "par"
        own = [np.empty_like(W_in), np.empty_like(W_out)]
        n = len(text.ptr) - 1
        for first in range(0, n, blocks):
            before = [W_in.copy(), W_out.copy()]
            for sentence in range(first, min(first + blocks, n)):
                for copy, old in zip(own, before, strict=True):
                    copy[:] = old
                train_par(sentence, sentence + 1, text, options, *own)
                for W, copy, old in zip((W_in, W_out), own, before, strict=True):
                    copy -= old
                    W += copy

    return train


# --- texts ---


def classified_texts(
    session: Session,
    methods: tuple[str, ...] = ("sgns", "par"),
    window: int = 8,
    epochs: int = 2,
    alpha: float = 0.05,
    words: int = 2_000_000,
) -> Measured:
    """Table 4.7 with another task: the group of a posting of 20 Newsgroups, from the mean vector of its words."""
    text = text_of(session, words)
    postings = read_postings(session)
    accuracy = partial(accuracy_of_groups, text, postings)
    untrained, _, _ = start(text, Parameters(dimension=DIMENSION, seed=session.seed))
    values = {"vectors before training: accuracy of 20 groups": accuracy(untrained)}
    parameters = Parameters(dimension=DIMENSION, window=window, alpha=alpha, epochs=epochs, seed=session.seed)
    for method in methods:
        values[f"{method}: accuracy of 20 groups"] = accuracy(train_in_order(text, parameters, method).W_in)
    names = [label.split(":")[0] for label in values]
    bars = Curve("", names, list(values.values()))
    return Measured(values, [Chart("20 Newsgroups", "", "accuracy", [bars], bars=True)])


def read_postings(session: Session) -> list[tuple[bool, str, list[str]]]:
    """Return for each posting whether it is one to train on, its group and its words; some random if quick."""
    if session.quick:
        return [(n % 2 == 0, f"group {n % 4 // 2}", [f"w{n % 7}", f"w{n % 5}"]) for n in range(40)]
    found = []
    with open(data_file(session.data, NEWS)) as lines:
        for line in lines:
            posting = json.loads(line)
            words = re.findall("[a-z]+", posting["text"].lower())
            found.append((posting["split"] == "train", posting["group"], words))
    return found


def accuracy_of_groups(text, postings, W_in: np.ndarray) -> float:
    """Return the share of test postings whose group logistic regression finds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rank = {word: place for place, word in enumerate(text.vocabulary)}
    unit = W_in / np.maximum(np.linalg.norm(W_in, axis=1, keepdims=True), 1e-30)
    X = np.zeros((len(postings), W_in.shape[1]), np.float32)
    for row, (_, _, words) in zip(X, postings, strict=True):
        known = [rank[word] for word in set(words) if word in rank]
        if known:
            row[:] = unit[known].mean(axis=0)
    is_train = np.array([train for train, _, _ in postings])
    groups = np.array([group for _, group, _ in postings])
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return float(classifier.fit(X[is_train], groups[is_train]).score(X[~is_train], groups[~is_train]))


RUNS = {
    "dissertation-figure-4.7": Run(scores_by_blocks, {"words": 0, "epochs": 1, "blocks": (1, 2)}),
    "dissertation-table-4.4": Run(sizes_of_graphs, {"graphs": ("ppi",)}, turns=1),
    "dissertation-table-4.5": Run(settings, {}, turns=1),
    "dissertation-table-4.7": Run(classified_texts, {"words": 0, "epochs": 1, "methods": ("par",)}),
    "dissertation-table-4.8": Run(partial(node_vectors, graph="ppi"), {"epochs": 1}, turns=1),
    "dissertation-table-4.8b": Run(partial(node_vectors, graph="blogcatalog"), {"epochs": 1}, turns=1),
    "dissertation-table-4.8c": Run(partial(node_vectors, graph="facebook", task="links"), {"epochs": 1}, turns=1),
}
