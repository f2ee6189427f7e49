"""What all estimators share: parameters as in scikit-learn, training through the engine, saved models."""

import hashlib
import inspect
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....io.stores.open import open_data
from ....io.stores.parquet import read_parquet
from ....io.stores.store import Arrays, DataError, Store, check_format
from ...engine.algorithm import Algorithm
from ...engine.epoch import Training, train
from ...engine.events import Subscriber
from ...engine.executors import OnDask, executor_for
from ...engine.run import RunStore, versions
from ...views.dashboard import publish
from ..versions import model_in_use

MODEL_FORMAT = 1


@dataclass(frozen=True)
class Progress:
    """What a callback sees: the epoch just committed and the rows of metrics so far."""

    epoch: int
    metrics: dict[str, float]
    history: list[dict[str, float]]


class Callback(Protocol):
    """Hooks around training; each may be left out. ``after_epoch`` returns True to stop."""

    def before_training(self, estimator: "Estimator") -> None:
        """Called once before the first sweep."""

    def after_epoch(self, progress: Progress) -> bool | None:
        """Called after each commit."""

    def after_training(self, estimator: "Estimator") -> None:
        """Called once the estimator is fitted."""


@dataclass
class Fitted:
    """A trained model in memory: its blocks, shared arrays and vocabulary."""

    blocks: list[Arrays]
    shared: Arrays
    vocabulary: pa.Table
    about: dict[str, Any]

    def block(self, index: int) -> Arrays:
        """The arrays of one block of rows."""
        return self.blocks[index]


class Estimator(ABC):
    """Base of LDA, NMF and the others. ``__init__`` only stores; what is learned ends in ``_``."""

    #: The name in configs, runs and saved models.
    kind: ClassVar[str]
    #: Where the model was loaded from, or saved last; it may have changed since on either side.
    saved_at: str = ""
    #: Where a copy of the model lies that training starts from; empty: from nothing. Algorithms read it in ``begin``.
    _base: str = ""

    # --- parameters, as scikit-learn has them ---

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Names of the constructor's parameters."""
        return [p for p in inspect.signature(cls.__init__).parameters if p != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor parameters by name; raise ValueError for one that is not there."""
        for name, value in parameters.items():
            if name not in self.parameter_names():
                known = ", ".join(self.parameter_names())
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}: it has {known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
        return f"{type(self).__name__}({given})"

    # --- what an estimator says of itself ---

    @abstractmethod
    def algorithm(self, data: Any) -> Algorithm:
        """Return the algorithm for a store of data; raise ValueError or DataError for what cannot be trained."""

    @abstractmethod
    def open(self, data: Any) -> Any:
        """Return a store for whatever ``fit`` was given: a store, its URL, or data in memory."""

    def planned_epochs(self) -> int:
        """Epochs to train."""
        return self.max_iter  # type: ignore[attr-defined]

    def loaded(self) -> None:
        """Set what is derived from ``model_``."""

    # --- training ---

    def fit(
        self,
        data: Any,
        client: Any | None = None,
        run: str | None = None,
        callbacks: Sequence[Callback] = (),
        subscribers: Sequence[Subscriber] = (),
        held_out: Any | None = None,
        evaluate_every: int = 10,
        config: dict[str, Any] | None = None,
    ) -> Self:
        """Train on a store, its URL, or data in memory, and return self.

        ``client``: a Dask client; None takes the current one, or this process alone. ``run``: a folder or URL that
        keeps every epoch, so that the same call goes on where a broken one stopped; None uses a temporary folder.
        ``held_out``: a store to score every ``evaluate_every`` epochs; by default the one that ingest set apart.
        Raises DataError, ValueError, io.exclusive.Locked.
        """
        store = self.open(data)
        if not getattr(store, "n_words", 1):
            raise DataError(f"{store.url}: there is no word to train on; see what its documents hold")
        executor = executor_for(client)
        if isinstance(executor, OnDask):
            subscribers = [*subscribers, publish(executor.client)]
        with _folder(run) as url:
            for callback in callbacks:
                _call(callback, "before_training", self)
            if held_out is None and getattr(store, "part", "") == "train":
                held_out = store.held_out
            _check_words(store, held_out)
            training = Training(
                algorithm=self.algorithm(store),
                data=store,
                run=RunStore(url),
                epochs=self.planned_epochs(),
                seed=int(self.random_state or 0),  # type: ignore[attr-defined]
                held_out=held_out,
                evaluate_every=evaluate_every,
                config=config or {"model": {"kind": self.kind} | self.get_params()},
                subscribers=subscribers,
                should_stop=lambda history: _stop(callbacks, history),
            )
            train(training, executor)
            self._take(training.run, training.run.step, store)
            for callback in callbacks:
                _call(callback, "after_training", self)
        return self

    def partial_fit(self, data: Any, client: Any | None = None, run: str | None = None, **options: Any) -> Self:
        """Go on from the trained model with further data, or ``fit`` where there is none; options are those of ``fit``.

        The run keeps a copy of the model that it started from, named by its content: the same call on the same model
        goes on where a broken one stopped. Raises as ``fit``.
        """
        if getattr(self, "model_", None) is None:
            return self.fit(data, client, run=run, **options)
        old = self.model_
        with _folder(run) as url:
            self._base = self._copy_into(url)
            try:
                self.fit(data, client, run=url, **options)
            finally:
                self._base = ""
        self.joined_with(old)
        return self

    def joined_with(self, old: Fitted) -> None:
        """Take over what the model that training started from has and the new one has not; by default nothing."""

    def _copy_into(self, run: str) -> str:
        copies = Store(run).child("base")
        name = _digest(self._fitted())
        if not copies.exists(f"{name}/model.json"):
            self.save(copies.child(name).url)
        return copies.child(name).absolute

    def _take(self, run: RunStore, step: int, data: Any) -> None:
        blocks = [run.block(step, int(j)) for j in run.store.names(f"epochs/{step:06d}/blocks")]
        rows = [row for row in run.metrics if row["step"] <= step]
        about = {"data": data.url, "data_hash": data.hash, "step": step, "metrics": rows[-1:]}
        vocabulary = getattr(data, "vocabulary", pa.table({}))
        self.model_ = Fitted(blocks, run.shared(step), vocabulary, about)
        self.history_ = rows
        self.n_iter_ = int(rows[-1]["epoch"]) if rows else 0
        self.loaded()

    # --- models of runs, and saved ones ---

    @classmethod
    def from_run(cls, url: str) -> Self:
        """Read the model that a run committed last, whether the run is over, broken off or going on.

        Raises DataError when no epoch is committed yet, when the data is gone, or when the run is of another kind.
        """
        run = RunStore(url)
        meta = run.meta
        parameters = dict(meta["config"].get("model", {}))
        if parameters.pop("kind", None) != cls.kind:
            raise DataError(f"{url}: a run of {meta['algorithm']} where {cls.kind} is needed")
        data = open_data(meta["data"]["url"], meta["data"]["part"] or "train")
        estimator, step = cls(**parameters), run.step
        while True:
            if step < 1:
                raise DataError(f"{url}: no epoch is committed yet")
            try:
                estimator._take(run, step, data)
                return estimator
            except DataError:
                # Training went on meanwhile, and what is older than the last commits is deleted.
                before, step = step, run.step
                if step == before:
                    raise

    def save(self, url: str) -> None:
        """Write the trained model; a reader sees the model that was there before, or all of this one."""
        model, store = self._fitted(), Store(url)
        arrays = f"arrays-{_digest(model)}"
        store.write_arrays(f"{arrays}/shared", model.shared)
        for j, block in enumerate(model.blocks):
            store.write_arrays(f"{arrays}/{j:04d}", block)
        store.write_bytes(f"{arrays}/vocabulary.parquet", _as_parquet(model.vocabulary))
        about = {
            "kind": "model",
            "format": MODEL_FORMAT,
            "model": self.kind,
            "parameters": self.get_params(),
            "arrays": arrays,
            "blocks": len(model.blocks),
            "n_iter": self.n_iter_,
            "about": model.about,
            "history": self.history_,
            "versions": versions(),
        }
        store.write_json("model.json", about)
        for name in store.names():
            if name.startswith("arrays-") and name != arrays:
                store.delete(name)
        self.saved_at = store.absolute

    @classmethod
    def load(cls, url: str) -> Self:
        """Read a saved model, of versions the one in use; raise DataError where there is none or another kind."""
        url = model_in_use(url)
        meta = read_model_meta(url)
        if meta["model"] != cls.kind:
            raise DataError(f"{url}: a model of kind {meta['model']} where {cls.kind} is needed")
        unknown = sorted(set(meta["parameters"]) - set(cls.parameter_names()))
        if unknown:
            raise DataError(
                f"{url}: a model with the parameters {', '.join(unknown)}, which this version of corpusmill does not "
                f"know; it was made by {meta['versions']['corpusmill']}"
            )
        estimator = cls(**meta["parameters"])
        arrays = Store(url).child(meta["arrays"])
        blocks = [arrays.read_arrays(f"{j:04d}") for j in range(meta["blocks"])]
        vocabulary = read_parquet(pa.BufferReader(arrays.read_bytes("vocabulary.parquet")))
        estimator.model_ = Fitted(blocks, arrays.read_arrays("shared"), vocabulary, meta["about"])
        estimator.history_, estimator.n_iter_ = meta["history"], meta["n_iter"]
        estimator.saved_at = Store(url).absolute
        estimator.loaded()
        return estimator

    def saved_name(self) -> str:
        """Return the name of the arrays at ``saved_at`` if they and the parameters there are this model's, else ""."""
        if not self.saved_at or not Store(self.saved_at).exists("model.json"):
            return ""
        name, meta = f"arrays-{_digest(self._fitted())}", read_model_meta(self.saved_at)
        same = meta["arrays"] == name and meta["parameters"] == json.loads(json.dumps(self.get_params(), default=str))
        return name if same else ""

    def _fitted(self) -> Fitted:
        model = getattr(self, "model_", None)
        if model is None:
            raise ValueError(f"this {type(self).__name__} is not fitted: call fit first")
        return model


def read_model_meta(url: str) -> dict[str, Any]:
    """Return model.json of a saved model, of versions the one in use; raise DataError when there is none."""
    store = Store(model_in_use(url))
    if not store.exists("model.json"):
        hint = f"; there is one at {url.rstrip('/')}/model" if store.exists("model/model.json") else ""
        raise DataError(f"{url}: no model here (no model.json){hint}")
    meta = store.read_json("model.json")
    check_format(meta, "model", MODEL_FORMAT, url)
    return meta


@contextmanager
def _folder(url: str | None) -> Iterator[str]:
    """Yield ``url``, or a temporary folder that is removed afterwards."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="corpusmill-run-", ignore_cleanup_errors=True) as folder:
        yield folder


def _check_words(data: Any, held_out: Any) -> None:
    """Raise DataError unless held-out documents' word ids are the data's; these may have further words behind."""
    ours, theirs = (getattr(store, "vocabulary_hash", None) for store in (data, held_out))
    if held_out is None or ours == theirs:
        return
    if not (ours and theirs and data.vocabulary["word"][: held_out.n_words].equals(held_out.vocabulary["word"])):
        raise DataError(
            f"{held_out.url}: held-out documents have vocabulary {theirs}, but {data.url} has {ours}: ingest both "
            f"together with corpus.held_out, or leave held_out away and call score, which looks words up by name"
        )


def _as_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _digest(model: Fitted) -> str:
    digest = hashlib.sha256(_as_parquet(model.vocabulary))
    for arrays in (model.shared, *model.blocks):
        for name in sorted(arrays):
            digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()[:16]


def _call(callback: Callback, hook: str, *arguments: Any) -> Any:
    function = getattr(callback, hook, None)
    return function(*arguments) if function else None


def _stop(callbacks: Sequence[Callback], history: list[dict[str, float]]) -> bool:
    progress = Progress(int(history[-1]["epoch"]), history[-1], history)
    answers = [_call(callback, "after_epoch", progress) for callback in callbacks]
    return any(answers)
