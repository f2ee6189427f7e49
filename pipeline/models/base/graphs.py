"""What estimators of the nodes of a graph have in common: what they take for a graph, and how they apply to one."""

import os
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa
import scipy.sparse

from ....io.data import Kind, NetworkxGraph, is_networkx, is_table, recognise
from ....io.errors import DataError
from ....io.readers.edges import EdgeTable, node_names
from ....io.readers.source import find_files, stored_url
from ....io.stores.corpus import Corpus
from ....io.stores.graph import Graph
from ....io.stores.store import Store
from ....io.words import find_word_ids
from ...ingest.graph import ingest_graph
from ..vectors.vectors import WordVectors
from .inputs import CheckedInput, DataLike, TransformOutput
from .text import TextEstimator

if TYPE_CHECKING:
    from distributed import Client

#: What `open_graph` accepts. A string or a path is the URL of a graph store or of a file of edges.
GraphSource: TypeAlias = (
    Graph | str | os.PathLike[str] | scipy.sparse.spmatrix | scipy.sparse.sparray | EdgeTable | NetworkxGraph
)


class GraphEstimator(TextEstimator):
    """Base class of the models that have one vector per node of a graph."""

    vector_size: int

    if TYPE_CHECKING:

        @property
        def wv(self) -> WordVectors:
            """The vectors by node."""

    def _check_data(self, url: str) -> None:
        """Raise DataError unless ``url`` is a graph or files of edges, which are not read here."""
        if Store(url).exists("graph.json"):
            Graph(url)
        else:
            find_files(url)

    def transform(self, X: DataLike | GraphSource, *, client: "Client | None" = None) -> TransformOutput:
        """Return the vectors of a graph's nodes, or one row per walk.

        The nodes of a matrix are in the order of its rows, those of a graph of networkx in its own order, and those of
        a `Graph`, a table or a file of edges in the order of their names, or of their numbers if all names are
        integers. Nodes have vectors from training only, and are found by their names: those without a vector get zeros.

        Parameters
        ----------
        X : graph, corpus, URL or documents
            A graph, as for `fit`, or walks: a `Corpus`, its URL, or lists of node names. The row of a walk is the mean
            of the vectors of its nodes.
        client : distributed.Client, optional
            Where to compute the rows of walks. By default the current Dask client, or this process if there is none.

        Returns
        -------
        ndarray or data frame of shape (V, K) or (D, K)
            float32. `set_output` chooses data frames.

        Raises
        ------
        DataError
            If no node of the graph has a vector, or there is no walk.
        ValueError
            If X is neither a graph nor walks, such as a list of names.

        Examples
        --------
        >>> import scipy.sparse
        >>> from corpusmill import Node2Vec
        >>> graph = scipy.sparse.csr_array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
        >>> model = Node2Vec(vector_size=4, epochs=1).fit(graph)
        >>> rows = model.transform(graph)
        >>> rows.shape
        (3, 4)
        >>> bool((rows[2] == model.wv["2"]).all())
        True
        """
        if not is_graph(X):
            return super().transform(X, client=client)
        self._check_fixed_parameters()
        vocabulary = self._vocabulary()
        nodes = _nodes_of(X)
        ids = find_word_ids(nodes, vocabulary)
        known = ids >= 0
        if not known.any():
            raise DataError(
                f"none of the {len(ids):,} nodes of this graph has a vector; pass the graph that the model was fitted "
                f"on, with the same names of nodes, such as {self.words_[0]!r}"
            )
        rows = np.zeros((len(ids), self.vector_size), np.float32)
        rows[known] = self.wv.vectors[ids[known]]
        # A table has a row per edge, so its index does not name the nodes.
        return self._as_output(rows, nodes)

    def _checked_input(self, X: DataLike) -> CheckedInput:
        # Other models take strings for texts. The names of nodes would be cut into words, and find no vectors.
        if isinstance(X, list) and X and not isinstance(X[0], list):
            raise ValueError(
                f"these are no walks, but a list of {type(X[0]).__name__}: `wv[[str(node) for node in nodes]]` has the "
                f"vectors of nodes, and walks are lists of lists of node names"
            )
        # A matrix is a graph here. Other models take its rows for documents.
        data = recognise(X)
        if data.kind in (Kind.MATRIX, Kind.TABLE, Kind.TABLES, Kind.EDGES) or isinstance(X, Graph):
            raise ValueError(
                f"walks are needed here (a Corpus, its URL, or lists of node names), not {type(X).__name__}: `wv` has "
                f"the vectors of nodes, and `transform` returns those of a Graph, a sparse matrix, a table of edges or "
                f"a networkx graph"
            )
        return super()._checked_input(data)


def are_walks(X: object) -> bool:
    """Return whether X is a corpus, the URL of one, or lists of node names."""
    if isinstance(X, str | os.PathLike):
        return Store(X).exists("corpus.json")
    # Pairs of nodes are usually tuples. They are edges, not walks, so that only lists are accepted.
    return isinstance(X, Corpus) or (isinstance(X, list) and all(isinstance(walk, list) for walk in X))


def is_graph(X: object) -> TypeGuard[GraphSource]:
    """Return whether X is a graph, or the URL of a graph store or of a file of edges."""
    if isinstance(X, str | os.PathLike):
        return not are_walks(X)
    return isinstance(X, Graph) or _is_graph_in_memory(X)


def _is_graph_in_memory(X: object) -> bool:
    return scipy.sparse.issparse(X) or is_networkx(X) or is_table(X)


def _nodes_of(graph: GraphSource) -> pa.Array:
    """Return the names of a graph's nodes, in the order that the graph itself has."""
    if is_networkx(graph):
        return pa.array([str(node) for node in graph.nodes], pa.string())
    if isinstance(graph, str | os.PathLike) and Store(graph).exists("graph.json"):
        graph = Graph(graph)
    return graph.nodes if isinstance(graph, Graph) else node_names(graph)


def open_graph(data: GraphSource, url: str | None = None) -> Graph:
    """Return a graph for a Graph or the URL of a graph store. Write other edges as a graph to ``url`` first.

    By default, they are written to a temporary folder, which is deleted together with the returned object. The title of
    such a graph says what it was made from.
    """
    if isinstance(data, Graph):
        return data
    if isinstance(data, str | os.PathLike):
        # A string may name a graph store or a file of edges. The latter is read below.
        if Store(data).exists("graph.json"):
            return Graph(data)
    elif not _is_graph_in_memory(data):
        raise ValueError(
            f"data is of type {type(data).__name__}: pass a graph (a Graph, the URL of a graph or of a file of edges, "
            f"a sparse matrix, a table of edges, or a graph of networkx, such as networkx.Graph(pairs)) or, to fit, "
            f"walks (a Corpus, its URL, or a list of lists of node names)"
        )
    if url is not None:
        return ingest_graph(data, url)
    folder = tempfile.mkdtemp(prefix="corpusmill-graph-")
    try:
        graph = ingest_graph(data, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    graph.title = stored_url(os.fspath(data)) if isinstance(data, str | os.PathLike) else "edges in memory"
    weakref.finalize(graph, shutil.rmtree, folder, ignore_errors=True)
    return graph
