"""Subsampling against gensim's, negatives in proportion to their weights, and first vectors."""

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import text as text_kernels
from corpusmill.kernels.word2vec.text import PAD
from hypothesis import given, settings
from hypothesis import strategies as st


def make_text(lengths, n_words, seed=0):
    """A text of documents with these lengths."""
    rng = np.random.default_rng(seed)
    ptr = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    words = np.minimum(rng.geometric(0.1, ptr[-1]) - 1, n_words - 1).astype(np.uint32)
    return text_kernels.Text(ptr, words, np.arange(len(words), dtype=np.uint32))


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(0, 2**32), st.floats(0, 1))
@settings(max_examples=50)
def test_subsampling_keeps_order_and_documents(lengths, seed, share):
    text = make_text(lengths, 12, seed % 1000)
    keep = np.full(12, share, np.float32)
    keep[3] = 1.0
    ptr, words, positions = text_kernels.subsample(text.ptr, text.words, keep, random.key(seed))
    assert (np.diff(positions.astype(int)) > 0).all()
    np.testing.assert_array_equal(text.words[positions], words)
    assert np.count_nonzero(words == 3) == np.count_nonzero(text.words == 3)
    for d in range(len(lengths)):
        inside = positions[ptr[d] : ptr[d + 1]]
        assert ((inside >= text.ptr[d]) & (inside < text.ptr[d + 1])).all()


def test_words_are_kept_as_often_as_in_gensim():
    from gensim.models import Word2Vec

    frequency = np.array([900, 300, 60, 5])
    peer = Word2Vec(min_count=1, sample=0.02)
    peer.build_vocab_from_freq({f"w{i}": int(f) for i, f in enumerate(frequency)})
    wanted = [peer.wv.get_vecattr(f"w{i}", "sample_int") / 2**32 for i in range(4)]
    keep = text_kernels.keep_probability(frequency, 0.02)
    np.testing.assert_allclose(keep, wanted, atol=1e-6)
    text = make_text((200_000,), 4)
    _, words, _ = text_kernels.subsample(text.ptr, text.words, keep, random.key(1))
    counts, before = np.bincount(words, minlength=4), np.bincount(text.words, minlength=4)
    np.testing.assert_allclose(counts / before, keep, atol=0.02)


def test_negatives_are_in_proportion_to_a_power_of_the_frequency():
    frequency = np.array([1000, 100, 10, 1])
    table = text_kernels.negative_table(frequency, 0.75, 1 << 16, random.key(3))
    weights = frequency**0.75
    counts = np.bincount(table, minlength=4)
    assert (abs(counts - (1 << 16) * weights / weights.sum()) <= 2).all()


def test_a_rare_word_is_in_some_tables_and_not_in_others():
    frequency = np.r_[np.full(3, 10**6), np.ones(1)]
    tables = [text_kernels.negative_table(frequency, 1.0, 1 << 18, random.key(seed)) for seed in range(100)]
    assert 2 <= sum((table == 3).any() for table in tables) <= 25


def test_first_vectors_are_the_draws_of_their_stream():
    key, drawn = random.key(9), random.stream(random.key(9), 6).tolist()
    found = text_kernels.first_vectors(np.arange(2), 3, key)
    np.testing.assert_allclose(found[:, :3].ravel(), [((u >> 40) / 2**24 - 0.5) / 3 for u in drawn], atol=1e-7)
    assert found.shape == (2, PAD) and not found[:, 3:].any()
