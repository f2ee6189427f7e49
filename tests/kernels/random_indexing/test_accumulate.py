"""Random indexing against Algorithm 2.1: equal to the bit, for any chunks of the corpus."""

import json
import re

import numpy as np
import pytest
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import rows as ri_rows
from corpusmill.kernels.random_indexing import text as ri_text
from helpers.naive import ri_normalised, ri_seed, ri_train, ri_train_by_offset
from helpers.random_indexing_cases import ORDERS, SALT, WEIGHTINGS, chunk_of, corpora, hashes_of, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st


def train(chunks, n_words, window, dimension, pairs, kept=None):
    """Sparse training over several chunks: (V, D) int32."""
    kept = np.ones(n_words, bool) if kept is None else kept
    out = np.zeros((n_words, dimension), np.int32)
    for chunk in chunks:
        tokens = ri_text.prepare_tokens(chunk, kept, window.reach)
        seeds = ri_text.make_seeds(hashes_of(n_words)[tokens.ids], SALT, dimension, pairs)
        assert ri_rows.add_rows(out, tokens.ids, ri.accumulate(tokens, window, seeds, dimension), 1)
    return out


def train_dense(chunks, n_words, window, rows, blocks=1):
    out = np.zeros(rows.shape, np.float32)
    for chunk in chunks:
        tokens = ri_text.prepare_tokens(chunk, np.ones(n_words, bool), window.reach)
        part = np.zeros((len(tokens.ids), rows.shape[1]), np.float32)
        for numbers in np.array_split(np.arange(len(tokens.ids)), blocks):
            if len(numbers):
                ri.accumulate_dense(tokens, window, ri.make_slabs([(rows, tokens.ids[numbers])]), int(numbers[0]), part)
        out[tokens.ids] += part
    return out


@settings(max_examples=60)
@given(
    docs=corpora,
    radius=st.integers(1, 6),
    order=st.sampled_from(ORDERS),
    weighting=st.sampled_from(WEIGHTINGS),
    dimension=st.sampled_from([8, 9, 16, 61, 130]),
    cut=st.integers(0, 6),
    group_tokens=st.sampled_from([3, 10, 1000]),
    data=st.data(),
)
def test_equals_algorithm_2_1(docs, radius, order, weighting, dimension, cut, group_tokens, data):
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=9, max_size=9)))
    window = ri_text.make_window(radius, order, weighting)
    chunks = [chunk_of(part, group_tokens=group_tokens) for part in (docs[:cut], docs[cut:])]
    found = train(chunks, 9, window, dimension, 2, kept)
    S = np.array([ri_seed(int(h), int(SALT), dimension, 4) for h in hashes_of(9)])
    masked = [[w if kept[w] else None for w in d] for d in docs]
    np.testing.assert_array_equal(found, ri_train(masked, S, 9, radius, order, weighting))


@settings(max_examples=30)
@given(
    docs=corpora,
    radius=st.integers(1, 5),
    order=st.sampled_from(ORDERS),
    weighting=st.sampled_from(WEIGHTINGS),
    dimension=st.sampled_from([8, 64, 130]),
    blocks=st.integers(1, 3),
)
def test_dense_seeds_equal_algorithm_2_1(docs, radius, order, weighting, dimension, blocks):
    rows = ri_normalised(np.random.default_rng(radius).normal(size=(9, dimension))).astype(np.float32)
    window = ri_text.make_window(radius, order, weighting)
    found = train_dense([chunk_of(docs)], 9, window, rows, blocks)
    np.testing.assert_allclose(found, ri_train(docs, rows.astype(float), 9, radius, order, weighting), atol=1e-4)


def read_words(path):
    if path.suffix == ".tsv":
        texts = [line.split("\t")[3] for line in path.read_text().splitlines()]
    else:
        texts = [json.loads(line)["text"] for line in path.open()]
    return [re.findall("[a-z']+", text.lower()) for text in texts]


def encoded(docs):
    words, inverse = np.unique(np.concatenate(docs), return_inverse=True)
    return len(words), np.split(inverse, np.cumsum([len(d) for d in docs])[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("name, part, radius", [("kjv.tsv", slice(None), 5), ("nips.jsonl", slice(0, 240), 4)])
def test_real_text_equals_algorithm_2_1(real_data, name, part, radius):
    n_words, docs = encoded(read_words(real_data(name))[part])
    window = ri_text.make_window(radius, "permutation")
    seeds = ri_text.make_seeds(hashes_of(n_words), SALT, 256, 5)
    expected = ri_train_by_offset(docs, unpacked(seeds, 256), n_words, radius)
    thirds = [docs[: len(docs) // 3], docs[len(docs) // 3 : 2 * len(docs) // 3], docs[2 * len(docs) // 3 :]]
    for chunks in ([docs], thirds):
        found = train([chunk_of(c, group_tokens=100_000) for c in chunks], n_words, window, 256, 5)
        np.testing.assert_array_equal(found, expected)


def test_the_two_reference_implementations_agree():
    rng = np.random.default_rng(0)
    docs = [rng.integers(0, 30, n) for n in (0, 1, 5, 60)]
    S = unpacked(ri_text.make_seeds(hashes_of(30), SALT, 40, 3), 40)
    np.testing.assert_array_equal(ri_train(docs, S, 30, 4), ri_train_by_offset(docs, S, 30, 4))


def test_a_word_longer_than_a_piece(monkeypatch):
    rng = np.random.default_rng(1)
    docs = [rng.integers(0, 3, 2 * ri.PIECE).tolist()]
    window = ri_text.make_window(2, "permutation")
    S = unpacked(ri_text.make_seeds(hashes_of(3), SALT, 64, 2), 64)
    expected = ri_train_by_offset([np.array(docs[0])], S, 3, 2)
    np.testing.assert_array_equal(train([chunk_of(docs)], 3, window, 64, 2), expected)
    monkeypatch.setattr(ri, "BATCH", 1000)
    dense = train_dense([chunk_of(docs)], 3, window, S.astype(np.float32))
    # Seeds of four ones have length two.
    np.testing.assert_allclose(2 * dense, expected, rtol=1e-6)


def test_an_overflow_is_noticed():
    out = np.array([[2**31 - 2, 5]], np.int32)
    assert ri_rows.add_rows(out, np.zeros(1, np.int64), np.array([[1, -5]], np.int32), 1)
    np.testing.assert_array_equal(out, [[2**31 - 1, 0]])
    assert not ri_rows.add_rows(out, np.zeros(1, np.int64), np.array([[1, 0]], np.int32), 1)
    low = np.array([[-(2**31)]], np.int32)
    assert not ri_rows.add_rows(low, np.zeros(1, np.int64), np.array([[1]], np.int32), -1)


def test_sums_that_do_not_fit_16_bits_are_exact():
    text = [0, 0, 1] * 20_000
    tokens = ri_text.prepare_tokens(chunk_of([text]), np.ones(2, bool), 3)
    for weight, dtype in ((1, np.int16), (50, np.int32)):
        window = ri_text.make_window(3, "permutation")._replace(weights=np.full(6, weight, np.int32))
        seeds = ri_text.make_seeds(hashes_of(2), SALT, 16, 1)
        pieces = ri.sum_pieces(tokens, window, ri.with_null(seeds), 16, np.ones(2, bool))
        assert pieces.rows.dtype == dtype
        assert len(pieces.words) > 2
        expected = weight * ri_train_by_offset([np.array(text)], unpacked(seeds, 16), 2, 3)
        assert np.abs(expected).max() > 2**15
        np.testing.assert_array_equal(ri.accumulate(tokens, window, seeds, 16), expected)


def test_weights_that_might_overflow_are_refused():
    window = ri_text.make_window(5, "none")._replace(weights=np.full(10, 2**30, np.int32))
    tokens = ri_text.prepare_tokens(chunk_of([[0, 1, 0]]), np.ones(2, bool), 5)
    with pytest.raises(OverflowError, match="smaller"):
        ri.accumulate(tokens, window, ri_text.make_seeds(hashes_of(2), SALT, 16, 1), 16)


@settings(max_examples=30)
@given(docs=corpora)
def test_document_contexts_sum_the_seeds_of_documents(docs):
    chunk = chunk_of(docs)
    tokens = ri_text.prepare_tokens(chunk, np.ones(9, bool), 0)._replace(text=ri_text.document_numbers(chunk))
    hashes = ri_text.document_hashes(chunk.doc_ptr, chunk.words, hashes_of(9))
    seeds = ri_text.make_seeds(hashes, SALT, 32, 2)
    S = unpacked(seeds, 32)
    expected = np.zeros((9, 32), int)
    for d, words in enumerate(docs):
        for w in words:
            expected[w] += S[d]
    found = ri.accumulate(tokens, ri_text.SELF_WINDOW, seeds, 32)
    np.testing.assert_array_equal(found, expected[tokens.ids])
    assert not np.delete(expected, tokens.ids, axis=0).any()


def test_rows_are_normalised():
    rows = np.random.default_rng(0).integers(-9, 9, (20, 33)).astype(np.int32)
    rows[3] = 0
    np.testing.assert_allclose(ri.normalised(rows), ri_normalised(rows), atol=1e-6)


def test_documents_sum_their_weighted_words():
    rng = np.random.default_rng(0)
    vectors, weights = rng.normal(size=(9, 12)).astype(np.float32), rng.random(9).astype(np.float32)
    docs = [[1, 2, 2], [], [8]]
    chunk = chunk_of(docs)
    expected = [sum((weights[w] * vectors[w] for w in d), np.zeros(12)) for d in docs]
    np.testing.assert_allclose(ri_rows.sum_documents(chunk.doc_ptr, chunk.words, weights, vectors), expected, atol=1e-5)


def test_rows_of_floats_are_added_with_the_bits_of_numpys_sums():
    generator = np.random.default_rng(0)
    parts = []
    for n_rows in (7, 0, 12):
        rows = np.sort(generator.choice(20, n_rows, replace=False)).astype(np.uint32)
        parts.append((rows, generator.normal(size=(n_rows, 5)).astype(np.float32)))
    expected = np.zeros((20, 5), np.float32)
    for rows, sums in parts:
        expected[rows] += sums
    np.testing.assert_array_equal(ri_rows.sum_at(20, parts), expected)
