"""The base class of all estimators: parameters as in scikit-learn, training by the engine, saved models."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from ....configs.validation import validate_model
from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import JsonObject, Store, to_json
from ...engine.algorithm import AnyAlgorithm, Metrics
from ...engine.data import TrainingData
from ...engine.epoch import Training, train
from ...engine.events import Callback
from ...engine.executors import executor_for
from ...engine.plan import fits_in_memory
from ...engine.run import RunStore, config_section, versions
from ..versions import model_in_use
from .fit_options import FitOptions, run_folder
from .inputs import (
    DataLike,
    InputMatrix,
    check_columns,
    check_same_words,
    is_documents,
    is_matrix,
    named_matrix,
    read_matrix,
)
from .saved import MODEL_FORMAT, Fitted, SavedModel, read_model_meta, write_arrays
from .topic_names import read_names, write_names
from .transformer import Transformer

if TYPE_CHECKING:
    from distributed import Client


class Estimator(Transformer, ABC):
    """Base class of the estimators.

    As in scikit-learn, ``__init__`` only stores its parameters, ``fit`` validates them, and attributes that training
    sets end in an underscore.
    """

    #: Name of the model in configurations, runs and saved models.
    kind: ClassVar[str]
    #: Epochs between two evaluations, if ``fit`` is not given another number.
    evaluate_every: ClassVar[int] = 10
    #: Parameters that decide the shape or the meaning of the trained arrays, so that they must stay as they are.
    fixed_parameters: ClassVar[tuple[str, ...]] = ()

    #: Where the model was loaded from or saved to last. Either may have changed since.
    saved_at: str = ""

    #: Names that users gave to topics, by number. Empty for models without topics.
    _topic_names: Mapping[int, str] = MappingProxyType({})

    history_: list[Metrics]
    n_iter_: int
    #: The parameters that the model was trained with.
    _trained_with: JsonObject

    # --- parameters ---

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the constructor's parameters."""
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> JsonObject:
        """Return the constructor's parameters by name."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor parameters by name; raise ValueError for an unknown one."""
        for name, value in parameters.items():
            if name not in self.parameter_names():
                known = ", ".join(self.parameter_names())
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}: it has {known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
        return f"{type(self).__name__}({given})"

    def _check_fixed_parameters(self) -> None:
        """Raise ValueError if a parameter was changed after training that the trained arrays depend on."""
        trained_with = getattr(self, "_trained_with", {})
        for name in self.fixed_parameters:
            now = getattr(self, name)
            if name in trained_with and trained_with[name] != now:
                raise ValueError(
                    f"{name} is {now!r}, but the model was trained with {trained_with[name]!r}: set it back with "
                    f"set_params, or call fit to train a new model"
                )

    # --- what each estimator defines ---

    @abstractmethod
    def algorithm(self, data: Any, previous: SavedModel | None = None) -> AnyAlgorithm:
        """Return the algorithm that trains on ``data``; raise ValueError or DataError if that is impossible.

        ``previous`` is the saved model that training continues from.
        """

    @abstractmethod
    def open(self, data: DataLike) -> TrainingData:
        """Return the store of whatever ``fit`` accepts: a store, its URL, documents, or an `InputMatrix`."""

    def check_data(self, url: str) -> None:
        """Raise DataError unless this estimator can train on what is at ``url``, which is not read yet."""
        self.open(url)

    @abstractmethod
    def open_held_out(self, held_out: DataLike, data: Any) -> TrainingData:
        """Return the store of whatever ``held_out`` of ``fit`` accepts. Its words have the same ids as in ``data``."""

    @abstractmethod
    def planned_epochs(self) -> int:
        """Return the number of epochs to train."""

    @abstractmethod
    def seed_number(self) -> int:
        """Return the seed of all random draws."""

    def loaded(self) -> None:
        """Set the attributes that are computed from ``model_``."""

    def merge_previous(self, previous: Fitted) -> None:
        """Complete the model after `partial_fit`: add what only the previous model has, such as words."""

    # --- training ---

    def fit(
        self,
        X: DataLike,
        y: object = None,
        *,
        client: "Client | None" = None,
        run: str | None = None,
        callbacks: Sequence[Callback] = (),
        held_out: DataLike = None,
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
            Where to train. By default the current Dask client, or this process if there is none.
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
        """
        options = FitOptions(client, run, callbacks, held_out, evaluate_every, config, dashboard, vocabulary)
        return self._train(X, options, None)

    def partial_fit(
        self,
        X: DataLike,
        y: object = None,
        *,
        client: "Client | None" = None,
        run: str | None = None,
        callbacks: Sequence[Callback] = (),
        held_out: DataLike = None,
        evaluate_every: int | None = None,
        config: JsonObject | None = None,
        dashboard: bool = True,
        vocabulary: Sequence[str] | None = None,
    ) -> Self:
        """Continue from the trained model with further data, or train a new model if there is none.

        The run keeps a copy of the model that it started from. The same call on the same model therefore continues a
        run that was interrupted. Parameters, results and errors are those of `fit`.
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
            previous = self._copy_into(url, model)
            self._train(X, options.replace_run(url), previous)
        self.merge_previous(model)
        self._forget_columns()
        return self

    def _forget_columns(self) -> None:
        """Drop the columns of the last input from the metadata if the model has further words of earlier inputs."""
        model = self._fitted()
        names = model.metadata.get("feature_names")
        if names is None or "word" not in model.vocabulary.column_names:
            return
        if not set(names).issuperset(model.vocabulary["word"].to_pylist()):
            del model.metadata["feature_names"], model.metadata["n_features"]

    def fit_transform(self, X: DataLike, y: object = None, **options: Any) -> DataLike:
        """Train, then return `transform` of the same data. ``options`` are those of `fit`."""
        return self.fit(X, y, **options).transform(X)

    @abstractmethod
    def transform(self, X: DataLike, *, client: "Client | None" = None) -> DataLike:
        """Return one row per document or sample."""

    def _train(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> Self:
        # scikit-learn demands that parameters are checked here and not in the constructor.
        validate_model(self.kind, self.get_params())
        matrix = read_matrix(X, type(self).__name__) if is_matrix(X) else None
        matrix = named_matrix(matrix, options.vocabulary)
        if matrix is not None and previous is not None:
            self._check_columns_of(matrix)
        if previous is None:
            # Names belong to the topics of an earlier fit.
            self._topic_names = {}
        data = self.open(X if matrix is None else matrix)
        if not data.n_words:
            raise DataError(f"{data.title}: there is no word to train on; check what its documents contain")
        executor = executor_for(options.client)
        held_out = self._held_out_data(options.held_out, data)
        algorithm = self.algorithm(data, previous)
        with executor.guarded(), run_folder(options.run, fits_in_memory(algorithm, data, executor)) as url:
            training = Training(
                algorithm=algorithm,
                data=data,
                run=RunStore(url),
                epochs=self.planned_epochs(),
                seed=self.seed_number(),
                held_out=held_out,
                evaluate_every=self._evaluation_interval(options),
                # The command line stores its whole configuration, and a user may store anything else.
                config=(options.config or {}) | {"model": {"kind": self.kind} | self.get_params()},
                callbacks=options.all_callbacks(executor),
                previous=previous,
            )
            train(training, executor)
            self._take(training.run, training.run.step, data)
        if matrix is not None:
            self._fitted().metadata |= {
                "n_features": matrix.n_columns,
                "feature_names": matrix.names,
                "names_are_given": matrix.are_given,
            }
        return self

    def _held_out_data(self, given: DataLike, data: TrainingData) -> TrainingData | None:
        """Return the documents for evaluation; raise DataError if they number their words in another way."""
        if given is None:
            held_out = data.held_out if data.part == "train" else None
        elif hasattr(given, "read_chunk"):
            held_out = given
        else:
            held_out = self.open_held_out(given, data)
        check_same_words(data, held_out)
        return held_out

    def _open_for_transform(self, X: DataLike) -> Any:
        """Open the data of ``transform`` or ``score``; raise ValueError if it does not fit the training data."""
        self._check_fixed_parameters()
        matrix = self._as_matrix(X)
        return self.open(X if matrix is None else matrix)

    def _as_matrix(self, X: DataLike) -> InputMatrix | None:
        """Return X if it is a matrix, with the names of the columns; None for documents, stores and URLs.

        Raises ValueError if X does not fit the data that the model was trained on.
        """
        model = self._fitted()
        owner = type(self).__name__
        if not is_matrix(X):
            was_unnamed_matrix = "n_features" in model.metadata and model.metadata["feature_names"] is None
            if was_unnamed_matrix and is_documents(X):
                raise ValueError(f"{owner} was fitted on a matrix without column names: pass a matrix, not documents")
            return None
        matrix = read_matrix(X, owner)
        self._check_columns_of(matrix)
        if "n_features" not in model.metadata:
            # The model was trained on documents, so columns are found by their names.
            return matrix
        return matrix.renamed(model.metadata["feature_names"])

    def _check_columns_of(self, matrix: InputMatrix) -> None:
        """Raise ValueError if the model was fitted on a matrix with other columns."""
        metadata = self._fitted().metadata
        owner = type(self).__name__
        if "n_features" in metadata:
            are_given = metadata.get("names_are_given", False)
            check_columns(matrix, metadata["n_features"], metadata["feature_names"], owner, are_given)
        elif matrix.names is None and not self._has_numbered_columns():
            raise ValueError(f"{owner} was fitted on documents: pass documents, not a matrix without column names")

    def _has_numbered_columns(self) -> bool:
        """Return whether the model's words are column numbers, or whether it has no words."""
        vocabulary = self._fitted().vocabulary
        if "word" not in vocabulary.column_names:
            return True
        return all(word.isdigit() for word in vocabulary["word"].slice(0, 100).to_pylist())

    def _evaluation_interval(self, options: FitOptions) -> int:
        if options.evaluate_every is None:
            return self.evaluate_every
        return options.evaluate_every

    def _copy_into(self, run: str, model: Fitted) -> SavedModel:
        """Save the model below the run, in a folder named by its content."""
        copies = Store(run).child("base")
        name = model.digest()
        if not copies.exists(f"{name}/model.json"):
            self.save(copies.child(name).url)
        return SavedModel.open(copies.child(name).absolute)

    def _take(self, run: RunStore, step: int, data: TrainingData) -> None:
        """Set the attributes of a trained model from one step of a run."""
        blocks = [run.block(step, j) for j in run.store.numbers(f"{run.folder(step)}/blocks")]
        rows = [row for row in run.metrics if row["step"] <= step]
        metadata = {"data": data.title, "data_hash": data.hash, "step": step, "metrics": rows[-1:]}
        metadata |= self._column_metadata(data)
        vocabulary = getattr(data, "vocabulary", pa.table({}))
        self.model_ = Fitted(blocks, run.shared(step), vocabulary, metadata)
        self.history_ = rows
        self.n_iter_ = int(rows[-1]["epoch"]) if rows else 0
        self._trained_with = self.get_params()
        self.loaded()

    def _column_metadata(self, data: Any) -> JsonObject:
        """Return number and names of the columns of a store that was made from a matrix with names."""
        names = data.columns if isinstance(data, Corpus | Matrix) else None
        if names is None:
            return {}
        return {"n_features": len(names), "feature_names": names, "names_are_given": True}

    # --- models of runs, and saved ones ---

    @classmethod
    def from_run(cls, url: str, with_previous: bool = True) -> Self:
        """Read the model that a run committed last, even while the run continues.

        If the run is one of `partial_fit`, words that occur only in the previous model are added, unless
        ``with_previous`` is False.

        Raises
        ------
        DataError
            If no epoch is committed yet, if the data no longer exists, or if the run is of another kind.
        """
        run = RunStore(url)
        meta = run.meta
        parameters = config_section(meta, "model")
        if "kind" not in parameters:
            raise DataError(f"{url}: this run does not record the parameters of its model; train it again")
        if parameters.pop("kind") != cls.kind:
            raise DataError(f"{url}: a run of {meta['algorithm']} where {cls.kind} is needed")
        data = run.open_data()
        estimator = cls(**parameters)
        estimator._take_last(run, data)
        if with_previous and meta["previous"] is not None:
            copy = run.store.child(f"base/{meta['previous']}").absolute
            estimator.merge_previous(SavedModel.open(copy).load({}))
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

    def save(self, url: str) -> None:
        """Write the trained model. A concurrent reader sees either the model that was there before or this one.

        A model without names of topics takes those that the same model has at ``url``, so that training it again does
        not lose them. Saving therefore cannot remove names; `corpusmill explore` can.
        """
        model = self._fitted()
        store = Store(url)
        arrays = write_arrays(store, model)
        meta = {
            "kind": "model",
            "format": MODEL_FORMAT,
            "model": self.kind,
            "parameters": self.get_params(),
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
            if name.startswith("arrays-") and name != arrays:
                store.delete(name)
        self.saved_at = store.absolute

    def _adopt_names(self, url: str) -> None:
        """Take the names that users gave to the topics of this same model at ``url``, if they did."""
        self._topic_names = read_names(url, f"arrays-{self._fitted().digest()}")

    @classmethod
    def load(cls, url: str) -> Self:
        """Read a saved model.

        The folder of a run stands for its model, and that of a retrained model for the version in use.

        Raises
        ------
        DataError
            If there is no model, or one of another kind or of a newer version of corpusmill.
        """
        url = model_in_use(url)
        meta = read_model_meta(url)
        if meta["model"] != cls.kind:
            raise DataError(f"{url}: a model of kind {meta['model']} where {cls.kind} is needed")
        # A parameter that is missing gets its default. One that is unknown may change what the model means.
        unknown = sorted(set(meta["parameters"]) - set(cls.parameter_names()))
        if unknown:
            raise DataError(
                f"{url}: a model with the parameters {', '.join(unknown)}, which this version of corpusmill does not "
                f"have; it was made by {meta['versions']['corpusmill']}"
            )
        estimator = cls(**meta["parameters"])
        estimator.model_ = SavedModel.open(url).load(meta["about"])
        estimator.history_ = meta["history"]
        estimator.n_iter_ = meta["n_iter"]
        estimator.saved_at = Store(url).absolute
        estimator._trained_with = meta["parameters"]
        estimator._topic_names = read_names(url, meta["arrays"])
        estimator.loaded()
        return estimator

    def saved_name(self) -> str:
        """Return the name of the arrays at ``saved_at`` if the model there is still this one, else an empty string."""
        if not self.saved_at or not Store(self.saved_at).exists("model.json"):
            return ""
        name = f"arrays-{self._fitted().digest()}"
        meta = read_model_meta(self.saved_at)
        if meta["arrays"] != name:
            return ""
        parameters = json.loads(json.dumps(self.get_params(), default=to_json))
        return name if meta["parameters"] == parameters else ""
