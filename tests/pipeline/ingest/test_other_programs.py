"""Files of other programs give the words, documents and numbers that those programs read from them."""

import re
import unicodedata

import gensim.corpora
import networkx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import tomotopy
from corpusmill import ingest, ingest_graph
from corpusmill.io.errors import DataError
from gensim.models.word2vec import LineSentence
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

LINES = st.text(st.sampled_from("ab Cé鱼1.,-_$ \t'"), max_size=12)
COUNTS = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=5)
NAMES = ["fish", "cat", "dog", "elk"]


def words_of(corpus):
    """Return the words of each document, in their order."""
    names = corpus.vocabulary["word"].to_pylist()
    found = []
    for index in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(index)
        for start, stop in zip(chunk.doc_ptr[:-1], chunk.doc_ptr[1:], strict=True):
            found.append([names[word] for word in chunk.words[start:stop]])
    return found


def counts_of(corpus):
    """Return the words in alphabetical order, and the counts (D, V) of the documents."""
    documents = words_of(corpus)
    names = sorted(corpus.vocabulary["word"].to_pylist())
    return names, [[words.count(name) for name in names] for words in documents]


def ingested(folder, name, content, **options):
    """Write a file, and return its documents."""
    (folder / name).write_text(content)
    return ingest(folder / name, folder / "corpus", overwrite=True, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6).filter(lambda lines: any(line.split() for line in lines)))
def test_line_sentence_of_gensim(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("lines")
    content = "".join(f"{line}\n" for line in lines)
    corpus = ingested(folder, "x.txt", content, format="lines", token_pattern=r"\S+", lowercase=False)
    theirs = list(LineSentence(str(folder / "x.txt")))
    assert [words for words in words_of(corpus) if words] == [words for words in theirs if words]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("abAB Cé鱼1.,-_'\nthe"), max_size=30), min_size=1, max_size=8),
    st.fixed_dictionaries(
        {
            "min_df": st.sampled_from([1, 2, 0.5]),
            "max_df": st.sampled_from([1.0, 0.5, 3]),
            "max_features": st.sampled_from([None, 2]),
            "stop_words": st.sampled_from([None, "english", ["aa"]]),
            "lowercase": st.booleans(),
            "token_pattern": st.sampled_from([r"(?u)\b\w\w+\b", r"\S+"]),
        }
    ),
)
def test_count_vectorizer_of_scikit_learn(tmp_path_factory, texts, options):
    folder = tmp_path_factory.mktemp("texts")
    table = pa.table({"text": pa.array(texts)})
    vectorizer = CountVectorizer(**options)
    try:
        theirs = vectorizer.fit_transform(texts).toarray()
    except ValueError:
        with pytest.raises((DataError, ValueError)):
            ingest(table, folder / "corpus", **options)
        return
    names, counts = counts_of(ingest(table, folder / "corpus", **options))
    assert names == list(vectorizer.get_feature_names_out())
    np.testing.assert_array_equal(counts, theirs)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), min_size=1, max_size=6), st.integers(1, 3))
def test_words_of_tomotopy(tmp_path_factory, documents, min_df):
    theirs = tomotopy.LDAModel(k=1, min_df=min_df, seed=1)
    for words in documents:
        theirs.add_doc(words)
    theirs.train(0, workers=1)
    if not len(theirs.used_vocabs):
        with pytest.raises((DataError, ValueError), match="min_df"):
            ingest(documents, tmp_path_factory.mktemp("tomotopy") / "corpus", min_df=min_df)
        return
    corpus = ingest(documents, tmp_path_factory.mktemp("tomotopy") / "corpus", min_df=min_df)
    assert set(corpus.vocabulary["word"].to_pylist()) == set(theirs.used_vocabs)
    names, counts = counts_of(corpus)
    used = {name: int(count) for name, count in zip(theirs.used_vocabs, theirs.used_vocab_freq, strict=True)}
    assert dict(zip(names, np.sum(counts, axis=0).tolist(), strict=True)) == used


#: The pattern of the page about fastText.
FASTTEXT_PATTERN = r"[^ \t\n\v\f\r\0]+"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.sampled_from("ab Cé鱼1.,-_$\t\v\f\r\0\xa0\u2003\x1c"), max_size=12), min_size=1, max_size=6))
def test_words_of_fasttext(tmp_path_factory, lines):
    fasttext = pytest.importorskip("fasttext")
    path = tmp_path_factory.mktemp("fasttext") / "x.txt"
    path.write_bytes("".join(f"{line}\n" for line in [*lines, "word"]).encode())
    theirs = fasttext.train_unsupervised(str(path), minCount=1, dim=1, epoch=1, minn=0, maxn=0, thread=1, verbose=0)
    counts = dict(zip(*(list(column) for column in theirs.get_words(include_freq=True)), strict=True))
    assert counts.pop("</s>") == len(lines) + 1
    corpus = ingest(path, path.parent / "corpus", format="lines", token_pattern=FASTTEXT_PATTERN, lowercase=False)
    columns = (corpus.vocabulary[name].to_pylist() for name in ("word", "term_frequency"))
    assert dict(zip(*columns, strict=True)) == counts


#: The pattern of the page about MALLET.
MALLET_PATTERN = r"[^\W\d_](?:[^\W\d]|[^\w\s$+<=>^`|~])+[^\W\d_]"


def mallet_words(text):
    r"""Return the words that MALLET's pattern finds, \p{L}[\p{L}\p{P}]+\p{L}."""
    kinds = "".join(unicodedata.category(letter)[0] for letter in text)
    return [text[found.start() : found.end()] for found in re.finditer("L[LP]+L", kinds)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6))
def test_import_file_of_mallet(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("mallet")
    content = "".join(f"d{number} label {line}\n" for number, line in enumerate(lines)) + "last x good words\n"
    corpus = ingested(folder, "x.mallet", content, format="mallet", token_pattern=MALLET_PATTERN)
    assert corpus.documents["key"].to_pylist() == [*(f"d{number}" for number in range(len(lines))), "last"]
    assert words_of(corpus) == [*(mallet_words(line.lower()) for line in lines), ["good", "words"]]


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("from-mallet", f"token_pattern: '{MALLET_PATTERN}'"),
        ("from-fasttext", f'token_pattern=r"{FASTTEXT_PATTERN}"'),
    ],
)
def test_a_page_has_the_pattern_of_its_test(request, page, written):
    assert written in (request.config.rootpath / "docs" / "how-to" / f"{page}.md").read_text()


WRITERS = {
    "Blei": (gensim.corpora.BleiCorpus, "lda-c", ".vocab"),
    "SVMlight": (gensim.corpora.SvmLightCorpus, "svmlight", None),
    "UCI": (gensim.corpora.UciCorpus, "docword", ".vocab"),
    "MatrixMarket": (gensim.corpora.MmCorpus, "matrixmarket", None),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRITERS)
def test_counts_that_gensim_writes(tmp_path_factory, kind):
    writer, form, vocabulary = WRITERS[kind]

    @settings(max_examples=30, deadline=None)
    @given(COUNTS.filter(lambda rows: np.any(rows)))
    def check(rows):
        folder = tmp_path_factory.mktemp("counts")
        rows = np.array(rows)
        bags = [[(word, int(n)) for word, n in enumerate(row) if n] for row in rows]
        writer.serialize(str(folder / "x"), bags, id2word=dict(enumerate(NAMES)))
        names = folder / f"x{vocabulary}"
        if vocabulary is None:
            names = folder / "names"
            names.write_text("".join(f"{name}\n" for name in NAMES))
        corpus = ingest(folder / "x", folder / "corpus", format=form, vocabulary_file=str(names))
        found = [[words.count(name) for name in NAMES] for words in words_of(corpus)]
        # A document of svmlight without words has a label only.
        np.testing.assert_array_equal(found, rows)

    check()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from("abcdef")] * 2, st.integers(1, 5)), min_size=1, max_size=12))
def test_edges_that_networkx_writes(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("edges")
    graph = networkx.Graph()
    graph.add_weighted_edges_from(rows)
    for delimiter in (" ", "\t"):
        networkx.write_weighted_edgelist(graph, folder / "edges.txt", delimiter=delimiter)
        found = ingest_graph(folder / "edges.txt", folder / "graph", header=False)
        assert found.nodes.to_pylist() == sorted(graph.nodes)
        arrays = found.adjacency()
        expected = networkx.to_scipy_sparse_array(graph, nodelist=sorted(graph.nodes), format="csr", dtype=np.float32)
        np.testing.assert_array_equal(arrays["row_ptr"], expected.indptr)
        weights = arrays["weights"] if found.is_weighted else np.ones(found.n_edges)
        np.testing.assert_array_equal(weights, expected.sorted_indices().data)


#: Names of NumPy 1 that a package on which pecanpy depends still uses, and their names today.
OLD_NAMES = {
    "bool8": "bool_", "object0": "object_", "int0": "intp", "uint0": "uintp", "void0": "void", "str0": "str_",
    "bytes0": "bytes_", "float_": "float64", "longfloat": "longdouble", "complex_": "complex128",
    "singlecomplex": "complex64", "cfloat": "complex128", "clongfloat": "clongdouble", "longcomplex": "clongdouble",
    "string_": "bytes_", "unicode_": "str_",
}  # fmt: skip


@pytest.fixture
def pecanpy(monkeypatch):
    for old, new in OLD_NAMES.items():
        monkeypatch.setattr(np, old, getattr(np, new), raising=False)
    return pytest.importorskip("pecanpy.pecanpy")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_edges_of_pecanpy(pecanpy, tmp_path_factory, weighted, directed):
    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(*[st.sampled_from("abcdef")] * 2, st.integers(1, 5)), min_size=1, max_size=12))
    def check(rows):
        folder = tmp_path_factory.mktemp("pecanpy")
        edges = {(a, b) if directed else tuple(sorted((a, b))): weight for a, b, weight in rows if a != b}
        if not edges:
            return
        (folder / "edges.tsv").write_text("".join(f"{a}\t{b}\t{weight}\n" for (a, b), weight in edges.items()))
        theirs = pecanpy.SparseOTF(p=1, q=1, workers=1)
        theirs.read_edg(str(folder / "edges.tsv"), weighted=weighted, directed=directed)
        order = np.argsort(theirs.nodes)
        expected = scipy.sparse.csr_array((theirs.data, theirs.indices, theirs.indptr), [len(order)] * 2)
        expected = expected[order][:, order].sorted_indices()
        graph = ingest_graph(folder / "edges.tsv", folder / "graph", weighted=weighted, directed=directed)
        arrays = graph.adjacency()
        assert graph.nodes.to_pylist() == sorted(theirs.nodes)
        np.testing.assert_array_equal(arrays["row_ptr"], expected.indptr)
        np.testing.assert_array_equal(arrays["neighbours"], expected.indices)
        np.testing.assert_array_equal(arrays["weights"] if graph.is_weighted else np.ones(graph.n_edges), expected.data)

    check()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_words_of_spark(tmp_path):
    sql = pytest.importorskip("pyspark.sql")
    feature = pytest.importorskip("pyspark.ml.feature")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["Sea", "sea", "a,b", 'a "b" \\', "x", "鱼"], 5)) for _ in range(40)]
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        table = spark.createDataFrame([(text,) for text in texts], ["text"])
        table = feature.Tokenizer(inputCol="text", outputCol="words").transform(table)
        vectorizer = feature.CountVectorizer(inputCol="words", outputCol="features", minDF=2, vocabSize=4).fit(table)
        rows = [row.features.toArray() for row in vectorizer.transform(table).select("features").collect()]
        vocabulary = vectorizer.vocabulary
        expected = np.array(rows)[:, np.argsort(vocabulary)]
        table.coalesce(1).write.parquet(str(tmp_path / "parquet"))
        table.select("text").coalesce(1).write.csv(str(tmp_path / "csv"))
    finally:
        spark.stop()
    corpus = ingest(
        str(tmp_path / "parquet" / "*.parquet"),
        tmp_path / "words",
        tokens="words",
        min_df=2,
        max_features=4,
        lowercase=False,
    )
    names, counts = counts_of(corpus)
    assert names == sorted(vocabulary)
    np.testing.assert_array_equal(counts, expected)
    # As the page says: names in `columns`, and Spark's backslash.
    options = {"columns": ["text"], "escape": "\\", "min_df": 2, "max_features": 4, "token_pattern": r"\S+"}
    names, counts = counts_of(ingest(str(tmp_path / "csv" / "*.csv"), tmp_path / "texts", **options))
    assert names == sorted(vocabulary)
    np.testing.assert_array_equal(counts, expected)
