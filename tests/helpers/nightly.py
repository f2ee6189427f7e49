"""A few text files per night, and a program that kills retraining at chosen points: nightly.py POINTS FOLDER."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import yaml
from corpusmill.configs.layers import Layer
from corpusmill.configs.resolve import resolve
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.commands.cli.main import main
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.publishing.retrain import retrain
from helpers.faults import Changes

BOATS = "the boat sails over the sea and the sailor steers the boat to the harbour"
BREAD = "the baker bakes bread from flour and the oven browns the bread and the cake"
MODELS = {
    "lda": {"n_components": 2, "doc_topic_prior": 0.1, "max_iter": 3},
    "nmf": {"n_components": 2, "max_iter": 3},
    "word2vec": {"vector_size": 8, "epochs": 2, "min_count": 1},
    "random-indexing": {"vector_size": 64},
}


def write_day(day, texts, folder="days"):
    """Write the file of one day of November 2026."""
    Path(folder).mkdir(exist_ok=True)
    Path(folder, f"2026-11-{day:02d}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))


def write_first_days():
    """Write the files of two days."""
    write_day(1, [BOATS, BREAD] * 8)
    write_day(2, [BOATS] * 4)


def tree_of(kind, **sections):
    """Return the settings of a model that trains on the days in this process. ``sections`` override them."""
    tree = {
        "source": {"path": "days/*.jsonl"},
        "corpus": {"held_out": 0.2},
        "model": {"kind": kind} | MODELS.get(kind, {}),
        "retrain": {"url": "models", "tolerance": 10.0},
        "cluster": {"kind": "synchronous"},
    }
    return tree | {name: tree.get(name, {}) | section for name, section in sections.items()}


def configuration(kind, **retraining):
    """Return the configuration of a model that trains on the days."""
    return resolve([Layer("here", tree_of(kind, retrain=retraining))])


def write_configuration(kind, **sections):
    """Write the configuration of a model that trains on the days to my.yaml."""
    Path("my.yaml").write_text(yaml.safe_dump(tree_of(kind, **sections)))


def call(*arguments):
    """Run a command in this process; return its exit code."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code or 0
    return 0


def contents(folder):
    """Return the bytes of all files by path, except locks, with the numbers of owners set to 0."""
    files = (p for p in sorted(Path(folder).rglob("*")) if p.is_file() and p.suffix != ".lock")
    return {without_owners(str(p)): without_owners(p.read_bytes()) for p in files}


def without_owners(text):
    """Replace the number of the owner in names of folders and in commit files."""
    if isinstance(text, str):
        return re.sub(r"/(\d{6})-\d{4}/", r"/\1-0000/", text)
    for pattern, without in ((rb'"owner": \d+', rb'"owner": 0'), (rb'"owners": {[^}]*}', rb'"owners": {}')):
        text = re.sub(pattern, without, text)
    return re.sub(rb'"(\d{6})-\d{4}"', rb'"\1-0000"', text)


def worse(**retraining):
    """Return a configuration whose later versions score worse, because they learn too fast."""
    model = {"method": "full", "alpha": 0.5, "min_alpha": 0.5, "epochs": 9}
    return configuration("word2vec", model=model, **retraining)


def words_of(version):
    """Return the vocabulary of a version, in the order of the ids."""
    return Corpus(f"models/batches/{version['corpus']}").vocabulary["word"].to_pylist()


def file_names(facts, name):
    """Return the names of the files in a list of URLs of a result."""
    return [Path(url).name for url in facts[name]]


class Killed(Exception):
    """Interrupts a training, as a signal would."""


def break_off(event):
    """Callback that interrupts training after its first epoch."""
    if isinstance(event, EpochFinished):
        raise Killed


def in_a_fork(work):
    """Run a function in a fork of this process; return its exit status and its result."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        os.write(writing, json.dumps(work()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    return os.waitpid(process, 0)[1], json.loads(text or "null")


def second_night(kind, last=0):
    """Retrain, and kill the process at change number ``last`` of the file system; return the number of changes."""
    changes = Changes("models", last)
    assert retrain(configuration(kind))["status"] in ("published", "unchanged")
    return changes.count


def kill_at_many_points(kind, points, folder):
    """Kill the retraining of a second night at many points, each time from the same start; return the results."""
    Path(folder).mkdir(parents=True)
    os.chdir(folder)
    write_first_days()
    retrain(configuration(kind))
    write_day(3, [BREAD + " and new words"] * 4)
    write_day(2, [BOATS + " again"] * 4)
    shutil.copytree("models", "start")
    _, changes = in_a_fork(lambda: second_night(kind))
    wanted, outcomes = contents("models"), []
    for point in range(points):
        at = 1 + point * (changes - 1) // (points - 1)
        shutil.rmtree("models")
        shutil.copytree("start", "models")
        # Every other time, the call that would finish the work is killed as well.
        killed = [in_a_fork(lambda last=last: second_night(kind, last))[0] for last in (at, at // 2)[: 1 + point % 2]]
        ended, _ = in_a_fork(lambda: second_night(kind))
        outcomes.append(
            {"kind": kind, "at": at, "killed": killed[0], "ended": ended, "same": contents("models") == wanted}
        )
    return outcomes


if __name__ == "__main__":
    found = []
    for name in MODELS:
        found += kill_at_many_points(name, int(sys.argv[1]), Path(sys.argv[2]).resolve() / name)
    sys.stdout.write(json.dumps(found))
