"""Words of many partitions make one vocabulary."""

import re

import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io import words as voc
from corpusmill.io.errors import DataError
from corpusmill.io.words import TOKEN_PATTERN
from hypothesis import given, settings
from hypothesis import strategies as st


@given(words=st.lists(st.text(max_size=6), min_size=1, max_size=60, unique=True), buckets=st.integers(2, 7))
@settings(max_examples=40)
def test_a_word_has_the_same_bucket_everywhere(words, buckets):
    together = voc.hash_buckets(pa.array(words, pa.large_string()), buckets)
    alone = [int(voc.hash_buckets(pa.array([w], pa.large_string()), buckets)[0]) for w in words]
    sliced = voc.hash_buckets(pa.array(["x", *words], pa.large_string()).slice(1), buckets)
    assert together.tolist() == alone == sliced.tolist()
    assert together.max() < buckets


def test_buckets_are_even():
    sizes = np.bincount(voc.hash_buckets(pa.array([f"w{i}" for i in range(70_000)], pa.large_string()), 7), minlength=7)
    assert sizes.min() > 9_000


@given(
    tables=st.lists(st.dictionaries(st.text("abc", max_size=3), st.integers(1, 9), max_size=20), max_size=8),
    bound=st.integers(1, 500),
)
@settings(max_examples=40)
def test_counts_add_up_within_any_bound(tables, bound):
    total = {}
    for table in tables:
        for word, count in table.items():
            total[word] = total.get(word, 0) + count
    columns = [(list(t), np.array(list(t.values()), np.int64)) for t in tables]
    arrow = [voc.count_table(pa.array(w, pa.large_string()), n, n) for w, n in columns]
    merged = voc.merge_counts(iter(arrow), bound).to_pydict()
    assert dict(zip(merged["word"], merged["term_frequency"], strict=True)) == total
    assert merged["document_frequency"] == merged["term_frequency"]


def test_a_vocabulary_too_large_for_ids_is_refused():
    voc.check_size(1 << 32)
    with pytest.raises(DataError, match="4,294,967,297 words are more than the limit of 4,294,967,296"):
        voc.check_size((1 << 32) + 1)


LARGE = pa.large_string()
WORDS = st.dictionaries(st.text("abcé", max_size=3), st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20)


def vocabulary_of(counts, word_type=LARGE):
    columns = [np.array(column, np.int64) for column in zip(*counts.values(), strict=True)] or [np.empty(0)] * 2
    table = voc.count_table(pa.array(list(counts), pa.large_string()), *columns)
    return table.set_column(0, "word", table["word"].cast(word_type))


@given(new=WORDS, old=WORDS, word_type=st.sampled_from([pa.string(), pa.large_string()]))
@settings(max_examples=60)
def test_merged_words_keep_their_ids_and_their_frequencies_add_up(new, old, word_type):
    merged = voc.merge_vocabularies(vocabulary_of(new), vocabulary_of(old, word_type))
    rows = merged.table.to_pylist()
    assert [row["word"] for row in rows] == [*new, *(w for w in old if w not in new)]
    for row in rows:
        counts = [found.get(row["word"], (0, 0)) for found in (new, old)]
        assert row["term_frequency"] == counts[0][0] + counts[1][0]
        assert row["document_frequency"] == counts[0][1] + counts[1][1]


@given(new=WORDS, old=WORDS)
@settings(max_examples=60)
def test_the_words_of_only_the_old_model_come_last(new, old):
    merged = voc.merge_vocabularies(vocabulary_of(new), vocabulary_of(old))
    words = merged.table["word"].to_pylist()
    assert words[: len(new)] == list(new)
    assert [list(old)[row] for row in merged.only_in_old] == words[len(new) :]


def test_a_merge_does_not_change_its_inputs():
    new, old = vocabulary_of({"a": (1, 1), "b": (2, 1)}), vocabulary_of({"b": (5, 3), "c": (7, 2)})
    before = new.to_pydict(), old.to_pydict()
    voc.merge_vocabularies(new, old)
    assert (new.to_pydict(), old.to_pydict()) == before


@given(words=st.lists(st.text("abc", max_size=2), max_size=9), vocabulary=WORDS)
@settings(max_examples=40)
def test_the_id_of_a_word_is_its_row_or_minus_one(words, vocabulary):
    ids = {word: i for i, word in enumerate(vocabulary)}
    expected = [ids.get(word, -1) for word in words]
    table = vocabulary_of(vocabulary)
    for given_as in (words, pa.array(words, pa.string()), pa.chunked_array([words, []], pa.large_string())):
        assert voc.find_word_ids(given_as, table).tolist() == expected
    with_others = pa.array(["x", *words, None], pa.string()).slice(1)
    assert voc.find_word_ids(with_others, table).tolist() == [*expected, -1]


def test_the_parts_of_contractions_are_stop_words():
    words = re.findall(TOKEN_PATTERN, "i don't think they've won, and we'll see: it isn't ours")
    assert [word for word in words if word not in voc.stop_list("english")] == ["think", "won"]
