"""The estimator Node2Vec: random walks over a graph, then skip-gram."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from ....configs.validation import validate_model
from ....io.stores.corpus import Corpus
from ....io.stores.store import Store
from ..base.advice import warn_of_text
from ..base.graphs import GraphEstimator, are_walks, open_graph
from ..base.inputs import DataLike, FitOptions
from ..base.saved import SavedModel
from ..other_names import explain_parameters
from ..skip_gram.estimator import SkipGramEstimator
from .walks import WalkOptions, write_walks


class Node2Vec(GraphEstimator, SkipGramEstimator):
    """Vectors of the nodes of a graph: Word2Vec on random walks.

    Choose it to find similar nodes, to predict labels of nodes, or to predict edges. `fit` and `partial_fit` accept a
    `Graph`, the URL of a graph store or of a file of edges, a graph of networkx (the text of a node is its name, and
    the attribute ``weight`` of an edge its weight), a table of edges such as a data frame (see `ingest_graph`), a
    square scipy sparse matrix (an undirected graph, whose entries are weights), or walks: a `Corpus`, its URL, or lists
    of node names. The walks of a graph are written to disk as a corpus, on the same workers that train. `fit_transform`
    and `transform` of a graph return the vectors of its nodes, in the order of the rows of a matrix, or of the nodes of
    a graph of networkx.

    Parameters from ``vector_size`` on are those of `Word2Vec`, with "node" for "word" and "walk" for "document". Four
    have other defaults, because every node should get a vector, and because the paper's sizes are larger.

    Parameters
    ----------
    p : float, default=1.0
        Return parameter. The larger it is, the less likely a walk returns to the node that it came from.
    q : float, default=1.0
        In-out parameter. The larger it is, the nearer a walk stays to the node that it came from.
    num_walks : int, default=10
        Number of walks that start at each node.
    walk_length : int, default=80
        Maximum number of nodes in a walk, at least 2. A walk ends earlier at a node without outgoing edges.
    walk_method : {"rejection", "tables"}, default="rejection"
        How a step is drawn: by rejection sampling, or from one alias table per edge, which needs more memory. The
        distribution is the same, the walks are not.
    table_memory : int, default=1073741824
        Maximum size of the alias tables in bytes.
    walks : str or None, default=None
        Folder or URL where the walks are kept, as a corpus. A later call with the same graph and parameters uses them
        again. None means the folder ``walks`` inside the run.
    vector_size : int, default=128
        Number of dimensions of a vector. 100 in Word2Vec.
    window : int, default=10
        Number of nodes on each side of a node in a walk that count as its neighbours, 1 to 255. 5 in Word2Vec.
    min_count : int, default=1
        Ignore nodes that the walks visit less often. 5 in Word2Vec.
    negative : int, default=5
        Number of negative samples per pair of neighbours, 1 to 1,000.
    ns_exponent : float, default=0.75
        Negative samples are drawn in proportion to ``visits ** ns_exponent``.
    sample : float, default=0.0
        Nodes with a higher share of the visits are downsampled at random; 0 keeps all visits. 0.001 in Word2Vec.
    alpha : float, default=0.025
        Learning rate at the start. It falls linearly.
    min_alpha : float, default=0.0001
        Learning rate at the end, at most ``alpha``.
    epochs : int, default=5
        Number of passes over the walks. The learning rate falls over all of them, so a run of fewer epochs cannot be
        continued to this number: `partial_fit` trains a finished model further.
    seed : int, default=1
        Seed of all random draws, those of the walks included. The same seed gives the same model, bit for bit, for any
        number of workers and threads.
    method : {"strata", "par", "full"}, default="strata"
        How the model is trained; see `Word2Vec`.
    minibatch_words : int, default=24
        Number of consecutive nodes of a walk that share negative samples, for the method "par". It is a multiple of 4,
        and B in [3]_.
    ignore_sentence_ends : bool, default=False
        Let a window extend from one walk into the next.
    threads : int, default=1
        Number of threads of a task, for the method "strata". It does not change the result.
    n_blocks : int, optional
        Number of blocks of nodes for the method "strata", a power of two. At most this number of threads of all
        workers train at the same time, and each needs two blocks in memory. None takes 8, fewer for a small corpus, and
        16 from 100 million tokens on, counted over all epochs. Choose 16 for more than four threads, 32 for more than
        eight, and 64 for a larger cluster or a model that is larger than its memory. The number of blocks changes the
        result; the number of workers does not.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the kernels run. "auto" takes the CUDA device of a worker that has one. Walks are the same on both.

    Attributes
    ----------
    wv : WordVectors
        The vectors by node, with the usual methods of gensim's KeyedVectors.
    words_ : list of str
        The names of the nodes that have a vector, those with most visits first.
    model_ : TrainedModel
        The arrays of the model. The block has ``W_in`` and ``W_out``, float32, one row per node; rows are padded with
        zeros to a multiple of 64 numbers.
    history_ : list of dict
        One row of metrics per epoch: ``loss`` per pair of neighbours in natural logarithms, and the learning rate
        ``alpha``.
    n_iter_ : int
        Number of epochs trained.
    n_features_in_ : int
        Number of nodes that have a vector.
    feature_names_in_ : numpy.ndarray
        Column names of the data frame that ``fit`` received. Graphs and walks have none.

    See Also
    --------
    FastRP : Faster, and for graphs that do not fit into a worker's memory.
    Word2Vec : Vectors of the words of a text.

    References
    ----------
    .. [1] Grover and Leskovec (2016). node2vec: scalable feature learning for networks. KDD 2016. Section 3.2 defines
       the walks by p and q.
    .. [2] Mikolov, Sutskever, Chen, Corrado and Dean (2013). Distributed representations of words and phrases and
       their compositionality. NIPS 26. Equation 4 is the objective.
    .. [3] Moon (2019). Parallel algorithms for machine learning. Dissertation, Ohio State University. Chapter 4:
       PAR-Word2Vec; algorithm 18 draws the walks.
    .. [4] Randall, Allen and Ge (2021). FULL-W2V: fully exploiting data reuse for W2V on GPU-accelerated systems.
       ICS 2021. The method "full".

    Examples
    --------
    Two triangles of nodes, 0 to 2 and 3 to 5, with one edge between them:

    >>> import scipy.sparse
    >>> from corpusmill import Node2Vec
    >>> starts = [0, 0, 1, 3, 3, 4, 2]
    >>> ends = [1, 2, 2, 4, 5, 5, 3]
    >>> graph = scipy.sparse.coo_array(([1] * 7, (starts, ends)), shape=(6, 6)).tocsr()
    >>> model = Node2Vec(num_walks=50, walk_length=10, vector_size=16, window=2, device="cpu").fit(graph)
    >>> sorted(model.words_)
    ['0', '1', '2', '3', '4', '5']
    >>> model.wv["0"].shape
    (16,)
    >>> model.transform(graph).shape  # in the order of the rows of the graph
    (6, 16)
    """

    _kind = "node2vec"

    @explain_parameters
    def __init__(
        self,
        p: float = 1.0,
        q: float = 1.0,
        num_walks: int = 10,
        walk_length: int = 80,
        walk_method: str = "rejection",
        table_memory: int = 1 << 30,
        walks: str | None = None,
        vector_size: int = 128,
        window: int = 10,
        min_count: int = 1,
        negative: int = 5,
        ns_exponent: float = 0.75,
        sample: float = 0.0,
        alpha: float = 0.025,
        min_alpha: float = 0.0001,
        epochs: int = 5,
        seed: int = 1,
        method: str = "strata",
        minibatch_words: int = 24,
        ignore_sentence_ends: bool = False,
        threads: int = 1,
        n_blocks: int | None = None,
        device: str = "auto",
    ):
        self.p = p
        self.q = q
        self.num_walks = num_walks
        self.walk_length = walk_length
        self.walk_method = walk_method
        self.table_memory = table_memory
        self.walks = walks
        self.vector_size = vector_size
        self.window = window
        self.min_count = min_count
        self.negative = negative
        self.ns_exponent = ns_exponent
        self.sample = sample
        self.alpha = alpha
        self.min_alpha = min_alpha
        self.epochs = epochs
        self.seed = seed
        self.method = method
        self.minibatch_words = minibatch_words
        self.ignore_sentence_ends = ignore_sentence_ends
        self.threads = threads
        self.n_blocks = n_blocks
        self.device = device

    # --- training ---

    def _check_data(self, url: str) -> None:
        """Raise DataError unless ``url`` is a graph, a corpus of walks or files of edges, which are not read here."""
        if Store(url).exists("corpus.json"):
            Corpus(url)
        else:
            super()._check_data(url)

    def _train(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> Self:
        # Before the walks, which may take long.
        validate_model(self._kind, self.get_params())
        with self._walks_of(X, options) as corpus:
            return super()._train(corpus, options, previous)

    @contextmanager
    def _walks_of(self, X: DataLike, options: FitOptions) -> Iterator[Corpus]:
        """Yield the corpus of walks; delete temporary files afterwards."""
        if are_walks(X):
            self._refuse_numbers(X)
            corpus = self._open_data(X)
            if not isinstance(X, list):
                warn_of_text(corpus)
            yield corpus
            return
        graph = open_graph(X)
        with tempfile.TemporaryDirectory(prefix="corpusmill-walks-") as folder:
            # A run keeps its walks, so that they are not drawn again when it is resumed or read.
            url = self.walks or f"{options.run or folder}/walks"
            yield write_walks(graph, url, self._walk_options(), options.client, self.device)

    def _walk_options(self) -> WalkOptions:
        return WalkOptions(
            p=self.p,
            q=self.q,
            num_walks=self.num_walks,
            walk_length=self.walk_length,
            method=self.walk_method,
            table_memory=self.table_memory,
            seed=self.seed,
        )
