"""An ingest counts the bad lines that it skips, keeps them in quarantine, and has a limit for them."""

import gzip
import json
import re
import warnings
from pathlib import Path

import pytest
from corpusmill import ingest
from corpusmill.io.errors import DataError, DataWarning
from corpusmill.pipeline.publishing.retrain import retrain
from corpusmill.pipeline.publishing.versions import Versions
from helpers.documents import corpus_files
from helpers.nightly import BOATS, BREAD, call, configuration, write_configuration, write_day, write_first_days
from helpers.sources import write_jsonl


@pytest.fixture
def source(tmp_path):
    """Write 18 good lines and 2 bad ones in two files."""
    for name in ("a", "b"):
        lines = [json.dumps({"text": f"{BOATS} {name}{i}"}) for i in range(9)]
        lines.insert(4, f"no json in {name}")
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    return str(tmp_path / "*.jsonl")


def test_skipped_lines_are_counted_and_nothing_else_changes(source, tmp_path):
    corpus = ingest(source, str(tmp_path / "skip"), on_bad_line="skip")
    assert (corpus.n_documents, corpus.meta["about"]["bad_lines"]) == (18, 2)
    assert not (tmp_path / "skip" / "bad-lines.jsonl").exists()
    for path in tmp_path.glob("*.jsonl"):
        path.write_text("".join(line for line in path.read_text().splitlines(True) if "no json" not in line))
    clean = ingest(source, str(tmp_path / "clean"))
    assert clean.vocabulary.equals(corpus.vocabulary)
    assert clean.hash == corpus.hash
    assert "bad_lines" not in clean.meta["about"]


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("n_files", [1, 2, 3])
def test_headers_within_a_file_of_csv_are_counted(tmp_path, n_files, line_end, bad):
    lines = ["id,text", f"1,{BOATS}", '2,"id,text or more"', *(["3,too,many"] if bad else [])]
    (tmp_path / "x.csv").write_bytes(n_files * "".join(line + line_end for line in lines).encode())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corpus = ingest(str(tmp_path / "x.csv"), str(tmp_path / "corpus"), on_bad_line="skip", max_bad_lines=9)
    assert corpus.n_documents == 3 * n_files - 1
    found = [str(one.message) for one in caught if "header" in str(one.message)]
    said = (
        rf"{corpus.url}: {tmp_path}/x\.csv, line {len(lines) + 1}: this row is the header .* \({n_files - 1} such row"
    )
    assert [bool(re.match(said, one)) for one in found] == [True] * (n_files > 1)


@pytest.mark.parametrize("options", [{}, {"tokens": "tokens"}, {"key": "id"}, {"keep": ["date"]}])
def test_half_characters_of_json_are_counted(tmp_path, options):
    rows = [{"text": BOATS, "tokens": ["aa"], "id": "a", "date": "1", "emoji": "\U0001f600 \ud800"} for _ in range(4)]
    for row in rows[1:3]:
        row |= {"text": f"{BOATS} \udc00", "tokens": ["b\ud83d"], "id": "b\ud83d", "date": "\ud83d"}
    path = write_jsonl(tmp_path / "x.jsonl", rows)
    with pytest.warns(DataWarning, match=r"x\.jsonl, line 2: this line has half of a character.* \(2 such rows\)"):
        ingest(path, str(tmp_path / "corpus"), **options)
    whole = write_jsonl(tmp_path / "whole.jsonl", [rows[0]])
    with warnings.catch_warnings(action="error"):
        ingest(whole, str(tmp_path / "other"), **options)


#: Rows in which two quotes, which are letters, pair up over several lines, and rows whose fields have several lines.
QUOTED = {
    "last column": ('id,text\n1,"aa\n2,bb\n3,cc"\n4,dd\n', "lines 2 to 4"),
    "first column": ('text,id\nzz,0\n"aa,1\nbb,2\ncc",3\ndd,4\n', "lines 3 to 5"),
    "carriage returns": ('id,text\r\n\r\n1,"aa\r\n2,bb"\r\n4,dd\r\n', "lines 3 to 4"),
    "besides escapes": ('id,text\n0,"z""z\n"\n1,"aa\n2,bb"\n5,"a\n6,b"\n', "lines 4 to 5"),
    "prose": ('id,text\n1,"Dear all, hello\nDear Bob, hello"\n2,"dd\nee, ff"\n', None),
    "a paragraph": ('text,id\n"Dear Bob,\n\nsee you, Ann",1\n', None),
    "some by chance": ('text,id\n"a\nb",1\n"a,1\nb",1\n', None),
    "one column": ('text\n"a\nb"\n', None),
}


@pytest.mark.parametrize("content, lines", QUOTED.values(), ids=QUOTED)
@pytest.mark.parametrize("slow", [False, True])
def test_a_field_in_quotes_that_holds_rows_is_noted(tmp_path, content, lines, slow):
    (tmp_path / "x.csv").write_bytes(content.encode())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ingest(str(tmp_path / "x.csv"), str(tmp_path / "corpus"), token_pattern=r"\w", escape="\\" if slow else None)
    said = [str(one.message) for one in caught]
    assert len(said) == bool(lines)
    assert all(f"x.csv, {lines}: a field in quotes has several lines" in one for one in said)


def test_quarantine_keeps_the_lines_and_the_reasons(source, tmp_path):
    options = {"on_bad_line": "quarantine"}
    corpus = ingest(source, str(tmp_path / "corpus"), **options)
    rows = [json.loads(line) for line in Path(corpus.url, "bad-lines.jsonl").read_text().splitlines()]
    assert [(Path(row["file"]).name, row["line"], row["text"]) for row in rows] == [
        ("a.jsonl", 5, "no json in a"),
        ("b.jsonl", 5, "no json in b"),
    ]
    assert "not valid JSON" in rows[0]["error"]
    before = corpus_files(corpus)
    assert corpus_files(ingest(source, corpus.url, **options)) == before
    # Lines that are only skipped are not written, and the file of the replaced corpus is deleted.
    replaced = ingest(source, corpus.url, on_bad_line="skip", overwrite=True)
    assert not Path(replaced.url, "bad-lines.jsonl").exists()


@pytest.mark.parametrize(
    "limit, message",
    [
        (0.1, None),
        (2, None),
        (0.05, "2 of 20 lines are bad, and max_bad_lines allows 5.0%"),
        (1, "allows 1; the first"),
    ],
)
def test_more_bad_lines_than_the_limit_are_an_error(source, tmp_path, limit, message):
    options = {"on_bad_line": "skip", "max_bad_lines": limit}
    if message is None:
        assert ingest(source, str(tmp_path / "corpus"), **options).n_documents == 18
        return
    with pytest.raises(DataError, match=message) as caught:
        ingest(source, str(tmp_path / "corpus"), **options)
    assert "a.jsonl, line 5: not valid JSON" in str(caught.value)
    # Another limit continues with what was read already.
    raised = {"on_bad_line": "skip", "max_bad_lines": 1.0}
    assert ingest(source, str(tmp_path / "corpus"), **raised).n_documents == 18


def test_a_bad_line_does_not_stop_the_nights(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_first_days()
    retrain(configuration("lda"))
    write_day(3, [BREAD] * 20)
    with Path("days/2026-11-03.jsonl").open("a") as file:
        file.write("no json\n")
    write_configuration("lda")
    assert call("retrain", "my.yaml") == 4
    assert "2026-11-03.jsonl, line 21: not valid JSON" in capsys.readouterr().err
    # The settings about bad lines do not make another model, so they can be changed to continue.
    assert call("retrain", "my.yaml", "--set", "source.on_bad_line=quarantine") == 0
    assert "1 bad line" in capsys.readouterr().out
    record = Versions("models").read(2)
    assert (record["documents"] > 10, record["bad_lines"]) == (True, 1)
    assert "no json" in Path("models/batches", record["corpus"], "bad-lines.jsonl").read_text()


def test_ingest_and_run_report_skipped_lines(source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_configuration("lda", source={"path": source, "on_bad_line": "skip"})
    assert call("run", "my.yaml") == 0
    assert "2 bad lines skipped" in capsys.readouterr().out
    assert call("inspect", "corpus", "--json") == 0
    assert json.loads(capsys.readouterr().out)["bad_lines"] == 2


BOM = "\ufeff"
NOTED = {
    "NA of R": (
        '"text","n"\n"one fish",1\nNA,2\n"NA",3\n',
        3,
        r"line 3: this text is .*missing value.*\(2 such",
    ),
    "NULL of SQL": ("id,text\n1,one\n2,NaN\n3,NULL\n", 3, r"line 3: this text is .*missing value.*\(2 such"),
    "a word in a text": ("id,text\n1,NA is a text\n", 1, None),
    "a return in a text": ("text\none\rfish\ntwo\n", 3, r"line 2: this row ends in a carriage return alone.*QUOTE_ALL"),
    "a return at the end": ("text\none\ntwo\r", 2, "line 3: this row ends in a carriage return alone"),
    "returns only": ("text\rone\rtwo\r", 2, None),
    "returns only, the last row without": ("text\rone\rtwo", 2, None),
    "returns with line feeds": ("text\r\none\r\ntwo\r\n", 2, None),
    "a return in quotes": ('text\n"one\rfish"\ntwo\n', 2, None),
    "joined files with marks": (f"{BOM}id,text\n1,one\n{BOM}id,text\n2,two\n", 3, "line 3: this row is the header"),
    "marks, but no header": (f"{BOM}text\none\n{BOM}two\n", 2, None),
}


@pytest.mark.parametrize(("content", "n_documents", "said"), NOTED.values(), ids=NOTED)
def test_rows_of_csv_that_may_mean_something_else_are_said_once(tmp_path, content, n_documents, said):
    (tmp_path / "x.csv").write_text(content, newline="")
    with warnings.catch_warnings(record=True, action="always") as caught:
        corpus = ingest(str(tmp_path / "x.csv"), str(tmp_path / "corpus"))
    assert corpus.n_documents == n_documents
    assert not any("\ufeff" in word for word in corpus.vocabulary["word"].to_pylist())
    assert len(caught) == bool(said) and (not said or re.search(said, str(caught[0].message)))


@pytest.mark.parametrize("packed", [False, True])
def test_a_part_without_rows_is_read_and_nothing_but_such_parts_is_refused(tmp_path, packed):
    for name, content in (("a", b"text\none fish\n"), ("b", b""), ("c", b"text\n")):
        ending = ".csv.gz" if packed else ".csv"
        (tmp_path / f"{name}{ending}").write_bytes(gzip.compress(content) if packed else content)
    assert ingest(str(tmp_path / "*.csv*"), str(tmp_path / "corpus")).n_documents == 1
    with pytest.raises(DataError, match="there is no document in it"):
        ingest(str(tmp_path / "b.csv*"), str(tmp_path / "empty"))


@pytest.mark.parametrize("key", ["1.0", "1", "1.5", "v1.0"])
def test_keys_that_pandas_wrote_as_real_numbers_are_said(tmp_path, key):
    (tmp_path / "x.csv").write_text(f"id,text\n0,one fish\n{key},two fish\n")
    with warnings.catch_warnings(record=True, action="always") as caught:
        corpus = ingest(str(tmp_path / "x.csv"), str(tmp_path / "corpus"), key="id")
    assert corpus.documents["key"].to_pylist() == ["0", key]
    assert [re.search(r"line 3: the key of this row ends in \.0", str(one.message)) is not None for one in caught] == [
        True
    ] * (key == "1.0")


def test_a_header_without_the_names_of_rows_is_named(tmp_path):
    (tmp_path / "x.tsv").write_text('"text"\t"n"\n"1"\t"one fish"\t3\n')
    with pytest.raises(DataError, match=r"line 2: 3 columns, but the header has 2.*row\.names=FALSE"):
        ingest(str(tmp_path / "x.tsv"), str(tmp_path / "corpus"))
