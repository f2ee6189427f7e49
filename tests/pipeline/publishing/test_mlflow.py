"""The callback that logs to MLflow, with MLflow's own client and a database of runs in a file."""

import logging
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpusmill import LDA
from corpusmill.configs.schema import MLflowConfig
from corpusmill.pipeline.engine.events import EpochFinished, RunFinished
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.publishing.build import VersionBuilder
from corpusmill.pipeline.publishing.versions import Versions
from helpers.nightly import BOATS, BREAD, call, write_configuration, write_day

mlflow = pytest.importorskip("mlflow")
pytest.importorskip("sqlalchemy")

from corpusmill.pipeline.publishing.mlflow import SHORT_WAITS, MLflowCallback  # noqa: E402  # it needs MLflow

pytestmark = pytest.mark.slow

DOCUMENTS = [BOATS, BREAD] * 8


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """Return where runs are stored. All tests share the database, because MLflow takes seconds to make one."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def client(uri, tmp_path, monkeypatch):
    """Return MLflow's client, in an empty working directory, which receives the artifacts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return mlflow.MlflowClient(tracking_uri=uri)


@pytest.fixture
def experiment(client, tmp_path):
    """Return the name of a new experiment."""
    client.create_experiment(tmp_path.name, artifact_location=f"{tmp_path}/artifacts")
    return tmp_path.name


@pytest.fixture
def callback(uri, experiment):
    """Return a callback."""
    return MLflowCallback(experiment, tracking_uri=uri)


def epochs_of(client, run_id):
    """Return the epochs that a run of MLflow has, in the order of logging."""
    return [metric.step for metric in client.get_metric_history(run_id, "tokens_per_second")]


def runs_of(client, experiment):
    """Return the runs of an experiment, oldest first."""
    found = client.get_experiment_by_name(experiment)
    return client.search_runs([found.experiment_id], order_by=["attributes.start_time"])


def stop_after(epoch):
    """Return a callback that stops training after an epoch."""
    return lambda event: isinstance(event, EpochFinished) and event.epoch == epoch


@pytest.mark.filterwarnings("ignore:.*The ``noload`` loader strategy is deprecated")
def test_a_run_has_parameters_and_metrics_by_epoch_and_the_model_and_the_report(client, callback, tmp_path):
    model = LDA(2, max_iter=4, random_state=7).fit(DOCUMENTS, evaluate_every=2, callbacks=[callback])
    run = client.get_run(callback.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["model.n_components"] == "2"
    assert run.data.params["seed"] == "7"
    assert run.data.params["data"] == "documents in memory"
    assert epochs_of(client, callback.run_id) == [1, 2, 3, 4]
    scores = {m.step: m.value for m in client.get_metric_history(callback.run_id, "log_likelihood")}
    assert scores == {row["epoch"]: row["log_likelihood"] for row in model.history_ if "log_likelihood" in row}
    logged = load_model(client.download_artifacts(callback.run_id, "model", str(tmp_path)))
    assert logged.model_.digest() == model.model_.digest()
    report = client.download_artifacts(callback.run_id, "report.html", str(tmp_path))
    assert "LDA of documents in memory" in Path(report).read_text()


def test_a_resumed_run_continues_its_run_in_mlflow(client, callback, uri, experiment):
    LDA(2, max_iter=5).fit(DOCUMENTS, run="run", callbacks=[callback, stop_after(2)])
    again = MLflowCallback(experiment, tracking_uri=uri)
    LDA(2, max_iter=6).fit(DOCUMENTS, run="run", callbacks=[again])
    assert again.run_id == callback.run_id
    assert epochs_of(client, again.run_id) == [1, 2, 3, 4, 5, 6]
    run = client.get_run(again.run_id)
    # MLflow's parameters cannot be changed.
    assert run.data.params["model.max_iter"] == "5"
    assert run.data.tags["corpusmill.model.max_iter"] == "6"
    assert run.data.tags["corpusmill.ended"] == "epochs"


def test_epochs_that_were_trained_without_the_callback_are_logged_later(client, callback):
    LDA(2, max_iter=3).fit(DOCUMENTS, run="run")
    LDA(2, max_iter=4).fit(DOCUMENTS, run="run", callbacks=[callback])
    assert epochs_of(client, callback.run_id) == [1, 2, 3, 4]


@pytest.mark.parametrize(("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_a_run_that_ends_by_an_error_says_so_and_can_be_resumed(client, callback, error, status):
    def fail(event):
        if isinstance(event, EpochFinished) and event.epoch == 2:
            raise error

    with pytest.raises(error):
        LDA(2, max_iter=3).fit(DOCUMENTS, run="run", callbacks=[callback, fail])
    assert client.get_run(callback.run_id).info.status == status
    LDA(2, max_iter=3).fit(DOCUMENTS, run="run", callbacks=[callback])
    assert client.get_run(callback.run_id).info.status == "FINISHED"
    assert epochs_of(client, callback.run_id) == [1, 2, 3]


def test_training_goes_on_if_mlflow_refuses_figures(client, callback, caplog):
    def delete_its_run(event):
        if isinstance(event, EpochFinished) and event.epoch == 1:
            client.delete_run(callback.run_id)

    with caplog.at_level(logging.WARNING):
        model = LDA(2, max_iter=3).fit(DOCUMENTS, run="run", callbacks=[callback, delete_its_run])
    assert model.n_iter_ == 3
    assert "training does not stop" in caplog.text
    deleted = callback.run_id
    # The same call trains nothing, and logs what is missing.
    LDA(2, max_iter=3).fit(DOCUMENTS, run="run", callbacks=[callback])
    assert callback.run_id != deleted
    assert epochs_of(client, callback.run_id) == [1, 2, 3]


def test_training_goes_on_if_the_tracking_server_cannot_be_reached(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as unused:
        # Bound but not listening, so it refuses connections.
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with caplog.at_level(logging.WARNING):
            started = time.monotonic()
            model = LDA(2, max_iter=2).fit(DOCUMENTS, run="run", callbacks=[MLflowCallback(tracking_uri=uri)])
    assert model.n_iter_ == 2
    assert time.monotonic() - started < 60
    assert f"MLflow does not answer at {uri}: check mlflow.tracking_uri; training does not stop" in caplog.text
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ


def test_a_run_is_sent_when_the_tracking_server_answers_again(client, callback, monkeypatch):
    monkeypatch.setattr("corpusmill.pipeline.publishing.mlflow.SECONDS_BETWEEN_ATTEMPTS", 0.0)
    reachable = callback._client
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        callback._client = mlflow.MlflowClient(f"http://127.0.0.1:{unused.getsockname()[1]}")

        def restart_server(event):
            if isinstance(event, EpochFinished) and event.epoch == 2:
                assert callback.run_id == ""
                callback._client = reachable

        LDA(2, max_iter=4).fit(DOCUMENTS, run="run", callbacks=[callback, restart_server])
    assert epochs_of(client, callback.run_id) == [1, 2, 3, 4]
    assert client.get_run(callback.run_id).info.status == "FINISHED"


@pytest.mark.parametrize("answers", ["refuses", "hangs"])
def test_a_server_that_dies_in_mid_training_costs_a_bounded_wait_and_one_warning(
    callback, monkeypatch, caplog, answers
):
    monkeypatch.setitem(SHORT_WAITS, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    attempts = []
    monkeypatch.setattr(callback, "_send", lambda send=callback._send: attempts.append(time.monotonic()) or send())
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        if answers == "hangs":
            # Connections are accepted by the system, and nobody reads them.
            dead.listen(64)

        def kill_server(event):
            if isinstance(event, EpochFinished) and event.epoch == 2:
                callback._client = mlflow.MlflowClient(f"http://127.0.0.1:{dead.getsockname()[1]}")

        with caplog.at_level(logging.WARNING):
            started = time.monotonic()
            model = LDA(2, max_iter=40).fit(DOCUMENTS, run="run", callbacks=[kill_server, callback])
    assert model.n_iter_ == 40
    assert time.monotonic() - started < 20
    assert len(attempts) == 4, "at the start, after epoch 1, after epoch 2, and at the end"
    warnings = [record.getMessage() for record in caplog.records]
    assert ["MLflow does not answer at" in text for text in warnings] == [True, False], warnings
    assert "call the same training again to send the figures of the last epochs" in warnings[1]


def test_a_server_that_stays_away_is_tried_less_and_less(callback, monkeypatch):
    monkeypatch.setattr("corpusmill.pipeline.publishing.mlflow.time", SimpleNamespace(monotonic=lambda: 0.0))

    def fail():
        raise ConnectionError

    waits = []
    for _ in range(7):
        assert not callback._attempt(fail)
        waits.append(callback._next_attempt)
    assert waits == [60, 120, 240, 480, 960, 1800, 1800]
    assert callback._attempt(lambda: None)
    assert not callback._attempt(fail)
    assert callback._next_attempt == 60


def test_mlflow_prints_no_addresses_into_the_output_of_a_command(callback, monkeypatch):
    # MLflow prints them only if it has a server.
    terminate = callback._client.set_terminated
    seen = []

    def record(*arguments):
        seen.append(mlflow.environment_variables.MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get())
        terminate(*arguments)

    monkeypatch.setattr(callback._client, "set_terminated", record)
    LDA(2, max_iter=1).fit(DOCUMENTS, callbacks=[callback])
    assert seen == [True]


def test_training_and_its_status_are_kept_if_the_model_and_the_report_cannot_be_logged(client, callback, caplog):
    def hide_run(event):
        if isinstance(event, RunFinished):
            Path("run").rename("hidden")

    def restore_run(event):
        if isinstance(event, RunFinished):
            Path("hidden").rename("run")

    with caplog.at_level(logging.WARNING):
        model = LDA(2, max_iter=2).fit(DOCUMENTS, run="run", callbacks=[hide_run, callback, restore_run])
    assert model.n_iter_ == 2
    assert "no model of this run (DataError:" in caplog.text
    assert "no report of this run (DataError:" in caplog.text
    assert client.get_run(callback.run_id).info.status == "FINISHED"
    assert client.list_artifacts(callback.run_id) == []


def test_the_command_line_logs_to_mlflow_and_overwriting_starts_another_run(client, uri, experiment):
    write_day(1, DOCUMENTS)
    write_configuration("lda", run={"url": "run"}, mlflow={"experiment": experiment, "tracking_uri": uri})
    assert call("run", "my.yaml", "--json") == 0
    assert call("resume", "run", "--set", "model.max_iter=4", "--json") == 0
    assert call("run", "my.yaml", "--overwrite", "--json") == 0
    first, second = runs_of(client, experiment)
    assert [epochs_of(client, run.info.run_id) for run in (first, second)] == [[1, 2, 3, 4], [1, 2, 3]]
    assert first.data.params["source.path"] == "days/*.jsonl"
    assert [a.path for a in client.list_artifacts(second.info.run_id)] == ["model", "report.html"]


def test_a_deleted_experiment_does_not_stop_a_model_of_every_night(client, uri, experiment, caplog):
    write_configuration("lda", mlflow={"experiment": experiment, "tracking_uri": uri})
    client.delete_experiment(client.get_experiment_by_name(experiment).experiment_id)
    write_day(1, DOCUMENTS)
    with caplog.at_level(logging.WARNING):
        assert call("retrain", "my.yaml", "--json") == 0
    assert Versions("models").head.version == 1
    (warning,) = {record.getMessage() for record in caplog.records if "MLflow" in record.getMessage()}
    assert f"the experiment '{experiment}' was deleted: restore it" in warning
    assert "training does not stop" in warning


def test_retraining_logs_each_version(client, uri, experiment, tmp_path):
    write_day(1, DOCUMENTS)
    write_configuration("lda", mlflow={"experiment": experiment, "tracking_uri": uri})
    assert call("retrain", "my.yaml", "--json") == 0
    write_day(2, [BOATS] * 4)
    assert call("retrain", "my.yaml", "--dry-run", "--json") == 0
    assert call("retrain", "my.yaml", "--json") == 0
    assert call("retrain", "my.yaml", "--json") == 0
    runs = runs_of(client, experiment)
    assert [run.info.run_name for run in runs] == ["version 1", "version 2"]
    for number, run in enumerate(runs, 1):
        facts = Versions("models").read(number)
        assert run.data.tags["corpusmill.status"] == "published"
        assert run.data.tags["corpusmill.model_version"] == str(number)
        assert run.data.metrics["version_score"] == pytest.approx(facts["score"])
        logged = load_model(client.download_artifacts(run.info.run_id, "model", str(tmp_path)))
        assert logged.model_.digest() == load_model(Versions("models").model(number)).model_.digest()


@pytest.mark.parametrize("place", ["Versions.publish", "VersionBuilder._facts", "MLflowCallback.log_version"])
def test_a_killed_retrain_logs_its_version_once(client, uri, experiment, monkeypatch, place):
    def kill(*arguments):
        raise KeyboardInterrupt

    write_day(1, DOCUMENTS)
    write_configuration("lda", mlflow={"experiment": experiment, "tracking_uri": uri})
    owner, name = place.split(".")
    with monkeypatch.context() as killing:
        killing.setattr({"Versions": Versions, "VersionBuilder": VersionBuilder}.get(owner, MLflowCallback), name, kill)
        assert call("retrain", "my.yaml", "--json") == 130
    for _ in range(2):
        assert call("retrain", "my.yaml", "--json") == 0
    (run,) = runs_of(client, experiment)
    assert (run.info.run_name, run.info.status) == ("version 1", "FINISHED")
    assert run.data.tags["corpusmill.status"] == "published"
    assert run.data.metrics["version_documents"] == Versions("models").read(1)["documents"]
    assert sorted(a.path for a in client.list_artifacts(run.info.run_id)) == ["model", "report.html"]


def test_a_version_that_mlflow_lacks_is_logged_when_it_answers_again(client, uri, experiment):
    write_day(1, DOCUMENTS)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
        write_configuration("lda", mlflow={"experiment": experiment, "tracking_uri": dead})
        assert call("retrain", "my.yaml", "--json") == 0
    answering = f"mlflow.tracking_uri={uri}"
    assert call("retrain", "my.yaml", "--set", answering, "--json") == 0
    (run,) = runs_of(client, experiment)
    assert (run.info.run_name, run.info.status) == ("version 1", "FINISHED")
    assert [a.path for a in client.list_artifacts(run.info.run_id)] == ["model", "report.html"]


def test_a_version_that_only_forgets_documents_is_logged_too(client, uri, experiment):
    write_day(1, DOCUMENTS)
    write_day(2, DOCUMENTS)
    write_configuration("random-indexing", mlflow={"experiment": experiment, "tracking_uri": uri})
    assert call("retrain", "my.yaml", "--json") == 0
    Path("days/2026-11-02.jsonl").unlink()
    assert call("retrain", "my.yaml", "--json") == 0
    second = runs_of(client, experiment)[1]
    assert second.info.run_name == "version 2"
    assert second.info.status == "FINISHED"
    assert [a.path for a in client.list_artifacts(second.info.run_id)] == ["model", "report.html"]


def test_a_configuration_stores_no_password_of_the_tracking_server(uri, client, capsys):
    write_day(1, DOCUMENTS)
    write_configuration("lda", mlflow={"tracking_uri": "postgresql://me:secret@host/runs"})
    assert call("run", "my.yaml") == 2
    assert "MLFLOW_TRACKING_URI" in capsys.readouterr().err


@pytest.mark.parametrize("uri", ["postgresql://me:secret@host/runs", "postgresql://me:with/slash@host/runs"])
def test_a_tracking_uri_with_a_password_is_refused(uri):
    with pytest.raises(ValueError, match="MLFLOW_TRACKING_URI"):
        MLflowConfig(tracking_uri=uri)


def test_the_path_of_a_database_of_runs_may_contain_an_at_sign():
    uri = "sqlite:////home/a@b/mlflow.db"
    assert MLflowConfig(tracking_uri=uri).tracking_uri == uri
