"""`fit` and `ingest` agree on what they are given."""

import io
import pathlib
import sqlite3
import warnings

import anndata
import dask.array
import dask.bag
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import scipy.sparse
from corpusmill import LDA, ingest
from corpusmill.io.data import Kind, recognise
from corpusmill.io.errors import DataWarning
from corpusmill.io.readers.reader import MAX_DOCUMENTS
from corpusmill.pipeline.ingest.ingest import documents_of

TEXTS = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
LONG_TEXTS = [f"{text} and so on" for text in TEXTS]
TOKENS = [text.split() for text in TEXTS]
ROWS = [[1, 0, 2], [0, 3, 1], [1, 1, 1], [2, 0, 0]]
ARRAY = np.array(ROWS)
FRAME = pd.DataFrame(ARRAY, columns=["a", "b", "c"])

DOCUMENTS = {
    "list of strings": lambda: TEXTS,
    "list of token lists": lambda: TOKENS,
    "tuple of tuples": lambda: tuple(map(tuple, TOKENS)),
    "generator of strings": lambda: iter(TEXTS),
    "generator of token lists": lambda: iter(TOKENS),
    "values of a dictionary": lambda: dict(enumerate(TEXTS)).values(),
    "series of pandas": lambda: pd.Series(TEXTS),
    "categories of pandas": lambda: pd.Series(TEXTS, dtype="category"),
    "series of polars": lambda: pl.Series(TEXTS),
    "array of Arrow": lambda: pa.array(TEXTS),
    "chunked array of Arrow": lambda: pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    "array of strings": lambda: np.array(TEXTS),
    "array of objects": lambda: np.array(TEXTS, object),
    "array of StringDType": lambda: np.array(TEXTS, np.dtypes.StringDType()),
    "generators of words": lambda: [(word for word in words) for words in TOKENS],
    "maps and filters": lambda: [map(str, TOKENS[0]), filter(None, TOKENS[1]), *TOKENS[2:]],
    "keys of dictionaries": lambda: [dict.fromkeys(words).keys() for words in TOKENS],
    "generator of generators": lambda: ((word for word in words) for words in TOKENS),
    "series of words": lambda: [pd.Series(words) for words in TOKENS],
    "array of StringDType with missing values": lambda: np.array([*TEXTS], np.dtypes.StringDType(na_object=None)),
    "bag of Dask": lambda: dask.bag.from_sequence(TEXTS, npartitions=2),
    "series of Dask": lambda: dask.dataframe.from_pandas(pd.Series(TEXTS), npartitions=2),
}
MATRICES = {
    "list of rows": lambda: ROWS,
    "tuple of tuples": lambda: tuple(map(tuple, ROWS)),
    "list of arrays": lambda: list(ARRAY),
    "array": lambda: ARRAY,
    "array of objects": lambda: ARRAY.astype(object),
    "array of half precision": lambda: ARRAY.astype(np.float16),
    "array of big-endian integers": lambda: ARRAY.astype(">i4"),
    "array of big-endian floats": lambda: ARRAY.astype(">f8"),
    "array of Dask of big-endian integers": lambda: dask.array.from_array(ARRAY.astype(">i2"), chunks=(2, 2)),
    "array of Dask of half precision": lambda: dask.array.from_array(ARRAY.astype(np.float16), chunks=2),
    "CSR": lambda: scipy.sparse.csr_array(ARRAY),
    "COO": lambda: scipy.sparse.coo_matrix(ARRAY),
    "frame of pandas": lambda: FRAME,
    "frame of objects": lambda: FRAME.astype(object),
    "frame of nullable numbers": lambda: FRAME.astype("Int64"),
    "frame of polars": lambda: pl.from_pandas(FRAME),
    "table of Arrow": lambda: pa.table(FRAME),
    "batch of Arrow": lambda: pa.table(FRAME).to_batches()[0],
    "array of Dask": lambda: dask.array.from_array(ARRAY, chunks=2),
    "frame of Dask": lambda: dask.dataframe.from_pandas(FRAME, npartitions=2),
    "AnnData": lambda: anndata.AnnData(FRAME.astype(np.float32)),
}
TABLES = {
    "frame with the protocol of data frames": lambda: FrameOfProtocol(pd.DataFrame({"text": TEXTS})),
    "frame with a method to_arrow": lambda: FrameWithArrow({"text": TEXTS}),
    "frame of pandas": lambda: pd.DataFrame({"text": TEXTS, "year": range(4)}),
    "frame of polars": lambda: pl.DataFrame({"text": TEXTS}),
    "frame of texts that are numbers": lambda: pd.DataFrame({"text": [12, 34, 56, 78]}),
    "table of texts that are numbers": lambda: pa.table({"text": [12, 34, 56, 78]}),
    "table of Arrow": lambda: pa.table({"text": TEXTS}),
    "frame of Dask": lambda: dask.dataframe.from_pandas(pd.DataFrame({"text": TEXTS}), npartitions=2),
}
ROWS_WITH_FIELDS = {
    "list of dictionaries": lambda: [{"text": text} for text in TEXTS],
    "generator of dictionaries": lambda: ({"text": text} for text in TEXTS),
    "bag of dictionaries": lambda: dask.bag.from_sequence([{"text": text} for text in TEXTS]),
    "named tuples": lambda: list(pd.DataFrame({"text": TEXTS}).itertuples(index=False)),
    "rows of SQLite with names": lambda: cursor(sqlite3.Row).fetchall(),
}
IN_PARTS = {
    "list of frames of pandas": lambda: [pd.DataFrame({"text": TEXTS[:2]}), pd.DataFrame({"text": TEXTS[2:]})],
    "parts of a CSV file": lambda: pd.read_csv(io.StringIO("text\n" + "\n".join(TEXTS)), chunksize=2),
    "frames of polars": lambda: iter([pl.DataFrame({"text": TEXTS[:1]}), pl.DataFrame({"text": TEXTS[1:]})]),
    "reader of Arrow": lambda: pa.table({"text": TEXTS}).to_reader(2),
    "batches of Arrow": lambda: pa.table({"text": TEXTS}).to_batches(2),
}
REFUSED = {
    "cursor": lambda: cursor(),
    "rows of a database": lambda: [(text,) for text in LONG_TEXTS],
    "a row of a database": lambda: [(LONG_TEXTS[0],)],
    "rows with numbers": lambda: [(number, text) for number, text in enumerate(TEXTS)],
    "rows with numbers at the end": lambda: [(text, number) for number, text in enumerate(TEXTS)],
    "generator of rows of a database": lambda: ((text,) for text in LONG_TEXTS),
    "records": lambda: np.rec.fromrecords(list(enumerate(TEXTS)), names="id,text"),
    "set of Arrow": lambda: pyarrow.dataset.dataset(pa.table({"text": TEXTS})),
    "rows with two columns": lambda: [(str(number), text) for number, text in enumerate(LONG_TEXTS)],
    "lists of one text": lambda: [[text] for text in LONG_TEXTS],
    "array of objects with two dimensions": lambda: pd.DataFrame({"text": TEXTS}).values,
    "frame without Arrow": lambda: FrameOfColumns({"text": TEXTS, "key": TEXTS}),
    "documents and a frame": lambda: [*TOKENS, pd.DataFrame({"a": [1]})],
    "documents and a dictionary": lambda: [*TOKENS, {"a": 1}],
    "list of sets": lambda: [set(words) for words in TOKENS],
    "dictionary": lambda: {"text": TEXTS},
    "bytes": lambda: b"text",
    "bytearray": lambda: bytearray(b"text"),
    "number": lambda: 3,
    "None": lambda: None,
    "function": lambda: len,
    "set": lambda: set(TEXTS),
    "list of numbers": lambda: [1, 2, 3],
    "range": lambda: range(3),
    "list of bytes": lambda: [b"a b"],
    "generator of rows": lambda: iter(ROWS),
    "array of bytes": lambda: np.array([b"a b"]),
    "array of text with two dimensions": lambda: np.array([["1"], ["2"]]),
    "one dimension": lambda: np.arange(3),
    "three dimensions": lambda: np.ones((2, 2, 2)),
    "series of numbers": lambda: pd.Series([1, 2, 3]),
    "array of Arrow numbers": lambda: pa.array([1, 2, 3]),
    "rows of several lengths": lambda: [[1, 2], [3]],
    "masked array": lambda: np.ma.masked_array(ARRAY, mask=ARRAY > 2),
    "complex numbers": lambda: ARRAY * 1j,
    "lazy frame of polars": lambda: pl.DataFrame({"text": TEXTS}).lazy(),
    "rows of pandas": lambda: pd.DataFrame({"text": TEXTS}).iterrows(),
    "rows of pandas with names": lambda: pd.DataFrame({"text": TEXTS}, index=list("abcd")).iterrows(),
    "columns of pandas": lambda: pd.DataFrame({"text": TEXTS}).items(),
    "groups of pandas": lambda: pd.DataFrame({"text": TEXTS, "n": [1, 1, 2, 2]}).groupby("n"),
    "texts with their keys": lambda: zip("abcd", TEXTS, strict=True),
    "texts with their numbers": lambda: enumerate(TEXTS),
    "items of a dictionary": lambda: dict(zip("abcd", TEXTS, strict=True)).items(),
    "generator of paths": lambda: (path for path in [pathlib.Path(__file__)]),
}
#: What to pass instead of some of these.
WAYS_OUT = {
    "bytes": "not bytes: pass decoded text",
    "set": "not set: pass a list in place of each set",
    "list of sets": "not list of set: pass a list in place of each set",
    "list of bytes": "not list of bytes: pass decoded text",
    "lazy frame of polars": r"not LazyFrame: pass the table itself, given\.collect\(\)",
    "rows of pandas": "not generator of tuple: pass the table itself",
    "columns of pandas": "not generator of tuple: pass the table itself",
    "groups of pandas": "not DataFrameGroupBy of tuple: pass the table itself",
    "texts with their keys": r"not zip: pass the texts of the pairs alone, \[text for _, text in pairs\]",
    "texts with their numbers": "not enumerate: pass the texts of the pairs alone",
    "items of a dictionary": "not dict_items: pass the texts of the pairs alone",
    "generator of paths": r"not generator of \w+: pass a list of pathlib\.Path to ingest",
}


class FrameOfColumns:
    """A frame of a library without Arrow, which iterates over its columns, as polars before version 1.3 did."""

    def __init__(self, values):
        self.values = values
        self.columns = list(values)

    def __iter__(self):
        return iter(pa.array(column) for column in self.values.values())


class FrameWithArrow(FrameOfColumns):
    """The same, with methods of polars."""

    def to_arrow(self):
        return pa.table(self.values)

    def get_column(self, name):
        return self.values[name]

    def select(self, names):
        return FrameWithArrow({name: self.values[name] for name in names})


class FrameOfProtocol:
    """A frame of a library that has only the protocol __dataframe__."""

    def __init__(self, frame):
        self.columns = list(frame.columns)
        self.__dataframe__ = frame.__dataframe__


def cursor(row_factory=None):
    """Return a cursor of a database with texts."""
    base = sqlite3.connect(":memory:")
    base.row_factory = row_factory
    base.execute("CREATE TABLE documents (text TEXT)")
    base.executemany("INSERT INTO documents VALUES (?)", [(text,) for text in TEXTS])
    return base.execute("SELECT text FROM documents")


def lda():
    return LDA(2, max_iter=2, device="cpu")


def agrees(make, kind, words, tmp_path):
    """Assert that an input is of a kind, and that the model is the same if it is ingested first."""
    assert recognise(make()).kind is kind
    corpus = ingest(make(), tmp_path / "corpus")
    assert sorted(corpus.vocabulary["word"].to_pylist()) == words
    fitted, ingested = lda().fit(make()), lda().fit(corpus)
    assert fitted.transform(make()).tobytes() == ingested.transform(make()).tobytes()


@pytest.mark.parametrize("make", DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents(make, tmp_path):
    agrees(make, Kind.DOCUMENTS, sorted({word for words in TOKENS for word in words}), tmp_path)


@pytest.mark.parametrize("make", MATRICES.values(), ids=MATRICES)
def test_matrices(make, tmp_path):
    has_names = hasattr(make(), "columns") or hasattr(make(), "var_names")
    agrees(make, Kind.MATRIX, ["a", "b", "c"] if has_names else ["0", "1", "2"], tmp_path)


@pytest.mark.parametrize("make", ROWS_WITH_FIELDS.values(), ids=ROWS_WITH_FIELDS)
def test_dictionaries_with_a_field_of_text(make, tmp_path):
    agrees(make, Kind.TABLE, sorted({word for words in TOKENS for word in words}), tmp_path)


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_tables_of_documents_need_the_name_of_a_column(make, tmp_path):
    assert recognise(make()).kind is Kind.TABLE
    assert ingest(make(), tmp_path / "corpus", text="text").n_documents == 4
    with pytest.raises(ValueError, match=r"LDA takes documents, not a table with the columns 'text': pass the column"):
        lda().fit(make())


@pytest.mark.parametrize("make", IN_PARTS.values(), ids=IN_PARTS)
def test_parts_of_a_table_are_read_one_after_another(make, tmp_path):
    assert recognise(make()).kind is Kind.TABLES
    assert ingest(make(), tmp_path / "corpus").documents["key"].to_pylist() == list("0123")
    model = lda().fit(TEXTS)
    for call in (lda().fit, lda().partial_fit, model.transform, model.score):
        with pytest.raises(ValueError, match="LDA takes documents, not parts of a table: pass the texts of all parts"):
            call(make())


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_is_neither_is_refused_by_all(make, tmp_path):
    model = lda().fit(TEXTS)
    calls = (lda().fit, lda().partial_fit, model.transform, model.score, lambda data: ingest(data, tmp_path / "corpus"))
    for call in calls:
        with pytest.raises(ValueError, match=r"takes |all documents must|2D array|where a |[:;] pass ") as refused:
            call(make())
        assert "Could not convert" not in str(refused.value)
    assert not (tmp_path / "corpus" / "corpus.json").exists()


@pytest.mark.parametrize(("name", "way_out"), WAYS_OUT.items())
def test_what_came_and_what_to_pass_are_named(name, way_out, tmp_path):
    for call in (lda().fit, lambda data: ingest(data, tmp_path / "corpus")):
        with pytest.raises(ValueError, match=way_out):
            call(REFUSED[name]())


PHRASES = [("new york", "los angeles"), ("los angeles", "new york"), ("oslo", "rome")]


def test_names_of_several_words_are_words():
    model = lda().fit(PHRASES)
    assert sorted(model.words_) == ["los angeles", "new york", "oslo", "rome"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = model.transform(PHRASES)
        for phrases, row in zip(PHRASES, wanted, strict=True):
            assert model.transform([phrases]).tolist() == model.transform([list(phrases)]).tolist() == [row.tolist()]
    with pytest.warns(DataWarning, match=r"may be rows with a text, such as 'new york'.*\[row\[0\] for row in rows\]"):
        model.transform(PHRASES[:2])


def test_only_the_first_documents_decide_whether_documents_are_rows():
    documents = [["a"], *[[LONG_TEXTS[0]]] * MAX_DOCUMENTS]
    found = documents_of(documents, pa.table({"word": pa.array(["a"], pa.large_string())}))
    assert sum(len(doc_ptr) - 1 for doc_ptr, _ in found) == len(documents)


def test_stores_and_paths(tmp_path):
    corpus = ingest(TEXTS, tmp_path / "corpus")
    assert recognise(corpus).kind is Kind.STORE
    for path in (
        "documents.txt",
        pathlib.Path("documents.txt"),
        "s3://bucket/key",
        [pathlib.Path("a.txt")],
        ["s3://b/a"],
        np.array([pathlib.Path("a.txt")]),
    ):
        assert recognise(path).kind is Kind.PATH
    # The texts of a column are documents, whatever they are.
    assert recognise(pd.Series(["s3://b/a"])).kind is Kind.DOCUMENTS
    with pytest.raises(ValueError, match="LDA takes no list of paths: pass ingest"):
        lda().fit(["s3://bucket/documents.txt"])


def test_an_iterator_keeps_its_first_items():
    data = recognise(iter([None, "a", "b"]))
    assert data.kind is Kind.DOCUMENTS
    assert recognise(data) is data
    assert list(data.value) == [None, "a", "b"]
