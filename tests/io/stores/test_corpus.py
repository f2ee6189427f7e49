"""What a corpus reads, when it reads it, and what it checks."""

import numpy as np
import pyarrow as pa
import pytest
from corpusmill import ingest
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from helpers.toy import write_toy_corpus


@pytest.fixture
def corpus(tmp_path):
    return write_toy_corpus(tmp_path / "corpus", n_chunks=3)


def test_opening_a_corpus_does_not_read_its_table_of_chunks(corpus):
    expected = (corpus.n_documents, corpus.n_tokens, len(corpus.chunks))
    assert expected[:2] == (sum(c.documents for c in corpus.chunks), sum(c.tokens for c in corpus.chunks))
    corpus.store.delete("chunks-train.parquet")
    opened = Corpus(corpus.url)
    assert (opened.n_documents, opened.n_tokens) == expected[:2]
    assert opened.read_chunk(1).n_tokens == corpus.chunks[1].tokens
    with pytest.raises(DataError, match=r"chunks-train.parquet: missing"):
        _ = opened.chunks


def test_a_corpus_that_is_replaced_while_it_is_read_is_named(tmp_path):
    url = str(tmp_path / "corpus")
    opened = ingest([["boat", "sea"]] * 4, url)
    ingest([["bread", "oven"]] * 5, url, overwrite=True)
    with pytest.raises(DataError, match=r"corpus: another ingest has replaced this corpus while it was read; give the"):
        opened.read_chunk(0)


def test_arrays_that_were_not_read_are_derived_from_the_others(corpus):
    for index in range(3):
        whole = corpus.read_chunk(index)
        part = corpus.read_chunk(index, without=("words", "docs"))
        assert [len(part.words), len(part.docs)] == [0, 0]
        for found, expected in zip(part.completed(), whole, strict=True):
            np.testing.assert_array_equal(found, expected)
            assert np.asarray(found).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("table", [pa.table({"documents": [1]}), pa.table({"x": [1, 2, 3]})])
def test_a_table_of_other_chunks_is_refused(corpus, table):
    corpus.store.write_parquet("chunks-train.parquet", table)
    with pytest.raises(DataError, match="not the table of this store; restore it"):
        _ = Corpus(corpus.url).chunks
