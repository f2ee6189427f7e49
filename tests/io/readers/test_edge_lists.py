"""Lists of edges as text: separators, headers, quotes, weights and times."""

import bz2
import gzip
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import scipy.io
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.readers.edge_lists import EdgeOptions
from corpusmill.io.readers.edges import read_edges
from helpers.graphs import both_ways, edges_of, graph_of

TRIANGLE = "a b\nb c\nc a\nc d\n"


def test_an_undirected_list(read):
    graph = read(TRIANGLE)
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]
    assert edges_of(graph) == both_ways(dict.fromkeys(pairs, 1.0))
    assert (graph.n_nodes, graph.n_edges, graph.is_directed, graph.is_weighted) == (4, 8, False, False)


def test_a_directed_list(read):
    graph = read(TRIANGLE, directed=True)
    assert set(edges_of(graph)) == {("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")}
    assert graph.is_directed


@pytest.mark.parametrize("text", ["a\tb\t2.5\nb\tc\t1\n", "a,b,2.5\r\nb,c,1\r\n", " a  b 2.5 \n\nb\tc 1\n"])
def test_weights_and_delimiters(read, text):
    graph = read(text)
    assert edges_of(graph) == both_ways({("a", "b"): 2.5, ("b", "c"): 1.0})
    assert graph.is_weighted


@pytest.mark.parametrize("text", ["a, b\nb , c\n", "a \t b\n b\tc \n", "a, b, 1\nb, c, 1\n"])
def test_blanks_around_names_do_not_make_other_nodes(read, text):
    assert read(text).nodes.to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("separator", ["\t", ",", " "])
@pytest.mark.parametrize("blank", ["", " ", "\t", " \t ", "\t\r", "\r"])
def test_lines_of_blanks_are_skipped(read, separator, blank):
    edges = f"a{separator}b\n{blank}\nb{separator}c\n{blank}"
    assert edges_of(read(edges)) == both_ways({("a", "b"): 1.0, ("b", "c"): 1.0})


def test_blanks_between_a_comma_and_a_quote_are_refused(read):
    with pytest.raises(DataError, match="line 2: remove the blanks between a comma and a quote"):
        read('a,b\n"b", "c"\n')
    assert read('"a, ""x""",b\n"b, ",c\n').nodes.to_pylist() == ['a, "x"', "b", "b,", "c"]


def test_names_may_contain_spaces_if_tabs_separate_columns(read):
    assert ("New York", "Boston") in edges_of(read("New York\tBoston\n"))


def test_weights_can_be_ignored(read):
    assert not read("a b 7\nb c 2\n", weighted=False).is_weighted


def test_weights_that_are_all_one_are_not_stored(read):
    assert not read("a b 1\nb c 1.0\n").is_weighted


def test_numbers_are_ordered_as_numbers(read):
    assert read("10 9\n9 2\n").nodes.to_pylist() == ["2", "9", "10"]


def test_names_that_differ_in_leading_zeros_are_different_nodes(read):
    assert sorted(read("07 7\n7 8\n").nodes.to_pylist()) == ["07", "7", "8"]


def test_repeated_edges(read):
    assert edges_of(read("a b\nb a\na b\n")) == {("a", "b"): 1.0, ("b", "a"): 1.0}
    assert edges_of(read("a b 2\nb a 3\n")) == {("a", "b"): 5.0, ("b", "a"): 5.0}
    assert edges_of(read("a b 2\nb a 3\n", directed=True)) == {("a", "b"): 2.0, ("b", "a"): 3.0}


@pytest.mark.parametrize("directed", [True, False])
def test_a_loop_counts_once(read, directed):
    graph = read("a a 2\na b 3\n", directed=directed)
    assert edges_of(graph)["a", "a"] == 2.0
    assert graph.n_edges == (2 if directed else 3)


def test_an_edge_of_weight_zero_is_left_out_but_its_nodes_are_kept(read):
    graph = read("a b 0\nb c 2\n")
    assert edges_of(graph) == both_ways({("b", "c"): 2.0})
    assert graph.nodes.to_pylist() == ["a", "b", "c"]


def test_comments_are_skipped(read):
    assert edges_of(read("# from to\n% another\na b\n  # more\nb c\n")) == both_ways({("a", "b"): 1.0, ("b", "c"): 1.0})


@pytest.mark.parametrize("text", ["source,target,weight\na,b,2\nb,c,3\n", "from to\n1 2\n2 3\n"])
def test_a_header_is_recognised_if_numbers_follow(read, text):
    assert read(text).n_nodes == 3


@pytest.mark.parametrize(
    "header", ["source,target", "From,To", "source_id,target_id", "from_id,to_id", "From_Node,To_Node", "gene_a,gene_b"]
)
def test_the_usual_names_of_columns_are_recognised(read, header):
    assert read(f"{header}\na,b\nb,c\n").nodes.to_pylist() == ["a", "b", "c"]
    assert read(f"{header},weight\na,b,1\nb,c,2\n").nodes.to_pylist() == ["a", "b", "c"]


def test_the_usual_names_of_columns_may_be_nodes(read):
    assert read("source target\na source\n").n_nodes == 3
    assert read("source target 1\na source 2\n").n_nodes == 3


@pytest.mark.parametrize(
    "text",
    [
        ",source,target,weight\n0,a,b,2\n1,b,c,3\n",  # as pandas writes a table with its index
        "id,source,target,weight\n0,a,b,2\n1,b,c,3\n",
        "weight,source,target\n2,a,b\n3,b,c\n",
        "target source weight\nb a 2\nc b 3\n",
        # As Gephi writes edges.
        "Source,Target,Type,Id,Label,Weight\na,b,Directed,0,,2\nb,c,Directed,1,,3\n",
        "label\tSource\tTarget\tWeight\nsource\ta\tb\t2\n\tb\tc\t3\n",
    ],
)
def test_columns_with_usual_names_may_be_anywhere(read, text):
    assert edges_of(read(text, directed=True)) == {("a", "b"): 2.0, ("b", "c"): 3.0}


@pytest.mark.parametrize(
    "text",
    [
        ",source,target\n0,1,2\n1,2,3\n",
        "id source target\n0 1 2\n1 2 3\n",
        "target,source\n2,1\n3,2\n",
        "source,target,date\n1,2,2026-01-01\n2,3,2026-01-02\n",
    ],
)
def test_other_columns_than_those_with_usual_names_are_skipped(read, text):
    graph = read(text, directed=True)
    assert edges_of(graph) == {("1", "2"): 1.0, ("2", "3"): 1.0}
    assert not graph.is_weighted


@pytest.mark.parametrize("header", ["source,target,count", "target,source,n", "protein1,protein2,combined_score"])
def test_a_third_column_of_numbers_has_the_weights(read, header):
    text, name = f"{header}\na,b,2\nb,c,3\n", header.split(",")[2]
    with pytest.warns(UserWarning, match=f"line 1: the third column, '{name}', is taken for weights; .*--unweighted"):
        found = read(text)
    assert edges_of(found) == both_ways({("a", "b"): 2.0, ("b", "c"): 3.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not read(text, weighted=False).is_weighted
        assert read(text, weight=name).hash == found.hash
    with pytest.raises(DataError, match=f"no column 'size' among .*'{name}'; name the column of the weights"):
        read(text, weight="size")


@pytest.mark.parametrize("name", ["timestamp", "Time", "unix_time", "year", "date"])
def test_times_are_no_weights(read, name):
    text = f"source,target,{name}\na,b,20\nb,c,30\n"
    with pytest.warns(UserWarning, match=f"the third column, '{name}', is taken for times, and left out; .*--weight"):
        assert not read(text).is_weighted
    assert read(text, weight=name).is_weighted


@pytest.mark.parametrize("header", ["", "u,v,n\n"])
@pytest.mark.parametrize(
    "times",
    [(1.7e9, 1.2e9), (1083108000.25, 1083107999.5), (1_700_000_000_000, 1_600_000_000_000), (20200131, 19991201)],
)
def test_values_of_times_are_no_weights(read, times, header):
    rows = [("a", "b", times[0]), ("b", "c", times[1])]
    text = "".join(f"{a},{b},{time}\n" for a, b, time in rows)
    with pytest.warns(UserWarning, match="the third column, from .*, is taken for times, and left out") as caught:
        found = read(header + text)
    assert (found.is_weighted, found.n_nodes, len(caught)) == (False, 3, 1)
    assert found.meta["about"]["found"]["skipped_columns"] == (["n"] if header else ["the third"])
    assert read("u,v,weight\n" + text).is_weighted
    assert read("u,v,n\n" + text, weight="n").is_weighted


@pytest.mark.filterwarnings("ignore:.*weights rise")
@pytest.mark.parametrize("numbers", [(1e9, 3e9), (1, 1.5e9), (20201301, 20200101), (20200101.5, 20200102)])
def test_other_large_numbers_are_weights(read, numbers):
    assert read(f"a b {numbers[0]}\nb c {numbers[1]}\n").is_weighted


def test_a_column_of_times_has_no_nodes(read):
    with pytest.warns(UserWarning, match="the first column, 'time', is taken for times, and left out"):
        assert read("time,u,v\n5,1,2\n6,2,3\n").nodes.to_pylist() == ["1", "2", "3"]
    assert read("year,u\n5,1\n6,2\n", source="year", target="u").n_nodes == 4
    with pytest.raises(DataError, match=r"two columns besides those of times, but here are .*--columns"):
        read("year,u\n5,1\n6,2\n")


@pytest.mark.parametrize("text", [",u,v\n0,1,2\n", "id,u,v,w\n0,1,2,3\n"])
def test_further_columns_without_usual_names_are_refused(read, text):
    with pytest.raises(DataError, match="if there are more columns, name these three source, target and weight in the"):
        read(text)


def test_a_header_can_be_announced_or_denied(read):
    assert read("one other\na b\n", header=True).nodes.to_pylist() == ["a", "b"]
    assert read("one other\na b\n").n_nodes == 4
    assert read("from to\na b\n", header=False).n_nodes == 4
    with pytest.raises(
        DataError, match=r"line 1: two names and a weight are .*, not 'a b w'.*ingest_graph\(.*header=True"
    ):
        read("a b w\na b 2\n", header=False)


@pytest.mark.parametrize(
    "text, options, match",
    [
        ("1 2 5\n2 3 4\n", {"weight": "foo"}, "line 1: no column 'foo' among '1', '2', '5'"),
        ("% sym positive\n1 2 5 9\n", {"weight": "foo"}, "line 2: columns can be named if the first line names them"),
        ("1 2 5\n", {"weight": "foo", "header": False}, "columns can be named if .*--header and --columns"),
        ("u v w\n1 2 5\n", {"source": "u", "target": "v", "header": False}, "columns can be named if"),
    ],
)
def test_columns_are_not_named_in_vain(read, text, options, match):
    with pytest.raises(DataError, match=match):
        read(text, **options)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_an_empty_file_is_refused(read, text):
    with pytest.raises(DataError, match="there are no edges in it"):
        read(text)


@pytest.mark.parametrize("weight", ["-1", "nan", "inf", "1e39", "1e-46"])
def test_weights_that_are_not_numbers_are_refused(read, weight):
    with pytest.raises(DataError, match=r"edge 2: the weight .* must be finite and not negative"):
        read(f"a b 1\nb c {weight}\n")


def test_the_least_weight_of_32_bits_is_one(read):
    assert read("a b 1e-45\nb c 1\n", directed=True).n_edges == 2


@pytest.mark.parametrize("form", ["memory", "npz", "mtx"])
def test_complex_weights_are_refused(tmp_path, form):
    source = scipy.sparse.csr_array(np.array([[0, 1j], [1, 0]]))
    if form == "npz":
        scipy.sparse.save_npz(tmp_path / "x.npz", source)
    elif form == "mtx":
        scipy.io.mmwrite(tmp_path / "x.mtx", source)
    with pytest.raises(DataError, match="weights are complex numbers"):
        graph_of(source if form == "memory" else tmp_path / f"x.{form}", tmp_path / "graph")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\nb c\nc\n", "line 3: two names are needed, not 'c'"),
        ("a b 1\nb c 2\nc d x\n", "line 3: two names and a weight are needed, not 'c d x'"),
        ("a b 1\n# more\n\nb c 2\nc d\n", "line 5: two names and a weight are needed"),
        ("a,b\n,c\n", "line 2: two names are needed"),
        ("source,target,date\na,b,May\nc,d\n", "line 3: two names in 3 columns are needed, not 'c,d'"),
        ("a b 1 4\n", "separated by tabs, commas, semicolons or blanks, not 'a b 1 4'; if there are more columns"),
        ("a\nb\n", "separated by tabs, commas, semicolons or blanks, not 'a'$"),
        # As networkx.write_edgelist writes them.
        ("a b {}\nb c {}\n", r"line 1: .*write_edgelist\(data=False\)"),
        ("a b {'weight': 2}\n", "line 1: .*networkx.write_weighted_edgelist"),
    ],
)
def test_broken_lines_are_named(read, text, message):
    with pytest.raises(DataError, match=message):
        read(text)


def test_compressed_lists(read):
    assert edges_of(read(gzip.compress(TRIANGLE.encode()), "e.tsv.gz")) == edges_of(read(TRIANGLE))
    assert edges_of(read(bz2.compress(TRIANGLE.encode()), "e.tsv.bz2")) == edges_of(read(TRIANGLE))


def test_several_lists_are_one_graph(tmp_path):
    (tmp_path / "1.txt").write_text("a b\n")
    (tmp_path / "2.txt").write_text("b c\n")
    graph = graph_of([str(tmp_path / "1.txt"), str(tmp_path / "2.txt")], tmp_path / "graph")
    assert set(edges_of(graph)) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}


def test_names_in_a_list_with_commas_may_be_quoted(read):
    text = '"from","to","weight"\n"1","2",0.5\n"2","3",1\n'
    graph = read(text)
    assert graph.nodes.to_pylist() == ["1", "2", "3"]
    assert graph.hash == read(text.replace('"', "")).hash


def test_names_in_quotes_may_contain_commas(read):
    assert read('"Smith, J","Doe, A"\n"Doe, A",b\n').nodes.to_pylist() == ["Doe, A", "Smith, J", "b"]
    graph = read('"a,1",0.5\nd,"say ""e"""\n')
    assert set(edges_of(graph)) == {("0.5", "a,1"), ("a,1", "0.5"), ("d", 'say "e"'), ('say "e"', "d")}
    # A quote within a name is a letter like any other.
    assert read('a"b",c\n').nodes.to_pylist() == ['a"b"', "c"]


@pytest.mark.parametrize("separator", ["\t", ",", ";", " ", "   "])
def test_quotes_follow_the_same_rules_whatever_separates_the_names(read, separator):
    graph = read(f'"a  b"{separator}"say ""e"" x"\n5"{separator}6"\n')
    assert graph.nodes.to_pylist() == ['5"', '6"', "a  b", 'say "e" x']
    assert graph.meta["about"]["found"]["quote"] == '"'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('a,b\n"c,d\ne,f\ng",h\n', r"line 2: the quote before 'c,d' is not closed"),
        ('# first\n\na,"b\nc",d\n', r"line 3: the quote before 'b' is not closed"),
        ('a,b,1\nc,d,"2\ne,f,3\n', r"line 2: the quote before '2' is not closed"),
        ('a,b\nc,"d\n', r"line 2: the quote before 'd' is not closed"),
        *((f'a{one}b\nc{one}"d"e\n', r"line 2: a field in quotes begins here, '\"d\"e'") for one in "\t, ;"),
    ],
)
def test_a_quote_that_is_not_closed_is_refused(read, text, where):
    with pytest.raises(DataError, match=where):
        read(text)


def test_a_carriage_return_within_a_line_is_refused(read):
    with pytest.raises(DataError, match=r"line 1: an edge is two names and maybe a weight"):
        read("a,b\rc,d\n")


@pytest.mark.parametrize("option", [{"delimiter": "::"}, {"delimiter": ""}, {"quote": "''"}, {"quote": ""}])
def test_what_separates_and_quotes_names_is_one_character(read, option):
    with pytest.raises(ValueError, match="must be one character of ASCII"):
        read(TRIANGLE, **option)


def test_an_empty_list_of_paths_is_refused():
    with pytest.raises(DataError, match="list of paths is empty"):
        read_edges([])


@pytest.mark.parametrize(
    "options, match",
    [
        ({"source": "u", "target": "u"}, "column 'u' is named for both nodes of an edge; name two of"),
        ({"target": "u"}, "column 'u' is named for both"),
        ({"weight": "v"}, "column 'v' is named for nodes and for weights"),
    ],
)
@pytest.mark.parametrize("form", ["list", "table"])
def test_a_column_has_one_meaning(read, form, options, match):
    with pytest.raises(DataError, match=match):
        if form == "list":
            read("u,v,w\n1,2,3\n", **options)
        else:
            read_edges(pa.table({"u": [1], "v": [2], "w": [3]}), EdgeOptions(**options))


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match="format='gml' is not known"):
        graph_of("x.gml", tmp_path / "graph", EdgeOptions(format="gml"))


#: Real collections, cut down: the text, options, the edges, and what is said of them.
COLLECTIONS = {
    "KONECT": ("% sym unweighted\n% 2 3 3\n1 2 1 1082040961\n2 3 1 1082155839\n", {}, [("1", "2"), ("2", "3")], None),
    "KONECT, directed": ("% asym positive\n1 2 3\n2 3 1\n", {}, [("1", "2", 3.0), ("2", "3", 1.0)], "have a direction"),
    "KONECT, tabs and blanks": (
        "% asym positive\n1 2\t1 \t1083108000\n2 3\t4 \t1083108001\n",
        {"directed": True},
        [("1", "2", 1.0), ("2", "3", 4.0)],
        None,
    ),
    "tabs and blanks, a header": (
        "source target\tweight\n1 2\t3\n2 3\t1\n",
        {},
        [("1", "2", 3.0), ("2", "3", 1.0)],
        None,
    ),
    "names with blanks": (
        "New York\tBoston\t5\nBoston\tUlm\t2\n",
        {"delimiter": "\\t"},
        [("New York", "Boston", 5.0), ("Boston", "Ulm", 2.0)],
        None,
    ),
    "SNAP": (
        "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n",
        {"directed": True},
        [("0", "1"), ("1", "2")],
        None,
    ),
    "byte order marks": ("\ufeff# one\n\ufeffa b\n\ufeffb c\n", {}, [("a", "b"), ("b", "c")], None),
    "SNAP, names": ("FromNodeId\tToNodeId\n0\t1\n1\t2\n", {}, [("0", "1"), ("1", "2")], None),
    "SNAP, times": (
        "5 3 0\n1 4 3\n1 9 33\n2 7 4523\n",
        {"weighted": False},
        [("5", "3"), ("1", "4"), ("1", "9"), ("2", "7")],
        None,
    ),
    "Gephi": (
        "Source;Target;Type;Id;Weight\na;b;Undirected;0;2.0\nb;c;Undirected;1;1.0\n",
        {},
        [("a", "b", 2.0), ("b", "c", 1.0)],
        None,
    ),
    "OGB": ("0,1\n1,2\n", {}, [("0", "1"), ("1", "2")], None),
    "a tree of names and numbers": ("root,1\n1,2\n2,3\n", {}, [("root", "1"), ("1", "2"), ("2", "3")], None),
    "columns of one stem": ("gene_a\tgene_b\nTP53\tMDM2\nMDM2\tMDM4\n", {}, [("TP53", "MDM2"), ("MDM2", "MDM4")], None),
    "names of one stem": ("node1 node2\nnode2 node3\n", {}, [("node1", "node2"), ("node2", "node3")], None),
    "hashtags": ("#a\t#b\n#b\tc\n", {"comments": ""}, [("#a", "#b"), ("#b", "c")], None),
    "hashtags, comments": ("#a\t#b\nb\tc\n", {}, [("b", "c")], "1 of 1 comment may be edges, such as '#a"),
    "a node like a mark": (
        "a b\n% a\nb %\n",
        {},
        [("a", "b"), ("b", "%")],
        "1 of 1 comment may be edges, such as '% a",
    ),
    "comments of one word": ("# Friends\n\na b\n# foes\n", {}, [("a", "b")], None),
    "quotes as letters": ('"\ta\na\tb\n', {"quote": "none"}, [('"', "a"), ("a", "b")], None),
    "a weight of 0": ("a b 0\nb c 2\n", {}, [("b", "c", 2.0)], "1 edge of weight 0 left out"),
    "times": (
        "a b 0\nb c 5\nc d 7\nd a 9\n",
        {},
        [("b", "c", 5.0), ("c", "d", 7.0), ("d", "a", 9.0)],
        "rise from line to line, from 0 to 9",
    ),
    "an unknown header": (
        "person friend\nann bob\nbob cat\n",
        {},
        [("person", "friend"), ("ann", "bob"), ("bob", "cat")],
        "read it with --header",
    ),
    "labels of edges": ("a b friend\nb c foe\n", {"weighted": False}, [("a", "b"), ("b", "c")], None),
    "ignored decimal commas": (
        "a;b;2,5\nb;c;1,5\n",
        {"delimiter": ";", "weighted": False},
        [("a", "b"), ("b", "c")],
        None,
    ),
    "a column of numbers among four": (
        "source,target,rating,time\na,b,4,10\nb,c,2,20\n",
        {},
        [("a", "b"), ("b", "c")],
        "columns with numbers, 'rating', left out; if one has weights, name it with --weight",
    ),
    "joined files": (
        "source,target\na,b\nsource,target\nb,c\n",
        {},
        [("a", "b"), ("source", "target"), ("b", "c")],
        "1 line like the header, as where files were joined",
    ),
    "years": (
        "a,b,1999\nb,c,1990\nc,d,2026\n",
        {},
        [("a", "b", 1999), ("b", "c", 1990), ("c", "d", 2026)],
        "from 1990 to 2026, as years are; if they are no weights, ignore them with --unweighted",
    ),
    "a triangle of numbers": ("0 1 1\n1 2 1\n2 0 1\n", {}, [("0", "1", 1), ("1", "2", 1), ("2", "0", 1)], None),
    "two kinds": ("user,item\nu1,i1\nu2,i1\n", {}, [("u1", "i1"), ("u2", "i1")], None),
}


@pytest.mark.parametrize("text, options, wanted, said", COLLECTIONS.values(), ids=COLLECTIONS)
def test_real_collections_are_read_right_and_what_may_be_wrong_is_said(tmp_path, text, options, wanted, said):
    (tmp_path / "edges.txt").write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = edges_of(graph_of(str(tmp_path / "edges.txt"), tmp_path / "graph", EdgeOptions(**options)))
    edges = {(first, second): weight[0] if weight else 1.0 for first, second, *weight in wanted}
    assert found == (edges if options.get("directed") else both_ways(edges))
    assert any(said in str(one.message) for one in caught) if said else not caught


def test_the_same_first_line_of_several_lists_may_be_a_header(tmp_path):
    for name, edge in (("a", "ann,bob"), ("b", "bob,cat")):
        (tmp_path / name).write_text(f"person,friend\n{edge}\n")
    with pytest.warns(UserWarning, match="between 'person' and 'friend', which occur nowhere else"):
        read_edges([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    "text, options, match",
    [
        ("a\tb\t1,000\nb\tc\t1\n", {}, "line 1: numbers such as '1,000' .* without separators of thousands"),
        ("a b\t2\nb c\t1\n", {}, "line 1: tabs and blanks are mixed in .*--delimiter"),
        ("% bip unweighted\n1 1\n2 1\n", {}, "nodes of two kinds, and 1 name such as '1' in both"),
        ("user,item\n1,1\n2,1\n", {}, "nodes of two kinds"),
        ("user_id,item_id\n1,1\n2,1\n", {}, "nodes of two kinds"),
        ("userId,movieId,rating\n1,1,4\n2,1,2\n", {}, "nodes of two kinds"),
        *(
            (
                f"{header.replace(';', one)}a{one}b{one}2,5\nb{one}c{one}1\n",
                {},
                "'2,5' seem to have decimal commas; .*--unweighted",
            )
            for header in ("", "src;dst;w\n")
            for one in (";", "|", "\t", " ")
        ),
        ("source,target,w\na,b,1\nsource,target,w\n", {}, "line 3: two names and a weight are needed"),
        ("a;b;2,5\nb;c;1,5\n", {}, "decimal commas; .* if ',' separates the columns, say --delimiter ','"),
        ("src;dst;w\na;b;2,5\n", {"delimiter": ";"}, "decimal commas"),
        ("New York;Boston;3\nBoston;Los Angeles;4\n", {}, "' ' and ';' may both .*--delimiter ';'"),
        ("New York|Boston\nBoston|Los Angeles\n", {}, r"' ' and '\|' may both"),
        ("Boston, MA;New York\nNew York;Troy, NY\n", {}, "',' and ';' may both"),
        ('a\tb\n"c\td\n', {}, "line 2: the quote before .* is not closed .*quote='none'"),
        ("a\tb\rc\td\n", {}, "line 1"),
        ("0,1,1\n1,0,0\n1,0,0\n", {}, "three numbers, as a matrix has: pass scipy.sparse.csr_array"),
        ("a,b,c\n0,2,0\n0,0,1\n1,0,0\n", {}, "three numbers, as a matrix has"),
        (",a,b\na,0,1\nb,1,0\n", {}, "line 1: .* if it is a matrix, pass scipy.sparse.csr_array"),
        ("0 1 0 1\n1 0 1 0\n0 1 0 0\n1 0 0 0\n", {}, "line 1: .* if it is a matrix"),
        *(
            (text, {}, "line 1: a graph of Graphviz; read it with networkx.nx_pydot.read_dot")
            for text in ("graph{a--b;b--c}", "strict digraph {a -> b; }", "Digraph G { a -> b }", "graph {\na -- b\n}")
        ),
    ],
)
def test_edges_that_cannot_be_read_right_are_refused(tmp_path, text, options, match):
    (tmp_path / "edges.txt").write_text(text)
    with pytest.raises(DataError, match=match):
        read_edges(str(tmp_path / "edges.txt"), EdgeOptions(**options))


@pytest.mark.parametrize("n_lines", [0, 300_000])
def test_text_in_another_encoding_is_refused_with_its_line(tmp_path, n_lines):
    (tmp_path / "edges.csv").write_bytes(b"source,target\n" + n_lines * b"a,b\n" + "Käse,Brot\n".encode("latin-1"))
    with pytest.raises(DataError, match=rf"line {n_lines + 2}: invalid UTF-8 at byte 1; convert the file, .* iconv"):
        read_edges(str(tmp_path / "edges.csv"))
