"""Training runs in MLflow: parameters, metrics by epoch, the model and the report, through MLflow's own client."""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..configs.redact import redact_urls
from ..io.stores.store import JsonObject, to_json
from .engine.algorithm import Metrics
from .engine.events import EpochFinished, Event, RunFinished, RunStarted
from .engine.run import RunStore
from .models.base.estimator import Estimator
from .models.registry import load_model, model_of_run
from .report import write_report

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

#: File in the folder of a run that names its run in MLflow. A run that is resumed continues that one.
LINK = "mlflow.json"
#: Sections of a configuration whose keys become parameters: they determine the model.
SECTIONS = ("model", "source", "corpus")
#: A metric that every epoch has. Its history says which epochs are logged already.
ALWAYS = "training_seconds"
#: Most parameters and metrics that MLflow takes in one request.
MOST_PARAMETERS = 100
MOST_METRICS = 1000

_LOG = logging.getLogger(__name__)


class MLflowCallback:
    """Logs training to MLflow. Pass it to ``fit`` as a callback.

    A run of corpusmill becomes a run of MLflow: its parameters, the metrics of each epoch, and at the end the folder of
    the model and the report. The run's folder names the run of MLflow, so training that is resumed continues it. Epochs
    that are missing there are logged as well.

    If the tracking server does not answer during training, training goes on, and the figures are sent with those of
    the next epoch.

    Parameters
    ----------
    experiment : str, default="corpusmill"
        Name of MLflow's experiment, which is created if it is missing.
    tracking_uri : str, optional
        Where MLflow stores runs, such as ``"http://localhost:5000"`` or ``"sqlite:///mlflow.db"``. The default is
        MLflow's own setting, such as the environment variable ``MLFLOW_TRACKING_URI``.
    run_name : str, optional
        Name of new runs. By default MLflow chooses one.

    Attributes
    ----------
    run_id : str
        The run of MLflow that was logged last; empty before the first one.

    Raises
    ------
    ImportError
        If MLflow is not installed.

    Examples
    --------
    >>> from corpusmill import LDA
    >>> from corpusmill.pipeline.mlflow import MLflowCallback
    >>> with MLflowCallback("articles") as callback:  # doctest: +SKIP
    ...     LDA(20).fit("corpus", run="runs/articles", callbacks=[callback])

    Without ``with``, a run that fails or is interrupted keeps the status RUNNING until it is resumed.
    """

    def __init__(
        self, experiment: str = "corpusmill", *, tracking_uri: str | None = None, run_name: str | None = None
    ) -> None:
        self.experiment = experiment
        self.run_name = run_name
        self.run_id = ""
        self._client = _connect(tracking_uri)
        self._is_running = False
        self._waiting: list[Metric] = []

    def __call__(self, event: Event) -> None:
        """Log one event of a run."""
        if isinstance(event, RunStarted):
            self._start(event)
        elif isinstance(event, EpochFinished):
            self._waiting += _as_metrics([event.metrics])
            self._try(self._send)
        elif isinstance(event, RunFinished):
            self._try(lambda: self._finish(event))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Mark the run as failed if an exception left the block, or as killed if it is no ordinary error."""
        if error is None or not self._is_running:
            return
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        self._try(lambda: self._client.set_terminated(self.run_id, status))
        self._is_running = False

    # --- a run ---

    def _start(self, event: RunStarted) -> None:
        """Continue the run of MLflow that belongs to this run, or create one."""
        run = RunStore(event.run)
        meta = run.meta
        self._waiting = []
        self.run_id = self._linked(run)
        if self.run_id:
            self._client.update_run(self.run_id, status="RUNNING")
        else:
            self.run_id = self._create(
                {"corpusmill.run": redact_urls(run.store.absolute), "corpusmill.model": meta["algorithm"]}
            )
            run.store.write_json(LINK, {"run_id": self.run_id})
        self._is_running = True
        self._log_parameters(_parameters(meta))
        logged = self._client.get_metric_history(self.run_id, ALWAYS)
        last = max((metric.step for metric in logged), default=0)
        rows = {row["epoch"]: row for row in event.history}
        self._waiting = _as_metrics(row for epoch, row in rows.items() if last < epoch <= event.epoch)
        self._send()

    def _linked(self, run: RunStore) -> str:
        """Return the run of MLflow that a run names; empty if there is none or if it was deleted there."""
        from mlflow.exceptions import MlflowException

        if not run.store.exists(LINK):
            return ""
        name: str = run.store.read_json(LINK)["run_id"]
        try:
            found = self._client.get_run(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return ""
        return name if found.info.lifecycle_stage == "active" else ""

    def _create(self, tags: Mapping[str, str]) -> str:
        """Create a run of MLflow in the experiment, and return its id."""
        found = self._client.get_experiment_by_name(self.experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self.experiment)
        everything = {"corpusmill.version": version("corpusmill"), **tags}
        run_id: str = self._client.create_run(experiment, tags=everything, run_name=self.run_name).info.run_id
        return run_id

    def _log_parameters(self, parameters: Mapping[str, str]) -> None:
        """Log parameters. MLflow does not let them change, so a new value of a resumed run becomes a tag."""
        from mlflow.entities import Param

        known = self._client.get_run(self.run_id).data.params
        new = [Param(name, value) for name, value in parameters.items() if name not in known]
        for first in range(0, len(new), MOST_PARAMETERS):
            self._client.log_batch(self.run_id, params=new[first : first + MOST_PARAMETERS])
        for name, value in parameters.items():
            # MLflow cuts long values.
            if not value.startswith(known.get(name, value)):
                self._client.set_tag(self.run_id, f"corpusmill.{name}", value)

    def _send(self) -> None:
        """Log the figures that wait."""
        while self._waiting:
            self._client.log_batch(self.run_id, metrics=self._waiting[:MOST_METRICS])
            del self._waiting[:MOST_METRICS]

    def _finish(self, event: RunFinished) -> None:
        """Log what waits, the model, the report and the status. One that fails does not prevent the next."""
        self._try(self._send)
        try:
            self.log_model(model_of_run(event.run))
        except Exception as error:
            _LOG.warning("MLflow has no model of this run (%s): call log_model with the trained model", _cause(error))
        try:
            self._log_report(event.run)
        except Exception as error:
            _LOG.warning("MLflow has no report of this run (%s); training does not stop", _cause(error))
        self._client.set_tag(self.run_id, "corpusmill.ended", event.reason)
        self._client.set_terminated(self.run_id)
        self._is_running = False

    def log_model(self, model: Estimator) -> None:
        """Log the folder of a trained model as the artifact ``model``.

        This happens by itself when training ends, except for a model of documents in memory, which no longer exist
        then.
        """
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            self._client.log_artifacts(self.run_id, folder, "model")

    def _log_report(self, url: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._client.log_artifact(self.run_id, write_report(url, f"{folder}/report.html"))

    # --- versions of a retrained model ---

    def log_version(self, url: str, facts: Mapping[str, object]) -> None:
        """Log what became of a version of a retrained model, as tags of its run and as metrics.

        Parameters
        ----------
        url : str
            Folder or URL of the versions.
        facts : mapping
            The result of ``corpusmill retrain``: version, status, model, score and others.
        """
        self._try(lambda: self._log_version(url, facts))

    def _log_version(self, url: str, facts: Mapping[str, object]) -> None:
        number = str(facts["version"])
        tags = {"corpusmill.versions": redact_urls(url), "corpusmill.model_version": number}
        if not self.run_id:
            self.run_id = self._find(tags)
        if not self.run_id:
            # No training: an earlier call was killed after it, or documents were only subtracted.
            self.run_id = self._create(tags)
            self.log_model(load_model(str(facts["model"])))
            self._log_report(str(facts["model"]))
            self._client.set_terminated(self.run_id)
        self._client.update_run(self.run_id, name=f"version {number}")
        for name, value in (tags | {"corpusmill.status": str(facts["status"])}).items():
            self._client.set_tag(self.run_id, name, value)
        for name in ("score", "score_before", "documents", "tokens", "words", "new_words"):
            figure = facts.get(name)
            if isinstance(figure, int | float):
                self._client.log_metric(self.run_id, f"version_{name}", figure)

    def _find(self, tags: Mapping[str, str]) -> str:
        """Return the run of MLflow with these tags; empty if there is none."""
        found = self._client.get_experiment_by_name(self.experiment)
        if not found:
            return ""
        wanted = f"tags.`corpusmill.model_version` = '{tags['corpusmill.model_version']}'"
        for run in self._client.search_runs([found.experiment_id], wanted):
            if run.data.tags.get("corpusmill.versions") == tags["corpusmill.versions"]:
                name: str = run.info.run_id
                return name
        return ""

    def _try(self, action: Callable[[], object]) -> None:
        """Call ``action``. If it fails for any reason, print a warning: training must not be lost."""
        try:
            action()
        except Exception as error:
            _LOG.warning(
                "MLflow: %s; training does not stop. What is missing is sent with the next epoch, or when the same "
                "training is called again",
                _cause(error),
            )


def _cause(error: Exception) -> str:
    """Return the kind and the text of an error. The text alone may be one word, such as that of a KeyError."""
    return f"{type(error).__name__}: {error}"


def _connect(tracking_uri: str | None) -> "MlflowClient":
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise ImportError("logging to MLflow needs its client: pip install 'corpusmill[mlflow]'") from None
    return MlflowClient(tracking_uri=tracking_uri)


def _parameters(meta: JsonObject) -> dict[str, str]:
    """Return what determines a run, by the keys of its configuration."""
    data = meta["data"]
    parameters = {
        "seed": str(meta["seed"]),
        "data": str(data.get("title", data["url"])),
        "data_hash": str(data["hash"]),
    }
    for section in SECTIONS:
        parameters |= dict(_flat(section, meta["config"].get(section) or {}))
    return parameters


def _flat(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the dotted names and the values of nested settings, as text."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}", item)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, default=to_json)


def _as_metrics(rows: Iterable[Metrics]) -> list["Metric"]:
    """Return the figures of some epochs as MLflow stores them: their step is the epoch."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    found = []
    for row in rows:
        for name, value in row.items():
            if name not in ("step", "epoch"):
                found.append(Metric(name, float(value), now, int(row["epoch"])))
    return found
