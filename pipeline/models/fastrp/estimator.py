"""The estimator FastRP: vectors of the nodes of a graph by random projection."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ....configs.validation import plain_number
from ....io.errors import DataError
from ....io.stores.graph import Graph
from ....io.stores.store import Store
from ...engine.algorithm import AnyAlgorithm, recut
from ...engine.data import equal_blocks
from ...engine.device import resolve_device
from ...engine.memory import EmptyArrays
from ...engine.training import Advice
from ...topics import WordList
from ..base.graphs import GraphEstimator, are_walks, is_graph, open_graph
from ..base.inputs import DataLike, FitOptions
from ..base.saved import SavedModel, TrainedModel
from ..base.scikit_learn import RandomState
from ..other_names import explain_parameters
from ..skip_gram.algorithm import DESCRIBED_VOCABULARY, describe_vectors
from ..vectors.similarity import mean_vectors
from ..vectors.vectors import WordVectors
from .algorithm import FastRPAlgorithm, by_edges, last_rows


class FastRP(GraphEstimator):
    """Vectors of the nodes of a graph by random projection: nodes with similar surroundings have similar vectors.

    Choose it for large graphs, and for a first result: it takes about a hundredth of the time of `Node2Vec`, and the
    graph need not fit into the memory of a worker. A node begins with a random row of 1, -1 and 0. In each step it gets
    the mean of the rows of its neighbours. After step k, rows have thus the distribution of the nodes that a random
    walk of k steps reaches, projected to few dimensions. The vector of a node is the weighted sum of its rows, each
    scaled to length one.

    `fit` accepts a `Graph`, the URL of a graph store or of a file of edges, a graph of networkx, a table of edges such
    as a data frame (see `ingest_graph`), or a square scipy sparse matrix (an undirected graph, whose entries are
    weights). A step follows the direction of edges, and takes an edge in proportion to its weight.

    The random row of a node depends on its name and ``random_state`` only. So vectors of two versions of a graph can be
    compared with each other. There is no exact way to add edges to a model, because an edge changes the rows of all
    nodes from which a walk reaches it. `partial_fit` of a model is therefore refused: fit all edges again.

    Parameters
    ----------
    vector_size : int, default=256
        Number of dimensions of a vector, 4 to 65536. A random projection needs about twice as many as `Node2Vec`.
    weights : sequence of float, default=(0.0, 0.0, 1.0, 1.0)
        Weight of the rows after each step, one number per step, of which one is not 0. Early steps tell close nodes
        apart, late ones show communities.
    degree_exponent : float, default=-0.5
        A first row is multiplied by this power of the node's share of all edges, counted by weight and where they end,
        -1 to 1. The lower it is, the less count neighbours that many nodes have. It is β of [1]_.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the random rows. The same seed gives the same model, bit for bit, for any number of workers. None is 0.
    n_blocks : int or "auto", default="auto"
        Number of blocks of nodes. A worker holds few of them at a time. It does not change the result. "auto" takes as
        few as the memory of the workers allows.
    device : {"auto", "cpu"}, default="auto"
        Where the kernels run. There are none for CUDA, so both mean the processor.

    Attributes
    ----------
    wv : WordVectors
        The vectors by node, with the usual methods of gensim's KeyedVectors. The count of a node is the number of edges
        that end at it.
    words_ : list of str
        The names of the nodes, those with most edges first.
    model_ : TrainedModel
        The arrays of the model. The block has ``vectors`` (V, D) float32 and ``edges`` (V,) int64.
    history_ : list of dict
        One row of metrics per step: ``nodes_without_vector``, the number of nodes whose rows are zero after it, because
        no walk of that many steps begins at them. Such are nodes without edges: their vectors are zero.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of nodes.
    feature_names_in_ : numpy.ndarray
        Graphs have none.

    See Also
    --------
    Node2Vec : Slower, and often a little better for the prediction of edges and labels.

    References
    ----------
    .. [1] Chen, Sultan, Tian, Chen and Skiena (2019). Fast and accurate network embeddings via very sparse random
       projection. CIKM 2019. Algorithm 1; rows are scaled to length one before they are added.

    Examples
    --------
    Two triangles of nodes, 0 to 2 and 3 to 5, with one edge between them:

    >>> import scipy.sparse
    >>> from corpusmill import FastRP
    >>> starts = [0, 0, 1, 3, 3, 4, 2]
    >>> ends = [1, 2, 2, 4, 5, 5, 3]
    >>> graph = scipy.sparse.coo_array(([1] * 7, (starts, ends)), shape=(6, 6)).tocsr()
    >>> model = FastRP(vector_size=64).fit(graph)
    >>> bool(model.wv.similarity("0", "1") > model.wv.similarity("0", "4"))
    True
    >>> model.transform(graph).shape  # in the order of the rows of the graph
    (6, 64)
    """

    _kind = "fastrp"
    _size = "vector_size"
    _fixed_parameters = ("vector_size",)
    _wv: WordVectors | None = None

    @explain_parameters
    def __init__(
        self,
        vector_size: int = 256,
        weights: Sequence[float] = (0.0, 0.0, 1.0, 1.0),
        degree_exponent: float = -0.5,
        random_state: RandomState = 0,
        n_blocks: int | str = "auto",
        device: str = "auto",
    ):
        self.vector_size = vector_size
        self.weights = weights
        self.degree_exponent = degree_exponent
        self.random_state = random_state
        self.n_blocks = n_blocks
        self.device = device

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Weights become a tuple like their default: files and configurations have lists."""
        if name == "weights" and (isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim)):
            value = tuple(plain_number(weight) for weight in value)
        super().__setattr__(name, value)

    # --- training ---

    def _check_takes_documents(self) -> None:
        """Raise DataError."""
        raise DataError(
            "fastrp takes a graph, not documents: leave out the section source, name a graph or a file of edges in "
            "corpus.url, and call 'corpusmill train'"
        )

    def _planned_epochs(self) -> int:
        """Return the number of steps."""
        return len(self.weights)

    def _training_input(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> Any:
        """Return the graph. A run keeps what it was made from, so that it can be resumed and read."""
        if not is_graph(X):
            given = "a corpus or documents" if are_walks(X) else type(X).__name__
            raise DataError(
                f"FastRP takes a graph, not {given}: pass a Graph, the URL of a graph or of a "
                f"file of edges, a sparse matrix, a table of edges, or a graph of networkx, such as "
                f"networkx.Graph(pairs)"
            )
        for name in ("held_out", "vocabulary"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"FastRP trains on all edges and nodes of a graph, and has no use for {name}: leave it out"
                )
        kept = None if options.run is None else f"{os.fspath(options.run)}/graph"
        if kept is None or not Store(kept).exists("graph.json"):
            return open_graph(X, kept)
        graph = open_graph(X)
        if graph.title == graph.url:
            return graph
        if Graph(kept).hash == graph.hash:
            return Graph(kept)
        if not Store(os.fspath(options.run or "")).exists("run.json"):
            # A run with this graph would be refused. A new one would refer to the temporary folder.
            raise DataError(f"{kept}: another graph is here; choose another folder for the run, or delete it")
        return graph

    def _open_data(self, data: DataLike) -> Any:
        """Return a graph as it is, and the corpus of other data, to which the model is applied."""
        return data if isinstance(data, Graph) else super()._open_data(data)

    def _algorithm(self, data: Graph, previous: SavedModel | None = None) -> FastRPAlgorithm:
        """Return the algorithm for a graph."""
        resolve_device(self.device, False, "FastRP")
        return FastRPAlgorithm(
            bounds=equal_blocks(data.n_nodes, self._first_blocks),
            dimension=self.vector_size,
            weights=tuple(float(weight) for weight in self.weights),
            degree_exponent=self.degree_exponent,
            seed=self._seed_number(),
        )

    def _cut(
        self, algorithm: AnyAlgorithm, data: Graph, previous: SavedModel | None
    ) -> Callable[[int], AnyAlgorithm] | None:
        return lambda n: recut(algorithm, {"bounds": equal_blocks(algorithm.n_rows, n)})

    def _advice(self) -> Advice:
        return Advice(names={"dimension": "vector_size"})

    def _continue(self, X: DataLike, options: FitOptions) -> Self:
        if getattr(self, "model_", None) is None:
            return self._train(X, options, None)
        self._check_fixed_parameters()
        raise ValueError(
            "FastRP cannot add edges to a model: they change the rows of all nodes from which a walk reaches them; fit "
            "a graph of all edges again"
        )

    # --- the trained model ---

    def _loaded(self) -> None:
        """Keep the nodes in one block, those with most edges first, with their numbers of edges."""
        model = self._fitted()
        edges = model.joined("edges")
        order = by_edges(edges)
        edges = edges[order]
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        vectors = EmptyArrays()((len(order), self.vector_size), np.float32)
        first = 0
        while model.blocks:
            # Not all blocks are kept beside the vectors.
            rows = last_rows(model.blocks.pop(0))
            vectors[place[first : first + len(rows)]] = rows
            first += len(rows)
        words = model.vocabulary["word"].take(order)
        table = pa.table({"word": words, "term_frequency": edges, "document_frequency": edges})
        self.model_ = TrainedModel([{"vectors": vectors, "edges": edges}], model.shared, table, model.metadata)
        self._wv = None

    def _describe(self, data: Graph) -> list[WordList]:
        """Describe the model, which has no longer the blocks and the order of its training."""
        first = slice(DESCRIBED_VOCABULARY)
        return describe_vectors(WordVectors(self.words_[first], self.wv.vectors[first]))

    @property
    def wv(self) -> WordVectors:
        """The vectors of the nodes, with the usual methods of gensim's KeyedVectors."""
        if self._wv is None:
            model = self._fitted()
            self._wv = WordVectors(self.words_, model.joined("vectors"), counts=model.joined("edges"))
        return self._wv

    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the mean of the vectors of each document's nodes: (D, vector_size) float32, zeros without nodes."""
        return mean_vectors(self.wv.vectors, doc_ptr, words)
