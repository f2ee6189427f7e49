"""Evaluation of node vectors by labels and by edges."""

import numpy as np
import pytest
from corpusmill import Node2Vec
from corpusmill.io.errors import DataError
from helpers.graphs import communities, graph_of_lines, neighbours_of

from benchmarks.node2vec.evaluation import (
    _draw_pairs,
    _most_probable,
    classify,
    evaluate,
    label_sets,
    predict_links,
    read_labels,
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return graph_of_lines(communities(), tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def model(graph):
    return Node2Vec(p=0.5, q=0.5, num_walks=8, walk_length=20, vector_size=16, window=4, epochs=4, seed=3).fit(graph)


def group_of(node):
    return node.split("n")[0]


def test_groups_are_predicted_from_vectors_and_not_from_noise(model, tmp_path):
    (tmp_path / "labels.tsv").write_text("".join(f"{node}\t{group_of(node)}\n" for node in model.words_))
    good = evaluate(model, labels=tmp_path / "labels.tsv")["classification"]
    assert good["micro_f1"] > 0.9
    noise = np.random.default_rng(0).normal(size=model.wv.vectors.shape)
    bad = classify(model.words_, noise, read_labels(str(tmp_path / "labels.tsv")))
    assert bad["micro_f1"] < 0.6


def test_labels_may_be_numbers_missing_or_several():
    expected = {"1": {"0"}, "b": {"x", "2"}, "c": set(), "d": set(), "e": {"word"}}
    labels = {1: np.int64(0), "b": ["x", 2], "c": None, "d": float("nan"), "e": "word"}
    assert label_sets(labels) == expected
    pandas = pytest.importorskip("pandas")
    assert label_sets(pandas.Series(labels)) == expected


def test_labels_that_do_not_name_their_nodes_are_refused(model):
    pandas = pytest.importorskip("pandas")
    labels = [group_of(node) for node in model.words_]
    for given in (labels, np.array(labels), pandas.DataFrame({"node": model.words_, "label": labels})):
        with pytest.raises(ValueError, match="pass a dictionary, such as dict"):
            evaluate(model, given)


def test_regressions_do_not_share_cores(model, monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    linear_model = pytest.importorskip("sklearn.linear_model")
    threads = set()

    class Watched(linear_model.LogisticRegression):
        def fit(self, X, y):
            threads.update(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
            return super().fit(X, y)

    monkeypatch.setattr(linear_model, "LogisticRegression", Watched)
    with threadpoolctl.threadpool_limits(2):
        evaluate(model, {node: group_of(node) for node in model.words_})
    assert threads == {1}


def test_each_node_gets_its_own_number_of_labels():
    chances = np.array([[0.1, 0.5, 0.4], [0.9, 0.2, 0.3]])
    np.testing.assert_array_equal(_most_probable(chances, np.array([[1, 0, 1], [0, 1, 0]])), [[0, 1, 1], [1, 0, 0]])


def test_links_are_predicted_from_vectors_and_not_from_noise(model, graph):
    links = evaluate(model, graph=graph)["links"]
    assert links["micro_f1"] > 0.65
    assert links["auc"] > 0.7
    noise = np.random.default_rng(0).normal(size=model.wv.vectors.shape)
    links = predict_links(model.words_, noise, graph)
    assert links["micro_f1"] < 0.62
    assert links["auc"] < 0.65


@pytest.mark.parametrize("directed", [False, True])
def test_half_of_the_pairs_are_edges(tmp_path, directed):
    graph = graph_of_lines(communities(), tmp_path, directed=directed)
    near = neighbours_of(graph)
    names = graph.nodes.to_pylist()[::-1]
    edges, others = _draw_pairs(graph, {n: i for i, n in enumerate(names)}, np.random.default_rng(0), 100)
    assert len(edges) == len(others) == 100
    assert all(names[b] in near[names[a]] for a, b in edges)
    assert not any(names[b] in near[names[a]] for a, b in others)
    # The order of the two nodes must not reveal which pairs are edges.
    assert directed or (np.diff(edges) < 0).all() == (np.diff(others) < 0).all()


def test_too_few_examples_and_bad_lines_are_refused(model, tmp_path):
    with pytest.raises(DataError, match="0 nodes with vectors have labels: at least 20"):
        evaluate(model, labels={"elsewhere": {"x"}})
    (tmp_path / "labels.tsv").write_text("a x\nb\n")
    with pytest.raises(DataError, match="line 2: a node and a label are needed, not 'b'"):
        read_labels(str(tmp_path / "labels.tsv"))
    with pytest.raises(DataError, match="are too few for an evaluation"):
        evaluate(model, graph=graph_of_lines("a b\n", tmp_path))


@pytest.mark.parametrize("delimiter", ["\t", ",", " ", "   "])
def test_labels_are_read_with_any_delimiter(tmp_path, delimiter):
    path = tmp_path / "labels"
    path.write_text(f"a{delimiter}x\n\na{delimiter}y\nb{delimiter}x\n")
    assert read_labels(str(path)) == {"a": {"x", "y"}, "b": {"x"}}
