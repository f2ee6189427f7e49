"""Which versions are published, refused, withdrawn and kept."""

from pathlib import Path

import pytest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.publishing.retrain import retrain
from corpusmill.pipeline.publishing.versions import Versions
from helpers.nightly import BOATS, BREAD, call, configuration, contents, worse, write_day


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
    # A user can still publish it.
    assert Versions("models").rollback(2)["previous"] == 1
    assert [row["state"] for row in Versions("models").rows()] == ["in use", "withdrawn"]


def test_a_rollback_lasts_until_a_file_is_new():
    for day in (3, 4):
        retrain(configuration("lda"))
        write_day(day, [BREAD + f" new{day}"] * 4)
    retrain(configuration("lda"))
    assert Versions("models").rollback() == {
        "url": "models",
        "version": 2,
        "previous": 3,
        "model": "models/versions/000002-0002/model",
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
    with pytest.raises(DataError, match="no version 9 here; versions: 1, 2, 3, 4"):
        Versions("models").rollback(9)


def test_the_last_versions_and_their_batches_are_kept():
    for day in range(3, 7):
        retrain(configuration("lda", keep=2))
        write_day(day, [BREAD + f" new{day}"] * 2)
    assert Versions("models").numbers == [3, 4]
    needed = {batch for n in (3, 4) for batch in Versions("models").read(n)["batches"]}
    assert {path.name for path in Path("models/batches").iterdir()} == needed
    assert list(Path("models/runs").iterdir()) == []
    with pytest.raises(DataError, match="no version before 3 is kept"):
        Versions("models").before(3)


def test_files_of_other_programs_among_the_versions_are_kept_and_ignored():
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
    assert Versions("models").numbers == [2, 3]
    assert call("versions", "models") == call("inspect", "models") == 0
