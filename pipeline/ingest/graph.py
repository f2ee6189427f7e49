"""Make a graph store of a source of edges."""

import os
from typing import Any

from ...io.readers.edges import EdgeOptions, read_edges
from ...io.stores.graph import CHUNK_EDGES, Graph, write_graph


def ingest_graph(
    source: Any, url: str | os.PathLike[str], options: EdgeOptions | None = None, chunk_edges: int = CHUNK_EDGES
) -> Graph:
    """Read edges, write them as a graph store and open it; a graph that is already at ``url`` is replaced.

    ``source`` is a path, glob or URL of edges, or a list of these, or a square sparse matrix in memory; see
    `read_edges`. Raises DataError for files that cannot be used and ValueError for a bad option.
    """
    return write_graph(read_edges(source, options), url, chunk_edges)
