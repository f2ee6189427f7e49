"""Training runs in MLflow: parameters, metrics by epoch, the model and the report, through MLflow's own client."""

import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from ...configs.redact import redact_urls
from ...io.extras import needing
from ...io.stores.store import JsonObject, to_json
from ..engine.algorithm import Metrics
from ..engine.events import EpochFinished, Event, RunFailed, RunFinished, RunStarted
from ..engine.run import RunStore, config_section
from ..models.base.estimator import Estimator
from ..models.registry import load_model, model_of_run
from ..views.pages.page import flatten
from .report import write_report
from .versions import Versions

if TYPE_CHECKING:
    from mlflow.entities import Metric

#: File in the folder of a run that names its run in MLflow. A run that is resumed continues that one.
LINK_FILE = "mlflow.json"
#: Tag of a run in MLflow: the folder of the run.
RUN_TAG = "corpusmill.run"
#: Sections of a configuration whose keys become parameters: they determine the model.
PARAMETER_SECTIONS = ("model", "source", "corpus")
#: A metric that every epoch has. Its history says which epochs are logged already.
METRIC_OF_EVERY_EPOCH = "training_seconds"
#: Most parameters and metrics that MLflow takes in one request.
MOST_PARAMETERS = 100
MOST_METRICS = 1000
#: MLflow's settings while training waits for its answer. Its own make training wait minutes for a server that is down.
#: Nothing is lost without retries, because what was not sent waits for the next attempt.
SHORT_WAITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
#: Settings for uploads. A server may need long to answer one, so the timeout is MLflow's own.
UPLOADS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
#: Lets MLflow print no addresses at the end of a run: the output of a command may be JSON for a program.
WITHOUT_ADDRESSES = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
#: Codes of MLflow's errors if a server does not answer, or answers that it cannot now.
NO_ANSWER = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE")
#: Seconds from one attempt to reach a server that did not answer until the next. They double with each attempt.
SECONDS_BETWEEN_ATTEMPTS = 60.0
MOST_SECONDS_BETWEEN_ATTEMPTS = 1800.0

_LOG = logging.getLogger(__name__)


class ExperimentDeleted(Exception):
    """Somebody has deleted the experiment in MLflow."""


class MLflowCallback:
    """Logs training to MLflow. Pass it to ``fit`` as a callback.

    A run of corpusmill becomes a run of MLflow: its parameters, the metrics of each epoch, and at the end the folder of
    the model and the report. The run's folder names the run of MLflow, so training that is resumed continues it. Epochs
    that are missing there are logged as well.

    If the tracking server does not answer, training goes on, and the figures are sent when it answers.

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
    >>> from corpusmill.pipeline.publishing.mlflow import MLflowCallback
    >>> LDA(20).fit("corpus", run="runs/articles", callbacks=[MLflowCallback("articles")])  # doctest: +SKIP
    """

    def __init__(
        self, experiment: str = "corpusmill", *, tracking_uri: str | None = None, run_name: str | None = None
    ) -> None:
        self.experiment = experiment
        self.run_name = run_name
        self.run_id = ""
        with needing("mlflow", "corpusmill[mlflow]", "logging to MLflow"):
            from mlflow import MlflowClient
        self._client = MlflowClient(tracking_uri=tracking_uri)
        #: URL of the run whose run of MLflow has the status RUNNING; empty if there is none.
        self._running = ""
        self._waiting: list[Metric] = []
        #: The start of a run that MLflow does not have yet, because it did not answer.
        self._unsent_start: RunStarted | None = None
        #: Number of attempts since MLflow answered last, and the time of the next one.
        self._failures = 0
        self._next_attempt = 0.0
        self._last_warning = ""

    def __call__(self, event: Event) -> None:
        """Log one event of a run."""
        if isinstance(event, RunStarted):
            self._waiting = []
            self._unsent_start = event
            # If MLflow answers with an error, training does not begin. But who tidies up in MLflow must not stop a
            # model that is retrained every night.
            try:
                is_started = self._attempt(self._start)
            except ExperimentDeleted:
                self._attempt_or_warn(self._start)
                return
            if is_started:
                self._attempt_or_warn(self._send)
        elif isinstance(event, EpochFinished):
            self._waiting += _as_metrics([event.metrics])
            if time.monotonic() >= self._next_attempt:
                self._attempt_or_warn(self._catch_up)
        elif isinstance(event, RunFinished):
            self._attempt_or_warn(self._catch_up)
            if self._unsent_start is not None and not self._failures:
                return
            if self._failures:
                _LOG.warning(
                    "MLflow did not answer until the end of training: call the same training again to send the figures "
                    "of the last epochs, the model and the report"
                )
                return
            self._attempt_or_warn(lambda: self._finish(event))
        elif isinstance(event, RunFailed) and event.run == self._running:
            status = "KILLED" if event.reason == "stopped" else "FAILED"
            self._attempt_or_warn(lambda: self._terminate(status))
            self._running = ""

    # --- a run ---

    def _catch_up(self) -> None:
        """Send what MLflow does not have yet: the start of the run, and the metrics of its epochs."""
        self._start()
        self._send()

    def _start(self) -> None:
        """Continue the run of MLflow that belongs to this run, or create one, unless that is done."""
        event = self._unsent_start
        if event is None:
            return
        with _settings(SHORT_WAITS):
            run = RunStore(event.run)
            meta = run.meta
            self.run_id = self._linked(run)
            if self.run_id:
                self._client.update_run(self.run_id, status="RUNNING")
            else:
                self.run_id = self._create(
                    {RUN_TAG: redact_urls(run.store.absolute), "corpusmill.model": meta["algorithm"]}
                )
                run.store.write_json(LINK_FILE, {"run_id": self.run_id})
            self._running = event.run
            self._log_parameters(_parameters(meta))
            logged = self._client.get_metric_history(self.run_id, METRIC_OF_EVERY_EPOCH)
        last = max((metric.step for metric in logged), default=0)
        rows = {row["epoch"]: row for row in event.history}
        missing = _as_metrics(row for epoch, row in rows.items() if last < epoch <= event.epoch)
        # Epochs that were trained since the event wait already.
        self._waiting = missing + self._waiting
        self._unsent_start = None

    def _linked(self, run: RunStore) -> str:
        """Return the run of MLflow that a run names; empty if there is none or if it was deleted there."""
        from mlflow.exceptions import MlflowException

        if not run.store.exists(LINK_FILE):
            return ""
        run_id: str = run.store.read_json(LINK_FILE)["run_id"]
        try:
            found = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return ""
        if found.info.lifecycle_stage != "active":
            return ""
        return run_id

    def _create(self, tags: Mapping[str, str]) -> str:
        """Create a run of MLflow in the experiment, and return its id."""
        found = self._client.get_experiment_by_name(self.experiment)
        if found and found.lifecycle_stage != "active":
            raise ExperimentDeleted(
                f"the experiment {self.experiment!r} was deleted: restore it (mlflow experiments restore), or set "
                f"mlflow.experiment to another name"
            )
        experiment = found.experiment_id if found else self._client.create_experiment(self.experiment)
        all_tags = {"corpusmill.version": version("corpusmill"), **tags}
        run_id: str = self._client.create_run(experiment, tags=all_tags, run_name=self.run_name).info.run_id
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
        """Send the metrics of the epochs that MLflow does not have yet."""
        with _settings(SHORT_WAITS):
            while self._waiting:
                self._client.log_batch(self.run_id, metrics=self._waiting[:MOST_METRICS])
                del self._waiting[:MOST_METRICS]

    def _finish(self, event: RunFinished) -> None:
        """Log the model, the report and the status. One that fails does not prevent the next."""
        with _settings(UPLOADS):
            try:
                self.log_model(model_of_run(event.run))
            except Exception as error:
                _LOG.warning(
                    "MLflow has no model of this run (%s): call log_model with the trained model", _cause(error)
                )
            try:
                self._log_report(event.run)
            except Exception as error:
                _LOG.warning("MLflow has no report of this run (%s); training does not stop", _cause(error))
        with _settings(SHORT_WAITS):
            self._client.set_tag(self.run_id, "corpusmill.ended", event.reason)
        self._terminate("FINISHED")
        self._running = ""

    def _terminate(self, status: str) -> None:
        """Set the status of the run and the time of its end."""
        with _settings(SHORT_WAITS | WITHOUT_ADDRESSES):
            self._client.set_terminated(self.run_id, status)

    def log_model(self, model: Estimator) -> None:
        """Log the folder of a trained model as the artifact ``model``.

        This happens by itself when training ends, except for a model of documents in memory, which no longer exist
        then.

        Parameters
        ----------
        model : LDA, NMF, Word2Vec, Node2Vec, FastRP or RandomIndexing
            The trained model. It belongs to the run of MLflow that was logged last.

        Examples
        --------
        >>> from corpusmill import LDA, MLflowCallback
        >>> callback = MLflowCallback("articles", tracking_uri="sqlite:///mlflow.db")
        >>> lda = LDA(n_components=2, max_iter=2).fit(["one fish", "two fish"], callbacks=[callback])
        >>> callback.log_model(lda)
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

        If nothing was retrained, the version in use is logged unless MLflow has it. It lacks it if an earlier call was
        killed, or if MLflow did not answer.

        Parameters
        ----------
        url : str
            Folder or URL of the versions.
        facts : mapping
            The result of ``corpusmill retrain``: version, status, model, score and others.

        Examples
        --------
        >>> from corpusmill import MLflowCallback
        >>> facts = {"version": 1, "status": "published", "model": "retrain/model"}
        >>> MLflowCallback("articles").log_version("retrain", facts)  # doctest: +SKIP
        """
        self._attempt_or_warn(lambda: self._log_version(url, facts))

    def _log_version(self, url: str, facts: Mapping[str, object]) -> None:
        number = int(str(facts["version"]))
        record = Versions(url).read(number)
        status = str(facts["status"])
        tags = {"corpusmill.versions": redact_urls(url), "corpusmill.model_version": str(number)}
        with _settings(SHORT_WAITS):
            if status == "unchanged":
                status = "published"
                if self._find(tags):
                    return
            # There was no training if an earlier call was killed after it, or if documents were only subtracted.
            training = redact_urls(Versions(url).store.child(f"runs/{record['name']}/run").absolute)
            if not self.run_id:
                self.run_id = self._find(tags) or self._find({RUN_TAG: training}) or self._create({RUN_TAG: training})
            has_model = bool(self._client.list_artifacts(self.run_id))
        if not has_model:
            with _settings(UPLOADS):
                self.log_model(load_model(str(facts["model"])))
                self._log_report(str(facts["model"]))
            self._terminate("FINISHED")
        with _settings(SHORT_WAITS):
            for name in ("score", "score_before", "documents", "tokens", "words", "new_words"):
                figure = record.get(name)
                if isinstance(figure, int | float):
                    self._client.log_metric(self.run_id, f"version_{name}", figure)
            self._client.update_run(self.run_id, name=f"version {number}")
            # The number of the version comes last: a run that has it is complete.
            for name, value in ({"corpusmill.status": status} | tags).items():
                self._client.set_tag(self.run_id, name, value)

    def _find(self, tags: Mapping[str, str]) -> str:
        """Return the latest run of MLflow with these tags; empty if there is none."""
        found = self._client.get_experiment_by_name(self.experiment)
        if not found:
            return ""
        wanted = " and ".join(f"tags.`{name}` = {_quoted(value)}" for name, value in tags.items())
        runs = self._client.search_runs([found.experiment_id], wanted, order_by=["attributes.start_time DESC"])
        if not runs:
            return ""
        run_id: str = runs[0].info.run_id
        return run_id

    # --- a server that does not answer ---

    def _attempt_or_warn(self, action: Callable[[], object]) -> None:
        """Call ``action``. If it fails for any reason, print a warning: training must not be lost."""
        try:
            self._attempt(action)
        except Exception as error:
            cause = _cause(error)
            # If a run was deleted, each epoch meets the same error: warn once.
            if cause != self._last_warning:
                self._last_warning = cause
                _LOG.warning(
                    "MLflow: %s; training does not stop. What is missing is sent with the next epoch, or when the same "
                    "training is called again",
                    cause,
                )

    def _attempt(self, action: Callable[[], object]) -> bool:
        """Call ``action``; return whether MLflow answered. The first time that it does not, print a warning."""
        from mlflow.exceptions import MlflowException

        try:
            action()
        except (MlflowException, OSError) as error:
            # Any other error is an answer.
            if isinstance(error, MlflowException) and error.error_code not in NO_ANSWER:
                raise
            pause = min(SECONDS_BETWEEN_ATTEMPTS * 2**self._failures, MOST_SECONDS_BETWEEN_ATTEMPTS)
            self._next_attempt = time.monotonic() + pause
            self._failures += 1
            if self._failures == 1:
                _LOG.warning(
                    "MLflow does not answer at %s: check mlflow.tracking_uri; training does not stop, and its figures "
                    "are sent when MLflow answers, or when the same training is called again",
                    redact_urls(self._client.tracking_uri),
                )
            return False
        self._failures = 0
        self._next_attempt = 0.0
        return True


def _quoted(value: str) -> str:
    """Return a value in the quotes of MLflow's filters, which have no escapes."""
    quote = "'"
    if quote in value:
        quote = '"'
    return f"{quote}{value}{quote}"


def _cause(error: Exception) -> str:
    """Return the kind and the text of an error. The text alone may be one word, such as that of a KeyError."""
    if isinstance(error, ExperimentDeleted):
        return str(error)
    return f"{type(error).__name__}: {error}"


@contextmanager
def _settings(wanted: Mapping[str, str]) -> Iterator[None]:
    """Give settings to MLflow's client, except where the environment has the user's own."""
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _parameters(meta: JsonObject) -> dict[str, str]:
    """Return the seed, the data and the model's parameters of a run, by the keys of its configuration."""
    data = meta["data"]
    parameters = {
        "seed": str(meta["seed"]),
        "data": str(data.get("title", data["url"])),
        "data_hash": str(data["hash"]),
    }
    for section in PARAMETER_SECTIONS:
        for name, value in flatten({section: config_section(meta, section)}).items():
            parameters[name] = value if isinstance(value, str) else json.dumps(value, default=to_json)
    return parameters


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
