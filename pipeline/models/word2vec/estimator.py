"""The estimator Word2Vec: skip-gram with negative sampling, with the names of gensim."""

from ..other_names import explain_parameters
from ..skip_gram.estimator import SkipGramEstimator


class Word2Vec(SkipGramEstimator):
    """Word vectors by skip-gram with negative sampling, for corpora that need not fit into memory.

    Choose it for words of similar meaning, and for vectors as input of other programs. Parameters have the names and
    meanings of gensim's Word2Vec. The text is an argument of `fit`, as in scikit-learn, not of the constructor. Two
    architectures of gensim are not supported: CBOW and hierarchical softmax. A document is what gensim calls a
    sentence.

    Parameters
    ----------
    vector_size : int, default=100
        Number of dimensions of a vector.
    window : int, default=5
        Number of words on each side of a word that count as its neighbours, 1 to 255. For all methods but "full" it is
        the maximum, and each word draws its own number from 1 to ``window``. For "full" every word has
        ``(window + 1) // 2``, which is the mean of these draws if ``window`` is odd.
    min_count : int, default=5
        Ignore words with fewer occurrences.
    negative : int, default=5
        Number of negative samples per pair of neighbours, 1 to 1,000.
    ns_exponent : float, default=0.75
        Negative samples are drawn in proportion to ``frequency ** ns_exponent``.
    sample : float, default=0.001
        Words with a higher relative frequency are downsampled at random; 0 keeps all occurrences.
    alpha : float, default=0.025
        Learning rate at the start. It falls linearly.
    min_alpha : float, default=0.0001
        Learning rate at the end, at most ``alpha``.
    epochs : int, default=5
        Number of passes over the corpus. The learning rate falls over all of them, so a run of fewer epochs cannot be
        continued to this number: `partial_fit` trains a finished model further.
    seed : int, default=1
        Seed of all random draws. The same seed gives the same model, bit for bit, for any number of workers and
        threads. In gensim this needs ``workers=1``.
    method : {"strata", "par", "full"}, default="strata"
        How the model is trained. "strata" deals the words to blocks and trains pairs of blocks at the same time, on
        any number of workers [5]_. Its updates are like those of "par", but ``W_in`` has the centres of windows instead
        of their neighbours. From the second epoch on, repetitions of a word among 1,024 words of a document are
        centres less often. The other methods train the text in its order, on one worker: "par" first attracts
        neighbours and then repels negative samples that some words share [3]_; "full" shares the negative samples of a
        window [4]_.
        "par" diverges at high learning rates: it did in one of two trainings of three epochs at 0.05. A warning
        says so. "strata" limits the steps of a batch, and stays bounded.
    minibatch_words : int, default=24
        Number of consecutive words that share negative samples, for the method "par". It is a multiple of 4,
        and B in [3]_.
    ignore_sentence_ends : bool, default=False
        Let a window extend from one document into the next. The program FULL-W2V always does [4]_, and gensim never.
    threads : int, default=1
        Number of threads that train, for the method "strata". A worker of a cluster with more threads uses all of its
        own, and a worker with a CUDA device 16. It does not change the result. It corresponds to ``workers`` in gensim,
        where the default is 3.
    n_blocks : int, optional
        Number of blocks of words for the method "strata", a power of two. At most this number of threads of all
        workers train at the same time, and each needs two blocks in memory. None takes 8, fewer for a small corpus, and
        16 from 100 million tokens on, counted over all epochs. Choose 16 for more than four threads, 32 for more than
        eight, and 64 for a larger cluster or a model that is larger than its memory. The number of blocks changes the
        result; the number of workers does not.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the kernels run. "auto" takes the CUDA device of a worker that has one.

    Attributes
    ----------
    wv : WordVectors
        The vectors, with the usual methods of gensim's KeyedVectors.
    words_ : list of str
        The words that have a vector, the most frequent first, or in the order that was given if the corpus was made
        with a vocabulary.
    model_ : TrainedModel
        The arrays of the model. The block has ``W_in`` and ``W_out``, float32, one row per word; rows are padded with
        zeros to a multiple of 64 numbers.
    history_ : list of dict
        One row of metrics per epoch: ``loss`` per pair of neighbours in natural logarithms, ``held_out_loss`` if the
        corpus has held-out documents, and the learning rate ``alpha``.
    n_iter_ : int
        Number of epochs trained.
    n_features_in_ : int
        Number of words that have a vector.
    feature_names_in_ : numpy.ndarray
        Column names of the data frame that ``fit`` received. Text has none, and a data frame has no order of words.

    See Also
    --------
    Node2Vec : Vectors of the nodes of a graph.
    RandomIndexing : Word vectors by exact sums, from one pass over the text.

    References
    ----------
    .. [1] Mikolov, Chen, Corrado and Dean (2013). Efficient estimation of word representations in vector space.
       arXiv:1301.3781.
    .. [2] Mikolov, Sutskever, Chen, Corrado and Dean (2013). Distributed representations of words and phrases and
       their compositionality. NIPS 26. Equation 4 is the objective. Words are downsampled as in the program word2vec,
       not by equation 5.
    .. [3] Moon (2019). Parallel algorithms for machine learning. Dissertation, Ohio State University. Chapter 4:
       PAR-Word2Vec. Equation 4.3 is the objective; algorithms 20 to 22 are the updates.
    .. [4] Randall, Allen and Ge (2021). FULL-W2V: fully exploiting data reuse for W2V on GPU-accelerated
       systems. ICS 2021, sections 3 and 4.1.
    .. [5] Lerer et al. (2019). PyTorch-BigGraph: a large-scale graph embedding system. SysML 2019. Section 4.1: blocks
       of rows that are trained in pairs.

    Examples
    --------
    Every word of this small vocabulary is frequent, so the example turns downsampling off.

    >>> from corpusmill import Word2Vec
    >>> sentences = [["cat", "dog", "mouse"], ["mouse", "cat", "dog"], ["car", "bus", "tram"], ["tram", "car", "bus"]]
    >>> model = Word2Vec(vector_size=16, window=2, epochs=30, alpha=0.1, sample=0, device="cpu").fit(sentences * 100)
    >>> model.wv["cat"].shape
    (16,)
    >>> sorted(word for word, similarity in model.wv.most_similar("car", topn=2))
    ['bus', 'tram']
    >>> model.transform([["cat", "car"]]).shape  # the mean of the vectors of a document's words
    (1, 16)
    """

    _kind = "word2vec"

    @explain_parameters
    def __init__(
        self,
        vector_size: int = 100,
        window: int = 5,
        min_count: int = 5,
        negative: int = 5,
        ns_exponent: float = 0.75,
        sample: float = 1e-3,
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
