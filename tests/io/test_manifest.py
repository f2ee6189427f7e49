"""Changes of a source since its files were last listed."""

import datetime
import os

import pytest
from corpusmill.io.manifest import FileVersion, compare_manifests, describe_files, files_up_to
from corpusmill.io.readers.source import find_files
from corpusmill.io.stores.store import DataError

DATES = r"(\d{4})-(\d{2})-(\d{2})"


def manifest_of(folder, known=None):
    return describe_files(find_files(folder), known or {})


def test_added_changed_and_removed_files_are_distinguished(tmp_path):
    for name in ("kept", "changed", "removed"):
        (tmp_path / name).write_text(name)
    before = manifest_of(tmp_path)
    (tmp_path / "changed").write_text("other")
    (tmp_path / "removed").unlink()
    (tmp_path / "added").write_text("added")
    changes = compare_manifests(before, manifest_of(tmp_path, before))
    assert changes.added == [str(tmp_path / "added")]
    assert changes.changed == [str(tmp_path / "changed")]
    assert changes.removed == [str(tmp_path / "removed")]
    assert changes.to_ingest == [str(tmp_path / "added"), str(tmp_path / "changed")]


def test_a_file_of_which_only_the_time_differs_is_not_changed(tmp_path):
    (tmp_path / "a").write_text("a")
    before = manifest_of(tmp_path)
    os.utime(tmp_path / "a", (1, 1))
    after = manifest_of(tmp_path, before)
    assert after != before
    assert compare_manifests(before, after).to_ingest == []


def test_a_file_with_known_size_and_time_is_not_read_again(tmp_path):
    (tmp_path / "a").write_text("a")
    url = str(tmp_path / "a")
    read = manifest_of(tmp_path)[url]
    known = {url: FileVersion(read.size, read.modified, "digest of an earlier time", batch="monday")}
    assert manifest_of(tmp_path, known) == known


def test_files_without_a_date_belong_to_every_day():
    urls = {"news/2026-11-20.txt", "news/2026-11-21.txt", "news/2026-13-01.txt", "news/readme.txt"}
    found = files_up_to(urls, datetime.date(2026, 11, 20), DATES)
    assert found == {"news/2026-11-20.txt", "news/2026-13-01.txt", "news/readme.txt"}
    assert files_up_to(set(), datetime.date(2026, 11, 20), DATES) == set()


def test_files_of_which_none_has_a_date_are_refused():
    with pytest.raises(DataError, match=r"a\.txt: no date is in this path, nor in the paths of the 1 other files"):
        files_up_to({"a.txt", "b.txt"}, datetime.date(2026, 11, 20), DATES)
