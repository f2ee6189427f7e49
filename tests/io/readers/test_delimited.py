"""CSV: every table that a program writes is read with the same texts, and a file of another dialect is refused."""

import csv
import io

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.readers import delimited
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.open import open_source
from hypothesis import given, settings
from hypothesis import strategies as st

FIELDS = st.text(st.sampled_from("ab \",;\t\\'\n|é鱼#%"), max_size=6)
#: Without tabs and line ends.
SIMPLE = st.text(st.sampled_from("ab \",;'|é鱼#%"), max_size=6)
TABLES = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8)


def texts_of(path, **options):
    """Return the keys and the texts of a file."""
    reader = open_source(str(path), ReadOptions(key="id", **options))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    keys = [key for batch in batches for key in batch.keys.to_pylist()]
    return list(zip(keys, [text for batch in batches for text in batch.content.to_pylist()], strict=True))


def of_python(table, **options):
    """Return a table as Python's csv module writes it."""
    file = io.StringIO(newline="")
    csv.writer(file, **options).writerows([("id", "text"), *table])
    return file.getvalue()


def of_arrow(table):
    """Return a table as Arrow writes it."""
    sink = io.BytesIO()
    pyarrow.csv.write_csv(pa.table({"id": [a for a, _ in table], "text": [b for _, b in table]}), sink)
    return sink.getvalue().decode()


def of_spark(table):
    """Return a table as Spark writes it with quoteAll: a backslash escapes a quote, and itself."""
    field = lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'  # noqa: E731
    return "".join(f"{field(a)},{field(b)}\n" for a, b in [("id", "text"), *table])


def of_pandas(table, **options):
    """Return a table as pandas writes it."""
    return pd.DataFrame(table, columns=["id", "text"]).to_csv(index=False, **options)


WRITERS = {
    "python": (of_python, {}),
    "python, all in quotes": (lambda table: of_python(table, quoting=csv.QUOTE_ALL), {}),
    "python, Unix": (lambda table: of_python(table, lineterminator="\n"), {}),
    "python, old Mac": (lambda table: of_python(table, lineterminator="\r", quoting=csv.QUOTE_ALL), {}),
    "python, semicolons": (lambda table: of_python(table, delimiter=";"), {"delimiter": ";"}),
    "python, tabs and apostrophes": (
        lambda table: of_python(table, delimiter="\t", quotechar="'"),
        {"delimiter": "\\t", "quote": "'"},
    ),
    "python, escapes": (lambda table: of_python(table, doublequote=False, escapechar="\\"), {"escape": "\\"}),
    "pandas": (of_pandas, {}),
    "pandas, escapes": (lambda table: of_pandas(table, doublequote=False, escapechar="\\"), {"escape": "\\"}),
    "R": (lambda table: of_pandas(table, quoting=csv.QUOTE_NONNUMERIC), {}),
    "excel": (lambda table: "\ufeffsep=;\r\n" + of_python(table, delimiter=";"), {}),
    "arrow": (of_arrow, {}),
    "spark": (of_spark, {"escape": "\\"}),
    "a header given": (
        lambda table: of_python(table, quoting=csv.QUOTE_ALL).partition("\r\n")[2],
        {"columns": ["id", "text"]},
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_read_as_it_was_written(tmp_path, monkeypatch, name):
    write, options = WRITERS[name]
    path = tmp_path / "x.csv"

    @settings(max_examples=50)
    @given(TABLES, st.sampled_from([9, 1 << 22]))
    def check(table, size):
        monkeypatch.setattr(delimited, "BATCH_BYTES", size)
        path.write_bytes(write(table).encode())
        assert texts_of(path, **options) == table

    check()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(FIELDS.filter(lambda f: not set(f) & set("\t\n")), FIELDS.filter(lambda f: not set(f) & set("\t\n")))
    )
)
def test_without_quotes_every_line_is_a_document(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("csv") / "x.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in [("id", "text"), *table]))
    assert texts_of(path, quote="none") == table


@settings(max_examples=150, deadline=None)
@given(st.lists(FIELDS.filter(lambda f: "\n" not in f), min_size=1, max_size=9))
def test_a_file_gives_the_rows_of_python_or_an_error_with_a_line(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_text("id,text\n" + "".join(f"{line}\n" for line in lines))
    try:
        rows = list(csv.reader(path.open(newline=""), strict=True))
    except csv.Error:
        rows = None
    if rows is not None and all(len(row) in (0, 2) for row in rows):
        assert texts_of(path) == [tuple(row) for row in rows[1:] if row]
    else:
        with pytest.raises(DataError, match=r"x\.csv, line \d+: "):
            texts_of(path)


@pytest.mark.parametrize("skip", ["error", "skip"])
@pytest.mark.parametrize(
    "name, lines, line",
    [
        ("x.tsv", ["1\tone", '2\t"Great, said nobody', "3\tthree"], 3),
        ("x.tsv", ["1\tone", '2\t"Great, said nobody', "3\tthree", '4\t"Another'], 3),
        ("x.csv", ["1,one", '2,"the 20"" screen', '3,"three"'], 3),
        ("x.csv", ['1,"one', 'more"', '2,"two and more', '3,"three'], 4),
        ("x.csv", ["1,one", '2,"the 20" screen', "3,three"], 3),
    ],
)
def test_a_quote_that_is_not_closed_is_refused_with_the_line_where_it_opens(tmp_path, name, lines, line, skip):
    separator = "\t" if name == "x.tsv" else ","
    path = tmp_path / name
    path.write_text(f"id{separator}text\n" + "".join(f"{one}\n" for one in lines))
    ending = ".*cannot be skipped: where it ends is unknown" if skip == "skip" else "$"
    with pytest.raises(DataError, match=rf"{name}, line {line}: .*quote=none{ending}"):
        texts_of(path, on_bad_line=skip)
    if name == "x.tsv":
        assert len(texts_of(path, quote="none")) == len(lines)


@pytest.mark.parametrize("skip", ["error", "skip"])
@pytest.mark.parametrize("header", ['id,"text', 'id,"te"xt', 'id,"te"xt\n1,"a'])
def test_a_wrong_quote_in_a_header_is_refused_as_such(tmp_path, header, skip):
    (tmp_path / "x.csv").write_text(f"{header}\n1,one\n")
    with pytest.raises(DataError, match=r"x\.csv, line 1: .* read it with quote=none$"):
        texts_of(tmp_path / "x.csv", on_bad_line=skip)


#: Rows with a quote that is neither around a field nor twice within one.
STRAY_QUOTES = ['1,"he said "hi" to"', '1,"a 5" disk"', '"the "x"",y']


@settings(max_examples=100, deadline=None)
@given(TABLES, st.lists(st.tuples(st.integers(0, 8), st.sampled_from(STRAY_QUOTES)), max_size=3))
def test_a_row_with_a_stray_quote_is_skipped_alone(tmp_path_factory, table, bad):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    rows = [of_python([row], quoting=csv.QUOTE_ALL).partition("\r\n")[2] for row in table]
    for at, row in bad:
        rows.insert(at, f"{row}\n")
    path.write_bytes("".join(['"id","text"\n', *rows]).encode())
    assert texts_of(path, on_bad_line="skip") == table
    if bad:
        with pytest.raises(DataError, match="a field in quotes begins here"):
            texts_of(path)


@pytest.mark.parametrize("skip", ["error", "skip"])
@pytest.mark.parametrize("quote", ['"', "none"])
def test_a_file_that_ends_in_an_escape_says_so(tmp_path, quote, skip):
    path = tmp_path / "x.csv"
    path.write_text("id,text\n1,one\n2,C:\\\n")
    with pytest.raises(DataError, match=r"line 3: the file ends in an escape, '2,C:\\\\': remove it"):
        texts_of(path, escape="\\", quote=quote, on_bad_line=skip)


@pytest.mark.parametrize(
    "content, options, match",
    [
        ("id;text\n1;a\n", {}, "if ';' separates the columns, read it with delimiter=';'"),
        ("id;text\n1;a\n", {"text": "id;text"}, "delimiter=';'"),
        ('"";"text"\n"1";"one, two"\n', {}, "line 1: .*; if ';' separates the columns, read it with delimiter=';'$"),
        ("id\ttext\n1\ta\n", {}, r"if '\\t' separates the columns, read it with delimiter='\\t'$"),
        ("one,two\n", {}, "if the file has no header, name its columns with the option columns"),
        ('id,text\n1,"a \\"b\\" c"\n', {}, r"with escape=\\"),
        ("1,a\n2,b,c\n", {"columns": ["id", "text"]}, "line 2: 3 columns, but the option columns has 2"),
    ],
)
def test_another_dialect_is_refused_with_the_option_that_reads_it(tmp_path, content, options, match):
    path = tmp_path / "x.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=match):
        texts_of(path, **options)


@pytest.mark.parametrize("option", [{"delimiter": ",,"}, {"quote": ""}, {"quote": "«"}, {"escape": "ab"}])
def test_what_separates_columns_and_quotes_is_one_character(tmp_path, option):
    with pytest.raises(ValueError, match="must be one character of ASCII"):
        open_source(str(tmp_path), ReadOptions(**option))


@pytest.mark.parametrize("form", ['["aa", "bb"]', "['aa', 'bb']", " ['a b'] ", "('aa',)"])
def test_lists_as_text_are_no_tokens(tmp_path, form):
    path = tmp_path / "x.csv"
    path.write_text(of_python([("1", "[ 'is text"), ("2", form), ("3", "[sic]")]))
    with pytest.raises(DataError, match=r"x\.csv, line 3: column 'text' has a list as text, .* blanks separate tokens"):
        texts_of(path, tokens="text")
    assert [tokens for _, tokens in texts_of(path, tokens="text", on_bad_line="skip")] == [
        ["[", "'is", "text"],
        ["[sic]"],
    ]


@pytest.mark.parametrize("encoding", ["hex", "rot13", "utf-99"])
def test_an_encoding_that_is_none_of_text_is_refused(tmp_path, encoding):
    (tmp_path / "x.csv").write_text("id,text\n1,a\n")
    with pytest.raises(ValueError, match=f"encoding='{encoding}' is no encoding of text: choose one such as"):
        texts_of(tmp_path / "x.csv", encoding=encoding)


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [1, 145_000])
def test_a_document_may_be_larger_than_a_block(tmp_path, n_before):
    path = tmp_path / "x.csv"
    texts = ["short document"] * n_before + ["word other\n" * 900_000, "last one"]
    path.write_text("id,text\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(texts)))
    assert [text for _, text in texts_of(path)] == texts
