"""The store of graphs."""

import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.stores.graph import Graph
from helpers.graphs import graph_of
from hypothesis import given, settings
from hypothesis import strategies as st

TRIANGLE = "a b\nb c\nc a\nc d\n"


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 20))
def test_chunks_do_not_change_the_graph(tmp_path_factory, pairs, chunk_edges):
    folder = tmp_path_factory.mktemp("graph")
    (folder / "e.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs))
    whole = graph_of(str(folder / "e.txt"), folder / "whole")
    cut = graph_of(str(folder / "e.txt"), folder / "cut", chunk_edges=chunk_edges)
    for name, array in whole.adjacency().items():
        np.testing.assert_array_equal(cut.adjacency()[name], array)
    assert sum(c.nodes for c in cut.chunks) == cut.n_nodes
    assert all(c.edges <= chunk_edges or c.nodes == 1 for c in cut.chunks)


def test_missing_graphs_and_unknown_formats_are_refused(tmp_path, read):
    with pytest.raises(DataError, match=r"no graph here \(no graph.json\)"):
        Graph(tmp_path / "nothing")
    graph = read(TRIANGLE)
    graph.store.write_json("graph.json", graph.meta | {"format": 99})
    with pytest.raises(DataError, match="graph format 99 is not supported"):
        Graph(graph.url)


def test_a_damaged_chunk_is_noticed(read):
    graph = read(TRIANGLE)
    graph.store.delete("000000/neighbours/c/0")
    with pytest.raises(DataError, match="neighbours/c/0 is missing"):
        graph.adjacency()


def test_the_hash_follows_the_content(read):
    first = read(TRIANGLE).hash
    assert read(TRIANGLE).hash == first
    assert read(TRIANGLE + "d a\n").hash != first
    assert read(TRIANGLE.replace("d", "e")).hash != first


@pytest.mark.parametrize(("name", "nodes", "edges"), [("ppi", 3852, 38705), ("blogcatalog", 10312, 333983)])
def test_real_graphs(real_data, tmp_path, name, nodes, edges):
    graph = graph_of(str(real_data(f"graphs/{name}.edges.tsv")), tmp_path / "graph", chunk_edges=20_000)
    arrays = graph.adjacency()
    loops = int((np.repeat(np.arange(nodes), np.diff(arrays["row_ptr"])) == arrays["neighbours"]).sum())
    assert (graph.n_nodes, (graph.n_edges + loops) // 2) == (nodes, edges)
