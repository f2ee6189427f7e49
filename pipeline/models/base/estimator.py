"""The base class of all estimators: it reads the data, trains by the engine, and keeps, saves and loads the model."""

import json
import os
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from ....configs.validation import validate_model
from ....io.errors import DataError
from ....io.messages import listed
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import DATA_KINDS, JsonObject, Store, check_free, to_json
from ...engine.algorithm import AnyAlgorithm, Metrics
from ...engine.data import TrainingData
from ...engine.epoch import train
from ...engine.events import Callback
from ...engine.executors import executor_for
from ...engine.memory import EmptyArrays
from ...engine.packing import split_block
from ...engine.plan import fits_in_memory
from ...engine.run import RunStore, config_section, versions
from ...engine.training import Advice, Alternative, Cut, Training
from ...topics import WordList
from .in_use import model_in_use
from .inputs import (
    CheckedInput,
    DataLike,
    FitOptions,
    InputMatrix,
    MatrixColumns,
    TransformOutput,
    check_columns,
    check_numbers,
    check_same_words,
    checked_input,
    columns_of,
    drop_outgrown_columns,
    named,
    read_input,
    run_folder,
)
from .saved import (
    ARRAYS_FOLDER,
    MODEL_FORMAT,
    SavedModel,
    TrainedModel,
    read_model_meta,
    read_names,
    write_arrays,
    write_names,
)
from .scikit_learn import ScikitLearnEstimator

if TYPE_CHECKING:
    from distributed import Client

#: Folder below a run of `partial_fit` with a copy of the model that it continues.
PREVIOUS = "base"


class Estimator(ScikitLearnEstimator, metaclass=ABCMeta):
    """Base class of the estimators. Where it says ``Any`` for data, that is the store that an estimator trains on.

    As in scikit-learn, ``__init__`` only stores its parameters, ``fit`` validates them, and attributes that training
    sets end in an underscore. The trained model is read from a run or from a folder, and saved to a folder.
    """

    #: Name of the model in configurations, runs and saved models.
    _kind: ClassVar[str]
    #: The parameter that decides how large the model is.
    _size: ClassVar[str] = "n_components"

    #: Where the model was loaded from or saved to last. Either may have changed since.
    _saved_at: str = ""

    #: Names that users gave to topics, by number. Empty for models without topics.
    _topic_names: Mapping[int, str] = MappingProxyType({})

    history_: list[Metrics]
    n_iter_: int

    #: Epochs between two evaluations, if ``fit`` is not given another number.
    _evaluate_every: ClassVar[int] = 10

    # --- training ---

    def fit(
        self,
        X: DataLike,
        y: object = None,
        *,
        client: "Client | None" = None,
        run: str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
        held_out: DataLike | None = None,
        evaluate_every: int | None = None,
        config: JsonObject | None = None,
        dashboard: bool = True,
        vocabulary: Sequence[str] | None = None,
    ) -> Self:
        """Train the model.

        Parameters
        ----------
        X : store, URL or data in memory
            The training data; the class says what it accepts.
        y : ignored
            Present for scikit-learn's pipelines.
        client : distributed.Client, optional
            Where to train. By default the current Dask client, or this process if there is none. In a task of Dask, the
            default is the thread of the task.
        run : str, optional
            Folder or URL that keeps every epoch. The same call continues a run that was interrupted, and one with a
            larger ``max_iter`` trains it for longer. A run with more epochs than ``max_iter`` is refused. By default
            the run is kept in a temporary folder and removed afterwards.
        callbacks : sequence of callables
            Each is called with every event of the run; see `corpusmill.pipeline.engine.events`. Training stops after
            an epoch for which one of them returns True. `corpusmill.ProgressLines` shows the progress.
        held_out : store, URL or data in memory, optional
            Documents for evaluation. By default those that ingestion set aside.
        evaluate_every : int, optional
            Epochs between two evaluations; 0 for none. The default is 10, and 1 for word vectors.
        config : dict, optional
            Further sections for the configuration in the run's run.json. Its section "model" has the parameters.
        dashboard : bool, default=True
            Whether to add the page ``/training`` to the dashboard of the client's scheduler.
        vocabulary : sequence of str, optional
            Names of the columns of a matrix, such as ``vectorizer.get_feature_names_out()``. By default the names that
            the matrix has, as data frames and AnnData do, or else numbers.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of range.
        DataError
            If the data cannot be trained on, does not fit into memory, or if ``run`` holds another run.
        Locked
            If another process trains the same run.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> LDA(n_components=2, max_iter=20).fit(documents).n_iter_
        20
        """
        options = FitOptions(client, run, callbacks, held_out, evaluate_every, config, dashboard, vocabulary)
        return self._train(X, options, None)

    def _train(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> Self:
        if previous is None or not hasattr(self, "_drawn_seed"):
            self._draw_seed()
        # scikit-learn demands that parameters are checked here and not in the constructor.
        validate_model(self._kind, self._stored_params())
        read = self._training_input(X, options, previous)
        if previous is None:
            # Names belong to the topics of an earlier fit.
            self._topic_names = {}
        data = self._open_data(read)
        if not data.n_words:
            if isinstance(read, InputMatrix):
                raise DataError(f"{data.title}: there is nothing to train on, because all counts are 0")
            raise DataError(
                f"{data.title}: there is no word to train on; check what its documents contain: words of one letter "
                f"are left out of strings by the default token_pattern, and kept in lists of words"
            )
        executor = executor_for(options.client)
        held_out = self._held_out_data(options.held_out, data)
        algorithm = self._algorithm(data, previous)
        with executor.guarded(), run_folder(options.run, fits_in_memory(algorithm, data, executor)) as url:
            executor.check_folders([Store(data.url).absolute])
            # Options of `fit` have other types here: the folder and the documents are opened, and what only the
            # estimator knows is filled in. From here to the tasks, they travel as they are.
            training = Training(
                algorithm=algorithm,
                data=data,
                run=RunStore(url),
                epochs=self._planned_epochs(),
                seed=self._seed_number(),
                held_out=held_out,
                evaluate_every=self._evaluate_every if options.evaluate_every is None else options.evaluate_every,
                # The command line stores its whole configuration, and a user may store anything else.
                config=(options.config or {}) | {"model": {"kind": self._kind} | self._stored_params()},
                callbacks=options.all_callbacks(executor),
                previous=previous,
                advice=self._advice(),
                cut=self._cut_by_engine(algorithm, data, previous),
                smaller=None if previous is not None else partial(self._smaller, data),
            )
            train(training, executor)
            self._take(training.run, training.run.step, data)
        if isinstance(read, InputMatrix):
            columns = MatrixColumns(read.n_columns, read.names, read.are_given)
            self._fitted().metadata |= columns.as_metadata()
        return self

    def _training_input(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> CheckedInput:
        """Return X as `read_input` does. A matrix has the column names that the user gives.

        Raises ValueError if training continues from a model of other columns.
        """
        matrix = named(read_input(X, type(self).__name__, self._takes_nan), options.vocabulary)
        if not isinstance(matrix, InputMatrix) or previous is None:
            return matrix
        check_columns(matrix, self._fitted(), type(self).__name__)
        columns = columns_of(self._fitted())
        # The columns are those of the model, also if only one of the two has names.
        return matrix if columns is None else matrix.renamed(columns.names)._replace(are_given=columns.are_given)

    def _held_out_data(self, given: DataLike, data: Any) -> TrainingData | None:
        """Return the documents for evaluation; raise DataError if they number their words in another way."""
        if given is not None:
            held_out: TrainingData | None = self._open_held_out(given, data)
        else:
            held_out = data.held_out if data.part == "train" else None
        check_same_words(data, held_out)
        return held_out

    # --- what each estimator defines ---

    @abstractmethod
    def _algorithm(self, data: Any, previous: SavedModel | None = None) -> AnyAlgorithm:
        """Return the algorithm that trains on ``data``; raise ValueError or DataError if that is impossible.

        ``previous`` is the saved model that training continues from.
        """

    def _cut(
        self, algorithm: AnyAlgorithm, data: Any, previous: SavedModel | None
    ) -> Callable[[int], AnyAlgorithm] | None:
        """Return a function that cuts the model into a number of blocks; None if results depend on the blocks."""
        return None

    def _cut_by_engine(self, algorithm: AnyAlgorithm, data: Any, previous: SavedModel | None = None) -> Cut | None:
        """Return `_cut`, unless the user has chosen the blocks."""
        return self._cut(algorithm, data, previous) if getattr(self, "n_blocks", None) == "auto" else None

    @property
    def _largest_size(self) -> int:
        """The size of the model, or the largest one that it may have if it depends on the data; 1 if it has none."""
        return int(getattr(self, self._size, 1))

    def _smaller(self, data: Any) -> Iterator[Alternative]:
        """Yield models that need less memory, the largest first."""
        size = self._largest_size
        with suppress(ValueError, DataError):  # for example, fewer topics than seeds
            while size > 1:
                size //= 2
                yield self._changed(data, f"lower {self._size} to {size}", self._size, size)

    def _changed(self, data: Any, advice: str, name: str, value: object) -> Alternative:
        """Return the model with another value of a parameter."""
        other = copy(self)
        setattr(other, name, value)
        with warnings.catch_warnings(action="ignore"):  # it is not trained
            algorithm = other._algorithm(data)
        return Alternative(advice, algorithm, other._cut_by_engine(algorithm, data))

    @property
    def _first_blocks(self) -> int:
        """The number of blocks that the user has chosen, or one, if the engine chooses."""
        found: int | str = getattr(self, "n_blocks", 1)
        return 1 if isinstance(found, str) else found

    def _advice(self) -> Advice:
        """Return what the engine's messages advise, by the names of this estimator's parameters."""
        return Advice()

    @abstractmethod
    def _open_data(self, data: DataLike) -> Any:
        """Return the store of whatever ``fit`` accepts: a store, its URL, documents, or an `InputMatrix`."""

    def _check_data(self, url: str) -> None:
        """Raise DataError unless this estimator can train on what is at ``url``, which is not read yet."""
        self._open_data(url)

    @abstractmethod
    def _open_held_out(self, held_out: DataLike, data: Any) -> Any:
        """Return the store of whatever ``held_out`` of ``fit`` accepts. Its words have the same ids as in ``data``."""

    def _describe(self, data: Any) -> list[WordList]:
        """Return words that show what the trained model has learned from ``data``."""
        return self._algorithm(data).scores.describe(self._fitted(), data)

    @abstractmethod
    def _planned_epochs(self) -> int:
        """Return the number of epochs to train."""

    def _describe_restarts(self) -> list[tuple[Self, JsonObject]]:
        """Return the model and the settings, epochs and error of each of several restarts; empty if there was one."""
        return []

    # --- training with further data ---

    def partial_fit(
        self,
        X: DataLike,
        y: object = None,
        *,
        client: "Client | None" = None,
        run: str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
        held_out: DataLike | None = None,
        evaluate_every: int | None = None,
        config: JsonObject | None = None,
        dashboard: bool = True,
        vocabulary: Sequence[str] | None = None,
    ) -> Self:
        """Continue from the trained model with further data, or train a new model if there is none.

        The run keeps a copy of the model that it started from. The same call on the same model therefore continues a
        run that was interrupted.

        Parameters
        ----------
        X : store, URL or data in memory
            The further data, without what the model was trained on before. Documents in memory are read as by `ingest`
            with its default options, so pass a corpus if the first one left out words, such as stop words.
        y : ignored
            Present for scikit-learn's pipelines.
        client, run, callbacks, held_out, evaluate_every, config, dashboard, vocabulary : optional
            The options of `fit`, with the same defaults.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of range, or the trained arrays depend on one that was changed.
        DataError
            If the data cannot be trained on, does not fit into memory, or if ``run`` holds another run.
        Locked
            If another process trains the same run.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> _ = lda.partial_fit(["sailor storm anchor", "cake flour butter"])
        >>> "anchor" in lda.words_, "sea" in lda.words_
        (True, True)
        """
        options = FitOptions(client, run, callbacks, held_out, evaluate_every, config, dashboard, vocabulary)
        return self._continue(X, options)

    def _continue(self, X: DataLike, options: FitOptions) -> Self:
        """Train on further data. Parameters are those of ``fit``."""
        model = getattr(self, "model_", None)
        if model is None:
            return self._train(X, options, None)
        self._check_fixed_parameters()
        with run_folder(options.run) as url:
            previous = self._copy_below(url, model)
            self._train(X, replace(options, run=url), previous)
        self._merge_previous(model)
        drop_outgrown_columns(self._fitted())
        return self

    # --- the trained model applied to data ---

    def fit_transform(self, X: DataLike, y: object = None, **options: Any) -> TransformOutput:
        """Train, then return `transform` of the same data, both with the same client.

        Parameters
        ----------
        X : store, URL or data in memory
            The data, as for `fit`.
        y : ignored
            Present for scikit-learn's pipelines.
        **options : values by name
            Further options of `fit`.

        Returns
        -------
        ndarray or data frame of shape (D, K)
            One row per document or sample.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> LDA(n_components=2, max_iter=20).fit_transform(documents).shape
        (4, 2)
        """
        return self.fit(X, y, **options).transform(X, client=options.get("client"))

    @abstractmethod
    def transform(self, X: DataLike, *, client: "Client | None" = None) -> TransformOutput:
        """Return one row per document or sample."""

    def _open_for_transform(self, X: DataLike) -> Any:
        """Open the data of ``transform`` or ``score``; raise ValueError if it does not fit the training data."""
        return self._open_checked(self._checked_input(X))

    def _open_checked(self, data: CheckedInput) -> Any:
        """Open data that `_checked_input` has returned."""
        return self._open_data(data)

    def _checked_input(self, X: DataLike) -> CheckedInput:
        """Return data that the model is applied to, see `checked_input`.

        Raises ValueError if the data or a parameter does not fit the trained model.
        """
        self._check_fixed_parameters()
        model = self._fitted()
        caller = type(self).__name__
        data = checked_input(X, model, caller, self._takes_nan)
        if isinstance(data, InputMatrix):
            check_numbers(data, model, caller)
        return data

    def _loaded(self) -> None:
        """Set the attributes that are computed from ``model_``."""

    def _merge_previous(self, previous: TrainedModel) -> None:
        """Complete the model after `partial_fit`: add what only the previous model has, such as words."""

    @classmethod
    def _without_former(cls, parameters: JsonObject) -> JsonObject:
        """Return stored parameters without those of earlier versions that change nothing."""
        former = cls._former_parameters
        return {name: value for name, value in parameters.items() if name not in former or former[name] != value}

    @classmethod
    def _with_stored(cls, parameters: JsonObject, meta: JsonObject, url: str) -> Self:
        """Return an estimator with the parameters of a run or a saved model, whose file has ``meta``.

        Raises DataError for a parameter that the estimator does not have.
        """
        parameters = cls._without_former(parameters)
        # A parameter that is missing gets its default. One that is unknown may change what the model means.
        unknown = sorted(set(parameters) - set(cls._parameter_names()))
        if unknown:
            raise DataError(
                f"{url}: a model with the parameters {listed(unknown)}, which this version of corpusmill does not "
                f"have; it was made by {meta['versions']['corpusmill']}"
            )
        return cls(**parameters)

    # --- models of runs ---

    @classmethod
    def from_run(cls, url: str) -> Self:
        """Read the model that a run committed last, even while the run continues.

        Parameters
        ----------
        url : str
            The folder or URL of the run.

        Returns
        -------
        estimator
            A trained model.

        Raises
        ------
        DataError
            If no epoch is committed yet, if the data no longer exists, or if the run is of another kind or version.

        Examples
        --------
        >>> from corpusmill import LDA, ingest
        >>> corpus = ingest(["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"], "corpus")
        >>> _ = LDA(n_components=2, max_iter=20).fit(corpus, run="run")
        >>> LDA.from_run("run").n_iter_
        20
        """
        run = RunStore(url)
        meta = run.meta
        parameters = config_section(meta, "model")
        if "kind" not in parameters:
            raise DataError(f"{url}: this run does not record the parameters of its model; train it again")
        if parameters.pop("kind") != cls._kind:
            raise DataError(f"{url}: a run of {meta['algorithm']} where {cls._kind} is needed")
        data = run.open_data()
        estimator = cls._with_stored(parameters, meta, url)
        estimator._take_last(run, data)
        if meta["previous"] is not None:
            copy = run.store.child(f"{PREVIOUS}/{meta['previous']}").absolute
            estimator._merge_previous(SavedModel.open(copy).load({}))
        return estimator

    def _take_last(self, run: RunStore, data: TrainingData) -> None:
        """Set the attributes of a trained model from the last step of a run that may continue meanwhile."""
        step = run.step
        while True:
            if step < 1:
                raise DataError(f"{run.url}: no epoch is committed yet")
            try:
                self._take(run, step, data)
                return
            except DataError:
                # Training may have committed another step meanwhile and deleted this one.
                newest = run.step
                if newest == step:
                    raise
                step = newest

    def _take(self, run: RunStore, step: int, data: TrainingData) -> None:
        """Set the attributes of a trained model from one step of a run."""
        empty = EmptyArrays()
        blocks = [run.block(step, j, empty) for j in range(run.n_blocks)]
        rows = [row for row in run.metrics if row["step"] <= step]
        metadata = {"data": data.title, "data_hash": data.hash, "step": step, "metrics": rows[-1:]}
        columns = self._columns_of_store(data)
        if columns is not None:
            metadata |= columns.as_metadata()
        vocabulary = getattr(data, "vocabulary", pa.table({}))
        self.model_ = TrainedModel(blocks, run.shared(step), vocabulary, metadata)
        self.history_ = rows
        self.n_iter_ = int(rows[-1]["epoch"]) if rows else 0
        self._trained_with = self._stored_params()
        self._loaded()

    def _columns_of_store(self, data: TrainingData) -> MatrixColumns | None:
        """Return the columns of a store that was made from a matrix with names; None for other stores."""
        names = data.columns if isinstance(data, Corpus | Matrix) else None
        return None if names is None else MatrixColumns(len(names), names, are_given=True)

    def _copy_below(self, run: str, model: TrainedModel) -> SavedModel:
        """Save the model below the run, in a folder named by its content."""
        copies = Store(run).child(PREVIOUS)
        name = model.digest()
        if not copies.exists(f"{name}/model.json"):
            # Tasks hold one of its blocks at a time.
            cut = copy(self)
            cut.model_ = replace(model, blocks=[part for block in model.blocks for part in split_block(block)])
            cut.save(copies.child(name).url)
        return SavedModel.open(copies.child(name).absolute)

    # --- saved models ---

    def save(self, url: str) -> None:
        """Write the trained model. A concurrent reader sees either the model that was there before or this one.

        A model without names of topics takes those that the same model has at ``url``, so that training it again does
        not lose them. Saving therefore cannot remove names; `corpusmill explore` can.

        Parameters
        ----------
        url : str
            The folder or URL to write to. A model that is there is replaced; other files stay.

        Raises
        ------
        DataError
            If the folder holds a corpus, a matrix or a graph.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.save("model")
        """
        model = self._fitted()
        store = Store(url)
        check_free(store, *DATA_KINDS)
        arrays = write_arrays(store, model)
        meta = {
            "kind": "model",
            "format": MODEL_FORMAT,
            "model": self._kind,
            "parameters": self._stored_params(),
            "arrays": arrays,
            "blocks": len(model.blocks),
            "n_iter": self.n_iter_,
            "about": model.metadata,
            "history": self.history_,
            "versions": versions(),
        }
        # model.json names the folder of the arrays, so this write switches from the old model to the new one in one
        # step.
        store.write_json("model.json", meta)
        if self._topic_names:
            write_names(url, arrays, self._topic_names)
        else:
            self._adopt_names(url)
        for name in store.names():
            if ARRAYS_FOLDER.fullmatch(name) and name != arrays:
                store.delete_unneeded(name)
        self._saved_at = store.absolute

    def _adopt_names(self, url: str) -> None:
        """Take the names that users gave to the topics of this same model at ``url``, if they did."""
        self._topic_names = read_names(url, f"arrays-{self._fitted().digest()}")

    @classmethod
    def load(cls, url: str) -> Self:
        """Read a saved model.

        Parameters
        ----------
        url : str
            The folder or URL of the model. The folder of a run stands for its model, and that of a retrained model for
            the version in use.

        Returns
        -------
        estimator
            A trained model, with the parameters that it was trained with.

        Raises
        ------
        DataError
            If there is no model, or one of another kind or of a newer version of corpusmill.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.save("model")
        >>> LDA.load("model")
        LDA(n_components=2, max_iter=20)
        """
        url = model_in_use(url)
        meta = read_model_meta(url)
        while True:
            try:
                return cls._load(url, meta)
            except DataError:
                # Another process may have saved another model meanwhile, and deleted the arrays of this one.
                newest = read_model_meta(url)
                if newest == meta:
                    raise
                meta = newest

    @classmethod
    def _load(cls, url: str, meta: JsonObject) -> Self:
        """Read the saved model whose model.json has the content ``meta``."""
        if meta["model"] != cls._kind:
            raise DataError(f"{url}: a model of kind {meta['model']} where {cls._kind} is needed")
        estimator = cls._with_stored(meta["parameters"], meta, url)
        estimator.model_ = SavedModel.described_by(meta, url).load(meta["about"])
        estimator.history_ = meta["history"]
        estimator.n_iter_ = meta["n_iter"]
        estimator._saved_at = Store(url).absolute
        estimator._trained_with = meta["parameters"]
        estimator._topic_names = read_names(url, meta["arrays"])
        estimator._loaded()
        return estimator

    def _saved_name(self) -> str:
        """Return a name for the content of the model at ``_saved_at`` if it is still this one, else an empty string.

        It has the digests of the arrays and of the parameters, because `transform` depends on both.
        """
        if not self._saved_at or not Store(self._saved_at).exists("model.json"):
            return ""
        arrays = f"arrays-{self._fitted().digest()}"
        meta = read_model_meta(self._saved_at)
        parameters = json.loads(json.dumps(self._stored_params(), default=to_json))
        is_this_one = meta["arrays"] == arrays and meta["parameters"] == parameters
        return f"{arrays}-{self._parameters_digest()}" if is_this_one else ""
