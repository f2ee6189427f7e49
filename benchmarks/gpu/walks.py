"""Random walks on a CUDA device."""

from functools import partial

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.node2vec import walks as walks_cuda
from corpusmill.kernels.node2vec import walks as walks_cpu

from benchmarks.gpu.measure import copy_rate, kernel_seconds, print_row, report, wall_seconds


@click.command()
@click.option("--nodes", default=100_000)
@click.pass_obj
def walks(session, nodes=100_000):
    """Walks of 80 nodes over a random graph of 20 edges per node: M steps per second, and one CPU thread.

    A step counts the row and the neighbour read and the node written, but no searches and no rejected proposals.
    """
    nodes, length = (20, 6) if session.quick else (nodes, 80)
    graph, starts = power_law(nodes), np.arange(nodes, dtype=np.uint32)
    print_row("p, q", "M steps/s", "with transfers", "GB/s counted", "over copy", "CPU, 1 thread")
    for p, q in ((1.0, 1.0), (0.5, 2.0)):
        walker = walks_cpu.make_walker(graph, p, q)
        call = partial(walks_cuda.walk, walker, starts, length, random.key(1))
        steps = len(call()[1])
        _, seconds = kernel_seconds(call)
        on_cpu = partial(walks_cpu.walk, walker, starts[:2000], length, random.key(1))
        cpu = len(on_cpu()[1]) / wall_seconds(on_cpu, 1)
        moved = 24 * steps / seconds
        rates = steps / seconds / 1e6, steps / wall_seconds(call, 1) / 1e6
        report(session, "walks", f"{p:g}, {q:g}", *rates, moved / 1e9, moved / copy_rate(session), cpu / 1e6)


def power_law(nodes: int):
    """Return an undirected graph of about ten edges per node, most of them at few nodes."""
    rng = np.random.default_rng(0)
    ends = np.minimum((nodes * rng.random((2, 10 * nodes)) ** [[1], [2]]).astype(np.int64), nodes - 1)
    ends = ends[:, ends[0] != ends[1]]
    pairs = np.unique(np.r_[ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]])
    row_ptr = np.searchsorted(pairs, np.arange(nodes + 1) * nodes).astype(np.int64)
    return walks_cpu.Adjacency(row_ptr, (pairs % nodes).astype(np.uint32), np.empty(0, np.float32), True)
