"""Bad lines are skipped one by one, and all other lines are read as if they were not there."""

import json

import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.readers.batches import KEPT_CHARACTERS, ReadOptions
from corpusmill.io.readers.open import open_source

SKIP = {"on_bad_line": "skip"}


def documents_and_bad_lines(path, **options):
    """Return texts or tokens by key, and the bad lines."""
    reader = open_source(str(path), ReadOptions(**SKIP | options))
    found = {}
    bad = []
    for part in reader.partitions():
        for batch in reader.read(part):
            found |= dict(zip(batch.keys.to_pylist(), batch.content.to_pylist(), strict=True))
            bad += batch.bad
    return found, bad


def write(path, *lines):
    path.write_bytes(b"".join(line.encode("utf-8", "surrogateescape") + b"\n" for line in lines))
    return path


def test_every_kind_of_bad_line_of_jsonl_is_skipped(tmp_path):
    good = [json.dumps({"text": f"good {i}"}) for i in range(50)]
    bad = {7: "no json", 20: '["a list"]', 21: '{"body": "no text"}', 22: '{"text": 5}', 40: '{"text": "\udcff"}'}
    lines = [bad.get(number, good[number]) for number in range(50)]
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.jsonl", *lines))
    assert found == {f"x.jsonl:{number + 1}": f"good {number}" for number in range(50) if number not in bad}
    assert [line.line for line in skipped] == [number + 1 for number in bad]
    assert skipped[0].text == "no json"
    assert "x.jsonl, line 8: not valid JSON" in skipped[0].error
    assert skipped[0].file == str(tmp_path / "x.jsonl")


def test_tokens_and_keys_of_jsonl_stay_together(tmp_path):
    lines = ['{"t": ["a", "b"], "id": "one"}', '{"t": "text", "id": "two"}', '{"t": ["c"], "id": "three"}', "}"]
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.jsonl", *lines), tokens="t", key="id")
    assert found == {"one": ["a", "b"], "three": ["c"]}
    assert [line.line for line in skipped] == [2, 4]


def test_rows_of_csv_with_other_columns_or_without_text_are_skipped(tmp_path):
    rows = ["text,number", "first,1", "too,many,columns", "second,2", "\udcff,3", "third,4"]
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.csv", *rows))
    assert list(found.values()) == ["first", "second", "third"]
    assert {line.text for line in skipped} == {"too,many,columns", "\ufffd"}
    errors = " ".join(line.error for line in skipped)
    assert "line 3: 3 columns, but the header has 2" in errors
    assert "invalid UTF-8" in errors


def test_skipped_rows_of_csv_count_so_that_repairing_them_changes_no_key(tmp_path):
    rows = [f"text {number},{number}" for number in range(1, 10)]
    damaged = [*rows]
    damaged[1], damaged[3], damaged[8] = "too,many,columns", "gamma \udcff three,4", "few"
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.csv", "text,number", *damaged))
    assert {line.line: line.text for line in skipped} == {2: "too,many,columns", 4: "gamma \ufffd three", 9: "few"}
    assert "x.csv, line 5: invalid UTF-8" in next(line.error for line in skipped if line.line == 4)
    repaired, _ = documents_and_bad_lines(write(tmp_path / "x.csv", "text,number", *rows))
    assert found == {key: text for key, text in repaired.items() if key not in ("x.csv:2", "x.csv:4", "x.csv:9")}


def test_rows_of_csv_are_numbered_across_blocks(tmp_path):
    # A block of Arrow has 4 MiB. It reads ahead, so bad rows of a block are known before the rows of the last one.
    filler = "x" * 1000
    rows = [f"{number} {filler},1" if number % 100 else "bad" for number in range(1, 12_001)]
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.csv", "text,number", *rows))
    assert len(skipped) == 120
    assert all(text.split()[0] == key.removeprefix("x.csv:") for key, text in found.items())


def test_a_line_and_a_file_of_text_that_is_not_utf8_are_skipped(tmp_path):
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.txt", "one", "\udcff", "two"))
    assert list(found.values()) == ["one", "two"]
    assert skipped[0].line == 2
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in (("a.txt", "one"), ("b.txt", "\udcff"), ("c.txt", "two")):
        write(folder / name, text)
    found, skipped = documents_and_bad_lines(folder)
    assert found == {"a.txt": "one\n", "c.txt": "two\n"}
    assert skipped[0].file == str(folder / "b.txt")


def test_a_file_of_bad_lines_only_has_no_documents(tmp_path):
    found, skipped = documents_and_bad_lines(write(tmp_path / "x.jsonl", *["}"] * 9))
    assert (found, len(skipped)) == ({}, 9)


def test_only_the_beginning_of_a_bad_line_is_kept(tmp_path):
    _, skipped = documents_and_bad_lines(write(tmp_path / "x.jsonl", "x" * 100_000))
    assert skipped[0].text == "x" * KEPT_CHARACTERS


def test_formats_without_lines_cannot_skip_them(tmp_path):
    with pytest.raises(ValueError, match=r"on_bad_line applies to jsonl, lines, csv, mallet, text, but .* is svmlight"):
        open_source(str(write(tmp_path / "x.svmlight", "1 1:1")), ReadOptions(**SKIP))
    with pytest.raises(ValueError, match="on_bad_line='ignore' is not known: choose one of error, skip, quarantine"):
        open_source(str(write(tmp_path / "x.txt", "a")), ReadOptions(on_bad_line="ignore"))
    with pytest.raises(DataError, match="line 1: not valid JSON"):
        documents_and_bad_lines(write(tmp_path / "x.jsonl", "}"), on_bad_line="error")
