"""All CUDA tests in the simulator, and tests that emulated warp operations follow the CUDA programming guide."""

from pathlib import Path

import numpy as np
import pytest
from helpers.cuda_simulator import FULL, run_simulated
from numba import config, cuda

#: Tests that need a device, or the compiler.
OTHERS = ("test_gpu.py", "test_gpu_large.py", "test_ptx.py")
simulated = pytest.mark.skipif(not config.ENABLE_CUDASIM, reason="runs in a process with NUMBA_ENABLE_CUDASIM=1")


@pytest.mark.skipif(bool(config.ENABLE_CUDASIM), reason="this is the inner process")
@pytest.mark.timeout(900)
def test_all_cuda_tests_in_the_simulator():
    here = Path(__file__).parent
    paths = [path for path in sorted(here.rglob("test_*.py")) if path.name not in OTHERS]
    benchmarks = here.parents[1] / "benchmarks"
    papers = benchmarks / "papers"
    paths += [papers / "test_random_indexing_passes.py", papers / "test_gpu_variants.py", papers / "test_tiled_cuda.py"]
    run_simulated(*paths, benchmarks / "test_gpu_commands.py")


def launched(body, threads=32, blocks=1):
    """Run ``body(lane, thread) -> number`` on every thread and return the numbers, (blocks, threads)."""
    function = cuda.jit(device=True)(body)

    def kernel(out):
        out[cuda.blockIdx.x, cuda.threadIdx.x] = function(cuda.laneid, cuda.threadIdx.x)

    out = np.full((blocks, threads), -1, np.int64)
    cuda.jit(kernel)[blocks, threads](out)
    return out


@simulated
@pytest.mark.parametrize("threads", [32, 96])
def test_shuffles(threads):
    lane = np.arange(threads) % 32
    warp = np.arange(threads) - lane
    bodies = {
        "shfl": (lambda lane, thread: cuda.shfl_sync(FULL, thread, 5), warp + 5),
        "own": (lambda lane, thread: cuda.shfl_sync(FULL, thread, 31 - lane), warp + 31 - lane),
        "up": (lambda lane, thread: cuda.shfl_up_sync(FULL, thread, 3), warp + np.where(lane < 3, lane, lane - 3)),
        "down": (lambda lane, thread: cuda.shfl_down_sync(FULL, thread, 4), warp + np.where(lane > 27, lane, lane + 4)),
        "xor": (lambda lane, thread: cuda.shfl_xor_sync(FULL, thread, 9), warp + (lane ^ 9)),
    }
    for body, expected in bodies.values():
        np.testing.assert_array_equal(launched(body, threads)[0], expected)


@simulated
def test_votes():
    ballots = launched(lambda lane, thread: cuda.ballot_sync(FULL, thread % 3 == 0), 64)[0]
    for warp in range(2):
        expected = sum(1 << lane for lane in range(32) if (32 * warp + lane) % 3 == 0)
        assert set(ballots[32 * warp : 32 * warp + 32]) == {expected}
    assert launched(lambda lane, thread: cuda.any_sync(FULL, thread == 40), 64)[0].tolist() == [0] * 32 + [1] * 32
    assert launched(lambda lane, thread: cuda.all_sync(FULL, thread < 40), 64)[0].tolist() == [1] * 32 + [0] * 32


@simulated
def test_shared_memory_is_seen_after_syncwarp():
    @cuda.jit
    def kernel(out):
        board = cuda.shared.array(64, np.int64)
        thread = cuda.threadIdx.x
        for turn in range(5):
            board[thread] = thread * (turn + 1)
            cuda.syncwarp()
            out[turn, thread] = board[thread ^ 1]
            cuda.syncwarp()

    out = np.zeros((5, 64), np.int64)
    kernel[1, 64](out)
    np.testing.assert_array_equal(out, (np.arange(64) ^ 1) * np.arange(1, 6)[:, None])


@simulated
def test_votes_of_a_block():
    assert launched(lambda lane, thread: cuda.syncthreads_count(thread % 3 == 0), 96)[0].tolist() == [32] * 96
    both = launched(lambda lane, thread: cuda.syncthreads_and(thread < 96) + 2 * cuda.syncthreads_or(thread == 40), 96)
    assert both[0].tolist() == [3] * 96


@simulated
def test_warps_of_a_block_and_blocks_do_not_wait_for_each_other():
    def body(lane, thread):
        total = 0
        for _ in range(thread // 32 + 1):
            total = total + cuda.shfl_xor_sync(FULL, 1, 1)
        return total

    np.testing.assert_array_equal(launched(body, 96, blocks=2), [np.repeat([1, 2, 3], 32)] * 2)


@simulated
def test_a_partial_mask_is_refused():
    with pytest.raises(NotImplementedError, match="only whole warps"):
        launched(lambda lane, thread: cuda.shfl_sync(0xFFFF, thread, 0))


@simulated
def test_a_missing_thread_is_an_error():
    with pytest.raises(RuntimeError, match="did not all come"):
        launched(lambda lane, thread: cuda.shfl_sync(FULL, thread, 0) if lane else 0)
