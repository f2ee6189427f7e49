"""Versions of a model: what is kept, what is deleted, and files of other programs among them."""

import json
from pathlib import Path

import pytest
from corpusmill.io.errors import DataError, Locked
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.models.base.in_use import VersionsHead, model_in_use
from corpusmill.pipeline.models.base.saved import read_model_meta
from corpusmill.pipeline.publishing.versions import Versions


def facts(name, previous, batches):
    """Return a minimal record of a version, as retraining writes it."""
    return {
        "name": name,
        "previous": previous,
        "fresh": not previous,
        "model": "lda",
        "settings": {"model": {}, "source": None, "corpus": {}},
        "partitions": {},
        "added": ["a.txt"],
        "changed": [],
        "removed": [],
        "forgotten": [],
        "corpus": batches[-1],
        "held_out": batches[0],
        "batches": batches,
        "documents": 3,
        "tokens": 30,
        "words": 10,
        "new_words": 1,
        "epochs": 2,
        "software": {},
        "measure": "held_out_loss",
        "score": 1.5,
        "score_before": None,
        "finite": True,
        "refused": "",
    }


def make(versions, number, batches):
    """Write a complete version with its batch and its run, as retraining does; the last batch is its own."""
    name = batches[-1]
    model = Store(versions.begin(number, name))
    model.write_json("model.json", {})
    for path in (f"batches/{name}/corpus.json", f"runs/{name}/run.json"):
        versions.store.write_json(path, {})
    versions.finish(number, facts(name, number - 1, batches))


def publish(versions, number):
    """Put a version in use."""
    versions.publish(number, versions.head.withdrawn)


def delete_unused(versions, keep, current=""):
    """Delete what nothing needs."""
    with versions.locked():
        versions.delete_unused(keep, current)


@pytest.fixture
def versions(tmp_path):
    """Three versions, the last one in use; all need the first batch."""
    versions = Versions(str(tmp_path / "models"))
    for number in (1, 2, 3):
        with versions.locked():
            make(versions, number, sorted({"batch1", f"batch{number}"}))
            publish(versions, number)
    return versions


def names(versions, folder):
    """List what a folder holds, files of all programs included."""
    return sorted(path.name for path in Path(versions.url, folder).iterdir())


def scatter(versions):
    """Put folders and files into the versions that other programs might put there; return their paths."""
    root = Path(versions.url)
    strays = [root / folder / "keep-me" / "notes.txt" for folder in ("versions", "batches", "runs")]
    strays += [root / folder / ".DS_Store" for folder in ("", "versions", "batches", "runs")]
    strays += [root / "versions" / "000009", root / "versions" / "12" / "version.json"]
    strays += [root / "versions" / "000008" / "mine.txt"]
    for path in strays:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    return strays


def test_old_versions_are_deleted_with_the_batches_and_runs_that_only_they_need(versions):
    delete_unused(versions, keep=1, current="batch3")
    assert versions.numbers == [2, 3]
    assert names(versions, "batches") == ["batch1", "batch2", "batch3"]
    assert names(versions, "runs") == ["batch3"]
    delete_unused(versions, keep=1)
    assert names(versions, "runs") == []


def test_the_version_before_the_one_in_use_is_kept_for_a_rollback(versions):
    for number in (4, 5):  # refused
        with versions.locked():
            make(versions, number, ["batch1", f"batch{number}"])
    delete_unused(versions, keep=1)
    assert versions.numbers == [2, 3, 5]
    assert versions.rollback()["version"] == 2


def test_the_version_in_use_is_kept_however_old_it_is(versions):
    versions.rollback(1)
    delete_unused(versions, keep=1)
    assert versions.numbers == [1, 3]


def test_files_of_other_programs_are_never_deleted(versions):
    strays = scatter(versions)
    delete_unused(versions, keep=1)
    assert versions.numbers == [2, 3]
    assert [path for path in strays if path.read_text() != "mine"] == []


def test_stray_files_do_not_prevent_retraining(versions):
    scatter(versions)
    assert [row["version"] for row in versions.rows()] == [3, 2, 1]
    with versions.locked():
        make(versions, 4, ["batch1", "batch4"])
        publish(versions, 4)
    delete_unused(versions, keep=2)
    assert versions.rollback()["version"] == 3
    assert versions.numbers == [3, 4]


def test_a_version_does_not_replace_a_folder_of_another_program(versions):
    notes = Path(versions.url, "versions", "000004-0004", "notes.txt")
    notes.parent.mkdir()
    notes.write_text("mine")
    refusal = "000004-0004: belongs to version 4, but corpusmill did not create it"
    with versions.locked(), pytest.raises(DataError, match=refusal):
        versions.begin(4, "batch4")
    assert notes.read_text() == "mine"


def test_a_version_is_complete_when_head_names_it(versions):
    with versions.locked():
        Store(versions.begin(4, "batch4")).write_json("model.json", {})
    versions.store.write_json("versions/000004-0004/version.json", {})
    assert versions.numbers == [1, 2, 3]
    with pytest.raises(DataError, match="no version 4 here; versions: 1, 2, 3"):
        versions.read(4)
    delete_unused(versions, keep=3)
    assert names(versions, "versions") == ["000001-0001", "000002-0002", "000003-0003"]


def test_a_version_that_is_started_again_gets_another_folder(versions):
    with versions.locked():
        first = versions.begin(4, "batch4")
    with versions.locked():
        assert versions.begin(4, "batch4") != first


def test_each_version_is_one_row_with_its_state(versions):
    versions.rollback()
    refused = facts("other", 2, ["batch1"]) | {"refused": "worse"}
    with versions.locked():
        versions.begin(4, "other")
        versions.finish(4, refused)
    assert [(row["version"], row["state"]) for row in versions.rows()] == [
        (4, "refused"),
        (3, "withdrawn"),
        (2, "in use"),
        (1, ""),
    ]
    assert versions.rows()[0] | {"made": ""} == {
        "version": 4,
        "previous": 2,
        "measure": "held_out_loss",
        "score": 1.5,
        "refused": "worse",
        "partitions": 0,
        "added": 1,
        "changed": 0,
        "removed": 0,
        "state": "refused",
        "made": "",
    }


def test_an_owner_that_was_paused_changes_nothing(versions):
    """On an object store, another process takes over when the lock expires. Here both have the lock at once."""
    paused, other = Versions(versions.url), Versions(versions.url)
    with paused.locked():
        make(paused, 4, ["batch1", "batch4"])
        Path(versions.url, "retrain.lock").unlink()
        with other.locked():
            before = Path(versions.url, "HEAD").read_text(), Path(versions.url, "created.json").read_text()
            for write in (
                lambda: paused.publish(4, ()),
                lambda: paused.begin(5, "batch5"),
                lambda: paused.finish(5, facts("batch5", 4, ["batch1"])),
                lambda: paused.delete_unused(keep=1),
            ):
                with pytest.raises(Locked, match="was paused and lost its lock, and another one has taken over"):
                    write()
            assert before == (Path(versions.url, "HEAD").read_text(), Path(versions.url, "created.json").read_text())
            make(other, 5, ["batch1", "batch5"])
            publish(other, 5)
    assert (versions.head.version, versions.numbers) == (5, [1, 2, 3, 4, 5])


def test_rolling_back_beyond_the_first_version_is_refused(versions):
    versions.rollback(1)
    with pytest.raises(DataError, match="version 1 is the first one"):
        versions.rollback()
    with pytest.raises(DataError, match="version 1 is in use already"):
        versions.rollback(1)
    with pytest.raises(DataError, match="no version 7 here"):
        versions.rollback(7)


def test_a_url_without_versions_is_refused_and_a_damaged_head_is_named(versions, tmp_path):
    with pytest.raises(DataError, match="make the first with"):
        Versions(str(tmp_path / "nothing")).check_exist()
    assert Versions(str(tmp_path / "nothing")).head == VersionsHead()
    Path(versions.url, "HEAD").write_text("{}")
    with pytest.raises(DataError, match="HEAD: names no version"):
        versions.check_exist()


def test_a_run_with_any_configuration_stands_for_itself_without_a_model(tmp_path):
    url = str(tmp_path)
    for section in ("name", {"model": ""}, {"model": 3}, None):
        Store(url).write_json("run.json", {"config": {"run": section}})
        assert model_in_use(url) == url


@pytest.mark.parametrize(
    ("place", "words"),
    [("demo/model", "its model is at demo/model below the folder"), ("/gone/model", "has not saved its model yet")],
)
def test_a_run_whose_model_is_not_found_says_where_it_is(tmp_path, monkeypatch, place, words):
    monkeypatch.chdir(tmp_path)  # after `make demo`, the folder of the sources has demo/model
    (tmp_path / "run.json").write_text(json.dumps({"config": {"run": {"model": place}}}))
    with pytest.raises(DataError, match=words):
        read_model_meta(str(tmp_path))


def test_the_model_in_use_is_found_by_the_url_of_its_versions(versions, tmp_path):
    assert model_in_use(versions.url) == versions.model(3) == f"{versions.url}/versions/000003-0003/model"
    assert model_in_use(versions.model(2)) == versions.model(2)
    assert model_in_use(str(tmp_path / "elsewhere")) == str(tmp_path / "elsewhere")
