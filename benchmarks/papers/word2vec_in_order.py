"""Train skip-gram in one process without the engine, in the order of the text."""

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram
from corpusmill.kernels.word2vec.text import (
    MINIBATCH,
    TrainingOptions,
    empty_rows,
    first_vectors,
    keep_probability,
    negative_table,
    subsample,
)

from .kernels.sgns import train_sgns

#: Addresses of the streams of draws, after the seed.
VECTORS, SUBSAMPLING, WINDOWS, NEGATIVES, TABLES = range(5)
#: Entries of the table of negatives.
TABLE = 1 << 20
#: The token of a word that is not in the vocabulary.
UNKNOWN = 2**32 - 1


@dataclass
class Sentences:
    """A text: its words, the most frequent first, and its tokens as ranks of words, cut into sentences."""

    vocabulary: list[str]
    frequency: np.ndarray  # (V,) int64
    ptr: np.ndarray  # (S + 1,) int64
    tokens: np.ndarray  # (T,) uint32

    def chunks(self, size):
        """Yield (ptr, tokens) of consecutive whole sentences with about ``size`` tokens; ptr begins with 0."""
        first = 0
        while first < len(self.ptr) - 1:
            last = int(np.searchsorted(self.ptr, self.ptr[first] + size, "left"))
            last = min(max(last, first + 1), len(self.ptr) - 1)
            ptr = self.ptr[first : last + 1]
            yield ptr - ptr[0], self.tokens[ptr[0] : ptr[-1]]
            first = last


@dataclass
class Parameters:
    """Parameters of a training, with the names of Word2Vec."""

    dimension: int = 128
    window: int = 5
    negative: int = 5
    sample: float = 1e-3
    alpha: float = 0.025
    min_alpha: float = 0.0001
    epochs: int = 1
    seed: int = 1
    chunk_tokens: int = 1 << 20
    minibatch: int = MINIBATCH


@dataclass
class Trained:
    """The vectors of a training, and the CPU-seconds that it took."""

    W_in: np.ndarray
    W_out: np.ndarray
    cpu_seconds: float


def count_words(documents, min_count=5):
    """Return the text of documents, which are lists of words; rare words become tokens outside the vocabulary."""
    counts = Counter(word for document in documents for word in document)
    kept = [(-count, word) for word, count in counts.items() if count >= min_count]
    vocabulary = [word for _, word in sorted(kept)]
    rank = {word: r for r, word in enumerate(vocabulary)}
    tokens = np.array([rank.get(word, UNKNOWN) for document in documents for word in document], np.uint32)
    ptr = np.r_[0, np.cumsum([len(document) for document in documents])].astype(np.int64)
    return Sentences(vocabulary, np.array([counts[word] for word in vocabulary]), ptr, tokens)


def start(text, parameters):
    """Return the first W_in and W_out (V, D) float32 and the keep probabilities."""
    key = random.key(parameters.seed, VECTORS)
    W_in = empty_rows(len(text.vocabulary), parameters.dimension)
    W_in[:] = first_vectors(np.arange(len(text.vocabulary)), parameters.dimension, key)
    W_out = empty_rows(len(text.vocabulary), parameters.dimension)
    W_out[:] = 0
    return W_in, W_out, keep_probability(text.frequency, parameters.sample)


def train(method, text, options, W_in, W_out):
    """Train W_in and W_out in place on a text by "sgns", or by a method of `skip_gram.train`."""
    if method == "sgns":
        train_sgns(0, len(text.ptr) - 1, text, options, W_in, W_out)
    else:
        skip_gram.train(method, text, options, W_in, W_out)


def train_in_order(text, parameters, method, sweep=train, after_epoch=None):
    """Train in the order of the text with one of the methods of `train`.

    ``sweep`` replaces that function. ``after_epoch`` is called with W_in and the CPU-seconds of training so far.
    """
    seed, epochs = parameters.seed, parameters.epochs
    W_in, W_out, keep = start(text, parameters)
    table = negative_table(text.frequency, 0.75, TABLE, random.key(seed, TABLES))
    slope = (parameters.alpha - parameters.min_alpha) / (epochs * len(text.tokens))
    done = 0
    seconds = 0.0
    for epoch in range(epochs):
        began = time.process_time()
        for chunk, (ptr, tokens) in enumerate(text.chunks(parameters.chunk_tokens)):
            kept = subsample(ptr, tokens, keep, random.key(seed, SUBSAMPLING, epoch, chunk))
            keys = [random.key(seed, stream, epoch, chunk) for stream in (WINDOWS, NEGATIVES)]
            alpha = parameters.alpha - slope * done
            options = TrainingOptions(
                parameters.window,
                parameters.negative,
                table,
                *keys,
                alpha,
                slope,
                parameters.min_alpha,
                parameters.minibatch,
            )
            sweep(method, kept, options, W_in, W_out)
            done += len(tokens)
        seconds += time.process_time() - began
        if after_epoch is not None:
            after_epoch(W_in, seconds)
    return Trained(W_in, W_out, seconds)
