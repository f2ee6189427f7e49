"""What macOS and Windows lack is not needed. This is simulated: nothing of it ran on these systems."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpusmill import Word2Vec, ingest
from helpers.source_tree import ROOT

pytestmark = pytest.mark.slow

TRAINING = """
source: {path: articles.jsonl}
corpus: {url: corpus, held_out: 0}
model: {kind: word2vec, vector_size: 8, epochs: 3, min_count: 1, n_blocks: 2}
run: {url: run}
cluster: {kind: local, n_workers: 1, memory_limit: 2GiB}
"""


@pytest.fixture
def call(tmp_path, monkeypatch, request):
    """Return a function that calls the command in a process without what a system lacks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "helpers" / "other_system"))
    monkeypatch.setenv("CORPUSMILL_TEST_SYSTEM", request.param)

    def run(*words):
        command = [sys.executable, "-m", "corpusmill", *words]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False, timeout=250)

    return run


@pytest.mark.parametrize("call", ["macos", "windows"], indirect=True)
def test_a_run_is_the_same_without_what_a_system_lacks(call):
    text = "the sailor steers the boat over the sea and the baker bakes the bread in the oven"
    Path("articles.jsonl").write_text(f"{json.dumps({'text': text})}\n" * 40)
    Path("my.yaml").write_text(TRAINING)
    done = call("run", "my.yaml")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    ours = Word2Vec(8, epochs=3, min_count=1, n_blocks=2).fit(ingest("articles.jsonl", "ours"))
    theirs = Word2Vec.load("run/model")
    np.testing.assert_array_equal(ours.wv.vectors, theirs.wv.vectors)
    checked = json.loads(call("doctor", "store", "--no-self-test", "--json").stdout)
    failed = [finding for finding in checked["findings"] if finding["status"] == "problem"]
    assert failed == []
