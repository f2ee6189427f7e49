"""Random walks over a graph, written as a corpus."""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from corpusmill.io.errors import DataError, Locked
from corpusmill.io.stores.corpus import LOCK, Corpus
from corpusmill.io.stores.graph import Graph
from corpusmill.io.stores.locks import acquire_lock
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.models.node2vec.walks import WalkOptions, write_walks
from fsspec.implementations.memory import MemoryFileSystem
from helpers.graphs import communities, graph_of_lines, neighbours_of

OPTIONS = WalkOptions(p=0.5, q=2, num_walks=6, walk_length=20, seed=5, chunk_tokens=700)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return graph_of_lines(communities(), tmp_path_factory.mktemp("graph"))


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


def test_existing_walks_are_used_again(graph, corpus, tmp_path):
    url = str(tmp_path / "corpus")
    shutil.copytree(corpus.url, url)
    assert write_walks(graph, url, OPTIONS).hash == corpus.hash
    with pytest.raises(DataError, match="another corpus is here"):
        write_walks(graph, url, WalkOptions())


def test_walks_are_refused_while_another_process_writes_a_corpus(graph, tmp_path):
    with (
        acquire_lock(Store(tmp_path), LOCK, "busy"),
        pytest.raises(Locked, match="another process is writing a corpus here; wait for it"),
    ):
        write_walks(graph, str(tmp_path), OPTIONS)
    assert not Store(tmp_path).exists("corpus.json")


class Overtaken(MemoryFileSystem):
    """A file system in memory. Once a process has seen that there is no corpus, another process does something."""

    protocol = "overtaken"
    meanwhile: ClassVar[list[Callable[[], None]]] = []

    def exists(self, path, **options):
        found = super().exists(path, **options)
        if path.endswith("/corpus.json") and self.meanwhile:
            self.meanwhile.pop()()
        return found


@pytest.mark.parametrize("seed", [5, 6], ids=["the same walks", "other walks"])
def test_walks_that_another_process_has_just_finished_are_not_replaced(graph, tmp_path, seed):
    fsspec.register_implementation("overtaken", Overtaken, clobber=True)
    url = f"overtaken://{tmp_path.name}"
    theirs = replace(OPTIONS, seed=seed)
    their_graph = Graph(graph.url)
    their_graph.title = "theirs"
    Overtaken.meanwhile.append(lambda: write_walks(their_graph, url, theirs))
    refusal = pytest.raises(DataError, match="another corpus is here") if theirs != OPTIONS else nullcontext()
    with refusal:
        write_walks(graph, url, OPTIONS)
    assert Corpus(url).meta["about"]["source"] == "theirs"


def test_isolated_nodes_and_sinks_end_their_walks(tmp_path):
    graph = graph_of_lines("a b 1\nb c 1\nd d 0\n", tmp_path, directed=True)
    walks = dict(documents_of(write_walks(graph, str(tmp_path / "corpus"), WalkOptions(num_walks=1))))
    assert walks == {"a:0": ["a", "b", "c"], "b:0": ["b", "c"], "c:0": ["c"], "d:0": ["d"]}


def test_tables_and_rejection_visit_nodes_equally_often(graph, tmp_path):
    terms = []
    for method in ("rejection", "tables"):
        options = WalkOptions(p=0.5, q=2, num_walks=100, walk_length=20, method=method)
        table = write_walks(graph, str(tmp_path / method), options).vocabulary
        terms.append(dict(zip(table["word"].to_pylist(), table["term_frequency"].to_pylist(), strict=True)))
    shares = [np.array([t[name] for name in graph.nodes.to_pylist()]) / sum(t.values()) for t in terms]
    assert 0 < abs(shares[0] - shares[1]).max() < 0.002


def test_tables_above_the_bound_are_refused(graph, tmp_path):
    with pytest.raises(DataError, match=r"alias tables of all edges take [\d,]+ bytes, but table_memory allows 1,000"):
        write_walks(graph, str(tmp_path / "corpus"), WalkOptions(method="tables", table_memory=1000))


@pytest.mark.slow
def test_a_graph_above_the_workers_memory_is_refused(graph, tmp_path):
    message = r"walks need [\d.]+ MiB on worker 0, which has [\d.]+ MiB .*raise memory_limit to \d+MiB .*choose FastRP"
    refused = pytest.raises(DataError, match=message)
    with open_cluster("local", n_workers=1, memory_limit="440MiB") as client, refused:
        write_walks(graph, str(tmp_path / "corpus"), WalkOptions(chunk_tokens=1 << 20), client)
