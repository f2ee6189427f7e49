"""Ingest keeps columns of the source with the documents, with types, and transform writes them."""

import datetime
import gzip
import json

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpusmill import LDA, Corpus, ingest
from corpusmill.io.errors import DataError, DataWarning
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.commands.cli.main import main

DAYS = [datetime.date(2026, 11, 1) + datetime.timedelta(days=i) for i in range(40)]
ROWS = [
    {
        "id": f"d{i}",
        "text": f"ship sea word{i % 3}",
        "date": day.isoformat(),
        "title": f"The {i}th",
        "year": 2026 + i,
        "score": i / 2,
        "open": i % 2 == 0,
        "code": f"0{i}",
    }
    for i, day in enumerate(DAYS)
]
NAMES = ("date", "title", "year", "score", "open", "code")
OPTIONS = {"key": "id", "keep": NAMES, "held_out": 0.3, "chunk_tokens": 20}


def write_jsonl(folder):
    path = folder / "news.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    return str(path)


def write_parquet(folder):
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(table.schema.get_field_index("date"), "date", pa.array(DAYS))
    pq.write_table(table, folder / "news.parquet", row_group_size=7)
    return str(folder / "news.parquet")


def write_csv(folder):
    pandas.DataFrame(ROWS).to_csv(folder / "news.csv", index=False)
    return str(folder / "news.csv")


SOURCES = {
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "csv": write_csv,
    "rows": lambda folder: ROWS,
    "pandas": lambda folder: pandas.DataFrame(ROWS),
    "polars": lambda folder: pytest.importorskip("polars").DataFrame(ROWS),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_columns_are_kept_with_types_in_the_order_of_the_documents(kind, tmp_path):
    corpus = ingest(SOURCES[kind](tmp_path), str(tmp_path / "corpus"), **OPTIONS)
    assert corpus.kept_columns == list(NAMES)
    assert corpus.held_out.n_documents > 0
    for part in (corpus, corpus.held_out):
        expected = [ROWS[int(key[1:])] for key in part.documents["key"].to_pylist()]
        found = part.documents.select(NAMES)
        assert found.schema.types == [pa.date32(), pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.string()]
        for row, wanted in zip(found.to_pylist(), expected, strict=True):
            assert row | {"date": row["date"].isoformat()} == {name: wanted[name] for name in NAMES}


def test_rows_are_read_by_range(tmp_path):
    corpus = ingest(write_jsonl(tmp_path), str(tmp_path / "corpus"), **OPTIONS)
    assert len(corpus.chunks) > 3
    every = corpus.documents.select(["key", "title"])
    for first, stop in ((0, 1), (5, 17), (0, corpus.n_documents), (9, 9)):
        assert corpus.read_rows(first, stop, ["key", "title"]).equals(every.slice(first, stop - first))


def test_transform_writes_the_kept_columns_beside_the_weights(tmp_path):
    corpus = ingest(write_csv(tmp_path), str(tmp_path / "corpus"), **OPTIONS)
    model = LDA(2, max_iter=2).fit(corpus)
    model.transform_to(corpus, str(tmp_path / "weights"))
    table = pq.read_table(tmp_path / "weights")
    assert table.column_names == ["document", "weights", *NAMES]
    assert table.select(NAMES).equals(corpus.documents.select(NAMES))
    assert table["document"].to_pylist() == corpus.documents["key"].to_pylist()


def test_values_of_several_types_become_the_type_that_holds_all(tmp_path):
    rows = [{"text": "a sea", "n": 1, "mixed": 1, "when": "2026-11-01", "none": None} for _ in range(3)]
    rows += [{"text": "a sea", "n": 2.5, "mixed": "x", "when": "2026-11-02 10:30:00", "none": None, "extra": 1}]
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row) + "\n")
    keep = ("n", "mixed", "when", "none")
    with pytest.warns(UserWarning, match="column 'mixed' is kept as text, because 1 of its 4 values is no int64"):
        corpus = ingest(str(tmp_path / "*.jsonl"), str(tmp_path / "corpus"), keep=keep)
    table = corpus.documents.select(keep)
    assert table.schema.types == [pa.float64(), pa.string(), pa.timestamp("us"), pa.string()]
    assert table["n"].to_pylist() == [1, 1, 1, 2.5]
    assert table["mixed"].to_pylist() == ["1", "1", "1", "x"]
    assert table["when"][3].as_py() == datetime.datetime(2026, 11, 2, 10, 30)
    assert table["none"].null_count == 4


def test_a_block_with_values_of_several_types_is_read(tmp_path):
    lines = [json.dumps({"text": "sea", "n": value}) for value in (1, None, "x", True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    corpus = ingest(str(tmp_path / "a.jsonl"), str(tmp_path / "corpus"), keep=("n",))
    assert corpus.documents["n"].to_pylist() == ["1", None, "x", "true"]


def test_lines_that_are_skipped_do_not_shift_the_kept_columns(tmp_path):
    lines = [json.dumps({"text": "sea", "n": i}) for i in range(5)]
    lines.insert(2, "{ broken")
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    options = {"keep": ("n",), "on_bad_line": "skip", "max_bad_lines": 1}
    corpus = ingest(str(tmp_path / "a.jsonl"), str(tmp_path / "corpus"), **options)
    assert corpus.documents["n"].to_pylist() == list(range(5))


def test_an_empty_cell_of_csv_is_a_missing_value(tmp_path):
    (tmp_path / "a.csv").write_text("text,year,name\nsea,2026,x\nsea,,\nsea,1999,y\n")
    corpus = ingest(str(tmp_path / "a.csv"), str(tmp_path / "corpus"), keep=("year", "name"))
    assert corpus.documents["year"].to_pylist() == [2026, None, 1999]
    assert corpus.documents["name"].to_pylist() == ["x", "", "y"]


def test_the_text_the_key_and_nested_fields_can_be_kept(tmp_path):
    row = {"id": "a", "text": "the sea", "meta": {"day": "2026-11-01"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        options = {"key": "id", "keep": ("text", "id", "meta.day"), "overwrite": True}
        corpus = ingest(str(tmp_path / name), str(tmp_path / "corpus"), **options)
        assert corpus.documents.select(["text", "id"]).to_pylist() == [{"text": "the sea", "id": "a"}]
        assert corpus.documents["meta.day"].to_pylist() == [datetime.date(2026, 11, 1)]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (("missing",), "no column 'missing'.*keep"),
        (("chunk",), "a corpus has a column 'chunk' of its own"),
        (("year", "year"), "names a column twice: year, year"),
        (("nested",), "column 'nested' is struct.*keep takes text"),
    ],
)
def test_a_column_that_cannot_be_kept_is_refused(keep, message, tmp_path):
    table = pa.Table.from_pylist([{"text": "sea", "year": 1, "chunk": 1, "nested": {"a": 1}}])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises((DataError, ValueError), match=message):
        ingest(str(tmp_path / "a.parquet"), str(tmp_path / "corpus"), keep=keep)


def test_a_source_without_columns_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("the sea\n")
    with pytest.raises(ValueError, match=r"keep applies to jsonl, csv, parquet, arrow, .*, but .*a\.txt is lines"):
        ingest(str(tmp_path / "a.txt"), str(tmp_path / "corpus"), keep=("date",))


def test_a_corpus_with_other_kept_columns_is_another_corpus(tmp_path):
    source = write_csv(tmp_path)
    ingest(source, str(tmp_path / "corpus"), keep=("date",))
    ingest(source, str(tmp_path / "corpus"), keep=("date",))
    with pytest.raises(DataError, match="with other options \\(keep\\)"):
        ingest(source, str(tmp_path / "corpus"), keep=("year",))


def test_the_same_words_without_kept_columns_give_the_same_hash(tmp_path):
    source = write_csv(tmp_path)
    with_columns = ingest(source, str(tmp_path / "a"), keep=("date",))
    without = ingest(source, str(tmp_path / "b"))
    assert with_columns.hash == without.hash
    assert without.kept_columns == []


def test_retrain_keeps_columns_in_every_batch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {
        "source": {"path": "in/*.jsonl", "key": "id", "keep": ["date"]},
        "model": {"kind": "lda", "n_components": 2, "max_iter": 2},
        "corpus": {"held_out": 0.2},
        "retrain": {"url": "models", "max_new_words": 1.0, "tolerance": 9.0},
        "cluster": {"kind": "synchronous"},
        "report": None,
    }
    (tmp_path / "my.yaml").write_text(json.dumps(config))
    (tmp_path / "in").mkdir()
    for night in range(2):
        some = ROWS[20 * night : 20 * night + 20]
        (tmp_path / "in" / f"{night}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
        main(["retrain", "my.yaml", "--json"])
        batches = sorted(path for path in (tmp_path / "models" / "batches").iterdir())
    assert len(batches) == 2
    for batch in batches:
        assert Corpus(str(batch)).documents.schema.field("date").type == pa.date32()


# --- values that must stay as they are ---


def kept_from(folder, name, lines, **options):
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    corpus = ingest(str(folder / name), str(folder / "corpus"), keep=["value"], min_df=1, **options)
    return corpus.documents["value"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1234567890123456789", "-7"], pa.int64()),
        (["12345678901234567890", "-7"], pa.string()),
        (["0.5", "1234567890123456"], pa.string()),
        (["0.30000000000000004", "1e-300"], pa.float64()),
        (["1e400", "1"], pa.string()),
    ],
)
def test_no_number_of_a_csv_file_loses_digits(tmp_path, values, kind):
    kept = kept_from(tmp_path, "in.csv", ["text,value", *(f"ship sea,{value}" for value in values)])
    assert kept.type == kind
    exact = [float(value) for value in values] if kind == pa.float64() else values
    assert [value if kind == pa.float64() else str(value) for value in kept.to_pylist()] == exact


def test_empty_texts_of_jsonl_stay_empty(tmp_path):
    kept = kept_from(tmp_path, "in.jsonl", ['{"text": "ship sea", "value": ""}'] * 3)
    assert kept.to_pylist() == ["", "", ""]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_dates_of_which_half_are_none_are_counted(tmp_path, ending):
    values = ["2026-11-01", "1.11.2026", "2026-11-02", "unknown"]
    lines = {"csv": ["text,value", *(f"ship sea,{value}" for value in values)]}
    lines["jsonl"] = [json.dumps({"text": "ship sea", "value": value}) for value in values]
    with pytest.warns(DataWarning, match="as text, because 2 of its 4 values are no date; the first is '1.11.2026'"):
        kept = kept_from(tmp_path, f"in.{ending}", lines[ending])
    assert kept.to_pylist() == values


def test_a_bad_line_does_not_change_the_values_of_others(tmp_path):
    lines = ["text,value", *("ship sea,2024-01-01 10:00" for _ in range(50)), "sea", "ship sea,noon"]
    with pytest.warns(UserWarning, match="column 'value' is kept as text, because 1 of its 51 values is no timestamp"):
        kept = kept_from(tmp_path, "in.csv", lines, on_bad_line="skip", max_bad_lines=0.5)
    assert set(kept.to_pylist()) == {"2024-01-01 10:00", "noon"}


def test_after_a_kill_an_overwrite_deletes_the_files_of_a_corpus_without_a_folder_of_content(tmp_path, monkeypatch):
    folder = tmp_path / "corpus"
    (tmp_path / "in.txt").write_text("ship sea\n" * 3)
    ingest(str(tmp_path / "in.txt"), str(folder), min_df=1)
    # A selection has no folder of content either.
    meta = json.loads((folder / "corpus.json").read_text())
    content = folder / meta.pop("content")
    for path in content.iterdir():
        path.rename(folder / path.name)
    content.rmdir()
    (folder / "corpus.json").write_text(json.dumps(meta))
    (tmp_path / "in.txt").write_text("boat\n" * 5)
    delete = Store.delete

    def delete_once(self, name):
        delete(self, name)
        if name == "corpus.json":
            raise KeyboardInterrupt

    options = {"min_df": 1, "overwrite": True}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "delete", delete_once)
        ingest(str(tmp_path / "in.txt"), str(folder), **options)
    assert ingest(str(tmp_path / "in.txt"), str(folder), **options).n_documents == 5
    names = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    assert names == {"corpus.json", json.loads((folder / "corpus.json").read_text())["content"]}
