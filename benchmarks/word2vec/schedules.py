"""Train skip-gram in one process without the engine: in the order of the text, and in strata of cells.

Both take a `Sentences` and parameters, and return W_in (V, D) float32 in the order of the words.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram
from corpusmill.kernels.word2vec.cells import CellOptions, train_cell
from corpusmill.kernels.word2vec.dealing import arrange, block_negatives, deal
from corpusmill.kernels.word2vec.pairs import prepare_cell, split_pairs
from corpusmill.kernels.word2vec.text import empty_rows, first_vectors, keep_probability, negative_table, subsample

#: Addresses of the streams of draws, after the seed.
VECTORS, SUBSAMPLING, WINDOWS, NEGATIVES, TABLES, DEALING = range(6)
#: Entries of a block's table of negatives.
BLOCK_TABLE = 1 << 15
#: Entries of the table of negatives of the whole vocabulary.
TABLE = 1 << 20


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


@dataclass
class Trained:
    """The vectors of a training, and the CPU-seconds that it took."""

    W_in: np.ndarray
    W_out: np.ndarray
    cpu_seconds: float
    parts: dict = field(default_factory=dict)


def start(text, parameters):
    """Return the first W_in and W_out (V, D) float32 and the keep probabilities."""
    key = random.key(parameters.seed, VECTORS)
    W_in = empty_rows(len(text.vocabulary), parameters.dimension)
    W_in[:] = first_vectors(len(text.vocabulary), parameters.dimension, key)
    W_out = empty_rows(len(text.vocabulary), parameters.dimension)
    W_out[:] = 0
    return W_in, W_out, keep_probability(text.frequency, parameters.sample)


def train_in_order(text, parameters, method):
    """Train in the order of the text with one of the methods of skip_gram.train."""
    seed, epochs = parameters.seed, parameters.epochs
    W_in, W_out, keep = start(text, parameters)
    table = negative_table(text.frequency, 0.75, TABLE, random.key(seed, TABLES))
    slope = (parameters.alpha - parameters.min_alpha) / (epochs * len(text.tokens))
    done = 0
    began = time.process_time()
    for epoch in range(epochs):
        for chunk, (ptr, tokens) in enumerate(text.chunks(parameters.chunk_tokens)):
            kept = subsample(ptr, tokens, keep, random.key(seed, SUBSAMPLING, epoch, chunk))
            keys = [random.key(seed, stream, epoch, chunk) for stream in (WINDOWS, NEGATIVES)]
            alpha = parameters.alpha - slope * done
            options = skip_gram.TrainingOptions(
                parameters.window, parameters.negative, table, *keys, alpha, slope, parameters.min_alpha
            )
            skip_gram.train(method, kept, options, W_in, W_out)
            done += len(tokens)
    return Trained(W_in, W_out, time.process_time() - began)


def train_strata(text, parameters, n_blocks, rounds, threads=1):
    """Train in ``rounds`` rounds of ``n_blocks`` strata; a round has an equal part of each epoch's chunks."""
    seed, epochs, P = parameters.seed, parameters.epochs, n_blocks
    W_in, W_out, keep = start(text, parameters)
    mass = text.frequency * keep.astype(np.float64)
    dealing = arrange(deal(mass, P, random.key(seed, DEALING)), P)
    negatives = block_negatives(dealing, text.frequency, keep, 0.75, BLOCK_TABLE, random.key(seed, TABLES))
    rows = [slice(dealing.bounds[b], dealing.bounds[b + 1]) for b in range(P)]
    model = W_in[dealing.order], W_out[dealing.order]
    total = epochs * len(text.tokens)
    round_tokens = -(-total // rounds)
    done = 0
    parts = {"pairs": 0.0, "cells": 0.0}
    wall = {"pairs": 0.0, "cells": 0.0}
    pool = ThreadPoolExecutor(threads)
    began = time.process_time()
    step = 0
    for epoch in range(epochs):
        chunks = list(enumerate(text.chunks(min(parameters.chunk_tokens, round_tokens))))
        position = 0
        while position < len(chunks):
            clock, wall_clock = time.process_time(), time.perf_counter()
            split = []
            tokens_of_round = 0
            while position < len(chunks) and tokens_of_round < round_tokens:
                chunk, (ptr, tokens) = chunks[position]
                keys = [random.key(seed, stream, epoch, chunk) for stream in (SUBSAMPLING, WINDOWS)]
                pairs, counts = split_pairs(ptr, tokens, dealing.places, keep, parameters.window, *keys, P)
                split.append((pairs, np.r_[0, np.cumsum(counts)]))
                tokens_of_round += len(tokens)
                position += 1
            parts["pairs"] += time.process_time() - clock
            wall["pairs"] += time.perf_counter() - wall_clock
            clock, wall_clock = time.process_time(), time.perf_counter()
            per_token = (parameters.alpha - parameters.min_alpha) / total

            def train(i, s, split=split, tokens=tokens_of_round, done=done, step=step, per_token=per_token):
                j = i ^ s
                cell = i * P + j
                pairs = prepare_cell(
                    [p[ends[cell] : ends[cell + 1]] for p, ends in split], rows[i].stop - rows[i].start
                )
                options = CellOptions(
                    parameters.negative,
                    negatives.weights[j],
                    negatives.heaviest[j],
                    parameters.alpha - per_token * (done + tokens * s / P),
                    per_token * tokens / P / max(1, len(pairs)),
                    parameters.min_alpha,
                    random.key(seed, NEGATIVES, step, i, j),
                )
                train_cell(model[0][rows[i]], model[1][rows[j]], pairs, negatives.tables[j], options)

            for s in range(P):
                if threads == 1:
                    for i in range(P):
                        train(i, s)
                else:
                    list(pool.map(lambda i, s=s: train(i, s), range(P)))
            parts["cells"] += time.process_time() - clock
            wall["cells"] += time.perf_counter() - wall_clock
            done += tokens_of_round
            step += 1
    cpu = time.process_time() - began
    W_in[dealing.order], W_out[dealing.order] = model
    return Trained(W_in, W_out, cpu, parts | {f"{name} wall": seconds for name, seconds in wall.items()})
