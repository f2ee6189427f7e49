"""Files contain only data, no input is run as code, and secrets are not stored or printed."""

import json
import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpusmill.configs.resolve import load
from corpusmill.io.stores.store import without_password
from corpusmill.pipeline.commands.actions.ingest import ingest
from corpusmill.pipeline.commands.actions.train import train
from corpusmill.pipeline.models.registry import MODEL_KINDS
from corpusmill.pipeline.views.status import RunStatus
from helpers.nightly import BOATS, BREAD, MODELS, call, write_configuration, write_day
from helpers.source_tree import files_below

SCRIPT = "<script>document.title='broken'</script>"
SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A day of documents, one of them hostile, and a configuration; the working directory beside them."""
    monkeypatch.chdir(tmp_path)
    write_day(1, [BOATS, BREAD, " ".join([SCRIPT] * 20)] * 8)
    Path("edges.txt").write_text("".join(f"{a} {b}\n" for a in range(6) for b in range(a)))
    hostile("lda")


def hostile(kind, **model):
    """Write a configuration whose words are everything between blanks."""
    source = {"path": "days/*.jsonl", "token_pattern": r"\S+"}
    write_configuration(kind, source=source, model=model, run={"url": "run", "evaluate_every": 1})


# --- files ---


def is_plain_data(path):
    """Return whether a file is of a kind that cannot contain code: JSON, Parquet, Zarr chunks with checksums, locks."""
    content = path.read_bytes()
    if path.suffix == ".json" or path.name == "HEAD":
        return json.loads(content) is not None
    if path.suffix == ".jsonl":
        return all(json.loads(line) for line in content.splitlines())
    if path.suffix == ".parquet":
        return {str(f.type) for f in pq.read_schema(path)} <= {"string", "large_string", "int64", "int32", "uint32"}
    if path.suffix == ".lock":
        return content == b"" or bool(json.loads(content))
    return is_zarr_chunk(path)


def is_zarr_chunk(path):
    array = next(folder for folder in path.parents if (folder / "zarr.json").exists())
    meta = json.loads((array / "zarr.json").read_text())
    codecs = [codec["name"] for codec in meta["codecs"]]
    return meta["data_type"].strip("0123456789") in ("int", "uint", "float", "bool") and codecs == ["bytes", "crc32c"]


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_no_file_of_a_corpus_a_run_a_model_or_a_version_can_hold_code(kind):
    hostile(kind, **{"vector_size": 8, "num_walks": 2, "walk_length": 5, "epochs": 1} if kind == "node2vec" else {})
    graph = ["--set", "source=null", "--set", "corpus.url=edges.txt"] if kind == "node2vec" else []
    assert call("run", "my.yaml", *graph, "--set", "report=null", "--json") == 0
    if kind in MODELS:
        assert call("retrain", "my.yaml", "--json") == 0
    files = files_below("corpus", "run", "models")
    assert len(files) > 10
    assert [str(p) for p in files if not is_plain_data(p)] == []


# --- configurations ---


@pytest.mark.parametrize("code", ["!!python/object/apply:os.mkdir [owned]", "!!python/name:os.mkdir"])
def test_yaml_runs_nothing(code, capsys):
    Path("evil.yaml").write_text(f"corpus:\n  url: {code}\n")
    for arguments in (["evil.yaml"], ["my.yaml", "--set", f"model.n_components={code}"]):
        assert call("run", *arguments) == 2
        err = capsys.readouterr().err
        assert err.startswith("corpusmill: ")
        assert err.count("\n") == 1
    assert not Path("owned").exists()


# --- pages ---


def test_a_script_in_a_document_is_text_in_the_report():
    assert call("run", "my.yaml", "--json") == 0
    page = Path("run/report.html").read_text()
    assert SCRIPT not in page
    assert SCRIPT.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;") in page


def test_a_script_in_a_document_is_text_on_the_live_page():
    pytest.importorskip("bokeh")
    from corpusmill.pipeline.views.training_page import lines_html

    config, status = load(["my.yaml"]), RunStatus()
    ingest(config, None)
    train(config, None, [status.update])
    assert any(SCRIPT in line for line in status.lines)
    shown = lines_html(status)
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


# --- secrets ---


def test_no_file_and_no_output_contains_a_secret(monkeypatch, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    url, options = f"s3://key:{SECRET}@bucket/x", f"{{password: {SECRET}, env: {{AWS_SECRET_ACCESS_KEY: {SECRET}}}}}"
    assert call("run", "my.yaml", "--set", f"cluster.options={options}", "--json") == 0
    assert call("train", "my.yaml", "--set", f"source.path={url}", "--set", "run.url=other", "--json") == 0
    assert call("config", "show", "my.yaml", "--set", f"source.path={url}", "--set", f"cluster.options={options}") == 0
    out, err = capsys.readouterr()
    assert SECRET not in out + err + caplog.text
    files = [p for p in Path().rglob("*") if p.is_file()]
    assert Path("other/run.json") in files
    assert [p for p in files if SECRET.encode() in p.read_bytes()] == []


@pytest.mark.parametrize("key", ["source.path", "corpus.url", "run.url", "run.model"])
@pytest.mark.parametrize("password", [SECRET, f"with/slash{SECRET}", f"12{SECRET}"])
def test_a_password_in_a_url_is_refused_and_not_repeated(key, password, capsys):
    assert call("run", "my.yaml", "--set", f"{key}=memory://key:{password}@bucket/x", "--json") == 4
    out, err = capsys.readouterr()
    assert "this URL contains a password" in err
    assert SECRET not in out + err
    assert not any(SECRET.encode() in p.read_bytes() for p in Path().rglob("*") if p.is_file())


@pytest.mark.parametrize("url", ["http://host:8787/x", "s3://bucket/a:b@c", "zip://*.csv::s3://bucket/x.zip", "a:b"])
def test_other_colons_are_not_read_as_passwords(url):
    assert without_password(url) == url
