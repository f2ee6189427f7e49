"""What users see on stderr while a model is trained."""

from corpusmill.pipeline.engine.events import CellsTrained, EpochFinished, RunStarted, ShardSwept
from corpusmill.pipeline.views import progress

LONG_EPOCH = [
    RunStarted("runs/words", "word2vec", 0, 2, 1, 1000, {}),
    ShardSwept(1, 0, 100.0, "w0", {"kernel": 2.0}, 0),
    CellsTrained(1, 8, 150.0, "w1", {"kernel": 2.0}),
    EpochFinished(1, {"epoch": 1, "seconds": 4.0, "tokens_per_second": 250.0}),
]


def test_a_long_epoch_writes_lines_about_its_parts(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    display = progress.LineDisplay()
    for event in LONG_EPOCH:
        display.train(event)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:3] == ["train: epoch 1/2, 10% done", "train: epoch 1/2, 25% done"]


def test_a_short_epoch_writes_no_line_about_its_parts(capsys):
    display = progress.LineDisplay()
    for event in LONG_EPOCH:
        display.train(event)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("train: epoch 1/2, 250 tokens/s")
