"""Numba's CUDA simulator, with the warp operations that it lacks: syncwarp, shuffles and votes.

The simulator runs each thread of a block as a thread of Python, one block after another. Here the 32 threads of a warp
meet at a barrier, each with a number, and take what another one brought.
"""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numba.cuda
import numpy as np
from numba import config, types
from numba.np import numpy_support

FULL = 0xFFFFFFFF
#: Seconds after which threads that wait for others that never come give up.
PATIENCE = 60


class Warp:
    """Where the threads of a warp meet. Two boards in turn, so that none is overwritten while it is read."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size)
        self.boards = [[None] * size, [None] * size]
        self.turns = [0] * size

    def exchange(self, lane, value):
        """Bring ``value`` and return what all threads brought, as a list by lane."""
        board = self.boards[self.turns[lane] % 2]
        self.turns[lane] += 1
        board[lane] = value
        try:
            self.barrier.wait(PATIENCE)
        except threading.BrokenBarrierError:
            raise RuntimeError("threads of a warp did not all come to the same warp operation") from None
        return board


def _exchange(mask, value):
    if mask & FULL != FULL:
        raise NotImplementedError("only whole warps are emulated: mask 0xFFFFFFFF")
    thread = threading.current_thread()
    lane, warp, manager = thread.thread_id % 32, thread.thread_id // 32, thread._manager
    with _LOCK:
        warps = manager.__dict__.setdefault("warps", {})
        if warp not in warps:
            threads = int(np.prod(manager._block_dim))
            warps[warp] = Warp(min(32, threads - 32 * warp))
    return warps[warp].exchange(lane, value), lane


_LOCK = threading.Lock()


def _shuffle(choose):
    def shuffle(self, mask, value, operand):
        brought, lane = _exchange(mask, value)
        source = choose(lane, int(operand))
        return brought[source] if 0 <= source < len(brought) else value

    return shuffle


def _shared_array(self, shape, dtype):
    """Allocate a shared array once for all threads that come to the same line; the simulator's own way races."""
    frame = sys._getframe(1)
    if isinstance(dtype, types.Type):
        dtype = numpy_support.as_dtype(dtype)
    if shape == 0:
        return np.frombuffer(self._dynshared.data, dtype, self._dynshared_size // np.dtype(dtype).itemsize)
    with _LOCK:
        return self._allocations.setdefault((frame.f_code.co_filename, frame.f_lineno), np.empty(shape, dtype))


def _ballot(self, mask, predicate):
    brought, _ = _exchange(mask, bool(predicate))
    return sum(1 << lane for lane, vote in enumerate(brought) if vote)


class Swap:
    """Gives functions the simulator's ``cuda`` while any thread runs one of their module.

    The simulator's own way takes it from the threads that are still inside when the first one leaves.
    """

    def __init__(self):
        self.users = {}

    @contextmanager
    def __call__(self, function, fake):
        names = function.__globals__
        with _LOCK:
            found, users = self.users.get(id(names), (None, 0))
            if not users:
                found = {name: value for name, value in names.items() if value is numba.cuda}
                names.update(dict.fromkeys(found, fake))
            self.users[id(names)] = found, users + 1
        try:
            yield
        finally:
            with _LOCK:
                found, users = self.users[id(names)]
                self.users[id(names)] = found, users - 1
                if users == 1:
                    names.update(found)


def install():
    """Teach the simulator the warp operations; raise RuntimeError where NUMBA_ENABLE_CUDASIM=1 is not set."""
    if not config.ENABLE_CUDASIM:
        raise RuntimeError("set NUMBA_ENABLE_CUDASIM=1 before numba is imported")
    from numba.cuda.simulator import kernel
    from numba.cuda.simulator.kernelapi import FakeCUDAModule, FakeCUDAShared

    kernel.swapped_cuda_module = Swap()
    FakeCUDAShared.array = _shared_array
    # Waiting threads hand over at once, instead of after five milliseconds.
    sys.setswitchinterval(1e-5)
    FakeCUDAModule.syncwarp = lambda self, mask=FULL: _exchange(mask, None) and None
    FakeCUDAModule.shfl_sync = _shuffle(lambda lane, source: source % 32)
    FakeCUDAModule.shfl_up_sync = _shuffle(lambda lane, delta: lane - delta)
    FakeCUDAModule.shfl_down_sync = _shuffle(lambda lane, delta: lane + delta)
    FakeCUDAModule.shfl_xor_sync = _shuffle(lambda lane, bits: lane ^ bits)
    FakeCUDAModule.ballot_sync = _ballot
    FakeCUDAModule.any_sync = lambda self, mask, predicate: bool(_ballot(self, mask, predicate))
    FakeCUDAModule.all_sync = lambda self, mask, predicate: all(_exchange(mask, bool(predicate))[0])


def run_simulated(path):
    """Run a test file's tests marked ``simulated`` in a process of their own, where the simulator is on."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, env=environment, cwd=Path(path).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
