"""Models go to the Hugging Face Hub and come back: a local server plays the Hub."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import yaml
from corpusmill import LDA, ingest
from flask import Flask, Response, request
from helpers.documents import BOATS_AND_BREAD
from werkzeug.serving import make_server

pytestmark = pytest.mark.slow

REPOSITORY = "me/topics"
PROGRAM = """
import sys
import numpy as np
from corpusmill import LDA, from_pretrained, push_to_hub
push_to_hub("model", "me/topics", "cc0-1.0", corpus="corpus")
print(push_to_hub(LDA.load("model"), "me/topics", "cc0-1.0"))
ours, theirs = LDA.load("model"), from_pretrained("me/topics")
np.testing.assert_array_equal(ours.components_, theirs.components_)
assert ours.words_ == theirs.words_
try:
    from_pretrained("me/empty")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def hub():
    """Start a server that has the Hub's repositories in memory; yield its address and the files of the repositories."""
    application = Flask("hub")
    repositories = {"me/empty": {"README.md": b"empty"}}
    history = []

    @application.post("/api/repos/create")
    def create():
        name = f"me/{request.json['name']}"
        if name in repositories:
            return {"error": "exists", "url": f"{request.host_url}{name}"}, 409
        repositories[name] = {}
        return {"url": f"{request.host_url}{name}", "id": name}

    @application.post("/api/validate-yaml")
    def validate():
        header = yaml.safe_load(request.json["content"].split("---")[1])
        assert {"library_name", "license", "tags"} == set(header)
        return {"errors": [], "warnings": []}

    @application.get("/api/models/<owner>/<name>/revision/<revision>")
    @application.get("/api/models/<owner>/<name>", defaults={"revision": "main"})
    def describe(owner, name, revision):
        files = repositories[f"{owner}/{name}"]
        siblings = [{"rfilename": path} for path in files]
        return {"id": f"{owner}/{name}", "sha": commit_of(files), "siblings": siblings, "private": False, "tags": []}

    @application.get("/api/models/<owner>/<name>/tree/<revision>")
    def tree(owner, name, revision):
        found = repositories[f"{owner}/{name}"]
        listing = [{"type": "file", "path": path, "size": len(found[path]), "oid": "0"} for path in found]
        return Response(json.dumps(listing), mimetype="application/json")

    @application.post("/api/models/<owner>/<name>/preupload/<revision>")
    def preupload(owner, name, revision):
        files = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in request.json["files"]]
        return {"files": files}

    @application.post("/api/models/<owner>/<name>/commit/<revision>")
    def commit(owner, name, revision):
        files = repositories[f"{owner}/{name}"]
        for line in map(json.loads, request.data.splitlines()):
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "deletedFile":
                del files[line["value"]["path"]]
        history.append(sorted(files))
        oid = commit_of(files)
        return {"success": True, "commitOid": oid, "commitUrl": f"{request.host_url}{owner}/{name}/commit/{oid}"}

    @application.get("/<owner>/<name>/resolve/<revision>/<path:path>")
    def resolve(owner, name, revision, path):
        content = repositories[f"{owner}/{name}"][path]
        headers = {"X-Repo-Commit": revision, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        return Response(content, headers=headers, mimetype="application/octet-stream")

    with served(application) as address:
        yield address, repositories, history


def commit_of(files):
    return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


@contextmanager
def served(application):
    """Serve a Flask application, and yield its address."""
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def test_a_model_comes_back_from_the_hub_with_a_card(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address, repositories, history = hub
    corpus = ingest([text.split() for text in BOATS_AND_BREAD], "corpus")
    LDA(2, max_iter=5).fit(corpus, evaluate_every=5).save("model")
    settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "cache"), "HF_TOKEN": "hf_test"}
    quiet = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=os.environ | settings | quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    commit, error = done.stdout.splitlines()
    assert commit.startswith(f"{address}/{REPOSITORY}/commit/")
    assert error.startswith("DataError")
    files = repositories[REPOSITORY]
    # The second commit has no file of the first one that the model does not name.
    assert len(history[0]) == len(history[1])
    assert "model.json" in files
    card = files["README.md"].decode()
    assert 'license: "cc0-1.0"' in card
    assert f'from_pretrained("{REPOSITORY}")' in card
    assert corpus.hash in card
    assert "## Results" in card and "## Topics" in card
