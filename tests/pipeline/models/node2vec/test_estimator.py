"""Walks as a corpus, and Node2Vec on top of them."""

import shutil

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.readers.edges import EdgeOptions
from corpusmill.io.stores.graph import write_graph
from corpusmill.io.stores.store import DataError
from corpusmill.pipeline.engine.clusters import open_cluster
from corpusmill.pipeline.models.node2vec.estimator import (
    Node2Vec,
    _most_probable,
    _pairs,
    classify,
    predict_links,
    read_labels,
)
from corpusmill.pipeline.models.node2vec.walks import WalkOptions, write_walks

OPTIONS = WalkOptions(p=0.5, q=2, num_walks=6, walk_length=20, seed=5, chunk_tokens=700)


def communities(size=15, groups=4, seed=0):
    """Lines of edges: groups of nodes, dense inside, a few edges between; node gXnY belongs to group X."""
    rng = np.random.default_rng(seed)
    names = [f"g{g}n{i}" for g in range(groups) for i in range(size)]
    lines = []
    for a, first in enumerate(names):
        for second in names[a + 1 :]:
            inside = first.split("n")[0] == second.split("n")[0]
            if rng.random() < (0.5 if inside else 0.01):
                lines.append(f"{first} {second}")
    return "\n".join(lines) + "\n"


def graph_of(text, folder, **options):
    (folder / "edges.txt").write_text(text)
    return write_graph(str(folder / "edges.txt"), folder / "graph", EdgeOptions(**options), chunk_edges=100)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return graph_of(communities(), tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def corpus(graph, tmp_path_factory):
    return write_walks(graph, str(tmp_path_factory.mktemp("walks") / "corpus"), OPTIONS)


def documents_of(corpus):
    """All walks by name, in order: [(key, [node, ...])]."""
    words, keys, found = corpus.vocabulary["word"].to_pylist(), corpus.documents["key"].to_pylist(), []
    for c in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(c)
        found += [chunk.words[a:b] for a, b in zip(chunk.doc_ptr[:-1], chunk.doc_ptr[1:], strict=True)]
    return [(key, [words[v] for v in walk]) for key, walk in zip(keys, found, strict=True)]


def neighbours_of(graph):
    arrays, names = graph.adjacency(), graph.nodes.to_pylist()
    rows = np.split(arrays["neighbours"], arrays["row_ptr"][1:-1])
    return {name: {names[x] for x in row} for name, row in zip(names, rows, strict=True)}


def test_every_node_begins_each_round_once_and_every_step_is_an_edge(graph, corpus):
    near = neighbours_of(graph)
    walks = documents_of(corpus)
    assert sorted(key for key, _ in walks) == sorted(f"{node}:{r}" for node in near for r in range(6))
    for key, walk in walks:
        assert walk[0] == key.split(":")[0]
        assert len(walk) == 20
        assert all(x in near[v] for v, x in zip(walk[:-1], walk[1:], strict=True))


def test_rounds_differ_in_their_order(graph, corpus):
    keys = [key.split(":") for key, _ in documents_of(corpus)]
    orders = {tuple(node for node, r in keys if r == str(turn)) for turn in range(6)}
    assert len(orders) == 6
    assert tuple(graph.nodes.to_pylist()) not in orders


def test_ids_are_ranks_by_falling_visits(corpus):
    walks = [walk for _, walk in documents_of(corpus)]
    for word, term, document in zip(*corpus.vocabulary.to_pydict().values(), strict=True):
        assert term == sum(walk.count(word) for walk in walks)
        assert document == sum(word in walk for walk in walks)
    terms = corpus.vocabulary["term_frequency"].to_numpy()
    assert (np.diff(terms) <= 0).all()
    assert terms.sum() == corpus.n_tokens


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_walks_on_any_number_of_workers(graph, corpus, tmp_path, workers, cluster_of):
    client = cluster_of(workers)
    other = write_walks(graph, str(tmp_path / "corpus"), OPTIONS, client)
    assert other.hash == corpus.hash
    assert documents_of(other) == documents_of(corpus)


def test_chunks_do_not_change_the_walks(graph, corpus, tmp_path):
    whole = write_walks(graph, str(tmp_path / "corpus"), WalkOptions(**(vars(OPTIONS) | {"chunk_tokens": None})))
    assert len(whole.chunks) < len(corpus.chunks)
    assert documents_of(whole) == documents_of(corpus)


def test_the_seed_changes_the_walks(graph, corpus, tmp_path):
    other = write_walks(graph, str(tmp_path / "corpus"), WalkOptions(**(vars(OPTIONS) | {"seed": 6})))
    assert dict(documents_of(other)) != dict(documents_of(corpus))


def test_walks_that_are_there_are_not_made_again(graph, corpus, tmp_path):
    url = str(tmp_path / "corpus")
    shutil.copytree(corpus.url, url)
    assert write_walks(graph, url, OPTIONS).hash == corpus.hash
    with pytest.raises(DataError, match="another corpus is here"):
        write_walks(graph, url, WalkOptions())


def test_isolated_nodes_and_sinks_end_their_walks(tmp_path):
    graph = graph_of("a b 1\nb c 1\nd d 0\n", tmp_path, directed=True)
    walks = dict(documents_of(write_walks(graph, str(tmp_path / "corpus"), WalkOptions(num_walks=1))))
    assert walks == {"a:0": ["a", "b", "c"], "b:0": ["b", "c"], "c:0": ["c"], "d:0": ["d"]}


def test_tables_and_rejection_visit_nodes_alike(graph, tmp_path):
    terms = []
    for method in ("rejection", "tables"):
        options = WalkOptions(p=0.5, q=2, num_walks=100, walk_length=20, method=method)
        table = write_walks(graph, str(tmp_path / method), options).vocabulary
        terms.append(dict(zip(table["word"].to_pylist(), table["term_frequency"].to_pylist(), strict=True)))
    shares = [np.array([t[name] for name in graph.nodes.to_pylist()]) / sum(t.values()) for t in terms]
    assert 0 < abs(shares[0] - shares[1]).max() < 0.002


def test_tables_above_the_bound_are_refused(graph, tmp_path):
    with pytest.raises(DataError, match=r"alias tables of all edges take [\d,]+ bytes, table_memory allows 1,000"):
        write_walks(graph, str(tmp_path / "corpus"), WalkOptions(method="tables", table_memory=1000))


def test_a_graph_above_the_workers_memory_is_refused(graph, tmp_path):
    refused = pytest.raises(DataError, match=r"walking needs [\d,]+ bytes on worker 0, which has [\d,]+ to spare")
    with open_cluster("local", n_workers=1, memory_limit="500MiB") as client, refused:
        write_walks(graph, str(tmp_path / "corpus"), WalkOptions(chunk_tokens=1 << 20), client)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"p": 0}, "p is 0: choose a number above 0"),
        ({"q": float("nan")}, "q is nan"),
        ({"num_walks": 0}, "num_walks is 0: choose 1 or more"),
        ({"walk_length": 0}, "walk_length is 0"),
        ({"method": "alias"}, "choose rejection or tables"),
    ],
)
def test_options_out_of_range_are_refused(graph, tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        write_walks(graph, str(tmp_path / "corpus"), WalkOptions(**wrong))


# --- the estimator ---

SMALL = {"num_walks": 8, "walk_length": 20, "vector_size": 16, "window": 4, "epochs": 4, "seed": 3}


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


def test_what_fit_takes(model, graph, tmp_path):
    estimator = Node2Vec(p=0.5, q=0.5, **SMALL, walks=str(tmp_path / "walks"))
    np.testing.assert_array_equal(estimator.fit(graph.url).wv.vectors, model.wv.vectors)
    again = Node2Vec(**SMALL).fit(str(tmp_path / "walks"))
    np.testing.assert_array_equal(again.wv.vectors, model.wv.vectors)
    arrays = graph.adjacency()
    ones = np.ones(graph.n_edges, np.float32)
    matrix = scipy.sparse.csr_matrix((ones, arrays["neighbours"].astype(np.int32), arrays["row_ptr"]))
    assert Node2Vec(**SMALL).fit(matrix).wv.vectors.shape == (graph.n_nodes, 16)
    with pytest.raises(ValueError, match="a graph is needed, or edges, or a sparse matrix, not int"):
        Node2Vec(**SMALL).fit(7)


def test_the_same_vectors_on_any_number_of_workers(model, graph, cluster_of):
    client = cluster_of(2)
    found = Node2Vec(p=0.5, q=0.5, **SMALL).fit(graph, client=client)
    np.testing.assert_array_equal(found.wv.vectors, model.wv.vectors)


def test_parameters_are_word2vecs_and_its_own(model, tmp_path):
    parameters = model.get_params()
    assert parameters["q"] == 0.5
    assert parameters["min_count"] == 1
    assert parameters["vector_size"] == 16
    assert Node2Vec().set_params(negative=9, p=3).negative == 9
    with pytest.raises(ValueError, match="has no parameter 'return_weight'"):
        Node2Vec().set_params(return_weight=1)
    model.save(str(tmp_path / "model"))
    loaded = Node2Vec.load(str(tmp_path / "model"))
    assert loaded.get_params() == parameters
    np.testing.assert_array_equal(loaded.wv.vectors, model.wv.vectors)


def test_isolated_nodes_keep_a_vector(tmp_path):
    graph = graph_of("a b 1\nb c 1\na c 1\nd d 0\n", tmp_path)
    assert "d" in Node2Vec(**SMALL).fit(graph).words_


# --- how good the vectors are ---


def test_groups_are_predicted_from_vectors_and_not_from_noise(model, tmp_path):
    (tmp_path / "labels.tsv").write_text("".join(f"{node}\t{group_of(node)}\n" for node in model.words_))
    good = model.evaluate(labels=str(tmp_path / "labels.tsv"))["classification"]
    assert good["micro_f1"] > 0.9
    noise = np.random.default_rng(0).normal(size=model.wv.vectors.shape)
    bad = classify(model.words_, noise, read_labels(str(tmp_path / "labels.tsv")))
    assert bad["micro_f1"] < 0.6


def test_a_node_gets_as_many_labels_as_it_has():
    chances = np.array([[0.1, 0.5, 0.4], [0.9, 0.2, 0.3]])
    np.testing.assert_array_equal(_most_probable(chances, np.array([[1, 0, 1], [0, 1, 0]])), [[0, 1, 1], [1, 0, 0]])


def test_links_are_told_from_pairs_without_one(model, graph):
    links = model.evaluate(graph=graph)["links"]
    assert links["micro_f1"] > 0.65
    assert links["auc"] > 0.7
    noise = np.random.default_rng(0).normal(size=model.wv.vectors.shape)
    links = predict_links(model.words_, noise, graph)
    assert links["micro_f1"] < 0.62
    assert links["auc"] < 0.65


@pytest.mark.parametrize("directed", [False, True])
def test_pairs_are_edges_and_no_edges(tmp_path, directed):
    graph = graph_of(communities(), tmp_path, directed=directed)
    near = neighbours_of(graph)
    names = graph.nodes.to_pylist()[::-1]
    edges, others = _pairs(graph, {n: i for i, n in enumerate(names)}, np.random.default_rng(0), 100)
    assert len(edges) == len(others) == 100
    assert all(names[b] in near[names[a]] for a, b in edges)
    assert not any(names[b] in near[names[a]] for a, b in others)
    # Rows fall where nodes rise: which end stands first tells nothing.
    assert directed or (np.diff(edges) < 0).all() == (np.diff(others) < 0).all()


def test_what_cannot_be_judged_is_refused(model, tmp_path):
    with pytest.raises(DataError, match="0 nodes with vectors have labels: at least 20"):
        model.evaluate(labels={"elsewhere": {"x"}})
    (tmp_path / "labels.tsv").write_text("a x\nb\n")
    with pytest.raises(DataError, match="line 2: a node and a label are needed, not 'b'"):
        read_labels(str(tmp_path / "labels.tsv"))
    with pytest.raises(DataError, match="are too few to judge by"):
        model.evaluate(graph=graph_of("a b\n", tmp_path))
