"""The graph store: edges by node, with weights or without, cut into chunks of nodes.

Layout below the URL::

    graph.json      kind, format, counts, chunk table, hash; written last: without it there is no graph
    nodes.parquet   node: the name; the row is the node's number
    <c>/            one Zarr group a chunk (see GraphChunk)
"""

import hashlib
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from ..readers.edges import EdgeOptions, Edges, from_matrix, read_edges
from .parquet import read_parquet
from .store import Arrays, DataError, Store, check_format

FORMAT = 1
#: Edges of a chunk.
CHUNK_EDGES = 1 << 24


class GraphChunk(NamedTuple):
    """The edges of N consecutive nodes by their first node. An undirected edge stands in both its nodes' rows."""

    first_node: int
    row_ptr: np.ndarray  # (N + 1,) int64
    neighbours: np.ndarray  # (E,) uint32, ascending in a row
    weights: np.ndarray  # (E,) float32 above 0, or empty: all are 1


@dataclass(frozen=True)
class GraphChunkInfo:
    """What the chunk table says of one chunk."""

    first_node: int
    nodes: int
    edges: int


class Graph:
    """A graph store, open for reading."""

    kind = "graph"

    def __init__(self, url: str | os.PathLike[str]):
        self.store = Store(url)
        self.url = self.store.url
        if not self.store.exists("graph.json"):
            raise DataError(
                f"{self.url}: no graph here (no graph.json); make one: corpusmill graph EDGES GRAPH, or write_graph"
            )
        self.meta: dict[str, Any] = self.store.read_json("graph.json")
        check_format(self.meta, "graph", FORMAT, self.url)
        self.chunks = [GraphChunkInfo(**c) for c in self.meta["chunks"]]

    @property
    def n_nodes(self) -> int:
        """V."""
        return self.meta["n_nodes"]

    @property
    def n_edges(self) -> int:
        """Entries of the adjacency: an undirected edge counts twice, a loop once."""
        return self.meta["n_edges"]

    @property
    def is_directed(self) -> bool:
        """Whether an edge leads one way only."""
        return self.meta["directed"]

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights; otherwise all are 1."""
        return self.meta["weighted"]

    @property
    def hash(self) -> str:
        """A digest of names and edges."""
        return self.meta["hash"]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole adjacency in memory."""
        return 8 * (self.n_nodes + 1) + (8 if self.is_weighted else 4) * self.n_edges

    @cached_property
    def nodes(self) -> pa.Array:
        """Names by number: (V,) string."""
        with self.store.fs.open(self.store.where("nodes.parquet"), "rb") as file:
            column = read_parquet(file)["node"]
        return pa.concat_arrays(column.chunks)

    def read_chunk(self, index: int) -> GraphChunk:
        """Read chunk ``index``, checksums verified."""
        return GraphChunk(self.chunks[index].first_node, **self.store.read_arrays(f"{index:06d}"))

    def adjacency(self) -> Arrays:
        """Read all chunks as one: row_ptr (V + 1,) int64, neighbours (E,) uint32, weights (E,) float32 or empty."""
        row_ptr = np.zeros(self.n_nodes + 1, np.int64)
        neighbours = np.empty(self.n_edges, np.uint32)
        weights = np.empty(self.n_edges if self.is_weighted else 0, np.float32)
        edge = 0
        for index, info in enumerate(self.chunks):
            chunk = self.read_chunk(index)
            row_ptr[info.first_node + 1 : info.first_node + info.nodes + 1] = chunk.row_ptr[1:] + edge
            neighbours[edge : edge + info.edges] = chunk.neighbours
            if self.is_weighted:
                weights[edge : edge + info.edges] = chunk.weights
            edge += info.edges
        return {"row_ptr": row_ptr, "neighbours": neighbours, "weights": weights}


def write_graph(
    source: Any, url: str | os.PathLike[str], options: EdgeOptions | None = None, chunk_edges: int = CHUNK_EDGES
) -> Graph:
    """Write a graph store and return it opened; whatever graph was there is replaced.

    ``source``: a path, glob or URL (or a list) of edges, see ``EdgeOptions``, or a square scipy sparse matrix in
    memory. Raises DataError for what cannot be read or used, ValueError for bad options.
    """
    options = options or EdgeOptions()
    in_memory = scipy.sparse.issparse(source)
    edges = from_matrix(source, options) if in_memory else read_edges(source, options)
    store = Store(url)
    store.delete("graph.json")
    digest = hashlib.sha256()
    infos = []
    for index, first, last in _cuts(edges.matrix.indptr, chunk_edges):
        arrays = _rows(edges, first, last)
        for array in arrays.values():
            digest.update(array.tobytes())
        store.write_arrays(f"{index:06d}", arrays)
        infos.append(GraphChunkInfo(first, last - first, len(arrays["neighbours"])))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"node": edges.names}), sink)
    names = sink.getvalue().to_pybytes()
    digest.update(names)
    store.write_bytes("nodes.parquet", names)
    store.write_json(
        "graph.json",
        {
            "kind": "graph",
            "format": FORMAT,
            "n_nodes": len(edges.names),
            "n_edges": edges.matrix.nnz,
            "directed": options.directed,
            "weighted": edges.weighted,
            "hash": digest.hexdigest()[:32],
            "chunks": [asdict(i) for i in infos],
            "about": {"source": "matrix in memory" if in_memory else str(source), "options": asdict(options)},
        },
    )
    return Graph(store.url)


def _cuts(row_ptr: np.ndarray, chunk_edges: int) -> list[tuple[int, int, int]]:
    """Cut nodes into runs of at most ``chunk_edges`` edges, a node of more edges apart: (index, first, last)."""
    cuts: list[tuple[int, int, int]] = []
    first, n_nodes = 0, len(row_ptr) - 1
    while first < n_nodes:
        last = int(np.searchsorted(row_ptr, row_ptr[first] + chunk_edges, side="right")) - 1
        last = min(n_nodes, max(first + 1, last))
        cuts.append((len(cuts), first, last))
        first = last
    return cuts


def _rows(edges: Edges, first: int, last: int) -> Arrays:
    row_ptr = edges.matrix.indptr[first : last + 1].astype(np.int64)
    row = slice(row_ptr[0], row_ptr[-1])
    return {
        "row_ptr": row_ptr - row_ptr[0],
        "neighbours": edges.matrix.indices[row].astype(np.uint32),
        "weights": edges.matrix.data[row].astype(np.float32) if edges.weighted else np.empty(0, np.float32),
    }
