"""Retraining again and again: which files are read, and what is trained."""

import os
import time
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from corpusmill import LDA, RandomIndexing, Word2Vec
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.publishing import plan
from corpusmill.pipeline.publishing.manifest import date_in_url
from corpusmill.pipeline.publishing.plan import RetrainRequest
from corpusmill.pipeline.publishing.retrain import retrain
from corpusmill.pipeline.publishing.versions import Versions
from helpers.nightly import (
    BOATS,
    BREAD,
    MODELS,
    call,
    configuration,
    contents,
    file_names,
    words_of,
    worse,
    write_configuration,
    write_day,
)


@pytest.mark.parametrize("kind", MODELS)
def test_only_new_files_are_read_and_a_repeated_call_does_nothing(kind):
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
    assert file_names(second, "added") == ["2026-11-03.jsonl"]
    assert second["documents"] <= 4
    assert second["new_words"] == 1
    before = contents("models")
    third = retrain(configuration(kind))
    assert (third["status"], third["version"], third["documents"]) == ("unchanged", 2, None)
    assert contents("models") == before
    assert "zebra" in load_model("models").model_.vocabulary["word"].to_pylist()


def test_files_that_may_still_be_written_are_left_for_the_next_night():
    retrain(configuration("random-indexing"))
    write_day(3, [BREAD] * 4)
    write_day(2, [BREAD] * 4)
    old = configuration("random-indexing", least_age=3600)
    assert retrain(old)["status"] == "unchanged"  # also the known file is neither read again nor forgotten
    assert file_names(retrain(configuration("random-indexing")), "added") == ["2026-11-03.jsonl"]


def test_a_first_night_of_young_files_says_how_to_go_on():
    for as_of in (None, date(2026, 11, 2)):
        with pytest.raises(DataError, match=r"left to train .*: 2 files changed in the last 3600 s .* lower retrain\."):
            retrain(configuration("lda", least_age=3600), None, RetrainRequest(as_of=as_of))


def test_fresh_training_leaves_young_files_for_the_next_call(capsys):
    write_configuration("lda", retrain={"url": "models", "least_age": 3600})
    retrain(configuration("lda"))
    write_day(2, [BOATS] * 5)
    retrain(configuration("lda"))
    with pytest.raises(DataError, match="no file is left to train a new model on: 2 files"):
        retrain(configuration("lda", least_age=3600), None, RetrainRequest(fresh=True))
    # Nothing can set the time of a file's last change, so the first two files get old in a moment.
    time.sleep(1.2)
    write_day(3, [BREAD + " zebra"] * 4)
    write_day(2, [BOATS + " again"] * 4)
    facts = retrain(configuration("lda", least_age=1.0), None, RetrainRequest(fresh=True))
    assert (facts["status"], facts["partitions"], facts["too_young"], facts["removed"]) == ("published", 1, 2, [])
    # The version in use was trained afresh as well, so that nothing would be due.
    with pytest.raises(DataError, match="no file is left to train a new model on: 3 files"):
        retrain(configuration("lda", least_age=3600), None, RetrainRequest(fresh=True))
    facts = retrain(configuration("lda"))
    assert file_names(facts, "added") == ["2026-11-02.jsonl", "2026-11-03.jsonl"]
    assert call("retrain", "my.yaml") == 0
    assert "left out" in (out := capsys.readouterr().out) and "3 files changed a moment ago" in out


def test_a_file_that_was_moved_a_moment_ago_is_not_forgotten_until_it_is_read():
    retrain(configuration("random-indexing"))
    Path("days/2026-11-01.jsonl").rename("days/2026-11-04.jsonl")
    facts = retrain(configuration("random-indexing", least_age=3600))
    assert (facts["status"], facts["removed"], facts["forgotten"]) == ("unchanged", [], [])
    assert retrain(configuration("random-indexing"))["status"] == "unchanged"
    Path("days/2026-11-02.jsonl").unlink()
    facts = retrain(configuration("random-indexing", least_age=3600))
    assert file_names(facts, "forgotten") == ["2026-11-02.jsonl"]


def test_a_csv_file_that_ends_within_a_line_is_refused_until_it_is_old(monkeypatch):
    path = Path("days") / "2026-11-03.csv"
    row = f"a,{BOATS}\n"
    path.write_text("id,text\n" + row * 9 + row[:9])
    config = configuration("lda")
    config.source.path = "days/*.csv"
    with pytest.raises(DataError, match=r"2026-11-03\.csv: was changed in the last 10 minutes .* counts as complete"):
        retrain(config)
    path.write_text("id,text\n" + row * 10)
    assert retrain(config)["status"] == "published"
    path.write_text("id,text\n" + row * 9 + row.strip())
    time.sleep(0.02)
    config.retrain.least_age = 0.01
    assert file_names(retrain(config), "changed") == ["2026-11-03.csv"]
    config.retrain.least_age = 0
    path.write_text("id,text\n" + row * 8 + row.strip())
    time.sleep(0.02)
    monkeypatch.setattr(plan, "QUIET_SECONDS", 0.01)
    assert file_names(retrain(config), "changed") == ["2026-11-03.csv"]


def test_words_keep_their_ids_and_held_out_documents_stay_the_same():
    retrain(configuration("lda"))
    write_day(3, [BREAD + " zebra"] * 40)
    retrain(configuration("lda"))
    first, second = (Versions("models").read(n) for n in (1, 2))
    assert words_of(second)[:-1] == words_of(first)
    assert second["held_out"] == first["held_out"] == first["corpus"]
    assert second["measure"] == "held_out_log_likelihood"
    assert second["score_before"] == first["score"] != second["score"]


def test_a_touched_file_is_not_read_again_and_a_changed_one_is():
    retrain(configuration("word2vec"))
    os.utime("days/2026-11-01.jsonl", (1, 1))
    assert retrain(configuration("word2vec"))["status"] == "unchanged"
    write_day(2, [BOATS + " again"] * 3)
    facts = retrain(configuration("word2vec"))
    assert (file_names(facts, "changed"), facts["added"], facts["partitions"]) == (["2026-11-02.jsonl"], [], 2)
    # The next night knows the touched file by its times, and does not compute its digest again.
    first = Versions("models").read(2)["partitions"][str(Path("days/2026-11-01.jsonl").absolute())]
    assert float(first["modified"]) == 1.0


def replace_and_keep_size_and_time(path, old, new):
    before = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("options", [(), ("--verify", "digest")], ids=str)
def test_a_file_replaced_by_one_of_the_same_size_and_time_is_found(options):
    write_configuration("random-indexing")
    assert call("retrain", "my.yaml", *options) == 0
    replace_and_keep_size_and_time(Path("days/2026-11-02.jsonl"), "sailor", "zebras")
    assert call("retrain", "my.yaml", *options) == 0
    assert "zebras" in load_model("models").words_
    # The next call compares with the new digest.
    assert call("retrain", "my.yaml", *options, "--unchanged", 7) == 7


def assert_equal_to_a_new_model(config):
    found = RandomIndexing.load("models")
    config.retrain.url = "anew"
    wanted = RandomIndexing.load(retrain(config)["model"])
    assert sorted(found.words_) == sorted(wanted.words_)
    for word in wanted.words_:
        np.testing.assert_array_equal(found.wv[word], wanted.wv[word])


def test_random_indexing_subtracts_files_that_were_changed_or_removed():
    retrain(configuration("random-indexing"))
    write_day(2, [BOATS + " again"] * 5)
    write_day(3, [BREAD + " zebra"] * 4)
    retrain(configuration("random-indexing"))
    Path("days/2026-11-01.jsonl").unlink()
    facts = retrain(configuration("random-indexing"))
    assert file_names(facts, "removed") == file_names(facts, "forgotten") == ["2026-11-01.jsonl"]
    assert (facts["status"], facts["partitions"], facts["documents"]) == ("published", 2, 0)
    assert_equal_to_a_new_model(configuration("random-indexing"))


@pytest.mark.parametrize("kind", MODELS)
def test_files_of_a_moved_folder_are_known(kind):
    retrain(configuration(kind))
    Path("days").rename("elsewhere")
    config = configuration(kind)
    config.source.path = "elsewhere/*.jsonl"
    assert retrain(config)["status"] == "unchanged"
    write_day(3, [BREAD + " zebra"] * 4, "elsewhere")
    facts = retrain(config)
    assert (file_names(facts, "added"), facts["changed"], facts["removed"]) == (["2026-11-03.jsonl"], [], [])
    assert (facts["status"], facts["partitions"], facts["documents"] <= 4) == ("published", 3, True)
    assert retrain(config)["status"] == "unchanged"


def rotate_logs(night):
    """Rename two of three logs, drop the oldest one, and write a new one."""
    for day in (2, 1):
        Path(f"days/2026-11-0{day}.jsonl").replace(f"days/2026-11-0{day + 1}.jsonl")
    write_day(1, [BREAD + f" zebra{night}"] * 4)


@pytest.mark.parametrize("kind", MODELS)
def test_only_the_newest_of_logs_that_are_rotated_is_read(kind):
    write_day(3, [BREAD + " raisins"] * 4)
    retrain(configuration(kind))
    for night in range(2):
        rotate_logs(night)
        facts = retrain(configuration(kind))
        assert (file_names(facts, "changed"), facts["added"], facts["removed"]) == (["2026-11-01.jsonl"], [], [])
        assert (facts["status"], facts["partitions"], facts["files_to_read"]) == ("published", 3, 1)
        assert facts["documents"] <= 4
    assert retrain(configuration(kind))["status"] == "unchanged"


def without_held_out():
    # Which documents are held out depends on the names of their files.
    config = configuration("random-indexing")
    config.corpus.held_out = 0.0
    return config


@pytest.mark.filterwarnings("ignore:no documents are held out")
def test_random_indexing_subtracts_the_log_that_rotation_drops():
    write_day(3, [BREAD + " raisins"] * 4)
    retrain(without_held_out())
    for night in range(4):
        rotate_logs(night)
        assert file_names(retrain(without_held_out()), "forgotten") == ["2026-11-01.jsonl"]
    assert "raisins" not in RandomIndexing.load("models").words_
    assert_equal_to_a_new_model(without_held_out())


@pytest.mark.filterwarnings("ignore:no documents are held out")
def test_random_indexing_subtracts_a_file_that_a_moved_one_replaced():
    retrain(without_held_out())
    Path("days/2026-11-02.jsonl").replace("days/2026-11-01.jsonl")
    facts = retrain(without_held_out())
    assert file_names(facts, "removed") == file_names(facts, "forgotten") == ["2026-11-02.jsonl"]
    assert (facts["changed"], facts["partitions"], facts["documents"]) == ([], 1, 0)
    assert_equal_to_a_new_model(without_held_out())


def test_random_indexing_subtracts_moved_files_that_were_changed_or_removed():
    retrain(configuration("random-indexing"))
    # Logs are rotated like this.
    Path("days/2026-11-02.jsonl").rename("days/2026-11-03.jsonl")
    Path("days/2026-11-01.jsonl").rename("days/2026-11-02.jsonl")
    write_day(1, [BREAD + " zebra"] * 4)
    facts = retrain(configuration("random-indexing"))
    assert (file_names(facts, "added"), facts["changed"], facts["forgotten"]) == (["2026-11-01.jsonl"], [], [])
    Path("days/2026-11-02.jsonl").unlink()
    write_day(3, [BOATS + " again"] * 5)
    facts = retrain(configuration("random-indexing"))
    assert file_names(facts, "forgotten") == ["2026-11-02.jsonl", "2026-11-03.jsonl"]
    assert_equal_to_a_new_model(configuration("random-indexing"))


def test_removed_files_are_reported_by_models_that_cannot_subtract_them():
    retrain(configuration("word2vec"))
    Path("days/2026-11-01.jsonl").unlink()
    facts = retrain(configuration("word2vec"))
    assert (facts["status"], file_names(facts, "removed"), facts["forgotten"]) == (
        "unchanged",
        ["2026-11-01.jsonl"],
        [],
    )


def test_files_that_were_removed_are_reported_until_the_next_version_and_known_if_they_come_back():
    retrain(configuration("word2vec"))
    Path("days/2026-11-01.jsonl").rename("away")
    for _ in range(2):
        assert file_names(retrain(configuration("word2vec")), "removed") == ["2026-11-01.jsonl"]
    for day in (3, 4):
        write_day(day, [BREAD] * 4)
        facts = retrain(configuration("word2vec"))
        assert file_names(facts, "removed") == (["2026-11-01.jsonl"] if day == 3 else [])
    Path("away").rename("days/2026-11-01.jsonl")
    assert retrain(configuration("word2vec"))["status"] == "unchanged"
    write_day(5, [BREAD] * 4)
    assert file_names(retrain(configuration("word2vec")), "added") == ["2026-11-05.jsonl"]
    Path("days/2026-11-01.jsonl").unlink()
    assert file_names(retrain(configuration("word2vec")), "removed") == ["2026-11-01.jsonl"]


def test_a_dry_run_describes_the_work_and_writes_nothing(project):
    before = contents(project)
    facts = retrain(configuration("lda"), None, RetrainRequest(dry_run=True))
    assert (facts["status"], file_names(facts, "added")) == ("planned", ["2026-11-01.jsonl", "2026-11-02.jsonl"])
    assert contents(project) == before
    retrain(configuration("lda"))
    before = contents(project)
    assert retrain(configuration("lda"), None, RetrainRequest(dry_run=True))["status"] == "unchanged"
    write_day(3, [BREAD])
    assert retrain(configuration("lda"), None, RetrainRequest(dry_run=True))["previous"] == 1
    assert {name for name in contents(project) if name not in before} == {str(project / "days/2026-11-03.jsonl")}


def dry_run(config, **options):
    return retrain(config, None, RetrainRequest(dry_run=True, **options))


def test_a_dry_run_of_fresh_training_reads_all_files(capsys):
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
    assert retrain(configuration("lda"), None, RetrainRequest(fresh=True))["documents"] > 1


def test_a_dry_run_after_a_rollback_has_the_result_of_the_real_call():
    retrain(configuration("lda"))
    write_day(3, [BREAD])
    retrain(configuration("lda"))
    Versions("models").rollback()
    planned = dry_run(configuration("lda"))
    assert planned == retrain(configuration("lda"))
    assert (planned["status"], "was withdrawn" in planned["reason"]) == ("unchanged", True)


def test_a_dry_run_after_a_refusal_has_the_result_of_the_real_call(capsys):
    retrain(configuration("word2vec"))
    write_day(3, [BREAD + " boat oven sea"] * 30)
    retrain(worse(tolerance=0.001))
    planned = dry_run(worse(tolerance=0.001))
    assert planned == retrain(worse(tolerance=0.001))
    assert (planned["status"], planned["version"]) == ("refused", 2)
    planned = dry_run(worse(tolerance=1e9))
    assert (planned["status"], planned["version"], planned["previous"]) == ("planned", 2, 1)


def test_as_of_uses_files_up_to_a_date():
    found = [retrain(configuration("word2vec"), None, RetrainRequest(as_of=date(2026, 11, day))) for day in (1, 1, 2)]
    assert [file_names(facts, "added") for facts in found] == [["2026-11-01.jsonl"], [], ["2026-11-02.jsonl"]]
    assert [facts["status"] for facts in found] == ["published", "unchanged", "published"]
    # A call for a past date deletes nothing.
    assert retrain(configuration("word2vec"), None, RetrainRequest(as_of=date(2026, 11, 1)))["removed"] == []
    for url in ("other", "models"):
        with pytest.raises(DataError, match="no file is dated 2020-01-01 or earlier; choose a later --as-of"):
            retrain(configuration("word2vec", url=url), None, RetrainRequest(as_of=date(2020, 1, 1)))
    with pytest.raises(DataError, match="no date is in this path"):
        retrain(configuration("word2vec", dates="(x)(y)(z)"), None, RetrainRequest(as_of=date(2026, 11, 1)))


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


def test_fresh_training_reads_all_files_and_keeps_word_ids():
    retrain(configuration("lda"))
    write_day(3, [BREAD + " zebra"] * 4)
    facts = retrain(configuration("lda"), None, RetrainRequest(fresh=True))
    assert (facts["status"], facts["documents"], facts["epochs"]) == ("published", 24 - held_out_documents(), 3)
    assert words_of(Versions("models").read(2))[:-1] == words_of(Versions("models").read(1))
    assert retrain(configuration("lda"), None, RetrainRequest(fresh=True))["status"] == "unchanged"


def held_out_documents():
    version = Versions("models").read(2)
    return Corpus(f"models/batches/{version['corpus']}", "held_out").n_documents


def test_changed_settings_are_refused_without_fresh_training():
    retrain(configuration("lda"))
    config = configuration("lda")
    config.model.n_components = 4
    # The files are those of the published version, but fresh training would give another model.
    assert dry_run(config, fresh=True)["status"] == "planned"
    write_day(3, [BREAD])
    with pytest.raises(
        ValueError, match=r"n_components is 4 and was 2; set them back, .* train a new model .* --fresh"
    ):
        retrain(config)
    assert retrain(config, None, RetrainRequest(fresh=True))["status"] == "published"
    assert LDA.load("models").n_components == 4


def test_new_files_whose_field_has_another_name_must_be_converted():
    retrain(configuration("lda"))
    Path("days/2026-11-03.jsonl").write_text('{"body": "bread"}\n')
    with pytest.raises(DataError, match=r"no field 'text' among 'body'.* or rename it in this file if other files"):
        retrain(configuration("lda"))
    config = configuration("lda")
    config.source.text = "body"
    message = r"source.text is 'body' and was 'text'; set them back and convert the new files"
    with pytest.raises(ValueError, match=message):
        retrain(config)


def test_retrain_model_overrides_parameters_of_later_calls():
    retrain(configuration("word2vec", model={"epochs": 1}))
    write_day(3, [BREAD])
    assert retrain(configuration("word2vec", model={"epochs": 1}))["epochs"] == 1
    assert Word2Vec.load("models").epochs == MODELS["word2vec"]["epochs"]
    with pytest.raises(
        ValueError,
        match=r"retrain\.model\.epoch: word2vec models have no such parameter; .* or choose one of vector_size",
    ):
        retrain(configuration("word2vec", url="other", model={"epoch": 1}))


@pytest.mark.parametrize(
    "kind, name, value",
    [("lda", "n_components", 3), ("nmf", "n_components", 3), ("word2vec", "vector_size", 16)],
)
def test_the_first_call_refuses_a_parameter_that_later_versions_cannot_change(kind, name, value):
    message = rf"retrain\.model\.{name} is {value}, but model\.{name} is .*: remove retrain\.model\.{name}"
    with pytest.raises(ValueError, match=message):
        retrain(configuration(kind, model={name: value}))
    assert retrain(configuration(kind, model={name: MODELS[kind][name]}))["status"] == "published"


@pytest.mark.parametrize("kind", MODELS)
def test_new_files_without_words_make_no_version(kind):
    retrain(configuration(kind))
    write_day(3, [])
    write_day(4, ["", "?"])
    before = contents("models/versions")
    facts = retrain(configuration(kind))
    assert (facts["status"], facts["version"], facts["files_to_read"]) == ("unchanged", 1, 2)
    assert facts["reason"] == "the new files have no words to train on"
    assert contents("models/versions") == before
    write_day(5, [BREAD] * 8)
    facts = retrain(configuration(kind))
    assert (facts["status"], facts["version"], facts["files_to_read"]) == ("published", 2, 3)
    assert retrain(configuration(kind))["files_to_read"] == 0


@pytest.mark.filterwarnings("ignore:no documents are held out")
def test_a_model_of_data_without_a_source_is_trained_from_scratch_when_the_data_changes():
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
