"""ingest_graph: its options, and the errors of models that name it."""

import inspect

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpusmill import DataError, Node2Vec, ingest_graph
from corpusmill.io.readers.edge_lists import EdgeOptions


def test_all_options_of_edges_are_parameters_with_the_same_defaults():
    parameters = inspect.signature(ingest_graph).parameters
    defaults = vars(EdgeOptions())
    assert {name: parameters[name].default for name in defaults} == defaults


def test_every_option_is_used(tmp_path):
    table = pa.table({"a": ["x", "y"], "b": ["y", "z"], "size": [2.0, 3.0], "source": ["p", "q"]})
    pq.write_table(table, tmp_path / "edges")
    options = {"format": "parquet", "source": "a", "target": "b", "weight": "size", "directed": True}
    graph = ingest_graph(tmp_path / "edges", tmp_path / "graph", **options, chunk_edges=1)
    assert graph.nodes.to_pylist() == ["x", "y", "z"]
    assert graph.adjacency()["weights"].tolist() == [2.0, 3.0]
    assert (graph.is_directed, len(graph.chunks)) == (True, 2)
    assert not ingest_graph(tmp_path / "edges", tmp_path / "graph", **options, weighted=False).is_weighted
    (tmp_path / "edges.txt").write_text("one other\na b\n")
    assert ingest_graph(tmp_path / "edges.txt", tmp_path / "graph", header=True).n_nodes == 2


def test_the_way_out_that_an_error_of_fit_names_works(tmp_path):
    edges = tmp_path / "edges.tsv"
    edges.write_text("one other size\na b 1\nb c x\n")
    with pytest.raises(DataError, match=r"--header \(in Python, ingest_graph\(\.\.\., header=True\)\)"):
        Node2Vec().fit(str(edges))
    edges.write_text("one other size\na b 1\n")
    assert Node2Vec(vector_size=4).fit(ingest_graph(edges, tmp_path / "graph", header=True)).words_


EDGES = {"id": [7, 8, 9], "source": ["a", "b", "é"], "target": ["b", "c", "a"], "weight": [1.0, 2.0, 0.5]}


def frame_of(library, columns):
    if library == "pyarrow":
        return pa.table(columns)
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_tables_of_edges_in_memory_are_read_as_parquet_files(library, tmp_path):
    pq.write_table(pa.table(EDGES), tmp_path / "edges.parquet")
    expected = ingest_graph(tmp_path / "edges.parquet", tmp_path / "expected")
    found = ingest_graph(frame_of(library, EDGES), tmp_path / "graph")
    assert found.nodes.to_pylist() == expected.nodes.to_pylist() == ["a", "b", "c", "é"]
    assert found.adjacency()["weights"].tolist() == expected.adjacency()["weights"].tolist()


def test_the_vectors_of_a_table_of_edges_are_in_the_order_of_the_names_of_nodes():
    frame = frame_of("pandas", EDGES)
    model = Node2Vec(vector_size=4, epochs=1)
    rows = model.fit_transform(frame)
    assert rows.tolist() == [model.wv[name].tolist() for name in ("a", "b", "c", "é")]
    assert model.set_output(transform="pandas").transform(frame).shape == (4, 4)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"n0": [0, 1], "n1": [1, 0], "n2": [0, 0], "n3": [0, 0]}, "4 columns, none of .*csr_array"),
        ({"source": ["a", 1], "target": ["b", "c"]}, "several types .*column source"),
        ({"source": ["a", None], "target": ["b", "c"]}, "table: source or target is null"),
        ({"source": ["a"]}, "table: an edge needs two columns"),
    ],
)
def test_tables_that_are_no_lists_of_edges_are_refused(columns, message, tmp_path):
    with pytest.raises(DataError, match=message):
        ingest_graph(frame_of("pandas", columns), tmp_path / "graph")


@pytest.mark.parametrize("edges", [[("a", "b")], np.ones((2, 2)), {"a": "b"}], ids=lambda edges: type(edges).__name__)
def test_edges_of_another_type_are_refused_with_a_way_out(edges, tmp_path):
    with pytest.raises(ValueError, match=f"edges are of type {type(edges).__name__}: .*networkx.Graph"):
        ingest_graph(edges, tmp_path / "graph")
