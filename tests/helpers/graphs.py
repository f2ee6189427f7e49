"""Graphs as tests make and compare them: as dense matrices, as the kernels take them, and as graph stores."""

import numpy as np
from corpusmill.io.readers.edges import read_edges
from corpusmill.io.stores.graph import write_graph
from corpusmill.kernels.node2vec import walks
from corpusmill.pipeline.ingest.graph import ingest_graph


def adjacency(W, symmetric):
    """Return the kernels' form of a dense matrix of weights (V, V); weights that are all 1 are left out."""
    rows = [np.flatnonzero(row) for row in W]
    weights = np.concatenate([W[v, row] for v, row in enumerate(rows)]).astype(np.float32)
    return walks.Adjacency(
        np.r_[0, np.cumsum([len(row) for row in rows])].astype(np.int64),
        np.concatenate(rows).astype(np.uint32),
        weights if (weights != 1).any() else np.empty(0, np.float32),
        symmetric,
    )


def random_graph(n_nodes, density, directed, weighted, seed=0):
    """Return the matrix of weights (V, V) of a random graph."""
    rng = np.random.default_rng(seed)
    W = (rng.random((n_nodes, n_nodes)) < density).astype(float)
    if weighted:
        W *= rng.choice([0.25, 1.0, 3.0, 8.0], W.shape)
    return W if directed else np.triu(W) + np.triu(W, 1).T


def communities(size=15, groups=4, seed=0):
    """Return lines of edges: many inside each group of nodes, few between groups. Node gXnY belongs to group X."""
    rng = np.random.default_rng(seed)
    names = [f"g{g}n{i}" for g in range(groups) for i in range(size)]
    lines = []
    for a, first in enumerate(names):
        for second in names[a + 1 :]:
            inside = first.split("n")[0] == second.split("n")[0]
            if rng.random() < (0.5 if inside else 0.01):
                lines.append(f"{first} {second}")
    return "\n".join(lines) + "\n"


def graph_of_lines(text, folder, **options):
    """Write lines of edges as a graph store."""
    (folder / "edges.txt").write_text(text)
    return ingest_graph(str(folder / "edges.txt"), folder / "graph", chunk_edges=100, **options)


def neighbours_of(graph):
    """Return the set of neighbours of each node, by name."""
    arrays, names = graph.adjacency(), graph.nodes.to_pylist()
    rows = np.split(arrays["neighbours"], arrays["row_ptr"][1:-1])
    return {name: {names[x] for x in row} for name, row in zip(names, rows, strict=True)}


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
