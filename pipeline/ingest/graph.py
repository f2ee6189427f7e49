"""Make a graph store of a list of edges."""

import os

from ...io.readers.edge_lists import EdgeOptions
from ...io.readers.edges import EdgeSource, read_edges
from ...io.stores.graph import CHUNK_EDGES, Graph, write_graph


def ingest_graph(
    edges: EdgeSource,
    url: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002
    directed: bool = False,
    weighted: bool | None = None,
    header: bool | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str = "weight",
    delimiter: str | None = None,
    quote: str = '"',
    comments: str = "#%",
    chunk_edges: int = CHUNK_EDGES,
) -> Graph:
    """Read edges, write them as a graph store, and open it. A graph that is already at ``url`` is replaced.

    `Node2Vec` and `FastRP` train on edges without it. Use it to read edges once for several trainings, or with other
    options.

    Parameters
    ----------
    edges : str, os.PathLike, list, sparse matrix, data frame or networkx.Graph
        A file, glob or URL of edges, or a list of these; a square sparse matrix, whose rows are the nodes; a table of
        pandas, polars or Arrow with one edge per row; or a graph of networkx, which says itself whether it is directed.
        Each line of a text file has two names of nodes and maybe
        a weight. If the first line names columns source, target and maybe weight, others are skipped.
    url : str or os.PathLike
        Folder or URL for the graph.
    format : {"auto", "edges", "npz", "matrixmarket", "parquet", "arrow"}, default="auto"
        Format of the files. "auto" takes that of their beginning or extension, and "edges" for all others.
    directed : bool, default=False
        Whether edges lead from the first node to the second only.
    weighted : bool, optional
        False ignores weights. By default, weights count if there are any.
    header : bool, optional
        Whether the first line of a text file names the columns. By default, this is found out.
    source, target : str, optional
        Columns with the two nodes of an edge. By default those with usual names, such as source and target, or else
        the first two.
    weight : str, default="weight"
        Column, or attribute of edges of networkx, with the weights. A column of the default's name need not exist. Then
        a third column of numbers has the weights, unless its name is that of a time, such as date, or its numbers are
        those of times.
    delimiter : str, optional
        Character between the columns of a text file. By default, this is found out.
    quote : str, default='"'
        Character that may be around names in a text file. With "none", quotes are letters.
    comments : str, default="#%"
        Characters that begin a comment in a text file. Empty if names may begin with them.
    chunk_edges : int, default=16777216
        Maximum number of edges per chunk of the store.

    Returns
    -------
    Graph
        The graph at ``url``.

    Raises
    ------
    DataError
        If the edges cannot be used.
    ValueError
        If the format or the type of ``edges`` is not known.

    See Also
    --------
    Graph : Open a graph store.

    Examples
    --------
    >>> from corpusmill import ingest_graph
    >>> with open("follows.csv", "w") as file:
    ...     _ = file.write("ann,bob\\nbob,cat\\n")
    >>> graph = ingest_graph("follows.csv", "follows", directed=True)
    >>> graph.n_nodes, graph.n_edges
    (3, 2)
    """
    options = EdgeOptions(
        format=format,
        directed=directed,
        weighted=weighted,
        header=header,
        source=source,
        target=target,
        weight=weight,
        delimiter=delimiter,
        quote=quote,
        comments=comments,
    )
    return write_graph(read_edges(edges, options), url, chunk_edges)
