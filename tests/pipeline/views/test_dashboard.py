"""The live page: it updates while a run goes on, shows no text as markup, and says the same in JSON and metrics."""

import json
import re
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from corpusmill import LDA
from corpusmill.pipeline.commands.actions.report import write_report
from corpusmill.pipeline.engine.clusters import open_cluster
from corpusmill.pipeline.engine.events import (
    Described,
    EpochFinished,
    EpochStarted,
    RunFinished,
    RunStarted,
    ShardSwept,
)
from corpusmill.pipeline.ingest.ingest import IngestOptions, ingest
from corpusmill.pipeline.views.dashboard import publish
from corpusmill.pipeline.views.status import RunStatus, event_from_message, event_message
from helpers.browser import TEXT, Browser

#: Text of the page; bokeh draws inside shadow roots.
ROW = {"epoch": 1, "seconds": 1.0, "tokens_per_second": 1.0}
EVENTS = [
    RunStarted("runs/news", "lda", 0, 10, 3, 900, {"total": 1}),
    EpochStarted(1, (0, 1, 2)),
    ShardSwept(1, 0, 300, "w0", {"read": 1.0, "kernel": 2.0, "write": 0.0}, 0),
    ShardSwept(1, 1, 300, "w1", {"read": 0.0, "kernel": 2.0, "write": 0.0}, 2),
]


def status_after(events):
    status = RunStatus()
    for event in events:
        status.update(event)
    return status


def test_a_status_follows_the_events():
    status = status_after(EVENTS)
    assert status.shards == ["done", "cached", "waiting"]
    assert status.state == "running"
    assert status.workers["w0"] == {"tokens": 300, "seconds": 3.0, "shards": 1}
    status.update(EpochFinished(1, {"epoch": 1, "seconds": 4.0, "tokens_per_second": 225.0}))
    assert status.eta == 36.0
    status.update(RunFinished("runs/news", 10, "converged"))
    assert status.state == "converged"
    assert status.eta is None


def test_a_new_run_replaces_the_status_of_the_last_one():
    status = status_after([*EVENTS, RunStarted("runs/other", "lda", 4, 10, 2, 50, {})])
    assert status.shards == ["waiting", "waiting"]
    assert status.workers == {}
    assert status.rows == []
    assert status.epoch == 4


def test_a_run_that_is_resumed_shows_its_earlier_epochs():
    history = ({"epoch": 1, "seconds": 4.0}, {"epoch": 2, "seconds": 2.0})
    status = status_after([RunStarted("runs/news", "lda", 2, 10, 3, 900, {}, history=history)])
    assert [row["epoch"] for row in status.rows] == [1, 2]
    assert status.eta == 24.0


@pytest.mark.parametrize("event", [*EVENTS, Described(1, ["a topic"]), RunFinished("runs/news", 10, "converged")])
def test_an_event_travels_as_plain_values(event):
    message = json.loads(json.dumps(event_message(event)))
    status, received = status_after(EVENTS), status_after(EVENTS)
    status.update(event, at=7.0)
    received.update(event_from_message(message), at=7.0)
    assert received == status


def test_an_event_of_another_version_is_ignored():
    assert event_from_message({"type": "Invented", "time": 1.0, "fields": {}}) is None


def test_the_status_of_a_run_is_json():
    status = status_after(EVENTS)
    read_back = json.loads(json.dumps(status.as_json()))
    assert read_back["state"] == status.state == "running"
    assert read_back["epoch"] == status.epoch
    assert read_back["workers"] == status.workers


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("bokeh")
    with open_cluster("local", n_workers=2, memory_limit="2GiB", dashboard_address="127.0.0.1:0") as client:
        yield client


def address(client, path):
    return f"{client.dashboard_link.rsplit('/', 1)[0]}/{path}"


def fetch(client, path):
    with urllib.request.urlopen(address(client, path)) as answer:
        return answer.read().decode()


def test_the_pages_follow_a_run_and_run_nothing_that_a_document_says(client, tmp_path):
    # Markup that a page writes into itself later runs no script element, but it does run what an element does on error.
    hostile = ["<script>document.title='broken'</script>", "<img/src=x/onerror=document.title='broken'>"]
    corpus = ingest([["boat", "sea"] * 5, hostile * 5] * 10, str(tmp_path / "corpus"), IngestOptions(chunk_tokens=60))
    pause, seen = threading.Event(), []

    def wait_in_the_middle(event):
        if isinstance(event, EpochStarted) and event.epoch == 4:
            assert pause.wait(120)

    options = {"run": str(tmp_path / "run"), "evaluate_every": 1, "callbacks": [wait_in_the_middle]}
    thread = threading.Thread(target=LDA(2, max_iter=5).fit, args=(corpus, client), kwargs=options)
    thread.start()
    try:
        with Browser() as browser:
            browser.open(address(client, "training"))
            browser.wait(f"({TEXT}).includes('epoch 3 of 5')", 60)
            text = browser.evaluate(TEXT)
            seen.append(json.loads(fetch(client, "training.json"))["epoch"])
            pause.set()
            browser.wait(f"({TEXT}).includes('epoch 5 of 5')", 60)
            assert browser.evaluate("document.title") == "corpusmill: training"
            thread.join()
            browser.open(f"file://{write_report(options['run'])}")
            browser.wait("document.title.startsWith('LDA of') && document.readyState === 'complete'")
            reported = browser.evaluate(TEXT)
            assert browser.evaluate("document.title.startsWith('LDA of')")
    finally:
        pause.set()
        thread.join()
    assert all(word in text and word in reported for word in hostile)
    final = json.loads(fetch(client, "training.json"))
    assert (seen, final["algorithm"], final["epoch"], final["state"]) == ([3], "lda", 5, "epochs")
    assert [row["epoch"] for row in final["rows"]] == [1, 2, 3, 4, 5]


def test_prometheus_has_the_same_figures(client):
    pytest.importorskip("prometheus_client")
    publish(client)
    client.log_event("corpusmill", event_message(RunStarted("runs/gauge", "lda", 0, 7, 3, 900, {})))
    client.log_event(
        "corpusmill", event_message(EpochFinished(2, {"epoch": 2, "seconds": 4.0, "tokens_per_second": 225.0}))
    )
    lines = fetch(client, "metrics").splitlines()
    labels = '{algorithm="lda",run="runs/gauge"}'
    assert f"corpusmill_epoch{labels} 2.0" in lines
    assert f"corpusmill_tokens_per_second{labels} 225.0" in lines
    assert f"corpusmill_running{labels} 1.0" in lines


def test_grafana_asks_for_metrics_that_are_exposed_with_their_labels(client):
    pytest.importorskip("prometheus_client")
    publish(client)
    scores = {"log_likelihood": -7.0, "held_out_log_likelihood": -7.5}
    client.log_event("corpusmill", event_message(RunStarted("runs/gauge", "lda", 0, 7, 3, 900, {})))
    client.log_event("corpusmill", event_message(EpochFinished(1, ROW | scores)))
    exposed = fetch(client, "metrics")
    board = json.loads((Path(__file__).parents[3] / "configs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [variable["query"] for variable in board["templating"]["list"]]
    asked = {name for query in queries for name in re.findall(r"corpusmill_\w+", query)}
    assert len(asked) >= 8
    for name in asked:
        assert f'{name}{{algorithm="lda",run="runs/gauge"}}' in exposed


def test_every_measure_of_a_model_is_a_gauge(client):
    pytest.importorskip("prometheus_client")
    publish(client)
    client.log_event("corpusmill", event_message(RunStarted("runs/nmf", "nmf", 0, 7, 3, 900, {})))
    client.log_event("corpusmill", event_message(EpochFinished(1, ROW | {"relative_error": 0.5, "seconds_read": 1.0})))
    figures = fetch(client, "metrics")
    assert 'corpusmill_relative_error{algorithm="nmf",run="runs/nmf"} 0.5' in figures
    assert "seconds_read" not in figures


def test_the_page_draws_what_the_model_measures(client):
    publish(client)
    client.log_event("corpusmill", event_message(RunStarted("runs/nmf", "nmf", 0, 7, 3, 900, {})))
    for epoch in (1, 2):
        measures = {"error": 900 / epoch, "relative_error": 0.5 / epoch, "held_out_relative_error": 0.6 / epoch}
        client.log_event("corpusmill", event_message(EpochFinished(epoch, ROW | {"epoch": epoch} | measures)))
    sources = """Bokeh.documents[0].all_models ? [...Bokeh.documents[0].all_models].filter(
        m => m.type === 'LegendItem' && m.visible).map(m => m.label.value).join() : ''"""
    for width in (420, 1400):
        with Browser(width) as browser:
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            browser.open(address(client, "training"))
            browser.wait(f"window.Bokeh && Bokeh.documents.length && ({sources}).includes('relative error')", 60)
            assert browser.evaluate(sources).startswith("relative error,held-out relative error,")
            assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_takes_no_orders(client):
    request = urllib.request.Request(address(client, "training.json"), data=b"{}", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(request)
