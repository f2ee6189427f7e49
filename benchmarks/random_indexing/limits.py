"""How random indexing scales with threads, and how far it is from what the machine allows."""

from statistics import median

import click
import numba
import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import contexts as ri_contexts
from corpusmill.kernels.random_indexing import text as ri_text

from benchmarks.common import fastest_cpu_seconds, print_row
from benchmarks.random_indexing.systems import RADIUS, WINDOW, in_threads, ours, parts_of, sweep
from benchmarks.random_indexing.texts import encode


@click.command()
@click.option("--corpus", "names", multiple=True, default=["kjv", "wikipedia"])
@click.option("--dimension", default=2048)
@click.option("--seed-length", default=10)
@click.option("--tokens", default=20_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--repeats", default=5)
@click.pass_obj
def cores(session, names, dimension, seed_length, tokens, repeats):
    """Sweeps by the clock on two threads against one, on the same chunks of up to a million tokens.

    The results of sweeps are dropped, as training does when it has merged them. The last column includes the last
    addition, which one thread does.
    """
    print_row("corpus", "M/s, one thread", "M per CPU-s", "M/s, two", "ratio", "two, with sum")
    for name in names:
        text = encode(session, name, tokens)
        n_chunks = 2 * -(-len(text.ids) // 2_000_000)
        chunks = [make_chunk(0, *part) for part in parts_of(text, n_chunks)]
        arguments = [(chunk, text, dimension, seed_length // 2) for chunk in chunks]
        seconds = {"one": [], "cpu": [], "two": [], "whole": []}
        for _ in range(1 if session.quick else repeats):
            _, wall, cpu = in_threads(sweep_and_drop, arguments, 1)
            seconds["one"].append(wall)
            seconds["cpu"].append(cpu)
            seconds["two"].append(in_threads(sweep_and_drop, arguments, 2)[1])
            seconds["whole"].append(ours(chunks, text, dimension, seed_length // 2)[1])
        one, cpu, two, whole = (len(text.ids) / median(found) / 1e6 for found in seconds.values())
        print_row(name, one, cpu, two, two / one, whole)


def sweep_and_drop(*arguments) -> None:
    """Sweep a chunk, and free the result."""
    sweep(*arguments)


@numba.njit(nogil=True, cache=True)
def scattered(positions, row):
    """Add 1 at random positions of one row."""
    for position in positions:
        row[position] += 1


@click.command()
@click.option("--corpus", "name", default="kjv")
@click.option("--dimension", default=2048)
@click.option("--seed-length", default=10)
@click.option("--tokens", default=2_000_000, help="Maximum number of tokens of the corpus.")
@click.pass_obj
def roof(session, name, dimension, seed_length, tokens):
    """The sweep of a chunk on one thread, against the time that its additions and its new memory take at least."""
    text = encode(session, name, tokens)
    chunk = make_chunk(0, *parts_of(text)[0])
    by_word = ri_text.prepare_tokens(chunk, np.ones(len(text.words), bool), RADIUS)
    frequent = text.frequency[by_word.ids] > ri_contexts.most_occurrences(WINDOW, dimension)
    pieces = ri.cut_pieces(by_word.occurrence_ptr)
    pieces = pieces[frequent[pieces[:, 0]]]
    # Different neighbours, per piece of a word's occurrences and per offset.
    distinct = ri._list_neighbours(by_word, pieces, WINDOW, 0, len(by_word.ids)).ptr[-1]
    occurrences = (pieces[:, 2] - pieces[:, 1]).sum()
    counted = (len(WINDOW.offsets) * occurrences + distinct * seed_length) / len(chunk.words)
    positions = np.random.default_rng(0).integers(0, dimension, 1 << 16).astype(np.uint32)
    line = np.zeros(dimension, np.int16)
    an_add = 1e9 * fastest_cpu_seconds(lambda: scattered(positions, line)) / len(positions)
    memory = 1e9 * fastest_cpu_seconds(lambda: np.ones((len(pieces), dimension), np.int16)) / len(chunk.words)
    ours_ = 1e9 * fastest_cpu_seconds(lambda: sweep(chunk, text, dimension, seed_length // 2)) / len(chunk.words)
    print_row("adds, plain", "adds, counted", "ns an add", "ns of memory", "roof, ns", "ours, ns", "share")
    bound = counted * an_add + memory
    print_row(len(WINDOW.offsets) * seed_length, counted, an_add, memory, bound, ours_, bound / ours_)
