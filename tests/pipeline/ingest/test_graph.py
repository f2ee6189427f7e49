"""ingest_graph: its options, and the errors of models that name it."""

import inspect

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpusmill import DataError, Node2Vec, ingest_graph
from corpusmill.io.readers.edge_options import EdgeOptions


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
