"""Alias sampling on a CUDA device, which SaberLDA replaces by its tree (Li et al., ASPLOS 2017, section 3.2.4).

A word has a table with an entry for each of its non-zeros in B: a share, and the entry that has the rest. A draw reads
one or two numbers, wherever they lie. One thread builds the table of a word, since each step needs the last one.

The product leaves a token out of the counts, so its old topic has another weight. A table cannot be changed for one
token. So a draw of the old topic is repeated, and the result has the same distribution as a draw from the tree. It is
not the same topic, because other random numbers are used.

Tests: tests/benchmarks/papers/test_gpu_variants.py. Compiled to PTX:
tests/kernels/cuda/test_ptx.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

import numpy as np
from corpusmill.kernels.cuda.arrays import DeviceArray
from corpusmill.kernels.cuda.jit import device, kernel
from corpusmill.kernels.cuda.launch import launch
from corpusmill.kernels.cuda.lda import esca
from corpusmill.kernels.cuda.lda.esca import TOKENS
from corpusmill.kernels.cuda.lda.model import Place, phi_without_token, to_device_model
from corpusmill.kernels.cuda.lda.rows import LOW, SHARERS, find_entry, lane_ends
from corpusmill.kernels.cuda.memory import allocate, cached_copy, derived, upload
from corpusmill.kernels.cuda.port import multiply64
from corpusmill.kernels.cuda.random import uniform64
from corpusmill.kernels.cuda.warp import ALL_LANES, WARP
from corpusmill.kernels.lda.counts import SIXTEEN
from corpusmill.kernels.lda.model import ModelBlock, PriorTerms, make_prior
from numba import cuda

#: Added to the key of a sweep, so that repeated draws do not use the numbers of first draws.
SALT = np.uint64(0x9E3779B97F4A7C15)
#: Bits of a random number's index for the number of the repetition.
REPEATS = 6


class Tables(NamedTuple):
    """The alias tables of several rows on the device, one after another. See `draw_entry`."""

    share: DeviceArray  # (n,) float32
    other: DeviceArray  # (n,) int32: an entry of the same row


class AliasModel(NamedTuple):
    """A `DeviceModel` and its tables."""

    row_ptr: DeviceArray
    topics: DeviceArray
    counts: DeviceArray
    beta: float
    prior: PriorTerms
    smooth: DeviceArray
    smooth_nodes: DeviceArray
    words: Tables  # of α_k B_vk / (N_k + Vβ) of each word
    topics_of_prior: Tables  # of α_k β / (N_k + Vβ), one row


def to_alias_model(model: ModelBlock, subtract: int) -> AliasModel:
    """Return the model block on the device with its tables, which are built once: all chunks of an epoch use them."""

    def build() -> tuple[Tables, Tables]:
        prior = make_prior(model, subtract, subtract)
        weights = (prior.word_factor[model.topics] * model.counts + prior.grain) - prior.grain
        smooth = np.diff(prior.smooth)
        return (
            build_tables(cached_copy(model.row_ptr, "model.row_ptr"), upload(weights, "weights")),
            build_tables(upload(np.array([0, len(smooth)]), "rows"), upload(smooth, "weights")),
        )

    tables = derived((model.row_ptr, model.topics, model.counts), ("alias tables", subtract), build)
    return AliasModel(*to_device_model(model, subtract), *tables)


def build_tables(row_ptr: DeviceArray, weights: DeviceArray) -> Tables:
    """Return the tables of rows of float64 weights on the device."""
    n = weights.size
    share = allocate(n, np.float32, "alias tables")
    other = allocate(n, np.int32, "alias tables")
    stack = allocate(n, np.int32, "alias tables")
    if n:
        launch(_build, -(-(len(row_ptr) - 1) // 128), 128, row_ptr, weights, share, other, stack)
    return Tables(share, other)


@kernel
def _build(row_ptr, weights, share, other, stack):
    """Build Vose's alias tables, one thread per row. The stack has entries below 1 in front, the others at its end."""
    v = cuda.grid(1)
    if v >= len(row_ptr) - 1:
        return
    head = row_ptr[v]
    n = row_ptr[v + 1] - head
    total = 0.0
    for j in range(n):
        total += weights[head + j]
    low = 0
    high = n
    for j in range(n):
        share[head + j] = weights[head + j] * n / total
        other[head + j] = j
        if share[head + j] < 1:
            stack[head + low] = j
            low += 1
        else:
            high -= 1
            stack[head + high] = j
    while low > 0 and high < n:
        small = stack[head + low - 1]
        large = stack[head + high]
        other[head + small] = large
        share[head + large] -= 1 - share[head + small]
        low -= 1
        if share[head + large] < 1:
            stack[head + low] = large
            low += 1
            high += 1


@device
def draw_entry(tables: Tables, head: int, n: int, u: float) -> int:
    """Return the entry of a row with n entries from ``head`` on for a number in [0, 1)."""
    x = u * n
    j = min(np.int64(x), n - 1)
    return j if x - j < tables.share[head + j] else np.int64(tables.other[head + j])


@device
def draw_prior_by_alias(model: AliasModel, row: int, word_mass: float, old: int, key: np.uint64, i: int) -> np.int64:
    """Draw from α_k φ_k over all topics but the old one, for token i of a word with this sum of weights.

    All threads of a token get the same topic. No operation of the warp is needed.
    """
    head = model.row_ptr[row]
    smooth = model.smooth[len(model.smooth) - 1]
    k = np.int64(old)
    repeat = 0
    while k == old and repeat < 1 << REPEATS:
        x = multiply64(uniform64(key + SALT, (i << REPEATS) + repeat), smooth + word_mass)
        repeat += 1
        if x < smooth:
            k = draw_entry(model.topics_of_prior, 0, len(model.smooth), x / smooth)
        else:
            n = model.row_ptr[row + 1] - head
            k = np.int64(model.topics[head + draw_entry(model.words, head, n, (x - smooth) / word_mass)])
    return k


@device
def _draw_job(word, model, row, n, tokens, positions, drawn, old, key, out):
    """Draw a job's tokens as the sparse draws of kernels/cuda/lda/esca.py do, with tables in place of trees."""
    start, end, segment = positions
    lane = cuda.threadIdx.x % WARP
    rows, z, _ = old
    prior = model.prior
    while True:
        first = start + esca._take_tokens(drawn, TOKENS, lane)
        if first >= end:
            return
        t = first + lane // SHARERS
        segment, i = esca._find_token(tokens, segment, min(t, end - 1))
        d = np.int64(tokens[2][i])
        topic = np.int64(z[i])
        head = rows.row_ptr[d]
        size = np.int64(rows.lengths[d])
        phi_old = phi_without_token(word, model, topic)
        ends = lane_ends(False, rows, head, size, word.phi, phi_old, topic, prior.subtract_a, lane)
        own = multiply64(prior.alpha[topic], np.float64(phi_old))
        word_mass = word.leaves[n - 1] if n > 0 else 0.0
        mass = model.smooth[len(model.smooth) - 1] + word_mass
        others = mass - multiply64(prior.alpha[topic], np.float64(word.phi[topic]))
        total = own + others + cuda.shfl_sync(ALL_LANES, ends[1], lane | (SHARERS - 1))
        x = multiply64(uniform64(key, i), total) - own
        found = find_entry(False, rows, head, size, word.phi, phi_old, topic, prior.subtract_a, ends, x - others, lane)
        entry = rows.entries[head + found]
        k = np.int64(entry >> SIXTEEN) if entry & LOW and x >= 0 else topic
        if 0 <= x < others:
            k = draw_prior_by_alias(model, row, word_mass, topic, key, i)
        if lane % SHARERS == 0 and t < end:
            out[i] = k


_DRAW = {("sparse", place): esca._make_kernel("sparse", _draw_job, place) for place in Place}


@contextmanager
def alias_sampling() -> Iterator[None]:
    """Context manager: sweeps with sparse rows draw by alias tables. Other draws are unchanged."""
    with mock.patch.dict(esca._DRAW, _DRAW), mock.patch.object(esca, "to_device_model", to_alias_model):
        yield
