"""The life of a published model: files come, change and go; nights are killed, rolled back and repeated.

Random indexing adds up exactly, so the model in use must be that of the files which its version covers, bit for bit.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from corpusmill import RandomIndexing
from corpusmill.configs.layers import Layer
from corpusmill.configs.resolve import resolve
from corpusmill.io.errors import DataError, Locked
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.publishing.compare import compare_versions
from corpusmill.pipeline.publishing.plan import RetrainRequest
from corpusmill.pipeline.publishing.retrain import retrain
from corpusmill.pipeline.publishing.versions import Versions
from helpers.faults import Changes
from helpers.nightly import in_a_fork, tree_of
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stateful.settings import few
from stateful.sums import sums_by_word

FILES = st.sampled_from(["a", "b", "c", "d"])
#: Words of one length, so that replaced files keep their size.
WORDS = st.sampled_from(["apple", "bread", "cedar", "delta"])
TEXTS = st.lists(st.lists(WORDS, min_size=2, max_size=4).map(" ".join), min_size=1, max_size=3)
PARAMETERS = {"vector_size": 16, "seed_length": 2, "window": 2}


def nightly(**retraining):
    """Return the configuration of the nights."""
    sections = {"model": PARAMETERS, "corpus": {"held_out": 0.0}, "retrain": retraining}
    return resolve([Layer("here", tree_of("random-indexing", **sections))])


def words_of_files(files):
    """Return all words of files, each of which is a list of texts."""
    words = []
    for texts in files:
        words += " ".join(texts).split()
    return words


class NightsMachine(RuleBasedStateMachine):
    """Compares the versions of a model with the texts that each of them covers."""

    def __init__(self):
        super().__init__()
        self.before = Path.cwd()
        self.folder = tempfile.mkdtemp()
        os.chdir(self.folder)
        Path("days").mkdir()
        #: The texts of the files, and those that each complete version covers.
        self.files = {}
        self.versions = {}
        self.in_use = 0
        self.withdrawn = set()

    def teardown(self):
        os.chdir(self.before)
        shutil.rmtree(self.folder)

    # --- files ---

    @initialize(texts=TEXTS, nights=st.integers(0, 3))
    def begin(self, texts, nights):
        """Publish some versions first, because random steps alone seldom make several."""
        self.write("a", texts)
        for folder in ("versions", "batches", "runs"):
            Path("models", folder, "mine").mkdir(parents=True)
        for night in range(nights):
            self.write("b", texts * (night + 1))
            self.retrain(keep=9)

    @rule(name=FILES, texts=TEXTS)
    def write(self, name, texts):
        Path("days", f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        self.files[name] = texts

    @precondition(lambda self: self.files)
    @rule(data=st.data(), texts=TEXTS)
    def replace_and_keep_the_times(self, data, texts):
        """Replace a file as `cp -p` and `tar` do."""
        name = data.draw(st.sampled_from(sorted(self.files)))
        path = Path("days", f"{name}.jsonl")
        times = path.stat()
        self.write(name, texts)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), new=FILES)
    def rename(self, data, new):
        old = data.draw(st.sampled_from(sorted(self.files)))
        Path("days", f"{old}.jsonl").rename(Path("days", f"{new}.jsonl"))
        self.files[new] = self.files.pop(old)

    @precondition(lambda self: self.files)
    @rule(texts=TEXTS)
    def rotate(self, texts):
        """Rename each file to the name of the next one, drop the last one, and write a new first one."""
        names = sorted(self.files)
        for old, new in reversed(list(itertools.pairwise(names))):
            Path("days", f"{old}.jsonl").replace(Path("days", f"{new}.jsonl"))
            self.files[new] = self.files[old]
        self.write(names[0], texts)

    @precondition(lambda self: len(self.files) > 1)
    @rule(data=st.data())
    def delete(self, data):
        name = data.draw(st.sampled_from(sorted(self.files)))
        Path("days", f"{name}.jsonl").unlink()
        del self.files[name]

    # --- commands ---

    @rule(keep=st.sampled_from([1, 2, 9]))
    def retrain(self, keep):
        covered = self.versions.get(self.in_use, {})
        result = retrain(nightly(keep=keep))
        if sorted(covered.values()) == sorted(self.files.values()):
            # Files may have been renamed.
            assert (result["status"], result["reason"]) == ("unchanged", None)
        elif result["status"] == "unchanged":
            assert "was withdrawn" in result["reason"]
        elif result["status"] == "refused":
            assert "are words that version" in result["reason"]
            assert self.share_of_new_words() > 0.5
        else:
            assert result["status"] == "published"
            assert result["version"] == Versions("models").head.version
        self.take_notes()

    def share_of_new_words(self):
        """Return the share of tokens in new and changed files that the version in use does not have."""
        covered = self.versions[self.in_use]
        new = [texts for texts in self.files.values() if texts not in covered.values()]
        old_words = set(words_of_files(covered.values()))
        words = words_of_files(new)
        return sum(word not in old_words for word in words) / max(1, len(words))

    @rule()
    def train_on_all_files_again(self):
        retrain(nightly(), request=RetrainRequest(fresh=True))
        self.take_notes()

    @rule(change=st.integers(1, 120))
    def kill(self, change):
        """Kill a night before a change of the file system."""
        status, _ = in_a_fork(lambda: self.end_early(change))
        assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
        self.take_notes()

    def end_early(self, change):
        """Retrain in a process that is killed before one of its changes of the file system."""
        Changes("models", change)
        retrain(nightly())

    @precondition(lambda self: self.in_use)
    @rule()
    def roll_back(self):
        replaced = self.in_use
        try:
            target = Versions("models").before(replaced)
        except DataError:
            with pytest.raises(DataError, match=r"there is none before it|is kept"):
                Versions("models").rollback()
            return
        assert Versions("models").rollback()["version"] == target
        self.in_use = target
        self.withdrawn = (self.withdrawn | {replaced}) - {target}

    @precondition(lambda self: self.in_use)
    @rule(data=st.data())
    def choose(self, data):
        number = data.draw(st.sampled_from(sorted(self.versions)))
        if number == self.in_use:
            return
        Versions("models").rollback(number)
        self.withdrawn = (self.withdrawn | {self.in_use}) - {number}
        self.in_use = number

    @precondition(lambda self: len(self.versions) > 1)
    @rule(data=st.data())
    def diff(self, data):
        old, new = (data.draw(st.sampled_from(sorted(self.versions))) for _ in range(2))
        found = compare_versions("models", old, new)
        words = [set(load_model(Versions("models").model(number)).words_) for number in (old, new)]
        assert set(found["words_added"]["first"]) == words[1] - words[0]
        assert set(found["words_removed"]["first"]) == words[0] - words[1]

    @precondition(lambda self: self.in_use)
    @rule()
    def transform(self):
        batch = Versions("models").read(self.in_use)["corpus"]
        shutil.rmtree("weights", ignore_errors=True)
        counts = load_model("models").transform_to(f"models/batches/{batch}", "weights", replace=True)
        assert counts["documents"] > 0

    @rule()
    def retrain_while_another_process_writes(self):
        with Versions("models").locked(), pytest.raises(Locked, match="another process is retraining"):
            retrain(nightly())

    # --- the model ---

    def take_notes(self):
        """Note the versions that are complete now. A version covers the files of the night that made it."""
        versions = Versions("models")
        with contextlib.suppress(DataError):
            for number in versions.numbers:
                self.versions.setdefault(number, dict(self.files))
        self.versions = {number: self.versions[number] for number in versions.numbers}
        self.in_use = versions.head.version
        self.withdrawn &= set(self.versions)

    @invariant()
    def the_model_in_use_is_that_of_its_files(self):
        versions = Versions("models")
        assert versions.head.version == self.in_use
        assert versions.numbers == sorted(self.versions)
        assert set(versions.head.withdrawn) == self.withdrawn
        for folder in ("versions", "batches", "runs"):
            assert Path("models", folder, "mine").is_dir() or not self.files
        if not self.in_use:
            return
        texts = [text for texts in self.versions[self.in_use].values() for text in texts]
        expected = RandomIndexing(**PARAMETERS).fit(texts)
        assert sums_by_word(load_model("models")) == sums_by_word(expected)


TestNights = pytest.mark.filterwarnings("ignore:no documents are held out")(NightsMachine.TestCase)
TestNights.settings = few(examples=3, steps=10)
