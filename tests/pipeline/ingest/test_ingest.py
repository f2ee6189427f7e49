"""A corpus has the documents of its source, and unusable sources are refused with one sentence."""

import gc
import gzip
import itertools
import json
import re
import warnings
from pathlib import Path

import anndata
import dask.array
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.matrices.memory import row_blocks
from corpusmill.pipeline.commands.actions.inspect import inspect
from corpusmill.pipeline.ingest.ingest import corpus_from, ingest
from corpusmill.pipeline.ingest.steps import (
    MAX_CHUNK_TOKENS,
    MIN_CHUNK_TOKENS,
    MIN_CHUNKS,
    ChunkCutter,
    default_chunk_tokens,
)
from corpusmill.pipeline.ingest.tasks import is_held_out
from helpers.documents import source_words, words_of, write_source
from hypothesis import given, settings
from hypothesis import strategies as st

# --- documents and words ---


def test_documents_come_back_in_the_order_of_the_source(tmp_path):
    pattern = write_source(tmp_path / "source")
    corpus = ingest(pattern, str(tmp_path / "corpus"), chunk_tokens=2_000)
    assert words_of(corpus) == source_words(pattern)
    assert len(corpus.chunks) >= 8
    assert max(c.tokens for c in corpus.chunks) <= 2_000
    assert corpus.is_ordered
    documents = corpus.documents.to_pylist()
    assert [d["key"] for d in documents[:2]] == ["0.txt:1", "0.txt:2"]
    assert [d["key"] for d in documents[-1:]] == ["2.txt:400"]
    rows = [(c, r) for c, info in enumerate(corpus.chunks) for r in range(info.documents)]
    assert [(d["chunk"], d["row"]) for d in documents] == rows
    assert corpus.chunks[3].first_document == rows.index((3, 0))
    assert not (tmp_path / "corpus" / ".work").exists()


def test_ids_are_ranks_by_descending_frequency_and_then_by_word():
    corpus = corpus_from(["bb aa cc", "cc dd cc", "éé zz"])
    table = corpus.vocabulary.to_pydict()
    assert table["word"] == ["cc", "aa", "bb", "dd", "zz", "éé"]
    assert table["term_frequency"] == [3, 1, 1, 1, 1, 1]
    assert table["document_frequency"] == [2, 1, 1, 1, 1, 1]


OPTIONS = [
    {},
    {"min_df": 3},
    {"min_df": 0.01, "max_df": 0.2},
    {"max_df": 50},
    {"stop_words": "english", "max_features": 100},
    {"stop_words": ["the", "of"], "lowercase": False, "token_pattern": "[a-zA-Z]+"},
]


def test_stop_words_in_another_case_than_the_text_are_named(tmp_path):
    def notices(texts, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ingest(texts, str(tmp_path / "corpus"), overwrite=True, **options)
        return [str(warning.message) for warning in caught]

    texts = ["The sea", "the ship of ours"]
    (notice,) = notices(texts, stop_words=["The", "OF", "harbour"])
    assert "differ from stop_words in their case only are kept: 'of', 'the'; write stop words in the case" in notice
    (notice,) = notices(texts, stop_words=["the"], lowercase=False)
    assert "are kept: 'The'" in notice
    assert notices(texts, stop_words=["The", "the"]) == []
    assert notices(texts, stop_words="english") == []


def test_stop_words_may_be_a_set(tmp_path):
    def words(stop_words):
        corpus = ingest(["one fish two", "red fish"], str(tmp_path / "corpus"), stop_words=stop_words, overwrite=True)
        return corpus.vocabulary["word"].to_pylist()

    assert words({"fish", "one"}) == words(frozenset(["one", "fish"])) == words(["fish", "one"]) == ["red", "two"]


@pytest.mark.parametrize("options", OPTIONS)
def test_counts_are_those_of_count_vectorizer(real_data, options):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    with real_data("20news-bydate.jsonl").open() as lines:
        documents = [json.loads(line)["text"] for line, _ in zip(lines, range(300), strict=False)]
    vectorizer = text.CountVectorizer(**options)
    expected = vectorizer.fit_transform(documents)
    names = vectorizer.get_feature_names_out()
    corpus = corpus_from(documents, **options)
    words = corpus.vocabulary["word"].to_pylist()
    if "max_features" in options:
        # Of several equally frequent words, any may be cut off.
        common = sorted(set(words) & set(names))
        assert len(words) == len(names)
        assert len(common) > 90
        expected = expected[:, np.searchsorted(names, common)]
        order = [words.index(w) for w in common]
    else:
        assert sorted(words) == names.tolist()
        order = [words.index(w) for w in names]
    found = scipy.sparse.vstack([corpus.read_chunk(c).counts(corpus.n_words) for c in range(len(corpus.chunks))])
    assert (found[:, order] != expected).nnz == 0
    table = corpus.vocabulary.take(order)
    assert table["term_frequency"].to_pylist() == expected.sum(axis=0).A1.tolist()
    assert table["document_frequency"].to_pylist() == np.diff(expected.tocsc().indptr).tolist()


def test_a_corpus_has_the_counts_of_its_matrix(real_data):
    matrix = scipy.sparse.load_npz(real_data("nips_bow_1740x12419.npz")).tocsr()
    corpus = corpus_from(matrix)
    assert not corpus.is_ordered
    found = scipy.sparse.vstack([corpus.read_chunk(c).counts(corpus.n_words) for c in range(len(corpus.chunks))])
    columns = [int(w) for w in corpus.vocabulary["word"].to_pylist()]
    assert (found != matrix[:, columns].astype(np.int32)).nnz == 0
    assert len(columns) == np.count_nonzero(matrix.sum(axis=0))


def test_kos(real_data, tmp_path):
    options = {"vocabulary_file": str(real_data("uci-kos/vocab.kos.txt"))}
    corpus = ingest(real_data("uci-kos/docword.kos.txt"), str(tmp_path / "kos"), **options)
    assert (corpus.n_documents, corpus.n_words, corpus.n_tokens) == (3430, 6906, 467_714)


def test_a_temporary_corpus_is_deleted_with_its_object():
    corpus = corpus_from([["a", "b"], []], vocabulary=None)
    folder = Path(corpus.url)
    assert folder.exists()
    del corpus
    gc.collect()
    assert not folder.exists()


def test_names_of_columns():
    corpus = corpus_from(np.array([[0, 2], [1, 1]]), vocabulary=["cat", "dog"])
    assert corpus.vocabulary["word"].to_pylist() == ["dog", "cat"]
    with pytest.raises(DataError, match="2 columns, but 3 names of columns; give one for each"):
        corpus_from(np.array([[0, 2], [1, 1]]), vocabulary=["cat", "dog", "elk"])


def test_a_given_vocabulary_keeps_its_ids_and_unseen_words_are_counted(tmp_path):
    given_words = pa.table({"word": ["never", "bb", "aa"]})
    corpus = corpus_from([["aa", "bb", "new"], ["new"], ["aa"]], vocabulary=given_words)
    assert [corpus.read_chunk(0).doc_ptr.tolist(), corpus.read_chunk(0).words.tolist()] == [[0, 2, 2, 3], [2, 1, 2]]
    assert corpus.vocabulary.to_pydict() == {
        "word": ["never", "bb", "aa"],
        "term_frequency": [0, 1, 2],
        "document_frequency": [0, 1, 2],
    }
    assert corpus.meta["about"]["tokens_skipped"] == 2


def test_a_vocabulary_grows_without_renumbering(tmp_path):
    (tmp_path / "a.txt").write_text("aa bb aa\nbb cc\n")
    first = ingest(str(tmp_path / "a.txt"), str(tmp_path / "first"))
    (tmp_path / "b.txt").write_text("new cc new\nnew dd aa\nrare dd\n")
    options = {"min_df": 2, "max_df": 0.7}
    second = ingest(
        str(tmp_path / "b.txt"), str(tmp_path / "second"), vocabulary=first.vocabulary, grow=True, **options
    )
    assert first.vocabulary["word"].to_pylist() == ["aa", "bb", "cc"]
    assert second.vocabulary.to_pydict() == {
        "word": ["aa", "bb", "cc", "new", "dd"],
        "term_frequency": [1, 0, 1, 3, 2],
        "document_frequency": [1, 0, 1, 2, 2],
    }
    assert words_of(second) == [["new", "cc", "new"], ["new", "dd", "aa"], ["dd"]]
    few = {"min_df": 5, "max_df": 0.7}
    same = ingest(str(tmp_path / "b.txt"), str(tmp_path / "same"), vocabulary=first.vocabulary, grow=True, **few)
    assert same.vocabulary["word"].to_pylist() == ["aa", "bb", "cc"]
    full = {"max_features": 4}
    third = ingest(str(tmp_path / "b.txt"), str(tmp_path / "third"), vocabulary=first.vocabulary, grow=True, **full)
    assert third.vocabulary["word"].to_pylist() == ["aa", "bb", "cc", "new"]


def test_the_file_of_each_document_is_recorded(tmp_path):
    for folder in ("lines", "texts"):
        (tmp_path / folder).mkdir()
        for name in "ab":
            (tmp_path / folder / f"{name}.txt").write_text(f"{name}{name} word\nother\n")
    lines = ingest(str(tmp_path / "lines" / "*.txt"), str(tmp_path / "1"))
    assert [Path(f).name for f in lines.documents["file"].to_pylist()] == ["a.txt", "a.txt", "b.txt", "b.txt"]
    texts = ingest(str(tmp_path / "texts"), str(tmp_path / "2"))
    assert [Path(f).name for f in texts.documents["file"].to_pylist()] == ["a.txt", "b.txt"]


# --- held-out documents ---


def test_only_the_key_decides_whether_a_document_is_held_out(tmp_path):
    pattern = write_source(tmp_path / "source")
    options = {"held_out": 0.25, "chunk_tokens": 3_000}
    corpus = ingest(pattern, str(tmp_path / "corpus"), **options)
    chosen = corpus.held_out.documents["key"].to_pylist()
    assert 230 < len(chosen) < 370
    everything = corpus.documents["key"].to_pylist() + chosen
    assert sorted(everything) == sorted(f"{f}.txt:{i}" for f in range(3) for i in range(1, 401))
    by_key = dict(zip([f"{f}.txt:{i}" for f in range(3) for i in range(1, 401)], source_words(pattern), strict=True))
    known = set(corpus.vocabulary["word"].to_pylist())
    assert words_of(corpus) == [by_key[k] for k in corpus.documents["key"].to_pylist()]
    assert words_of(corpus.held_out) == [[w for w in by_key[k] if w in known] for k in chosen]
    assert sum(corpus.vocabulary["term_frequency"].to_pylist()) == corpus.n_tokens
    more = ingest(str(tmp_path / "source" / "[01].txt"), str(tmp_path / "fewer"), **options)
    assert more.held_out.documents["key"].to_pylist() == [k for k in chosen if not k.startswith("2")]


@given(share=st.floats(0, 0.999), more=st.floats(0, 0.999))
@settings(max_examples=30)
def test_a_larger_share_holds_out_the_same_documents_and_more(share, more):
    keys = pa.array([f"d{i}" for i in range(300)])
    fewer, larger = is_held_out(keys, min(share, more)), is_held_out(keys, max(share, more))
    assert (larger | ~fewer).all()
    assert abs(larger.mean() - max(share, more)) < 0.15


# --- chunks ---


def test_a_document_longer_than_a_chunk_grows_it():
    documents = [["a"] * 30, ["b"] * 500, ["c"] * 30, ["d"] * 30]
    corpus = corpus_from(documents, chunk_tokens=100)
    assert [c.tokens for c in corpus.chunks] == [30, 500, 60]
    assert "500 tokens, more than a chunk's 100" in inspect(corpus.url)["note"]
    assert words_of(corpus) == documents


def test_nothing_is_cut_off_at_ten_thousand_tokens():
    words = [f"w{i % 99}" for i in range(50_000)]
    corpus = corpus_from([words, ["w1"]])
    assert words_of(corpus)[0] == words


@given(batches=st.lists(st.lists(st.integers(0, 50), max_size=20), max_size=5), size=st.integers(1, 120))
def test_chunks_hold_whole_documents_in_order(batches, size):
    cutter = ChunkCutter(size)
    for number, lengths in enumerate(batches):
        cutter.add(0, number, np.array(lengths, np.int64))
    ranges = [r for chunk in cutter.chunks for r in chunk]
    documents = [(r.batch, d) for r in ranges for d in range(r.first, r.stop)]
    assert documents == [(n, d) for n, lengths in enumerate(batches) for d in range(len(lengths))]
    held = [[length for r in chunk for length in batches[r.batch][r.first : r.stop]] for chunk in cutter.chunks]
    assert all(sum(chunk) <= max(size, max(chunk)) for chunk in held)
    assert all(sum(left) + right[0] > size for left, right in itertools.pairwise(held))


@given(tokens=st.integers(0, 10**11), longest=st.integers(0, 10**4))
def test_default_chunks_are_even_and_neither_few_nor_small(tokens, longest):
    size = default_chunk_tokens(tokens, longest)
    assert 1 <= size <= MAX_CHUNK_TOKENS * 9 // 8 + 1
    chunks = -(-tokens // size)
    assert chunks <= max(MIN_CHUNKS, -(-tokens // MAX_CHUNK_TOKENS))
    if tokens >= MIN_CHUNKS * MIN_CHUNK_TOKENS:
        assert chunks >= MIN_CHUNKS * 8 // 9
        assert size >= MIN_CHUNK_TOKENS


def test_the_strings_of_a_list_are_documents_and_its_paths_are_files(tmp_path):
    texts = ["one fish", "two fish"]
    (tmp_path / "a.txt").write_text("one fish\n")
    (tmp_path / "b.txt").write_text("two fish\n")
    documents = ingest(texts, str(tmp_path / "documents"))
    files = ingest([tmp_path / "a.txt", tmp_path / "b.txt"], str(tmp_path / "files"))
    assert documents.hash == files.hash == corpus_from(texts).hash


def test_a_vocabulary_may_be_a_list(tmp_path):
    counts = scipy.sparse.csr_array([[1, 0, 2], [0, 1, 1]])
    matrix = ingest(counts, str(tmp_path / "matrix"), vocabulary=np.array(["sea", "oven", "boat"], object))
    assert matrix.vocabulary["word"].to_pylist() == ["boat", "oven", "sea"]
    assert matrix.vocabulary["term_frequency"].to_pylist() == [3, 1, 1]
    texts = ingest(["one fish", "two fish"], str(tmp_path / "texts"), vocabulary=["two", "fish"])
    assert texts.vocabulary["word"].to_pylist() == ["two", "fish"]
    assert texts.n_tokens == 3


@pytest.mark.parametrize("kind", ["array", "frame", "dask", "annotated", "blocks"])
def test_a_list_names_the_columns_of_every_kind_of_matrix(kind, tmp_path):
    counts = np.array([[1, 0, 2], [1, 1, 1]])
    matrices = {
        "array": counts,
        "frame": pandas.DataFrame(counts),
        "dask": dask.array.from_array(counts),
        "annotated": anndata.AnnData(counts.astype(np.float32)),
        "blocks": row_blocks(counts),
    }
    corpus = ingest(matrices[kind], str(tmp_path / "corpus"), vocabulary=["one", "two", "three"])
    found = dict(zip(*(corpus.vocabulary[name].to_pylist() for name in ("word", "term_frequency")), strict=True))
    assert found == {"one": 2, "two": 1, "three": 3}


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ("one fish", "vocabulary is of type str: pass a list of words"),
        ({"one": 0, "fish": 1}, "vocabulary is of type dict: pass a list of words"),
        (1, "vocabulary is of type int: pass a list of words"),
        (["one", 2], "vocabulary has 2, which is not a string: pass a list of words"),
        (["one", "fish", "one"], "vocabulary: the name 'one' occurs a second time at position 2; remove it"),
    ],
)
def test_a_vocabulary_is_a_list_of_different_strings(vocabulary, message, tmp_path):
    with pytest.raises(DataError, match=message):
        ingest(["one fish"], str(tmp_path / "corpus"), vocabulary=vocabulary)
    assert not (tmp_path / "corpus").exists()


def test_a_list_may_mix_urls_and_paths_of_files(tmp_path):
    (tmp_path / "a.txt").write_text("one fish\n")
    (tmp_path / "b.txt").write_text("two fish\n")
    urls = [(tmp_path / name).as_uri() for name in ("a.txt", "b.txt")]
    expected = corpus_from(["one fish", "two fish"]).hash
    assert ingest(urls, str(tmp_path / "urls")).hash == expected
    assert ingest([urls[0], tmp_path / "b.txt"], str(tmp_path / "both")).hash == expected
    # A document that mentions a URL stays a document.
    assert ingest(["one file:///fish", "two file:///fish"], str(tmp_path / "documents")).n_documents == 2


def test_a_list_of_the_names_of_files_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "a.txt").write_text("one fish\n")
    with pytest.raises(DataError, match=r"a\.txt: a file, .* pass a list of pathlib\.Path"):
        ingest([str(tmp_path / "a.txt")], str(tmp_path / "corpus"))


def test_an_unknown_option_is_refused_with_the_names_of_all(tmp_path):
    with pytest.raises(TypeError, match=r"no option 'min_dff' of ingest; the options are .*min_df, "):
        ingest(["one fish"], str(tmp_path / "corpus"), min_dff=2)


def test_the_size_of_chunks_is_stated():
    by_default, by_option = (corpus_from([["a", "b"], ["c"]], **o).meta["about"] for o in ({}, {"chunk_tokens": 7}))
    assert by_default["chunk_tokens_by"] == "default"
    assert by_default["chunk_tokens"] >= 3
    assert (by_option["chunk_tokens"], by_option["chunk_tokens_by"]) == (7, "option")


# --- unusable sources and options ---


@pytest.mark.parametrize(
    "name, content, options, match",
    [
        ("x.txt", "", {}, r"x\.txt: there is no document in it"),
        ("x.jsonl", "", {}, r"x\.jsonl: there is no document in it"),
        ("x.txt", "a b\n\n", {}, r"x\.txt: none of 2 documents has a word"),
        ("x.txt", "a b\n", {}, r"x\.txt: none of 1 document has a word"),
        ("x.txt", "one two\nthree\n", {"min_df": 2}, r"x\.txt: no word of 3 tokens is left; lower min_df"),
        ("x.txt", "the of\n", {"stop_words": "english"}, r"x\.txt: no word of 2 tokens is left"),
        ("x.txt", "one\ntwo\n", {"held_out": 0.999}, r"x\.txt: all documents \(2\) are held out.*; lower held_out"),
    ],
)
def test_a_source_without_words_is_refused(tmp_path, name, content, options, match):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=match):
        ingest(tmp_path / name, str(tmp_path / "corpus"), **options)
    assert not (tmp_path / "corpus" / "corpus.json").exists()


def test_one_word(tmp_path):
    (tmp_path / "x.txt").write_text("word\n")
    corpus = ingest(tmp_path / "x.txt", str(tmp_path / "corpus"))
    assert (corpus.n_words, corpus.n_documents, corpus.n_tokens) == (1, 1, 1)
    assert repr(corpus).endswith("'train': 1 document, 1 token, 1 word)")
    assert corpus.read_chunk(0).word_ids.tolist() == [0]


def test_a_corpus_in_memory_may_consist_of_empty_documents():
    assert corpus_from([["word"]], held_out=0.999).held_out.n_documents == 1
    corpus = corpus_from([[], []])
    assert (corpus.n_words, corpus.n_documents, corpus.n_tokens) == (0, 2, 0)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"held_out": 1.0}, "held_out is 1.0: choose a number of 0 or more and below 1"),
        ({"chunk_tokens": 0}, "chunk_tokens is 0: choose an integer of 1 or more, or None"),
        ({"chunk_tokens": 1e6}, "chunk_tokens is 1000000.0: choose an integer"),
        ({"max_features": -5}, "max_features is -5: choose an integer of 1 or more, or None"),
        ({"min_df": "5"}, "min_df is '5': choose an integer of 0 or more, or a number from 0 to 1"),
        ({"max_df": 1.5}, "max_df is 1.5: choose an integer of 1 or more, or a number above 0 and up to 1"),
        ({"lowercase": "no"}, "lowercase is 'no': choose True or False"),
        ({"overwrite": "no"}, "overwrite is 'no': choose True or False"),
        ({"text": 0}, "text is 0: choose a string"),
        ({"token_pattern": re.compile("a+")}, "token_pattern is re.compile.*: choose a string"),
        ({"stop_words": [1, 2]}, r"stop_words is \[1, 2\]: choose 'english', a list of strings, or None"),
        ({"stop_words": "german"}, "stop_words is 'german': choose 'english', a list of strings, or None"),
        ({"min_df": 5, "max_df": 2}, "max_df=2 allows at most 2 of 2 documents"),
        ({"token_pattern": "("}, "is not a regular expression"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        corpus_from(["one two", "three"], **options)


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"corpus_url": None}, "corpus_url is None: pass the path or URL of a folder"),
        ({"corpus_url": "unused", "progress": True}, r"progress is True: pass a function, such as ProgressLines\(\)"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(TypeError, match=match):
        ingest(["one two"], **arguments)


COUNTED = {
    "repeated keys": ("id,text\na,one two\na,two\nb,one\n", {"key": "id"}, "2 of 3 documents have the key of another"),
    "empty keys": ("id,text\n,one two\nb,one\n", {"key": "id"}, "1 document of 2 have an empty key"),
    "empty documents": ("text\none two\n.\nthree\n", {"stop_words": ["three"]}, "2 of 3 documents have no word"),
    "blank words": ("text\none  two\n", {"token_pattern": "[a-z]+| "}, "2 tokens are blank words \\(' '\\)"),
}


@pytest.mark.parametrize("content, options, match", COUNTED.values(), ids=COUNTED)
def test_what_may_be_a_mistake_is_counted_and_said_once(tmp_path, content, options, match):
    (tmp_path / "x.csv").write_text(content)
    with pytest.warns(UserWarning, match=match) as caught:
        corpus = ingest(tmp_path / "x.csv", tmp_path / "corpus", **options)
    assert len(caught) == 1
    assert len(inspect(corpus.url)["warnings"]) == 1


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    (tmp_path / "x.txt").write_text("one two\n")
    with pytest.warns(UserWarning, match="1 file of 2 are named more than once; each is read once"):
        corpus = ingest([tmp_path / "x.txt", tmp_path / "*.txt"], tmp_path / "corpus")
    assert corpus.documents["key"].to_pylist() == ["x.txt:1"]


def test_a_compressed_file_beside_the_file_itself_gives_a_warning(tmp_path):
    (tmp_path / "a.txt").write_text("one two\n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one two\n"))
    with pytest.warns(UserWarning, match=r"a.txt.gz: read besides .* remove one \(1 such file\)"):
        corpus = ingest(str(tmp_path / "a.*"), tmp_path / "corpus")
    assert corpus.n_documents == 2


@pytest.mark.parametrize("key", ["{}", "[1]", '{"x": 1}'])
def test_a_key_is_text_or_a_number(tmp_path, key):
    (tmp_path / "x.jsonl").write_text(f'{{"id": {key}, "text": "one two"}}\n')
    with pytest.raises(DataError, match=r"x.jsonl, line 1: the key in 'id' is (an object|a list)"):
        ingest(tmp_path / "x.jsonl", tmp_path / "corpus", key="id")


@pytest.mark.parametrize(
    "keys", [[3.0, 1.5, -0.0, 1e22, 1e-7, 0.1], [True, False], [1, 2**62, -5], ["007", "1.0", "1e5", "TRUE", " a"]]
)
@pytest.mark.parametrize("form", ["jsonl", "parquet", "pandas", "rows"])
def test_a_number_is_the_same_key_in_every_container(tmp_path, form, keys):
    rows = [{"id": key, "text": "one two"} for key in keys]
    table = pa.Table.from_pylist(rows)
    sources = {"pandas": table.to_pandas(), "rows": rows}
    pq.write_table(table, tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = ingest(sources.get(form, str(tmp_path / f"x.{form}")), tmp_path / "corpus", key="id")
    assert corpus.documents["key"].to_pylist() == table["id"].cast(pa.string()).to_pylist()


@pytest.mark.parametrize("option", ["key", "text"])
def test_a_type_of_pandas_that_is_stored_as_other_numbers_is_refused(tmp_path, option):
    table = pandas.DataFrame({"text": ["one", "two"], "month": pandas.period_range("2026-01", periods=2, freq="M")})
    with pytest.raises(DataError, match=r"column 'month' is extension<pandas\.period.* where text is needed"):
        ingest(table, tmp_path / "corpus", **{option: "month"})


def test_options_may_be_values_of_numpy(tmp_path):
    options = {"min_df": np.int64(1), "max_df": np.float32(0.5), "stop_words": np.array(["two"])}
    corpus = ingest(["one two", "three"], str(tmp_path / "corpus"), **options)
    assert corpus.vocabulary["word"].to_pylist() == ["one", "three"]
