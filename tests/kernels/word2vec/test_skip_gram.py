"""Training against the reference implementations, its reproducibility, and the loss against its definition."""

from functools import partial

import numpy as np
import pytest
from corpusmill.kernels.word2vec import skip_gram as word2vec
from corpusmill.kernels.word2vec.text import MINIBATCH
from corpusmill.kernels.word2vec.updates import number_of_negatives
from helpers import naive
from helpers.skip_gram_cases import LENGTHS, make_model, make_options, make_text, reference_training

REFERENCES = {"full": naive.word2vec_full, "par": naive.word2vec_par}


@pytest.mark.parametrize("method", word2vec.METHODS)
@pytest.mark.parametrize(("window", "negative", "dimension"), [(1, 1, 3), (5, 5, 64), (8, 3, 130)])
def test_each_method_makes_the_updates_of_its_reference_implementation(method, window, negative, dimension):
    text, options = make_text(LENGTHS, 30), make_options(window, negative, 30)
    W_in, W_out = make_model(30, dimension)
    wanted = reference_training(REFERENCES[method], text, options, W_in, W_out)
    word2vec.train(method, text, options, W_in, W_out)
    for found, expected in zip((W_in, W_out), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert not found[:, dimension:].any()


@pytest.mark.parametrize("minibatch", [4, 40])
def test_words_of_a_mini_batch_of_any_size_share_negatives(minibatch):
    text, options = make_text(LENGTHS, 30), make_options(5, 5, 30)._replace(minibatch=minibatch)
    W_in, W_out = make_model(30, 20)
    reference = partial(naive.word2vec_par, batch=minibatch)
    wanted = reference_training(reference, text, options, W_in, W_out)
    word2vec.train("par", text, options, W_in, W_out)
    for found, expected in zip((W_in, W_out), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("method", word2vec.METHODS)
def test_training_is_reproducible(method):
    text, options = make_text(LENGTHS, 30), make_options(5, 5, 30)
    models = [make_model(30, 20) for _ in range(2)]
    for model in models:
        word2vec.train(method, text, options, *model)
    for W, V in zip(*models, strict=True):
        np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("method", word2vec.METHODS)
def test_products_far_from_zero_stay_finite(method):
    text, options = make_text((60,), 30), make_options(5, 5, 30)
    W_in, W_out = (W * 300 for W in make_model(30, 20))
    word2vec.train(method, text, options, W_in, W_out)
    assert np.isfinite(W_in).all() and np.isfinite(W_out).all()


@pytest.mark.parametrize("method", word2vec.METHODS)
def test_documents_of_one_word_change_nothing(method):
    text, options = make_text((1, 0, 1), 30), make_options(5, 5, 30)
    W_in, W_out = make_model(30, 20)
    before = W_in.copy(), W_out.copy()
    word2vec.train(method, text, options, W_in, W_out)
    np.testing.assert_array_equal(W_in, before[0])
    np.testing.assert_array_equal(W_out, before[1])


def test_the_loss_is_minus_the_logarithm_of_the_sigmoids():
    W_in, W_out = (W * 9 for W in make_model(30, 20))
    pairs, negatives = np.arange(12).reshape(6, 2), np.arange(18).reshape(6, 3)
    products = W_out.astype(float) @ W_in.astype(float).T
    held = [(products[t, i], 1) for t, i in pairs] + [
        (products[k, i], -1) for (_, i), others in zip(pairs, negatives, strict=True) for k in others
    ]
    wanted = -sum(np.log(1 / (1 + np.exp(-x * sign))) for x, sign in held)
    assert word2vec.loss(W_in, W_out, pairs, negatives) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("length", [2, 5, 18, 100])
def test_words_of_short_documents_have_as_many_negatives_per_context_as_those_of_long_ones(length):
    window, negative = 5, 5
    options = make_options(window, negative, 30)
    contexts = [len(naive.word2vec_context(range(length), i, r)) for i in range(length) for r in range(1, window + 1)]
    found = 0
    for head in range(0, length, MINIBATCH):
        tail = min(head + MINIBATCH, length)
        found += number_of_negatives(head, tail, length, options) * (tail - head)
    assert found == pytest.approx(negative * np.mean(contexts) * length, rel=0.03)
