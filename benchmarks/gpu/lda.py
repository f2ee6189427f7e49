"""LDA on a CUDA device: throughput, and SaberLDA's Figures 9 and 10 and Table 4."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from statistics import median
from unittest import mock

import click
import numpy as np
from corpusmill.kernels.cuda.exact import multiply64
from corpusmill.kernels.cuda.jit import device, kernel, lean_kernel
from corpusmill.kernels.cuda.launch import launch
from corpusmill.kernels.cuda.lda import esca as by_words
from corpusmill.kernels.cuda.lda.esca import LANES, LOW, TOKENS
from corpusmill.kernels.cuda.lda.model import Word, to_device_model, tree_nodes
from corpusmill.kernels.cuda.random import uniform64
from corpusmill.kernels.cuda.warp import ALL_LANES, WARP, ballot
from corpusmill.kernels.lda.counts import SIXTEEN
from numba import config, cuda

from benchmarks.gpu.measure import copy_rate, kernel_seconds, row, timed

#: M tokens/s of others by topics, for the last column.
PAPERS = {1024: "CuLDA_CGS 690, V100", 5000: "SaberLDA 135, GTX 1080", 10_000: "SaberLDA 92, GTX 1080"}
#: Kernels by the parts of Figure 9.
PARTS = {"draws": ("draw",), "A": ("shuffle", "count_documents", "make_dense"), "B": ("count_words", "compact")}


class Topics:
    """A made-up corpus in chunks, and its state as training goes on."""

    def __init__(self, n_topics: int, n_tokens: int, n_chunks: int = 1, n_words: int = 100_000):
        self.n_topics, self.n_words, self.epoch = n_topics, n_words, 0
        self.chunks = [make(c, n_tokens // n_chunks, n_words) for c in range(n_chunks)]
        self.z = [None] * n_chunks
        empty = np.zeros(n_words + 1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32)
        self._set(*empty)

    def _set(self, *counts):
        from corpusmill.kernels.lda import esca as cpu

        totals = cpu.topic_totals(counts[1], counts[2], self.n_topics)
        alpha = np.full(self.n_topics, 50 / self.n_topics, np.float32)
        self.model = cpu.ModelBlock(*counts, 0, totals, alpha, 0.01, self.n_words)

    @property
    def n_tokens(self) -> int:
        """Tokens of all chunks."""
        return sum(chunk.n_tokens for chunk in self.chunks)

    def sweep(self, pool=None, streamed=False) -> float:
        """Draw and count all chunks on the device; return the seconds. ``streamed``: send everything anew."""
        from corpusmill.kernels import random
        from corpusmill.kernels.cuda import memory
        from corpusmill.kernels.cuda.lda import esca as lda
        from corpusmill.kernels.lda import esca as cpu

        def one(c):
            chunk, key = self.chunks[c], random.key(1, self.epoch, c)
            z = lda.sweep(chunk, [self.model], self.z[c], key)
            counts = lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, self.n_words), self.n_topics)
            if streamed:
                for array in (*chunk[1:], z):
                    memory.COPIES.drop(array)
            return z, counts

        started = time.perf_counter()
        swept = list((pool.map if pool else map)(one, range(len(self.chunks))))
        seconds = time.perf_counter() - started
        merged = swept[0][1]
        for _, counts in swept[1:]:
            merged = cpu.merge_counts(merged, counts)
        self.z, self.epoch = [z for z, _ in swept], self.epoch + 1
        self._set(*merged)
        return seconds

    def train(self, passes: int):
        """Some passes, so that documents have few topics."""
        for _ in range(passes):
            self.sweep()
        return self

    def row_bytes(self) -> float:
        """Bytes of the row of A that a token reads, on average."""
        from corpusmill.kernels.lda import esca as cpu

        total = 0.0
        for chunk, z in zip(self.chunks, self.z, strict=True):
            rows = cpu.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
            total += float((4.0 * np.diff(rows.row_ptr) * np.diff(chunk.doc_ptr)).sum())
        return total / self.n_tokens

    def cpu_rate(self, most: int) -> float:
        """Tokens per second of the CPU's kernels, one thread, on so many tokens of the same state."""
        from corpusmill.io.stores.chunk import make_chunk
        from corpusmill.kernels import random
        from corpusmill.kernels.lda import esca as cpu

        chunk, n = self.chunks[0], int(np.searchsorted(self.chunks[0].doc_ptr, most))
        doc_ptr = chunk.doc_ptr[: max(2, n)]
        in_documents = np.empty_like(self.z[0])
        in_documents[chunk.word_to_doc_order] = self.z[0]
        part = make_chunk(0, doc_ptr, chunk.words[: doc_ptr[-1]])
        z = in_documents[: doc_ptr[-1]][part.word_to_doc_order]
        seconds = []
        for turn in range(3):
            started = time.perf_counter()
            new = cpu.sweep(part, [self.model], z, random.key(2, turn))
            cpu.count_words(part.word_ids, part.word_ptr, new, (0, self.n_words), self.n_topics)
            seconds.append(time.perf_counter() - started)
        return part.n_tokens / min(seconds)


def make(number: int, n_tokens: int, n_words: int):
    """Documents of about 330 tokens, as in NYTimes, of a few of 500 topics each; frequencies as Zipf has them."""
    from corpusmill.io.stores.chunk import make_chunk

    rng = np.random.default_rng(number)
    ends = np.cumsum(rng.poisson(330, n_tokens // 330 + 1) + 1)
    doc_ptr = np.r_[0, ends[ends < n_tokens], n_tokens]
    docs = np.repeat(np.arange(len(doc_ptr) - 1), np.diff(doc_ptr))
    topics = rng.integers(0, 500, (len(doc_ptr) - 1, 6))[docs, rng.integers(0, 6, n_tokens)]
    rank = np.exp(rng.random(n_tokens) * np.log(n_words)).astype(np.int64) - 1
    # Of a topic's words the frequent ones are everyone's, the others lie at a place of its own.
    words = np.where(rank < 200, rank, 200 + (rank * 977 + topics * 7919) % (n_words - 200))
    return make_chunk(number, doc_ptr, words.astype(np.uint32), group_tokens=1 << 62)


def pool_of(streams: int):
    """Threads, each with a stream of its own; none in the simulator, which cannot change threads."""
    return nullcontext() if config.ENABLE_CUDASIM else ThreadPoolExecutor(streams)


def trained(options, n_topics: int, tokens: int, n_chunks: int = 1) -> Topics:
    """A corpus of so many tokens after 30 passes."""
    if options["quick"]:
        return Topics(n_topics, 300, min(n_chunks, 2), n_words=300).train(1)
    return Topics(n_topics, tokens, n_chunks).train(30)


@click.command()
@click.option("--topics", multiple=True, type=int, default=[1024, 5000])
@click.option("--tokens", default=50_000_000)
@click.pass_obj
def lda(options, topics=(1024, 5000), tokens=50_000_000):
    """LDA: M tokens per second, bytes per second over those of a copy, the CPU beside it."""
    row("topics", "M tokens/s", "of draws", "GB/s counted", "over copy", "CPU, 1 thread", "others")
    for n_topics in topics[:1] if options["quick"] else topics:
        state = trained(options, n_topics, tokens)
        seconds = median(state.sweep() for _ in range(1 if options["quick"] else 5))
        with timed() as spent:
            state.sweep()
        draws = max(1e-9, spent.get("draw", 0.0) / 1e3)
        # A token's document, its topics old and new, and its row of A.
        moved = state.n_tokens * (8 + state.row_bytes()) / draws
        cpu = state.cpu_rate(min(tokens, 2_000_000))
        found = [state.n_tokens / s / 1e6 for s in (seconds, draws)]
        found += [moved / 1e9, moved / copy_rate(options), cpu / 1e6]
        row(str(n_topics), *found, PAPERS.get(n_topics, ""))
        options["found"][f"lda {n_topics}"] = found


@click.command("lda-parts")
@click.option("--tokens", default=50_000_000)
@click.option("--topics", "n_topics", default=1000)
@click.pass_obj
def lda_parts(options, tokens=50_000_000, n_topics=1000):
    """SaberLDA's Figure 9: milliseconds an epoch as optimisations are added, G0 to G4; then with chunks that stay.

    G0 draws in order of documents, each token with its word's row in device memory, has alias tables, and makes A by
    sorting all tokens; G1 draws in order of words, G2 has the tree in place of the tables, G3 shuffle and count in
    place of the sort, G4 four streams.
    """
    state = trained(options, n_topics, tokens, 8)
    parts = {name: _parts(state, *setting) for name, setting in SETTINGS.items()}
    tables, sorting = alias_milliseconds(state), sort_milliseconds(state)
    row("", *PARTS, "rest", "alias tables", "all")
    for name in ("G0", "G1", "G2"):
        draws, _, b, rest = parts["G3"]
        draws = documents_milliseconds(state) if name == "G0" else draws
        extra = tables if name != "G2" else 0.0
        _tell_parts(options, name, [draws, sorting, b, rest, extra, draws + sorting + b + rest + extra])
    for name, found in parts.items():
        _tell_parts(options, name, [*found, 0.0, sum(found)])
    row("paper", "", "", "", "", "", "G4 is 2.9 x G0")


#: By step of Figure 9: streams, and whether chunks are sent anew.
SETTINGS = {"G3": (1, True), "G4": (4, True), "1 stream, stays": (1, False), "4 streams, stay": (4, False)}


def _parts(state, streams: int, streamed: bool) -> list[float]:
    """Return milliseconds of the parts of an epoch and of the rest."""
    with pool_of(streams) as pool:
        state.sweep(pool, streamed)
        with timed() as spent:
            seconds = state.sweep(pool, streamed)
    parts = [sum(spent.get(name, 0.0) for name in names) for names in PARTS.values()]
    return [*parts, 1e3 * seconds - sum(parts)]


def _tell_parts(options, name: str, found: list[float]) -> None:
    row(name, *found)
    options["found"][f"lda-parts {name}"] = found


def sort_milliseconds(state) -> float:
    """Time what shuffle and count replace: a sort of all tokens by document and topic. NaN without CuPy."""
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


def alias_milliseconds(state) -> float:
    """Time what the tree replaces: an alias table a word, once an epoch."""
    from corpusmill.kernels.cuda.memory import allocate, cached_copy

    model = state.model
    mass = model.alpha.astype(np.float64) / (model.totals + model.beta * model.n_words)
    weights = cached_copy(mass[model.topics] * model.counts, "weights")
    row_ptr = cached_copy(model.row_ptr, "model.row_ptr")
    types = np.float32, np.int32, np.int32
    share, other, stack = (allocate(len(model.topics), dtype, "alias tables") for dtype in types)
    blocks = -(-state.n_words // 128)
    return 1e3 * kernel_seconds(lambda: launch(_alias, blocks, 128, row_ptr, weights, share, other, stack))[1]


@kernel
def _alias(row_ptr, weights, share, other, stack):
    """Vose's alias table of a word, a thread a word: below one at the stack's front, the others at its end."""
    v = cuda.grid(1)
    if v >= len(row_ptr) - 1:
        return
    head, n = row_ptr[v], row_ptr[v + 1] - row_ptr[v]
    total, low, high = 0.0, 0, n
    for j in range(n):
        total += weights[head + j]
    for j in range(n):
        share[head + j] = weights[head + j] * n / total
        if share[head + j] < 1:
            stack[head + low] = j
            low += 1
        else:
            high -= 1
            stack[head + high] = j
    while low > 0 and high < n:
        small, large = stack[head + low - 1], stack[head + high]
        other[head + small] = large
        share[head + large] -= 1 - share[head + small]
        low -= 1
        if share[head + large] < 1:
            stack[head + low] = large
            low += 1
            high += 1


# --- drawing in order of documents ---


def documents_milliseconds(state) -> float:
    """Time the draws in order of documents; end where they are not those in order of words."""
    from corpusmill.kernels import random
    from corpusmill.kernels.cuda.memory import cached_copy

    words, key = tuple(cached_copy(array, "every word") for array in every_word(state.model)), random.key(3)
    for _ in range(2):  # the first turn compiles
        with timed() as spent:
            drawn = [
                draw_by_documents(c, z, state.model, words, key) for c, z in zip(state.chunks, state.z, strict=True)
            ]
    for chunk, z, found in zip(state.chunks, state.z, drawn, strict=True):
        if (found != by_words.sweep(chunk, [state.model], z, key)).any():
            sys.exit("draws in order of documents are not those in order of words")
    return spent.get("draw_by_documents", 0.0)


def every_word(model):
    """Return φ of all words, (V, K) float32, and their trees: (nnz,) and (nodes,) float64, (V + 1,) int64."""
    from corpusmill.kernels.lda.model import make_prior

    prior, ends = make_prior(model, 1, 1), model.row_ptr[1:]
    phi = np.tile(prior.base, (len(ends), 1))
    rows = np.repeat(np.arange(len(ends)), np.diff(model.row_ptr))
    phi[rows, model.topics] = (model.counts + model.beta) * prior.inverse[model.topics]
    masses = (prior.word_factor[model.topics] * model.counts + prior.grain) - prior.grain
    leaves = [np.cumsum(masses[first:end]) for first, end in zip(model.row_ptr, ends, strict=False)]
    nodes = [tree_nodes(some) for some in leaves]
    return phi, np.concatenate(leaves), np.concatenate(nodes), np.r_[0, np.cumsum([len(some) for some in nodes])]


def draw_by_documents(chunk, z, model, words, key) -> np.ndarray:
    """Return a chunk's next topics."""
    from corpusmill.kernels.cuda.lda.counts import count_documents
    from corpusmill.kernels.cuda.memory import allocate, cached_copy, derived, download

    places = derived(chunk.word_to_doc_order, "by document", lambda: np.argsort(chunk.word_to_doc_order))
    tokens = tuple(cached_copy(array, "tokens") for array in (chunk.docs, chunk.words, places))
    old = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z, len(model.alpha))[0], cached_copy(z, "topics")
    out, threads = allocate(len(z), np.uint16, "new topics"), by_words.WARPS * WARP
    blocks = min(by_words.BLOCKS, -(-len(z) * LANES // threads))
    launch(_draw_by_documents, blocks, threads, tokens, words, to_device_model(model, 1), old, np.uint64(key), out)
    return download(out, "topics")


@lean_kernel
def _draw_by_documents(tokens, words, model, old, key, out):
    docs, ids, places = tokens
    rows, z = old
    lane = cuda.threadIdx.x % WARP
    for first in range(cuda.grid(1) // WARP * TOKENS, len(places), cuda.gridsize(1) // LANES):
        t = first + lane // LANES
        # What lies behind the end draws the last token once more, and does not write it.
        behind = min(t, len(places) - 1)
        i = np.int64(places[behind])
        token = np.int64(docs[i]), np.int64(ids[behind]), np.int64(z[i]), uniform64(key, i)
        k = _draw_with_own_word(rows, token, words, model, lane)
        if lane % LANES == 0 and t < len(places):
            out[i] = k


@device
def _draw_with_own_word(rows, token, words, model, lane):
    """Draw as `_draw_sparse` of kernels/cuda/lda/esca.py does, but the tokens of a warp may be of four words."""
    d, v, old, u = token
    phi, leaves, nodes, node_ptr = words
    prior, first, n = model.prior, model.row_ptr[v], model.row_ptr[v + 1] - model.row_ptr[v]
    count = np.float64(model.counts[first + by_words._count_below(model.topics, first, n, old)])
    phi_old = np.float32((count - prior.subtract_b + model.beta) * prior.lowered[old])
    head, size = rows.row_ptr[d], np.int64(rows.lengths[d])
    ends = by_words._lane_ends(False, rows, head, size, phi[v], phi_old, old, prior.subtract_a, lane)
    own = multiply64(prior.alpha[old], np.float64(phi_old))
    mass = model.smooth[len(model.smooth) - 1] + leaves[first + n - 1]
    others = mass - multiply64(prior.alpha[old], np.float64(phi[v, old]))
    x = multiply64(u, own + others + cuda.shfl_sync(ALL_LANES, ends, lane | (LANES - 1))) - own
    found = by_words._find(False, rows, head, size, phi[v], phi_old, old, prior.subtract_a, ends, x - others, lane)
    entry = rows.entries[head + found]
    k = np.int64(entry >> SIXTEEN) if entry & LOW and x >= 0 else old
    waiting = ballot((x >= 0) & (x < others) & (lane % LANES == 0))
    while waiting:
        source = cuda.ffs(waiting) - 1
        waiting &= waiting - 1
        w = cuda.shfl_sync(ALL_LANES, v, source)
        a, b = model.row_ptr[w], model.row_ptr[w + 1]
        word = Word(phi[w], phi[w], leaves[a:b], nodes[node_ptr[w] : node_ptr[w + 1]])
        drawn = by_words._draw_prior(
            word, model, w, b - a, cuda.shfl_sync(ALL_LANES, old, source), cuda.shfl_sync(ALL_LANES, x, source), lane
        )
        if lane // LANES == source // LANES:
            k = drawn
    return k


@click.command("lda-tuning")
@click.option("--tokens", default=50_000_000)
@click.option("--topics", multiple=True, type=int, default=[1000, 3000, 5000])
@click.pass_obj
def lda_tuning(options, tokens=50_000_000, topics=(1000, 3000, 5000)):
    """SaberLDA's Figure 10: seconds an epoch by chunks, by streams (10 chunks, sent), by threads a block."""
    from corpusmill.kernels.cuda.lda import esca as kernels

    few = options["quick"]
    turns = range(1 if few else 3)
    row("what", "topics", "number", "seconds")
    for n_topics in topics[:1] if few else topics:
        for n_chunks in (1, 2) if few else (1, 2, 4, 8, 16):
            seconds = trained(options, n_topics, tokens, n_chunks).sweep()
            tell(options, "chunks", n_topics, n_chunks, seconds)
        state = trained(options, n_topics, tokens, 10)
        for streams in (1, 2) if few else (1, 2, 4, 8):
            with pool_of(streams) as pool:
                state.sweep(pool, streamed=True)
                tell(
                    options,
                    "streams",
                    n_topics,
                    streams,
                    median(state.sweep(pool, streamed=True) for _ in range(1 if few else 3)),
                )
        for warps in (1, 2) if few else (2, 4, 8, 16, 32):
            with mock.patch.object(kernels, "WARPS", warps):
                state.sweep()
                tell(options, "threads", n_topics, 32 * warps, median(state.sweep() for _ in turns))


def tell(options, what, n_topics, number, seconds) -> None:
    """Print and keep one point."""
    row(what, str(n_topics), str(number), seconds)
    options["found"][f"lda-tuning {what} {n_topics} {number}"] = seconds


#: GB/s of the paper.
SABER = {"global and L2": "144 and 203", "shared": "458"}


@click.command("lda-bandwidth")
@click.option("--tokens", default=50_000_000)
@click.pass_obj
def lda_bandwidth(options, tokens=50_000_000):
    """SaberLDA's Table 4 by counted bytes: what draws read of device memory and its caches, and of shared memory."""
    state = trained(options, 1000, tokens)
    with timed() as spent:
        state.sweep()
    seconds = max(1e-9, spent.get("draw", 0.0) / 1e3)
    per_token = state.row_bytes()
    row("memory", "GB/s", "over copy", "GTX 1080")
    for name, each in {"global and L2": 8 + per_token, "shared": per_token}.items():
        rate = state.n_tokens * each / seconds
        row(name, rate / 1e9, rate / copy_rate(options), SABER[name])
        options["found"][f"lda-bandwidth {name}"] = rate


COMMANDS = lda, lda_parts, lda_tuning, lda_bandwidth
