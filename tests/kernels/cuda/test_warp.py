"""Operations of a warp against NumPy."""

import importlib.util
import re

import numpy as np
import pytest
from corpusmill.kernels.cuda import warp
from corpusmill.kernels.cuda.launch import Launch
from corpusmill.kernels.cuda.lda.model import make_nodes
from helpers import cuda_ptx
from helpers.on_device import emulated, on_device
from numba import cuda

compiles = pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="needs the compiler")


@on_device
@pytest.mark.parametrize("size", [1, 31, 32, 33, 1024, 1025, 2500])
def test_the_tree_finds_what_a_search_finds(size):
    rng = np.random.default_rng(size)
    leaves = np.cumsum(rng.exponential(size=size))
    # Numbers inside leaves, at their ends, and after all of them.
    wanted = np.r_[0.0, leaves[-1] * rng.random(6), leaves[[0, size // 2, -1]], leaves[-1] + 1]

    @cuda.jit
    def search(leaves, nodes, wanted, found):
        for i in range(len(wanted)):
            found[i] = warp.tree_search(leaves, nodes, len(leaves), wanted[i], cuda.threadIdx.x)

    found = np.full(len(wanted), -1)
    search[1, 32](leaves, make_nodes(leaves), wanted, found)
    np.testing.assert_array_equal(found, np.minimum(np.searchsorted(leaves, wanted, "right"), size - 1))


@pytest.mark.skipif(not emulated(), reason="tests/ptx counts sectors")
def test_a_search_reads_each_level_of_a_large_tree_in_a_row():
    @cuda.jit
    def search(leaves, nodes, found):
        found[cuda.threadIdx.x] = warp.tree_search(leaves, nodes, len(leaves), 15_000.5, cuda.threadIdx.x)

    from tests.ptx import device

    leaves = np.arange(1.0, 20_001.0)
    with device.launches() as launched:
        search[1, 32](leaves, make_nodes(leaves), np.zeros(32, np.int64))
    opcodes = [instruction.opcode for instruction in launched[0].program.kernel.instructions]
    loads = [count for opcode, count in zip(opcodes, launched[0].counts, strict=True) if opcode == "ld.global.f64"]
    # A sector has four numbers. The top level has 20 after the 625 of the middle one, so it begins inside a sector.
    assert sum(int(count["sectors"]) for count in loads) == 6 + 8 + 8


@on_device
def test_prefix_sums_and_sums():
    @cuda.jit
    def sums(x, prefix, whole):
        lane = cuda.threadIdx.x
        prefix[lane] = warp.prefix_sum(x[lane], lane)
        whole[lane] = warp.warp_sum(x[lane])

    x = np.random.default_rng(0).integers(0, 100, 32)
    prefix, whole = np.zeros(32, np.int64), np.zeros(32, np.int64)
    sums[1, 32](x, prefix, whole)
    np.testing.assert_array_equal(prefix, np.cumsum(x))
    np.testing.assert_array_equal(whole, x.sum())


@on_device
def test_sums_of_blocks():
    @cuda.jit
    def sums(x, whole):
        total = warp.block_sum(x[cuda.threadIdx.x])
        if cuda.threadIdx.x == 0:
            whole[0] = total

    x = np.random.default_rng(0).integers(0, 100, 96).astype(np.float64)
    whole = np.zeros(1)
    sums[1, 96](x, whole)
    assert whole[0] == x.sum()


@on_device
@pytest.mark.parametrize(("lanes", "first"), [([], 32), ([0], 0), ([31], 31), ([5, 31], 5), (list(range(32)), 0)])
def test_votes_of_any_lane_are_not_negative(lanes, first):
    @cuda.jit
    def vote(predicates, votes, firsts):
        lane = cuda.threadIdx.x
        votes[lane] = warp.ballot(predicates[lane])
        firsts[lane] = warp.first_where(predicates[lane])

    predicates = np.isin(np.arange(32), lanes)
    votes, firsts = np.zeros(32, np.int64), np.zeros(32, np.int64)
    vote[1, 32](predicates, votes, firsts)
    assert set(votes) == {sum(1 << lane for lane in lanes)}
    assert set(firsts) == {first}


@compiles
def test_votes_are_widened_without_a_sign():
    @cuda.jit
    def vote(predicates, votes):
        votes[0] = np.int64(warp.ballot(predicates[0]))

    launch = Launch(vote, 1, 32, (np.zeros(32, bool), np.zeros(1, np.int64)), 0)
    text = cuda_ptx.ptx_of(launch, (9, 0))[9, 0]
    (votes,) = re.findall(r"vote\.sync\.ballot\.b32\s+(%r\d+)", text)
    conversions = re.findall(rf"cvt\.(\w+\.\w+)\s+%rd\d+, {votes};", text)
    assert conversions == ["u64.u32"]
