"""Models of a user's own module: trained in Python and by a configuration, resumed, shown, and never found in data."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from corpusmill import LDA
from corpusmill.configs.layers import ConfigError
from corpusmill.configs.resolve import load
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.models.own import MODULES_VARIABLE, own_estimator
from corpusmill.pipeline.models.registry import estimator_class, load_model, model_of_run, new_estimator
from helpers.command_line import COMMAND, error_line
from helpers.nightly import call
from helpers.toy import write_toy_corpus

KIND = "my_module:Sampled"

#: What a user writes: an algorithm that draws a number per token, and an estimator.
MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from corpusmill import LDA
from corpusmill.kernels import random
from corpusmill.pipeline.engine.algorithm import Algorithm, MemoryEstimate, Scores, SweepResult
from corpusmill.pipeline.topics import WordList


@dataclass(frozen=True, kw_only=True)
class Sampled(Algorithm):
    """Counts tokens that are drawn with some probability."""

    name: ClassVar[str] = "sampled"
    share: float
    steps: tuple[int, ...] = (1, 2)

    def memory(self, data, chunk):
        return MemoryEstimate(data=16 * chunk.tokens, delta=16 * self.n_rows)

    def begin(self, data, blocks, previous):
        return ({"counts": np.zeros(self.bounds[j + 1] - self.bounds[j], np.int64)} for j in blocks)

    def sweep(self, model, chunk, state, shard, address):
        draws = random.stream(random.key(*address), chunk.n_tokens) / 2.0**64
        tokens = np.repeat(chunk.word_ids, np.diff(chunk.word_ptr)).astype(np.int64)
        counts = np.bincount(tokens, draws < self.share, self.n_rows).astype(np.int64) * self.steps[0]
        parts = [{"counts": counts[self.bounds[j] : self.bounds[j + 1]]} for j in shard.blocks]
        sums = {"drawn": counts.sum()} if 0 in shard.blocks else {}
        return SweepResult(None, shard.plus(parts, self.merge), sums)

    def apply(self, block, delta, shared, first):
        return {"counts": block["counts"] + delta["counts"]}, {}

    def reduce(self, shared, totals, sums, history):
        return {}, {"drawn": float(sums["drawn"])}

    @property
    def scores(self):
        return SampledScores()


class SampledScores(Scores):
    """Shows the words that were drawn most often."""

    def describe(self, model, data):
        order = np.argsort(-model.joined("counts"), kind="stable")[:3]
        return [WordList("drawn most", [data.vocabulary["word"][i].as_py() for i in order])]


class Renamed(LDA):
    """An estimator."""

    _kind = "my_module:Renamed"


class Neither:
    """Neither an algorithm nor an estimator."""
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, with a corpus and the module, as a new process finds them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    write_toy_corpus("corpus", n_chunks=7)
    Path("my_module.py").write_text(MODULE)
    configure(parameters={"share": 0.5}, max_iter=4)
    forget_module()
    yield tmp_path
    forget_module()


def forget_module():
    """Make this process one that has not imported the module."""
    sys.modules.pop("my_module", None)
    own_estimator.cache_clear()


def configure(kind=KIND, **parameters):
    """Write my.yaml for a model that trains in this process."""
    sections = {"corpus": {"url": "corpus"}, "run": {"url": "run"}, "cluster": {"kind": "synchronous"}}
    Path("my.yaml").write_text(yaml.safe_dump(sections | {"model": {"kind": kind} | parameters}))


def counts(model):
    return model.model_.joined("counts")


@pytest.fixture
def expected():
    """The counts of a model that trains in this process without a stop."""
    found = counts(estimator_class(KIND)({"share": 0.5}, max_iter=4).fit("corpus"))
    forget_module()
    return found


# --- training ---


def test_python_and_a_configuration_train_the_same_model(expected):
    assert call("train", "my.yaml", "--json") == 0
    np.testing.assert_array_equal(counts(load_model("run/model")), expected)
    assert 0 < expected.sum() < 4 * Corpus("corpus").n_tokens
    assert load_model("run/model").get_params()["parameters"] == {"share": 0.5}


def test_two_workers_and_blocks_have_the_same_bits(expected, cluster_of):
    # A scheduler in this process finds the file that it has received. So another test must not have the same name.
    Path("my_module.py").rename("sent_module.py")
    model_class = estimator_class("sent_module:Sampled")
    model = model_class({"share": 0.5}, max_iter=4, n_blocks=3).fit("corpus", client=cluster_of(2))
    np.testing.assert_array_equal(counts(model), expected)


@pytest.mark.slow
def test_workers_of_a_command_receive_the_module(expected):
    local = ["--set", "cluster={kind: local, n_workers: 2, memory_limit: 1GiB}"]
    done = subprocess.run([*COMMAND, "train", "my.yaml", *local], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    estimator_class(KIND)  # imports the module
    np.testing.assert_array_equal(counts(load_model("run/model")), expected)


def test_a_list_of_a_configuration_is_a_tuple_of_the_algorithm():
    configure(parameters={"share": 1.0, "steps": [3]}, max_iter=1)
    assert call("train", "my.yaml", "--json") == 0
    assert counts(load_model("run/model")).sum() == 3 * Corpus("corpus").n_tokens


def test_retraining_an_algorithm_that_cannot_be_judged_is_refused_before_it_trains(capsys):
    Path("texts.txt").write_text("one fish\nred fish\n" * 20)
    given = ["source={path: texts.txt, format: lines}", "corpus.held_out=0.3", "retrain.url=models"]
    configure(parameters={"share": 0.5}, max_iter=2)
    options = [part for value in given for part in ("--set", value)]
    assert call("retrain", "my.yaml", *options) == 4
    assert "an algorithm cannot be applied to them: let its scores have one of" in capsys.readouterr().err
    assert not Path("models").exists() or not list(Path("models").glob("batches/*"))


def test_a_run_that_was_stopped_is_resumed_with_the_same_bits(expected):
    def stop(event):
        return getattr(event, "epoch", 0) == 2

    model = estimator_class(KIND)({"share": 0.5}, max_iter=4).fit("corpus", run="run", callbacks=[stop])
    assert model.n_iter_ == 2
    forget_module()
    assert call("resume", "run", "--json") == 0
    np.testing.assert_array_equal(counts(load_model("run/model")), expected)


def test_an_estimator_is_named_resumed_and_read_like_an_algorithm():
    configure("my_module:Renamed", n_components=3, max_iter=4)
    assert call("train", "my.yaml", "--set", "model.max_iter=2", "--json") == 0
    forget_module()
    assert call("resume", "run", "--set", "model.max_iter=4", "--json") == 0
    model = load_model("run/model")
    assert type(model).__name__ == "Renamed"
    expected = LDA(3, max_iter=4).fit("corpus")
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert call("topics", "run/model") == 0


# --- showing ---


def test_commands_show_its_metrics_and_its_words(monkeypatch, capsys):
    assert call("train", "my.yaml", "--json") == 0
    page = Path("run/report.html").read_text()
    assert "Drawn" in page
    forget_module()
    monkeypatch.setenv(MODULES_VARIABLE, f"other,{KIND.partition(':')[0]}")
    capsys.readouterr()
    assert call("watch", "run", "--once") == 0
    assert capsys.readouterr().out.startswith(f"{KIND} run: finished")
    model = load_model("run/model")
    ((heading, words),) = model._describe(Corpus("corpus"))
    assert (heading, words[0]) == ("drawn most", model.words_[counts(model).argmax()])
    assert call("report", "run") == 0
    assert call("export", "run/model", "card", "--format", "card") == 0
    assert "import my_module" in Path("card/README.md").read_text()


@pytest.mark.parametrize("place", ["run", "run/model"])
def test_inspect_does_not_need_the_module(place, capsys):
    assert call("train", "my.yaml", "--json") == 0
    Path("my_module.py").unlink()
    forget_module()
    capsys.readouterr()
    assert call("inspect", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == KIND


def test_what_an_algorithm_cannot_do_is_said_in_one_sentence(capsys):
    assert call("train", "my.yaml", "--json") == 0
    for command, reason in {
        "explore run": "my_module:Sampled models have neither topics nor vectors",
        "topics run": "my_module:Sampled models have no topics",
        "evaluate run corpus": "my_module:Sampled models have no topics, and give documents no likelihood",
        "similar run w000": "my_module:Sampled models have no word vectors",
        "transform run corpus weights": "my_module:Sampled is an algorithm, which trains only",
    }.items():
        capsys.readouterr()
        assert call(*command.split()) in (2, 4)
        assert reason in error_line(capsys.readouterr().err)


# --- bad input ---


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            ["model.kind=missing:Sampled"],
            "No module named 'missing'; start where missing.py is, or install its package",
        ),
        (["model.kind=my_module:Neither"], "Neither is neither an estimator nor an algorithm"),
        (["model.kind=my_module:Missing"], "Missing is neither an estimator nor an algorithm"),
        (["model.parameters.shares=1"], "my_module:Sampled has no parameter 'shares': it has share, steps"),
        (["model.parameters=null", "model.parameters={}"], "my_module:Sampled needs a value for share"),
        (["model.max_itr=3"], "Sampled has no parameter 'max_itr': it has parameters, model.max_iter"),
        (["model.max_iter=0"], "model.max_iter: 0 is not allowed; choose an integer of 1 or more"),
    ],
)
def test_bad_input_is_one_sentence(settings, reason, capsys):
    arguments = [argument for setting in settings for argument in ("--set", setting)]
    assert call("train", "my.yaml", *arguments) in (2, 4)
    assert reason in error_line(capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["my_module:", ":Sampled", ".my_module:Sampled", "a-b:C", "a:b:c"])
def test_a_kind_with_a_colon_is_a_module_and_a_class(kind):
    configure(kind)
    with pytest.raises(ConfigError, match=r"model\.kind"):
        load(["my.yaml"])


def test_an_error_in_the_module_names_itself():
    Path("my_module.py").write_text("import numpyy")
    with pytest.raises(DataError, match="No module named 'numpyy'"):
        new_estimator(load(["my.yaml"]))


# --- stored files ---


@pytest.mark.parametrize(
    "command",
    [
        ["report", "run"],
        ["report", "run/model"],
        ["watch", "run", "--once"],
        ["explore", "run"],
        ["topics", "run/model"],
        ["transform", "run/model", "corpus", "weights"],
        ["export", "run/model", "card", "--format", "card"],
    ],
)
def test_a_stored_file_does_not_decide_which_module_is_imported(command, capsys):
    assert call("train", "my.yaml", "--json") == 0
    forget_module()
    Path("my_module.py").write_text("from pathlib import Path\nPath('owned').touch()\n" + MODULE)
    capsys.readouterr()
    assert call(*command) == 4
    assert f"{MODULES_VARIABLE}=my_module" in error_line(capsys.readouterr().err)
    assert not Path("owned").exists()
    for read, place in ((load_model, "run/model"), (model_of_run, "run")):
        with pytest.raises(DataError, match=MODULES_VARIABLE):
            read(place)
    assert not Path("owned").exists()


def test_a_module_that_the_program_has_imported_may_be_named_by_stored_files(expected, monkeypatch):
    assert call("train", "my.yaml", "--json") == 0
    forget_module()
    monkeypatch.syspath_prepend(os.fspath(Path.cwd()))
    __import__("my_module")
    np.testing.assert_array_equal(counts(load_model("run/model")), expected)
    np.testing.assert_array_equal(counts(model_of_run("run")), expected)
