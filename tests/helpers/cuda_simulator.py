"""Numba's CUDA simulator, with the warp operations that it lacks: syncwarp, shuffles and votes.

The simulator runs each thread of a block as a thread of Python, one block after another. Here the threads of a block
take turns instead, each until it waits for others: a hundred times faster, and the same every time. The 32 threads of a
warp wait for each other at a warp operation, each with a number, and take what another one brought.
"""

import os
import subprocess
import sys
from collections import deque
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numba.cuda
import numpy as np
import pytest
from greenlet import greenlet
from numba import config, types
from numba.np import numpy_support

FULL = 0xFFFFFFFF
#: Marks a test that needs a device: the machine's, or the one in the process that test_cuda_simulator.py starts.
on_device = pytest.mark.skipif(
    not (config.ENABLE_CUDASIM or numba.cuda.is_available()),
    reason="runs where there is a device, or NUMBA_ENABLE_CUDASIM=1",
)
#: Where the thread is that runs.
_now = SimpleNamespace(thread=None)


class Thread(greenlet):
    """A thread of a block: what the simulator asks of the running one."""

    def __init__(self, function, block, blockIdx, threadIdx, number):
        super().__init__(function)
        self.block, self.blockIdx, self.threadIdx, self.thread_id = block, blockIdx, threadIdx, number
        self.at_barrier, self.counted = False, 0

    def syncthreads(self):
        """Wait until all threads of the block that have not ended are here."""
        self.at_barrier = True
        self.parent.switch()

    def syncthreads_count(self, value):
        """Return how many threads of the block bring a true value."""
        self.counted += 1
        self.block.values.setdefault(self.counted, []).append(bool(value))
        self.syncthreads()
        return sum(self.block.values[self.counted])

    def syncthreads_and(self, value):
        """Return whether all threads of the block bring a true value."""
        return int(self.syncthreads_count(not value) == 0)

    def syncthreads_or(self, value):
        """Return whether a thread of the block brings a true value."""
        return int(self.syncthreads_count(value) > 0)


class Warp:
    """Where the threads of a warp meet. Two boards in turn, so that none is overwritten while it is read."""

    def __init__(self, size):
        self.boards = [[None] * size, [None] * size]
        self.turns = [0] * size
        self.waiting = []

    def exchange(self, thread, lane, value):
        """Bring ``value`` and return what all threads brought, as a list by lane."""
        board = self.boards[self.turns[lane] % 2]
        self.turns[lane] += 1
        board[lane] = value
        if len(self.waiting) + 1 < len(board):
            self.waiting.append(thread)
            thread.parent.switch()
        else:
            thread.block.ready.extend(self.waiting)
            self.waiting = []
        return board


class Block:
    """A block whose threads take turns, in place of the simulator's BlockManager."""

    def __init__(self, function, grid_dim, block_dim, debug):
        self.function, self.dim = function, block_dim
        size = int(np.prod(block_dim))
        self.warps = [Warp(min(32, size - first)) for first in range(0, size, 32)]
        self.values = {}

    def run(self, point, *arguments):
        """Run all threads to their ends; raise what one raises, and RuntimeError where they wait for ever."""
        from numba.cuda.simulator.kernelapi import Dim3

        # The first index is the one that changes fastest from thread to thread.
        places = [place[::-1] for place in np.ndindex(*self.dim[::-1])]
        threads = [
            Thread(lambda: self.function(*arguments), self, Dim3(*point), Dim3(*place), number)
            for number, place in enumerate(places)
        ]
        self.ready = deque(threads)
        while self.ready:
            _now.thread = self.ready.popleft()
            _now.thread.switch()
            if not self.ready:
                threads = [thread for thread in threads if not thread.dead]
                if not all(thread.at_barrier for thread in threads):
                    raise RuntimeError("threads of a warp did not all come to the same warp operation")
                for thread in threads:
                    thread.at_barrier = False
                self.ready.extend(threads)


def _exchange(mask, value):
    if mask & FULL != FULL:
        raise NotImplementedError("only whole warps are emulated: mask 0xFFFFFFFF")
    thread = _now.thread
    lane = thread.thread_id % 32
    return thread.block.warps[thread.thread_id // 32].exchange(thread, lane, value), lane


def _shuffle(choose):
    def shuffle(self, mask, value, operand):
        brought, lane = _exchange(mask, value)
        source = choose(lane, int(operand))
        return brought[source] if 0 <= source < len(brought) else value

    return shuffle


def _shared_array(self, shape, dtype):
    """Allocate a shared array once for all threads that come to the same line."""
    frame = sys._getframe(1)
    if isinstance(dtype, types.Type):
        dtype = numpy_support.as_dtype(dtype)
    if shape == 0:
        return np.frombuffer(self._dynshared.data, dtype, self._dynshared_size // np.dtype(dtype).itemsize)
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
        found, users = self.users.get(id(names), (None, 0))
        if not users:
            found = {name: value for name, value in names.items() if value is numba.cuda}
            names.update(dict.fromkeys(found, fake))
        self.users[id(names)] = found, users + 1
        try:
            yield
        finally:
            found, users = self.users[id(names)]
            self.users[id(names)] = found, users - 1
            if users == 1:
                names.update(found)


def _install():
    """Teach the simulator the warp operations."""
    from numba.cuda.simulator import kernel, kernelapi
    from numba.cuda.simulator.kernelapi import FakeCUDAModule, FakeCUDAShared

    kernel.swapped_cuda_module = Swap()
    kernel.BlockManager = Block
    kernelapi.threading = SimpleNamespace(current_thread=lambda: _now.thread)
    FakeCUDAShared.array = _shared_array
    FakeCUDAModule.syncwarp = lambda self, mask=FULL: _exchange(mask, None) and None
    FakeCUDAModule.shfl_sync = _shuffle(lambda lane, source: source % 32)
    FakeCUDAModule.shfl_up_sync = _shuffle(lambda lane, delta: lane - delta)
    FakeCUDAModule.shfl_down_sync = _shuffle(lambda lane, delta: lane + delta)
    FakeCUDAModule.shfl_xor_sync = _shuffle(lambda lane, bits: lane ^ bits)
    FakeCUDAModule.ballot_sync = _ballot
    FakeCUDAModule.any_sync = lambda self, mask, predicate: bool(_ballot(self, mask, predicate))
    FakeCUDAModule.all_sync = lambda self, mask, predicate: all(_exchange(mask, bool(predicate))[0])


def few_threads(module, **constants):
    """Within, a module's launches are small in the simulator, which runs each of their threads as Python."""
    return mock.patch.multiple(module, **constants) if config.ENABLE_CUDASIM else nullcontext()


def run_simulated(*paths):
    """Run the tests of these files where the simulator is on: in a process of their own."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    options = ["-p", "no:cacheprovider", "-W", "ignore:overflow encountered"]
    command = [sys.executable, "-m", "pytest", "-q", *options, *map(str, paths)]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if config.ENABLE_CUDASIM:
    _install()
