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
from corpusmill.kernels.word2vec.pairs import join_cells, split_pairs
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
    W_in[:] = first_vectors(np.arange(len(text.vocabulary)), parameters.dimension, key)
    W_out = empty_rows(len(text.vocabulary), parameters.dimension)
    W_out[:] = 0
    return W_in, W_out, keep_probability(text.frequency, parameters.sample)


def train_in_order(text, parameters, method, sweep=skip_gram.train, after_epoch=None):
    """Train in the order of the text with one of the methods of skip_gram.train.

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
            options = skip_gram.TrainingOptions(
                parameters.window, parameters.negative, table, *keys, alpha, slope, parameters.min_alpha
            )
            sweep(method, kept, options, W_in, W_out)
            done += len(tokens)
        seconds += time.process_time() - began
        if after_epoch is not None:
            after_epoch(W_in, seconds)
    return Trained(W_in, W_out, seconds)


class Strata:
    """Training in strata of cells: ``rounds`` rounds, each over an equal part of the chunks of all epochs."""

    def __init__(self, text, parameters, n_blocks, rounds, threads=1):
        self.text, self.parameters, self.P = text, parameters, n_blocks
        self.rounds = rounds
        self.pool = ThreadPoolExecutor(threads)
        seed = parameters.seed
        self.W_in, self.W_out, self.keep = start(text, parameters)
        mass = text.frequency * self.keep.astype(np.float64)
        self.dealing = arrange(deal(mass, n_blocks, random.key(seed, DEALING)), n_blocks)
        self.negatives = block_negatives(
            self.dealing, text.frequency, self.keep, 0.75, BLOCK_TABLE, random.key(seed, TABLES)
        )
        bounds = self.dealing.bounds
        self.rows = [slice(bounds[b], bounds[b + 1]) for b in range(n_blocks)]
        self.blocks_in = self.W_in[self.dealing.order]
        self.blocks_out = self.W_out[self.dealing.order]
        self.total = parameters.epochs * len(text.tokens)
        self.slope = (parameters.alpha - parameters.min_alpha) / self.total
        self.done = 0
        self.step = 0
        self.seconds = {"pairs": 0.0, "cells": 0.0, "cells, wall": 0.0}

    def train(self):
        """Train all epochs and return the vectors in the order of the words."""
        began = time.process_time()
        for epoch in range(self.parameters.epochs):
            for chunks in self._rounds_of_epoch():
                self._train_round(epoch, chunks)
        cpu = time.process_time() - began
        self.W_in[self.dealing.order] = self.blocks_in
        self.W_out[self.dealing.order] = self.blocks_out
        return Trained(self.W_in, self.W_out, cpu, self.seconds)

    def _rounds_of_epoch(self):
        """Yield lists of (number, ptr, tokens) of the chunks of each round."""
        size = -(-self.total // self.rounds)
        chunks = []
        tokens_of_round = 0
        for number, (ptr, tokens) in enumerate(self.text.chunks(min(self.parameters.chunk_tokens, size))):
            chunks.append((number, ptr, tokens))
            tokens_of_round += len(tokens)
            if tokens_of_round >= size:
                yield chunks
                chunks, tokens_of_round = [], 0
        if chunks:
            yield chunks

    def _train_round(self, epoch, chunks):
        clock = time.process_time()
        split = []
        for number, ptr, tokens in chunks:
            keys = [random.key(self.parameters.seed, stream, epoch, number) for stream in (SUBSAMPLING, WINDOWS)]
            places, window = self.dealing.places, self.parameters.window
            whole = np.array([0, len(ptr) - 1])
            pairs, counts = split_pairs(ptr, whole, tokens, places, self.keep, window, *keys, self.P)
            split.append((pairs, np.r_[0, np.cumsum(counts)]))
        tokens_of_round = sum(len(tokens) for _, _, tokens in chunks)
        self.seconds["pairs"] += time.process_time() - clock
        clock, wall = time.process_time(), time.perf_counter()
        for s in range(self.P):
            cells = [(i, (i + s) % self.P, s) for i in range(self.P)]
            list(self.pool.map(lambda cell: self._train_cell(*cell, split, tokens_of_round), cells))
        self.seconds["cells"] += time.process_time() - clock
        self.seconds["cells, wall"] += time.perf_counter() - wall
        self.done += tokens_of_round
        self.step += 1

    def _train_cell(self, i, j, s, split, tokens_of_round):
        """Train cell (i, j) of stratum s; the learning rate falls within the round and within the cell."""
        number = i * self.P + j
        segments = [pairs[ends[number] : ends[number + 1]] for pairs, ends in split]
        counts = np.array([[len(segment)] for segment in segments])
        passes = np.zeros(len(segments), np.int64)
        pairs, _ = join_cells(np.concatenate(segments), counts, passes, 1, self.rows[i].stop - self.rows[i].start)
        options = CellOptions(
            self.parameters.negative,
            self.negatives.weights[j],
            self.negatives.heaviest[j],
            self.parameters.alpha - self.slope * (self.done + tokens_of_round * s / self.P),
            self.slope * tokens_of_round / self.P / max(1, len(pairs)),
            self.parameters.min_alpha,
            random.key(self.parameters.seed, NEGATIVES, self.step, i, j),
        )
        train_cell(
            self.blocks_in[self.rows[i]], self.blocks_out[self.rows[j]], pairs, self.negatives.tables[j], options
        )
