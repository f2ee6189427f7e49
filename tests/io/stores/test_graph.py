"""The store of graphs."""

import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.matrices.transposition import sorted_rows
from corpusmill.io.readers import edges
from corpusmill.io.readers.edge_lists import EdgeOptions
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


@pytest.mark.parametrize("kind", ["parquet", "arrow", "txt"])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_edges_that_are_read_in_parts_and_sorted_in_buckets_are_the_same_graph(
    tmp_path, monkeypatch, kind, directed, weighted
):
    rng = np.random.default_rng(5)
    ends = rng.geometric(0.1, (2, 500)).astype(str)
    table = pa.table({"source": ends[0], "target": ends[1]})
    if weighted:
        # Halves and quarters, so that sums of repeated edges are exact. Some edges have the weight 0.
        table = table.append_column("weight", pa.array(rng.integers(0, 9, 500) / 4))
    path = tmp_path / f"edges.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=70)
    elif kind == "arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=70)
    else:
        pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter="\t"))
    options = EdgeOptions(directed=directed)
    whole = graph_of(str(path), tmp_path / "whole", options, chunk_edges=40)
    with monkeypatch.context() as changed:
        changed.setattr(edges, "PART_EDGES", 30)
        changed.setattr(edges, "PARQUET_ROWS", 20)
        changed.setattr(edges, "sorted_rows", partial(sorted_rows, bucket_entries=50))
        parts = graph_of(str(path), tmp_path / "parts", options, chunk_edges=40)
    assert len(parts.chunks) > 3
    assert parts.hash == whole.hash
    assert parts.meta["about"]["found"] == whole.meta["about"]["found"]


@pytest.mark.slow
def test_the_memory_of_an_ingest_follows_the_nodes_and_not_the_edges(tmp_path):
    peaks = []
    for n_groups in (16, 64):
        with pq.ParquetWriter(tmp_path / "edges.parquet", pa.schema({"a": pa.int32(), "b": pa.int32()})) as writer:
            for group in range(n_groups):
                ends = np.random.default_rng(group).integers(0, 5000, (2, 1 << 19)).astype(np.int32)
                writer.write_table(pa.table({"a": ends[0], "b": ends[1]}))
        program = (
            "import resource; from corpusmill import ingest_graph; "
            f"ingest_graph({str(tmp_path / 'edges.parquet')!r}, {str(tmp_path / 'graph')!r}, chunk_edges=1 << 20); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        peaks.append(int(found.stdout) << 10)
    # The further 25 million edges take 200 MB as numbers alone.
    assert peaks[1] - peaks[0] < 150e6


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
