"""Tables and columns of other libraries, CSV delimiters, and nested columns."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from corpusmill import LDA, NMF
from corpusmill.io.errors import DataError
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.open import open_in_memory
from helpers.sources import collect, read

TEXTS = ["one fish two", "red fish", "last one"]
IDS = ["a", "b", "c"]
TABLE = {"id": IDS, "body": TEXTS, "n": [1, 2, 3]}
WORDS = [text.split() for text in TEXTS]


def tables():
    """Yield a name and a function that makes the table in one library, which may be missing."""
    yield "pandas", lambda: pd.DataFrame(TABLE)
    yield "arrow", lambda: pa.table(TABLE)
    yield "rows", lambda: pa.table(TABLE).to_pylist()
    yield "iterator of rows", lambda: iter(pa.table(TABLE).to_pylist())
    yield "polars", lambda: pytest.importorskip("polars").DataFrame(TABLE)
    yield "hugging face", lambda: pytest.importorskip("datasets").Dataset.from_dict(TABLE)
    yield "hugging face stream", lambda: pytest.importorskip("datasets").Dataset.from_dict(TABLE).to_iterable_dataset()
    yield "dask bag", lambda: _bag(pa.table(TABLE).to_pylist())
    yield "dask data frame", lambda: _frame().from_pandas(pd.DataFrame(TABLE), npartitions=2)


def _bag(items):
    return pytest.importorskip("dask.bag").from_sequence(items, npartitions=2)


def _frame():
    return pytest.importorskip("dask.dataframe")


@pytest.mark.parametrize("make", [make for _, make in tables()], ids=[name for name, _ in tables()])
def test_a_column_of_a_table_is_named_by_the_options(make):
    assert collect(open_in_memory(make(), ReadOptions(text="body", key="id"))) == (IDS, WORDS)
    assert collect(open_in_memory(make(), ReadOptions(text="body"))) == (list("012"), WORDS)
    with pytest.raises(DataError, match="the table has no column 'text'; its columns are 'id', 'body', 'n'; name one"):
        collect(open_in_memory(make(), ReadOptions()))


COLUMNS = {
    "pandas": lambda: pd.Series(TEXTS),
    "arrow": lambda: pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    "polars": lambda: pytest.importorskip("polars").Series(TEXTS),
    "hugging face": lambda: pytest.importorskip("datasets").Dataset.from_dict(TABLE)["body"],
    "dask bag": lambda: _bag(TEXTS),
    "dask series": lambda: _frame().from_pandas(pd.DataFrame(TABLE), npartitions=2)["body"],
}


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_a_column_is_documents(make):
    assert collect(open_in_memory(make(), ReadOptions())) == (list("012"), WORDS)
    expected = LDA(2, max_iter=2, device="cpu").fit(TEXTS)
    np.testing.assert_array_equal(LDA(2, max_iter=2, device="cpu").fit(make()).components_, expected.components_)


def test_tables_of_numbers_are_matrices():
    counts = pd.DataFrame({"text": [1, 0, 2], "fish": [0, 3, 1]})
    expected = NMF(2, max_iter=2, device="cpu").fit(counts)
    forms = [_frame().from_pandas(counts, npartitions=2)]
    for form in forms:
        model = NMF(2, max_iter=2, device="cpu").fit(form)
        assert model.feature_names_in_.tolist() == ["text", "fish"]
        assert model.components_.shape == expected.components_.shape
    assert collect(open_in_memory(counts, ReadOptions()))[1] == [
        ["text"],
        ["fish", "fish", "fish"],
        ["text", "text", "fish"],
    ]


def test_a_table_for_fit_is_refused_with_the_way_out():
    for table in (pd.DataFrame(TABLE), pa.table(TABLE), _frame().from_pandas(pd.DataFrame(TABLE), npartitions=1)):
        with pytest.raises(ValueError, match="pass the column"):
            LDA(2).fit(table)


@pytest.mark.parametrize(
    "data, message",
    [
        (TABLE, "not a table with the columns 'id', 'body'.*: pass the column with the text alone"),
        (5, "a matrix of counts, or paths of files, not int"),
        (None, "not NoneType"),
        (b"text", "not bytes"),
        ({"a", "b"}, "not set"),
        ([b"text"], "not list of bytes"),
    ],
    ids=["dictionary", "number", "None", "bytes", "set", "list of bytes"],
)
def test_an_object_that_is_neither_documents_nor_a_table_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        open_in_memory(data, ReadOptions())


def test_categories_of_polars_are_read():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(TABLE).with_columns(polars.col("id", "body").cast(polars.Categorical))
    assert collect(open_in_memory(table, ReadOptions(text="body", key="id"))) == (IDS, WORDS)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_missing_texts_of_every_type_are_read_as_empty(kind):
    table = pa.table({"text": pa.array(["aa bb", None], pa.string()).cast(pa.binary()).cast(kind)})
    assert collect(open_in_memory(table, ReadOptions(null_text="empty")))[1] == [["aa", "bb"], []]


def test_missing_texts_of_polars_and_missing_numbers_are_read_as_empty():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"text": ["aa bb", None], "year": [1990, None]})
    assert collect(open_in_memory(table, ReadOptions(null_text="empty")))[1] == [["aa", "bb"], []]
    assert collect(open_in_memory(table, ReadOptions(text="year", null_text="empty")))[1] == [["1990"], []]


def test_bytes_that_are_not_utf8_are_replaced_in_views_too():
    table = pa.table({"text": pa.array([b"aa \xff bb"], pa.binary_view())})
    with pytest.raises(DataError, match="table, row 0: invalid UTF-8 at byte 3"):
        collect(open_in_memory(table, ReadOptions()))
    assert collect(open_in_memory(table, ReadOptions(encoding_errors="replace")))[1] == [["aa", "bb"]]


@pytest.mark.parametrize("make", [lambda table: table, lambda table: iter(table.to_dict("records"))])
def test_lone_surrogates_in_a_table_are_refused_with_their_column(make):
    table = pd.DataFrame({"text": ["aa", "b\ud800"], "n": [11, 22]})
    with pytest.raises(DataError, match=r"table, row 0 or later: column 'text' has '.ud800', which cannot be encoded"):
        collect(open_in_memory(make(table), ReadOptions()))
    # Other columns are read.
    assert collect(open_in_memory(make(table), ReadOptions(text="n")))[1] == [["11"], ["22"]]


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_csv_delimiters(tmp_path, delimiter):
    path = tmp_path / "x.csv"
    rows = [["id", "body"], *([key, f'"{text}"'] for key, text in zip(IDS, TEXTS, strict=True))]
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows))
    assert read(str(path), delimiter=delimiter, text="body", key="id") == (IDS, WORDS)
    with pytest.raises(ValueError, match="delimiter=';;' must be one character"):
        read(str(path), delimiter=";;")


ROWS = [{"article": {"body": {"en": text}, "id": key}} for key, text in zip(IDS, TEXTS, strict=True)]


def test_nested_columns_are_named_by_their_path(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    options = {"text": "article.body.en", "key": "article.id"}
    assert read(str(tmp_path / "x.parquet"), **options) == (IDS, WORDS)
    assert read(str(tmp_path / "x.jsonl"), **options) == (IDS, WORDS)
    assert collect(open_in_memory(pa.Table.from_pylist(ROWS), ReadOptions(**options))) == (IDS, WORDS)
    for name in ("x.parquet", "x.jsonl"):
        with pytest.raises(DataError, match=r"article\.body\.de|no text"):
            read(str(tmp_path / name), text="article.body.de")


def test_a_name_with_dots_comes_before_a_path(tmp_path):
    rows = [{"a.b": "plain", "a": {"b": "nested"}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text(json.dumps(rows[0]) + "\n")
    for name in ("x.parquet", "x.jsonl"):
        assert read(str(tmp_path / name), text="a.b")[1] == [["plain"]]


def test_lists_of_dictionary_values_in_several_row_groups_are_read(tmp_path):
    tokens = pa.array([["one", "fish"], ["two"], ["one"], []], pa.list_(pa.dictionary(pa.int32(), pa.string())))
    pq.write_table(pa.table({"tokens": tokens}), tmp_path / "a.parquet", row_group_size=1)
    assert read(str(tmp_path / "a.parquet"), tokens="tokens")[1] == tokens.to_pylist()


@pytest.mark.parametrize("make", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
@pytest.mark.parametrize("form", ["memory", "arrow", "parquet"])
def test_all_types_of_lists_of_strings_are_tokens(tmp_path, form, make):
    table = pa.table({"c": pa.array([["aa", "bb"], None, ["cc"], []], make(pa.string()))})
    expected = [["aa", "bb"], [], ["cc"], []]
    options = {"tokens": "c", "null_text": "empty"}
    if form == "memory":
        assert collect(open_in_memory(table, ReadOptions(**options)))[1] == expected
        return
    write = pq.write_table if form == "parquet" else pyarrow.feather.write_feather
    write(table, str(tmp_path / f"x.{form}"))
    assert read(tmp_path / f"x.{form}", **options)[1] == expected


@pytest.mark.parametrize("option", ["text", "tokens", "key"])
def test_maps_are_refused_with_their_column(tmp_path, option):
    table = pa.table({"c": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())), "text": ["aa"]})
    pq.write_table(table, tmp_path / "x.parquet")
    for reads in (
        lambda: collect(open_in_memory(table, ReadOptions(**{option: "c"}))),
        lambda: read(tmp_path / "x.parquet", **{option: "c"}),
    ):
        with pytest.raises(DataError, match=r"row [01]: column 'c' is map<string, string.* needed"):
            reads()
