"""Any bytes give either data or one clear sentence, without much memory. `make fuzz` tries more of them."""

import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.stores.formats import parquet_bytes
from corpusmill.io.stores.store import Store
from fuzz.check import check
from fuzz.mutations import mutate
from fuzz.targets import IN_C, TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.zstd import Zstd

#: Bytes of the line that a file of some hundred kilobytes expands to.
BOMB = 64 << 20


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """Return the valid files of each target."""
    return {name: target.seeds(tmp_path_factory.mktemp("seeds")) for name, target in TARGETS.items()}


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in IN_C])
def test_changed_files_are_read_or_refused(name, seeds):
    check(TARGETS[name], seeds[name][0])

    @settings(max_examples=15, database=None)
    @given(st.integers(0, 1 << 40), st.integers(0, len(seeds[name]) - 1))
    def read(seed, number):
        check(TARGETS[name], mutate(seeds[name][number], seed))

    read()


@pytest.mark.parametrize("name", TARGETS)
def test_files_of_another_kind_are_read_or_refused(name):
    for content in (b"", b"\0", b"\xff" * 100, b"PAR1", b"\n" * 100):
        check(TARGETS[name], content)


# --- inputs that found something ---


def refused(name, content, match):
    """Check that a file is refused with this message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, TARGETS[name].file)
        path.write_bytes(content)
        with pytest.raises(DataError, match=match):
            TARGETS[name].read(str(path))


@pytest.mark.parametrize(
    "name, content, where",
    [
        ("docword", b"2\n3\n2\n1 1 2\n2 3 4294967296\n", "document 2"),
        ("svmlight", b"1 1:2\n0 3:4294967296\n", "line 2"),
        ("lda-c", b"1 1:2\n1 0:4294967296\n", "line 2"),
        ("docword", b"1\n2\n2\n1 1 9007199254740992\n1 2 9007199254740992\n", "document 1"),
    ],
)
def test_counts_that_would_fill_the_memory_are_refused(name, content, where):
    refused(name, content, f"{where}: its counts add up to more than the 67,108,864 words that a document may have")


@pytest.mark.parametrize(
    "content, match",
    [
        (b"4294967297\n3\n1\n1 1 1\n", "4,294,967,297 documents after number 0 have 1 entries together"),
        (b"4294967297\n3\n2\n1 1 1\n4294967296 1 1\n", "documents after number 0 have 1 entries together"),
        (b"-1\n3\n0\n", "line 3: a negative number of documents or words"),
    ],
)
def test_numbers_of_documents_that_would_fill_the_memory_are_refused(content, match):
    refused("docword", content, match)


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_a_message_shows_only_the_start_of_names_in_a_file(name):
    names = ["x" * 500, *(f"y{number}" for number in range(200))]
    content = ",".join(names) if name == "csv" else json.dumps(dict.fromkeys(names, "fish"))
    check(TARGETS[name], f"{content}\n".encode())
    refused(name, f"{content}\n{content}\n".encode(), r"xxx\.\.\.', 'y0', .*'y18', and 181 more")


def test_strings_in_parquet_that_are_not_utf8_are_refused():
    table = pa.table({"text": pa.array(["fish", "\u9c7c and more"])})
    content = parquet_bytes(table).replace("\u9c7c".encode(), b"\xe9\xb1\xff")
    refused("parquet", content, "row 2: invalid UTF-8 at byte 0")


@pytest.mark.parametrize("name", ["vectors in parquet", "stored parquet", "parquet"])
def test_a_parquet_file_whose_column_has_a_name_that_is_not_utf8_is_refused(name, seeds):
    column = b"text" if b"text" in seeds[name][0] else b"word"
    refused(name, seeds[name][0].replace(column, b"\xed\xa0\x80!"), "damaged|not a (whole )?Parquet file|no column")


def test_a_message_shows_only_the_start_of_an_invalid_number():
    content = b"1 2\nfish 1 2" + b"x" * 3000
    check(TARGETS["word2vec text"], content)
    refused("word2vec text", content, r"could not convert string to float: .{,200}x\.\.\.\)")


def test_a_damaged_object_in_hdf5_is_named(seeds):
    content = seeds["h5ad"][0]
    damaged = content.replace(b"TREE", b"EERT")
    assert damaged != content
    refused("h5ad", damaged, r"x\.h5ad: (damaged|not an HDF5 file)")


@pytest.mark.parametrize(
    "change, match",
    [
        ({"shape": [1 << 44]}, "layout that corpusmill does not write"),
        ({"shape": [6], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}}, "layout"),
        ({"shape": [-1]}, "layout"),
        ({"shape": [60], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [60]}}}, "number of bytes"),
    ],
)
def test_arrays_that_are_larger_than_their_files_are_refused_before_memory_is_used(tmp_path, change, match):
    store = Store(tmp_path)
    store.write_arrays("group", {"counts": range(6)})
    path = tmp_path / "group" / "zarr.json"
    group = json.loads(path.read_text())
    group["consolidated_metadata"]["metadata"]["counts"] |= change
    path.write_text(json.dumps(group))
    with pytest.raises(DataError, match=f"damaged .*{match}"):
        store.read_arrays("group")


@pytest.mark.parametrize("name", ["../other/counts", "", "..", 7, None])
def test_names_of_arrays_do_not_lead_out_of_their_group(tmp_path, name):
    store = Store(tmp_path)
    store.write_arrays("other", {"counts": range(6)})
    store.write_arrays("group", {"counts": range(6)})
    path = tmp_path / "group" / "zarr.json"
    group = json.loads(path.read_text())
    group["attributes"]["arrays"] = [name]
    path.write_text(json.dumps(group))
    with pytest.raises(DataError, match="names of arrays that corpusmill does not write"):
        store.read_arrays("group")


def gzipped(data):
    """Return data in one member of a gzip file."""
    return gzip.compress(data, 1)


@pytest.mark.parametrize("ending, pack", [("gz", gzipped), ("zst", Zstd(1).encode)])
def test_a_small_file_that_expands_to_much_text_takes_little_memory(ending, pack):
    # Members and frames that follow each other are one text.
    check(TARGETS[f"jsonl.{ending}"], bytes(pack(b"\n" * (1 << 20))) * 8)


@pytest.mark.parametrize("name", ["jsonl", "stored json", "configuration", "zarr metadata"])
def test_values_that_are_nested_too_deeply_are_refused(name):
    check(TARGETS[name], b"[" * 20_000)


@pytest.mark.parametrize("ending, pack", [("gz", gzipped), ("zst", Zstd(1).encode)])
def test_a_line_that_expands_to_much_text_is_read_or_refused(ending, pack):
    check(TARGETS[f"jsonl.{ending}"], bytes(pack(b"[" * BOMB)))
