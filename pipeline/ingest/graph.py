"""Make a graph store of a list of edges."""

import os

from ...io.readers.edges import EdgeOptions, EdgeSource, read_edges
from ...io.stores.graph import CHUNK_EDGES, Graph, write_graph


def ingest_graph(
    source: EdgeSource, url: str | os.PathLike[str], options: EdgeOptions | None = None, chunk_edges: int = CHUNK_EDGES
) -> Graph:
    """Read edges, write them as a graph store, and open it. A graph that is already at ``url`` is replaced.

    ``source`` is described in `read_edges`; ``chunk_edges`` is the number of edges per chunk of the store. Raises
    DataError for files that cannot be used, and ValueError for an invalid option.
    """
    return write_graph(read_edges(source, options), url, chunk_edges)
