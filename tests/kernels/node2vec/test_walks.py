"""Random walks against their definition."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.node2vec import walks
from helpers.graphs import adjacency, random_graph
from helpers.naive import walk_probabilities
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats


def walked(graph, p, q, by_tables=False, starts=None, length=30, key=1):
    nodes = np.arange(len(graph.row_ptr) - 1, dtype=np.uint32) if starts is None else np.array(starts, np.uint32)
    walker = walks.make_walker(graph, p, q, by_tables)
    doc_ptr, found = walks.walk(walker, nodes, length, random.key(key))
    return [found[a:b].tolist() for a, b in zip(doc_ptr[:-1], doc_ptr[1:], strict=True)]


def steps_of(paths):
    """Count the steps of walks by their last two nodes: {(t, v): Counter of x}; t is None in the first step."""
    steps = defaultdict(Counter)
    for path in paths:
        for i in range(len(path) - 1):
            steps[path[i - 1] if i else None, path[i]][path[i + 1]] += 1
    return steps


# Each two of directed, weighted and by_tables have all four combinations.
@pytest.mark.parametrize(
    ("directed", "weighted", "by_tables"),
    [(False, False, False), (False, True, True), (True, False, True), (True, True, False)],
)
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.2, 3), (4, 0.5), (0.3, 0.25), (5, 5)])
def test_steps_follow_the_definition(p, q, directed, weighted, by_tables):
    W = random_graph(9, 0.45, directed, weighted, seed=3)
    graph = adjacency(W, symmetric=not directed)
    paths = [path for key in range(700) for path in walked(graph, p, q, by_tables, key=key)]
    statistic = freedom = 0
    for (t, v), counts in steps_of(paths).items():
        observed = np.array([counts[x] for x in range(9)], float)
        expected = walk_probabilities(W, p, q, t, v) * observed.sum()
        assert observed[expected == 0].sum() == 0
        enough = expected > 5
        statistic += ((observed - expected)[enough] ** 2 / expected[enough]).sum()
        freedom += enough.sum() - 1
    assert freedom > 50
    assert stats.chi2.sf(statistic, freedom) > 1e-4


def test_the_test_of_steps_detects_wrong_probabilities():
    """Walks with one q, compared with the probabilities of another q, have a tiny p-value."""
    W = random_graph(9, 0.45, False, False, seed=3)
    paths = [path for key in range(200) for path in walked(adjacency(W, True), 1, 2, key=key)]
    worst = 1.0
    for (t, v), counts in steps_of(paths).items():
        observed = np.array([counts[x] for x in range(9)], float)
        expected = walk_probabilities(W, 1, 1, t, v) * observed.sum()
        kept = expected > 5
        if kept.sum() > 1 and kept.sum() == (expected > 0).sum():
            worst = min(worst, stats.chisquare(observed[kept], expected[kept]).pvalue)
    assert worst < 1e-6


@settings(max_examples=40)
@given(
    st.integers(1, 12),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.floats(0.1, 10),
    st.floats(0.1, 10),
    st.integers(0, 99),
)
def test_a_walk_follows_edges_and_ends_only_at_a_node_without_edges(
    n, density, directed, weighted, by_tables, p, q, seed
):
    W = random_graph(n, density, directed, weighted, seed)
    length = 12
    paths = walked(adjacency(W, not directed), p, q, by_tables, length=length, key=seed)
    assert [path[0] for path in paths] == list(range(n))
    for path in paths:
        assert all(W[v, x] > 0 for v, x in zip(path[:-1], path[1:], strict=True))
        assert len(path) == length or not W[path[-1]].any()


@pytest.mark.parametrize("by_tables", [False, True])
def test_a_walk_depends_on_its_first_node_and_the_key_alone(by_tables):
    graph = adjacency(random_graph(40, 0.2, False, True), True)
    whole = walked(graph, 0.5, 2, by_tables)
    assert walked(graph, 0.5, 2, by_tables, starts=[17, 3]) == [whole[17], whole[3]]
    assert [path[:9] for path in whole] == walked(graph, 0.5, 2, by_tables, length=9)
    assert whole != walked(graph, 0.5, 2, by_tables, key=2)


@pytest.mark.parametrize("by_tables", [False, True])
def test_isolated_nodes_sinks_and_loops(by_tables):
    #                 0 isolated    1 to the sink 2   3 a loop      4 a loop and an edge to 2
    W = np.zeros((5, 5))
    W[1, 2] = W[3, 3] = W[4, 4] = W[4, 2] = 1
    paths = walked(adjacency(W, False), 0.5, 2, by_tables, length=6)
    assert paths[:4] == [[0], [1, 2], [2], [3] * 6]
    assert set(paths[4][:-1]) == {4}
    assert paths[4][-1] == 2 or len(paths[4]) == 6


def test_a_walk_of_one_node():
    graph = adjacency(random_graph(6, 0.8, False, False), True)
    assert walked(graph, 1, 1, length=1) == [[v] for v in range(6)]


def test_table_bytes_are_what_tables_take():
    graph = adjacency(random_graph(30, 0.3, True, True), False)
    edges = walks.make_walker(graph, 0.5, 2, True).edges
    assert walks.table_bytes(graph) == edges.share.nbytes + edges.other.nbytes + edges.ptr[1:].nbytes


def test_walks_with_extreme_weights_and_parameters_end():
    W = random_graph(8, 0.9, False, True) * 1e6
    W[0, 1] = W[1, 0] = 1e-6
    for p, q in ((1e-6, 1e6), (1e6, 1e-6), (1e6, 1e6), (1e-6, 1e-6)):
        assert all(len(path) == 30 for path in walked(adjacency(W, True), p, q))


def test_steps_follow_the_definition_even_if_every_proposal_is_rejected():
    W = np.zeros((4, 4))
    W[0, 1] = W[1, 2] = W[1, 3] = 1
    W += W.T
    for p, q in ((1e12, 1e12), (3e12, 1e12)):
        counts = Counter()
        for key in range(400):
            counts += steps_of(walked(adjacency(W, True), p, q, starts=[0], key=key))[0, 1]
        observed = np.array([counts[x] for x in range(4)])[[0, 2, 3]]
        expected = walk_probabilities(W, p, q, 0, 1)[[0, 2, 3]] * observed.sum()
        assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_visits_are_counted():
    doc_ptr, nodes = np.array([0, 3, 4, 7]), np.array([1, 0, 1, 2, 0, 0, 0], np.uint32)
    term, document = walks.count_visits(doc_ptr, nodes, 4)
    assert term.tolist() == [4, 2, 1, 0]
    assert document.tolist() == [2, 1, 1, 0]
