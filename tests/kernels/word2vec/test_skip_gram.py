import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram as word2vec
from helpers import naive
from hypothesis import given, settings
from hypothesis import strategies as st

ORACLES = {"sgns": naive.word2vec_sgns, "full": naive.word2vec_full, "par": naive.word2vec_par}
LENGTHS = (60, 1, 0, 2, 25, 24, 7, 49)


def make_text(lengths, n_words, seed=0):
    rng = np.random.default_rng(seed)
    ptr = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    words = np.minimum(rng.geometric(0.1, ptr[-1]) - 1, n_words - 1).astype(np.uint32)
    places = np.cumsum(rng.integers(1, 3, ptr[-1])).astype(np.uint32)
    return word2vec.Text(ptr, words, places)


def make_model(n_words, dimension, seed=1):
    rng = np.random.default_rng(seed)
    pair = [np.zeros((n_words, word2vec.padded(dimension)), np.float32) for _ in range(2)]
    for W in pair:
        W[:, :dimension] = rng.normal(0, 0.3, (n_words, dimension))
    return pair


def make_step(window, negative, n_words, size=64):
    table = word2vec.negative_table(np.arange(n_words, 0, -1), 0.75, size, random.key(5))
    return word2vec.TrainingOptions(window, negative, table, random.key(6), random.key(7), 0.05, 1e-4, 0.03)


def sentences_of(text):
    pairs = list(zip(text.positions.tolist(), text.words.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(text.ptr[:-1], text.ptr[1:], strict=True)]


def by_the_oracle(method, text, step, W_in, W_out):
    W_in, W_out = W_in.astype(float), W_out.astype(float)

    def rate(place):
        return max(step.min_alpha, step.alpha - step.slope * place)

    keys = (int(step.windows_key), int(step.negatives_key))
    ORACLES[method](sentences_of(text), W_in, W_out, step.window, step.negative, step.table.tolist(), keys, rate)
    return W_in, W_out


@pytest.mark.parametrize("method", word2vec.METHODS)
@pytest.mark.parametrize(("window", "negative", "dimension"), [(1, 1, 3), (5, 5, 64), (8, 3, 130)])
def test_each_method_follows_its_definition_step_by_step(method, window, negative, dimension):
    text, step = make_text(LENGTHS, 30), make_step(window, negative, 30)
    W_in, W_out = make_model(30, dimension)
    wanted = by_the_oracle(method, text, step, W_in, W_out)
    word2vec.train(method, text, step, W_in, W_out)
    for found, expected in zip((W_in, W_out), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert not found[:, dimension:].any()


@pytest.mark.parametrize("method", word2vec.METHODS)
def test_the_same_text_gives_the_same_bits_and_its_documents_may_be_shared_out(method):
    text, step = make_text(LENGTHS, 30), make_step(5, 5, 30)
    models = [make_model(30, 20) for _ in range(3)]
    word2vec.train(method, text, step, *models[0])
    word2vec.train(method, text, step, *models[1])
    word2vec.train(method, text, step, *models[2], slice(0, 3))
    word2vec.train(method, text, step, *models[2], slice(3, None))
    for other in models[1:]:
        for W, V in zip(models[0], other, strict=True):
            np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("method", word2vec.METHODS)
def test_products_far_from_zero_stay_finite(method):
    text, step = make_text((60,), 30), make_step(5, 5, 30)
    W_in, W_out = (W * 300 for W in make_model(30, 20))
    word2vec.train(method, text, step, W_in, W_out)
    assert np.isfinite(W_in).all() and np.isfinite(W_out).all()


@pytest.mark.parametrize("method", word2vec.METHODS)
def test_documents_of_one_word_change_nothing(method):
    text, step = make_text((1, 0, 1), 30), make_step(5, 5, 30)
    W_in, W_out = make_model(30, 20)
    before = W_in.copy(), W_out.copy()
    word2vec.train(method, text, step, W_in, W_out)
    np.testing.assert_array_equal(W_in, before[0])
    np.testing.assert_array_equal(W_out, before[1])


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(0, 2**32), st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_subsampling_keeps_order_and_documents(lengths, seed, share):
    text = make_text(lengths, 12, seed % 1000)
    keep = np.full(12, share, np.float32)
    keep[3] = 1.0
    ptr, words, places = word2vec.subsample(text.ptr, text.words, keep, random.key(seed))
    assert (np.diff(places.astype(int)) > 0).all()
    np.testing.assert_array_equal(text.words[places], words)
    assert np.count_nonzero(words == 3) == np.count_nonzero(text.words == 3)
    for d in range(len(lengths)):
        inside = places[ptr[d] : ptr[d + 1]]
        assert ((inside >= text.ptr[d]) & (inside < text.ptr[d + 1])).all()


def test_words_stay_as_often_as_gensim_keeps_them():
    from gensim.models import Word2Vec

    frequency = np.array([900, 300, 60, 5])
    peer = Word2Vec(min_count=1, sample=0.02)
    peer.build_vocab_from_freq({f"w{i}": int(f) for i, f in enumerate(frequency)})
    wanted = [peer.wv.get_vecattr(f"w{i}", "sample_int") / 2**32 for i in range(4)]
    keep = word2vec.keep_probability(frequency, 0.02)
    np.testing.assert_allclose(keep, wanted, atol=1e-6)
    text = make_text((200_000,), 4)
    _, words, _ = word2vec.subsample(text.ptr, text.words, keep, random.key(1))
    counts, before = np.bincount(words, minlength=4), np.bincount(text.words, minlength=4)
    np.testing.assert_allclose(counts / before, keep, atol=0.02)


def test_negatives_come_in_proportion_to_frequency_to_a_power():
    frequency = np.array([1000, 100, 10, 1])
    table = word2vec.negative_table(frequency, 0.75, 1 << 16, random.key(3))
    weights = frequency**0.75
    counts = np.bincount(table, minlength=4)
    assert (abs(counts - (1 << 16) * weights / weights.sum()) <= 2).all()


def test_a_rare_word_gets_into_the_table_by_chance():
    frequency = np.r_[np.full(3, 10**6), np.ones(1)]
    tables = [word2vec.negative_table(frequency, 1.0, 1 << 18, random.key(seed)) for seed in range(100)]
    assert 2 <= sum((table == 3).any() for table in tables) <= 25


def test_first_vectors_are_the_streams_draws():
    key, drawn = random.key(9), random.stream(random.key(9), 6).tolist()
    found = word2vec.first_vectors(2, 3, key)
    np.testing.assert_allclose(found[:, :3].ravel(), [((u >> 40) / 2**24 - 0.5) / 3 for u in drawn], atol=1e-7)
    assert found.shape == (2, word2vec.PAD) and not found[:, 3:].any()


def test_the_loss_is_minus_the_logarithm_of_the_sigmoids():
    W_in, W_out = (W * 9 for W in make_model(30, 20))
    pairs, negatives = np.arange(12).reshape(6, 2), np.arange(18).reshape(6, 3)
    products = W_out.astype(float) @ W_in.astype(float).T
    held = [(products[t, i], 1) for t, i in pairs] + [
        (products[k, i], -1) for (_, i), others in zip(pairs, negatives, strict=True) for k in others
    ]
    wanted = -sum(np.log(1 / (1 + np.exp(-x * sign))) for x, sign in held)
    assert word2vec.loss(W_in, W_out, pairs, negatives) == pytest.approx(wanted, rel=1e-5)
