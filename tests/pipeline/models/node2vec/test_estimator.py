"""Node2Vec: what it accepts, its parameters, and its vectors."""

import inspect

import numpy as np
import pytest
import scipy.sparse
from corpusmill import Corpus, Node2Vec, Word2Vec
from corpusmill.io.errors import DataError
from helpers.graphs import communities, graph_of_lines

SMALL = {"num_walks": 8, "walk_length": 20, "vector_size": 16, "window": 4, "epochs": 4, "seed": 3}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return graph_of_lines(communities(), tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def model(graph):
    return Node2Vec(p=0.5, q=0.5, **SMALL).fit(graph)


def group_of(node):
    return node.split("n")[0]


def test_neighbours_of_a_vector_are_of_its_group(model):
    near = [
        group_of(other) == group_of(node) for node in model.words_ for other, _ in model.wv.most_similar(node, topn=5)
    ]
    assert np.mean(near) > 0.9


def test_every_node_has_a_vector(model, graph):
    assert sorted(model.words_) == sorted(graph.nodes.to_pylist())
    assert model.wv.vectors.shape == (graph.n_nodes, 16)


def test_graphs_urls_walks_and_matrices_can_be_fitted(model, graph, tmp_path):
    estimator = Node2Vec(p=0.5, q=0.5, **SMALL, walks=str(tmp_path / "walks"))
    np.testing.assert_array_equal(estimator.fit(graph.url).wv.vectors, model.wv.vectors)
    again = Node2Vec(**SMALL).fit(str(tmp_path / "walks"))
    np.testing.assert_array_equal(again.wv.vectors, model.wv.vectors)
    arrays = graph.adjacency()
    ones = np.ones(graph.n_edges, np.float32)
    matrix = scipy.sparse.csr_matrix((ones, arrays["neighbours"].astype(np.int32), arrays["row_ptr"]))
    assert Node2Vec(**SMALL).fit(matrix).wv.vectors.shape == (graph.n_nodes, 16)


def test_a_run_keeps_its_walks_so_that_it_can_be_read(model, graph, tmp_path):
    run = str(tmp_path / "run")
    trained = Node2Vec(p=0.5, q=0.5, **SMALL).fit(graph, run=run)
    np.testing.assert_array_equal(trained.wv.vectors, model.wv.vectors)
    assert Corpus(f"{run}/walks").n_documents == graph.n_nodes * trained.num_walks
    np.testing.assert_array_equal(Node2Vec.from_run(run).wv.vectors, model.wv.vectors)


def test_names_of_nodes_are_not_taken_for_texts(model):
    # As texts, names of one letter would be no words, and get zeros.
    for nodes in (["0", "1"], [0, 1], [("0", "1")]):
        with pytest.raises(ValueError, match=r"wv\[\[str\(node\) for node in nodes\]\]"):
            model.transform(nodes)
    names = model.words_[:2]
    np.testing.assert_allclose(model.transform([names]), [model.wv[names].mean(axis=0)], rtol=1e-5)


def test_a_graph_of_networkx_can_be_fitted():
    networkx = pytest.importorskip("networkx")
    given = networkx.karate_club_graph()
    model = Node2Vec(**SMALL).fit(given)
    assert sorted(model.words_, key=int) == [str(node) for node in range(34)]


def test_transform_returns_the_vectors_of_the_nodes_in_the_order_of_a_graph(model, graph):
    expected = np.stack([model.wv[node] for node in graph.nodes.to_pylist()])
    for source in (graph, graph.url, f"{graph.url}/../edges.txt"):
        np.testing.assert_array_equal(model.transform(source), expected)
    networkx = pytest.importorskip("networkx")
    given = networkx.Graph([("g3n1", "g0n2"), ("g0n2", "new")])
    rows = model.transform(given)
    np.testing.assert_array_equal(rows, [model.wv["g3n1"], model.wv["g0n2"], np.zeros(16)])


def test_fit_transform_of_a_graph_has_one_row_per_node():
    networkx = pytest.importorskip("networkx")
    given = networkx.Graph([("c", "b"), ("b", "a")])
    model = Node2Vec(**SMALL)
    np.testing.assert_array_equal(model.fit_transform(given), [model.wv[node] for node in "cba"])
    matrix = networkx.to_scipy_sparse_array(networkx.path_graph(12))
    np.testing.assert_array_equal(model.fit_transform(matrix), [model.wv[str(node)] for node in range(12)])
    pytest.importorskip("pandas")
    assert model.set_output(transform="pandas").transform(matrix).shape == (12, 16)


def test_transform_of_walks_is_the_mean_of_their_nodes(model):
    rows = model.transform([["g0n1", "g0n2"]])
    np.testing.assert_allclose(rows, [(model.wv["g0n1"] + model.wv["g0n2"]) / 2], rtol=1e-6)


def test_transform_refuses_a_graph_of_other_nodes_and_what_is_no_graph(model):
    matrix = scipy.sparse.csr_array(np.ones((3, 3)))
    with pytest.raises(DataError, match=r"none of the 3 nodes of this graph has a vector; .* such as 'g"):
        model.transform(matrix)
    with pytest.raises(ValueError, match=r"walks are needed here .*, not ndarray: `wv` has"):
        model.transform(np.ones((3, 3)))
    with pytest.raises(ValueError, match="not csr_array: `wv` has the vectors of nodes"):
        model.search(matrix, ["g0n1"])
    with pytest.raises(ValueError, match="is not fitted"):
        Node2Vec().transform(matrix)


def test_lists_of_nodes_are_walks():
    model = Node2Vec(**SMALL).fit([["a", "b", "c"], ["c", "b"]] * 5)
    assert model.words_ == ["b", "c", "a"]
    with pytest.raises(DataError, match="no word to train on"):
        Node2Vec(**SMALL).fit([])


@pytest.mark.parametrize(("data", "kind"), [(7, "int"), ([("a", "b"), ("b", "c")], "list"), (np.eye(3), "ndarray")])
def test_other_data_is_refused(data, kind):
    with pytest.raises(ValueError, match=f"data is of type {kind}: pass a graph .* or, to fit, walks"):
        Node2Vec(**SMALL).fit(data)


def test_walks_record_the_file_of_edges_and_not_a_temporary_folder(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("a,b\nb,c\n")
    Node2Vec(**SMALL, walks=str(tmp_path / "walks")).fit(str(edges))
    assert Corpus(str(tmp_path / "walks")).meta["about"]["source"] == str(edges)


def test_an_invalid_parameter_is_refused_before_the_walks(graph, tmp_path):
    walks = tmp_path / "walks"
    with pytest.raises(ValueError, match="vector_size is 0"):
        Node2Vec(vector_size=0, walks=str(walks)).fit(graph)
    assert not walks.exists()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 0}, "p is 0.0: choose a number above 0"),
        ({"window": 256}, "window is 256: choose an integer from 1 to 255"),
        ({"q": float("nan")}, "q is nan"),
        ({"num_walks": 0}, "num_walks is 0: choose an integer of 1 or more"),
        ({"walk_length": 1}, "walk_length is 1: choose an integer of 2 or more"),
        ({"walk_method": "alias"}, "choose one of rejection, tables"),
    ],
)
def test_parameters_of_walks_out_of_range_are_refused(graph, parameters, message):
    with pytest.raises(ValueError, match=message):
        Node2Vec(**parameters).fit(graph)


def test_the_constructor_lists_word2vecs_parameters_too():
    own = inspect.signature(Node2Vec).parameters
    common = inspect.signature(Word2Vec).parameters
    assert list(own)[-len(common) :] == list(common)
    different = {name for name in common if own[name].default != common[name].default}
    assert different == {"vector_size", "window", "min_count", "sample"}


def test_the_same_vectors_on_any_number_of_workers(model, graph, cluster_of):
    client = cluster_of(2)
    found = Node2Vec(p=0.5, q=0.5, **SMALL).fit(graph, client=client)
    np.testing.assert_array_equal(found.wv.vectors, model.wv.vectors)


def test_isolated_nodes_keep_a_vector(tmp_path):
    graph = graph_of_lines("a b 1\nb c 1\na c 1\nd d 0\n", tmp_path)
    assert "d" in Node2Vec(**SMALL).fit(graph).words_
