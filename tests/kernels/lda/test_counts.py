"""Counts of topics against a Python Counter."""

from collections import Counter

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.lda.chunk_counts import ChunkTopics, count_chunks
from corpusmill.kernels.lda.counts import count_documents, count_words, merge_counts, merge_many, topic_totals
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def corpora(draw):
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=12))
    n_words, n_topics = draw(st.integers(1, 9)), draw(st.sampled_from([1, 3, 64, 65, 5000, 32768]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    doc_ptr = np.r_[0, np.cumsum(lengths)]
    chunk = make_chunk(0, doc_ptr, rng.integers(0, n_words, doc_ptr[-1]).astype(np.uint32), draw(st.integers(1, 40)))
    return chunk, rng.integers(0, n_topics, doc_ptr[-1]).astype(np.uint16), n_words, n_topics


def document_row(rows, d):
    """The topics of a document with their counts. Entries of the same topic are added up."""
    found = Counter()
    for entry in rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]].tolist():
        if entry & 0xFFFF:
            found[entry >> 16 & 0x7FFF] += entry & 0xFFFF
    return found


def word_row(table, v):
    """The topics of a word with their counts; they must ascend."""
    row = slice(table.row_ptr[v], table.row_ptr[v + 1])
    assert np.all(np.diff(table.topics[row].astype(int)) > 0)
    return dict(zip(table.topics[row].tolist(), table.counts[row].tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(corpora())
def test_counts_are_exact(case):
    chunk, z, n_words, n_topics = case
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    assert np.all(rows.row_ptr % 8 == 0)
    for d in range(chunk.n_documents):
        assert document_row(rows, d) == Counter(z[chunk.docs == d].tolist())
    table = count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    words = chunk.words[chunk.word_to_doc_order]
    for v in range(n_words):
        assert word_row(table, v) == Counter(z[words == v].tolist())
    totals = topic_totals(table.topics, table.counts, n_topics)
    np.testing.assert_array_equal(totals, np.bincount(z, minlength=n_topics))


@settings(deadline=None, max_examples=60)
@given(corpora(), st.integers(0, 2**32))
def test_merged_counts_are_those_of_the_union(case, seed):
    chunk, z, n_words, n_topics = case
    keep = np.random.default_rng(seed).random(len(chunk.word_ids)) < 0.5
    whole = count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    outside = np.uint32(n_words)
    left, right = (
        count_words(np.where(part, chunk.word_ids, outside), chunk.word_ptr, z, (0, n_words), n_topics)
        for part in (keep, ~keep)
    )
    for merged in (merge_counts(left, right), merge_counts(right, left)):
        for found, expected in zip(merged, whole, strict=True):
            np.testing.assert_array_equal(found, expected)


@settings(deadline=None, max_examples=40)
@given(corpora(), st.integers(0, 2**32), st.integers(1, 5))
def test_many_tables_merged_at_once_are_the_table_of_the_union(case, seed, n_tables):
    chunk, z, n_words, n_topics = case
    part = np.random.default_rng(seed).integers(n_tables, size=len(chunk.word_ids))
    words = (0, n_words)
    whole = count_words(chunk.word_ids, chunk.word_ptr, z, words, n_topics)
    tables = []
    for number in range(n_tables):
        word_ids = np.where(part == number, chunk.word_ids, np.uint32(n_words))
        tables.append(count_words(word_ids, chunk.word_ptr, z, words, n_topics))
    for found, expected in zip(merge_many(tables, n_topics), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


@settings(deadline=None, max_examples=40)
@given(corpora(), st.integers(1, 5), st.integers(0, 2**32))
def test_chunks_counted_at_once_have_the_sum_of_their_counts(case, n_chunks, seed):
    chunk, z, n_words, n_topics = case
    rng = np.random.default_rng(seed)
    words = tuple(np.sort(rng.choice(n_words + 1, 2, replace=False)).tolist())
    topics = [rng.permutation(z) for _ in range(n_chunks)]
    tables = [count_words(chunk.word_ids, chunk.word_ptr, each, words, n_topics) for each in topics]
    arrays = (chunk.group_ptr, chunk.word_ids, chunk.word_ptr)
    found = count_chunks([ChunkTopics(*arrays, each) for each in topics], words, n_topics)
    for array, expected in zip(found, merge_many(tables, n_topics), strict=True):
        np.testing.assert_array_equal(array, expected)


def test_a_count_that_one_entry_cannot_hold_is_split():
    z = (np.arange(150_000) % 10 == 0).astype(np.uint16)
    rows = count_documents(np.array([0, len(z)]), np.arange(len(z), dtype=np.uint32), z)
    assert document_row(rows, 0) == Counter(z.tolist())
    assert len(rows.entries) == 8 and max(rows.entries & 0xFFFF) == 0xFFFF
