"""Bad input is refused with an error that names the file and the line."""

import dataclasses
import gzip
import json
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError, DataWarning
from corpusmill.io.readers.bags import MAX_DOCUMENT_TOKENS, check_lengths
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.edges import read_edges
from corpusmill.io.readers.open import FORMATS, FORMATS_OF_OPTION, open_in_memory, open_source
from corpusmill.io.readers.reader import PARTITION_BYTES, line_partitions
from corpusmill.io.readers.source import find_files
from corpusmill.pipeline.ingest.ingest import ingest
from corpusmill.pipeline.ingest.job import IngestOptions
from helpers.sources import COUNTS, collect, read, write_docword, write_jsonl, write_lines


def refuses(source, match, **options):
    """Check that reading fails with this message."""
    with pytest.raises(DataError, match=match):
        read(source, **options)


@pytest.mark.parametrize(
    "source, match",
    [
        ("", "the path is empty"),
        ("odd://x", "odd://x: Protocol not known: odd; use a local path or a URL"),
        ("x.zip", r"x\.zip: an archive; unpack it"),
        ("x.txt.zst", r"x\.txt\.zst: its name ends in \.zst, but it begins with b'PK.*, as no such file does"),
        ("x.csv.GZ", r"x\.csv\.GZ: its name ends in \.gz, but it begins with"),
    ],
)
def test_an_empty_list_of_files_is_refused(tmp_path, monkeypatch, source, match):
    monkeypatch.chdir(tmp_path)
    for name in ("x.zip", "x.txt.zst", "x.csv.GZ"):
        Path(name).write_bytes(b"PK\3\4")
    refuses(source, match)


#: Another value than the default of each option that some formats do not have.
OTHER_VALUES = {
    **dict.fromkeys(("text", "tokens", "key", "vocabulary_file", "keys_file"), "x"),
    **dict.fromkeys(("transpose", "binarize", "zero_based"), True),
    **dict.fromkeys(("keep", "columns"), ("x",)),
    **dict.fromkeys(("delimiter", "quote", "escape"), "|"),
    "null_text": "empty",
    "on_bad_line": "skip",
    "max_bad_lines": 3,
    "encoding_errors": "replace",
    "names": "name",
    "encoding": "utf-16",
    "token_pattern": r"\w",
    "layer": "raw/X",
    "feature_type": "Peaks",
    "format": "jsonl",
}


def test_each_option_that_only_some_formats_have_is_declared():
    assert FORMATS_OF_OPTION.keys() == OTHER_VALUES.keys()
    assert FORMATS_OF_OPTION.keys() == {field.name for field in fields(ReadOptions)} | {"token_pattern"}


@pytest.mark.parametrize("format_name", [*FORMATS, "demo"])
@pytest.mark.parametrize("option", sorted(FORMATS_OF_OPTION.keys() - {"format"}))
def test_an_option_that_a_format_does_not_have_is_refused(tmp_path, option, format_name):
    if format_name in FORMATS_OF_OPTION[option]:
        return
    path = "demo:kjv" if format_name == "demo" else str(tmp_path / "x")
    write_lines(tmp_path / "x", ["a"])
    options = {} if format_name == "demo" else {"format": format_name}
    if format_name in ("zarr", "10x-mtx"):
        path = str(tmp_path)
    with pytest.raises(ValueError, match=rf"^{option} applies to .*, but .* is {format_name}$"):
        open_source(path, IngestOptions(**options | {option: OTHER_VALUES[option]}))


@pytest.mark.parametrize(
    "data", [["one fish"], pa.table({"text": ["one fish"]}), scipy.sparse.eye_array(2, format="csr", dtype=int)]
)
@pytest.mark.parametrize("option", sorted(FORMATS_OF_OPTION))
def test_an_option_that_data_in_memory_do_not_have_is_refused(option, data):
    try:
        open_in_memory(data, IngestOptions(**{option: OTHER_VALUES[option]}))
    except ValueError as error:
        assert f"{option} applies to " in str(error)
    else:
        assert any(name.endswith("in memory") for name in FORMATS_OF_OPTION[option])


@pytest.mark.parametrize(
    "content, match",
    [
        ("2 0:1 6144:1\n0\n1 3:2\n", r"the lines look like LDA-C or svmlight.*'2 0:1 6144:1'.*: lda-c if"),
        ("5\n4\n1 1 2\n", r"the first lines consist of numbers only \('5'\).*lda-c, docword"),
        ("0.5,1e-3\n7,8\n", "the first lines consist of numbers only"),
        ("a\0b\n", "binary data, not text in UTF-8; choose the format"),
    ],
)
@pytest.mark.parametrize("name", ["ap.dat", "folder/ap"])
def test_numbers_and_binary_data_are_not_read_as_text(tmp_path, name, content, match):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    source = path if name == "ap.dat" else path.parent
    refuses(source, match)
    assert read(source, format="lines")[0]


@pytest.mark.parametrize(
    "line, match",
    [
        ("2 0:1", "line 2: the line has 1 different words, but begins with '2'"),
        ("2 0:1 0:3", "line 2: column 0 occurs 2 times; add up its counts"),
        ("1 0:1 0:3", "line 2: column 0 occurs 2 times; add up its counts"),
        ("1 0:x", "line 2: needs 'N column:count ...' with whole counts"),
        ("1 4:1", r"line 2: the column 4 is not 0\.\.3"),
    ],
)
def test_bad_lda_c(tmp_path, line, match):
    vocabulary = write_lines(tmp_path / "vocab.txt", ["fish", "cat", "dog", "elk"])
    path = write_lines(tmp_path / "ap.dat", ["1 0:1", line])
    refuses(path, match, format="lda-c", vocabulary_file=vocabulary)


def test_hashed_columns(tmp_path):
    path = write_lines(tmp_path / "x.svm", ["1 7:2 4294967295:1", "0 7:1"])
    assert read(path)[1] == [["7", "7", "4294967295"], ["7"]]


def test_no_file(tmp_path):
    refuses(tmp_path / "x.jsonl", r"x\.jsonl: no file matches")
    refuses(str(tmp_path / "*.jsonl"), r"\*\.jsonl: no file matches; check the path or the pattern$")


def test_texts_in_place_of_paths():
    text = "a text " * 1000
    refuses(
        [text], rf"^{text[:200]}\.\.\.: no file matches; .*; strings in a list are paths, so pass texts in memory as"
    )


@pytest.mark.parametrize("keep", [10, 20_000])
def test_truncated_gz(tmp_path, keep):
    path = tmp_path / "x.txt.gz"
    rng = np.random.default_rng(0)
    packed = gzip.compress(b"".join(b"%d\n" % n for n in rng.integers(0, 10**9, 10_000)))
    path.write_bytes(packed[:keep])
    refuses(path, r"x\.txt\.gz, after line \d+: the gzip data is cut off")


@pytest.mark.parametrize("keep", [3, 100, -1])
def test_truncated_zst(tmp_path, keep):
    path = tmp_path / "x.txt.zst"
    path.write_bytes(pa.Codec("zstd").compress(b"".join(b"%d\n" % n for n in range(10_000)), asbytes=True)[:keep])
    refuses(path, r"x\.txt\.zst, after line \d+: the zstd data is cut off")


def test_a_file_that_became_shorter_since_it_was_listed(tmp_path):
    write_lines(tmp_path / "x.txt", ["a line"] * 100)
    listed = dataclasses.replace(find_files(tmp_path / "x.txt")[0], size=10 * PARTITION_BYTES)
    with pytest.raises(DataError, match=r"x\.txt: has 700 bytes, and 167,772,160 when it was listed"):
        list(line_partitions([listed]))


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz", "docword.x.txt.gz", "x.mtx.gz", "x.svm.gz", "folder/x.gz"])
def test_truncated_gz_of_every_format(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(b"text\n")[:14])
    refuses(path.parent if path.parent != tmp_path else path, r"\.gz, after line \d+: the gzip data is cut off")


def test_a_gz_file_that_is_not_compressed_is_refused(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_text('{"text": "a"}')
    refuses(path, r"x\.jsonl\.gz: its name ends in \.gz, but it begins with b'.*let its name end in another way")


@pytest.mark.parametrize(
    "name, head, tail, row",
    [
        ("x.txt", b"good\n", b"", "line 2"),
        ("x.jsonl", b'{"text": "good"}\n{"text": "', b'"}', "line 2"),
        ("x.csv", b"text\ngood\n", b"", "line 3"),
        ("folder", b"", b"", "row 1"),
    ],
)
def test_invalid_utf8(tmp_path, name, head, tail, row):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        path = path / "x"
    path.write_bytes(head + b"b\xffd word\xc3" + tail + b"\n")
    source = path.parent if name == "folder" else path
    refuses(source, f"{path.name}, {row}: invalid UTF-8 at byte [0-9]+; name the encoding of the file, such as")
    assert read(source, encoding_errors="replace")[1][-1] == ["word"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["x.csv", "x.txt", "x.jsonl", "folder/x"])
def test_text_in_another_encoding_is_refused_by_its_mark_and_read_by_its_name(tmp_path, name, encoding):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    text = {"x.csv": "text\nein Füß\nlast one\n", "x.jsonl": '{"text": "ein Füß"}\n{"text": "last one"}\n'}
    path.write_text(text.get(name, "ein Füß\nlast one\n"), encoding=encoding)
    source = path.parent if name == "folder/x" else path
    refuses(source, rf"text in {encoding.upper()}; ingest it with encoding={encoding}")
    found = read(str(source), encoding=encoding)[1]
    assert [word for document in found for word in document] == ["ein", "füß", "last", "one"]
    refuses(source, "not ascii", encoding="ascii")
    path.write_text(text.get(name, "ein Füß\nlast one\n"), encoding="cp1252")
    found = read(str(source), encoding="cp1252")[1]
    assert [word for document in found for word in document] == ["ein", "füß", "last", "one"]


def test_null_text(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"text": "a good one"}, {"text": None}, {"other": 1}])
    refuses(path, r"x\.jsonl, line 2: no text")
    assert read(path, null_text="empty")[1] == [["good", "one"], [], []]
    pq.write_table(pa.table({"text": ["a good one", None]}), tmp_path / "x.parquet")
    refuses(tmp_path / "x.parquet", r"x\.parquet, row 2: no text")
    assert read(tmp_path / "x.parquet", null_text="empty")[1] == [["good", "one"], []]
    pq.write_table(pa.table({"words": [["a"], None]}), tmp_path / "y.parquet")
    refuses(tmp_path / "y.parquet", r"y\.parquet, row 2: no tokens", tokens="words")
    pq.write_table(pa.table({"words": [["a"], ["b", None]]}), tmp_path / "z.parquet")
    refuses(tmp_path / "z.parquet", r"z\.parquet, row 2: a token is null", tokens="words")


@pytest.mark.parametrize(
    "line, match",
    [
        ('{"text": "a"', "line 2: not valid JSON"),
        ("[1]", r"line 2: '\[1\]', where a JSON object is needed; jq -c '\.\[\]' makes lines of a list"),
        ('"a"', r"line 2: '\"a\"', where a JSON object is needed; jq -c '\{text: \.\}' makes objects"),
        ('{"body": "a", "id": 1}', "line 2: no text .no field .text. among 'body', 'id'.; name the field with text="),
        ('{"text": 5}', "line 2: field 'text' is 5 where a string is needed"),
        ('{"text": ["a"]}', "line 2: field 'text' is .* where a string is needed"),
    ],
)
def test_bad_json(tmp_path, line, match):
    refuses(write_lines(tmp_path / "x.jsonl", ['{"text": "fine"}', line]), rf"x\.jsonl, {match}")


@pytest.mark.parametrize(
    "documents, indent, advice",
    [
        ([{"text": "boat"}, {"text": "sea"}], 2, r"convert the array with jq -c '\.\[\]'$"),
        ({"text": "boat"}, 2, r"convert objects of several lines with jq -c \.$"),
    ],
)
def test_json_of_several_lines_is_named_with_the_command_that_converts_it(tmp_path, documents, indent, advice):
    path = write_lines(tmp_path / "x.json", json.dumps(documents, indent=indent).splitlines())
    refuses(path, rf"x\.json, line 1: not valid JSON .*each line must be an object, so {advice}")


def test_a_missing_field_of_tokens_is_named_by_the_option_of_tokens(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"words": ["a"]}, {"body": "a"}])
    refuses(path, r"line 2: no tokens \(no field 'words' among 'body'\); name the field with tokens=", tokens="words")


def test_missing_columns(tmp_path):
    (tmp_path / "x.csv").write_text('a,"b c"\n1,2\n')
    refuses(
        tmp_path / "x.csv",
        r"x\.csv: no column 'text'; the columns, by the first line of the file, are 'a', 'b c'; "
        r"name one of them with text",
    )
    (tmp_path / "y.csv").write_text('\ntext,"two\nlines",text,id,id\n1,two,3,4,5\n')
    refuses(tmp_path / "y.csv", r"y\.csv: 2 columns have the name 'text'; rename all but one")
    refuses(tmp_path / "y.csv", r"y\.csv: 2 columns have the name 'id'; rename", text="two\nlines", key="id")
    assert read(tmp_path / "y.csv", text="two\nlines")[1] == [["two"]]
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    refuses(tmp_path / "x.parquet", r"x\.parquet: no column 'text'; the columns are 'a'; name")
    refuses(tmp_path / "x.parquet", r"x\.parquet: no column 'id'; the columns are 'a'", text="a", key="id")
    refuses(tmp_path / "x.parquet", r"column 'a' is int64 where lists of strings", tokens="a")
    refuses(
        write_jsonl(tmp_path / "x.jsonl", [{"text": "a", "id": None}]), r"line 1: no key \('id' is null\)", key="id"
    )


def test_a_csv_row_with_another_number_of_columns_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("id,text\n1,fine\n2,not,fine\n")
    refuses(tmp_path / "x.csv", r"x\.csv, line 3: 3 columns, but the header has 2; quote")
    (tmp_path / "x.csv").write_text("id,text\n1,fine\n2\n")
    refuses(tmp_path / "x.csv", r"x\.csv, line 3: 1 column, but the header has 2; quote")


@pytest.mark.parametrize(
    "row, match", [(b"a,b,1", "3 columns"), (b"\xff,1", "UTF-8"), (b"a,\xff", "which keep names"), (b"a", "1 col")]
)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_an_error_in_a_csv_file_names_the_line(tmp_path, row, match, newline, ending):
    path = tmp_path / f"x.csv{ending}"
    # A header of two lines, blank lines, rows of several lines, and a field above the limit of Python's csv module.
    rows = [b'text,"number', b'of it"', b"", b"one,1", b"", b'"two', b"", b'""lines""",2', b"three," + b"3" * 200_000]
    content = newline.join([*rows, row, b"four,4"])
    path.write_bytes(gzip.compress(content) if ending else content)
    keep = ["number" + newline.decode() + "of it"]
    refuses(path, rf"x\.csv{ending}, line 10: .*{match}", keep=keep)


def test_a_key_in_a_csv_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"text,id\ngood,1\nbad,\xff\n")
    refuses(tmp_path / "x.csv", r"x\.csv, line 3: the key in 'id' is not UTF-8", key="id")


@pytest.mark.parametrize(
    "columns, options, match",
    [
        ({"text": [["a"]]}, {}, r"row 1: column 'text' is list<.*> where text is needed"),
        ({"text": ["a"], "id": [{"n": 1}]}, {"key": "id"}, r"row 1: column 'id' is struct<.*> where text is needed"),
        ({"text": pa.nulls(2)}, {}, "row 1: no text"),
        ([("text", ["a"]), ("text", ["b"])], {}, "2 columns have the name 'text'; rename all but one"),
    ],
)
def test_columns_without_text_are_refused(tmp_path, columns, options, match):
    names, values = zip(*(columns.items() if isinstance(columns, dict) else columns), strict=True)
    pq.write_table(pa.table(list(values), names=list(names)), tmp_path / "x.parquet")
    refuses(tmp_path / "x.parquet", rf"x\.parquet[,:] {match}", **options)


def test_a_parquet_file_in_another_format_is_refused(tmp_path):
    (tmp_path / "x.parquet").write_text("no")
    refuses(tmp_path / "x.parquet", r"x\.parquet: not a whole Parquet file")


@pytest.mark.parametrize(
    "rows, match",
    [
        (["1 1 -3"], "line 4: the count -3 is negative"),
        (["1 1 1", "2 5 1"], r"line 5: the word 5 is not in 1\.\.4"),
        (["1 0 1"], r"line 4: the word 0 is not in 1\.\.4"),
        (["3 1 1"], r"line 4: the document 3 is not in 1\.\.2"),
        (["0 1 1"], r"line 4: the document 0 .*"),
        (["2 1 1", "1 1 1"], "line 5: the document 1 comes after a higher one"),
        (["1 1"], "line 4: 3 whole numbers are needed, not '1 1'"),
        (["1 1 1.5"], "line 4: 3 whole numbers are needed"),
        (["1 1 x"], "line 4: 3 whole numbers are needed"),
    ],
)
def test_bad_docword(tmp_path, rows, match):
    path = write_lines(tmp_path / "docword.x.txt", [2, 4, len(rows), *rows])
    refuses(path, rf"docword\.x\.txt, {match}")


@pytest.mark.parametrize("header", [(-1, 4, 0), (2, -4, 0)])
def test_a_header_with_a_negative_number_is_refused(tmp_path, header):
    path = write_lines(tmp_path / "docword.x.txt", header)
    refuses(path, r"docword\.x\.txt, line 3: a negative number of documents or words; correct the header")


def test_a_docword_file_that_contradicts_its_header_is_refused(tmp_path):
    path = write_docword(tmp_path / "docword.x.txt", COUNTS, header=(5, 4, 9))
    refuses(path, r"docword\.x\.txt: its header \(line 3\) says 9 entries, but there are 8")
    path = write_docword(tmp_path / "docword.y.txt", COUNTS)
    refuses(path, "says 4 words, .* has 2", vocabulary_file=write_lines(tmp_path / "v.txt", "ab"))
    refuses(
        path,
        "v4.txt, line 3: the word 'a' occurs",
        vocabulary_file=write_lines(tmp_path / "v4.txt", "abac"),
    )
    refuses(write_lines(tmp_path / "docword.z.txt", ["5 4"]), r"docword\.z\.txt, line 1: .* begins with three lines")


def test_a_vocabulary_that_is_not_utf8(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"one\ntw\xff\nthree\nfour\n")
    path = write_docword(tmp_path / "docword.x.txt", COUNTS)
    refuses(path, r"v\.txt, line 2: invalid UTF-8", vocabulary_file=str(tmp_path / "v.txt"))


@pytest.mark.parametrize(
    "text, match",
    [
        ("%%MatrixMarket matrix array real general\n2 2\n1\n", "line 1: not a"),
        (
            "%%MatrixMarket matrix coordinate integer general\n% c\n2 2\n",
            "line 3: numbers of rows, columns and entries",
        ),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 0.5\n", "line 3: 3 whole numbers"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1e300\n", "line 3: 3 whole numbers.*1e300"),
        (
            "%%MatrixMarket matrix coordinate integer general\n2 2 2\n2 1 1\n1 1 1\n",
            "line 4: .* comes after a higher one",
        ),
    ],
)
def test_bad_matrixmarket(tmp_path, text, match):
    (tmp_path / "x.mtx").write_text(text)
    refuses(tmp_path / "x.mtx", rf"x\.mtx, {match}")


@pytest.mark.parametrize("sizes", ["2 3000000000 1", "2 -1 1", "-2 3 1"])
def test_a_header_with_a_damaged_number_of_columns_takes_no_memory(tmp_path, sizes):
    (tmp_path / "x.mtx").write_text(f"%%MatrixMarket matrix coordinate integer general\n{sizes}\n1 1 1\n")
    refuses(tmp_path / "x.mtx", r"x\.mtx, line 2: .* cannot have 1 entries; correct the header", transpose=True)


@pytest.mark.parametrize(
    "line, match",
    [
        ("1 3:-1", "line 2: the count -1 of column 3 is negative"),
        ("1 3:1.5", "line 2: needs 'label column:count"),
        ("1 3", "line 2: needs 'label column:count"),
        ("1 0:2", r"line 2: the column 0 is not 1"),
        ("1 3:1e400", "line 2: needs 'label column:count"),
        ("1 99999999999999999999:1", "line 2: needs 'label column:count"),
        ("1 3:1 4:2 3:5", "line 2: column 3 occurs 2 times; add up its counts"),
        ("1 4:2 3:1 3:5 3.0:1", "line 2: column 3 occurs 3 times; add up its counts"),
    ],
)
def test_bad_svmlight(tmp_path, line, match):
    refuses(write_lines(tmp_path / "x.svm", ["1 1:1", line]), rf"x\.svm, {match}")


@pytest.mark.parametrize("entry", [-1, 0.5, np.nan])
def test_a_matrix_with_entries_that_are_not_counts_is_refused(entry):
    matrix = COUNTS.astype(float)
    matrix[3, 1] = entry
    with pytest.raises(DataError, match=r"row 3, column 1 is (nan|-1\.0|0\.5)[:,]"):
        collect(open_in_memory(matrix, ReadOptions()))


def test_only_documents_beyond_the_limit_of_words_are_refused():
    lengths = np.array([0, MAX_DOCUMENT_TOKENS, 3])
    check_lengths(lengths, "document {}".format)
    with pytest.raises(DataError, match="document 1: its counts add up to more than the 67,108,864 words"):
        check_lengths(lengths + 1, "document {}".format)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("count, columns", [(1 << 53, 2048), (1e300, 1), (1e300, 2)])
def test_counts_whose_sum_does_not_fit_an_integer_are_refused(count, columns):
    matrix = np.zeros((3, columns))
    matrix[1] = count
    with pytest.raises(DataError, match="row 2: its counts add up to more than the 67,108,864 words"):
        collect(open_in_memory(matrix, ReadOptions()))


def test_mixed_documents():
    with pytest.raises(DataError, match=r"document 1 is .*: all documents must be strings, or all lists of strings"):
        collect(open_in_memory(["a", ["b"]], ReadOptions()))
    with pytest.raises(DataError, match="document 2 is"):
        collect(open_in_memory([["a"], ["b"], [5]], ReadOptions()))
    with pytest.raises(DataError, match=r"pass bags of gensim as gensim\.matutils\.corpus2csc\(bags\)"):
        collect(open_in_memory([[(0, 1), (3, 2)]], ReadOptions()))


def test_missing_documents_and_lone_surrogates_need_an_option():
    with pytest.raises(DataError, match="document 1: no text"):
        collect(open_in_memory(["aa", None], ReadOptions()))
    with pytest.raises(DataError, match="document 0: no tokens"):
        collect(open_in_memory([None, ["aa"]], ReadOptions()))
    for missing in (float("nan"), pd.NA, pd.NaT):
        with pytest.raises(DataError, match=r"document 0: no text \(a missing value\); drop such rows"):
            collect(open_in_memory([missing, "aa"], ReadOptions()))
    assert collect(open_in_memory([None, "aa"], ReadOptions(null_text="empty")))[1] == [[], ["aa"]]
    with pytest.raises(DataError, match=r"documents 0 to 1: '.ud800' in one of them"):
        collect(open_in_memory(["aa", "b\ud800 cc"], ReadOptions()))
    assert collect(open_in_memory(["aa", "b\ud800 cc"], ReadOptions(encoding_errors="replace")))[1] == [["aa"], ["cc"]]


def test_a_dask_array_of_unknown_length_is_refused_with_the_way_out():
    array = pytest.importorskip("dask.array").from_array(np.array([[1, 2], [3, 0]]), chunks=1)
    unknown = array[array[:, 0] > 1]
    with pytest.raises(DataError, match=r"chunks are not known; call array\.compute_chunk_sizes\(\) first"):
        open_in_memory(unknown, ReadOptions())
    assert collect(open_in_memory(unknown.compute_chunk_sizes(), ReadOptions()))[1] == [["0", "0", "0"]]


def test_mixed_formats(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.csv").write_text("text\n")
    refuses(tmp_path, r"several formats \(csv such as b\.csv, jsonl such as a\.jsonl\)")
    (tmp_path / "c.npz").write_text("")
    with pytest.raises(DataError, match=r"several formats \(edges such as b\.csv, npz such as c\.npz\)"):
        read_edges([tmp_path / "b.csv", tmp_path / "c.npz"])


@pytest.mark.parametrize("name", ["matrix.mtx", "GSM1_matrix.mtx", "documents.mtx", "adjacencymatrix.mtx"])
@pytest.mark.parametrize("transpose", [False, True])
def test_a_matrix_of_10x_genomics_alone_is_said(tmp_path, recwarn, name, transpose):
    (tmp_path / name).write_text("%%MatrixMarket matrix coordinate integer general\n3 2 1\n1 1 4\n")
    (tmp_path / "barcodes.tsv").write_text("a\nb\n")
    open_source(str(tmp_path / name), ReadOptions(transpose=transpose))
    said = any("each column is a cell; if it is one, read its folder" in str(one.message) for one in recwarn)
    assert said == ("_matrix" in f"_{name}" and not transpose)


@pytest.mark.parametrize("option", [{"format": "xml"}, {"encoding_errors": "ignore"}, {"null_text": "skip"}])
def test_an_unknown_option_is_refused(tmp_path, option):
    with pytest.raises(ValueError, match="is not known: choose one of"):
        read(write_lines(tmp_path / "x.txt", ["a"]), **option)


@pytest.mark.parametrize(
    "content, match",
    [
        (b"%PDF-1.4\n...", "a PDF file; extract its text first"),
        (b"{\\rtf1 text}", "a file of RTF"),
        (gzip.compress(b"one two\n", mtime=0), r"compressed by gzip; let its name end in \.gz"),
        (b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "a zip archive or a document of Office"),
        (b"\x89HDF\r\n\x1a\n" + bytes(90), "choose format=h5ad or format=10x-h5"),
        (b"FEA1" + bytes(9), "Feather of version 1"),
        (b"<!DOCTYPE html>\n<p>one</p>\n", "HTML or XML; convert it to text, CSV or JSONL, or choose the format"),
        (b"\xef\xbb\xbf\n<?xml version='1.0'?>\n<doc>one</doc>\n", "HTML or XML; convert it"),
        (b'<mediawiki xmlns="x">\n<page>one</page>\n', "HTML or XML; convert it"),
        (b"<TEI\n  xmlns='x'>one</TEI>\n", "HTML or XML; convert it"),
        (b'<rss version="2.0">one</rss>\n', "HTML or XML; convert it"),
        (b"\x93NUMPY\1\0" + bytes(9), "an array of NumPy"),
        (b"SQLite format 3\0" + bytes(9), "a database of SQLite"),
        (b"Obj\1" + bytes(9), "a file of Avro"),
        (b"\x04\x22\x4d\x18" + bytes(9), "compressed by LZ4"),
        (b"%!PS-Adobe-3.0\n", "a file of PostScript"),
    ],
)
@pytest.mark.parametrize("name", ["x.txt", "x", "x.csv", "x.jsonl"])
def test_files_of_no_format_are_refused_by_content(tmp_path, name, content, match):
    (tmp_path / name).write_bytes(content)
    refuses(str(tmp_path / name), match)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(content))
    refuses(str(path), "compressed twice, first by .*; unpack it once" if "compressed" in match else match)


def test_json_lines_of_another_name_are_not_taken_for_text(tmp_path):
    write_jsonl(tmp_path / "x.log", [{"text": "one"}, {"text": "two"}])
    refuses(tmp_path / "x.log", "the lines are JSON objects .*: jsonl, or lines if this is text")
    assert read(tmp_path / "x.log", format="jsonl")[1] == [["one"], ["two"]]


@pytest.mark.parametrize("name", ["x.txt", "x.dat"])
def test_a_table_of_another_name_is_noticed(tmp_path, name, recwarn):
    path = write_lines(tmp_path / name, ["id\ttext", "1\tone fish", "2\ttwo fish"])
    with pytest.warns(DataWarning, match=r"have 1 tab each .*choose format=csv with delimiter='\\t', otherwise"):
        read(path)
    recwarn.clear()
    assert read(path, format="csv", delimiter="\\t")[1] == [["one", "fish"], ["two", "fish"]]
    assert len(read(path, format="lines")[1]) == 3
    read(write_lines(tmp_path / "text.txt", ["a fish\tand", "a dog"]))
    assert not recwarn


@pytest.mark.parametrize("name", ["x.xml", "x.yaml", "x.yml", "x.toml", "x.ipynb"])
def test_files_whose_words_are_also_those_of_their_format_are_refused_by_name(tmp_path, name):
    path = write_lines(tmp_path / name, ["text: one fish"])
    refuses(path, "; convert it to text, CSV or JSONL, or choose the format with the option format")
    assert read(path, format="lines")[1] == [["text", "one", "fish"]]


#: A file of each format of text.
UTF16 = {
    "x.txt": "one fish\n",
    "x.csv": "text\none fish\n",
    "x.jsonl": '{"text": "one fish"}\n',
    "x.mtx": "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1\n",
    "docword.x.txt": "1\n1\n1\n1 1 1\n",
    "x.svm": "1 1:1\n",
}


@pytest.mark.parametrize("name", UTF16)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf16_is_named_with_and_without_a_mark(tmp_path, name, encoding):
    (tmp_path / name).write_bytes(UTF16[name].encode(encoding))
    options = {"format": "lines"} if name == "x.txt" else {}
    way_out = rf"encoding={encoding}" if name in ("x.txt", "x.csv", "x.jsonl") else rf"iconv -f {encoding}"
    refuses(tmp_path / name, rf"text in {encoding.upper()}; .*{way_out}", **options)
    if name in ("x.txt", "x.csv", "x.jsonl"):
        assert read(tmp_path / name, encoding=encoding, **options)[1] == [["one", "fish"]]


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.mtx", "docword.x.txt", "x.svm", "x.mallet", "x.edges"])
@pytest.mark.parametrize("n_lines", [1, 2])
def test_lines_that_end_in_carriage_returns_only_are_refused(tmp_path, name, n_lines):
    content = UTF16.get(name, "a b c\n") * n_lines
    if name == "x.txt":
        assert len(read(write_lines(tmp_path / name, ["a\rb", "c"]))[1]) == 2
    (tmp_path / name).write_bytes(content.replace("\n", "\r").encode())
    options = {"format": "mallet"} if name == "x.mallet" else {}
    reads = read_edges if name == "x.edges" else partial(read, **options)
    if content.count("\n") == 1 and name != "x.edges":
        assert reads(str(tmp_path / name))
    elif content.count("\n") > 1:
        with pytest.raises(DataError, match=rf"{name}, line 1: carriage returns, but no line ends; convert the file"):
            reads(str(tmp_path / name))


def test_a_carriage_return_within_the_last_line_is_part_of_it_however_long_the_file_is(tmp_path):
    for n_lines in (2, 40):
        (tmp_path / "x.txt").write_bytes((b"boat " * 20_000 + b"\n") * n_lines + b"one\rtwo")
        assert read(tmp_path / "x.txt")[1][-1] == ["one", "two"]


def test_words_of_a_vocabulary_may_end_in_carriage_returns(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"boat\rsea\r")
    (tmp_path / "x.svm").write_text("1 1:2 2:1\n")
    assert read(tmp_path / "x.svm", vocabulary_file=str(tmp_path / "words.txt"))[1]


def test_numbers_are_no_text_in_utf16(tmp_path):
    np.arange(1, 300, dtype=np.int16).tofile(tmp_path / "x.txt")
    refuses(tmp_path / "x.txt", "binary data")


def test_binary_data_with_the_name_of_csv_are_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\0\1\2,\3\n")
    refuses(tmp_path / "x.csv", r"x\.csv: binary data, not CSV")


def test_nan_of_json_is_a_missing_value(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"text": "one fish", "id": 1}, {"text": float("nan"), "id": 2}])
    refuses(path, r"line 2: no text \('text' is null\)")
    assert read(path, null_text="empty")[1] == [["one", "fish"], []]
    refuses(write_jsonl(tmp_path / "x.jsonl", [{"text": "a", "id": float("nan")}]), "no key", key="id")
    corpus = ingest(
        write_jsonl(tmp_path / "x.jsonl", [{"text": "one", "n": float("nan")}, {"text": "two", "n": 1}]),
        str(tmp_path / "corpus"),
        keep=["n"],
    )
    assert corpus.documents["n"].to_pylist() == [None, 1]


@pytest.mark.parametrize("save", [lambda path: np.savez(path, a=np.eye(2)), lambda path: path.write_text("one fish")])
def test_a_file_of_npz_that_has_no_sparse_matrix_is_refused_in_one_sentence(tmp_path, save):
    save(tmp_path / "x.npz")
    for reads in (read, read_edges):
        with pytest.raises(DataError) as caught:
            reads(str(tmp_path / "x.npz"))
        assert str(caught.value) == (
            f"{tmp_path}/x.npz: not a sparse matrix that scipy.sparse.save_npz wrote, or a damaged one"
        )
