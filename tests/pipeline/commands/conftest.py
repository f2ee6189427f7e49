"""Fixtures for tests of the command line."""

import json
import os
from pathlib import Path

import pytest
from corpusmill.pipeline.commands.cli.main import main
from helpers.nightly import BOATS, BREAD


@pytest.fixture
def call(capsys, monkeypatch):
    """Return a function that runs a command in this process: (exit code, stdout, stderr)."""
    for name in list(os.environ):
        if name.startswith("CORPUSMILL_") and "__" in name:
            monkeypatch.delenv(name)

    def run(*arguments):
        code = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as error:
            code = error.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with documents and a configuration, and the working directory in it."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text}) for _ in range(30) for text in (BOATS, BREAD)]
    Path("texts.jsonl").write_text("\n".join(lines))
    Path("my.yaml").write_text(
        "source: {path: texts.jsonl, stop_words: english}\n"
        "corpus: {url: corpus, held_out: 0.2, chunk_tokens: 100}\n"
        "model: {kind: lda, n_components: 2, doc_topic_prior: 0.1, max_iter: 4}\n"
        "run: {url: run, evaluate_every: 2}\n"
        "cluster: {kind: synchronous}\n"
    )
    return tmp_path


@pytest.fixture
def trained(project, call):
    code, out, err = call("run", "my.yaml", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)
