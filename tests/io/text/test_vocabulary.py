"""Words of many partitions make one vocabulary."""

import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io.stores.store import DataError
from corpusmill.io.text import vocabulary as voc
from hypothesis import given, settings
from hypothesis import strategies as st


@given(words=st.lists(st.text(max_size=6), min_size=1, max_size=60, unique=True), buckets=st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_a_word_has_the_same_bucket_everywhere(words, buckets):
    together = voc.bucket_of(pa.array(words, pa.large_string()), buckets)
    alone = [int(voc.bucket_of(pa.array([w], pa.large_string()), buckets)[0]) for w in words]
    sliced = voc.bucket_of(pa.array(["x", *words], pa.large_string()).slice(1), buckets)
    assert together.tolist() == alone == sliced.tolist()
    assert together.max() < buckets


def test_buckets_are_even():
    sizes = np.bincount(voc.bucket_of(pa.array([f"w{i}" for i in range(70_000)], pa.large_string()), 7))
    assert sizes.min() > 9_000


@given(
    tables=st.lists(st.dictionaries(st.text("abc", max_size=3), st.integers(1, 9), max_size=20), max_size=8),
    bound=st.integers(1, 500),
)
@settings(max_examples=40, deadline=None)
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
    with pytest.raises(DataError, match="4,294,967,297 words are more than the 4,294,967,296 ids"):
        voc.check_size((1 << 32) + 1)
