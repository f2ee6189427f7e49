"""Watching a run of another process: its status is read from its files, and no file is changed."""

import base64
import io
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.pipeline.commands.actions.watch import Watcher
from corpusmill.pipeline.commands.terminal.watch import chart_rows, draw, line
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.base.advice import TrainingWarning
from corpusmill.pipeline.models.registry import model_of_run
from corpusmill.pipeline.publishing.retrain import Listeners, retrain
from corpusmill.pipeline.topics import WordGroup
from corpusmill.pipeline.views.status import RunStatus
from helpers.command_line import COMMAND
from helpers.nightly import configuration, write_first_days
from helpers.toy import write_topic_corpus
from rich.cells import cell_len
from rich.console import Console


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("watch") / "corpus", 2)


def lda():
    return LDA(2, doc_topic_prior=0.1, max_iter=4, random_state=1)


def test_a_run_can_be_watched_while_it_trains_and_afterwards(corpus, tmp_path):
    run, seen = str(tmp_path / "run"), []

    def look(event):
        if isinstance(event, EpochFinished):
            seen.append(Watcher(run).look())

    fitted = lda().fit(corpus, run=run, callbacks=[look], evaluate_every=1)
    assert [(s.state, s.epoch, s.epochs) for s in seen] == [("running", e, 4) for e in (1, 2, 3, 4)]
    assert seen[1].shards == ["waiting"] * 4
    # The first two epochs say nothing about the others.
    assert seen[1].eta is None
    assert seen[2].eta > 0
    status = Watcher(run).look()
    assert (status.state, status.epoch, status.eta) == ("finished", 4, None)
    assert status.rows == fitted.history_
    assert len(status.groups) == 2
    assert [s.state for s in Watcher(run).follow()] == ["finished"]


def test_a_description_that_fails_is_tried_again(corpus, tmp_path):
    run = tmp_path / "run"
    lda().fit(corpus, run=str(run))
    watcher = Watcher(str(run))
    (run / "epochs").rename(run / "elsewhere")
    (run / "epochs" / "000004-0001").mkdir(parents=True)
    shutil.copy(run / "elsewhere" / "000004-0001" / "metrics.jsonl", run / "epochs" / "000004-0001")
    assert watcher.look().groups == []
    shutil.rmtree(run / "epochs")
    (run / "elsewhere").rename(run / "epochs")
    watcher._next_description = 0.0
    assert len(watcher.look().groups) == 2


def test_a_warning_of_the_training_is_not_repeated(corpus, tmp_path, recwarn):
    run = str(tmp_path / "run")
    with pytest.warns(TrainingWarning, match="n_components is 500"):
        LDA(500, max_iter=1).fit(corpus, run=run)
    assert len(Watcher(run).look().groups) > 0
    assert not [warning for warning in recwarn if issubclass(warning.category, TrainingWarning)]


def test_shards_with_all_states_on_disk_are_done(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().set_params(max_iter=1).fit(corpus, run=run)
    RunStore(run).write_state(2, 1, {})
    assert Watcher(run).look().shards == ["waiting", "done", "waiting", "waiting"]


def test_an_interrupted_run_is_stopped_and_its_model_can_be_read(corpus, tmp_path):
    run = str(tmp_path / "run")

    def interrupt(event):
        if isinstance(event, EpochFinished) and event.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lda().fit(corpus, run=run, callbacks=[interrupt])
    assert Watcher(run).look().state == "stopped"
    found = model_of_run(run)
    assert (found.n_iter_, len(found.history_), len(found.topics())) == (2, 2, 2)
    two = lda().set_params(max_iter=2).fit(corpus)
    assert found.components_.tolist() == two.components_.tolist()
    with pytest.raises(DataError, match="no epoch is committed"):
        RunStore(run).store.write_json("HEAD", {"step": 0, "owner": 1, "owners": {}})
        LDA.from_run(run)


def test_a_run_with_parameters_of_another_version_is_refused(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().fit(corpus, run=run)
    meta = RunStore(run).meta
    meta["config"]["model"]["dimension"] = 3
    RunStore(run).store.write_json("run.json", meta)
    for read in (model_of_run, LDA.from_run, lambda url: Watcher(url).look()):
        with pytest.raises(DataError, match="run: a model with the parameters 'dimension', which this version of"):
            read(run)


def test_watching_never_prevents_training(corpus, tmp_path):
    run, done = RunStore(str(tmp_path / "run")), threading.Event()
    with run.locked():
        pass

    def look():
        while not done.is_set():
            run.is_held  # noqa: B018

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(20):
            with run.locked():
                assert run.is_held
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()
    assert not run.is_held


def rendered(status, width):
    """Return the lines of the screen about a run on a terminal of this width, without colours."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(draw(status))
    return console.file.getvalue().splitlines()


def test_words_of_the_corpus_are_neither_markup_nor_commands_to_the_terminal():
    status = RunStatus(
        run="[red]x",
        algorithm="lda",
        state="running",
        groups=[WordGroup("1%", ["[bold]word[/]", "\x1b[2Jgone"])],
        epochs=2,
    )
    shown = "\n".join(rendered(status, 80))
    assert "lda [red]x" in shown
    assert "1%  [bold]word[/]  [2Jgone" in shown


@pytest.mark.parametrize("state, colour", [("running", 33), ("stopped", 31), ("failed", 31), ("finished", 32)])
def test_the_colour_of_the_state_says_whether_a_run_ended_as_intended(state, colour):
    console = Console(width=80, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(draw(RunStatus(run="runs/a", algorithm="lda", state=state, epochs=2)))
    assert f"\x1b[{colour}m{state}\x1b[0m" in console.file.getvalue()


@pytest.mark.parametrize("width", [60, 88, 140])
@pytest.mark.parametrize("epochs", [1, 7, 500])
def test_the_screen_is_as_wide_as_the_terminal_and_shows_everything(width, epochs):
    rows = [
        {
            "epoch": e,
            "seconds": 1.0,
            "seconds_kernel": 3.0,
            "seconds_read": 1.0,
            "tokens_per_second": 1e6 + e,
            "log_likelihood": -9 + e / epochs,
        }
        for e in range(1, epochs + 1)
    ]
    worker = {"tokens": 1e6, "seconds": 1}
    status = RunStatus("run", "lda", epochs, 1000, 0.0, 9, "running", ["done"] * 200, rows, {"worker-one": worker})
    status.groups = [WordGroup("word", ["long"] * 50)]
    lines = rendered(status, width)
    assert all(cell_len(shown) <= width for shown in lines)
    assert sum(shown.count("■") for shown in lines) == 200
    for expected in ("log-likelihood -8", "tokens per second", "computing", "75%", "worker-one", "long long"):
        assert any(expected in shown for shown in lines), expected


def test_a_cluster_without_a_run_is_described():
    assert rendered(RunStatus(), 80) == ["No run has started on this cluster yet."]


def test_a_chart_rises_with_its_values():
    rows = chart_rows([1.0, 2.0, 3.0], 30)
    filled = [[row[column] for row in rows].count("█") for column in range(30)]
    assert filled == sorted(filled)
    assert filled[0] == 0
    assert filled[-1] == 4
    assert rows[-1][0] == "▁"


@pytest.mark.slow
def test_without_a_terminal_plain_lines_are_printed(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().fit(corpus, run=run)
    done = subprocess.run([*COMMAND, "watch", run], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"lda \S+: finished, epoch 4 of 4, .* tokens/s, training -.*, held out -.*\n", done.stdout)
    status = json.loads(
        subprocess.run([*COMMAND, "watch", run, "--json"], capture_output=True, text=True, check=True).stdout
    )
    assert (status["state"], status["epoch"], status["eta_seconds"]) == ("finished", 4, None)
    # One line for programs: the last row of metrics, and how many shards are in which state.
    assert (status["metrics"]["epoch"], "rows" in status) == (4, False)
    assert set(status["shards"]) <= {"done", "waiting"}


def test_on_a_terminal_charts_are_drawn(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().fit(corpus, run=run)
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "90"}
    with subprocess.Popen([*COMMAND, "watch", run], stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 1 << 16):
                shown += piece
        except OSError:  # the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    for expected in ("finished", "█", "held-out log-likelihood", "so far", "w0"):
        assert expected in shown.decode()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--once",)])
def test_a_pipe_that_is_taken_for_a_terminal_gets_one_page(corpus, tmp_path, options):
    run = str(tmp_path / "run")
    lda().fit(corpus, run=run)
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": "90"}
    done = subprocess.run([*COMMAND, "watch", run, *options], capture_output=True, text=True, env=environment)
    assert done.stdout.count("finished") == 1
    assert "\x1b[2K" not in done.stdout, "nothing that is drawn again"


def test_watching_something_else_than_a_run_fails():
    with pytest.raises(DataError, match="no run here"):
        Watcher("nowhere").look()
    assert not Path("nowhere").exists()
    with pytest.raises(DataError, match="no dashboard of a run can be read here"):
        Watcher("http://127.0.0.1:1").look()


def test_the_folder_of_a_retrained_model_shows_the_run_of_the_night(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_first_days()
    seen, followed = [], Watcher("models").follow()

    def look(event):
        if isinstance(event, EpochFinished):
            seen.append(next(followed))

    retrain(configuration("lda"), listeners=Listeners(train=[look]))
    assert [(status.state, status.epoch) for status in seen] == [("running", 1), ("running", 2), ("running", 3)]
    assert not list(followed), "the run was deleted between two looks"
    with pytest.raises(DataError, match=r"^models: no call of retrain trains now; `corpusmill versions models` lists"):
        Watcher("models").look()


@pytest.fixture
def served():
    """Return a function that answers all requests with bytes, and a list of the requests."""
    with ThreadPoolExecutor() as pool, socket.create_server(("127.0.0.1", 0)) as server:

        def answer(content):
            connection, _ = server.accept()
            with connection:
                request = connection.recv(10_000).decode()
                connection.sendall(content)
            return request

        yield f"127.0.0.1:{server.getsockname()[1]}", lambda content: pool.submit(answer, content)


def test_a_dashboard_is_read_through_a_proxy(served):
    place, answer = served
    page = json.dumps(RunStatus("runs/a", "lda", 3, 13).as_json()).encode()
    request = answer(b"HTTP/1.0 200 OK\r\n\r\n" + page)
    assert Watcher(f"http://me:p%40ss@{place}/proxy/8787/training?token=x#top").look().run == "runs/a"
    lines = request.result().splitlines()
    assert lines[0] == "GET /proxy/8787/training.json?token=x HTTP/1.1"
    assert f"Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}" in lines


def test_the_port_of_a_scheduler_is_told_from_that_of_its_dashboard(served):
    place, answer = served
    answer(b":\x00\x00 no web server\r\n")
    with pytest.raises(
        DataError, match=f"^http://{place}/: no dashboard .* no web server answers; the port of"
    ) as error:
        Watcher(f"http://me:secret@{place}/").look()
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("place", "reason"),
    [("[bad", "Invalid IPv6 URL"), ("host:abc/", "nonnumeric port: 'abc'"), ("a b/", "URL can't contain control char")],
)
def test_an_address_that_is_no_url_is_named_without_its_password(place, reason):
    message = f"http://{place}: no dashboard of a run can be read here: {reason}"
    with pytest.raises(DataError, match=f"^{re.escape(message)}.*; check the address") as error:
        Watcher(f"http://me:secret@{place}").look()
    assert "secret" not in str(error.value)


def test_a_line_describes_the_state_of_a_run():
    rows = [{"epoch": 3, "seconds": 3.0, "tokens_per_second": 2e6, "held_out_log_likelihood": -7.5}]
    status = RunStatus("runs/a", "lda", 3, 13, 0.0, 9, "running", [], rows)
    assert line(status) == "lda runs/a: running, epoch 3 of 13 done, 2 M tokens/s, held out -7.5000, about 30 s left"
