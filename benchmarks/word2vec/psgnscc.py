"""pSGNScc: windows of a text whose targets are each other's negatives are trained as one batch.

A window has the neighbours of one word, its target. Negatives are drawn for a target, and become the outputs of a batch
together with it. Then the batch takes later windows whose target is one of the outputs, until it has WINDOWS windows.
Each input has label 1 for the target of its own window, and label 0 for all other outputs. With the rows V of W_in and
the rows U of W_out, both with their old values:

    G = α counts (labels - σ(V Uᵀ)),    V += G U,    U += Gᵀ V

Source: Rengasamy et al., "Optimizing Word2Vec performance on multicore systems" (IA³ 2017), and the program that the
authors published, with its defaults: 8 windows, and parts of 500,000 words in which later windows are found. It runs in
one thread here. Loops that the compiler turns into vector code stand for the three calls of a library of matrix
products.

Test: tests/benchmarks/test_psgnscc.py compares it with a simple implementation.
"""

from typing import NamedTuple

import numba
import numpy as np
from corpusmill.kernels.random import draw, key, uniform

#: Most windows of a batch.
WINDOWS = 8
#: Kept words of a part of the text.
PART = 500_000
#: Beyond this product, the sigmoid is taken as 0 or 1.
SATURATED = 6.0
#: The learning rate ends with this share of its first value.
LAST_RATE = 1e-4


class Text(NamedTuple):
    """Sentences one after the other."""

    ptr: np.ndarray  # (S + 1,) int64: sentence s has the words ptr[s]:ptr[s + 1]
    words: np.ndarray  # (T,) uint32: rows of the matrices


class Options(NamedTuple):
    """How a text is trained."""

    window: int
    negative: int
    keep: np.ndarray  # (V,) float32: probability that a word is kept
    table: np.ndarray  # (any,) uint32: words, each as often as it is drawn as a negative
    alpha: float
    epochs: int
    seed: int


class Part(NamedTuple):
    """Kept words of a part of the text, with an index of their occurrences."""

    words: np.ndarray  # (n,) uint32
    bounds: np.ndarray  # (n, 2) int64: of the sentence of each word
    occurrences: np.ndarray  # (n,) int64: positions, word by word, ascending
    ends: np.ndarray  # (V + 1,) int64: word w has the occurrences ends[w]:ends[w + 1]
    following: np.ndarray  # (V,) int64: the occurrence of each word from which on some are not trained
    is_trained: np.ndarray  # (n,) bool


class Batch(NamedTuple):
    """Inputs and outputs that are trained together."""

    inputs: np.ndarray  # (any,) uint32: rows of W_in
    labels: np.ndarray  # (any,) int64: the output that has label 1, for each input
    outputs: np.ndarray  # (1 + negative,) uint32: rows of W_out, a target first
    counts: np.ndarray  # (1 + negative,) float32: how often each output was drawn
    sizes: np.ndarray  # (2,) int64: numbers of inputs and outputs


def train(text: Text, options: Options, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Train W_in and W_out (V, D) float32 in place."""
    most = WINDOWS * 2 * options.window
    batch = Batch(
        np.empty(most, np.uint32),
        np.empty(most, np.int64),
        np.empty(1 + options.negative, np.uint32),
        np.empty(1 + options.negative, np.float32),
        np.zeros(2, np.int64),
    )
    n_words = len(text.words) * options.epochs
    for epoch in range(options.epochs):
        position = 0
        while position < len(text.words):
            words, bounds, last = kept_words(text, options.keep, position, PART, key(options.seed, epoch))
            part = indexed(words, bounds, len(options.keep))
            rates = [
                options.alpha * max(1 - (epoch * len(text.words) + at) / n_words, LAST_RATE) for at in (position, last)
            ]
            keys = key(options.seed, epoch, position, 1), key(options.seed, epoch, position, 2)
            train_part(part, batch, options, np.array(rates), keys, W_in, W_out)
            position = last


@numba.njit(nogil=True, cache=True)
def kept_words(text, keep, first, most, subsampling_key):
    """Return up to ``most`` kept words from position ``first`` on, their sentences, and the position after them."""
    words = np.empty(most, np.uint32)
    bounds = np.empty((most, 2), np.int64)
    n = 0
    i = first
    sentence = np.searchsorted(text.ptr, first, side="right") - 1
    start = 0
    while i < len(text.words) and n < most:
        word = text.words[i]
        if uniform(subsampling_key, i) < keep[word]:
            words[n] = word
            n += 1
        i += 1
        if i == text.ptr[sentence + 1] or n == most:
            bounds[start:n, 0] = start
            bounds[start:n, 1] = n
            start = n
            while sentence + 1 < len(text.ptr) and text.ptr[sentence + 1] <= i:
                sentence += 1
    return words[:n], bounds[:n], i


@numba.njit(nogil=True, cache=True)
def indexed(words, bounds, n_words):
    """Return a part with the occurrences of each word."""
    ends = np.zeros(n_words + 1, np.int64)
    for word in words:
        ends[word + 1] += 1
    for w in range(n_words):
        ends[w + 1] += ends[w]
    following = ends[:-1].copy()
    occurrences = np.empty(len(words), np.int64)
    for i in range(len(words)):
        occurrences[following[words[i]]] = i
        following[words[i]] += 1
    return Part(words, bounds, occurrences, ends, ends[:-1].copy(), np.zeros(len(words), np.bool_))


@numba.njit(nogil=True, cache=True)
def train_part(part, batch, options, rates, keys, W_in, W_out):
    """Train all windows of a part. The learning rate falls from the first to the second of ``rates``."""
    window_key, negatives_key = keys
    n = len(part.words)
    G = np.empty((len(batch.inputs), len(batch.outputs)), np.float32)
    V = np.empty((len(batch.inputs), W_in.shape[1]), np.float32)
    for i in range(n):
        if part.is_trained[i]:
            continue
        batch.sizes[0] = 0
        add_window(part, i, 0, options.window, window_key, batch)
        if batch.sizes[0] == 0:
            continue
        draw_outputs(part.words[i], i, options, negatives_key, batch)
        combine_windows(part, i, options.window, window_key, batch)
        step(batch, np.float32(rates[0] + (rates[1] - rates[0]) * i / n), G, V, W_in, W_out)


@numba.njit(nogil=True, cache=True)
def add_window(part, i, output, window, window_key, batch):
    """Add the neighbours of the word at position i to the inputs. Their label is 1 for ``output``."""
    reach = window - np.int64(draw(window_key, i) % np.uint64(window))
    n = batch.sizes[0]
    for c in range(max(part.bounds[i, 0], i - reach), min(part.bounds[i, 1], i + reach + 1)):
        if c != i:
            batch.inputs[n] = part.words[c]
            batch.labels[n] = output
            n += 1
    batch.sizes[0] = n
    part.is_trained[i] = True


@numba.njit(nogil=True, cache=True)
def draw_outputs(target, i, options, negatives_key, batch):
    """Make the target and negatives the outputs of the batch. A word that is drawn twice counts twice."""
    batch.outputs[0] = target
    batch.counts[0] = 1
    n = 1
    for k in range(options.negative):
        index = draw(negatives_key, i * options.negative + k) % np.uint64(len(options.table))
        word = options.table[index]
        for o in range(n):
            if batch.outputs[o] == word:
                batch.counts[o] += o > 0
                break
        else:
            batch.outputs[n] = word
            batch.counts[n] = 1
            n += 1
    batch.sizes[1] = n


@numba.njit(nogil=True, cache=True)
def combine_windows(part, i, window, window_key, batch):
    """Add later windows whose target is one of the outputs: one for each output in turn."""
    n_windows = 1
    found = True
    while found and n_windows < WINDOWS:
        found = False
        for o in range(batch.sizes[1]):
            if n_windows == WINDOWS:
                break
            word = batch.outputs[o]
            at = part.following[word]
            while at < part.ends[word + 1] and (part.occurrences[at] <= i or part.is_trained[part.occurrences[at]]):
                at += 1
            part.following[word] = at
            if at < part.ends[word + 1]:
                add_window(part, part.occurrences[at], o, window, window_key, batch)
                n_windows += 1
                found = True


@numba.njit(nogil=True, cache=True, fastmath=True)
def step(batch, alpha, G, V, W_in, W_out):
    """Move the rows of all inputs and outputs, each by the old values of the others."""
    n_inputs, n_outputs = batch.sizes
    D = W_in.shape[1]
    for b in range(n_inputs):
        x = W_in[batch.inputs[b]]
        V[b] = x
        for o in range(n_outputs):
            u = W_out[batch.outputs[o]]
            product = np.float32(0)
            for d in range(D):
                product += x[d] * u[d]
            label = np.float32(batch.labels[b] == o)
            if product > SATURATED:
                error = label - np.float32(1)
            elif product < -SATURATED:
                error = label
            else:
                error = label - np.float32(1) / (np.float32(1) + np.exp(-product))
            G[b, o] = alpha * batch.counts[o] * error
    for b in range(n_inputs):
        x = W_in[batch.inputs[b]]
        for o in range(n_outputs):
            u = W_out[batch.outputs[o]]
            g = G[b, o]
            for d in range(D):
                x[d] += g * u[d]
    for o in range(n_outputs):
        u = W_out[batch.outputs[o]]
        for b in range(n_inputs):
            v = V[b]
            g = G[b, o]
            for d in range(D):
                u[d] += g * v[d]
