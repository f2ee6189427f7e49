"""FastRP: its definition, what it accepts, and its vectors."""

from contextlib import suppress

import networkx
import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, FastRP
from corpusmill.io.errors import DataError
from corpusmill.io.readers.edge_lists import EdgeOptions
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.base.graphs import open_graph
from corpusmill.pipeline.models.fastrp.algorithm import FastRPAlgorithm
from corpusmill.pipeline.models.registry import model_of_run
from helpers.graphs import communities, graph_of, graph_of_lines, random_graph
from helpers.models import bits, interrupt_after


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Return a graph of 60 nodes in several chunks."""
    return graph_of_lines(communities(), tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def model(graph):
    return FastRP(32).fit(graph)


def naive_vectors(W, rows, weights, exponent):
    """Compute vectors from dense weights of edges W (V, V) and the first rows (V, D) before they are scaled."""
    degrees = W.sum(axis=0)
    share = np.divide(degrees, degrees.sum())
    rows = rows * np.where(share > 0, np.where(share > 0, share, 1) ** exponent, 0)[:, np.newaxis]
    outgoing = W.sum(axis=1, keepdims=True)
    P = W / np.where(outgoing > 0, outgoing, 1)
    vectors = 0
    for weight in weights:
        rows = P @ rows
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        vectors = vectors + weight * rows / np.where(lengths > 0, lengths, 1)
    return vectors


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_blocks", [1, 4])
def test_vectors_are_weighted_sums_of_projected_steps(directed, weighted, n_blocks, tmp_path):
    W = random_graph(40, 0.08, directed, weighted)
    W[7] = 0
    W[:, 7] = 0
    source = scipy.sparse.csr_array(W)
    graph = graph_of(source, tmp_path / "graph", EdgeOptions(directed=directed), chunk_edges=30)
    weights, exponent = (0.5, 0.0, -2.0, 1.0), -0.3
    model = FastRP(18, weights=weights, degree_exponent=exponent, random_state=3, n_blocks=n_blocks).fit(graph)
    rows = model._algorithm(graph)._random_rows(graph.nodes.to_pylist())
    expected = naive_vectors(W, rows, weights, exponent)
    np.testing.assert_allclose(model.transform(graph), expected, rtol=1e-4, atol=1e-5)
    assert (model.wv["7"] == 0).all()
    assert (model.wv.counts == np.sort((W > 0).sum(axis=0))[::-1]).all()
    assert model.history_[-1]["nodes_without_vector"] == (~expected.any(axis=1)).sum()


def test_a_third_of_the_random_numbers_is_not_zero_and_half_of_these_are_negative():
    algorithm = FastRPAlgorithm(bounds=(0, 50), dimension=60, weights=(1.0,), degree_exponent=0.0, seed=0)
    rows = algorithm._random_rows([f"node{number}" for number in range(50)])
    for sign in (1, -1):
        assert ((rows == sign).sum(axis=1) == 10).all()
    assert len(np.unique(rows, axis=0)) == 50


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_bits_on_any_number_of_workers_and_blocks(workers, graph, model, cluster_of):
    assert len(graph.chunks) > 3
    trained = FastRP(32, n_blocks=2 * workers).fit(graph, client=cluster_of(workers), dashboard=False)
    assert bits(trained) == bits(model)


def test_a_run_of_a_file_is_resumed_read_and_refused_for_other_edges(model, tmp_path):
    edges, run = tmp_path / "edges.txt", str(tmp_path / "run")
    edges.write_text(communities())
    with suppress(KeyboardInterrupt):
        FastRP(32).fit(str(edges), run=run, callbacks=[interrupt_after(1)])
    assert RunStore(run).step < 4
    assert model_of_run(run).n_iter_ in (1, 2)
    assert bits(FastRP(32).fit(str(edges), run=run)) == bits(model)
    edges.write_text(communities(seed=1))
    with pytest.raises(DataError, match="holds another run"):
        FastRP(32).fit(str(edges), run=run)
    assert bits(model_of_run(run)) == bits(model)
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(DataError, match="another graph is here"):
        FastRP(32).fit(str(edges), run=run)


def test_planted_groups_are_recovered(model):
    near = [
        other.split("n")[0] == node.split("n")[0]
        for node in model.words_
        for other, _ in model.wv.most_similar(node, topn=5)
    ]
    assert np.mean(near) > 0.9


def test_nodes_with_most_edges_come_first(model, graph):
    edges = dict(zip(graph.nodes.to_pylist(), np.diff(graph.adjacency()["row_ptr"]).tolist(), strict=True))
    assert [edges[node] for node in model.words_] == sorted(edges.values(), reverse=True)
    assert model.wv.counts.tolist() == sorted(edges.values(), reverse=True)


def test_vectors_of_all_forms_of_a_graph_have_its_order(model, graph):
    arrays = graph.adjacency()
    ones = np.ones(graph.n_edges, np.float32)
    matrix = scipy.sparse.csr_array((ones, arrays["neighbours"].astype(np.int32), arrays["row_ptr"]))
    named = networkx.relabel_nodes(networkx.from_scipy_sparse_array(matrix), dict(enumerate(graph.nodes.to_pylist())))
    backwards = networkx.Graph()
    backwards.add_nodes_from(reversed(list(named)))
    backwards.add_edges_from(named.edges)
    rows = FastRP(32).fit_transform(backwards)
    # Sums are rounded in the order of the nodes.
    np.testing.assert_allclose(rows[::-1], model.transform(graph), rtol=1e-4, atol=1e-5)
    assert FastRP(32).fit_transform(matrix).shape == (graph.n_nodes, 32)


def test_random_rows_depend_on_names_so_that_graphs_can_be_compared():
    def vector_of_a(edges):
        return FastRP(64, weights=[1], degree_exponent=0).fit(networkx.Graph(edges)).wv["a"]

    np.testing.assert_array_equal(vector_of_a([("a", "b")]), vector_of_a([("a", "b"), ("x", "y"), ("x", "z")]))
    assert (vector_of_a([("a", "b")]) != vector_of_a([("a", "c")])).any()


def test_lists_of_nodes_get_the_mean_of_their_vectors(model):
    rows = model.transform([["g0n1", "g0n2", "unknown"], ["unknown"]])
    np.testing.assert_allclose(rows[0], (model.wv["g0n1"] + model.wv["g0n2"]) / 2, rtol=1e-6)
    assert (rows[1] == 0).all()


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"weights": []}, r"weights is \(\): choose a list of"),
        ({"weights": [1, float("nan")]}, r"weights is \(1, nan\): choose a list of"),
        ({"weights": [0.0, 0.0]}, "weights are all 0: choose one number per step"),
        ({"degree_exponent": 2}, "degree_exponent is 2.0: choose a number"),
        ({"vector_size": 2}, "vector_size is 2: choose an integer from 4 to 65536"),
        ({"device": "cuda"}, "FastRP has no CUDA kernels"),
    ],
)
def test_bad_parameters_are_named(parameters, message, graph):
    with pytest.raises(ValueError, match=message):
        FastRP(**{"vector_size": 16} | parameters).fit(graph)


@pytest.mark.parametrize(
    "data, message",
    [
        ([["a", "b"]], "FastRP takes a graph, not a corpus or documents"),
        (3, "FastRP takes a graph, not int"),
        (scipy.sparse.csr_array((3, 3)), "there are no edges in it"),
        (scipy.sparse.csr_array([[0.0, np.nan], [np.nan, 0.0]]), "must be finite and not negative"),
        (scipy.sparse.csr_array([[0.0, -1.0], [-1.0, 0.0]]), "must be finite and not negative"),
    ],
    ids=["documents", "number", "no edge", "NaN", "negative"],
)
def test_bad_data_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        FastRP(16).fit(data)


@pytest.mark.parametrize(
    "lines, message",
    [
        ("", "there are no edges in it"),
        ("a b 0\n", "there are no edges in it, at least none with a weight above 0"),
        ("a b 1\nb c nan\n", "edge 2: the weight nan must be finite and not negative"),
    ],
    ids=["empty", "weight 0", "NaN"],
)
def test_bad_files_of_edges_are_refused(lines, message, tmp_path):
    (tmp_path / "edges.txt").write_text(lines)
    with pytest.raises(DataError, match=message):
        FastRP(16).fit(str(tmp_path / "edges.txt"))


def test_isolated_nodes_have_zeros_and_loops_count_as_neighbours():
    graph = networkx.Graph([("a", "a"), ("b", "b"), ("b", "c")])
    graph.add_node("alone")
    model = FastRP(16, weights=[1], degree_exponent=0).fit(graph)
    assert (model.wv["alone"] == 0).all()
    assert model.history_[-1]["nodes_without_vector"] == 1
    first = dict(zip("abc", model._algorithm(open_graph(graph))._random_rows(["a", "b", "c"]), strict=True))
    for node, neighbours in (("a", "a"), ("b", "bc"), ("c", "b")):
        mean = sum(first[neighbour] for neighbour in neighbours)
        np.testing.assert_allclose(model.wv[node], mean / np.linalg.norm(mean), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("option", [{"held_out": [["0", "1"]]}, {"vocabulary": ["0"]}])
def test_options_for_documents_are_refused(option, graph):
    with pytest.raises(ValueError, match=f"has no use for {next(iter(option))}: leave it out"):
        FastRP(32).fit(graph, **option)


def test_further_edges_are_refused_with_the_reason(graph, model):
    assert bits(FastRP(32).partial_fit(graph)) == bits(model)
    with pytest.raises(ValueError, match=r"cannot add edges to a model: .* fit a graph of all edges again"):
        FastRP(32).fit(graph).partial_fit(graph)


@pytest.mark.parametrize("other", [LDA(2), NMF(2)])
def test_other_models_refuse_a_graph(other, graph):
    with pytest.raises(DataError, match="graph"):
        other.fit(graph.url)
