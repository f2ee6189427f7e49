"""Graphs as tests make and compare them."""

import numpy as np
from corpusmill.io.readers.edges import read_edges
from corpusmill.io.stores.graph import write_graph


def graph_of(source, url, options=None, **chunks):
    """Read edges and write them as a graph."""
    return write_graph(read_edges(source, options), url, **chunks)


def edges_of(graph):
    """The edges by name: {(from, to): weight}."""
    arrays, names = graph.adjacency(), graph.nodes.to_pylist()
    row_ptr, weights = arrays["row_ptr"], arrays["weights"]
    found = {}
    for v in range(graph.n_nodes):
        row = arrays["neighbours"][row_ptr[v] : row_ptr[v + 1]]
        assert (np.diff(row.astype(int)) > 0).all()
        for e, x in enumerate(row, row_ptr[v]):
            found[names[v], names[x]] = float(weights[e]) if len(weights) else 1.0
    return found


def both_ways(edges):
    """Return edges in both directions."""
    return edges | {(b, a): w for (a, b), w in edges.items()}
