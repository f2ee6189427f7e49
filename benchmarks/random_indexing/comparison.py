"""Speed of random indexing against a plain loop and matrix products, from sparse and from dense seeds."""

from pathlib import Path
from statistics import median

import click
import numpy as np
import scipy.sparse
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import text as ri_text

from benchmarks.common import print_row
from benchmarks.random_indexing.systems import (
    RADIUS,
    SALT,
    dense_product,
    in_threads,
    ours,
    ours_dense,
    parts_of,
    plain_dense_loop,
    plain_loop,
    sparse_product,
)
from benchmarks.random_indexing.texts import Text, encode

SYSTEMS = ("corpusmill", "plain loop", "sparse product")


def one_sparse(text: Text, dimension: int, seed_length: int, systems: list[str], repeats: int) -> dict:
    """Return the median seconds and CPU-seconds of each system; all must have the same sums."""
    packed = ri_text.make_seeds(text.hashes, SALT, dimension, seed_length // 2)
    positions = np.concatenate([packed & 0xFFFF, packed >> 16], axis=1).astype(np.int64)
    signs = np.repeat(np.array([1, -1], np.int32), seed_length // 2)
    indptr = np.arange(0, positions.size + 1, seed_length)
    S = scipy.sparse.csr_array((np.tile(signs, len(positions)), positions.ravel(), indptr), (len(positions), dimension))
    parts = parts_of(text)
    V = len(text.words)
    chunks = [make_chunk(0, *part) for part in parts]

    def run_ours():
        T, wall, cpu = ours(chunks, text, dimension, seed_length // 2)
        return lambda: T, wall, cpu

    def run_loop():
        Ts = [np.zeros((V, dimension), np.int32) for _ in parts]
        arguments = [(*p, positions, signs, RADIUS, T) for p, T in zip(parts, Ts, strict=True)]
        _, wall, cpu = in_threads(plain_loop, arguments)
        return lambda: sum(Ts), wall, cpu

    def run_product():
        (T,), wall, cpu = in_threads(sparse_product, [(text, S)], threads=1)
        return lambda: T, wall, cpu

    return race(dict(zip(SYSTEMS, (run_ours, run_loop, run_product), strict=True)), systems, repeats)


def sum_of_chunks(results, V: int, dimension: int) -> np.ndarray:
    """Add the rows of all chunks into one matrix (V, dimension)."""
    T = np.zeros((V, dimension), results[0][1].dtype)
    for ids, rows in results:
        T[ids] += rows
    return T


def race(runs: dict, systems: list[str], repeats: int) -> dict:
    """Run the systems in turn and compare their results; return the median seconds and CPU-seconds of each."""
    seconds = {name: [] for name in systems}
    first = None
    for turn in range(repeats + 1):  # the first turn compiles and warms up
        for name in systems:
            result, wall, cpu = runs[name]()
            if turn:
                seconds[name].append((wall, cpu))
            else:
                T = result()
                if first is None:
                    first = T
                # Sums of integers are equal bit for bit.
                tolerance = 0 if T.dtype == np.int32 else 1e-3
                np.testing.assert_allclose(T, first, rtol=tolerance, atol=tolerance * np.abs(first).max())
    return {name: [median(s[i] for s in found) for i in (0, 1)] for name, found in seconds.items()}


def print_table(session, name: str, text: Text, dimension: int, seed_length: int, found: dict) -> None:
    """Print one comparison and add it to the figures."""
    clock = cycles_per_second()
    for system, (wall, cpu) in found.items():
        tokens = len(text.ids)
        ratio = cpu / found["corpusmill"][1]
        print_row(name, str(dimension), str(seed_length), system, tokens / wall / 1e6, tokens / cpu / 1e6, ratio)
        session.figures[f"{name} {dimension} {seed_length} {system}"] = {
            "tokens_per_second": tokens / wall,
            "tokens_per_cpu_second": tokens / cpu,
            "cycles_per_token": clock * cpu / tokens,
            "cpu_seconds_of_ours": 1 / ratio,
        }


def cycles_per_second() -> float:
    """Return the clock rate that the operating system states."""
    lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("cpu MHz")]
    return float(lines[0].split(":")[1]) * 1e6


TITLES = ("corpus", "dimension", "seed length", "system", "M tokens/s", "M per CPU-s", "CPU to ours")


@click.command()
@click.option("--corpus", "names", multiple=True, default=["kjv", "wikipedia"])
@click.option("--dimension", "dimensions", multiple=True, type=int, default=[256, 512, 1024, 2048, 4096])
@click.option("--seed-length", "lengths", multiple=True, type=int, default=[10, 100])
@click.option("--tokens", default=2_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--repeats", default=3)
@click.option("--system", "systems", multiple=True, default=SYSTEMS)
@click.pass_obj
def sparse(session, names, dimensions, lengths, tokens, repeats, systems):
    """Training from sparse seeds (Figure 7.1 of the paper), two threads; the systems take turns."""
    print_row(*TITLES)
    for name in names:
        text = encode(session, name, tokens)
        for dimension in dimensions:
            for length in lengths:
                found = one_sparse(text, dimension, length, systems, 1 if session.quick else repeats)
                print_table(session, name, text, dimension, length, found)


def one_dense(text: Text, dimension: int, systems: list[str], repeats: int) -> dict:
    """Return the median seconds and CPU-seconds of each system for one pass of retraining."""
    V = len(text.words)
    parts = parts_of(text)
    S = ri.normalised(np.random.default_rng(0).normal(size=(V, dimension)).astype(np.float32))
    chunks = [make_chunk(0, *part) for part in parts]

    def run_ours():
        results, wall, cpu = in_threads(ours_dense, [(c, V, S) for c in chunks])
        return lambda: sum_of_chunks(results, V, dimension), wall, cpu

    def run_loop():
        Ts = [np.zeros((V, dimension), np.float32) for _ in parts]
        _, wall, cpu = in_threads(plain_dense_loop, [(*p, S, RADIUS, T) for p, T in zip(parts, Ts, strict=True)])
        return lambda: sum(Ts), wall, cpu

    def run_product():
        (T,), wall, cpu = in_threads(dense_product, [(text, S)], threads=1)
        return lambda: T, wall, cpu

    return race(dict(zip(SYSTEMS, (run_ours, run_loop, run_product), strict=True)), systems, repeats)


@click.command()
@click.option("--corpus", "names", multiple=True, default=["kjv"])
@click.option("--dimension", "dimensions", multiple=True, type=int, default=[256, 512, 1024, 2048, 4096])
@click.option("--tokens", default=1_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--repeats", default=1)
@click.option("--system", "systems", multiple=True, default=SYSTEMS)
@click.pass_obj
def dense(session, names, dimensions, tokens, repeats, systems):
    """Retraining from the rows of the last pass (Figure 7.2 of the paper), two threads; the systems take turns."""
    print_row(*TITLES)
    for name in names:
        text = encode(session, name, tokens)
        for dimension in dimensions:
            found = one_dense(text, dimension, systems, repeats)
            print_table(session, name, text, dimension, dimension, found)
