"""Kept columns of sources with misspelt names, odd values, decimals, nested values and columns of several types."""

import json
import warnings
from decimal import Decimal

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpusmill import ingest
from corpusmill.io.errors import DataError, DataWarning
from corpusmill.pipeline.commands.cli.main import main

TEXT = "ship sea"


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def keep(source, folder, *names, **options):
    return ingest(source, str(folder / "corpus"), keep=names, **options).documents


# --- names ---


@pytest.mark.parametrize("as_file", [True, False], ids=["jsonl", "rows"])
def test_a_name_that_no_document_has_is_refused_with_the_fields_found(tmp_path, as_file):
    rows = [{"text": TEXT, "date": "2026-11-01", "by": {"name": "x"}}, {"text": TEXT, "title": None}]
    source = write_rows(tmp_path / "a.jsonl", rows) if as_file else rows
    for name in ("dated", "by.first"):
        with pytest.raises(DataError, match=f"'{name}'; the fields are 'text', 'date', 'by.name', 'title'$"):
            keep(source, tmp_path, name)
    # A field without any value is a field, and one that is rare is one, too.
    found = keep(source, tmp_path, "title", "by.name")
    assert found["title"].null_count == 2
    assert found["by.name"].to_pylist() == ["x", None]


def test_a_name_that_occurs_only_in_values_is_no_field(tmp_path):
    source = write_rows(tmp_path / "a.jsonl", [{"text": TEXT, "id": "author", "by": {"author": 1}}])
    with pytest.raises(DataError, match="no document has the field 'author'"):
        keep(source, tmp_path, "author")


def test_wrong_names_of_text_and_key_are_refused_with_the_fields_found(tmp_path):
    source = write_rows(tmp_path / "a.jsonl", [{"id": 1, "body": TEXT}])
    with pytest.raises(
        DataError, match=r"line 1: no text \(no field 'text' among 'id', 'body'\); name the field with text.* or rename"
    ):
        keep(source, tmp_path)
    with pytest.raises(DataError, match=r"has a word; .* \(the fields are 'id', 'body'\)"):
        keep(source, tmp_path, null_text="empty")
    with pytest.raises(
        DataError, match=r"line 1: no key \(no field '\w+' among 'id', 'body'\); name the field with key"
    ):
        keep(source, tmp_path, text="body", key="number")


def test_a_single_name_that_is_no_list_is_refused(tmp_path):
    with pytest.raises(ValueError, match="keep is 'date': choose a list of strings"):
        ingest([{"text": TEXT, "date": "x"}], str(tmp_path / "corpus"), keep="date")


# --- columns of several types in memory ---


def test_only_the_columns_that_are_named_are_converted(tmp_path):
    frame = pandas.DataFrame({"text": [TEXT, TEXT], "n": [1, 2], "odd": [1, {"a": 2}], "worse": [b"x", object()]})
    assert keep(frame, tmp_path, "n")["n"].to_pylist() == [1, 2]
    assert keep(frame.to_dict("records"), tmp_path, "n", overwrite=True)["n"].to_pylist() == [1, 2]


def test_a_needed_column_of_several_types_is_named_with_its_types(tmp_path):
    frame = pandas.DataFrame({"text": [TEXT, None, 5, TEXT]})
    message = r"table, row 2: column 'text' has values of several types, str \(2\), int \(1\); convert"
    for source in (frame, frame.to_dict("records")):
        with pytest.raises(DataError, match=message):
            keep(source, tmp_path)


def test_a_kept_column_of_several_types_is_text_in_every_source(tmp_path):
    rows = [{"text": TEXT, "n": value} for value in (2.0, None, "x", True)]
    sources = [write_rows(tmp_path / "a.jsonl", rows), rows, pandas.DataFrame(rows)]
    for source in sources:
        assert keep(source, tmp_path, "n", overwrite=True)["n"].to_pylist() == ["2", None, "x", "true"]


def test_a_field_that_the_first_rows_lack_is_kept(tmp_path):
    rows = [{"text": TEXT}, {"text": TEXT, "n": 3}]
    assert keep(rows, tmp_path, "n")["n"].to_pylist() == [None, 3]


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2]], ids=["object", "list"])
def test_nested_values_are_refused_by_one_rule(tmp_path, value):
    rows = [{"text": TEXT, "n": value}, {"text": TEXT, "n": value}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    # A single nested value among others is refused as well.
    mixed = [{"text": TEXT, "n": 1}, *rows]
    sources = [write_rows(tmp_path / "a.jsonl", rows), str(tmp_path / "a.parquet"), rows, pandas.DataFrame(rows)]
    sources += [mixed, pandas.DataFrame(mixed), write_rows(tmp_path / "b.jsonl", mixed)]
    for source in sources:
        with pytest.raises(DataError, match=r"(line|row) \d: column 'n' is .*, and keep takes text, numbers, booleans"):
            keep(source, tmp_path, "n", overwrite=True)


def test_times_of_the_day_are_refused_with_the_way_out(tmp_path):
    table = pa.table({"text": [TEXT], "at": pa.array([3600], pa.time32("s"))})
    with pytest.raises(DataError, match=r"'at' is time32\[s\], .*, dates and timestamps; convert the column to text"):
        keep(table, tmp_path, "at")


# --- odd values ---


def test_a_time_after_the_year_9999_is_kept(tmp_path):
    # Milliseconds that were taken for seconds give such times. Python has no dates for them.
    times = pa.array([1_700_000_000_000, 0], pa.timestamp("s"))
    kept = keep(pa.table({"text": [TEXT, TEXT], "at": times}), tmp_path, "at")["at"]
    assert kept.cast(pa.int64()).to_pylist() == [1_700_000_000_000_000_000, 0]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "pandas"])
def test_one_odd_value_is_reported(tmp_path, kind, capsys):
    years = [*range(1990, 2030), "unknown", *range(1990, 2030)]
    frame = pandas.DataFrame({"text": TEXT, "year": years})
    source = frame
    if kind == "csv":
        source = str(tmp_path / "a.csv")
        frame.to_csv(source, index=False)
    if kind == "jsonl":
        source = write_rows(tmp_path / "a.jsonl", frame.to_dict("records"))
    message = "column 'year' is kept as text, because 1 of its 81 values is no int64; the first is 'unknown'"
    with pytest.warns(UserWarning, match=message):
        assert keep(source, tmp_path, "year")["year"].type == pa.string()
    if kind == "csv":
        main(["ingest", source, str(tmp_path / "other"), "--set=source.keep=[year]", "--set=cluster.kind=synchronous"])
        assert message in " ".join(capsys.readouterr().out.split())


def test_odd_values_of_several_files_are_counted(tmp_path):
    for number, date in enumerate(["2026-02-01", "2026-02-30", "2026-03-01", "", "2026-04-01"]):
        (tmp_path / f"{number}.csv").write_text(f"text,date\n{TEXT},{date}\n")
    with pytest.warns(UserWarning, match="because 1 of its 4 values is no date; the first is '2026-02-30'"):
        keep(str(tmp_path / "*.csv"), tmp_path, "date")


def test_a_column_of_text_is_not_reported(tmp_path):
    (tmp_path / "a.csv").write_text(f"text,title\n{TEXT},1984\n{TEXT},Emma\n{TEXT},Persuasion\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keep(str(tmp_path / "a.csv"), tmp_path, "title")


# --- decimals ---


def test_decimals_stay_exact(tmp_path):
    prices = [Decimal("12.50"), Decimal("0.10"), Decimal("12345678901234567.89")]
    table = pa.table({"text": [TEXT] * 3, "price": pa.array(prices, pa.decimal128(20, 2))})
    pq.write_table(table, tmp_path / "a.parquet")
    other = pa.table({"text": [TEXT], "price": pa.array([Decimal("1.2345")], pa.decimal128(9, 4))})
    pq.write_table(other, tmp_path / "b.parquet")
    found = keep(str(tmp_path / "a.parquet"), tmp_path, "price")["price"]
    assert found.type == pa.decimal128(20, 2)
    assert found.to_pylist() == prices
    # Files with other digits get the digits of all.
    found = keep(str(tmp_path / "*.parquet"), tmp_path, "price", overwrite=True)["price"]
    assert found.type == pa.decimal128(22, 4)
    assert found.to_pylist() == [*prices, Decimal("1.2345")]


def test_decimals_beyond_the_digits_of_the_type_become_text(tmp_path):
    values = pa.array([Decimal("1" * 39)], pa.decimal256(50, 0))
    pq.write_table(pa.table({"text": [TEXT], "n": values}), tmp_path / "a.parquet")
    assert keep(str(tmp_path / "a.parquet"), tmp_path, "n")["n"].to_pylist() == ["1" * 39]


@pytest.mark.parametrize("values", [["TRUE", "FALSE"], ["True", "False"], ["true", "false"], ["TRUE", "false", ""]])
def test_booleans_of_csv_are_those_of_pandas(tmp_path, values):
    (tmp_path / "x.csv").write_text("text,n\n" + "".join(f"{TEXT},{value}\n" for value in values))
    expected = pandas.read_csv(tmp_path / "x.csv")["n"]
    found = keep(str(tmp_path / "x.csv"), tmp_path, "n")["n"]
    assert found.type == pa.bool_()
    assert found.to_pylist() == [None if pandas.isna(value) else bool(value) for value in expected]


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_nanoseconds_are_cut_to_microseconds_in_every_source(tmp_path, kind, zone):
    times = [f"2026-01-02T03:04:05.{digits}{zone}" for digits in ("1", "123456", "1234567", "123456789")]
    table = pa.table({"text": [TEXT] * 4, "n": pandas.to_datetime(times, format="ISO8601")})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "x.parquet")
    elif kind == "csv":
        (tmp_path / "x.csv").write_text("text,n\n" + "".join(f"{TEXT},{time}\n" for time in times))
    else:
        write_rows(tmp_path / "x.jsonl", [{"text": TEXT, "n": time} for time in times])
    found = keep(str(tmp_path / f"x.{kind}"), tmp_path, "n")["n"]
    assert found.type == pa.timestamp("us", "UTC" if zone else None)
    assert found.to_pandas().to_list() == pandas.to_datetime(times, format="ISO8601").floor("us").to_list()


def test_a_date_of_the_year_0_which_python_does_not_have_is_text(tmp_path):
    rows = [{"text": TEXT, "n": date} for date in ("0000-01-01", "2026-01-01", "2026-01-02")]
    with pytest.warns(DataWarning, match="because 1 of its 3 values is no date; the first is '0000-01-01'"):
        assert keep(write_rows(tmp_path / "x.jsonl", rows), tmp_path, "n")["n"].to_pylist()[0] == "0000-01-01"
