"""The live page: it updates during a run, shows no text as markup, and has the same numbers as its JSON and gauges."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from corpusmill import LDA
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.events import (
    EpochFinished,
    EpochStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    ShardSwept,
)
from corpusmill.pipeline.ingest.ingest import ingest
from corpusmill.pipeline.publishing.report import write_report
from corpusmill.pipeline.views.dashboard import publish
from distributed import Client
from helpers.browser import TEXT, Browser
from helpers.shell_cluster import shell_cluster

#: One row of metrics.
ROW = {"epoch": 1, "seconds": 1.0, "tokens_per_second": 1.0}


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


def status(client, run=""):
    return json.loads(fetch(client, f"training.json?run={urllib.parse.quote(run)}"))


def begin(client, run, *events, algorithm="lda", epoch=0, shards=3):
    """Publish the start of a run and the events after it; return the function that publishes more."""
    send = publish(client)
    for event in (RunStarted(run, algorithm, epoch, 7, shards, 900, {"total": 1 << 30}), *events):
        send(event)
    client.sync(send.finish)
    return send


@pytest.mark.slow
def test_the_pages_follow_a_run_and_execute_no_text_of_a_document(client, tmp_path):
    # Browsers do not run script elements that a page inserts later, but they run the error handlers of other elements.
    hostile = ["<script>document.title='broken'</script>", "<img/src=x/onerror=document.title='broken'>"]
    corpus = ingest([["boat", "sea"] * 5, hostile * 5] * 10, str(tmp_path / "corpus"), chunk_tokens=60)
    pause, seen = threading.Event(), []

    def wait_in_the_middle(event):
        if isinstance(event, EpochStarted) and event.epoch == 4:
            assert pause.wait(120)

    options = {"run": str(tmp_path / "run"), "evaluate_every": 1, "callbacks": [wait_in_the_middle]}
    thread = threading.Thread(target=LDA(2, max_iter=5).fit, args=(corpus, client), kwargs=options)
    # The browser may be faster than the training, and a page that does not exist yet is not loaded again.
    publish(client)
    thread.start()
    try:
        with Browser() as browser:
            browser.open(address(client, "training"))
            browser.wait(f"({TEXT}).includes('epoch 3 of 5 done')", 60)
            text = browser.evaluate(TEXT)
            assert text.count(" tokens/s") >= 2  # the legend of the curve, and at least one worker
            seen.append(status(client)["epoch"])
            pause.set()
            browser.wait(f"({TEXT}).includes('ended after epoch 5 of 5')", 60)
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
    final = status(client)
    assert (seen, final["algorithm"], final["epoch"], final["state"]) == ([3], "lda", 5, "epochs")
    assert [row["epoch"] for row in final["rows"]] == [1, 2, 3, 4, 5]


def test_the_gauges_have_the_numbers_of_the_status(client):
    pytest.importorskip("prometheus_client")
    begin(client, "runs/gauge", EpochFinished(2, {"epoch": 2, "seconds": 4.0, "tokens_per_second": 225.0}))
    lines = fetch(client, "metrics").splitlines()
    labels = '{algorithm="lda",run="runs/gauge"}'
    assert f"corpusmill_epoch{labels} 2.0" in lines
    assert f"corpusmill_tokens_per_second{labels} 225.0" in lines
    assert f"corpusmill_running{labels} 1.0" in lines


def test_the_progress_of_shards_is_sent_in_few_messages(client):
    n_before = len(client.get_events("corpusmill"))
    send = begin(client, "runs/many", EpochStarted(1, tuple(range(200))), shards=200)
    for shard in range(200):
        send(ShardSwept(1, shard, 4.5, "w0", {"kernel": 1.0}, 0))
    send(RunFinished("runs/many", 1, "epochs"))
    assert len(client.get_events("corpusmill")) - n_before <= 10
    found = status(client)
    assert found["shards"] == ["done"] * 200
    assert found["workers"]["w0"]["shards"] == 200


def test_every_metric_in_the_grafana_dashboard_is_exposed_with_its_labels(client):
    pytest.importorskip("prometheus_client")
    scores = {"log_likelihood": -7.0, "held_out_log_likelihood": -7.5}
    begin(client, "runs/gauge", EpochFinished(1, ROW | scores))
    exposed = fetch(client, "metrics")
    board = json.loads((Path(__file__).parents[3] / "configs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [variable["query"] for variable in board["templating"]["list"]]
    asked = {name for query in queries for name in re.findall(r"corpusmill_\w+", query)}
    assert len(asked) >= 8
    for name in asked:
        assert f'{name}{{algorithm="lda",run="runs/gauge"}}' in exposed


def test_every_metric_of_a_model_is_a_gauge(client):
    pytest.importorskip("prometheus_client")
    finished = EpochFinished(1, ROW | {"relative_error": 0.5, "seconds_read": 1.0})
    begin(client, "runs/nmf", finished, algorithm="nmf")
    figures = fetch(client, "metrics")
    assert 'corpusmill_relative_error{algorithm="nmf",run="runs/nmf"} 0.5' in figures
    assert "seconds_read" not in figures


def test_the_page_draws_the_metrics_of_the_model_and_fits_the_window(client):
    send = begin(client, "runs/nmf", algorithm="nmf")
    for epoch in (1, 2):
        measures = {"error": 900 / epoch, "relative_error": 0.5 / epoch, "held_out_relative_error": 0.6 / epoch}
        send(EpochFinished(epoch, ROW | {"epoch": epoch} | measures))
    titles = "[...document.querySelectorAll('.chart h3')].map(h => h.textContent).join()"
    for width in (420, 1400):
        with Browser(width) as browser:
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            browser.open(address(client, "training"))
            browser.wait(f"({titles}).includes('Relative error')", 60)
            assert "1.00 GiB planned, limit 2.00 GiB" in browser.evaluate(TEXT)
            assert browser.evaluate("document.querySelectorAll('.workers > div').length") == 2
            assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_counts_the_workers_that_were_lost(client):
    begin(client, "runs/lost")
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while status(client)["workers_lost"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client.wait_for_workers(2, timeout=60)
    assert status(client)["workers_lost"] == 1


def test_two_runs_at_the_same_time_are_told_apart(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        first = begin(client, "runs/first & one")
        second = begin(other, "runs/second", algorithm="nmf", shards=2)
        first(EpochFinished(4, ROW | {"epoch": 4}))
        client.sync(first.finish)
        gauges = fetch(client, "metrics").splitlines()
        shown = status(client)
        asked = status(client, "runs/first & one")
        with Browser() as browser:
            browser.open(address(client, "training"))
            browser.wait(f"({TEXT}).includes('NMF in runs/second')", 60)
            browser.open(browser.evaluate("document.querySelector('a[href*=first]').href"))
            browser.wait(f"({TEXT}).includes('LDA in runs/first & one')", 60)
        second(RunFinished("runs/second", 9, "epochs"))
        going_on = status(client)
    assert (shown["run"], shown["epoch"], shown["shards"]) == ("runs/second", 0, ["waiting"] * 2)
    assert (asked["run"], asked["epoch"]) == ("runs/first & one", 4)
    assert going_on["run"] == "runs/first & one"
    assert 'corpusmill_epoch{algorithm="lda",run="runs/first & one"} 4.0' in gauges
    assert 'corpusmill_epoch{algorithm="nmf",run="runs/second"} 0.0' in gauges
    assert sum(line.startswith("# TYPE corpusmill_epoch ") for line in gauges) == 1


def test_a_run_that_another_client_resumes_is_there_once(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        begin(client, "runs/resumed")
        begin(other, "runs/resumed", epoch=5)
        found = status(client, "runs/resumed")
        gauges = fetch(client, "metrics")
    assert found["epoch"] == 5
    assert gauges.count('corpusmill_epoch{algorithm="lda",run="runs/resumed"}') == 1


def test_a_client_that_leaves_in_mid_run_leaves_a_stopped_run(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        begin(other, "runs/left")
        assert status(client, "runs/left")["state"] == "running"
    deadline = time.monotonic() + 30
    while status(client, "runs/left")["state"] != "stopped":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert 'corpusmill_running{algorithm="lda",run="runs/left"} 0.0' in fetch(client, "metrics")


@pytest.mark.parametrize(("error", "state"), [(ZeroDivisionError, "failed"), (KeyboardInterrupt, "stopped")])
def test_a_run_that_ends_by_an_error_is_not_shown_as_running(client, error, state):
    def fail(event):
        if isinstance(event, EpochFinished) and event.epoch == 2:
            raise error

    with pytest.raises(error):
        LDA(2, max_iter=5).fit([["boat", "sea"]] * 9, client=client, callbacks=[fail])
    found = status(client)
    assert (found["state"], found["epoch"]) == (state, 1)


#: Trains a run that fails, and ends at once, as a process does that is killed after an error.
FAIL_AND_EXIT = """
import os, sys
from corpusmill import RunFailed, RunStarted
from corpusmill.pipeline.views.dashboard import publish
from distributed import Client

send = publish(Client(sys.argv[1]))
send(RunStarted("runs/exits", "lda", 0, 7, 3, 900, {}))
send(RunFailed("runs/exits", 0, "failed"))
os._exit(0)
"""


def test_a_process_that_exits_after_an_error_has_sent_it(client):
    subprocess.run([sys.executable, "-c", FAIL_AND_EXIT, client.scheduler.address], check=True)
    assert status(client, "runs/exits")["state"] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("event", [RunFailed("runs/mute", 0, "failed"), RunFinished("runs/mute", 1, "epochs")])
def test_a_scheduler_that_does_not_answer_holds_up_the_end_of_a_run_for_a_bounded_time(tmp_path, monkeypatch, event):
    monkeypatch.setattr("corpusmill.pipeline.views.dashboard.DELIVERY_SECONDS", 0.5)
    with shell_cluster(tmp_path) as (scheduler, file), Client(scheduler_file=str(file), set_as_default=False) as client:
        send = begin(client, "runs/mute")
        scheduler.send_signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            send(event)
            assert time.monotonic() - started < 30
        finally:
            scheduler.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_a_dashboard_below_a_prefix_has_the_page_where_the_menu_links_to_it(tmp_path):
    pytest.importorskip("bokeh")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        web = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = ("--dashboard", "--dashboard-address", web, "--dashboard-prefix", "/of/dask")
    with shell_cluster(tmp_path, scheduler=arguments) as (_, file), Client(scheduler_file=str(file)) as client:
        begin(client, "run")
        for page in ("training", "training/content", "training.json", "status"):
            with urllib.request.urlopen(f"http://{web}/of/dask/{page}") as answer:
                content = answer.read().decode()
        assert "training" in content


def test_the_page_accepts_no_input(client):
    request = urllib.request.Request(address(client, "training.json"), data=b"{}", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(request)
