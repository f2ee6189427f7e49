"""The graph store: edges sorted by their first node, with or without weights, cut into chunks of nodes.

Layout below the URL::

    graph.json      kind, format, counts, hash; written last: a folder without it is no graph
    chunks.parquet  one row per chunk, see GraphChunkInfo
    nodes.parquet   node (the name); the row number is the node's number
    <c>/            one Zarr group per chunk, see GraphChunk
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy

from ..errors import DataError
from ..ranges import bounded_ranges
from .chunk import TABLE, read_chunk_table, write_chunk_table
from .formats import parquet_bytes
from .store import Arrays, Store, check_format, check_free

FORMAT = 2
#: Most edges of a chunk, unless one node has more.
CHUNK_EDGES = 1 << 24


class Edges(NamedTuple):
    """A graph as `write_graph` takes it. V nodes."""

    blocks: "Iterable[scipy.sparse.csr_array]"  # rows of (V, V) float32: weights above 0; columns ascend in a row
    names: pa.Array  # (V,) string
    is_weighted: bool  # False: all weights are 1
    is_directed: bool  # False: the matrix is symmetric
    metadata: dict[str, Any]  # source and options, for `inspect`


class GraphChunk(NamedTuple):
    """The edges that start at N consecutive nodes. E edges; an undirected edge starts at both its nodes."""

    first_node: int
    row_ptr: np.ndarray  # (N + 1,) int64
    neighbours: np.ndarray  # (E,) uint32, ascending in a row
    weights: np.ndarray  # (E,) float32 above 0, or empty if all weights are 1


@dataclass(frozen=True)
class GraphChunkInfo:
    """The size of a chunk: one row of the table of chunks."""

    first_node: int
    nodes: int
    edges: int

    # Names that all stores have for what training counts.

    @property
    def documents(self) -> int:
        """Number of nodes."""
        return self.nodes

    @property
    def tokens(self) -> int:
        """Number of edges."""
        return self.edges


class Graph:
    """A graph store, open for reading.

    The command ``corpusmill graph`` and `ingest_graph` write graph stores. `Node2Vec` and `FastRP` train on them.

    Parameters
    ----------
    url : str or os.PathLike
        Folder of the graph: a local path, or any URL that fsspec supports, such as ``s3://bucket/graph``.

    Attributes
    ----------
    url : str
        The URL as given.
    chunks : list of GraphChunkInfo
        Numbers of nodes and edges of each chunk.
    meta : dict
        Content of ``graph.json``.

    Raises
    ------
    DataError
        If there is no graph at ``url``, or one of a format that this version cannot read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from corpusmill import Graph, ingest_graph
    >>> _ = Path("edges.txt").write_text("ann bob\\nbob cat\\n")
    >>> _ = ingest_graph("edges.txt", "friends")
    >>> graph = Graph("friends")
    >>> graph.nodes.to_pylist()
    ['ann', 'bob', 'cat']
    >>> graph.n_edges
    4
    >>> graph.adjacency()["neighbours"].tolist()
    [1, 0, 2, 1]
    """

    kind = "graph"
    #: The only part. A graph has no edges set aside for evaluation.
    part = "train"
    held_out = None

    def __init__(self, url: str | os.PathLike[str]):
        self.store = Store(url)
        self.url = self.store.url
        #: What messages call the graph: its URL, unless it is a temporary copy of edges in memory.
        self.title = self.url
        if not self.store.exists("graph.json"):
            raise DataError(
                f"{self.url}: no graph here (no graph.json); make one with `corpusmill graph EDGES {self.url}`"
            )
        self.meta: dict[str, Any] = self.store.read_json("graph.json")
        check_format(self.meta, "graph", FORMAT, self.url)

    def __repr__(self) -> str:
        return f"Graph({self.url!r}: {self.n_nodes} nodes, {self.n_edges} entries of the adjacency)"

    @cached_property
    def chunks(self) -> list[GraphChunkInfo]:
        """Numbers of nodes and edges of each chunk."""
        return read_chunk_table(self.store, TABLE, GraphChunkInfo, self.meta["chunks"])

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.meta["n_nodes"]

    @property
    def n_edges(self) -> int:
        """Number of entries of the adjacency matrix: an undirected edge counts twice, a loop once."""
        return self.meta["n_edges"]

    @property
    def n_documents(self) -> int:
        """Number of nodes, by the name that all stores have for rows of data."""
        return self.n_nodes

    @property
    def n_words(self) -> int:
        """Number of nodes, by the name that all stores have for rows of a model."""
        return self.n_nodes

    @property
    def n_tokens(self) -> int:
        """Number of entries of the adjacency matrix, by the name that all stores have for what training counts."""
        return self.n_edges

    @property
    def is_directed(self) -> bool:
        """Whether edges have a direction."""
        return self.meta["directed"]

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights; otherwise all weights are 1."""
        return self.meta["weighted"]

    @property
    def hash(self) -> str:
        """Digest of the nodes' names and of all edges. A graph that is copied or moved keeps it."""
        return self.meta["hash"]

    @property
    def nbytes(self) -> int:
        """Bytes that `adjacency` takes in memory."""
        edge_bytes = 8 if self.is_weighted else 4
        return 8 * (self.n_nodes + 1) + edge_bytes * self.n_edges

    @cached_property
    def nodes(self) -> pa.Array:
        """Names of the nodes by number: (V,) string."""
        return self.store.read_parquet("nodes.parquet")["node"].combine_chunks()

    def read_nodes(self, first: int, stop: int) -> pa.ChunkedArray:
        """Read the names of some nodes, and not many others.

        Parameters
        ----------
        first : int
            Number of the first node.
        stop : int
            Number of the node after the last one.

        Returns
        -------
        pyarrow.ChunkedArray
            The names (stop - first,), strings.

        Examples
        --------
        >>> import networkx as nx
        >>> from corpusmill import ingest_graph
        >>> graph = ingest_graph(nx.karate_club_graph(), "club")
        >>> graph.read_nodes(0, 3).to_pylist()
        ['0', '1', '2']
        """
        return self.store.read_parquet_rows("nodes.parquet", first, stop)["node"]

    @cached_property
    def names_nbytes(self) -> int:
        """Bytes that the names of the nodes take in memory, about."""
        with self.store.explained_parquet_errors("nodes.parquet"):
            metadata = pq.read_metadata(self.store.where("nodes.parquet"), filesystem=self.store.fs)
        return sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))

    @property
    def vocabulary(self) -> pa.Table:
        """A table with the column word: the names of the nodes."""
        return pa.table({"word": self.nodes.cast(pa.large_string())})

    @cached_property
    def incoming(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of edges that end at each node, (V,) int64, and the sum of their weights, (V,) float64."""
        counts = np.zeros(self.n_nodes, np.int64)
        weights = np.zeros(self.n_nodes)
        for index in range(len(self.chunks)):
            chunk = self.read_chunk(index)
            counts += np.bincount(chunk.neighbours, minlength=self.n_nodes)
            if self.is_weighted:
                weights += np.bincount(chunk.neighbours, chunk.weights, self.n_nodes)
        return counts, weights if self.is_weighted else counts.astype(np.float64)

    def read_chunk(self, index: int) -> GraphChunk:
        """Read a chunk, and verify its checksums.

        Parameters
        ----------
        index : int
            Number of the chunk, from 0.

        Returns
        -------
        GraphChunk
            Consecutive nodes with their edges.

        Raises
        ------
        DataError
            If the chunk is missing or damaged.

        Examples
        --------
        >>> from pathlib import Path
        >>> from corpusmill import ingest_graph
        >>> _ = Path("edges.txt").write_text("ann bob\\nbob cat\\n")
        >>> graph = ingest_graph("edges.txt", "friends")
        >>> graph.read_chunk(0).neighbours.tolist()
        [1, 0, 2, 1]
        """
        return GraphChunk(self.chunks[index].first_node, **self.store.read_arrays(f"{index:06d}"))

    def adjacency(self) -> Arrays:
        """Read all chunks as one.

        Returns
        -------
        dict of numpy.ndarray
            "row_ptr" (V + 1,) int64, "neighbours" (E,) uint32, and "weights" (E,) float32, which is empty without
            weights. Node v has the neighbours ``row_ptr[v]`` to ``row_ptr[v + 1] - 1``.

        Raises
        ------
        DataError
            If a chunk is missing or damaged.

        Examples
        --------
        >>> from pathlib import Path
        >>> from corpusmill import ingest_graph
        >>> _ = Path("edges.txt").write_text("ann bob\\nbob cat\\n")
        >>> graph = ingest_graph("edges.txt", "friends")
        >>> graph.adjacency()["row_ptr"].tolist()
        [0, 1, 3, 4]
        """
        row_ptr = np.zeros(self.n_nodes + 1, np.int64)
        neighbours = np.empty(self.n_edges, np.uint32)
        weights = np.empty(self.n_edges if self.is_weighted else 0, np.float32)
        first_edge = 0
        for index, info in enumerate(self.chunks):
            chunk = self.read_chunk(index)
            edges = slice(first_edge, first_edge + info.edges)
            # The offsets of a chunk begin at 0. The first one equals the last one of the chunk before.
            row_ptr[info.first_node + 1 : info.first_node + info.nodes + 1] = chunk.row_ptr[1:] + first_edge
            neighbours[edges] = chunk.neighbours
            if self.is_weighted:
                weights[edges] = chunk.weights
            first_edge += info.edges
        return {"row_ptr": row_ptr, "neighbours": neighbours, "weights": weights}


def write_graph(edges: Edges, url: str | os.PathLike[str], chunk_edges: int = CHUNK_EDGES) -> Graph:
    """Write edges as a graph store and open it. A graph that is already at ``url`` is replaced.

    A chunk holds at most ``chunk_edges`` edges. A node with more edges has a chunk of its own.
    """
    store = Store(url)
    check_free(store, "corpus", "matrix", "run", "model")
    # A folder without graph.json is no graph. So an interrupted write leaves no graph, instead of a mixture of two.
    store.delete("graph.json")
    digest = hashlib.sha256()
    infos = []
    n_nodes = 0
    for index, rows in enumerate(_chunks(edges.blocks, chunk_edges)):
        arrays = {
            # Offsets are relative to the chunk, so a chunk can be read without those before it.
            "row_ptr": rows.indptr.astype(np.int64),
            "neighbours": rows.indices.astype(np.uint32),
            "weights": rows.data.astype(np.float32) if edges.is_weighted else np.empty(0, np.float32),
        }
        for array in arrays.values():
            digest.update(array.tobytes())
        store.write_arrays(f"{index:06d}", arrays)
        infos.append(GraphChunkInfo(n_nodes, rows.shape[0], rows.nnz))
        n_nodes += rows.shape[0]
    names = parquet_bytes(pa.table({"node": edges.names}))
    digest.update(names)
    store.write_bytes("nodes.parquet", names)
    write_chunk_table(store, TABLE, GraphChunkInfo, infos)
    store.write_json(
        "graph.json",
        {
            "kind": "graph",
            "format": FORMAT,
            "n_nodes": len(edges.names),
            "n_edges": sum(info.edges for info in infos),
            "directed": edges.is_directed,
            "weighted": edges.is_weighted,
            "hash": digest.hexdigest()[:32],
            "chunks": len(infos),
            "about": edges.metadata,
        },
    )
    return Graph(store.url)


def _chunks(blocks: "Iterable[scipy.sparse.csr_array]", most: int) -> "Iterator[scipy.sparse.csr_array]":
    """Yield the rows of blocks in chunks of at most ``most`` entries, unless one row has more."""
    waiting = None
    for block in blocks:
        rows = block if waiting is None else scipy.sparse.vstack([waiting, block], "csr")
        # Rows of the next block may belong to the last chunk.
        *whole, (last, _) = bounded_ranges(rows.indptr, most)
        yield from (rows[first:stop] for first, stop in whole)
        waiting = rows[last:]
    if waiting is not None:
        yield waiting
