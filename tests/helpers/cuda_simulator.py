"""Numba's CUDA simulator, with the warp operations that it lacks: syncwarp, shuffles and votes.

Numba's simulator runs each CUDA thread of a block as a thread of Python, one block after another. Here each CUDA thread
is a greenlet: it runs until it has to wait for others, then the next one runs. That is about a hundred times faster,
and always in the same order. At a warp operation, the 32 threads of a warp exchange values: each writes its value,
waits until all have written theirs, and then reads the value of another thread.

Importing this file changes Numba's simulator, if NUMBA_ENABLE_CUDASIM=1 has turned it on.
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
#: Marks a test that needs a device: a real one, or the simulated one of the process that test_simulator.py starts.
on_device = pytest.mark.skipif(
    not (config.ENABLE_CUDASIM or numba.cuda.is_available()),
    reason="runs where there is a device, or NUMBA_ENABLE_CUDASIM=1",
)
#: Its attribute ``thread`` is the CUDA thread that is running.
_now = SimpleNamespace(thread=None)


class Thread(greenlet):
    """A CUDA thread of a block, with the methods and attributes that Numba's simulator uses."""

    def __init__(self, function, block, blockIdx, threadIdx, number):
        super().__init__(function)
        self.block, self.blockIdx, self.threadIdx, self.thread_id = block, blockIdx, threadIdx, number
        self.at_barrier, self.counted = False, 0

    def syncthreads(self):
        """Wait until all threads of the block that have not ended wait here."""
        self.at_barrier = True
        self.parent.switch()

    def syncthreads_count(self, value):
        """Return how many threads of the block call this with a true value."""
        self.counted += 1
        self.block.values.setdefault(self.counted, []).append(bool(value))
        self.syncthreads()
        return sum(self.block.values[self.counted])

    def syncthreads_and(self, value):
        """Return whether all threads of the block call this with a true value."""
        return int(self.syncthreads_count(not value) == 0)

    def syncthreads_or(self, value):
        """Return whether any thread of the block calls this with a true value."""
        return int(self.syncthreads_count(value) > 0)


class Warp:
    """The exchange of values in a warp.

    Two boards are used in turn: a thread may write for the next operation while others still read the last one's board.
    """

    def __init__(self, size):
        self.boards = [[None] * size, [None] * size]
        self.turns = [0] * size
        self.waiting = []

    def exchange(self, thread, lane, value):
        """Write ``value`` to the board, wait for the other threads, return the values of all lanes."""
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
    """A block of threads that run one after another; replaces BlockManager of Numba's simulator."""

    def __init__(self, function, grid_dim, block_dim, debug):
        self.function, self.dim = function, block_dim
        size = int(np.prod(block_dim))
        self.warps = [Warp(min(32, size - first)) for first in range(0, size, 32)]
        self.values = {}

    def run(self, point, *arguments):
        """Run all threads to their ends. Raises their exceptions, and RuntimeError if threads wait and none can run."""
        from numba.cuda.simulator.kernelapi import Dim3

        # In CUDA, threadIdx.x changes fastest from thread to thread.
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
    """Return the shared array of the calling line of source: the same one for all threads of the block."""
    frame = sys._getframe(1)
    if isinstance(dtype, types.Type):
        dtype = numpy_support.as_dtype(dtype)
    if shape == 0:
        return np.frombuffer(self._dynshared.data, dtype, self._dynshared_size // np.dtype(dtype).itemsize)
    return self._allocations.setdefault((frame.f_code.co_filename, frame.f_lineno), np.empty(shape, dtype))


def _ballot(self, mask, predicate):
    brought, _ = _exchange(mask, bool(predicate))
    return sum(1 << lane for lane, vote in enumerate(brought) if vote)


def _match_any(self, mask, value):
    brought, lane = _exchange(mask, value)
    return sum(1 << other for other, theirs in enumerate(brought) if theirs == brought[lane])


class Swap:
    """Replaces ``cuda`` in a module by the simulator's object while any thread runs a function of that module.

    Numba's own version puts the original back as soon as the first thread leaves the function, also for the threads
    that are still inside.
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
    """Add the warp operations to Numba's simulator, and replace how it runs a block."""
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
    FakeCUDAModule.match_any_sync = _match_any
    FakeCUDAModule.any_sync = lambda self, mask, predicate: bool(_ballot(self, mask, predicate))
    FakeCUDAModule.all_sync = lambda self, mask, predicate: all(_exchange(mask, bool(predicate))[0])


def few_threads(module, **constants):
    """Context manager: change constants of a module in the simulator, so that launches have few threads.

    The simulator runs each thread as Python code. On a device, the constants stay as they are.
    """
    return mock.patch.multiple(module, **constants) if config.ENABLE_CUDASIM else nullcontext()


def run_simulated(*paths):
    """Run the tests of these files in a process with the simulator turned on."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    options = ["-p", "no:cacheprovider", "-W", "ignore:overflow encountered"]
    command = [sys.executable, "-m", "pytest", "-q", *options, *map(str, paths)]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if config.ENABLE_CUDASIM:
    _install()
