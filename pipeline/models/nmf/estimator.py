"""The estimator NMF: non-negative matrix factorisation with scikit-learn's names."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ....io.data import Data, open_data
from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.graph import Graph
from ....io.stores.matrix import Matrix, chunks_of
from ....io.stores.store import Arrays
from ....io.words import merge_vocabularies
from ...engine.algorithm import AnyAlgorithm, recut
from ...engine.data import TrainingData, equal_blocks
from ...engine.device import resolve_device
from ...engine.executors import Task
from ...engine.training import Alternative
from ...topics import Topic, TopicWord
from ..base import apply
from ..base.advice import warn_of_data
from ..base.inputs import CheckedInput, DataLike, InputMatrix, MatrixColumns, corpus_of, read_input
from ..base.saved import SavedModel, TrainedModel
from ..base.scikit_learn import RandomState
from ..base.text import held_out_documents, not_documents
from ..base.topics import TopicModel
from ..other_names import explain_parameters
from ..vectors.vectors import WordVectors
from . import inference
from .factorization import Factorization, component_sizes, heaviest_rows, scaled_penalties
from .frobenius import SOLVERS, FrobeniusFactorization, Hals, MultiplicativeUpdates
from .inference import TrainedFactor
from .known import KnownEntries
from .kullback_leibler import KullbackLeibler
from .restarts import RestartedEstimator
from .rows import aligned_bounds, blocks_of, matrix_from
from .side_by_side import BLOCK_ARRAYS, SideBySide

if TYPE_CHECKING:
    from distributed import Client

#: Bytes of a row of a factor that fits a block's shared memory on every CUDA device: 1,177 components in float32.
MAX_ROW_BYTES_ON_DEVICE = 4708

#: Algorithms that can do without the whole of W.
STREAMED = (Hals, MultiplicativeUpdates, KullbackLeibler, KnownEntries, SideBySide)


class NMF(RestartedEstimator, TopicModel):
    """Non-negative matrix factorisation A ≈ H·Wᵀ (NMF), for data that need not fit into memory.

    Choose it for topics of tf-idf weights, and for matrices of measurements without negative numbers. Rows of A are
    documents or samples, columns are words or features. The solver is FAST-HALS in cache-sized blocks. Every entry of A
    counts, zeros included, unless ``missing`` says that entries which are not stored are unknown, such as ratings.

    Parameter names are those of `sklearn.decomposition.NMF`. scikit-learn's W is our H, and its H is our Wᵀ
    (``components_``).

    Parameters
    ----------
    n_components : int, default=100
        Number of components, K. scikit-learn's default is the number of columns.
    solver : {"hals", "mu"}, default="hals"
        FAST-HALS, which sets each entry to its optimum given all others, as scikit-learn's coordinate descent does, or
        multiplicative updates. The latter are slower, but the Kullback-Leibler loss needs them.
    beta_loss : {"frobenius", "kullback-leibler"}, default="frobenius"
        The distance between A and H·Wᵀ. "kullback-leibler" needs ``solver="mu"``.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar"}, default="random"
        The first factors: random numbers, or singular vectors, which take ten passes over the data. scikit-learn's
        default is "nndsvda".
    tol : float, default=1e-4
        When training stops, see ``convergence``; 0 trains ``max_iter`` epochs.
    max_iter : int, default=200
        Maximum number of epochs.
    missing : {"zero", "unknown"}, default="zero"
        What the entries are that a matrix does not store. "unknown": only stored entries count, zeros among them, and
        entries that are NaN count as not stored. Training minimises the squared error of the known entries, by
        alternating least squares [5]_. A row or column without a known entry gets weights of 0. Penalties are
        multiplied by the number of known entries of each row or column, which is scikit-learn's scaling if all are
        known. It needs a matrix, ``solver="hals"`` and ``init="random"``, and runs on the CPU.
        `partial_fit` cannot continue such a model.
    convergence : {"error", "gradient"}, default="error"
        What ``tol`` limits. "error": training stops after an epoch that reduces the error by less than this share of
        it; with penalties, the "penalised_error" of ``history_``. "gradient": it stops when the sum of the absolute
        projected gradients of all entries, each taken just before its update, is at most this share of that of the
        first epoch. The latter is the criterion of scikit-learn's solver "cd". At the same ``tol`` it usually continues
        for many more epochs, and the factors are closer to a minimum. It needs ``solver="hals"``, and
        runs on the CPU.
    alpha_W, alpha_H : float, default=0.0 and "same"
        Strength of the penalties of H and of W, in scikit-learn's naming and scaling. "same" takes ``alpha_W``.
    l1_ratio : float, default=0.0
        Share of the penalties that is ℓ1; the rest is ℓ2.
    sweeps : int, default=1
        Sweeps over a factor per epoch. All of them use the same matrix products, so each further sweep costs only
        about a tenth of an epoch. With ``missing="unknown"``, there are five times as many.
    extrapolate : bool, default=False
        Start each epoch beyond the W of the previous one, in the direction of its last step [3]_. On 20 Newsgroups it
        reaches the error of 50 plain epochs in 16 to 20 (tf-idf) or 27 to 36 (counts). It needs two more copies of W.
    weighting : {"counts", "tfidf"}, default="counts"
        What the entries are if the data is a corpus. Rows of tf-idf weights have length 1.
    dtype : {"float32", "float64"}, default="float32"
        Type of the factors.
    n_blocks : int or "auto", default="auto"
        Number of blocks of W's rows. "auto" takes as few as the memory of the workers allows, and W is read block by
        block if it does not fit. Results have the same bits then. Other numbers are of use for several workers, which
        update blocks independently; their results differ by rounding.
    restarts : int, default=1
        Number of factorisations that are trained side by side, with the seeds ``random_state``, ``random_state + 1``
        and so on. The model is the one with the lowest error, or "penalised_error". See `fit_restarts`.
    restart_components : sequence of int or None, default=None
        Numbers of components that are trained side by side, one of them ``n_components``. Each has ``restarts`` seeds.
        The model is the one with the lowest error among those with ``n_components``. None means only ``n_components``.
    validation_fraction : float, default=0.0
        Share of the entries that training leaves out, to measure how well they are predicted. The number of components
        of ``restart_components`` with the lowest error of these entries, see ``validation_errors_``, fits the data
        best. Left-out entries are drawn by ``random_state``, the same for all restarts. Zeros are left out too, unless
        ``missing="unknown"``, so they need memory and time for this share of all entries, stored or not.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None, default=0
        Seed of the first factors. None stands for 0, so results are always reproducible. From a generator, `fit`
        draws a seed.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where kernels run. "auto" uses the CUDA device of a worker that has one.

    Attributes
    ----------
    components_ : ndarray of shape (K, V)
        Wᵀ. Columns are ordered as in ``words_`` for a corpus, else as in the matrix.
    reconstruction_err_ : float
        ‖A − H·Wᵀ‖ after the last epoch, or √(2D) for the Kullback-Leibler divergence D, as in scikit-learn.
    topic_sizes_ : ndarray of shape (K,)
        The share of each component in H·Wᵀ, by its norms.
    vectors_ : WordVectors
        The rows of W as word vectors.
    words_ : list of str
        The vocabulary of a corpus, by falling frequency. After ``partial_fit``, the words of the new documents come
        first, so the columns move. Ingest these documents with a ``vocabulary`` that begins with the known words to
        keep the columns in place.
    n_features_in_ : int
        Columns of the matrix, or words of the corpus.
    feature_names_in_ : ndarray of shape (V,)
        Column names of the data frame that ``fit`` received, if it was one.
    topic_names_ : mapping of int to str
        Names that users gave to topics, by number of the topic; see ``corpusmill explore``.
    restarts_ : list of NMF
        All factorisations that were trained, if there was more than one.
    validation_errors_ : dict of int to float
        With ``validation_fraction``: the lowest root mean squared error of the left-out entries, by number of
        components. It is that of the factors with which the last epoch has begun.
    n_iter_ : int
        Epochs trained.
    history_ : list of dict
        Metrics of each epoch, such as "error" and "relative_error". With penalties also "penalised_error", √(2F) of
        the objective F that is minimised, which is half of the squared error plus the penalties. With
        ``missing="unknown"`` also "rmse", the root mean squared error of the known entries.
    model_ : TrainedModel
        The arrays and the vocabulary, as `save` writes them.

    See Also
    --------
    LDA : Topics as probability distributions.

    References
    ----------
    .. [1] Cichocki and Phan, "Fast local algorithms for large scale nonnegative matrix and tensor factorizations",
       IEICE Transactions 2009 (HALS).
    .. [2] Moon et al., "ALO-NMF: accelerated locality-optimized non-negative matrix factorization", KDD 2020
       (Algorithms 1 and 2).
    .. [3] Ang and Gillis, "Accelerating nonnegative matrix factorization algorithms using extrapolation", Neural
       Computation 2019.
    .. [4] Lee and Seung, "Algorithms for non-negative matrix factorization", NIPS 2001 (multiplicative updates).
    .. [5] Zhou et al., "Large-scale parallel collaborative filtering for the Netflix prize", AAIM 2008.

    Examples
    --------
    >>> from corpusmill import NMF
    >>> documents = ["the boat on the sea", "a sea of boats", "bread from the oven", "an oven for bread"] * 5
    >>> model = NMF(n_components=2, max_iter=50).fit(documents)
    >>> model.transform(["fresh bread"]).shape
    (1, 2)
    """

    _kind = "nmf"
    _fixed_parameters = ("n_components", "weighting", "missing")
    _former_parameters = MappingProxyType({"order": "separable"})

    #: The values of ``solver``. A subclass may add solvers that are defined elsewhere.
    _solvers: ClassVar[Mapping[str, type[FrobeniusFactorization]]] = SOLVERS

    @explain_parameters
    def __init__(
        self,
        n_components: int = 100,
        solver: str = "hals",
        beta_loss: str = "frobenius",
        init: str = "random",
        tol: float = 1e-4,
        max_iter: int = 200,
        missing: str = "zero",
        convergence: str = "error",
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        sweeps: int = 1,
        extrapolate: bool = False,
        weighting: str = "counts",
        dtype: str = "float32",
        n_blocks: int | str = "auto",
        restarts: int = 1,
        restart_components: Sequence[int] | None = None,
        validation_fraction: float = 0.0,
        random_state: RandomState = 0,
        device: str = "auto",
    ):
        self.n_components = n_components
        self.solver = solver
        self.beta_loss = beta_loss
        self.init = init
        self.tol = tol
        self.missing = missing
        self.convergence = convergence
        self.max_iter = max_iter
        self.alpha_W = alpha_W
        self.alpha_H = alpha_H
        self.l1_ratio = l1_ratio
        self.sweeps = sweeps
        self.extrapolate = extrapolate
        self.weighting = weighting
        self.dtype = dtype
        self.n_blocks = n_blocks
        self.restarts = restarts
        self.restart_components = restart_components
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device

    @property
    def _takes_nan(self) -> bool:
        return self.missing == "unknown"

    # --- training ---

    def _open_data(self, data: DataLike) -> Corpus | Matrix:
        """Return the store for a Corpus, a Matrix, a URL, documents (strings or token lists), or an array.

        Arrays are NumPy's, SciPy's sparse ones or Dask's. AnnData and its files are arrays with names. Raises DataError
        for an array that is no matrix.
        """
        read = read_input(data, type(self).__name__, self._takes_nan)
        if isinstance(read, Corpus | Matrix):
            return read
        if isinstance(read, str | os.PathLike):
            store = open_data(os.fspath(read))
            if isinstance(store, Graph):
                raise DataError(f"{store.url}: this is a graph; only Node2Vec and FastRP train on graphs")
            return store
        if isinstance(read, InputMatrix):
            return matrix_from(read, self.dtype)
        return corpus_of(read)

    def _open_held_out(self, held_out: DataLike, data: Corpus | Matrix) -> Corpus | Matrix:
        """Return the store for a URL, documents or a matrix, to evaluate a model of ``data``."""
        is_stored = isinstance(held_out, Corpus | Matrix | str | os.PathLike)
        if isinstance(data, Corpus) and not is_stored:
            return held_out_documents(held_out, data, type(self).__name__)
        store = self._open_data(held_out)
        if isinstance(data, Matrix) and store.n_words != data.n_words:
            raise DataError(
                f"held_out has {store.n_words} columns and the training data {data.n_words}: pass the same columns"
            )
        return store

    def _algorithm(self, data: Corpus | Matrix, previous: SavedModel | None = None) -> Factorization | SideBySide:
        """Return the algorithm for a store; raise ValueError for parameters that do not fit the data."""
        restarts = self._restarts()
        if not restarts:
            return self._single_algorithm(data, previous)
        if previous is not None:
            raise ValueError(
                "partial_fit continues one factorisation: leave restarts, restart_components and validation_fraction "
                "at their defaults"
            )
        return self._side_by_side(data, restarts)

    def _single_algorithm(self, data: Corpus | Matrix, previous: SavedModel | None = None) -> Factorization:
        """Return the algorithm of one factorisation."""
        self._check(data, previous)
        warn_of_data(data, self.n_components, previous)
        D = data.n_documents
        V = data.n_words
        K = self.n_components
        total = data.total if isinstance(data, Matrix) else float(data.n_tokens)
        n_entries = data.n_tokens if self.missing == "unknown" else D * V
        algorithm = self._for_rows(n_rows=V, n_documents=D)
        return replace(
            algorithm,
            init=self.init,
            # The mean of A is then about that of a product of two random factors.
            scale=float(np.sqrt((total or 1.0) / n_entries / K)),
            weighting=self.weighting if isinstance(data, Corpus) else "counts",
            tol=self.tol,
            seed=self._seed_number(),
            bounds=equal_blocks(V, self._first_blocks),
            continues=previous is not None,
            device=self._device(),
        )

    def _cut(
        self, algorithm: AnyAlgorithm, data: Corpus | Matrix, previous: SavedModel | None
    ) -> Callable[[int], AnyAlgorithm] | None:
        """Cut W into ranges, of which tasks on the CPU hold one. Results of some options depend on all of W."""
        if self.extrapolate or self.device == "cuda" or type(algorithm) not in STREAMED:
            return None

        def cut(n: int) -> AnyAlgorithm:
            bounds = aligned_bounds(algorithm.n_rows, n)
            return recut(algorithm, {"bounds": bounds, "n_ranges": len(bounds) - 1})

        return cut

    def _smaller(self, data: Corpus | Matrix) -> Iterator[Alternative]:
        if self.device == "cuda":
            words = "choose device 'auto', which trains on the CPU with a block of W at a time"
            yield self._changed(data, words, "device", "auto")
        if self.extrapolate:
            words = "set extrapolate to False, which trains with a block of W at a time"
            yield self._changed(data, words, "extrapolate", False)
        yield from super()._smaller(data)

    def _for_rows(self, n_rows: int, n_documents: int) -> Factorization:
        """Return the algorithm of this loss and solver, for a W with ``n_rows`` rows in one block."""
        bounds = (0, n_rows)
        if self.missing == "unknown":
            return KnownEntries(
                bounds=bounds,
                n_components=self.n_components,
                sweeps=self.sweeps,
                dtype=self.dtype,
                # For each known entry.
                penalties=scaled_penalties(self.alpha_W, self.alpha_H, self.l1_ratio, 1, 1),
            )
        if self.beta_loss == "kullback-leibler":
            return KullbackLeibler(bounds=bounds, n_components=self.n_components, sweeps=self.sweeps, dtype=self.dtype)
        return self._chosen("solver", self._solvers)(
            bounds=bounds,
            n_components=self.n_components,
            sweeps=self.sweeps,
            dtype=self.dtype,
            extrapolate=self.extrapolate,
            convergence=self.convergence,
            penalties=scaled_penalties(self.alpha_W, self.alpha_H, self.l1_ratio, n_documents, n_rows),
        )

    def _device(self) -> str:
        most = MAX_ROW_BYTES_ON_DEVICE // np.dtype(self.dtype).itemsize
        if self.n_components > most:
            return resolve_device(self.device, False, f"{self.n_components} components (over {most:,}, {self.dtype})")
        if self.convergence == "gradient":
            return resolve_device(self.device, False, "convergence 'gradient'")
        if self.missing == "unknown":
            return resolve_device(self.device, False, "missing 'unknown'")
        has_kernels = self._chosen("solver", self._solvers).has_cuda_kernels
        return resolve_device(self.device, has_kernels, f"solver {self.solver!r}")

    def _check(self, data: Corpus | Matrix, previous: SavedModel | None) -> None:
        if previous is not None:
            self._check_columns(data)
        if self.missing == "unknown":
            if previous is not None:
                raise ValueError(
                    "partial_fit cannot continue a model with missing='unknown', which keeps no sums over its known "
                    "entries: fit all rows again"
                )
            if isinstance(data, Corpus):
                raise ValueError(
                    "missing='unknown' needs a matrix: a word that a document lacks is known to occur 0 times"
                )
            if not data.n_tokens:
                raise DataError(f"{data.title}: no entry is known: with missing='unknown', store at least one")
        if self.weighting == "tfidf" and isinstance(data, Matrix):
            raise ValueError("weighting='tfidf' needs documents: for a matrix, use scikit-learn's TfidfTransformer")
        smaller = min(data.n_documents, data.n_words)
        if self.init != "random" and previous is None and self.n_components > smaller:
            raise ValueError(
                f"n_components is {self.n_components}: a matrix of {data.n_documents} rows and {data.n_words} columns "
                f"has {smaller} singular vectors for init={self.init!r}: choose 1 to {smaller}, or init='random'"
            )

    def _loaded(self) -> None:
        """Drop the arrays that only training needs."""
        model = self._fitted()
        model.blocks = [{name: block[name] for name in BLOCK_ARRAYS if name in block} for block in model.blocks]

    def _merge_previous(self, previous: TrainedModel) -> None:
        """Add the rows of words that did not occur again."""
        self.model_ = merge_models(self._fitted(), previous)
        self.model_.shared["S"] = self._for_rows(len(self._W), 1).gram(self._W)

    # --- the trained model ---

    @property
    def _W(self) -> np.ndarray:
        """The trained factor of the columns, W (V, K), whose blocks are joined."""
        return self._fitted().joined("W")

    @property
    def _factor(self) -> TrainedFactor:
        """The trained W, with which rows of the data are given their rows of H."""
        W = self._W
        return TrainedFactor(self._for_rows(len(W), 1), W, self._fitted())

    @property
    def components_(self) -> np.ndarray:
        """The columns' factor: (K, V) float32 or float64."""
        return np.ascontiguousarray(self._W.T)

    @property
    def n_features_in_(self) -> int:
        """Columns of the matrix, or words of the corpus."""
        return len(self._W)

    @property
    def reconstruction_err_(self) -> float:
        """Error after the last epoch, as in scikit-learn: ‖A − HWᵀ‖, or √(2D) for a Kullback-Leibler divergence D."""
        self._fitted()
        return float(self.history_[-1]["error"])

    @property
    def vectors_(self) -> WordVectors:
        """The columns' factor as word vectors, which save as Parquet, Zarr, safetensors and text."""
        return WordVectors(self._names(), self._W)

    @property
    def topic_sizes_(self) -> np.ndarray:
        """The share of each component in H·Wᵀ: (K,) float64, sum 1.

        It is measured by the component's norms in H and W, for the Kullback-Leibler divergence by its sums. W alone
        would not do, because a component may be large in W and small in H, or the other way round.
        """
        return component_sizes(self._W, self._fitted().shared["Q"])

    def _topics(self, n_words: int) -> list[Topic]:
        """Return each component's size (see ``topic_sizes_``) and heaviest words with their weights."""
        names = self._names()
        topics: list[Topic] = []
        heaviest_of = heaviest_rows(self._W, n_words)
        for k, (size, (numbers, weights)) in enumerate(zip(self.topic_sizes_.tolist(), heaviest_of, strict=True)):
            heaviest = zip(numbers.tolist(), weights.tolist(), strict=True)
            words: list[TopicWord] = [{"word": names[v], "weight": weight} for v, weight in heaviest]
            topics.append({"topic": k, "size": size, "words": words})
        return topics

    def _open_checked(self, data: CheckedInput) -> Corpus | Matrix:
        """Open data that `_checked_input` has returned. For a model of documents, rows of counts are documents."""
        if isinstance(data, InputMatrix) and self._fitted().has_words:
            return corpus_of(data)
        return self._open_data(data)

    def _columns_of_store(self, data: TrainingData) -> MatrixColumns | None:
        """Return the columns of a matrix with names. A model of a corpus has words instead."""
        return None if isinstance(data, Corpus) else super()._columns_of_store(data)

    def _transform_task(self, store: Corpus | Matrix) -> Task:
        """Return the task that transforms a chunk of a store.

        Raises DataError for a matrix whose columns are not those of the model.
        """
        self._check_columns(store)
        return apply.transform_chunk if isinstance(store, Corpus) else inference.rows_of_matrix

    def _transform_in_memory(self, data: InputMatrix | Data) -> Iterator[np.ndarray]:
        """Yield the rows of data in memory, batch by batch. For a model of documents, rows of counts are documents."""
        if not isinstance(data, InputMatrix) or self._fitted().has_words:
            yield from super()._transform_in_memory(data)
            return
        title = "matrix in memory"
        self._check_n_columns(data.n_columns, title)
        factor = self._factor
        for chunk in chunks_of(blocks_of(data.values), self.dtype, title):
            yield inference.rows_of_chunk(chunk, factor)

    def score(self, X: DataLike, y: object = None, *, client: "Client | None" = None) -> float:
        """Return how well the model fits new rows; larger is better.

        Parameters
        ----------
        X : store, URL or data in memory
            The rows, as for `transform`.
        y : ignored
            Present for scikit-learn's searches.
        client : distributed.Client, optional
            Where to score. By default the current Dask client, or this process if there is none.

        Returns
        -------
        float
            For a model of documents, the log-likelihood per token by document completion, as for LDA. For one of a
            matrix and further rows A, the negative relative error -‖A - H Wᵀ‖ / ‖A‖, where H is the result of
            `transform`, or the negative divergence per unit of A for the Kullback-Leibler loss.

        Examples
        --------
        >>> from corpusmill import NMF
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> NMF(n_components=2).fit(documents).score(documents) < 0
        True
        """
        store = self._open_for_transform(X)
        if isinstance(store, Corpus):
            return super().score(store, client=client)
        self._check_columns(store)
        sums = apply.sum_chunks(self, store, client, inference.error_of_matrix)
        (error,) = self._factor.algorithm.scores.metrics(sums, held_out=True).values()
        return -error

    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the rows of H, (D, K), of documents whose words are given by their ids in the model."""
        return inference.fold_in(doc_ptr, words, self._factor)

    def _score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Score documents by completion: return the sums ``log_likelihood`` and ``tokens``."""
        return inference.score_by_completion(doc_ptr, words, self._factor, keys)

    def inverse_transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the matrix that rows of the first factor stand for: rows times `components_`.

        Parameters
        ----------
        rows : array of shape (D, K)
            What `transform` returns.

        Returns
        -------
        numpy.ndarray
            (D, V).

        Examples
        --------
        >>> from corpusmill import NMF
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> nmf = NMF(n_components=2).fit(documents)
        >>> nmf.inverse_transform(nmf.transform(documents)).shape
        (4, 8)
        """
        return rows @ self.components_

    def _check_columns(self, store: Corpus | Matrix) -> None:
        if isinstance(store, Matrix):
            if self._fitted().has_words:
                raise not_documents(store)
            self._check_n_columns(store.n_words, store.title)
        else:
            self._vocabulary()

    def _check_n_columns(self, n_columns: int, title: str) -> None:
        if n_columns != len(self._W):
            raise DataError(f"{title}: has {n_columns} columns, the model {len(self._W)}: give the same columns")


def merge_models(new: TrainedModel, old: TrainedModel) -> TrainedModel:
    """Return the new model with the rows of words that only the old one has appended, in one block.

    The Gram matrix "S" of the rows is that of the new model; the caller updates it.
    """
    W = new.joined("W")
    shared = {name: array for name, array in new.shared.items() if name != "seen"}
    vocabulary = new.vocabulary
    if new.has_words:
        merged = merge_vocabularies(vocabulary, old.vocabulary)
        vocabulary = merged.table
        W = np.concatenate([W, old.joined("W")[merged.only_in_old].astype(W.dtype)])
        if "idf" in shared:
            shared["idf"] = np.concatenate([shared["idf"], old.shared["idf"][merged.only_in_old]])
    return TrainedModel([{"W": W}], shared, vocabulary, new.metadata)
