"""Every format gives the same documents, however it is cut and packed; bad input is refused with file and line."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
from corpusmill.io.bags import BATCH_TOKENS
from corpusmill.io.formats import from_memory, open_source
from corpusmill.io.readers import line_partitions
from corpusmill.io.source import Partition, ReadOptions, find_files, line_blocks
from corpusmill.io.store import DataError
from corpusmill.io.tokens import TokenOptions, tokenise
from hypothesis import given, settings
from hypothesis import strategies as st

DOCUMENTS = ["one fish two fish", "", "Élan vital, naïve café", 'red "fish", blue\tfish', "last"]
TOKENS = [
    ["one", "fish", "two", "fish"],
    [],
    ["élan", "vital", "naïve", "café"],
    ["red", "fish", "blue", "fish"],
    ["last"],
]
COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 3, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])


def read(source, **options):
    """Return the keys and the tokens of all documents of a source."""
    reader = open_source(source, ReadOptions(**options))
    return collect(reader)


def collect(reader):
    """Return the keys and the tokens of all documents that a reader finds."""
    keys, documents = [], []
    for part in reader.partitions():
        for batch in reader.read(part):
            found = tokenise(batch, TokenOptions())
            pairs = zip(found.doc_ptr[:-1], found.doc_ptr[1:], strict=True)
            documents += [found.words.take(pa.array(found.ids[a:b])).to_pylist() for a, b in pairs]
            keys += batch.keys.to_pylist()
    assert len(keys) == len(documents)
    return keys, documents


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def write_jsonl(path, rows):
    return write_lines(path, [json.dumps(row) for row in rows])


# --- lines ---


@given(
    lines=st.lists(st.text("ab ", max_size=9), max_size=30),
    end=st.booleans(),
    cut=st.integers(1, 40),
    size=st.integers(1, 50),
)
@settings(max_examples=150, deadline=None)
def test_byte_ranges_give_each_line_once(tmp_path_factory, lines, end, cut, size):
    path = tmp_path_factory.mktemp("lines") / "x.txt"
    content = "\n".join(lines) + ("\n" if end and lines else "")
    path.write_text(content)
    file = find_files(path)[0]
    number, seen = 1, b""
    for start in range(0, max(1, len(content)), cut):
        first = content[: max(0, start - 1)].count("\n") + 1 + (start > 0)
        for data, line in line_blocks(file, Partition(file, start, start + cut, first), size):
            assert line == number
            number += data.count(b"\n")
            seen += data
    assert seen.decode() == content


def test_a_large_file_is_cut_and_lines_keep_their_numbers(tmp_path):
    path = write_lines(tmp_path / "big.txt", (f"line{i} " + "x" * 1000 for i in range(40_000)))
    reader = open_source(path, ReadOptions())
    assert len(list(reader.partitions())) == 3
    keys, documents = collect(reader)
    assert keys == [f"big.txt:{i}" for i in range(1, 40_001)]
    assert [d[0] for d in documents] == [f"line{i}" for i in range(40_000)]


def test_a_packed_file_is_not_cut(tmp_path):
    path = tmp_path / "big.txt.gz"
    path.write_bytes(gzip.compress(b"word\n" * 5_000_000, 1))
    assert len(list(line_partitions(find_files(path)))) == 1


@pytest.mark.parametrize("pack, ending", [(gzip.compress, ".gz"), (bz2.compress, ".bz2"), (lzma.compress, ".xz")])
def test_packed_lines(tmp_path, pack, ending):
    path = tmp_path / f"x.txt{ending}"
    path.write_bytes(pack("\n".join(DOCUMENTS).encode()))
    assert read(path)[1] == TOKENS


# --- formats ---


def test_one_document_a_line(tmp_path):
    path = write_lines(tmp_path / "x.txt", DOCUMENTS)
    assert read(path) == ([f"x.txt:{i}" for i in range(1, 6)], TOKENS)


def test_lines_of_windows(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\r\n".join(DOCUMENTS).encode())
    assert read(path)[1] == TOKENS


def test_jsonl(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"id": f"d{i}", "n": i, "text": d} for i, d in enumerate(DOCUMENTS)])
    assert read(path) == ([f"x.jsonl:{i}" for i in range(1, 6)], TOKENS)
    assert read(path, key="id")[0] == [f"d{i}" for i in range(5)]
    assert read(path, key="n")[0] == [str(i) for i in range(5)]


def test_jsonl_with_blank_lines_and_odd_rows(tmp_path):
    rows = ['{"text": "a\\ud800b cc"}', "", '{"text": "dd", "more": [1, {"x": null}]}', '{"more": 3, "text": "ee"}']
    assert read(write_lines(tmp_path / "x.jsonl", rows)) == (
        ["x.jsonl:1", "x.jsonl:3", "x.jsonl:4"],
        [["cc"], ["dd"], ["ee"]],
    )


def test_jsonl_of_tokens(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"words": t} for t in TOKENS])
    assert read(path, tokens="words")[1] == TOKENS


def test_csv_with_line_ends_in_quotes(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,text,n\n"a, b","one fish\ntwo ""fish""",1\nc,,2\nd,last,3\n')
    assert read(path) == (["x.csv:1", "x.csv:2", "x.csv:3"], [["one", "fish", "two", "fish"], [], ["last"]])
    assert read(path, key="id")[0] == ["a, b", "c", "d"]


def test_tsv(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("verse\twords\n1\tin the, beginning\n2\tlight\n")
    assert read(path, text="words", key="verse") == (["1", "2"], [["in", "the", "beginning"], ["light"]])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_of_text(tmp_path, kind):
    text = (
        pa.array(DOCUMENTS).cast(kind) if not pa.types.is_dictionary(kind) else pa.array(DOCUMENTS).dictionary_encode()
    )
    pq.write_table(pa.table({"id": range(5), "text": text}), tmp_path / "x.parquet", row_group_size=2)
    assert read(tmp_path / "x.parquet") == ([f"x.parquet:{i}" for i in range(1, 6)], TOKENS)
    assert read(tmp_path / "x.parquet", key="id")[0] == list("01234")


def test_parquet_of_tokens(tmp_path):
    pq.write_table(pa.table({"words": TOKENS}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", tokens="words")[1] == TOKENS


def test_parquet_is_cut_at_row_groups(tmp_path):
    rng = np.random.default_rng(0)
    text = ["".join(chr(c) for c in row) for row in rng.integers(97, 123, (40_000, 1000))]
    pq.write_table(pa.table({"text": text}), tmp_path / "x.parquet", row_group_size=5_000)
    reader = open_source(tmp_path / "x.parquet", ReadOptions())
    parts = list(reader.partitions())
    assert [p.first for p in parts] == [1, 20_001]
    batches = [b for p in parts for b in reader.read(p)]
    assert max(b.content.nbytes for b in batches) < 8 << 20
    assert [k for b in batches for k in b.keys.to_pylist()] == [f"x.parquet:{i}" for i in range(1, 40_001)]


def test_a_folder_of_files(tmp_path):
    for name, text in (("b/two", "zwei\nlines"), ("a/one.txt", "eins"), ("b/.hidden", "no"), ("_SUCCESS", "no")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read(tmp_path) == (["a/one.txt", "b/two"], [["eins"], ["zwei", "lines"]])


def test_a_folder_of_jsonl_files_in_the_order_of_their_names(tmp_path):
    for name in "cab":
        write_jsonl(tmp_path / f"{name}.jsonl", [{"text": name * 2}])
    assert read(tmp_path) == (["a.jsonl:1", "b.jsonl:1", "c.jsonl:1"], [["aa"], ["bb"], ["cc"]])
    assert read(str(tmp_path / "[bc].jsonl"))[0] == ["b.jsonl:1", "c.jsonl:1"]
    assert read([str(tmp_path / f"{name}.jsonl") for name in "ca"])[0] == ["c.jsonl:1", "a.jsonl:1"]


def test_a_url(tmp_path):
    path = write_lines(tmp_path / "x.txt", DOCUMENTS)
    assert read(f"file://{path}")[1] == TOKENS


def counts_of(documents, names):
    """Return the matrix of counts of documents of words."""
    return np.array([[d.count(n) for n in names] for d in documents])


def write_docword(path, counts, header=None):
    rows = [f"{d + 1} {w + 1} {counts[d, w]}" for d, w in np.argwhere(counts)]
    return write_lines(path, [*(header or (*counts.shape, len(rows))), *rows])


@pytest.mark.parametrize("packed", [False, True])
def test_docword(tmp_path, packed):
    path = write_docword(tmp_path / "docword.x.txt", COUNTS)
    if packed:
        (tmp_path / "docword.x.txt.gz").write_bytes(gzip.compress((tmp_path / "docword.x.txt").read_bytes()))
        path += ".gz"
    vocabulary = write_lines(tmp_path / "vocab.txt", ["fish", "cat", "dog", "élan"])
    keys, documents = read(path, vocabulary_file=vocabulary)
    assert keys == [f"{path.rpartition('/')[2]}:{i}" for i in range(1, 6)]
    np.testing.assert_array_equal(counts_of(documents, ["fish", "cat", "dog", "élan"]), COUNTS)
    np.testing.assert_array_equal(counts_of(read(path)[1], ["0", "1", "2", "3"]), COUNTS)


def test_docword_in_many_blocks_and_batches(tmp_path):
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, (2_000, 500)) * 40
    assert counts.sum() > 2 * BATCH_TOKENS
    reader = open_source(write_docword(tmp_path / "docword.x.txt", counts), ReadOptions())
    batches = [b.content for p in reader.partitions() for b in reader.read(p)]
    assert len(batches) > 2
    found = np.concatenate([np.diff(b.doc_ptr) for b in batches])
    np.testing.assert_array_equal(found, counts.sum(axis=1))
    columns = np.bincount(np.concatenate([b.columns for b in batches]), minlength=500)
    np.testing.assert_array_equal(columns, counts.sum(axis=0))


@pytest.mark.parametrize("field", ["integer", "real", "pattern"])
def test_matrixmarket(tmp_path, field):
    counts = np.minimum(COUNTS, 1) if field == "pattern" else COUNTS
    scipy.io.mmwrite(tmp_path / "x.mtx", scipy.sparse.csr_matrix(counts), field=field, comment="two\nlines")
    np.testing.assert_array_equal(counts_of(read(tmp_path / "x.mtx")[1], ["0", "1", "2", "3"]), counts)


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(tmp_path, zero_based):
    datasets = pytest.importorskip("sklearn.datasets")
    path = tmp_path / "x.svmlight"
    datasets.dump_svmlight_file(COUNTS, np.arange(5), str(path), zero_based=zero_based, comment="made by a test")
    vocabulary = write_lines(tmp_path / "vocab.txt", ["fish", "cat", "dog", "elk"])
    _, documents = read(path, vocabulary_file=vocabulary, zero_based=zero_based)
    np.testing.assert_array_equal(counts_of(documents, ["fish", "cat", "dog", "elk"]), COUNTS)


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_matrix, np.asarray])
def test_matrices(make):
    keys, documents = collect(from_memory(make(COUNTS), ReadOptions()))
    assert keys == list("01234")
    np.testing.assert_array_equal(counts_of(documents, ["0", "1", "2", "3"]), COUNTS)


@pytest.mark.parametrize(
    "documents", [DOCUMENTS, iter(DOCUMENTS), TOKENS, (t for t in TOKENS), [tuple(t) for t in TOKENS]]
)
def test_iterables(documents):
    assert collect(from_memory(documents, ReadOptions())) == (list("01234"), TOKENS)


# --- bad input ---


def refuses(source, match, **options):
    """Check that reading says what is wrong and where."""
    with pytest.raises(DataError, match=match):
        read(source, **options)


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.csv", "folder/x"])
def test_a_byte_order_mark_is_no_text(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    head = {"x.jsonl": '{"text": "aa bb"}\n\n', "x.csv": "text\naa bb\n"}.get(name, "aa bb\n")
    path.write_text(head, encoding="utf-8-sig")
    reader = open_source(path.parent if name == "folder/x" else path, ReadOptions())
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert batch.content[0].as_py().strip() == "aa bb"


def test_a_name_that_looks_like_a_pattern(tmp_path):
    (tmp_path / "x[1].txt").write_text("aa\n")
    assert read(tmp_path / "x[1].txt")[1] == [["aa"]]


@pytest.mark.parametrize(
    "source, match",
    [
        ("", "an empty path"),
        ("odd://x", "odd://x: Protocol not known: odd; use a local path or a URL"),
        ("x.zip", r"x\.zip: an archive; unpack it"),
        ("x.txt.zst", r"x\.txt\.zst, after line 0: the zstd data is cut off or damaged"),
    ],
)
def test_no_source_at_all(tmp_path, monkeypatch, source, match):
    monkeypatch.chdir(tmp_path)
    for name in ("x.zip", "x.txt.zst"):
        Path(name).write_bytes(b"PK\3\4")
    refuses(source, match)


def test_a_vocabulary_file_for_text(tmp_path):
    with pytest.raises(ValueError, match=r"vocabulary_file names the columns of docword.*x\.txt is lines"):
        read(write_lines(tmp_path / "x.txt", "a"), vocabulary_file="v.txt")


def test_hashed_columns(tmp_path):
    path = write_lines(tmp_path / "x.svm", ["1 7:2 4294967295:1", "0 7:1"])
    assert read(path)[1] == [["7", "7", "4294967295"], ["7"]]


def test_no_file(tmp_path):
    refuses(tmp_path / "x.jsonl", r"x\.jsonl: no file matches")
    refuses(str(tmp_path / "*.jsonl"), r"\*\.jsonl: no file matches")


@pytest.mark.parametrize("keep", [10, 20_000])
def test_truncated_gz(tmp_path, keep):
    path = tmp_path / "x.txt.gz"
    rng = np.random.default_rng(0)
    packed = gzip.compress(b"".join(b"%d\n" % n for n in rng.integers(0, 10**9, 10_000)))
    path.write_bytes(packed[:keep])
    refuses(path, r"x\.txt\.gz, after line \d+: the gzip data is cut off")


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz", "docword.x.txt.gz", "x.mtx.gz", "x.svm.gz", "folder/x.gz"])
def test_truncated_gz_of_every_format(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(b"text\n")[:14])
    refuses(path.parent if path.parent != tmp_path else path, r"\.gz, after line \d+: the gzip data is cut off")


def test_gz_that_is_none(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_text('{"text": "a"}')
    refuses(path, r"x\.jsonl\.gz, after line 0: the gzip data is cut off or damaged")


@pytest.mark.parametrize(
    "name, head, tail, row",
    [
        ("x.txt", b"good\n", b"", "line 2"),
        ("x.jsonl", b'{"text": "good"}\n{"text": "', b'"}', "line 2"),
        ("x.csv", b"text\ngood\n", b"", "row 2"),
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
    refuses(source, f"{path.name}, {row}: invalid UTF-8 at byte")
    assert read(source, encoding_errors="replace")[1][-1] == ["word"]


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
        ("[1]", "line 2: a JSON list where an object is needed; each line must be one"),
        ('{"body": "a", "id": 1}', "line 2: no text .the object has body, id.: name its field with text="),
        ('{"text": 5}', "line 2: field 'text' is 5 where a string is needed"),
        ('{"text": ["a"]}', "line 2: field 'text' is .* where a string is needed"),
    ],
)
def test_bad_json(tmp_path, line, match):
    refuses(write_lines(tmp_path / "x.jsonl", ['{"text": "fine"}', line]), rf"x\.jsonl, {match}")


def test_missing_columns(tmp_path):
    (tmp_path / "x.csv").write_text('a,"b c"\n1,2\n')
    refuses(tmp_path / "x.csv", r"x\.csv: no column 'text'; it has a, b c: name one of them with text")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    refuses(tmp_path / "x.parquet", r"x\.parquet: no column 'text'; it has a: name")
    refuses(tmp_path / "x.parquet", r"x\.parquet: no column 'id'; it has a", text="a", key="id")
    refuses(tmp_path / "x.parquet", r"column 'a' is int64 where lists of strings", tokens="a")
    refuses(
        write_jsonl(tmp_path / "x.jsonl", [{"text": "a", "id": None}]), r"x\.jsonl, line 1: no key in 'id'", key="id"
    )


def test_a_row_of_other_width(tmp_path):
    (tmp_path / "x.csv").write_text("id,text\n1,fine\n2,not,fine\n")
    refuses(tmp_path / "x.csv", r"x\.csv, .*row.*[Ee]xpected 2 columns, got 3")


@pytest.mark.parametrize(
    "columns, options, match",
    [
        ({"text": [["a"]]}, {}, r"row 1: column 'text' is list<.*> where text is needed"),
        ({"text": ["a"], "id": [{"n": 1}]}, {"key": "id"}, r"row 1: column 'id' is struct<.*> where text is needed"),
        ({"text": pa.nulls(2)}, {}, "row 1: no text"),
        ([("text", ["a"]), ("text", ["b"])], {}, "2 columns 'text'; rename all but one"),
    ],
)
def test_columns_that_are_no_text(tmp_path, columns, options, match):
    names, values = zip(*(columns.items() if isinstance(columns, dict) else columns), strict=True)
    pq.write_table(pa.table(list(values), names=list(names)), tmp_path / "x.parquet")
    refuses(tmp_path / "x.parquet", rf"x\.parquet[,:] {match}", **options)


def test_a_parquet_file_that_is_none(tmp_path):
    (tmp_path / "x.parquet").write_text("no")
    refuses(tmp_path / "x.parquet", r"x\.parquet: not a Parquet file")


@pytest.mark.parametrize(
    "rows, match",
    [
        (["1 1 0"], "line 4: the count 0 is not 1 or more"),
        (["1 1 -3"], "line 4: the count -3 is not 1 or more"),
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


def test_docword_whose_header_disagrees(tmp_path):
    path = write_docword(tmp_path / "docword.x.txt", COUNTS, header=(5, 4, 9))
    refuses(path, r"docword\.x\.txt: its header \(line 3\) says 9 entries, its body has 8")
    path = write_docword(tmp_path / "docword.y.txt", COUNTS)
    refuses(path, "says 4 words, .* has 2", vocabulary_file=write_lines(tmp_path / "v.txt", "ab"))
    refuses(path, "v4.txt, line 3: the word 'a' stands", vocabulary_file=write_lines(tmp_path / "v4.txt", "abac"))
    refuses(write_lines(tmp_path / "docword.z.txt", ["5 4"]), r"docword\.z\.txt, line 1: .* begins with three lines")


def test_a_vocabulary_that_is_not_utf8(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"one\ntw\xff\nthree\nfour\n")
    path = write_docword(tmp_path / "docword.x.txt", COUNTS)
    refuses(path, r"v\.txt, line 2: invalid UTF-8", vocabulary_file=str(tmp_path / "v.txt"))


@pytest.mark.parametrize(
    "text, match",
    [
        ("%%MatrixMarket matrix array real general\n2 2\n1\n", "line 1: not a"),
        ("%%MatrixMarket matrix coordinate integer general\n% c\n2 2\n", "line 3: needs rows, columns and entries"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 0.5\n", "line 3: 3 whole numbers"),
        (
            "%%MatrixMarket matrix coordinate integer general\n2 2 2\n2 1 1\n1 1 1\n",
            "line 4: .* comes after a higher one",
        ),
    ],
)
def test_bad_matrixmarket(tmp_path, text, match):
    (tmp_path / "x.mtx").write_text(text)
    refuses(tmp_path / "x.mtx", rf"x\.mtx, {match}")


@pytest.mark.parametrize(
    "line, match",
    [
        ("1 3:0", "line 2: the count 0 of column 3 is not 1 or more"),
        ("1 3:1.5", "line 2: needs 'label column:count"),
        ("1 3", "line 2: needs 'label column:count"),
        ("1 0:2", r"line 2: the column 0 is not 1"),
        ("1 3:1e400", "line 2: needs 'label column:count"),
        ("1 99999999999999999999:1", "line 2: needs 'label column:count"),
    ],
)
def test_bad_svmlight(tmp_path, line, match):
    refuses(write_lines(tmp_path / "x.svm", ["1 1:1", line]), rf"x\.svm, {match}")


@pytest.mark.parametrize("entry", [-1, 0.5, np.nan])
def test_a_matrix_that_does_not_count(entry):
    matrix = COUNTS.astype(float)
    matrix[3, 1] = entry
    with pytest.raises(DataError, match=r"row 3: the entry .* is not a count"):
        collect(from_memory(matrix, ReadOptions()))


def test_mixed_documents():
    with pytest.raises(DataError, match=r"document 1 is .*: all must be strings, or all lists of strings"):
        collect(from_memory(["a", ["b"]], ReadOptions()))
    with pytest.raises(DataError, match="document 2 is"):
        collect(from_memory([["a"], ["b"], [5]], ReadOptions()))
    with pytest.raises(DataError, match=r"document 0 is .\[\(0, 1\)"):
        collect(from_memory([[(0, 1), (3, 2)]], ReadOptions()))


def test_documents_that_are_none_or_cannot_be_encoded():
    with pytest.raises(DataError, match="document 1: no text"):
        collect(from_memory(["aa", None], ReadOptions()))
    with pytest.raises(DataError, match="document 0: no tokens"):
        collect(from_memory([None, ["aa"]], ReadOptions()))
    assert collect(from_memory([None, "aa"], ReadOptions(null_text="empty")))[1] == [[], ["aa"]]
    with pytest.raises(DataError, match=r"documents 0 to 1: '.ud800' in one of them"):
        collect(from_memory(["aa", "b\ud800 cc"], ReadOptions()))
    assert collect(from_memory(["aa", "b\ud800 cc"], ReadOptions(encoding_errors="replace")))[1] == [["aa"], ["cc"]]


def test_an_array_of_strings():
    assert collect(from_memory(np.array(DOCUMENTS), ReadOptions()))[1] == TOKENS


def test_mixed_formats(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.csv").write_text("text\n")
    refuses(tmp_path, r"several formats \(csv, jsonl\)")


@pytest.mark.parametrize("option", [{"format": "xml"}, {"encoding_errors": "ignore"}, {"null_text": "skip"}])
def test_an_option_that_is_not_known(tmp_path, option):
    with pytest.raises(ValueError, match="is not known: choose one of"):
        read(write_lines(tmp_path / "x.txt", ["a"]), **option)
