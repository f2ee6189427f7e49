"""Figures 9 and 10 and Table 4 of SaberLDA (Li et al., ASPLOS 2017), on a CUDA device."""

import sys
import time
from statistics import median
from unittest import mock

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.jit import device, lean_kernel
from corpusmill.kernels.cuda.launch import launch
from corpusmill.kernels.cuda.lda import esca as by_words
from corpusmill.kernels.cuda.lda.esca import TOKENS
from corpusmill.kernels.cuda.lda.model import Word, phi_without_token
from corpusmill.kernels.cuda.lda.rows import LOW, SHARERS, find_entry, lane_ends
from corpusmill.kernels.cuda.port import multiply64
from corpusmill.kernels.cuda.random import uniform64
from corpusmill.kernels.cuda.warp import ALL_LANES, WARP
from corpusmill.kernels.lda.counts import SIXTEEN
from numba import cuda

from benchmarks.gpu.data import pool_of, trained
from benchmarks.gpu.measure import copy_rate, print_row, timed
from benchmarks.papers.saberlda_alias import alias_sampling, draw_prior_by_alias, to_alias_model

#: Kernels by the parts of Figure 9.
PARTS = {
    "draws": ("draw",),
    "A": ("shuffle", "count_documents", "make_dense"),
    "B": ("add_words", "add_rare_words", "count_entries", "write_entries"),
    "rest": (),
    "alias tables": ("build",),
}


def lda_parts(session, tokens=50_000_000, n_topics=1000):
    """Figure 9 of SaberLDA: milliseconds per epoch as optimisations are added, G0 to G4; then with resident chunks.

    G0 draws in document order with rows of words in device memory, by alias tables, and computes A by sorting all
    tokens. G1 draws in word order. G2 replaces the tables by a tree. G3 replaces the sort by shuffle and segmented
    count. G4 uses four streams. G1 still builds the trees, because its kernel is that of G2 in all other respects.
    """
    state = trained(session, n_topics, tokens, 8)
    with alias_sampling():
        by_alias = _parts(state, *SETTINGS["G3"])
    parts = {name: _parts(state, *setting) for name, setting in SETTINGS.items()}
    sorting = sort_milliseconds(state)
    _, _, counts, rest, _ = parts["G3"]
    draws = {"G0": documents_milliseconds(state), "G1": by_alias[0], "G2": parts["G3"][0]}
    tables = {"G0": by_alias[-1], "G1": by_alias[-1], "G2": 0.0}
    print_row("", *PARTS, "all")
    for name in draws:
        found = [draws[name], sorting, counts, rest, tables[name]]
        _report_parts(session, name, [*found, sum(found)])
    for name, found in parts.items():
        _report_parts(session, name, [*found, sum(found)])
    print_row("paper", "", "", "", "", "", "G4 is 2.9 x G0")


#: By step of Figure 9: the number of streams, and whether chunks are copied to the device again.
SETTINGS = {"G3": (1, True), "G4": (4, True), "1 stream, resident": (1, False), "4 streams, resident": (4, False)}


def _parts(state, streams: int, streamed: bool) -> list[float]:
    """Return the milliseconds of the parts of an epoch."""
    with pool_of(streams) as pool:
        state.sweep(pool, streamed)
        with timed() as spent:
            seconds = state.sweep(pool, streamed)
    found = {part: sum(spent.get(name, 0.0) for name in names) for part, names in PARTS.items()}
    found["rest"] = 1e3 * seconds - sum(found.values())
    return list(found.values())


def _report_parts(session, name: str, found: list[float]) -> None:
    print_row(name, *found)
    session.figures[f"lda-parts {name}"] = found


def sort_milliseconds(state) -> float:
    """Return the milliseconds of a sort of all tokens, which shuffle and count replace. NaN without CuPy."""
    from corpusmill.kernels.cuda.nmf.products import has_cupy

    if not has_cupy():
        return float("nan")
    import cupy

    total = 0.0
    for chunk, z in zip(state.chunks, state.z, strict=True):
        keys = cupy.asarray(chunk.docs.astype(np.int64) << 16 | z)
        cupy.unique(keys, return_counts=True)
        cupy.cuda.runtime.deviceSynchronize()
        started = time.perf_counter()
        cupy.unique(keys, return_counts=True)
        cupy.cuda.runtime.deviceSynchronize()
        total += 1e3 * (time.perf_counter() - started)
    return total


# --- drawing in order of documents ---


def documents_milliseconds(state) -> float:
    """Return the milliseconds of draws in document order. Exit if they differ from those in word order."""
    from corpusmill.kernels.cuda.memory import cached_copy

    words, key = tuple(cached_copy(array, "every word") for array in every_word(state.model)), random.key(3)
    for _ in range(2):  # the first turn compiles
        with timed() as spent:
            drawn = [
                draw_by_documents(c, z, state.model, words, key) for c, z in zip(state.chunks, state.z, strict=True)
            ]
    with alias_sampling():
        for chunk, z, found in zip(state.chunks, state.z, drawn, strict=True):
            if (found != by_words.sweep(chunk, [state.model], z, key)).any():
                sys.exit("draws in document order differ from those in word order")
    return spent.get("draw_by_documents", 0.0)


def every_word(model):
    """Return φ and counts of all words, (V, K) float32 and int32, and Σ α_k B_vk / (N_k + Vβ), (V,) float64."""
    from corpusmill.kernels.lda.model import make_prior

    prior, ends = make_prior(model, 1, 1), model.row_ptr[1:]
    phi = np.tile(prior.base, (len(ends), 1))
    rows = np.repeat(np.arange(len(ends)), np.diff(model.row_ptr))
    phi[rows, model.topics] = (model.counts + model.beta) * prior.inverse[model.topics]
    counts = np.zeros(phi.shape, np.int32)
    counts[rows, model.topics] = model.counts
    # Sums of these numbers are exact in any order.
    weights = (prior.word_factor[model.topics] * model.counts + prior.grain) - prior.grain
    return phi, counts, np.bincount(rows, weights, len(ends))


def draw_by_documents(chunk, z, model, words, key) -> np.ndarray:
    """Return a chunk's next topics."""
    from corpusmill.kernels.cuda.lda.document_counts import count_documents
    from corpusmill.kernels.cuda.memory import allocate, cached_copy, derived, download

    places = derived(chunk.word_to_doc_order, "by document", lambda: np.argsort(chunk.word_to_doc_order))
    tokens = tuple(cached_copy(array, "tokens") for array in (chunk.docs, chunk.words, places))
    old = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z, len(model.alpha)), cached_copy(z, "topics")
    out, threads = allocate(len(z), np.uint16, "new topics"), by_words.WARPS * WARP
    blocks = min(by_words.BLOCKS, -(-len(z) * SHARERS // threads))
    launch(_draw_by_documents, blocks, threads, tokens, words, to_alias_model(model, 1), old, np.uint64(key), out)
    return download(out, "topics")


@lean_kernel
def _draw_by_documents(tokens, words, model, old, key, out):
    docs, ids, places = tokens
    rows, z = old
    lane = cuda.threadIdx.x % WARP
    for first in range(cuda.grid(1) // WARP * TOKENS, len(places), cuda.gridsize(1) // SHARERS):
        t = first + lane // SHARERS
        # Lanes after the last token draw that token once more, and do not write it: all lanes must take part in votes.
        place = min(t, len(places) - 1)
        i = np.int64(places[place])
        d = np.int64(docs[i])
        v = np.int64(ids[place])
        k = _draw_with_own_word(rows, d, v, np.int64(z[i]), words, model, key, i, lane)
        if lane % SHARERS == 0 and t < len(places):
            out[i] = k


@device
def _draw_with_own_word(rows, d, v, old, words, model, key, i, lane):
    """Draw as `_draw_job` of saberlda_alias.py does, but the tokens of a warp may be of four words."""
    phi, counts, masses = words
    prior = model.prior
    word = Word(phi[v], counts[v], masses, masses)
    phi_old = phi_without_token(word, model, old)
    head = rows.row_ptr[d]
    size = np.int64(rows.lengths[d])
    ends = lane_ends(False, rows, head, size, word.phi, phi_old, old, prior.subtract_a, lane)
    own = multiply64(prior.alpha[old], np.float64(phi_old))
    others = model.smooth[len(model.smooth) - 1] + masses[v] - multiply64(prior.alpha[old], np.float64(word.phi[old]))
    total = own + others + cuda.shfl_sync(ALL_LANES, ends[1], lane | (SHARERS - 1))
    x = multiply64(uniform64(key, i), total) - own
    found = find_entry(False, rows, head, size, word.phi, phi_old, old, prior.subtract_a, ends, x - others, lane)
    entry = rows.entries[head + found]
    k = np.int64(entry >> SIXTEEN) if entry & LOW and x >= 0 else old
    if 0 <= x < others:
        k = draw_prior_by_alias(model, v, masses[v], old, key, i)
    return k


def lda_tuning(session, tokens=50_000_000, topics=(1000, 3000, 5000)):
    """Figure 10 of SaberLDA: seconds per epoch by number of chunks, by streams (10 chunks), by threads per block."""
    from corpusmill.kernels.cuda.lda import esca as kernels

    few = session.quick
    turns = range(1 if few else 3)
    print_row("what", "topics", "number", "seconds")
    for n_topics in topics[:1] if few else topics:
        for n_chunks in (1, 2) if few else (1, 2, 4, 8, 16):
            seconds = trained(session, n_topics, tokens, n_chunks).sweep()
            report_point(session, "chunks", n_topics, n_chunks, seconds)
        state = trained(session, n_topics, tokens, 10)
        for streams in (1, 2) if few else (1, 2, 4, 8):
            with pool_of(streams) as pool:
                state.sweep(pool, streamed=True)
                report_point(
                    session,
                    "streams",
                    n_topics,
                    streams,
                    median(state.sweep(pool, streamed=True) for _ in range(1 if few else 3)),
                )
        for warps in (1, 2) if few else (2, 4, 8, 16, 32):
            with mock.patch.object(kernels, "WARPS", warps):
                state.sweep()
                report_point(session, "threads", n_topics, 32 * warps, median(state.sweep() for _ in turns))


def report_point(session, what, n_topics, number, seconds) -> None:
    """Print one point and add it to the figures."""
    print_row(what, str(n_topics), str(number), seconds)
    session.figures[f"lda-tuning {what} {n_topics} {number}"] = seconds


#: GB/s in the paper.
SABER = {"global and L2": "144 and 203", "shared": "458"}


def lda_bandwidth(session, tokens=50_000_000, n_topics=1000):
    """Table 4 of SaberLDA by counted bytes: what draws read from device memory and its caches, and shared memory."""
    state = trained(session, n_topics, tokens)
    with timed() as spent:
        state.sweep()
    seconds = max(1e-9, spent.get("draw", 0.0) / 1e3)
    per_token = state.row_bytes()
    print_row("memory", "GB/s", "over copy", "GTX 1080")
    for name, each in {"global and L2": 8 + per_token, "shared": per_token}.items():
        rate = state.n_tokens * each / seconds
        print_row(name, rate / 1e9, rate / copy_rate(session), SABER[name])
        session.figures[f"lda-bandwidth {name}"] = rate
