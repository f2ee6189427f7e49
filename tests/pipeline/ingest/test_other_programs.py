"""Files of other programs give the words, documents and numbers that those programs read from them."""

import re
import unicodedata

import gensim.corpora
import networkx
import numpy as np
import pytest
from corpusmill import ingest, ingest_graph
from gensim.models.word2vec import LineSentence
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_the_page_about_mallet_has_this_pattern(request):
    page = (request.config.rootpath / "docs" / "how-to" / "from-mallet.md").read_text()
    assert re.search(r"token_pattern: '(.*)'", page)[1] == MALLET_PATTERN


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
