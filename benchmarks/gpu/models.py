"""NMF, Word2Vec, random indexing and walks on a CUDA device, and their papers' studies."""

from functools import partial

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.jit import kernel
from corpusmill.kernels.cuda.launch import launch, synchronize
from corpusmill.kernels.cuda.nmf import hals as nmf_cuda
from corpusmill.kernels.cuda.nmf import tiled as nmf_tiled
from corpusmill.kernels.cuda.node2vec import walks as walks_cuda
from corpusmill.kernels.cuda.random_indexing import accumulate as ri_cuda
from corpusmill.kernels.cuda.warp import WARP, warp_sum
from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec_cuda
from corpusmill.kernels.nmf import hals as nmf_cpu
from corpusmill.kernels.node2vec import walks as walks_cpu
from corpusmill.kernels.random_indexing import accumulate as ri_cpu
from corpusmill.kernels.random_indexing import text as ri_text
from corpusmill.kernels.word2vec import skip_gram as word2vec_cpu
from numba import cuda, float64

from benchmarks.gpu.lda import make
from benchmarks.gpu.measure import copy_rate, kernel_seconds, row, shared_rate, wall_seconds
from benchmarks.papers import random_indexing_passes, word2vec_data_movement

THREADS = 256


def tell(options, what: str, name: str, *cells) -> None:
    """Print and keep a row."""
    row(name, *cells)
    options["found"][f"{what} {name}"] = [cell for cell in cells if not isinstance(cell, str)]


# --- non-negative factors ---


@click.command()
@click.option("--components", multiple=True, type=int, default=[80, 256])
@click.pass_obj
def nmf(options, components=(80, 256)):
    """NMF of the size of 20 Newsgroups: ms an epoch of both factors, fused and in the papers' three phases."""
    D, V, entries = (40, 30, 200) if options["quick"] else (11_314, 26_214, 1_018_191)
    row("K", "ms kernels", "ms calls", "GB/s counted", "over copy", "CPU, 1 thread")
    for K in [8] if options["quick"] else components:
        A, W, H = factors(D, V, entries, K)
        fused = partial(epoch, nmf_cuda, A, W, H)
        _, seconds = kernel_seconds(fused)
        # Rows of both factors once for each entry; both factors read and written, and P; A in both orders.
        moved = 4.0 * (2 * entries * K + 3 * (D + V) * K + 4 * entries)
        found = [1e3 * seconds, 1e3 * wall_seconds(fused), moved / seconds / 1e9, moved / seconds / copy_rate(options)]
        tell(options, "nmf", f"{K}, fused", *found, 1e3 * wall_seconds(partial(epoch, nmf_cpu, A, W, H)))
        X, P, Q = W.copy(), np.ones_like(W), np.asarray(H.T @ H)
        _, seconds = kernel_seconds(partial(nmf_tiled.update, X, P, Q, 16, True))
        tell(options, "nmf", f"{K}, W in phases", 1e3 * seconds, "", "", "", "paper, 48 CPU threads, W: 80")


def factors(D: int, V: int, entries: int, K: int):
    """Made-up tf-idf (D, V) with so many entries, words as Zipf has them; W (V, K) and H (D, K) float32."""
    rng = np.random.default_rng(0)
    indptr = np.r_[0, np.cumsum(rng.multinomial(entries, np.full(D, 1 / D)))].astype(np.int64)
    indices = (np.exp(rng.random(entries) * np.log(V)).astype(np.int32) - 1).clip(0, V - 1)
    A = nmf_cpu.sparse_matrix(nmf_cpu.SparseRows(indptr, indices, rng.random(entries, np.float32)), V)
    return A, *(0.1 * rng.random((n, K), np.float32) for n in (V, D))


def epoch(module, A, W, H) -> None:
    """Sweep H, then W."""
    K = W.shape[1]
    room = nmf_cpu.make_scratch(K, np.float32)
    P, Q, S = np.zeros_like(W), np.zeros((K, K)), np.zeros((K, K))
    module.sweep_sparse(A, W, nmf_cpu.update_rule(W.T @ W, "separable", "H"), H.copy(), P, Q, 1, room)
    rule = nmf_cpu.update_rule(nmf_cpu.symmetric(Q), "separable", "W")
    module.sweep_rows(P, rule, W.copy(), S, 1, room)


# --- word vectors ---


@click.command()
@click.option("--words", default=17_005_207, help="As many as Text8 by default.")
@click.pass_obj
def word2vec(options, words=17_005_207):
    """FULL-W2V and PAR-Word2Vec, d = 128, window 5, 5 negatives: M words per second, the CPU beside it."""
    n_words, text = text_of(options, words)
    row("method", "M words/s", "with transfers", "GB/s counted", "over copy", "CPU, 1 thread", "paper")
    for method in ("full", "par"):
        step, W = step_of(n_words, 128)
        train = partial(word2vec_cuda.train, method, text, step, *W)
        _, seconds = kernel_seconds(train)
        n = len(text.words)
        rates = [n / s / 1e6 for s in (seconds, wall_seconds(train, 1))]
        moved = n * bytes_a_word(128, step)[method] / seconds
        part = documents_of(text, 1_000_000)
        cpu = documents_words(text, part) / wall_seconds(partial(word2vec_cpu.train, method, text, step, *W, part), 1)
        found = [*rates, moved / 1e9, moved / copy_rate(options), cpu / 1e6]
        tell(options, "word2vec", method, *found, "8.6 x Wombat, V100" if method == "full" else "")


def text_of(options, words: int):
    """Made-up documents of about 330 words of 70,000."""
    n_words, words = (50, 60) if options["quick"] else (70_000, words)
    chunk = make(0, words, max(n_words, 300))
    places = np.arange(words, dtype=np.uint32)
    return n_words, word2vec_cpu.Text(chunk.doc_ptr, (chunk.words % n_words).astype(np.uint32), places)


def step_of(n_words: int, dimension: int, window: int = 5, negative: int = 5):
    """How to train, and W_in and W_out."""
    table = word2vec_cpu.negative_table(np.arange(n_words, 0, -1), 0.75, 1 << 16, random.key(5))
    step = word2vec_cpu.TrainingOptions(window, negative, table, random.key(6), random.key(7), 0.025, 1e-9, 1e-4)
    rng = np.random.default_rng(4)
    return step, [rng.normal(0, 0.1, (n_words, dimension)).astype(np.float32) for _ in range(2)]


def documents_of(text, words: int) -> slice:
    """The first documents that have so many words."""
    return slice(0, int(np.searchsorted(text.ptr, min(words, text.ptr[-1]))))


def documents_words(text, documents: slice) -> int:
    """How many words these documents have."""
    return int(text.ptr[documents.stop])


def bytes_a_word(dimension: int, step) -> dict[str, float]:
    """Bytes of device memory and its caches that a word reads and writes, by form of the algorithm.

    A row that is changed is read, then read and written by the atomic addition.
    """
    change, samples, around = 12 * dimension, step.negative + 1, 2 * ((step.window + 1) // 2)
    paper = word2vec_data_movement.Case(1, 1000, dimension, step.window, step.negative, 16 << 10)
    return {
        "full": change * (1 + samples),
        "full, no ring": change * (around + samples),
        "par": 4 * word2vec_data_movement.par_total(paper) / 1000,
        "skip-gram": 4 * word2vec_data_movement.sgns_total(paper) / 1000,
    }


@click.command()
@click.option("--words", default=17_005_207)
@click.pass_obj
def traffic(options, words=17_005_207):
    """FULL-W2V's Table 4 by counted bytes: GB an epoch of Text8, beyond shared memory; needs no device."""
    step, _ = step_of(50, 64)
    paper = {"full": "225", "full, no ring": "1,733", "skip-gram": "1,855 (accSGNS)"}
    row("form", "GB", "paper: L1, L2, DRAM")
    for name, each in bytes_a_word(128, step).items():
        tell(options, "traffic", name, words * each / 1e9, paper.get(name, ""))


@click.command()
@click.option("--words", default=17_005_207)
@click.pass_obj
def batching(options, words=17_005_207):
    """FULL-W2V's Table 1: M words/s that one CPU thread makes ready; needs no device. Negatives are drawn on it."""
    n_words, text = text_of(options, words)
    keep = word2vec_cpu.keep_probability(np.bincount(text.words, minlength=n_words), 1e-3)
    row("step", "M words/s", "paper")
    for name, call in {
        "subsampling": lambda: word2vec_cpu.subsample(text.ptr, text.words, keep, random.key(1)),
        "stretches": lambda: word2vec_cuda.cut_stretches(text.ptr),
    }.items():
        call()
        tell(options, "batching", name, len(text.words) / wall_seconds(call) / 1e6, "210, all threads")


# --- random indexing ---


@click.command("random-indexing")
@click.option("--tokens", default=2_000_000)
@click.pass_obj
def random_indexing(options, tokens=2_000_000):
    """Random indexing, window 5: M tokens/s word by word, in the paper's passes, and retraining from dense vectors.

    Counted for sparse seeds: each addition to a sum, 8 bytes, over what all shared memories deliver.
    """
    dimensions, tokens = ((64,), 300) if options["quick"] else ((256, 1024, 4096), tokens)
    chunk = make(0, tokens, 300 if options["quick"] else 30_000)
    kept = np.ones(int(chunk.words.max()) + 1, bool)
    window = ri_text.make_window(5, "permutation")
    text = ri_text.prepare_tokens(chunk, kept, window.reach)
    row("form", "dimension", "seeds", "M tokens/s", "with transfers", "GB/s counted", "of shared", "CPU, 1 thread")
    for dimension in dimensions:
        for length in (10,) if options["quick"] else (10, 100):
            seeds = ri_text.make_seeds(
                random.stream(random.key(1), len(text.ids)), random.key(2), dimension, length // 2
            )
            cpu = tokens / wall_seconds(partial(ri_cpu.accumulate, text, window, seeds, dimension), 1)
            for name, module in {"word-major": ri_cuda, "passes": random_indexing_passes}.items():
                call = partial(module.accumulate, text, window, seeds, dimension)
                _, seconds = kernel_seconds(call)
                moved = 8.0 * tokens * len(window.offsets) * length / seconds
                rates = tokens / seconds / 1e6, tokens / wall_seconds(call, 1) / 1e6
                cells = [str(dimension), str(length), *rates, moved / 1e9, moved / shared_rate(), cpu / 1e6]
                tell(options, "random-indexing", name, *cells)
        _retrain(options, text, window, dimension)


def _retrain(options, text, window, dimension: int) -> None:
    """Retrain once: a row of D numbers for each neighbour."""
    tokens = len(text.at)
    matrix = np.random.default_rng(0).normal(size=(len(text.ids), dimension)).astype(np.float32)
    rows, out = np.arange(len(matrix), dtype=np.uint32), np.zeros_like(matrix)
    slabs = ri_cuda.make_slabs(matrix, rows)
    call = partial(ri_cuda.accumulate_dense, text, window, slabs, 0, out)
    _, seconds = kernel_seconds(call)
    moved = 4.0 * tokens * len(window.offsets) * dimension / seconds
    on_cpu = ri_cpu.make_slabs(matrix, rows)
    cpu = tokens / wall_seconds(partial(ri_cpu.accumulate_dense, text, window, on_cpu, 0, out), 1)
    rates = tokens / seconds / 1e6, tokens / wall_seconds(call, 1) / 1e6
    cells = [*rates, moved / 1e9, f"{moved / copy_rate(options):.3g} of copy", cpu / 1e6]
    tell(options, "random-indexing", "retraining", str(dimension), "dense", *cells)


# --- lengths of vectors ---


@click.command()
@click.option("--numbers", default=1 << 26)
@click.pass_obj
def normalise(options, numbers=1 << 26):
    """Random indexing's Figures 6.1 and 6.2: GB/s of lengths by vector at a time, thread and block, and of scaling."""
    numbers = 1 << 11 if options["quick"] else numbers
    widths = (128, 500) if options["quick"] else (128, 500, 512, 2048, 4000, 4096, 16_384, 131_072, 1_048_576)
    row("D", *FORMS, "over copy, best", "GTX 260")
    for width in widths:
        found = [_bandwidth(form, numbers // width, width) for form in FORMS.values()]
        best = max(found) * 1e9 / copy_rate(options)
        tell(options, "normalise", str(width), *found, best, "scaling at best 70")


def _bandwidth(form, n: int, width: int) -> float:
    """GB/s of one form over n vectors; vectors one at a time are at most 64, since each is a launch."""
    function, each, moved = form
    n = min(n, 64) if each == "vector" else n
    rows, scales = cuda.to_device(np.ones((n, width), np.float32)), cuda.to_device(np.zeros(n))
    items = {"vector": width, "thread": n, "block": n * THREADS, "number": n * width}[each]

    def call():
        for v in range(n if each == "vector" else 1):
            launch(function, -(-items // THREADS), THREADS, rows, scales, v)
        synchronize("lengths")

    return moved * 4.0 * n * width / kernel_seconds(call)[1] / 1e9


@kernel
def _length_at_a_time(rows, squares, v):
    """The whole device is on vector ``v``."""
    k, square = cuda.grid(1), float64(0)
    if k < rows.shape[1]:
        square = float64(rows[v, k]) * float64(rows[v, k])
    square = warp_sum(square)
    if cuda.threadIdx.x % WARP == 0:
        cuda.atomic.add(squares, v, square)


@kernel
def _length_a_thread(rows, squares, v):
    i, square = cuda.grid(1), float64(0)
    if i < len(rows):
        for k in range(rows.shape[1]):
            square += float64(rows[i, k]) * float64(rows[i, k])
        squares[i] = square


@kernel
def _length_a_block(rows, squares, v):
    scale = ri_cuda._scale(rows, cuda.blockIdx.x)
    if cuda.threadIdx.x == 0:
        squares[cuda.blockIdx.x] = scale


@kernel
def _scale_a_number(rows, scales, v):
    i = cuda.grid(1)
    if i < rows.size:
        rows[i // rows.shape[1], i % rows.shape[1]] *= scales[i // rows.shape[1]]


@kernel
def _scale_a_block(rows, scales, v):
    """The block's scale is read once, into a register of each thread."""
    scale = scales[cuda.blockIdx.x]
    for k in range(cuda.threadIdx.x, rows.shape[1], cuda.blockDim.x):
        rows[cuda.blockIdx.x, k] *= scale


#: Kernel, what a launch, thread or block has, and how often a number is moved.
FORMS = {
    "vector a time": (_length_at_a_time, "vector", 1),
    "thread": (_length_a_thread, "thread", 1),
    "block": (_length_a_block, "block", 1),
    "scale a number": (_scale_a_number, "number", 2),
    "scale a block": (_scale_a_block, "block", 2),
}


# --- walks ---


@click.command()
@click.option("--nodes", default=100_000)
@click.pass_obj
def walks(options, nodes=100_000):
    """Walks of 80 nodes over a made-up graph of 20 edges a node: M steps per second, the CPU beside it.

    Counted: a step's row and neighbour, and the node written; searches and proposals come on top.
    """
    nodes, length = (20, 6) if options["quick"] else (nodes, 80)
    graph, starts = power_law(nodes), np.arange(nodes, dtype=np.uint32)
    row("p, q", "M steps/s", "with transfers", "GB/s counted", "over copy", "CPU, 1 thread")
    for p, q in ((1.0, 1.0), (0.5, 2.0)):
        walker = walks_cpu.make_walker(graph, p, q)
        call = partial(walks_cuda.walk, walker, starts, length, random.key(1))
        steps = len(call()[1])
        _, seconds = kernel_seconds(call)
        on_cpu = partial(walks_cpu.walk, walker, starts[:2000], length, random.key(1))
        cpu = len(on_cpu()[1]) / wall_seconds(on_cpu, 1)
        moved = 24 * steps / seconds
        rates = steps / seconds / 1e6, steps / wall_seconds(call, 1) / 1e6
        tell(options, "walks", f"{p:g}, {q:g}", *rates, moved / 1e9, moved / copy_rate(options), cpu / 1e6)


def power_law(nodes: int):
    """An undirected graph of about ten edges a node, most of them at few nodes."""
    rng = np.random.default_rng(0)
    ends = np.minimum((nodes * rng.random((2, 10 * nodes)) ** [[1], [2]]).astype(np.int64), nodes - 1)
    ends = ends[:, ends[0] != ends[1]]
    pairs = np.unique(np.r_[ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]])
    row_ptr = np.searchsorted(pairs, np.arange(nodes + 1) * nodes).astype(np.int64)
    return walks_cpu.Adjacency(row_ptr, (pairs % nodes).astype(np.uint32), np.empty(0, np.float32), True)


COMMANDS = nmf, word2vec, traffic, batching, random_indexing, normalise, walks
