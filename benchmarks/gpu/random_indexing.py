"""Random indexing on a CUDA device."""

from functools import partial

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.random_indexing import accumulate as ri_cuda
from corpusmill.kernels.random_indexing import accumulate as ri_cpu
from corpusmill.kernels.random_indexing import text as ri_text

from benchmarks.gpu.data import random_documents
from benchmarks.gpu.measure import (
    copy_rate,
    kernel_seconds,
    print_row,
    report,
    shared_rate,
    to_host_after,
    wall_seconds,
)
from benchmarks.papers import random_indexing_passes


@click.command("random-indexing")
@click.option("--tokens", default=2_000_000)
@click.pass_obj
def random_indexing(session, tokens=2_000_000):
    """Random indexing, window 5: M tokens/s by word, in the passes of the paper, and retraining from dense vectors.

    For sparse seeds, an addition counts as 8 bytes, and is compared with the bandwidth of all shared memories.
    """
    dimensions, tokens = ((64,), 300) if session.quick else ((256, 1024, 4096), tokens)
    chunk = random_documents(0, tokens, 300 if session.quick else 30_000)
    kept = np.ones(int(chunk.words.max()) + 1, bool)
    window = ri_text.make_window(5, "permutation")
    text = ri_text.prepare_tokens(chunk, kept, window.reach)
    print_row(
        "form", "dimension", "seeds", "M tokens/s", "with transfers", "GB/s counted", "of shared", "CPU, 1 thread"
    )
    for dimension in dimensions:
        for length in (10,) if session.quick else (10, 100):
            seeds = ri_text.make_seeds(
                random.stream(random.key(1), len(text.ids)), random.key(2), dimension, length // 2
            )
            cpu = tokens / wall_seconds(partial(ri_cpu.accumulate, text, window, seeds, dimension), 1)
            for name, module in {"word-major": ri_cuda, "passes": random_indexing_passes}.items():
                call = partial(module.accumulate, text, window, seeds, dimension)
                _, seconds = kernel_seconds(call)
                moved = 8.0 * tokens * len(window.offsets) * length / seconds
                rates = tokens / seconds / 1e6, tokens / wall_seconds(partial(to_host_after, call), 1) / 1e6
                cells = [str(dimension), str(length), *rates, moved / 1e9, moved / shared_rate(), cpu / 1e6]
                report(session, "random-indexing", name, *cells)
        _retrain(session, text, window, dimension)


def _retrain(session, text, window, dimension: int) -> None:
    """Measure retraining, which adds one row of D numbers per neighbour."""
    tokens = len(text.occurrences)
    matrix = np.random.default_rng(0).normal(size=(len(text.ids), dimension)).astype(np.float32)
    rows, out = np.arange(len(matrix), dtype=np.uint32), np.zeros_like(matrix)
    slabs = ri_cuda.make_slabs([(matrix, rows)])
    call = partial(ri_cuda.accumulate_dense, text, window, slabs, 0, out)
    _, seconds = kernel_seconds(call)
    moved = 4.0 * tokens * len(window.offsets) * dimension / seconds
    on_cpu = ri_cpu.make_slabs([(matrix, rows)])
    cpu = tokens / wall_seconds(partial(ri_cpu.accumulate_dense, text, window, on_cpu, 0, out), 1)
    rates = tokens / seconds / 1e6, tokens / wall_seconds(partial(to_host_after, call, [out]), 1) / 1e6
    cells = [*rates, moved / 1e9, f"{moved / copy_rate(session):.3g} of copy", cpu / 1e6]
    report(session, "random-indexing", "retraining", str(dimension), "dense", *cells)
