"""The estimator RandomIndexing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.words import stop_list
from ....kernels.random_indexing import accumulate as ri
from ....kernels.random_indexing import rows as ri_rows
from ....kernels.random_indexing import text as ri_text
from ...engine.algorithm import AnyAlgorithm, recut
from ...engine.data import cut_equally, equal_blocks
from ...engine.device import resolve_device
from ...engine.training import Advice
from ..base.inputs import DataLike, FitOptions, checked_input
from ..base.saved import SavedModel, TrainedModel
from ..base.scikit_learn import RandomState
from ..base.text import TextEstimator
from ..other_names import explain_parameters
from ..vectors.vectors import WordVectors
from .addition import DOCUMENTS, FREQUENCY, INFORMATION, add_models
from .algorithm import RandomIndexingAlgorithm, last_rows

if TYPE_CHECKING:
    from distributed import Client

#: For ``vector_size="auto"``: (vocabulary below this size, dimensions). The paper took 2,048 for 97,335 words.
AUTO_DIMENSIONS = ((5_000, 512), (50_000, 1024), (500_000, 2048))
LARGEST_AUTO_DIMENSION = 4096
#: A sweep sums the rows of one of the user's blocks. Each of them is cut into this many parts at most, which workers
#: update at the same time. Small parts would take longer to request than to send.
MOST_PARTS = 32
LEAST_ROWS = 5_000
_RETRAINED = "retrained vectors cannot be added or subtracted: train the models with retrain=0"


class _DocumentTerms(NamedTuple):
    """What the vectors of documents are summed from, and the model and the parameters that it was computed for."""

    model: TrainedModel
    parameters: tuple[str, bool]  # document_weights, normalize
    weights: np.ndarray  # (V,) float32
    vectors: np.ndarray  # (V, D) float32


class RandomIndexing(TextEstimator):
    """Random indexing: word vectors that can be added to and subtracted from each other exactly.

    Choose it if documents arrive and leave, such as for a model of the last seven days. Each word has a seed, a sparse
    vector of a few +1 and -1. The row of a word is the sum of the seeds of its neighbours, rotated by their distance.
    Sums are integers, so models can grow, shrink and be merged without drift.

    Parameters
    ----------
    vector_size : int or "auto", default=2048
        Length of a vector, D. "auto" chooses 512 to 4,096 by the size of the vocabulary.
    window : int, default=5
        Number of neighbours on each side.
    seed_length : int, default=10
        Number of entries of a seed that are not 0, an even number: half of them are +1 and half -1.
    order : {"permutation", "direction", "none"}, default="permutation"
        How the order of words counts. "permutation" rotates a neighbour's seed by its distance, "direction" by its
        side, "none" not at all.
    retrain : int, default=0
        Number of further epochs, each with the normalised rows of the previous one as seeds.
    normalize : bool, default=True
        Whether vectors have length 1.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None, default=0
        Seed of the words' seeds. None stands for 0. From a generator, `fit` draws one. Only models with the same seed
        can be merged.
    weighting : {"uniform", "linear"}, default="uniform"
        Weight of a neighbour: 1, or falling linearly with the distance.
    contexts : {"words", "documents"}, default="words"
        "documents" sums the seeds of the documents that a word occurs in, and so needs no order of words.
    min_count, max_count : int and int or None, default=1 and None
        Words that occur less or more often get no vector and add nothing.
    stop_words : "english", list or set of str, or None, default=None
        Further words that get no vector and add nothing.
    document_weights : {"none", "idf", "entropy"}, default="none"
        Weights of words in the vector of a document.
    n_blocks : int or "auto", default="auto"
        Number of blocks of rows. A sweep holds the rows of one block at a time. "auto" takes as few as the memory of
        the workers allows, or one if vectors are retrained, because their bits depend on the blocks.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where kernels run. A CUDA device gives the same sums, bit for bit.

    Attributes
    ----------
    wv : WordVectors
        The vectors of the words that ``min_count``, ``max_count`` and ``stop_words`` keep.
    words_ : list of str
        The vocabulary: the words of the first documents by falling frequency, then those that were added.
    n_features_in_ : int
        Columns of the matrix, or words of the corpus.
    feature_names_in_ : ndarray of shape (V,)
        Column names of the data frame that ``fit`` received, if it was one.
    n_iter_ : int
        Epochs trained.
    history_ : list of dict
        Metrics of each epoch.
    model_ : TrainedModel
        The arrays and the vocabulary, as `save` writes them.

    See Also
    --------
    Word2Vec : Word vectors by skip-gram with negative sampling.

    References
    ----------
    .. [1] Polok and Smrž, "Implementing Random Indexing on GPU", 2011 (Algorithm 4.1; equations 2.6 and 2.7 for the
       rotation).
    .. [2] Sahlgren, Holst and Kanerva, "Permutations as a means to encode order in word space", CogSci 2008.

    Examples
    --------
    Models of two days add up to the model of both.

    >>> from corpusmill import RandomIndexing
    >>> monday = RandomIndexing(128, seed_length=4).fit(["a storm in the harbour", "the harbour was closed"])
    >>> tuesday = RandomIndexing(128, seed_length=4).fit(["the storm is over"])
    >>> both = monday.merge(tuesday)
    >>> int(both.wv.counts[both.wv.get_index("storm")])
    2
    """

    _kind = "random-indexing"
    _size = "vector_size"
    _fixed_parameters = (
        "vector_size",
        "window",
        "seed_length",
        "order",
        "random_state",
        "weighting",
        "contexts",
        "min_count",
        "max_count",
        "stop_words",
    )
    _document_terms: _DocumentTerms | None = None
    _wv: WordVectors | None = None
    _wv_is_normalized: bool

    @explain_parameters
    def __init__(
        self,
        vector_size: int | str = 2048,
        window: int = 5,
        seed_length: int = 10,
        order: str = "permutation",
        retrain: int = 0,
        normalize: bool = True,
        random_state: RandomState = 0,
        weighting: str = "uniform",
        contexts: str = "words",
        min_count: int = 1,
        max_count: int | None = None,
        stop_words: str | list[str] | None = None,
        document_weights: str = "none",
        n_blocks: int | str = "auto",
        device: str = "auto",
    ):
        self.vector_size = vector_size
        self.window = window
        self.seed_length = seed_length
        self.order = order
        self.retrain = retrain
        self.normalize = normalize
        self.random_state = random_state
        self.weighting = weighting
        self.contexts = contexts
        self.min_count = min_count
        self.max_count = max_count
        self.stop_words = stop_words
        self.document_weights = document_weights
        self.n_blocks = n_blocks
        self.device = device

    # --- training ---

    def _planned_epochs(self) -> int:
        """Return the number of epochs: one with sparse seeds, and ``retrain`` more."""
        return 1 + self.retrain

    def _algorithm(self, data: Corpus, previous: SavedModel | None = None) -> RandomIndexingAlgorithm:
        """Return the algorithm for a corpus; raise DataError if ``contexts`` is "words" and their order is unknown."""
        if self.contexts == "words" and not data.is_ordered:
            raise DataError(
                f"{data.title}: a bag of words, whose words have no neighbours: ingest text, pass lists of strings, or "
                f"set order='none' and contexts='documents'"
            )
        return RandomIndexingAlgorithm(
            **_cut_of(data.n_words, self._first_blocks),
            dimension=_auto_dimension(data.n_words) if self.vector_size == "auto" else int(self.vector_size),
            seed_length=self.seed_length,
            radius=self.window,
            order=self.order,
            weighting=self.weighting,
            contexts=self.contexts,
            min_count=self.min_count,
            max_count=self.max_count,
            stop_words=tuple(stop_list(self.stop_words)),  # type: ignore[arg-type]
            max_iter=self._planned_epochs(),
            device=resolve_device(self.device, True, "random indexing"),
        )

    def _cut(
        self, algorithm: AnyAlgorithm, data: Corpus, previous: SavedModel | None
    ) -> Callable[[int], AnyAlgorithm] | None:
        """Cut the vectors into ranges. The bits of retrained vectors depend on the ranges."""
        if self.retrain:
            return None
        return lambda n: recut(algorithm, _cut_of(algorithm.n_rows, n))

    @property
    def _largest_size(self) -> int:
        return LARGEST_AUTO_DIMENSION if isinstance(self.vector_size, str) else self.vector_size

    def _advice(self) -> Advice:
        return Advice(names={"dimension": "vector_size", "radius": "window"})

    # --- the trained model ---

    def _loaded(self) -> None:
        """Drop word vectors and document terms that were computed from an earlier ``model_``."""
        self._wv = None
        self._document_terms = None

    @property
    def _dimension(self) -> int:
        """Number of dimensions of the trained vectors."""
        return last_rows(self._fitted().block(0)).shape[1]

    @property
    def wv(self) -> WordVectors:
        """The vectors of all words, except those that ``min_count``, ``max_count`` or ``stop_words`` exclude."""
        if self._wv is None or self._wv_is_normalized != self.normalize:
            frequency = self._fitted().joined("statistics")[:, FREQUENCY]
            counted = frequency > 0
            words = np.array(self.words_, dtype=object)[counted]
            self._wv = WordVectors(words.tolist(), self._vectors()[counted], frequency[counted])
            self._wv_is_normalized = self.normalize
        return self._wv

    def _vectors(self) -> np.ndarray:
        """Return the vectors in the order of ``words_``: (V, D) float32."""
        vectors = []
        for block in self._fitted().blocks:
            rows = last_rows(block)
            vectors.append(ri.normalised(rows) if self.normalize else rows.astype(np.float32))
        return np.concatenate(vectors)

    # --- documents ---

    def _weights(self) -> np.ndarray:
        """Return the weight of each word in the vector of a document: (V,) float32."""
        model = self._fitted()
        statistics = model.joined("statistics")
        n_documents = int(model.shared["documents"])
        if self.document_weights == "none":
            return np.ones(len(statistics), np.float32)
        if self.document_weights == "idf":
            return np.log((1 + n_documents) / (1 + statistics[:, DOCUMENTS])).astype(np.float32)
        # 1 - H / log D, where H = log f - (sum of tf log tf) / f is the entropy of a word over documents (log 2).
        frequency = np.maximum(statistics[:, FREQUENCY], 1)
        entropy = np.log2(frequency) - statistics[:, INFORMATION] / (ri_text.INFORMATION_UNIT * frequency)
        return (1 - entropy / max(1.0, np.log2(max(2, n_documents)))).astype(np.float32)

    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return one vector per document, the weighted sum of its words' vectors: (documents, D) float32."""
        model = self._fitted()
        parameters = (self.document_weights, self.normalize)
        terms = self._document_terms
        if terms is None or terms.model is not model or terms.parameters != parameters:
            terms = _DocumentTerms(model, parameters, self._weights(), self._vectors())
            self._document_terms = terms
        rows = ri_rows.sum_documents(doc_ptr, words, terms.weights, terms.vectors)
        return ri.normalised(rows) if self.normalize else rows

    def document_vectors(self, X: DataLike, *, client: "Client | None" = None) -> WordVectors:
        """Return the vectors of documents by their keys, to compare with each other and with `query`.

        Parameters
        ----------
        X : corpus, URL or data in memory
            The documents, as for `transform`.
        client : distributed.Client, optional
            Where to transform. By default the current Dask client, or this process if there is none.

        Returns
        -------
        WordVectors
            The rows of `transform`, with the documents' keys in place of words.

        Examples
        --------
        >>> from corpusmill import RandomIndexing
        >>> documents = [["sea", "boat", "storm"], ["boat", "sea", "sailor"]]
        >>> ri = RandomIndexing(vector_size=100).fit(documents)
        >>> len(ri.document_vectors(documents))
        2
        """
        corpus = self._open_data(X)
        rows = np.asarray(self.transform(corpus, client=client))
        return WordVectors(corpus.documents["key"].to_pylist(), rows)

    # --- growing and shrinking ---

    def _continue(self, X: DataLike, options: FitOptions) -> Self:
        """Add documents. The result is bit for bit the model of all documents. Raises the errors of `merge`."""
        if getattr(self, "model_", None) is None:
            return self._train(X, options, None)
        return self._become(self._added(self._trained_on(X, options), 1))

    def forget(self, X: DataLike, *, client: "Client | None" = None, **options: Any) -> Self:
        """Remove documents from the model. The result is bit for bit the model trained without them.

        Pass exactly documents that were added: the same words in the same order. The model has only sums, so it cannot
        recognise all others. Documents that it never had, such as the same words in another order, may be subtracted
        without an error, and then damage the vectors.

        Parameters
        ----------
        X : store, URL or data in memory
            The documents, as they were given to `fit` or `partial_fit`.
        client : distributed.Client, optional
            Where to train. By default the current Dask client, or this process if there is none.
        **options
            Further options of `fit`.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If the model has fewer documents than these, or if a word occurs in them more often, or in more of them,
            than in the model.
        ValueError
            As `merge`.

        Examples
        --------
        >>> from corpusmill import RandomIndexing
        >>> documents = [["sea", "boat", "storm"], ["boat", "sea", "sailor"]]
        >>> ri = RandomIndexing(vector_size=100).fit(documents)
        >>> "sailor" in ri.forget(documents[1:]).wv
        False
        """
        return self._become(self._added(self._trained_on(X, FitOptions(client=client, **options)), -1))

    def merge(self, other: "RandomIndexing") -> "RandomIndexing":
        """Return the model of both models' documents, bit for bit as if it had been trained on all of them.

        Parameters
        ----------
        other : RandomIndexing
            A trained model with the same parameters.

        Returns
        -------
        RandomIndexing
            A new model. The two others stay as they are.

        Raises
        ------
        ValueError
            If the models have other parameters or seeds, were retrained, or exclude words by their frequency.
        TypeError
            If ``other`` is no `RandomIndexing`.

        Examples
        --------
        >>> from corpusmill import RandomIndexing
        >>> documents = [["sea", "boat", "storm"], ["boat", "sea", "sailor"]]
        >>> ri = RandomIndexing(vector_size=100).fit(documents)
        >>> other = RandomIndexing(vector_size=100).fit([["oven", "bread", "cake"]])
        >>> len(ri.merge(other).wv)
        7
        """
        merged = type(self)(**self._stored_params())
        return merged._become(self._added(other, 1))

    def _trained_on(self, X: DataLike, options: FitOptions) -> "RandomIndexing":
        self._check_addable(self)
        if self.retrain:
            raise ValueError(_RETRAINED)
        # Raises ValueError for other columns than those of the model.
        checked_input(X, self._fitted(), type(self).__name__)
        parameters = self._stored_params() | {"vector_size": self._dimension}
        return type(self)(**parameters)._train(X, options, None)

    def _become(self, model: TrainedModel) -> Self:
        self.model_ = model
        self.history_ = []
        self.n_iter_ = 1
        self._trained_with = self._stored_params()
        self._loaded()
        return self

    def _added(self, other: "RandomIndexing", sign: int) -> TrainedModel:
        self._check_addable(other)
        return add_models(self._fitted(), other._fitted(), sign)

    def _check_addable(self, other: "RandomIndexing") -> None:
        if not isinstance(other, RandomIndexing):
            raise TypeError(f"{other!r:.40} cannot be added: pass a trained RandomIndexing")
        self._check_fixed_parameters()
        other._check_fixed_parameters()
        others = other._stored_params()
        for name, value in self._stored_params().items():
            # "auto" is a dimension, too, so the vectors themselves are compared.
            if name in self._fixed_parameters and name != "vector_size" and value != others[name]:
                raise ValueError(f"{name} is {value!r} here and {others[name]!r} there: such models cannot be added")
        if self._dimension != other._dimension:
            raise ValueError(f"vector_size is {self._dimension} here and {other._dimension} there")
        if any("vectors" in model._fitted().block(0) for model in (self, other)):
            raise ValueError(_RETRAINED)
        # The limits decide which words count, and the sum of two models would need other words.
        if self.min_count > 1 or self.max_count is not None:
            raise ValueError("models with min_count or max_count cannot be added or subtracted: use stop_words")


def _cut_of(n_rows: int, n_blocks: int) -> dict[str, Any]:
    """Return the bounds of the blocks, and the number of ranges. A large range is stored in several blocks."""
    ranges = equal_blocks(n_rows, n_blocks)
    n_parts = max(1, min(MOST_PARTS, n_rows // (n_blocks * LEAST_ROWS)))
    # The rows of all ranges that a chunk changes can be as many as its tokens.
    return {"bounds": cut_equally(ranges, n_parts), "n_ranges": len(ranges) - 1}


def _auto_dimension(n_words: int) -> int:
    """Return the dimension for a vocabulary of this size."""
    for limit, dimension in AUTO_DIMENSIONS:
        if n_words < limit:
            return dimension
    return LARGEST_AUTO_DIMENSION
