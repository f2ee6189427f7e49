"""Edges in matrices, tables and graphs of networkx, and the same edges in every container."""

import csv
import gzip
import json
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.readers import edges
from corpusmill.io.readers.edge_lists import EdgeOptions
from corpusmill.io.readers.edges import read_edges
from helpers.graphs import both_ways, edges_of, graph_of

TRIANGLE = "a b\nb c\nc a\nc d\n"


# --- matrices and tables ---


def symmetric_matrix():
    return scipy.sparse.csr_matrix(np.array([[0, 2.0, 0, 0], [2, 1, 0, 4], [0, 0, 0, 0], [0, 4, 0, 0]]))


EXPECTED = {("0", "1"): 2.0, ("1", "0"): 2.0, ("1", "1"): 1.0, ("1", "3"): 4.0, ("3", "1"): 4.0}


@pytest.mark.parametrize("half", [scipy.sparse.triu, scipy.sparse.tril, lambda m: m], ids=["upper", "lower", "whole"])
def test_csr_files(tmp_path, half):
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.csr_matrix(half(symmetric_matrix())))
    graph = graph_of(str(tmp_path / "m.npz"), tmp_path / "graph")
    assert edges_of(graph) == EXPECTED
    assert graph.nodes.to_pylist() == ["0", "1", "2", "3"], "node 2 is alone, and stays"


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market_files_count_from_one(tmp_path, symmetry):
    scipy.io.mmwrite(tmp_path / "m.mtx", symmetric_matrix().tocoo(), symmetry=symmetry)
    graph = graph_of(str(tmp_path / "m.mtx"), tmp_path / "graph")
    assert edges_of(graph) == {(str(int(a) + 1), str(int(b) + 1)): w for (a, b), w in EXPECTED.items()}


def test_a_matrix_in_memory(tmp_path):
    assert edges_of(graph_of(symmetric_matrix(), tmp_path / "graph")) == EXPECTED
    directed = graph_of(scipy.sparse.triu(symmetric_matrix()), tmp_path / "graph", EdgeOptions(directed=True))
    assert edges_of(directed) == {("0", "1"): 2.0, ("1", "1"): 1.0, ("1", "3"): 4.0}


def test_matrices_that_cannot_be_a_graph_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"must be square, but this one is 2 × 3"):
        graph_of(scipy.sparse.csr_matrix((2, 3)), tmp_path / "graph")
    with pytest.raises(
        DataError, match=r"or triangular; read it with --directed \(in Python, ingest_graph\(.*directed=True"
    ):
        graph_of(scipy.sparse.csr_matrix([[0, 1, 1], [2, 0, 0], [0, 0, 0]]), tmp_path / "graph")
    with pytest.raises(DataError, match="the graph has no nodes"):
        graph_of(scipy.sparse.csr_matrix((0, 0)), tmp_path / "graph")
    with pytest.raises(DataError, match=r"edge 1: the weight 1e\+39 must be .* at most 3\.4e\+38"):
        graph_of(scipy.sparse.csr_matrix([[0, 1e39], [1e39, 0]]), tmp_path / "graph")
    with pytest.raises(DataError, match=r"the weight -2\.0"):
        graph_of(scipy.sparse.csr_matrix([[0, -2.0], [-2.0, 0]]), tmp_path / "graph")
    (tmp_path / "m.npz").write_bytes(b"no matrix")
    with pytest.raises(DataError, match="not a sparse matrix that"):
        graph_of(str(tmp_path / "m.npz"), tmp_path / "graph")
    (tmp_path / "m.mtx.gz").write_bytes(gzip.compress(b"%%MatrixMarket matrix coordinate real general\n")[:-8])
    with pytest.raises(DataError, match=r"m\.mtx\.gz, after line 0: the gzip data is cut off"):
        graph_of(str(tmp_path / "m.mtx.gz"), tmp_path / "graph")


def test_weights_whose_sum_is_too_large_are_refused(read):
    too_large = "an edge occurs more than once, and its weights add up to more than 3.4e"
    with pytest.raises(DataError, match=rf"edges\.txt: {too_large}"):
        read("a b 3e38\na b 3e38\n")
    repeated = scipy.sparse.csr_array((np.full(2, 3e38), [1, 1], [0, 2, 2]), shape=(2, 2))
    with pytest.raises(DataError, match=f"matrix: {too_large}"):
        read_edges(repeated)


def test_columns_of_parquet_that_have_the_same_name_are_refused(tmp_path):
    path = tmp_path / "edges.parquet"
    for names, match in ((["x", "x"], "2 columns have the name 'x'"), (["x", "y", *["weight"] * 2], "2 .* 'weight'")):
        pq.write_table(pa.Table.from_arrays([pa.array([1])] * len(names), names=names), path)
        with pytest.raises(DataError, match=rf"edges\.parquet: {match}.*; rename all but one"):
            read_edges(str(path))


def test_parquet_is_read_in_parts(tmp_path, monkeypatch):
    names = np.random.default_rng(0).integers(0, 9, (2, 40)).astype(str)
    table = pa.table({"source": names[0], "target": names[1], "weight": np.arange(1.0, 41)})
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        table = table.set_column(0, "source", table["source"].cast(kind))
        pq.write_table(table, tmp_path / "e.parquet", row_group_size=11)
        whole = graph_of(str(tmp_path / "e.parquet"), tmp_path / "whole")
        with monkeypatch.context() as changed:
            changed.setattr(edges, "PARQUET_ROWS", 3)
            assert graph_of(str(tmp_path / "e.parquet"), tmp_path / "parts").hash == whole.hash


def test_parquet(tmp_path):
    table = pa.table({"weight": [2.0, 3.0], "to": [7, 8], "from": [9, 7]})
    pq.write_table(table, tmp_path / "e.parquet")
    options = EdgeOptions(source="from", target="to", directed=True)
    graph = graph_of(str(tmp_path / "e.parquet"), tmp_path / "graph", options)
    assert edges_of(graph) == {("9", "7"): 2.0, ("7", "8"): 3.0}
    with pytest.raises(DataError, match=r"no column 'src' among 'weight', 'to', 'from'"):
        graph_of(str(tmp_path / "e.parquet"), tmp_path / "graph", EdgeOptions(source="src"))
    named = graph_of(str(tmp_path / "e.parquet"), tmp_path / "graph", EdgeOptions(directed=True))
    assert named.hash == graph.hash
    pq.write_table(pa.table({"a": ["x", None], "b": ["y", "z"]}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match="a or b is null"):
        graph_of(str(tmp_path / "e.parquet"), tmp_path / "graph")
    pq.write_table(pa.table({"a": [["x"]], "b": ["y"]}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match=r"e\.parquet: column 'a' cannot be read as string"):
        graph_of(str(tmp_path / "e.parquet"), tmp_path / "graph")
    pq.write_table(pa.table({"a": ["x"], "b": ["y"], "weight": ["two"]}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match=r"e\.parquet: column 'weight' cannot be read as double"):
        graph_of(str(tmp_path / "e.parquet"), tmp_path / "graph")


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph"])
def test_a_graph_of_networkx_is_read_like_a_file_of_its_edges(read, tmp_path, kind):
    networkx = pytest.importorskip("networkx")
    source = getattr(networkx, kind)()
    source.add_edge("b", "a", weight=2)
    source.add_edge("b", "c")
    source.add_edge("c", "c", weight=0.5)
    lines = "b\ta\t2\nb\tc\t1\nc\tc\t0.5\n"
    expected = read(lines, directed=kind == "DiGraph")
    found = graph_of(source, tmp_path / "found")
    assert found.hash == expected.hash
    assert (found.is_directed, found.is_weighted) == (kind == "DiGraph", True)


def test_nodes_of_networkx_may_be_isolated_and_of_any_type(tmp_path):
    networkx = pytest.importorskip("networkx")
    source = networkx.Graph([(10, 9), (9, ("x", 1))])
    source.add_node("alone")
    found = graph_of(source, tmp_path / "found")
    assert found.nodes.to_pylist() == ["('x', 1)", "10", "9", "alone"]
    assert (found.n_edges, found.is_weighted) == (4, False)
    assert graph_of(networkx.path_graph(11), tmp_path / "path").nodes.to_pylist() == [str(n) for n in range(11)]


def test_graphs_of_networkx_that_cannot_be_read_are_refused(tmp_path):
    networkx = pytest.importorskip("networkx")
    bad_weight, alone = networkx.Graph(), networkx.Graph()
    bad_weight.add_edge(1, 2, weight="heavy")
    alone.add_nodes_from([1, 2])
    for source, message in [
        (networkx.Graph([(1, "1"), (1, 2)]), "3 nodes have only 2 different names"),
        (bad_weight, "'weight' of an edge is no number .*heavy"),
        (alone, "there are no edges in it"),
        (networkx.Graph(), "the graph has no nodes"),
    ]:
        with pytest.raises(DataError, match=message):
            graph_of(source, tmp_path / "graph")


@pytest.mark.parametrize("is_sparse", [True, False])
def test_files_of_pecanpy_have_the_names_of_the_nodes(read, tmp_path, is_sparse):
    matrix = scipy.sparse.csr_array(np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]], np.float32))
    arrays = {"data": matrix.toarray()}
    if is_sparse:
        arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    np.savez(tmp_path / "graph.npz", IDs=["ann", "bob", "cat"], **arrays)
    found = graph_of(tmp_path / "graph.npz", tmp_path / "found")
    assert found.hash == read("ann\tbob\t2\nbob\tcat\t1\n").hash
    np.savez(tmp_path / "graph.npz", IDs=["ann", "bob", "bob"], **arrays)
    with pytest.raises(DataError, match="3 nodes, but 2 different names"):
        graph_of(tmp_path / "graph.npz", tmp_path / "found")


# --- the same edges in every container ---

ROWS = [("a", "b", 2.0), ("b", "c x", 0.5), ("c x", "a", 1.0), ("a", "b", 1.0), ('say "d"', "a", 3.0)]
EDGES = both_ways({("a", "b"): 3.0, ("b", "c x"): 0.5, ("a", "c x"): 1.0, ("a", 'say "d"'): 3.0})


def written_by(delimiter, quoting=csv.QUOTE_ALL, header=("from", "to", "weight")):
    def write(path):
        with path.open("w", newline="") as file:
            rows = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\n")
            rows.writerows([header, *ROWS] if header else ROWS)

    return write


def columns():
    return dict(zip(("from", "to", "Weight"), zip(*ROWS, strict=True), strict=True))


def arrow_file(path, stream=False):
    table = pa.table({name: list(values) for name, values in columns().items()})
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table)


CONTAINERS = {
    "tabs": written_by("\t"),
    "tabs without a header": written_by("\t", header=None),
    "tabs, few quotes": written_by("\t", csv.QUOTE_MINIMAL),
    "commas": written_by(","),
    "semicolons": written_by(";"),
    "semicolons without a header": written_by(";", header=None),
    "blanks": written_by(" "),
    "blanks without a header": written_by(" ", header=None),
    "names in other cases": written_by(",", header=("From", "TO", "WEIGHT")),
    "Parquet": lambda path: pq.write_table(pa.table({n: list(v) for n, v in columns().items()}), path),
    "Arrow": arrow_file,
    "stream of Arrow": lambda path: arrow_file(path, stream=True),
}


@pytest.mark.parametrize("ending", [".txt", ""])
@pytest.mark.parametrize("write", CONTAINERS.values(), ids=CONTAINERS)
def test_all_files_of_the_same_edges_are_the_same_graph(tmp_path, write, ending):
    write(tmp_path / f"edges{ending}")
    assert edges_of(graph_of(str(tmp_path / f"edges{ending}"), tmp_path / "graph")) == EDGES


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "networkx"])
def test_the_same_edges_in_memory_are_the_same_graph(tmp_path, library):
    module = pytest.importorskip(library)
    if library == "networkx":
        given = module.Graph()
        for first, second, weight in ROWS:
            before = given.get_edge_data(first, second, {"weight": 0})["weight"]
            given.add_edge(first, second, weight=before + weight)
    else:
        given = (module.table if library == "pyarrow" else module.DataFrame)(columns())
    assert edges_of(graph_of(given, tmp_path / "graph")) == EDGES


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_follow_the_rules_of_files(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    with pytest.raises(DataError, match="nodes of two kinds, and 3 names"):
        read_edges(make({"user": [1, 1, 2, 3, 3], "item": [1, 2, 1, 3, 4]}))
    with pytest.warns(UserWarning, match="the third column, 'seconds', is taken for times"):
        assert not read_edges(make({"source": ["a", "b"], "target": ["b", "c"], "seconds": [1, 2]})).is_weighted
    with pytest.warns(UserWarning, match="the third column, 'n', is taken for weights"):
        assert read_edges(make({"x": ["a", "b"], "y": ["b", "c"], "n": [1, 2]})).is_weighted
    with pytest.warns(UserWarning, match="1 edge of weight 0 left out"):
        read_edges(make({"source": ["a", "b"], "target": ["b", "c"], "weight": [0, 2]}))


@pytest.mark.parametrize("form", ["csv", "parquet", "frame", "frame with names of rows"])
def test_an_adjacency_matrix_is_not_read_as_a_list(tmp_path, form):
    pandas = pytest.importorskip("pandas")
    names = list("abcd")
    frame = pandas.DataFrame(np.eye(4, k=1, dtype=int), index=names, columns=names)
    source = str(tmp_path / f"matrix.{form}")
    if form == "csv":
        frame.to_csv(source)
    elif form == "parquet":
        frame.to_parquet(source)
    else:
        source = frame.iloc[:2, :2] if "rows" in form else frame.reset_index(drop=True)
    with pytest.raises(DataError, match=r"matrix[:,] pass scipy\.sparse\.csr_array"):
        read_edges(source)


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_the_column_of_gephi_for_directions_is_not_ignored(tmp_path, form):
    table = pa.table({"Source": ["a", "b"], "Target": ["b", "c"], "Type": ["Directed", "Undirected"]})
    source = table
    if form != "frame":
        source = str(tmp_path / f"edges.{form}")
        write = pq.write_table if form == "parquet" else pyarrow.csv.write_csv
        write(table, source)
    with pytest.warns(UserWarning, match="its column 'Type' says that edges have a direction"):
        read_edges(source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_edges(source, EdgeOptions(directed=True))


def test_what_was_found_is_stored(tmp_path):
    (tmp_path / "edges.txt").write_text("# one\nfrom,to,weight\na,b,1\nb,a,2\na,a,1\n")
    found = graph_of(str(tmp_path / "edges.txt"), tmp_path / "graph").meta["about"]["found"]
    assert found == {
        "separator": ",",
        "header": True,
        "columns": ["from", "to", "weight"],
        "comments": 1,
        "weights": [1.0, 2.0],
        "edges": 3,
        "loops": 1,
        "repetitions": 1,
    }


@pytest.mark.parametrize(("lines", "is_noted"), [("a,b,1\nb,a,2\nb,c,3\n", True), ("a,b,1\nb,a,2\na,a,3\n", False)])
def test_pairs_of_which_some_are_listed_in_both_directions_are_noted(tmp_path, lines, is_noted):
    (tmp_path / "edges.csv").write_text(f"source,target,weight\n{lines}")
    with warnings.catch_warnings(record=True, action="always") as caught:
        read_edges(str(tmp_path / "edges.csv"))
    assert [str(one.message).partition(": ")[2][:37] for one in caught] == [
        "1 of 2 pairs of nodes are listed in b"
    ] * is_noted
    with warnings.catch_warnings(action="error"):
        read_edges(str(tmp_path / "edges.csv"), EdgeOptions(directed=True))


@pytest.mark.parametrize("option", sorted(edges.FORMATS_OF_OPTION))
@pytest.mark.parametrize("form", [*edges.FORMATS, "matrix", "table", "graph"])
def test_an_option_that_a_container_does_not_have_is_refused(tmp_path, form, option):
    networkx = pytest.importorskip("networkx")
    (tmp_path / "x").write_text("")
    others = {
        "matrix": (scipy.sparse.eye_array(2), "a matrix in memory"),
        "table": (pa.table({"source": ["a"], "target": ["b"]}), "a table in memory"),
        "graph": (networkx.Graph([(1, 2)]), "a graph of networkx"),
    }
    source, name = others.get(form, (str(tmp_path / "x"), form))
    given = {} if form in others else {"format": form}
    if name not in edges.FORMATS_OF_OPTION[option]:
        value = {"header": True, "format": "npz", "comments": ""}.get(option, "|")
        with pytest.raises(ValueError, match=rf"^{option}( \(--columns\))? applies to .*, but .* is {name}$"):
            read_edges(source, EdgeOptions(**given | {option: value}))


def test_a_direction_that_a_graph_does_not_have_is_refused():
    networkx = pytest.importorskip("networkx")
    with pytest.raises(ValueError, match="this graph of networkx has no direction"):
        read_edges(networkx.Graph([(1, 2)]), EdgeOptions(directed=True))


@pytest.mark.parametrize("ending", [".gml", ".graphml", ".gexf", ".net", ".g6", ".adjlist", ".json", ".jsonl"])
def test_graphs_in_other_formats_are_refused_with_the_way_out(tmp_path, ending):
    networkx = pytest.importorskip("networkx")
    writers = {".net": "write_pajek", ".g6": "write_graph6"}
    path, graph = tmp_path / f"x{ending}", networkx.Graph([(0, 1), (1, 2)])
    if ending.startswith(".json"):
        path.write_text(json.dumps(networkx.node_link_data(graph)))
    else:
        getattr(networkx, writers.get(ending, f"write_{ending[1:]}"))(graph, path)
    with pytest.raises(DataError, match=r"read it with networkx\.(\w+) and pass the graph") as caught:
        read_edges(str(path))
    name = re.search(r"networkx\.(\w+)", str(caught.value))
    if not ending.startswith(".json"):
        read = getattr(networkx, name[1])(path)
        assert read_edges(networkx.Graph(read)).names.to_pylist() == ["0", "1", "2"]
