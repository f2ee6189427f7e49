"""Word2Vec on a device against the CPU: one block at a time, the same updates in the same order."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec
from corpusmill.kernels.word2vec import skip_gram as cpu
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus


@pytest.fixture(autouse=True)
def _few_blocks():
    # One block, so that updates come in the CPU's order on a device too.
    with mock.patch.object(word2vec, "BLOCKS", 1):
        yield


def train(method, text, options, W_in, W_out):
    word2vec.train(method, text, options, W_in, W_out)
    RESIDENTS.bring_back([W_in, W_out])


def small_case(lengths, window=3, negative=2, n_words=9):
    rng = np.random.default_rng(4)
    ptr = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    words = np.minimum(rng.geometric(0.2, ptr[-1]) - 1, n_words - 1).astype(np.uint32)
    text = Text(ptr, words, np.cumsum(rng.integers(1, 3, ptr[-1])).astype(np.uint32))
    table = negative_table(np.arange(n_words, 0, -1), 0.75, 64, random.key(5))
    step = TrainingOptions(window, negative, table, random.key(6), random.key(7), 0.05, 1e-3, 0.02)
    return text, step, [rng.normal(0, 0.3, (n_words, 64)).astype(np.float32) for _ in range(2)]


@on_device
@pytest.mark.parametrize("method", ["full", "par"])
@pytest.mark.parametrize(("window", "negative", "minibatch"), [(3, 2, 24), (2, 4, 8), (2, 14, 24)])
def test_rows_equal_those_of_the_cpu(method, window, negative, minibatch):
    # With 14 negatives, PAR-Word2Vec needs two passes over the negatives of a mini-batch.
    text, step, W = small_case((5, 1, 0, 2, 27), window, negative)
    step = step._replace(minibatch=minibatch)
    expected, found = [a.copy() for a in W], [a.copy() for a in W]
    cpu.train(method, text, step, *expected)
    with mock.patch.object(word2vec, "STRETCH", 1):
        train(method, text, step, *found)
    for a, b, old in zip(found, expected, W, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        assert np.abs(a - old).max() > 1e-2


@on_device
@pytest.mark.parametrize("method", ["full", "par"])
def test_blocks_side_by_side_lose_no_change(method):
    # Documents without common words and negatives change different rows, so any number of blocks gives the same result.
    text, step, W = small_case((4, 4, 4), negative=0)
    text = text._replace(words=np.array([0, 1, 2, 0, 3, 4, 5, 3, 6, 7, 8, 6], np.uint32))
    expected, found = [a.copy() for a in W], [a.copy() for a in W]
    cpu.train(method, text, step, *expected)
    with mock.patch.object(word2vec, "BLOCKS", 3):
        train(method, text, step, *found)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@on_device
@pytest.mark.parametrize("method", ["full", "par"])
def test_vectors_too_large_for_shared_memory_are_refused(method):
    text, step, W = small_case((4,))
    with (
        mock.patch.object(word2vec, "shared_memory_limit", return_value=1000),
        pytest.raises(
            ValueError, match=r"64 columns, window 3, 2 negatives and mini-batches of 24 words take .* bytes"
        ),
    ):
        word2vec.train(method, text, step, *W)


def test_stretches_cover_every_word_once():
    long = word2vec.STRETCH * 8
    found = word2vec.cut_stretches(np.array([0, 0, 5, long + 5, 3 * long]), 8)
    assert found[:, 2:].tolist() == [[0, 5], [5, long + 5], [long + 5, 2 * long + 5], [2 * long + 5, 3 * long]]
    assert found[:, :2].tolist() == [[0, 5], [5, long + 5], [long + 5, 3 * long], [long + 5, 3 * long]]


@on_device
@pytest.mark.parametrize("method", ["full", "par"])
def test_training_on_a_device_equals_training_on_the_cpu(method, tmp_path):
    from corpusmill import Word2Vec

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=1, documents=3, length=6)
    found, expected = (
        Word2Vec(8, 2, min_count=1, negative=2, sample=0, epochs=1, method=method, device=device).fit(corpus)
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(found.wv.vectors, expected.wv.vectors, atol=1e-5)
