"""Changes of a source since its files were last listed."""

import datetime
import gzip
import hashlib
import itertools
import os
import time
from collections import Counter
from dataclasses import replace

import fsspec
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.readers.source import SourceFile, find_files
from corpusmill.pipeline.publishing.manifest import (
    FileVersion,
    compare_manifests,
    describe_files,
    files_up_to,
    follow_moves,
)
from hypothesis import given
from hypothesis import strategies as st

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


def manifest(**contents):
    return {url: FileVersion(1, "", digest) for url, digest in contents.items()}


@pytest.mark.parametrize(
    "known, found, followed",
    [
        ({"a": "x", "b": "y"}, {"c": "x", "d": "y"}, {"c": ("x", "a"), "d": ("y", "b")}),
        ({"a": "x"}, {"a": "x", "b": "x"}, {"a": ("x", "")}),  # a copy
        ({"a": "x", "b": "x"}, {"c": "x"}, {"b": ("x", ""), "c": ("x", "a")}),
        ({"a": "x"}, {"b": "x", "c": "x"}, {"b": ("x", "a")}),
        ({"a": "x"}, {"a": "new", "b": "x"}, {"b": ("x", "a")}),
        ({"a": "x", "a1": "y"}, {"a": "new", "a1": "x", "a2": "y"}, {"a1": ("x", "a"), "a2": ("y", "a1")}),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}, {"a": ("y", "b"), "b": ("x", "a")}),
        # Rotation with a fixed number of files: z is gone, and the new a counts as the file that replaced it.
        (
            {"a": "x", "a1": "y", "a2": "z"},
            {"a": "new", "a1": "x", "a2": "y"},
            {"a": ("z", "a2"), "a1": ("x", "a"), "a2": ("y", "a1")},
        ),
        ({"a": "x", "b": "y"}, {"b": "x"}, {"a": ("y", "b"), "b": ("x", "a")}),  # y is gone, and a with it
        ({"a": "x", "b": "y"}, {"a": "y", "b": "y"}, {"a": ("x", ""), "b": ("y", "")}),  # a copy
        ({"a": "x"}, {"b": "other"}, {"a": ("x", "")}),
    ],
)
def test_moved_files_are_followed_by_their_content(known, found, followed):
    result = follow_moves(manifest(**known), manifest(**found))
    assert {url: (file.digest, file.read_as) for url, file in result.items()} == followed


MANIFESTS = st.dictionaries(st.sampled_from("abcde"), st.sampled_from("uvwxyz")).map(lambda files: manifest(**files))


@given(known=MANIFESTS, found=MANIFESTS)
def test_only_contents_that_are_new_are_read_and_only_those_that_are_gone_are_forgotten(known, found):
    followed = follow_moves(known, found)
    assert sorted(file.read_as or url for url, file in followed.items()) == sorted(known)
    changes = compare_manifests(followed, found)
    before, now = (Counter(file.digest for file in files.values()) for files in (known, found))
    assert Counter(found[url].digest for url in changes.to_ingest) == now - before
    assert Counter(followed[url].digest for url in [*changes.changed, *changes.removed]) == before - now


def test_a_file_that_moves_twice_keeps_the_url_that_its_documents_have():
    once = follow_moves(manifest(a="x"), manifest(b="x"))
    assert follow_moves(once, manifest(c="x"))["c"].read_as == "a"


def test_moves_of_many_files_are_followed_in_one_pass():
    names = [f"{number:05}" for number in range(20_000)]
    known = manifest(**{name: name for name in names})
    found = manifest(**{new: old for old, new in itertools.pairwise(names)})
    started = time.process_time()
    followed = follow_moves(known, found)
    assert time.process_time() - started < 2
    assert {url: file.digest for url, file in followed.items()} == {
        **{url: file.digest for url, file in found.items()},
        names[0]: names[-1],
    }


def test_the_digest_is_that_of_the_stored_bytes_also_of_a_compressed_file(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"text"))
    assert manifest_of(tmp_path)[str(path)].digest == hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def test_a_file_with_known_size_and_time_is_not_read_again(tmp_path):
    (tmp_path / "a").write_text("a")
    url = str(tmp_path / "a")
    read = manifest_of(tmp_path)[url]
    known = {url: FileVersion(read.size, read.modified, "digest of an earlier time", batch="monday")}
    assert manifest_of(tmp_path, known) == known


def test_a_file_replaced_by_one_with_the_same_size_and_time_is_read_again(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    before = manifest_of(tmp_path)
    times = path.stat()
    path.write_text("new")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
    assert compare_manifests(before, manifest_of(tmp_path, before)).changed == [str(path)]


def test_a_file_is_read_only_when_a_later_change_would_give_it_another_time(tmp_path):
    (tmp_path / "a").write_text("a")
    (file,) = find_files(tmp_path)
    fine = replace(file, changed=str(time.time() - 0.25))
    coarse = replace(file, changed=str(float(int(time.time()))))
    started = time.monotonic()
    describe_files([fine], {})
    assert time.monotonic() - started < 1
    describe_files([coarse], {})
    assert time.time() >= float(coarse.changed) + 2


def test_the_tag_of_an_object_store_is_the_digest_and_decides_alone():
    tagged = SourceFile("s3://bucket/a", "a", 3, "tag-1", tag="tag-1")
    before = describe_files([tagged], {})
    assert before["s3://bucket/a"].digest == "tag-1"
    again = replace(tagged, modified="tag-2", tag="tag-2")
    assert compare_manifests(before, describe_files([again], before)).changed == ["s3://bucket/a"]


def test_a_store_without_tags_has_its_files_read(tmp_path):
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe("/plain/a.txt", b"one")
    before = manifest_of("memory://plain/a.txt")
    filesystem.pipe("/plain/a.txt", b"two")
    after = describe_files(find_files("memory://plain/a.txt"), before, verify_digests=True)
    assert len(compare_manifests(before, after).changed) == 1


def test_files_without_a_date_belong_to_every_day():
    urls = {"news/2026-11-20.txt", "news/2026-11-21.txt", "news/2026-13-01.txt", "news/readme.txt"}
    found = files_up_to(urls, datetime.date(2026, 11, 20), DATES)
    assert found == {"news/2026-11-20.txt", "news/2026-13-01.txt", "news/readme.txt"}
    assert files_up_to(set(), datetime.date(2026, 11, 20), DATES) == set()


def test_files_of_which_none_has_a_date_are_refused():
    with pytest.raises(DataError, match=r"a\.txt: no date is in this path, nor in the paths of the 1 other files"):
        files_up_to({"a.txt", "b.txt"}, datetime.date(2026, 11, 20), DATES)
