"""How random indexing scales with threads, and how far it is from what the machine allows."""

import time
from statistics import median

import click
import numba
import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import text as ri_text

from benchmarks.common import print_row
from benchmarks.random_indexing.systems import RADIUS, halves, in_threads, ours
from benchmarks.random_indexing.texts import encode


@click.command()
@click.option("--corpus", "names", multiple=True, default=["kjv", "wikipedia"])
@click.option("--dimension", default=2048)
@click.option("--seed-length", default=10)
@click.option("--tokens", default=2_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--repeats", default=7)
@click.pass_obj
def cores(session, names, dimension, seed_length, tokens, repeats):
    """Seconds by the clock on two threads against one, on the same two chunks."""
    print_row("corpus", "M/s, one thread", "M/s, two", "ratio")
    for name in names:
        text = encode(session, name, tokens)
        chunks = [(make_chunk(0, *part), text, dimension, seed_length // 2) for part in halves(text)]
        seconds = {1: [], 2: []}
        for _ in range(1 if session.quick else repeats):
            for threads, found in seconds.items():
                found.append(in_threads(ours, chunks, threads)[1])
        one, two = (len(text.ids) / median(found) / 1e6 for found in seconds.values())
        print_row(name, one, two, two / one)


@numba.njit(nogil=True, cache=True)
def scattered(positions, row):
    """Add 1 at random positions of one row."""
    for position in positions:
        row[position] += 1


def fastest(function, repeats: int = 5) -> float:
    """Return the CPU-seconds of the fastest of several calls."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


@click.command()
@click.option("--corpus", "name", default="kjv")
@click.option("--dimension", default=2048)
@click.option("--seed-length", default=10)
@click.option("--tokens", default=2_000_000, help="Maximum number of tokens of the corpus.")
@click.pass_obj
def roof(session, name, dimension, seed_length, tokens):
    """Training on one thread, against the time that its additions and its new memory take at least."""
    text = encode(session, name, tokens)
    chunk, window = make_chunk(0, *halves(text)[0]), ri_text.make_window(RADIUS, "permutation")
    by_word = ri_text.prepare_tokens(chunk, np.ones(len(text.words), bool), RADIUS)
    # Different neighbours, per piece of a word's occurrences and per offset.
    distinct = ri._list_neighbours(by_word, ri.cut_pieces(by_word.occurrence_ptr), window, 0, len(by_word.ids)).ptr[-1]
    counted = len(window.offsets) + distinct * seed_length / len(chunk.words)
    positions = np.random.default_rng(0).integers(0, dimension, 1 << 16).astype(np.uint32)
    line = np.zeros(dimension, np.int32)
    an_add = 1e9 * fastest(lambda: scattered(positions, line)) / len(positions)
    shape = (len(by_word.ids), dimension)
    memory = 1e9 * fastest(lambda: np.ones(shape, np.int32)) / len(chunk.words)
    ours_ = 1e9 * fastest(lambda: ours(chunk, text, dimension, seed_length // 2)) / len(chunk.words)
    print_row("adds, plain", "adds, counted", "ns an add", "ns of memory", "roof, ns", "ours, ns", "share")
    bound = counted * an_add + memory
    print_row(len(window.offsets) * seed_length, counted, an_add, memory, bound, ours_, bound / ours_)
