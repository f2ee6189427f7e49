"""NMF on a CUDA device."""

from functools import partial

import click
import numpy as np
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.nmf import hals as nmf_cpu
from corpusmill.kernels.nmf import products
from corpusmill.pipeline.engine.device import kernels

from benchmarks.gpu.measure import copy_rate, kernel_seconds, print_row, report, wall_seconds
from benchmarks.papers.kernels import tiled_cuda


@click.command()
@click.option("--components", multiple=True, type=int, default=[80, 256])
@click.pass_obj
def nmf(session, components=(80, 256)):
    """NMF at the size of 20 Newsgroups: ms per epoch of both factors, fused and in the three phases of the paper."""
    D, V, entries = (40, 30, 200) if session.quick else (11_314, 26_214, 1_018_191)
    print_row("K", "ms kernels", "ms calls", "GB/s counted", "over copy", "CPU, 1 thread")
    for K in [8] if session.quick else components:
        A, W, H = factors(D, V, entries, K)
        fused = partial(epoch, "cuda", A, W, H)
        _, seconds = kernel_seconds(fused)
        # One row of each factor per entry; both factors and P read and written; A in both orders.
        moved = 4.0 * (2 * entries * K + 3 * (D + V) * K + 4 * entries)
        found = [1e3 * seconds, 1e3 * wall_seconds(fused), moved / seconds / 1e9, moved / seconds / copy_rate(session)]
        report(session, "nmf", f"{K}, fused", *found, 1e3 * wall_seconds(partial(epoch, "cpu", A, W, H)))
        P, Q = np.ones_like(W), np.asarray(H.T @ H)
        _, seconds = kernel_seconds(partial(tiled_cuda.sweep_columns, W, P, Q, 16, 1))
        report(session, "nmf", f"{K}, W in phases", 1e3 * seconds, "", "", "", "paper, 48 CPU threads, W: 80")


def factors(D: int, V: int, entries: int, K: int):
    """Return a random sparse matrix (D, V), words by Zipf's law, and W (V, K) and H (D, K) float32."""
    rng = np.random.default_rng(0)
    indptr = np.r_[0, np.cumsum(rng.multinomial(entries, np.full(D, 1 / D)))].astype(np.int64)
    indices = (np.exp(rng.random(entries) * np.log(V)).astype(np.int32) - 1).clip(0, V - 1)
    A = products.sparse_matrix(products.SparseRows(indptr, indices, rng.random(entries, np.float32)), V)
    return A, *(0.1 * rng.random((n, K), np.float32) for n in (V, D))


def epoch(device, A, W, H) -> None:
    """Sweep H, then W, on a device ("cuda" or "cpu")."""
    K = W.shape[1]
    scratch = nmf_cpu.make_scratch(K, np.float32)
    module = kernels("nmf.hals", device)
    P, Q = kernels("nmf.sums", device).zero_sums(len(W), (K, K), K, np.float32)
    module.sweep_sparse(A, W, nmf_cpu.update_rule(W.T @ W), H, P, Q, 1, scratch)
    RESIDENTS.bring_back([Q])
    rule = nmf_cpu.update_rule(nmf_cpu.symmetric(Q))
    module.sweep_products(P, rule, W, 1, scratch)
