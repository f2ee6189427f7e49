"""Measuring on a CUDA device: the bandwidth of a copy, and the time that each kernel takes."""

import contextlib
import threading
import time
from statistics import median
from unittest import mock

import numpy as np

from benchmarks.common import emulated, print_row


def report(session, what: str, name: str, *cells) -> None:
    """Print one row and add it to the figures."""
    print_row(name, *cells)
    session.figures[f"{what} {name}"] = [cell for cell in cells if not isinstance(cell, str)]


def copy_rate(session) -> float:
    """Return the bytes per second that a copy on the device reads and writes; measured once per run."""
    if "copy" not in session.figures:
        from corpusmill.kernels.cuda.launch import stream, synchronize
        from corpusmill.kernels.cuda.memory import allocate

        size = 1 << 20 if session.quick else 1 << 30
        source, target = allocate(size, np.uint8, "copy"), allocate(size, np.uint8, "copy")
        target.copy_to_device(source, stream=stream())
        synchronize("copy")
        started = time.perf_counter()
        for _ in range(20):
            target.copy_to_device(source, stream=stream())
        synchronize("copy")
        session.figures["copy"] = 20 * 2 * size / (time.perf_counter() - started)
    return session.figures["copy"]


@contextlib.contextmanager
def timed():
    """Yield a dictionary that receives the milliseconds of each kernel and library product at the end."""
    from corpusmill.kernels.cuda import launch
    from corpusmill.kernels.cuda.nmf import products
    from numba import cuda

    from benchmarks.papers.kernels import tiled_cuda

    spans, lock, total = [], threading.Lock(), {}

    def marked(name, call, *arguments):
        events = cuda.event(), cuda.event()
        events[0].record(launch.stream())
        found = call(*arguments)
        events[1].record(launch.stream())
        with lock:
            spans.append((name, *events))
        return found

    submit, run_cupy = launch.submit, products.run_cupy
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            mock.patch.object(launch, "submit", lambda submitted: marked(submitted.name, submit, submitted))
        )
        for module in (products, tiled_cuda):
            stack.enter_context(
                mock.patch.object(module, "run_cupy", lambda *arguments: marked("product", run_cupy, *arguments))
            )
        yield total
    cuda.synchronize()
    for name, start, end in spans:
        total[name] = total.get(name, 0.0) + start.elapsed_time(end)


def kernel_seconds(call) -> tuple[dict[str, float], float]:
    """Return the milliseconds of each kernel of ``call()``, and the seconds of all: the median of three calls."""
    call()
    turns = []
    for _ in range(1 if emulated() else 3):
        with timed() as spent:
            call()
        turns.append(spent)
    seconds = median(sum(spent.values()) for spent in turns) / 1e3
    return turns[-1], max(seconds, 1e-9)


def wall_seconds(call, turns=3) -> float:
    """Return the seconds of the fastest of several calls, after one that may compile."""
    if not emulated():
        call()
    seconds = []
    for _ in range(1 if emulated() else turns):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def to_host_after(call, arrays=()) -> None:
    """Run ``call``, and bring its result and some arrays back to the host, if kernels have left them on the device."""
    from corpusmill.kernels.cuda.residents import RESIDENTS

    result = call()
    RESIDENTS.bring_back([*arrays] if result is None else [*arrays, result])


def shared_rate() -> float:
    """Return the bytes per second of all shared memories: 128 per clock and multiprocessor. NaN without a GPU."""
    from numba import cuda

    if emulated():
        return float("nan")
    device = cuda.current_context().device
    return 128e3 * device.MULTIPROCESSOR_COUNT * device.CLOCK_RATE
