"""Stores: writes are atomic, reads are verified, and names cannot leave the store."""

import errno
import functools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import pytest
import zarr
from corpusmill.io.errors import DataError
from corpusmill.io.stores import formats
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import Corpus
from corpusmill.io.stores.filesystems import replacing
from corpusmill.io.stores.formats import CHUNK_ELEMENTS
from corpusmill.io.stores.store import Store
from fsspec.implementations.memory import MemoryFileSystem
from helpers.toy import write_toy_corpus
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = (np.uint16, np.int32, np.int64, np.float32, np.float64, np.uint64)


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    if request.param == "local":
        yield Store(str(tmp_path / "store"))
    else:
        yield Store("memory://corpusmill-test")
        fsspec.filesystem("memory").store.clear()


class RoundTrips(MemoryFileSystem):
    """A file system in memory that counts calls. On an object store, each of them takes a round trip."""

    protocol = "round-trips"
    calls: ClassVar[list[str]] = []
    is_inside = False

    def count(self, name, *arguments, **options):
        if self.is_inside:  # one method of fsspec calls another one
            return getattr(super(), name)(*arguments, **options)
        self.calls.append(name)
        self.is_inside = True
        try:
            return getattr(super(), name)(*arguments, **options)
        finally:
            self.is_inside = False


for _name in ("cat_ranges", "cat_file", "pipe", "pipe_file", "exists", "info", "ls", "find", "rm"):
    setattr(RoundTrips, _name, functools.partialmethod(RoundTrips.count, _name))


@pytest.mark.parametrize("n_arrays", [1, 8])
def test_a_group_takes_two_round_trips_to_read_and_one_to_write(n_arrays):
    fsspec.register_implementation("round-trips", RoundTrips, clobber=True)
    store = Store("round-trips://corpusmill-test")
    arrays = {f"a{i}": np.arange(10 * i + 1) for i in range(n_arrays)}
    RoundTrips.calls.clear()
    store.write_arrays("group", arrays)
    assert RoundTrips.calls == ["pipe"]
    RoundTrips.calls.clear()
    found = store.read_arrays("group")
    assert RoundTrips.calls == ["cat_ranges"] * 2
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    store.fs.rm(store.path, recursive=True)


def test_a_group_like_the_last_one_takes_one_round_trip_to_read():
    fsspec.register_implementation("round-trips", RoundTrips, clobber=True)
    store = Store("round-trips://corpusmill-test")
    other = {"a": np.arange(3), "c": np.ones((2, 2))}
    for number, arrays in enumerate([{"a": np.arange(3)}, {"a": np.arange(50)}, other, {"a": np.arange(2)}]):
        store.write_arrays(f"state/{number}", arrays)
    trips = []
    for number, length in enumerate([3, 50, 3, 2]):
        RoundTrips.calls.clear()
        assert store.read_arrays(f"state/{number}")["a"].tolist() == list(range(length))
        trips.append(len(RoundTrips.calls))
    store.fs.rm(store.path, recursive=True)
    # The third group has an array that the second one does not have.
    assert trips == [2, 1, 2, 1]


def test_a_group_of_an_earlier_version_is_read(store):
    arrays = {"v": np.arange(5), "w": np.ones((2, 3))}
    store.write_arrays("group", arrays)
    group = store.read_json("group/zarr.json")
    del group["consolidated_metadata"]
    store.write_json("group/zarr.json", group)
    found = store.read_arrays("group")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    store.delete("group/w/zarr.json")
    with pytest.raises(DataError, match="the array 'w' is missing"):
        store.read_arrays("group")


@given(data=st.data())
def test_arrays_come_back_as_they_were(tmp_path_factory, data):
    store = Store(str(tmp_path_factory.mktemp("arrays")))
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    shapes = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5)
    arrays = {n: data.draw(hnp.arrays(data.draw(st.sampled_from(DTYPES)), shapes)) for n in names}
    store.write_arrays("group", arrays)
    found = store.read_arrays("group")
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_the_order_in_which_arrays_are_given_does_not_change_a_file(tmp_path):
    arrays = {"b": np.arange(3), "a": np.ones(2), "c": np.float64(1)}
    Store(tmp_path / "one").write_arrays("group", arrays)
    Store(tmp_path / "other").write_arrays("group", dict(sorted(arrays.items())))
    for path in (tmp_path / "one").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "other" / path.relative_to(tmp_path / "one")).read_bytes()


def test_files_and_arrays_on_any_file_system(store):
    store.write_json("a/b.json", {"x": 1})
    store.write_arrays("c", {"v": np.arange(3)})
    store.write_arrays("c", {"v": np.arange(4)})
    assert store.read_json("a/b.json") == {"x": 1}
    assert store.read_arrays("c")["v"].tolist() == [0, 1, 2, 3]
    assert store.read_arrays("c", only=("v", "absent")).keys() == {"v"}
    assert store.names() == ["a", "c"]
    assert store.size("c") > 0
    store.delete("a")
    assert not store.exists("a/b.json")


def test_a_flipped_bit_is_found_and_the_place_is_named(tmp_path):
    store = Store(str(tmp_path))
    store.write_arrays("chunk", {"v": np.arange(1000)})
    stored = next((tmp_path / "chunk").rglob("c/0"))
    content = bytearray(stored.read_bytes())
    content[100] ^= 4
    stored.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"chunk.*damaged"):
        store.read_arrays("chunk")


@pytest.mark.parametrize("left", [0, 3, 4, 1000, 8003])
def test_a_truncated_file_is_found(tmp_path, left):
    store = Store(str(tmp_path))
    store.write_arrays("chunk", {"v": np.zeros(1000)})
    stored = next((tmp_path / "chunk").rglob("c/0"))
    stored.write_bytes(stored.read_bytes()[:left])
    with pytest.raises(DataError, match="damaged"):
        store.read_arrays("chunk")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(CHUNK_ELEMENTS + 5, 1), (2, CHUNK_ELEMENTS - 1)])
def test_an_array_of_several_zarr_chunks_is_checked_to_its_end(tmp_path, shape):
    store, array = Store(str(tmp_path)), np.zeros(shape, bool)
    array[[0, -2, -1], 0] = True
    store.write_arrays("group", {"v": array})
    np.testing.assert_array_equal(store.read_arrays("group")["v"], array)
    np.testing.assert_array_equal(zarr.open_group(str(tmp_path / "group"))["v"][...], array)
    last = tmp_path / "group" / "v" / "c" / "1" / "0"
    with last.open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"\1")
    with pytest.raises(DataError, match=r"wrong checksum in the Zarr chunk v/c/1/0"):
        store.read_arrays("group")


def test_some_rows_of_an_array_are_read(tmp_path):
    store = Store(tmp_path)
    rows = np.arange(20, dtype=np.int16).reshape(10, 2)
    store.write_arrays("group", {"v": rows})
    for first, stop in ((0, 10), (3, 6), (8, 99), (7, 7)):
        np.testing.assert_array_equal(store.read_array_rows("group", "v", first, stop), rows[first:stop])
    (tmp_path / "group/v/c/0/0").write_bytes(bytes(30))
    np.testing.assert_array_equal(store.read_array_rows("group", "v", 0, 7), np.zeros((7, 2)))
    with pytest.raises(DataError, match=r"group/v: cannot be read \(the Zarr chunk v/c/0/0 is too short\)"):
        store.read_array_rows("group", "v", 7, 8)


def test_a_zarr_chunk_with_one_byte_of_padding_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "CHUNK_ELEMENTS", 2)
    store = Store(tmp_path)
    store.write_arrays("group", {"v": np.array([True, False, True])})
    assert store.read_arrays("group")["v"].tolist() == [True, False, True]


def test_rows_are_read_across_zarr_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "CHUNK_ELEMENTS", 4)
    rows = np.arange(14).reshape(7, 2)
    store = Store(tmp_path)
    store.write_arrays("group", {"v": rows, "u": np.arange(7)})
    np.testing.assert_array_equal(store.read_array_rows("group", "v", 1, 6), rows[1:6])
    assert store.names("group/u/c") == ["0", "1"]


@pytest.mark.parametrize("metadata", [None, [], "v"])
def test_a_group_with_damaged_metadata_is_refused(tmp_path, metadata):
    store = Store(tmp_path)
    store.write_arrays("group", {"v": np.arange(3)})
    group = store.read_json("group/zarr.json")
    group["consolidated_metadata"]["metadata"] = metadata
    store.write_json("group/zarr.json", group)
    with pytest.raises(DataError, match="the metadata of this Zarr group are damaged"):
        store.read_arrays("group")


def test_large_arrays_are_not_fetched_before_they_are_read(monkeypatch):
    fsspec.register_implementation("round-trips", RoundTrips, clobber=True)
    store = Store("round-trips://large")
    arrays = {"small": np.arange(3), "large": np.arange(100), "larger": np.arange(200)}
    store.write_arrays("group", arrays)
    monkeypatch.setattr(formats, "FETCHED_BYTES", 100)
    RoundTrips.calls.clear()
    found = store.read_arrays("group")
    assert RoundTrips.calls == ["cat_ranges", "cat_ranges", "cat_file", "cat_file"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_group_that_another_program_wrote_is_refused(tmp_path):
    zarr.open_group(str(tmp_path / "group"), mode="w").create_array("v", data=np.arange(1000))
    with pytest.raises(DataError, match=r"group: .*not written by corpusmill"):
        Store(str(tmp_path)).read_arrays("group")


def test_an_array_of_another_layout_is_refused(tmp_path):
    store = Store(str(tmp_path))
    store.write_arrays("group", {"v": np.arange(1000)})
    group = store.read_json("group/zarr.json")
    group["consolidated_metadata"]["metadata"]["v"]["fill_value"] = 1
    store.write_json("group/zarr.json", group)
    with pytest.raises(DataError, match=r"group: .*the array v has a layout that corpusmill does not write"):
        store.read_arrays("group")


def test_a_missing_array_is_named(tmp_path):
    store = Store(str(tmp_path))
    store.write_arrays("group", {"v": np.arange(3), "w": np.arange(4)})
    store.delete("group/w")
    with pytest.raises(DataError, match=r"group: damaged \(the Zarr chunk w/c/0 is missing"):
        store.read_arrays("group")


def test_a_missing_zarr_chunk_is_not_taken_for_zeros(tmp_path):
    store = Store(str(tmp_path))
    store.write_arrays("chunk", {"v": np.arange(1000)})
    next((tmp_path / "chunk").rglob("c/0")).unlink()
    with pytest.raises(DataError, match="chunk"):
        store.read_arrays("chunk")


def test_missing_files_and_arrays_are_named(store):
    with pytest.raises(DataError, match="nothing"):
        store.read_arrays("nothing")
    with pytest.raises(DataError, match=r"gone\.json"):
        store.read_json("gone.json")
    store.write_bytes("bad.json", b"{")
    with pytest.raises(DataError, match=r"bad\.json.*not valid JSON"):
        store.read_json("bad.json")


@pytest.mark.parametrize("name", ["../other", "a/../../b", "/etc/passwd"])
def test_names_cannot_leave_the_store(store, name):
    for use in (store.read_bytes, store.child, store.delete):
        with pytest.raises(DataError, match="lies outside the store"):
            use(name)


def test_a_failed_write_keeps_the_old_content(tmp_path):
    store = Store(str(tmp_path))
    store.write_arrays("group", {"v": np.arange(3)})
    with pytest.raises(Exception, match=r".*"):
        store.write_arrays("group", {"v": np.arange(5), "bad": np.array([object()])})
    assert store.read_arrays("group")["v"].tolist() == [0, 1, 2]
    assert store.names() == [p.name for p in tmp_path.iterdir()] == ["group"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can exchange two names")
def test_threads_may_write_the_same_arrays_while_others_read_them(tmp_path):
    store = Store(str(tmp_path))
    arrays = {"v": np.arange(1000), "w": np.ones((3, 4))}
    store.write_arrays("group", arrays)
    with ThreadPoolExecutor(4) as threads:
        writes = [threads.submit(store.write_arrays, "group", arrays) for _ in range(100)]
        while not all(write.done() for write in writes):
            assert store.read_arrays("group")["v"].tolist() == arrays["v"].tolist()
        for write in writes:
            write.result()
    assert store.names() == [p.name for p in tmp_path.iterdir()] == ["group"]


def test_threads_may_write_the_same_arrays_on_systems_that_cannot_exchange_names(tmp_path, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    store = Store(str(tmp_path))
    with ThreadPoolExecutor(4) as threads:
        for write in [threads.submit(store.write_arrays, "group", {"v": np.arange(1000)}) for _ in range(100)]:
            write.result()
    assert store.read_arrays("group")["v"].tolist() == list(range(1000))
    assert store.names() == [p.name for p in tmp_path.iterdir()] == ["group"]


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="no space"), replacing(tmp_path / "file") as temporary:
        temporary.write_bytes(b"half")
        raise OSError("no space")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_keeps_the_old_content(tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    if os.geteuid() or os.system(f"mount -t tmpfs -o size=1m tmpfs {mount}"):
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        store = Store(str(mount))
        store.write_arrays("group", {"v": np.arange(10)})
        message = r"No space left on this disk \([\d,]+ bytes free\); free some, or choose .*: '/.*/small/"
        with pytest.raises(OSError, match=f"{message}group'"):
            store.write_arrays("group", {"v": np.arange(1 << 18)})
        with pytest.raises(OSError, match=f"{message}file'"):
            store.write_bytes("file", bytes(1 << 21))
        assert store.read_arrays("group")["v"].tolist() == list(range(10))
        assert [p.name for p in mount.iterdir()] == ["group"]
    finally:
        os.system(f"umount {mount}")


def test_an_exhausted_quota_is_not_called_a_full_disk(tmp_path):
    message = "Your disk quota is exhausted; delete files, or choose a folder on another disk: '.*/new/file'"
    with pytest.raises(OSError, match=message), replacing(tmp_path / "new" / "file"):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def test_a_limit_of_the_size_of_files_is_not_called_a_full_disk(tmp_path):
    script = "from corpusmill.io.stores.store import Store\nStore('.').write_bytes('file', bytes(4096))"
    limited = ["bash", "-c", 'ulimit -f 2 && exec "$0" -c "$1"', sys.executable, script]
    found = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "larger than this process may write (2,048 bytes); raise the limit (ulimit -f), or choose" in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_newer_format_is_refused_by_name(tmp_path):
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=1)
    meta = corpus.store.read_json("corpus.json")
    corpus.store.write_json("corpus.json", meta | {"format": 99})
    with pytest.raises(DataError, match="corpus format 99 is not supported"):
        Corpus(corpus.url)
    corpus.store.write_json("corpus.json", meta | {"kind": "graph"})
    with pytest.raises(DataError, match="a 'graph' store where a 'corpus' store is needed"):
        Corpus(corpus.url)


def test_a_folder_without_a_corpus_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match="corpusmill ingest"):
        Corpus(str(tmp_path))


documents = st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=12)


@given(documents, st.integers(1, 40))
def test_both_orders_of_a_chunk_hold_the_same_tokens(docs, group_tokens):
    doc_ptr = np.r_[0, np.cumsum([len(d) for d in docs])]
    words = np.array([w for d in docs for w in d], np.uint32)
    chunk = make_chunk(0, doc_ptr, words, group_tokens)
    in_word_order = np.repeat(chunk.word_ids, np.diff(chunk.word_ptr))
    np.testing.assert_array_equal(words[chunk.word_to_doc_order], in_word_order)
    assert sorted(chunk.word_to_doc_order) == list(range(len(words)))
    documents_of = np.repeat(np.arange(len(docs)), np.diff(doc_ptr))
    np.testing.assert_array_equal(documents_of[chunk.word_to_doc_order], chunk.docs)
    last_document = -1
    for first, last in zip(chunk.group_ptr[:-1], chunk.group_ptr[1:], strict=True):
        assert (np.diff(chunk.word_ids[first:last].astype(int)) > 0).all()
        members = chunk.docs[chunk.word_ptr[first] : chunk.word_ptr[last]]
        if len(members):
            assert members.min() > last_document
            last_document = members.max()
    for start, end in zip(chunk.word_ptr[:-1], chunk.word_ptr[1:], strict=True):
        assert (np.diff(chunk.docs[start:end].astype(int)) >= 0).all()


def test_a_chunk_with_few_tokens_has_one_group():
    assert make_chunk(0, [0, 2, 4], [1, 0, 1, 1]).group_ptr.tolist() == [0, 2]


def test_counts_of_a_chunk(tmp_path):
    chunk = make_chunk(0, np.array([0, 3, 3, 5]), np.array([1, 0, 1, 2, 2], np.uint32))
    assert chunk.counts(4).toarray().tolist() == [[1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0]]


def test_the_size_of_a_store_is_that_of_its_files(tmp_path):
    store = Store(str(tmp_path))
    store.write_bytes("file", b"x" * 1000)
    assert store.size() == sum(p.stat().st_size for p in Path(tmp_path).rglob("*") if p.is_file())


def test_reading_a_table_starts_no_threads_that_could_outlive_the_interpreter(tmp_path):
    write_toy_corpus(str(tmp_path))
    program = f"""
import os
from corpusmill.io.stores.corpus import Corpus
before = os.listdir("/proc/self/task")
assert len(Corpus({str(tmp_path)!r}).vocabulary)
assert os.listdir("/proc/self/task") == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
