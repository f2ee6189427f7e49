"""LDA on a device against LDA on the CPU: in the simulator, and as far as PTX."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from corpusmill.io.corpus import make_chunk
from corpusmill.kernels import lda as cpu
from corpusmill.kernels import random
from corpusmill.kernels.cuda import lda, warp
from corpusmill.kernels.lda_model import Prior
from cuda_simulator import install, run_simulated
from numba import config, cuda, typeof

simulated = pytest.mark.skipif(not config.ENABLE_CUDASIM, reason="runs in a process with NUMBA_ENABLE_CUDASIM=1")
compiled = pytest.mark.skipif(bool(config.ENABLE_CUDASIM), reason="the simulator has no compiler")
BETA = 0.01

if config.ENABLE_CUDASIM:
    install()
    pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")


@compiled
def test_in_the_simulator():
    run_simulated(__file__)


# --- the compiler ---


def arguments_of(kernel):
    """Arguments of the types that a kernel is launched with."""
    i4, i8, u2, u4 = (np.zeros(1, t) for t in (np.int32, np.int64, np.uint16, np.uint32))
    f4, f8 = np.zeros(1, np.float32), np.zeros(1)
    rows = lda.Rows(i8, i4, u4)
    model = lda.Device(i8, u2, i4, 0, BETA, Prior(f8, f8, f8, f8, f8, f4, 1, 1), f8)
    return {
        "_sweep": (lda.Tokens(i8, u4, i8, u4), rows, model, 1, u2, np.uint64(1), i8, u2),
        "_shuffle": (u4, u2, u2),
        "_count": (i8, u2, rows),
        "_count_words": (i8, i8, i8, u2, i8, u2, i4, i8),
    }[kernel]


@compiled
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)])
@pytest.mark.parametrize("kernel", ["_sweep", "_shuffle", "_count", "_count_words"])
def test_kernels_compile(kernel, capability):
    if not cuda.cudadrv.nvvm.is_available():
        pytest.skip("libnvvm is not installed")
    signature = tuple(typeof(argument) for argument in arguments_of(kernel))
    device = SimpleNamespace(compute_capability=capability)
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=device):
        function = getattr(lda, kernel).py_func
        ptx, _ = cuda.compile(function, signature, cc=capability, device=False, abi="numba")
    assert f".target sm_{capability[0]}{capability[1]}" in ptx
    assert ".entry" in ptx


# --- the simulator ---


def model_of(chunk, z, n_topics, n_words, words=None):
    first, behind = words or (0, n_words)
    whole = cpu.count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    block = cpu.count_words(chunk.word_ids, chunk.word_ptr, z, (first, behind), n_topics)
    totals = cpu.topic_totals(whole.topics, whole.counts, n_topics)
    alpha = np.random.default_rng(1).uniform(0.05, 0.6, n_topics).astype(np.float32)
    return cpu.Model(*block, first, totals, alpha, BETA, n_words)


def small_case(n_topics, n_tokens=160, n_words=12, n_documents=5, seed=0):
    rng = np.random.default_rng(seed)
    doc_ptr = np.r_[0, np.sort(rng.integers(0, n_tokens, n_documents - 1)), n_tokens]
    words = np.minimum(rng.geometric(0.2, n_tokens) - 1, n_words - 1).astype(np.uint32)
    chunk = make_chunk(0, doc_ptr, words, group_tokens=90)
    return chunk, rng.integers(0, min(n_topics, 60), n_tokens).astype(np.uint16)


def row_of(rows, d, n):
    """The topics and counts of document d in their order, without fillers."""
    entries = rows.entries[rows.row_ptr[d] : rows.row_ptr[d] + n]
    return [(int(e) >> 16, int(e) & 0xFFFF) for e in entries if int(e) & 0xFFFF]


@simulated
@pytest.mark.parametrize("n_topics", [7, 300])
def test_rows_of_documents_are_the_cpus(n_topics):
    chunk, z = small_case(n_topics, n_tokens=400)
    expected = cpu.count_documents(chunk.doc_ptr, chunk.place, z % n_topics)
    found = lda.count_documents(chunk.doc_ptr, chunk.place, z % n_topics, n_topics)
    assert (found.row_ptr % 32 == 0).all()
    for d in range(chunk.n_documents):
        n = expected.row_ptr[d + 1] - expected.row_ptr[d]
        assert row_of(found, d, found.lengths[d]) == row_of(expected, d, n)


@simulated
@pytest.mark.parametrize("words", [(0, 12), (3, 9), (5, 5)])
def test_rows_of_words_are_the_cpus(words):
    chunk, z = small_case(80, n_tokens=300)
    expected = cpu.count_words(chunk.word_ids, chunk.word_ptr, z, words, 80)
    found = lda.count_words(chunk.word_ids, chunk.word_ptr, z, words, 80)
    for name in expected._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@simulated
@pytest.mark.parametrize(
    ("n_topics", "words", "leave_out"), [(200, None, True), (200, None, False), (1100, (1, 8), True)]
)
def test_draws_are_the_cpus(n_topics, words, leave_out):
    chunk, z = small_case(n_topics, n_tokens=70)
    model, key = model_of(chunk, z, n_topics, 12, words), random.key(5)
    rows = cpu.count_documents(chunk.doc_ptr, chunk.place, z)
    assert not cpu.is_dense(rows, n_topics)
    expected = cpu.sample(chunk, rows, model, z, key, leave_out)
    with mock.patch.object(lda, "WARPS", 2):
        found = lda.sample(
            chunk, lda.count_documents(chunk.doc_ptr, chunk.place, z, n_topics), model, z, key, leave_out
        )
    np.testing.assert_array_equal(found, expected)
    assert np.count_nonzero(expected != z) > 20


@simulated
@pytest.mark.parametrize("size", [1, 31, 32, 33, 1024, 1025, 2500])
def test_the_tree_finds_what_a_search_finds(size):
    rng = np.random.default_rng(size)
    leaves = np.cumsum(rng.exponential(size=size))
    # Numbers inside, at the ends of leaves, and behind all of them.
    wanted = np.r_[0.0, leaves[-1] * rng.random(6), leaves[[0, size // 2, -1]], leaves[-1] + 1]

    @cuda.jit
    def search(leaves, nodes, wanted, found):
        for i in range(len(wanted)):
            found[i] = warp.tree_search(leaves, nodes, len(leaves), wanted[i], cuda.threadIdx.x)

    found = np.full(len(wanted), -1)
    search[1, 32](leaves, lda.tree_nodes(leaves), wanted, found)
    np.testing.assert_array_equal(found, np.minimum(np.searchsorted(leaves, wanted, "right"), size - 1))


@simulated
def test_prefix_sums():
    @cuda.jit
    def sums(x, out):
        out[cuda.threadIdx.x] = warp.prefix_sum(x[cuda.threadIdx.x], cuda.threadIdx.x)

    x = np.random.default_rng(0).integers(0, 100, 32)
    out = np.zeros(32, np.int64)
    sums[1, 32](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x))


@simulated
def test_draws_are_addressed_as_on_the_cpu():
    from corpusmill.kernels.cuda.random import uniform64

    @cuda.jit
    def draw(key, out):
        out[cuda.threadIdx.x] = uniform64(key, cuda.threadIdx.x)

    out = np.zeros(32)
    draw[1, 32](random.key(3), out)
    np.testing.assert_array_equal(out, [random.uniform64(random.key(3), i) for i in range(32)])


@simulated
def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"a document has 65,536 tokens, on a device at most 65,535"):
        lda.count_documents(np.array([0, 1 << 16]), np.arange(1 << 16), np.zeros(1 << 16, np.uint16), 10)
    with pytest.raises(ValueError, match=r"50,000 topics take [\d,]+ bytes of shared memory, this device has"):
        lda.check_shared(lda.shared_bytes(50_000, 50_000), 50_000)
