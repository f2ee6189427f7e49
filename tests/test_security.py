"""Files contain only data, no input is run as code, and secrets are not stored or printed."""

import json
import logging
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow.parquet as pq
import pytest
from corpusmill import Corpus
from corpusmill.configs.resolve import load
from corpusmill.io.stores.store import without_password
from corpusmill.pipeline.commands.actions.ingest import ingest, open_documents
from corpusmill.pipeline.commands.actions.train import train
from corpusmill.pipeline.ingest.graph import ingest_graph
from corpusmill.pipeline.models.registry import MODEL_KINDS
from corpusmill.pipeline.publishing.versions import Versions
from corpusmill.pipeline.views.pages.live import render_content
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
    graph = ["--set", "source=null", "--set", "corpus.url=edges.txt"] if kind in ("node2vec", "fastrp") else []
    assert call("run", "my.yaml", *graph, "--set", "report=null", "--json") == 0
    if kind in MODELS:
        assert call("retrain", "my.yaml", "--json") == 0
    files = files_below("corpus", "run", "models")
    assert len(files) > 10
    assert [str(p) for p in files if not is_plain_data(p)] == []


def test_a_stored_model_cannot_name_files_outside_its_folder(capsys):
    assert call("run", "my.yaml", "--json") == 0
    model = Path("run/model/model.json")
    meta = json.loads(model.read_text())
    Path("run/model", meta["arrays"]).rename("elsewhere")
    model.write_text(json.dumps(meta | {"arrays": "../../elsewhere"}))
    capsys.readouterr()
    assert call("topics", "run/model") == 4
    assert "lies outside the store" in capsys.readouterr().err


def test_words_and_names_of_files_do_not_control_the_terminal(capsys):
    title = "\x1b]0;owned\x07"  # sets the title of a terminal's window
    write_day(1, [f"{BOATS} {title}", BREAD] * 8)
    Path(f"{title}.jsonl").write_text("{")
    assert call("run", "my.yaml", "--set", "run.model=model") == 0
    assert call("topics", "model", "--words", "50") == 0
    assert call("ingest", f"{title}.jsonl", "other") == 4
    printed = capsys.readouterr()
    assert r"\x1b]0;owned\x07" in printed.out
    assert r"\x1b]0;owned\x07.jsonl" in printed.err
    assert title not in printed.out + printed.err


def test_names_and_keys_of_documents_are_data_and_never_paths_or_commands():
    hostile_names = ["$(touch owned).jsonl", "a; touch owned.jsonl", "..evil.jsonl", "new\nline.jsonl"]
    for name in hostile_names:
        Path("days", name).write_text(json.dumps({"text": BOATS, "id": "../../owned"}) + "\n")
    before = {path for path in Path().rglob("*") if not path.is_dir()}
    assert call("run", "my.yaml", "--json") == 0
    assert call("transform", "run/model", "corpus", "weights", "--config", "my.yaml", "--json") == 0
    with_keys = ["--set", "source.path=days/..evil.jsonl", "--set", "source.key=id", "--set", "corpus.url=keyed"]
    assert call("run", "my.yaml", *with_keys, "--set", "run.url=run2", "--json") == 0
    assert Corpus("keyed").documents["key"].to_pylist() == ["../../owned"]
    after = {path for path in Path().rglob("*") if not path.is_dir()}
    assert {path.parts[0] for path in after - before} <= {"run", "run2", "corpus", "keyed", "weights"}
    assert not Path("owned").exists()
    assert not Path("../../owned").exists()


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
    config, status = load(["my.yaml"]), RunStatus()
    ingest(config, open_documents(config))
    train(config, None, [status.update])
    assert any(SCRIPT in words for _, words in status.lists)
    shown = render_content(status, status.shards, [])
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


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and prints no log, which would repeat the URLs."""

    def log_message(self, *arguments):
        pass


@pytest.fixture
def web_server():
    """The address of a server for the files of the working directory. It ignores queries, as signed URLs have them."""
    handler = partial(QuietHandler, directory=str(Path.cwd()))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_signatures_of_source_urls_are_not_stored_and_do_not_make_a_file_new(web_server, capsys):
    def signed(number):
        return f"{web_server}/days/2026-11-01.jsonl?X-Amz-Signature={SECRET}{number}&X-Amz-Date={number}"

    for command, twice in (("retrain", "nothing to do"), ("run", "already complete")):
        assert call(command, "my.yaml", "--set", f"source.path={signed(1)}") == 0
        capsys.readouterr()
        assert call(command, "my.yaml", "--set", f"source.path={signed(2)}") == 0
        out, err = capsys.readouterr()
        assert twice in out
        assert SECRET not in out + err
    (retrained,) = Versions("models").read(1)["partitions"]
    assert retrained == f"{web_server}/days/2026-11-01.jsonl"
    assert Corpus("corpus").documents["key"][0].as_py() == "2026-11-01.jsonl:1"
    assert [p for p in Path().rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()] == []
    missing = signed(3).replace("2026-11-01", "none")
    assert call("run", "my.yaml", "--set", f"source.path={missing}", "--json") == 4
    out, err = capsys.readouterr()
    assert "none.jsonl?" in err
    assert SECRET not in out + err


def test_signatures_of_urls_of_edges_are_not_stored(web_server):
    signed = [f"{web_server}/{name}?X-Amz-Signature={SECRET}" for name in ("edges.txt", "more.txt")]
    Path("more.txt").write_text("7 8\n")
    one, several = ingest_graph(signed[0], "one"), ingest_graph(signed, "several")
    assert one.meta["about"]["source"] == f"{web_server}/edges.txt"
    assert several.meta["about"]["source"] == [f"{web_server}/edges.txt", f"{web_server}/more.txt"]
    assert [p for p in Path().rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()] == []


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
