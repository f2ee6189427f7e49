"""pSGNScc, which quality.py compares with, against a simple implementation of its batches and updates."""

import numpy as np
import pytest
from corpusmill.kernels import random
from helpers.naive import splitmix

from benchmarks.word2vec import psgnscc

WINDOW = 3
NEGATIVE = 2
N_WORDS = 12
ALPHA = 0.2
TABLE = np.arange(N_WORDS, dtype=np.uint32).repeat(3)


def options(keep=1.0, epochs=1):
    return psgnscc.Options(WINDOW, NEGATIVE, np.full(N_WORDS, keep, np.float32), TABLE, ALPHA, epochs, 5)


def vectors(rng):
    return [rng.normal(0, 0.3, (N_WORDS, 8)).astype(np.float32) for _ in range(2)]


def simple_batches(sentences, keys):
    """Return the inputs, their labels, the outputs and how often each was drawn, batch by batch."""
    places = [(sentence, i) for sentence in sentences for i in range(len(sentence))]
    waiting = set(range(len(places)))

    def inputs_of(position):
        sentence, i = places[position]
        reach = WINDOW - splitmix(keys[0], position) % WINDOW
        waiting.discard(position)
        return [word for c, word in enumerate(sentence) if 0 < abs(c - i) <= reach]

    batches = []
    for position, (sentence, i) in enumerate(places):
        if position not in waiting:
            continue
        outputs = {sentence[i]: 1}
        windows = [(inputs_of(position), 0)]
        if not windows[0][0]:
            continue
        for k in range(NEGATIVE):
            word = int(TABLE[splitmix(keys[1], position * NEGATIVE + k) % len(TABLE)])
            outputs[word] = outputs.get(word, 0) + (word != sentence[i])
        found = True
        while found:
            found = False
            for o, word in enumerate(outputs):
                later = [p for p in sorted(waiting) if p > position and places[p][0][places[p][1]] == word]
                if later and len(windows) < psgnscc.WINDOWS:
                    windows.append((inputs_of(later[0]), o))
                    found = True
        pairs = [(word, o) for inputs, o in windows for word in inputs]
        batches.append((pairs, outputs, position))
    return batches


def simple_training(sentences, keys, W_in, W_out):
    n = sum(map(len, sentences))
    for pairs, outputs, position in simple_batches(sentences, keys):
        alpha = ALPHA * (1 - position / n * (1 - psgnscc.LAST_RATE))
        moves = []
        for row, label in pairs:
            for o, (word, count) in enumerate(outputs.items()):
                error = (o == label) - 1 / (1 + np.exp(-(W_in[row] @ W_out[word])))
                moves.append((row, word, alpha * count * error))
        before = W_in.copy(), W_out.copy()
        for row, word, g in moves:
            W_in[row] += g * before[1][word]
            W_out[word] += g * before[0][row]


@pytest.mark.slow
def test_batches_and_updates_are_those_of_the_simple_implementation():
    rng = np.random.default_rng(0)
    words = rng.integers(0, N_WORDS, 150)
    ptr = np.array([0, 1, 40, 40, 100, 150])
    W_in, W_out = vectors(rng)
    expected = W_in.astype(float), W_out.astype(float)
    sentences = [words[first:last].tolist() for first, last in zip(ptr, ptr[1:], strict=False)]
    keys = [int(random.key(5, 0, 0, number)) for number in (1, 2)]
    simple_training(sentences, keys, *expected)
    psgnscc.train(psgnscc.Text(ptr, words.astype(np.uint32)), options(), W_in, W_out)
    for found, wanted in zip((W_in, W_out), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.slow
def test_a_part_of_the_text_ends_sentences_and_drops_words(monkeypatch):
    rng = np.random.default_rng(1)
    words = rng.integers(0, N_WORDS, 300).astype(np.uint32)
    text = psgnscc.Text(np.array([0, 120, 300]), words)
    keep = options(0.5).keep
    kept, bounds, last = psgnscc.kept_words(text, keep, 0, 50, random.key(1))
    expected = [i for i in range(300) if splitmix(int(random.key(1)), i) >> 40 < 0.5 * 2**24][:50]
    assert last == expected[-1] + 1
    assert kept.tolist() == words[expected].tolist()
    border = sum(i < 120 for i in expected)
    assert bounds.tolist() == [[0, border]] * border + [[border, 50]] * (50 - border)
    monkeypatch.setattr(psgnscc, "PART", 50)
    trained = vectors(np.random.default_rng(2))
    before = [W.copy() for W in trained]
    psgnscc.train(text, options(0.5, epochs=2), *trained)
    assert all(np.abs(W - old).max() > 0.01 for W, old in zip(trained, before, strict=True))
