"""Where trained models come from and go to: runs, and saved models."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Self

import pyarrow as pa

from ....io.errors import DataError
from ....io.messages import listed
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import DATA_KINDS, JsonObject, Store, check_free, to_json
from ...engine.algorithm import Metrics
from ...engine.data import TrainingData
from ...engine.run import RunStore, config_section, versions
from .columns import MatrixColumns
from .in_use import model_in_use
from .parameters import Parameterised
from .saved import ARRAYS_FOLDER, MODEL_FORMAT, SavedModel, TrainedModel, read_model_meta, write_arrays
from .topic_names import read_names, write_names
from .transformer import Transformer

#: Folder below a run of `partial_fit` with a copy of the model that it continues.
PREVIOUS = "base"


class Persistent(Parameterised, Transformer):
    """Mixin for estimators whose trained model is read from a run or from a folder, and saved to a folder."""

    #: Name of the model in configurations, runs and saved models.
    _kind: ClassVar[str]

    #: Where the model was loaded from or saved to last. Either may have changed since.
    _saved_at: str = ""

    #: Names that users gave to topics, by number. Empty for models without topics.
    _topic_names: Mapping[int, str] = MappingProxyType({})

    history_: list[Metrics]
    n_iter_: int

    def _loaded(self) -> None:
        """Set the attributes that are computed from ``model_``."""

    def _merge_previous(self, previous: TrainedModel) -> None:
        """Complete the model after `partial_fit`: add what only the previous model has, such as words."""

    @classmethod
    def _with_stored(cls, parameters: JsonObject, meta: JsonObject, url: str) -> Self:
        """Return an estimator with the parameters of a run or a saved model, whose file has ``meta``.

        Raises DataError for a parameter that the estimator does not have.
        """
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
    def from_run(cls, url: str, with_previous: bool = True) -> Self:
        """Read the model that a run committed last, even while the run continues.

        Parameters
        ----------
        url : str
            The folder or URL of the run.
        with_previous : bool, default=True
            Whether a run of `partial_fit` also has the words that occur only in the model before it.

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
        if with_previous and meta["previous"] is not None:
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
        blocks = [run.block(step, j) for j in range(run.n_blocks)]
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
            self.save(copies.child(name).url)
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
