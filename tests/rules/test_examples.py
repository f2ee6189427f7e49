"""Every example runs: in docstrings, in the README and in the other documents."""

import ast
import contextlib
import doctest
import gzip
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import corpusmill
import pytest
from corpusmill.pipeline.commands.cli.main import cli
from helpers.nightly import call as run_command
from helpers.source_tree import ROOT, SOURCES, files_below, module_of, tree_of

PAGES = [path for path in files_below(ROOT / "docs", pattern="*.md") if "_build" not in path.parts]
DOCUMENTS = [ROOT / "README.md", *ROOT.glob("CONTRIBUTING.md"), *PAGES]
#: A fenced block of a language: the comment before it, if any, and its lines.
BLOCK = re.compile(r"(<!-- test: (?P<mark>.*?) -->\n)?```(?P<language>[\w{}]+)[ \w]*\n(?P<code>.*?)```", re.DOTALL)
#: Settings that make training small, for the commands that train.
SMALL = {
    "CORPUSMILL_MODEL__N_COMPONENTS": "3",
    "CORPUSMILL_MODEL__MAX_ITER": "3",
    "CORPUSMILL_RETRAIN__MODEL": "{max_iter: 2}",
    "CORPUSMILL_SOURCE__MIN_DF": "1",
    "CORPUSMILL_SOURCE__MAX_DF": "1.0",
}
#: Commands start no workers for a few documents.
HERE = {"CORPUSMILL_CLUSTER__KIND": "synchronous"}
TOPICS = (
    "the storm drove the boat over the sea and the sailor steered the boat to the harbour of the island",
    "the baker baked bread from flour in the oven and the baker sold the bread and the cake to the town",
    "the king and the queen ruled the land and the king crowned the prince and the queen in the castle",
)


def blocks(path, language):
    """Yield the line, the mark and the code of each fenced block of a document."""
    text = path.read_text()
    for found in BLOCK.finditer(text):
        if found["language"] == language:
            yield text.count("\n", 0, found.start("code")), found["mark"], found["code"]


def write_articles(path, start, number=200):
    """Write articles about three topics as compressed JSONL, with their texts as ``body`` and as ``text``."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        for i in range(start, start + number):
            words = TOPICS[i % len(TOPICS)].split()
            text = " ".join(words[j % len(words)] for j in range(i, i + 40))
            file.write(json.dumps({"body": text, "text": text}) + "\n")


# --- docstrings ---


def docstrings_with_examples():
    """Yield the module, the name and the docstring of everything that ships and has examples."""
    for path in (path for path in SOURCES if ">>> " in path.read_text()):
        nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        for node in [tree_of(path), *nodes]:
            docstring = ast.get_docstring(node)
            if docstring and ">>> " in docstring:
                name = getattr(node, "name", "")
                # MLflow's client makes a database, which takes seconds.
                marks = [pytest.mark.slow] if path.name == "mlflow.py" else []
                yield pytest.param(docstring, path, id=f"{module_of(path)}:{name}", marks=marks)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # of mlflow's tables
@pytest.mark.parametrize(("docstring", "path"), list(docstrings_with_examples()))
def test_examples_in_docstrings_run(docstring, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # An example starts in an empty folder and namespace, so that a reader can paste it anywhere.
    example = doctest.DocTestParser().get_doctest(docstring, {"__name__": "__main__"}, path.name, str(path), 0)
    failures = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=failures.append)
    assert not failures, "".join(failures)


# --- documents ---


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A folder with the corpora and graphs that the documents use."""
    folder = tmp_path_factory.mktemp("corpora")
    with contextlib.chdir(folder):
        for name, number in {"corpus": 90, "more-articles": 30, "monday": 30, "tuesday": 30, "wednesday": 30}.items():
            write_articles(f"{name}.jsonl.gz", len(name), number)
            corpusmill.ingest(f"{name}.jsonl.gz", name, held_out=0.1)
        Path("edges.tsv").write_text("".join(f"{a}\t{b}\n" for a in range(12) for b in range(a)))
        call("corpusmill graph edges.tsv graphs/ppi")
    return folder


@pytest.fixture
def project(corpora, tmp_path, monkeypatch):
    """A copy of that folder, as the working directory."""
    shutil.copytree(corpora, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def call(command):
    """Run a command of a document; train small models. Only a pipe needs a shell, and with it a process of its own."""
    words = shlex.split(command, comments=True)
    settings = HERE | (SMALL if words[1] in ("run", "train", "retrain") else {})
    if "|" in words or words[0] != "corpusmill":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | settings | {"PATH": path}
        done = subprocess.run(command, shell=True, check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return
    target = os.devnull
    if ">" in words:
        *words, _, target = words
    with pytest.MonkeyPatch.context() as patch, open(target, "w") as file, contextlib.redirect_stdout(file):
        for name, value in settings.items():
            patch.setenv(name, value)
        assert run_command(*words[1:]) == 0, command


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:builtin type _VocabDict has no __module__")  # of tomotopy
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if any(blocks(p, "python"))], ids=lambda p: p.name)
def test_python_code_of_documents_runs(path, project, forking):
    names = {"__name__": "__main__"}
    for line, _, code in blocks(path, "python"):
        # The empty lines make the numbers of lines in a traceback those of the document.
        exec(compile("\n" * line + code, str(path), "exec"), names)


def commands(code):
    """Return the words of each command of a console block, without prompt, comment, redirection and pipe."""
    found = []
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            words = shlex.split(line.removeprefix("$ "), comments=True)
            found.append(list(itertools.takewhile(lambda word: word not in {">", "2>", "|"}, words)))
    return found


def console_blocks(mark=None):
    """Yield the place and the code of the console blocks of all documents, or of those with a mark."""
    for path in DOCUMENTS:
        for line, found, code in blocks(path, "console"):
            if mark in (None, found):
                yield f"{path.name}:{line}", code
        for line, _, code in blocks(path, "{console}"):
            if mark is None:
                yield f"{path.name}:{line}", re.sub(r"(?m)^(?=.)", "$ ", code)


def test_commands_of_documents_exist_with_their_options(subtests):
    for place, code in console_blocks():
        for words in commands(code):
            if words[0] == "corpusmill":
                with subtests.test(f"{place}: {shlex.join(words)}"):
                    words = words[1:]
                    command, context = cli, click.Context(cli)
                    while isinstance(command, click.Group):
                        command, words = command.get_command(context, words[0]), words[1:]
                        assert command is not None
                    command.make_context(command.name, list(words), parent=context)


@pytest.mark.slow
@pytest.mark.parametrize("code", [pytest.param(code, id=place) for place, code in console_blocks("run")])
def test_commands_of_documents_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_articles("articles/2026-11-01.jsonl.gz", 0)
    if "retrain" in code:
        call("corpusmill retrain retrain")
        write_articles("articles/2026-11-02.jsonl.gz", 5)
    for line in code.splitlines():
        call(line.removeprefix("$ "))


@pytest.mark.slow
def test_the_commands_of_the_quick_start_run_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, _, code in blocks(ROOT / "docs" / "quickstart.md", "{console}"):
        for command in code.splitlines():
            call(command)
    assert (tmp_path / "demo" / "report.html").exists()
