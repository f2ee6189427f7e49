"""Collapsed Gibbs sampling in tiles, with one array of totals that all threads change by atomic additions.

Source: Moon's dissertation (2019), Algorithm 3 and section 2.4.1.4, which compares this with one array of differences
per thread. The usual function, ``benchmarks.papers.kernels.every_token.diagonals``, copies the totals for each tile,
because here the topics depend on the speed of the threads.

Reference implementation: tests/helpers/naive.py, `lda_collapsed`.
"""

from concurrent.futures import Executor

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.jit import kernel, vector_kernel
from corpusmill.kernels.lda.minibatch import STRIDE, CountTables, Tokens, draw_index
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from benchmarks.papers.kernels.every_token import cut_into_tiles


@intrinsic
def atomic_add(typingctx, array, index, value):
    """Add to ``array[index]`` (C-contiguous, integers) in one indivisible step, in no order with other memory."""

    def codegen(context, builder, signature, arguments):
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        position = context.cast(builder, arguments[1], signature.args[1], types.intp)
        added = context.cast(builder, arguments[2], signature.args[2], signature.args[0].dtype)
        builder.atomic_rmw("add", cgutils.gep(builder, struct.data, position), added, "monotonic")
        return context.get_dummy_value()

    return types.void(array, index, value), codegen


def diagonals(tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, parts: int, pool: Executor) -> None:
    """Draw ``z`` (T,) uint16 tile by tile, ``parts`` x ``parts`` tiles, the tiles of one diagonal in parallel."""
    order, tile_ptr = cut_into_tiles(tokens, parts)
    for step in range(parts):
        jobs = []
        for group in range(parts):
            tile = group * parts + (group + step) % parts
            batch = order[tile_ptr[tile] : tile_ptr[tile + 1]]
            jobs.append(pool.submit(_draw_tile, batch, tokens, tables, z, key))
        for job in jobs:
            job.result()


@kernel
def _draw_tile(batch, tokens, tables, z, key):
    docs, words, (A, B, N, alpha, beta, mass) = tokens.docs, tokens.words, tables
    K = len(alpha)
    p = np.zeros((K + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    for i in batch:
        a, b = A[docs[i]], B[words[i]]
        old = z[i]
        a[old] -= 1
        b[old] -= 1
        atomic_add(N, old, -1)
        # Other threads change N at any time, so nothing that follows from N can be kept between tokens.
        _weigh(a, b, N, alpha, np.float32(beta), np.float32(mass), p)
        new = z[i] = min(draw_index(p, random.uniform64(key, i)), K - 1)
        a[new] += 1
        b[new] += 1
        atomic_add(N, new, 1)


@vector_kernel
def _weigh(a, b, N, alpha, beta, mass, p):
    for k in range(len(alpha)):
        inverse = np.float32(1) / (np.float32(N[k]) + mass)
        p[k] = (np.float32(a[k]) + alpha[k]) * (np.float32(b[k]) + beta) * inverse
