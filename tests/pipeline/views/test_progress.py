"""What users see on stderr while a model is trained."""

import io
import re
from types import SimpleNamespace

import corpusmill
import pytest
from corpusmill.pipeline.engine.events import CellsTrained, EpochFinished, IngestProgress, RunStarted, ShardSwept
from corpusmill.pipeline.views import progress
from rich.console import Console

LONG_EPOCH = [
    RunStarted("runs/words", "word2vec", 0, 2, 1, 1000, {}),
    ShardSwept(1, 0, 100.0, "w0", {"kernel": 2.0}, 0),
    CellsTrained(1, 8, 150.0, "w1", {"kernel": 2.0}),
    EpochFinished(1, {"epoch": 1, "seconds": 4.0, "tokens_per_second": 250.0}),
]


INGEST = [
    IngestProgress("tokens", 0, 4, 0, 400_000_000),
    IngestProgress("tokens", 1, 4, 100_000_000, 400_000_000),
    IngestProgress("words", 0, 1, 400_000_000, 400_000_000),
    IngestProgress("chunks", 1, 2, 400_000_000, 400_000_000),
    IngestProgress("finished", 1, 1, 400_000_000, 400_000_000),
]


def test_a_long_ingest_writes_lines_about_its_bytes_and_the_remaining_time(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    display = corpusmill.ProgressLines()
    for step in INGEST:
        display(step)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"ingest: reading text, 100 of 400 MB, about \d\.\d s left", lines.pop(1))
    assert lines == ["ingest: reading text", "ingest: counting words", "ingest: writing chunks"]


@pytest.mark.parametrize("n_steps", [5, 3])
def test_the_remaining_time_of_a_second_ingest_does_not_count_the_first_one(n_steps, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    display = corpusmill.ProgressLines()
    # The first ingest ends, or fails before its last stage.
    for step in INGEST[:n_steps]:
        display(step)
    for seconds, step in zip((5000.0, 5010.0), INGEST, strict=False):
        now[0] = seconds
        display(step)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == ["ingest: reading text", "ingest: reading text, 100 of 400 MB, about 57 s left"]


def test_a_script_shows_the_progress_of_ingest_and_training(tmp_path, capsys):
    lines = corpusmill.ProgressLines()
    corpus = corpusmill.ingest([["boat", "sea"], ["bread", "oven"]] * 10, str(tmp_path / "corpus"), progress=lines)
    corpusmill.LDA(2, max_iter=3).fit(corpus, callbacks=[lines])
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "ingest: reading text"
    assert "train: 3 epochs over 40 tokens in 1 shard" in shown
    assert shown[-1].startswith("train: epoch 3/3, ")


def test_the_share_of_an_ingest_grows_from_stage_to_stage():
    shares = [progress.share_of_ingest(step) for step in INGEST[:-1]]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert sum(progress.STAGE_SHARES.values()) == 1
    assert list(progress.STAGE_SHARES) == list(progress.STAGES)


def test_a_long_epoch_writes_lines_about_its_parts(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    display = corpusmill.ProgressLines()
    for event in LONG_EPOCH:
        display(event)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:3] == ["train: epoch 1/2, 10% done", "train: epoch 1/2, 25% done"]


def test_a_short_epoch_writes_no_line_about_its_parts(capsys):
    display = corpusmill.ProgressLines()
    for event in LONG_EPOCH:
        display(event)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("train: epoch 1/2, 250 tokens/s")


def test_lines_repeat_the_last_quality_and_say_how_long_the_rest_takes(monkeypatch, capsys):
    times = iter(range(0, 1000, 100))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    display = corpusmill.ProgressLines()
    display(RunStarted("runs/topics", "lda", 0, 5, 1, 1000, {}))
    for epoch in range(1, 6):
        metrics = {"epoch": epoch, "seconds": 100.0, "tokens_per_second": 1e6}
        if epoch == 2:
            metrics |= {"tokens_per_second": 2e6, "held_out_log_likelihood": -7.5}
        display(EpochFinished(epoch, metrics))
    assert capsys.readouterr().err.splitlines()[1:] == [
        "train: epoch 1/5, 1 M tokens/s, about 6 min 40 s left",
        "train: epoch 2/5, 2 M tokens/s, held out -7.500, about 5 min left",
        "train: epoch 3/5, 1 M tokens/s, held out -7.500 of epoch 2, about 3 min 20 s left",
        "train: epoch 4/5, 1 M tokens/s, held out -7.500 of epoch 2, about 1 min 40 s left",
        "train: epoch 5/5, 1 M tokens/s, held out -7.500 of epoch 2",
    ]


def test_the_lines_about_a_second_model_do_not_depend_on_the_first(monkeypatch, capsys):
    times = iter(range(0, 10000, 100))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    display = corpusmill.ProgressLines()
    for run, metrics in [("runs/10", {"held_out_log_likelihood": -7.5}), ("runs/20", {"log_likelihood": -6.0})]:
        display(RunStarted(run, "lda", 0, 3, 1, 1000, {}))
        for epoch in range(1, 4):
            measured = {"epoch": epoch, "seconds": 100.0, "tokens_per_second": 1e6}
            display(EpochFinished(epoch, measured | metrics))
    assert capsys.readouterr().err.splitlines()[5:] == [
        "train: epoch 1/3, 1 M tokens/s, training -6.000, about 3 min 20 s left",
        "train: epoch 2/3, 1 M tokens/s, training -6.000, about 1 min 40 s left",
        "train: epoch 3/3, 1 M tokens/s, training -6.000",
    ]


def test_the_remaining_time_leaves_out_the_epochs_in_which_kernels_are_compiled(monkeypatch, capsys):
    times = iter([0, 0, 10, 40, 46, 54, 62])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    display = corpusmill.ProgressLines()
    display(RunStarted("runs/topics", "lda", 0, 10, 1, 1000, {}, compiles=True))
    for epoch, seconds in enumerate((30.0, 10.0, 6.0, 8.0, 8.0), start=1):
        display(EpochFinished(epoch, {"epoch": epoch, "seconds": seconds, "tokens_per_second": 1e6}))
    _, note, *lines = capsys.readouterr().err.splitlines()
    assert note == "train: compiling kernels first takes about 10 s; later trainings find them on disk"
    assert lines[1] == "train: epoch 2/10, 1 M tokens/s"
    assert lines[3:] == [
        "train: epoch 4/10, 1 M tokens/s, about 42 s left",
        "train: epoch 5/10, 1 M tokens/s, about 40 s left",
    ]


def test_a_bar_and_its_text_fit_into_eighty_columns():
    display = progress.BarDisplay()
    display(RunStarted("runs/topics", "lda", 0, 500, 1, 1000, {}))
    for epoch in range(1, 202):
        metrics = {"epoch": epoch, "seconds": 1.0, "tokens_per_second": 12.34e6}
        if epoch % 10 == 0:
            metrics["held_out_log_likelihood"] = -7.5
        display(EpochFinished(epoch, metrics))
    screen = io.StringIO()
    Console(width=80, file=screen).print(display.bars.get_renderable())
    line = screen.getvalue().rstrip("\n")
    assert len(line) <= 80
    text = "epoch 201, 12.3 M tokens/s, held out -7.500 4 min 59 s left"
    assert re.fullmatch(rf"train +━[━╸╺ ]* {re.escape(text)}", line)


@pytest.mark.parametrize(
    ("metrics", "quality"),
    [
        ({"loss": 2.48052, "alpha": 0.01}, "loss 2.4805"),
        ({"error": 128.67, "relative_error": 0.93731}, "relative error 0.9373"),
        ({"error": 128.67, "relative_error": 0.9, "held_out_relative_error": 0.95}, "held-out relative error 0.9500"),
        ({"error": 128.674}, "error 128.67"),
        ({"log_likelihood": -7.1234, "topics_used": 3}, "training -7.123"),
    ],
)
def test_every_model_shows_its_quality(metrics, quality):
    shown = progress.describe_metrics({"tokens_per_second": 1e6} | metrics)
    assert shown == f"1 M tokens/s, {quality}"


def test_the_training_error_does_not_replace_that_of_held_out_documents():
    first = progress.describe_metrics({"tokens_per_second": 1e6, "relative_error": 0.8, "held_out_relative_error": 0.9})
    second = progress.describe_metrics({"epoch": 2, "tokens_per_second": 2e6, "relative_error": 0.7}, first)
    assert second == "2 M tokens/s, held-out relative error 0.9000 of epoch 1"
    third = progress.describe_metrics({"epoch": 3, "tokens_per_second": 1e6, "relative_error": 0.6}, second)
    assert third == "1 M tokens/s, held-out relative error 0.9000 of epoch 1"
