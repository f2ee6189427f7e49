"""Walks on a device against walks on the CPU, to the bit."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.cuda.node2vec import walks
from corpusmill.kernels.node2vec import walks as cpu
from helpers.graphs import adjacency, random_graph
from helpers.on_device import on_device
from scipy import sparse


def both(graph, p, q, by_tables=False, length=12):
    walker = cpu.make_walker(graph, p, q, by_tables)
    starts = np.arange(len(graph.row_ptr) - 1, dtype=np.uint32)
    return walks.walk(walker, starts, length, random.key(7)), cpu.walk(walker, starts, length, random.key(7))


@on_device
@pytest.mark.parametrize("by_tables", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("p", "q"), [(0.2, 3), (4, 0.5)])
def test_walks_equal_those_of_the_cpu(p, q, directed, weighted, by_tables):
    graph = adjacency(random_graph(9, 0.3, directed, weighted, seed=3), symmetric=not directed)
    found, expected = both(graph, p, q, by_tables)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


@on_device
def test_walks_with_rejected_proposals_equal_those_of_the_cpu():
    # Hardly any proposal of the second step is accepted, so both versions compute the weights of all edges.
    graph = adjacency(random_graph(7, 0.9, False, True, seed=1), symmetric=True)
    with mock.patch.object(cpu, "EXTRA_PROPOSALS", 16):
        found, expected = both(graph, 1e12, 1e-12)
    np.testing.assert_array_equal(found[1], expected[1])


@on_device
def test_a_corpus_of_walks_equals_that_of_the_cpu(tmp_path):
    from corpusmill.pipeline.ingest.graph import ingest_graph
    from corpusmill.pipeline.models.node2vec.walks import WalkOptions, write_walks

    graph = ingest_graph(sparse.csr_matrix(random_graph(5, 0.6, False, False)), str(tmp_path / "graph"))
    options = WalkOptions(p=0.3, q=2, num_walks=1, walk_length=5)
    hashes = [write_walks(graph, str(tmp_path / d), options, device=d).hash for d in ("cuda", "cpu")]
    assert hashes[0] == hashes[1]
