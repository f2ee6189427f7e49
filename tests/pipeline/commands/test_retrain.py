"""Retraining night after night: what is read, what is published, what is refused, and what a killed call leaves."""

import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from corpusmill import LDA, RandomIndexing, Word2Vec
from corpusmill.io.manifest import date_in_url
from corpusmill.io.stores.corpus import Corpus
from corpusmill.io.stores.locks import Locked
from corpusmill.io.stores.store import DataError
from corpusmill.pipeline.commands.actions.diff import compare_models
from corpusmill.pipeline.commands.actions.retraining.build import Listeners
from corpusmill.pipeline.commands.actions.retraining.plan import Request
from corpusmill.pipeline.commands.actions.retraining.retrain import retrain
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.models.versions import Versions
from helpers.nightly import BOATS, BREAD, MODELS, call, configuration, contents, write_configuration, write_day

TESTS = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A folder with two days of documents, the working directory in it."""
    monkeypatch.chdir(tmp_path)
    write_day(1, [BOATS, BREAD] * 8)
    write_day(2, [BOATS] * 4)
    return tmp_path


def words_of(version):
    return Corpus(f"models/batches/{version['corpus']}").vocabulary["word"].to_pylist()


def files(facts, name):
    return [Path(url).name for url in facts[name]]


class Killed(Exception):
    """Breaks off a training, as a signal would."""


def break_off(event):
    if isinstance(event, EpochFinished):
        raise Killed


# --- nights ---


@pytest.mark.parametrize("kind", MODELS)
def test_a_night_reads_what_is_new_and_a_second_call_does_nothing(kind):
    first = retrain(configuration(kind))
    assert (first["status"], first["version"], first["previous"], first["documents"] > 0) == (
        "published",
        1,
        None,
        True,
    )
    write_day(3, [BREAD + " zebra"] * 4)
    second = retrain(configuration(kind))
    assert (second["status"], second["version"], second["previous"]) == ("published", 2, 1)
    assert files(second, "added") == ["2026-11-03.jsonl"]
    assert second["documents"] <= 4
    assert second["new_words"] == 1
    before = contents("models")
    third = retrain(configuration(kind))
    assert (third["status"], third["version"], third["documents"]) == ("unchanged", 2, None)
    assert contents("models") == before
    assert "zebra" in load_model("models").model_.vocabulary["word"].to_pylist()


def test_words_keep_their_ids_and_the_documents_that_judge_stay_the_same():
    retrain(configuration("lda"))
    write_day(3, [BREAD + " zebra"] * 40)
    retrain(configuration("lda"))
    first, second = (Versions("models").read(n) for n in (1, 2))
    assert words_of(second)[:-1] == words_of(first)
    assert second["held_out"] == first["held_out"] == first["corpus"]
    assert second["measure"] == "held_out_log_likelihood"
    assert second["score_before"] == first["score"] != second["score"]


def test_a_file_that_was_touched_is_known_and_one_that_changed_is_read_again():
    retrain(configuration("word2vec"))
    os.utime("days/2026-11-01.jsonl", (1, 1))
    assert retrain(configuration("word2vec"))["status"] == "unchanged"
    write_day(2, [BOATS + " again"] * 3)
    facts = retrain(configuration("word2vec"))
    assert (files(facts, "changed"), facts["added"], facts["partitions"]) == (["2026-11-02.jsonl"], [], 2)


def test_random_indexing_is_that_of_the_files_that_are_there():
    retrain(configuration("random-indexing"))
    write_day(2, [BOATS + " again"] * 5)
    write_day(3, [BREAD + " zebra"] * 4)
    retrain(configuration("random-indexing"))
    Path("days/2026-11-01.jsonl").unlink()
    facts = retrain(configuration("random-indexing"))
    assert files(facts, "removed") == files(facts, "forgotten") == ["2026-11-01.jsonl"]
    assert (facts["status"], facts["partitions"], facts["documents"]) == ("published", 2, 0)
    found = RandomIndexing.load("models")
    alone = retrain(configuration("random-indexing", url="anew"))
    wanted = RandomIndexing.load(alone["model"])
    assert sorted(found.words_) == sorted(wanted.words_)
    for word in wanted.words_:
        np.testing.assert_array_equal(found.wv[word], wanted.wv[word])


def test_removed_files_are_reported_where_they_cannot_be_taken_out():
    retrain(configuration("word2vec"))
    Path("days/2026-11-01.jsonl").unlink()
    facts = retrain(configuration("word2vec"))
    assert (facts["status"], files(facts, "removed"), facts["forgotten"]) == ("unchanged", ["2026-11-01.jsonl"], [])


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(project):
    before = contents(project)
    facts = retrain(configuration("lda"), None, Request(dry_run=True))
    assert (facts["status"], files(facts, "added")) == ("planned", ["2026-11-01.jsonl", "2026-11-02.jsonl"])
    assert contents(project) == before
    retrain(configuration("lda"))
    before = contents(project)
    assert retrain(configuration("lda"), None, Request(dry_run=True))["status"] == "unchanged"
    write_day(3, [BREAD])
    assert retrain(configuration("lda"), None, Request(dry_run=True))["previous"] == 1
    assert {name for name in contents(project) if name not in before} == {str(project / "days/2026-11-03.jsonl")}


def dry_run(config, **options):
    return retrain(config, None, Request(dry_run=True, **options))


def test_a_dry_run_of_fresh_training_says_that_it_reads_all_files(capsys):
    write_configuration("lda")
    retrain(configuration("lda"))
    write_day(3, [BREAD])
    found = dry_run(configuration("lda"))
    assert (found["status"], found["continues_from"], found["files_to_read"]) == ("planned", 1, 1)
    found = dry_run(configuration("lda"), fresh=True)
    assert (found["status"], found["continues_from"], found["files_to_read"]) == ("planned", None, 3)
    assert call("retrain", "my.yaml", "--dry-run") == call("retrain", "my.yaml", "--dry-run", "--fresh") == 0
    out = capsys.readouterr().out
    assert "would continue from version 1 and read 1 file\n" in out
    assert "would train a new model from scratch on 3 files; version 1 is in use" in out
    assert retrain(configuration("lda"), None, Request(fresh=True))["documents"] > 1


def test_a_dry_run_after_a_rollback_says_what_the_real_call_says():
    retrain(configuration("lda"))
    write_day(3, [BREAD])
    retrain(configuration("lda"))
    Versions("models").rollback()
    planned = dry_run(configuration("lda"))
    assert planned == retrain(configuration("lda"))
    assert (planned["status"], "was withdrawn" in planned["reason"]) == ("unchanged", True)


def test_a_dry_run_after_a_refusal_says_what_the_real_call_says(capsys):
    retrain(configuration("word2vec"))
    write_day(3, [BREAD + " boat oven sea"] * 30)
    retrain(worse(tolerance=0.001))
    planned = dry_run(worse(tolerance=0.001))
    assert planned == retrain(worse(tolerance=0.001))
    assert (planned["status"], planned["version"]) == ("refused", 2)
    planned = dry_run(worse(tolerance=1e9))
    assert (planned["status"], planned["version"], planned["previous"]) == ("planned", 2, 1)


def test_a_backfill_takes_days_up_to_a_date():
    found = [retrain(configuration("word2vec"), None, Request(as_of=date(2026, 11, day))) for day in (1, 1, 2)]
    assert [files(facts, "added") for facts in found] == [["2026-11-01.jsonl"], [], ["2026-11-02.jsonl"]]
    assert [facts["status"] for facts in found] == ["published", "unchanged", "published"]
    # Looking back takes nothing away.
    assert retrain(configuration("word2vec"), None, Request(as_of=date(2026, 11, 1)))["removed"] == []
    with pytest.raises(DataError, match="no file is dated 2020-01-01 or earlier"):
        retrain(configuration("word2vec", url="other"), None, Request(as_of=date(2020, 1, 1)))
    with pytest.raises(DataError, match="no date is in this path"):
        retrain(configuration("word2vec", dates="(x)(y)(z)"), None, Request(as_of=date(2026, 11, 1)))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("news/2026-11-05.jsonl", date(2026, 11, 5)),
        ("s3://b/year/2026/11/05/part-0.parquet", date(2026, 11, 5)),
        ("20250101/20261105.gz", date(2026, 11, 5)),
        ("archive-20269999.jsonl", None),
        ("history.jsonl", None),
    ],
)
def test_dates_are_found_in_paths(path, found):
    assert date_in_url(path, configuration("lda").retrain.dates) == found


def test_training_anew_takes_all_files_and_keeps_ids():
    retrain(configuration("lda"))
    write_day(3, [BREAD + " zebra"] * 4)
    facts = retrain(configuration("lda"), None, Request(fresh=True))
    assert (facts["status"], facts["documents"], facts["epochs"]) == ("published", 24 - held_out_documents(), 3)
    assert words_of(Versions("models").read(2))[:-1] == words_of(Versions("models").read(1))
    assert retrain(configuration("lda"), None, Request(fresh=True))["status"] == "unchanged"


def held_out_documents():
    version = Versions("models").read(2)
    return Corpus(f"models/batches/{version['corpus']}", "held_out").n_documents


def test_other_settings_are_refused_unless_all_is_learned_anew():
    retrain(configuration("lda"))
    write_day(3, [BREAD])
    config = configuration("lda")
    config.model.n_components = 4
    with pytest.raises(
        ValueError, match=r"n_components is 4 and was 2; set them back, .* train a new model .* --fresh"
    ):
        retrain(config)
    assert retrain(config, None, Request(fresh=True))["status"] == "published"
    assert LDA.load("models").n_components == 4


def test_a_night_may_differ_from_the_first():
    retrain(configuration("word2vec", model={"epochs": 1}))
    write_day(3, [BREAD])
    assert retrain(configuration("word2vec", model={"epochs": 1}))["epochs"] == 1
    assert Word2Vec.load("models").epochs == MODELS["word2vec"]["epochs"]
    with pytest.raises(
        ValueError,
        match=r"retrain\.model\.epoch: word2vec models have no such parameter; .* or choose one of vector_size",
    ):
        retrain(configuration("word2vec", url="other", model={"epoch": 1}))


def test_data_without_a_source_are_learned_anew_when_they_change():
    Path("edges.tsv").write_text("".join(f"a{i}\tb{i % 7}\n" for i in range(40)))
    config = configuration("word2vec", url="graphs")
    tree = config.model_dump() | {"source": None, "corpus": {"url": "edges.tsv"}}
    tree["model"] = {"kind": "node2vec", "vector_size": 4, "epochs": 1, "num_walks": 1, "walk_length": 5}
    config = type(config).model_validate(tree)
    assert retrain(config)["version"] == 1
    assert retrain(config)["status"] == "unchanged"
    Path("edges.tsv").write_text("".join(f"a{i}\tb{i % 5}\n" for i in range(40)))
    assert retrain(config)["version"] == 2
    assert len(load_model("graphs").wv) == 45


# --- the gate, and what is kept ---


def worse(**more):
    return configuration("word2vec", model={"alpha": 0.3, "min_alpha": 0.3, "epochs": 9}, **more)


def test_a_worse_version_is_kept_and_not_published():
    retrain(configuration("word2vec"))
    write_day(3, [BREAD + " boat oven sea"] * 30)
    facts = retrain(worse(tolerance=0.001))
    assert (facts["status"], facts["version"], facts["previous"]) == ("refused", 2, 1)
    assert "held_out_loss is" in facts["reason"]
    assert Versions("models").rows()[0]["state"] == "refused"
    assert "exceeds the retrain.tolerance of 0.10%" in facts["reason"]
    assert Versions("models").head.version == 1
    before = contents("models")
    assert retrain(worse(tolerance=0.001))["status"] == "refused"
    assert contents("models") == before
    assert retrain(worse(tolerance=1e9))["status"] == "published"
    assert contents("models/versions") == {name: b for name, b in before.items() if "versions" in name}
    assert Versions("models").rollback()["version"] == 1
    # A person may decide otherwise.
    assert Versions("models").rollback(2)["previous"] == 1
    assert [row["state"] for row in Versions("models").rows()] == ["in use", "withdrawn"]


def test_a_rollback_lasts_until_there_is_something_new():
    for day in (3, 4):
        retrain(configuration("lda"))
        write_day(day, [BREAD + f" new{day}"] * 4)
    retrain(configuration("lda"))
    assert Versions("models").rollback() == {
        "url": "models",
        "version": 2,
        "previous": 3,
        "model": "models/versions/000002/model",
    }
    facts = retrain(configuration("lda"))
    assert (facts["status"], facts["version"]) == ("unchanged", 2)
    assert "version 3 covers the same files and was withdrawn" in facts["reason"]
    assert Versions("models").head.version == 2
    write_day(5, [BOATS])
    facts = retrain(configuration("lda"))
    assert (facts["version"], facts["previous"], len(facts["added"])) == (4, 2, 2)
    with pytest.raises(DataError, match="version 4 is in use already"):
        Versions("models").rollback(4)
    with pytest.raises(DataError, match="no version 9 here; there is 1, 2, 3, 4"):
        Versions("models").rollback(9)


def test_the_last_versions_are_kept_and_what_they_need():
    for day in range(3, 7):
        retrain(configuration("lda", keep=2))
        write_day(day, [BREAD + f" new{day}"] * 2)
    assert Versions("models").numbers == [3, 4]
    needed = {batch for n in (3, 4) for batch in Versions("models").read(n)["batches"]}
    assert {path.name for path in Path("models/batches").iterdir()} == needed
    assert list(Path("models/runs").iterdir()) == []
    with pytest.raises(DataError, match="no version before 3 is kept"):
        Versions("models").before(3)


def test_files_that_others_put_among_the_versions_are_kept_and_do_no_harm():
    retrain(configuration("lda", keep=1))
    strange = [
        Path("models", folder, name) for folder in ("versions", "batches", "runs") for name in (".DS_Store", "my")
    ]
    for path in strange:
        if path.name == ".DS_Store":
            path.write_text("")
        else:
            path.mkdir()
            (path / "notes.txt").write_text("mine")
    Path("models/versions/000007").mkdir()
    Path("models/versions/000008").write_text("a file")
    before = {path: contents(path) for path in strange}
    for day in (3, 4):
        write_day(day, [BREAD + f" new{day}"] * 2)
        assert retrain(configuration("lda", keep=1))["status"] == "published"
    assert {path: contents(path) for path in strange} == before
    assert [path.exists() for path in strange] == [True] * 6
    assert Path("models/versions/000007").is_dir()
    assert Versions("models").numbers == [3]
    assert call("versions", "models") == call("inspect", "models") == 0


# --- kills and locks ---


def test_a_version_is_on_the_disk_before_head_names_it(monkeypatch):
    flushed, fsync, named = [], os.fsync, lambda file: str(Path(f"/proc/self/fd/{file}").readlink())
    monkeypatch.setattr(os, "fsync", lambda file: (flushed.append(named(file)), fsync(file)))
    facts = retrain(configuration("lda"))
    head = max(i for i, name in enumerate(flushed) if name.endswith("-HEAD"))
    needed = [path for folder in ("versions", "batches") for path in Path("models", folder).rglob("*")]
    assert facts["status"] == "published"
    assert {str(path.resolve()) for path in needed} <= set(flushed[:head])


def test_killed_anywhere_the_next_call_ends_in_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "helpers.nightly", "5", tmp_path / "killed"]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert len(outcomes) >= 20
    assert [outcome for outcome in outcomes if outcome["killed"] != signal.SIGKILL] == []
    assert [outcome for outcome in outcomes if outcome["ended"] != 0 or not outcome["same"]] == []


def test_going_on_from_a_model_goes_on_where_it_was_broken_off(tmp_path):
    from corpusmill.pipeline.ingest.ingest import IngestOptions, ingest

    days = [ingest(f"days/2026-11-0{day}.jsonl", f"day{day}", IngestOptions()) for day in (1, 2)]
    Word2Vec(**MODELS["word2vec"]).fit(days[0]).save("model")
    with pytest.raises(Killed):
        Word2Vec.load("model").partial_fit(days[1], run="run", callbacks=[break_off])
    epochs = []
    resumed = Word2Vec.load("model").partial_fit(days[1], run="run", callbacks=[epochs.append])
    assert [event.epoch for event in epochs if isinstance(event, EpochFinished)] == [2]
    at_once = Word2Vec.load("model").partial_fit(days[1])
    np.testing.assert_array_equal(resumed.wv.vectors, at_once.wv.vectors)


def test_two_at_once_is_one_too_many(capsys):
    write_configuration("lda")
    with Versions("models").locked():
        with pytest.raises(Locked, match="another process is retraining"):
            retrain(configuration("lda"))
        assert call("retrain", "my.yaml", "--json") == 75
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert json.loads(line)["status"] == "locked"


# --- on an object store ---


def test_the_same_on_an_object_store(bucket, tmp_path):
    config = configuration("word2vec", url=f"{bucket}/{tmp_path.name}")
    assert retrain(config)["version"] == 1
    write_day(3, [BREAD + " zebra"] * 4)
    with pytest.raises(Killed):
        retrain(config, None, None, Listeners(train=[break_off]))
    assert Versions(config.retrain.url).head.version == 1
    assert retrain(config)["version"] == 2
    local = configuration("word2vec")
    Path("days/2026-11-03.jsonl").rename("later")
    retrain(local)
    Path("later").rename("days/2026-11-03.jsonl")
    retrain(local)
    there, here = (load_model(c.retrain.url).wv for c in (config, local))
    np.testing.assert_array_equal(there.vectors, here.vectors)
    head = Versions(config.retrain.url).head
    assert Versions(config.retrain.url).rollback()["version"] == 1
    with pytest.raises(Locked, match="published a version meanwhile"):
        Versions(config.retrain.url).publish(2, head, ())


# --- how versions differ ---


def test_topics_are_matched_whatever_their_numbers():
    old = LDA(3, doc_topic_prior=0.1, max_iter=20, random_state=1).fit(
        [["apple", "pear"] * 6, ["car", "road"] * 6, ["sea", "ship"] * 6] * 5
    )
    old.save("model")
    new = LDA.load("model")
    order = np.array([2, 0, 1])
    block = new.model_.blocks[0]
    block["topics"] = np.argsort(order)[block["topics"]].astype(np.uint16)
    new.model_.shared["totals"] = new.model_.shared["totals"][order]
    found = compare_models(old, new)
    assert {row["topic"]: row["was"] for row in found["topics"]} == dict(enumerate(order.tolist()))
    assert found["mean_drift"] < 1e-3
    assert all(not row["entered"] and not row["left"] for row in found["topics"])


def test_drift_is_one_where_no_word_is_shared():
    options = {"n_components": 2, "doc_topic_prior": 0.1, "topic_word_prior": 1e-9, "max_iter": 5}
    old = LDA(**options).fit([["apple", "pear"] * 6] * 4)
    new = LDA(**options).fit([["car", "road"] * 6] * 4)
    found = compare_models(old, new)
    assert found["mean_drift"] == pytest.approx(1.0)
    assert (found["words_added"]["number"], found["words_removed"]["first"]) == (2, ["apple", "pear"])


def test_neighbours_that_words_kept():
    model = Word2Vec(**MODELS["word2vec"]).fit([BOATS.split(), BREAD.split()] * 10)
    assert compare_models(model, model)["kept_neighbours"] == 1.0
    other = Word2Vec(**MODELS["word2vec"] | {"seed": 2}).fit([BOATS.split(), BREAD.split()] * 10)
    assert 0 < compare_models(model, other)["kept_neighbours"] < 1.0
    with pytest.raises(ValueError, match="cannot compare a model of kind word2vec with one of kind lda"):
        compare_models(model, LDA(2, max_iter=1).fit([["a", "b"]]))


# --- the command line ---


def test_the_commands_of_a_night(capsys):
    write_configuration("lda")
    assert call("retrain", "my.yaml", "--dry-run") == 0
    assert "would train the first version on 2 files" in capsys.readouterr().out
    assert call("retrain", "my.yaml") == 0
    assert "published models: version 1" in capsys.readouterr().out
    assert call("retrain", "my.yaml", "--unchanged", "99", "--json") == 99
    assert json.loads(capsys.readouterr().out)["status"] == "unchanged"
    write_day(3, [BREAD + " zebra"] * 4)
    assert call("retrain", "my.yaml", "--json") == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out)["version"] == 2
    call("versions", "models")
    assert "in use" in capsys.readouterr().out.splitlines()[1]
    call("diff", "models")
    assert "1 word: zebra" in capsys.readouterr().out
    call("topics", "models", "--json")
    assert len(json.loads(capsys.readouterr().out)["topics"]) == 2
    call("rollback", "models", "--json")
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_a_refusal_has_its_own_exit_code(capsys):
    Path("first.yaml").write_text(json.dumps(configuration("word2vec").model_dump(mode="json")))
    Path("my.yaml").write_text(json.dumps(worse(tolerance=0.001).model_dump(mode="json")))
    call("retrain", "first.yaml")
    write_day(3, [BREAD + " boat oven sea"] * 30)
    assert call("retrain", "my.yaml") == 3
    assert "version 1 stays in use" in capsys.readouterr().out


def test_a_job_that_fails_or_is_terminated_says_so_in_one_line(capsys):
    write_configuration("lda")
    Path("days/2026-11-03.jsonl").write_bytes(b"no json\n")
    assert call("retrain", "my.yaml", "--json") == 4
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "failed"
    assert "2026-11-03.jsonl, line 1" in found["error"]


def test_where_there_is_no_version(capsys):
    assert call("versions", "nothing") == 4
    assert "there are no versions here" in capsys.readouterr().err
    LDA(2, max_iter=1).fit([["a", "b"]], run="run")
    assert call("versions", "run") == 4
    assert "there are no versions here" in capsys.readouterr().err
    retrain(configuration("lda"))
    assert call("rollback", "models") == 4
    assert "version 1 is the first one" in capsys.readouterr().err


def test_inspect_says_what_versions_there_are(capsys):
    retrain(configuration("lda"))
    call("inspect", "models", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["what"], found["kind"], found["kept"], found["in_use"]) == ("versions of a model", "lda", [1], 1)
    assert found["model"] == "models/versions/000001/model"
    assert found["partitions"] == 2
