"""A corpus of some files' documents of another corpus."""

import numpy as np
from corpusmill.io.stores.selection import select_documents
from corpusmill.pipeline.ingest.ingest import ingest
from helpers.documents import words_of

TEXTS = {"a.txt": "red fish\nblue fish\n", "b.txt": "one fish\ntwo fish\nred sea\n", "c.txt": "old fish\nnew sea\n"}


def corpus_of(folder):
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / name).write_text(text)
    source = str(folder / "texts" / "*.txt")
    return ingest(source, str(folder / "corpus"), format="lines", chunk_tokens=4)


def test_the_documents_of_some_files_keep_their_order_and_word_ids(tmp_path):
    corpus = corpus_of(tmp_path)
    files = [str(tmp_path / "texts" / name) for name in ("a.txt", "c.txt")]
    selected = select_documents(corpus, files, tmp_path / "selected")
    assert words_of(selected) == [["red", "fish"], ["blue", "fish"], ["old", "fish"], ["new", "sea"]]
    assert selected.vocabulary["word"].equals(corpus.vocabulary["word"])
    assert set(selected.documents["file"].to_pylist()) == set(files)
    counts = dict(zip(*(selected.vocabulary[name].to_pylist() for name in ("word", "term_frequency")), strict=True))
    assert (counts["fish"], counts["sea"], counts["one"]) == (3, 1, 0)


def test_a_selection_is_made_once(tmp_path):
    corpus = corpus_of(tmp_path)
    first = select_documents(corpus, [str(tmp_path / "texts" / "b.txt")], tmp_path / "selected")
    again = select_documents(corpus, ["something else"], tmp_path / "selected")
    assert again.hash == first.hash
    np.testing.assert_array_equal(again.read_chunk(0).words, first.read_chunk(0).words)


def test_a_selection_has_the_kept_columns(tmp_path):
    rows = "text,title\nred fish,first\nblue fish,second\n"
    (tmp_path / "a.csv").write_text(rows)
    options = {"text": "text", "keep": ("title",)}
    corpus = ingest(str(tmp_path / "a.csv"), str(tmp_path / "corpus"), **options)
    selected = select_documents(corpus, [str(tmp_path / "a.csv")], tmp_path / "selected")
    assert selected.kept_columns == corpus.kept_columns == ["title"]
    assert selected.documents["title"].to_pylist() == ["first", "second"]
    assert selected.held_out.kept_columns == ["title"]
