"""Compile kernels to PTX on a machine without a device: record their launches, compile them, read the result.

PTX is NVIDIA's assembly language for all devices. ptxas, if it is installed, translates it for one kind of device and
reports registers and shared memory.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from corpusmill.kernels.cuda import caches, launch, memory, pinned
from corpusmill.kernels.cuda.launch import Launch
from numba import typeof

from tests.ptx.compiler import texts_of


class HostArray(np.ndarray):
    """A host array in place of a device array. It ignores uploads, and downloads fill the target with one number."""

    answer = 0

    def copy_to_device(self, source: np.ndarray, stream: Any) -> None:
        """Do what an upload does to a device array."""
        np.copyto(self, source)

    def copy_to_host(self, target: np.ndarray, stream: Any) -> None:
        """Fill the target with the number that the recorder was given."""
        target.fill(self.answer)


class HostEvent:
    """Replaces streams and events of CUDA. Every operation is complete when it returns."""

    def __init__(self, timing: bool = True) -> None:
        pass

    def record(self, stream: Any) -> None:
        """Mark a place in a stream."""

    def wait(self, stream: Any) -> None:
        """Let a stream wait."""

    def synchronize(self) -> None:
        """Wait on the host."""


class HostCuda:
    """Replaces numba.cuda on a machine without a device, except for running kernels."""

    stream = event = HostEvent

    def __init__(self, answer: int) -> None:
        self.answer = answer

    def device_array(self, shape: tuple[int, ...], dtype: Any, stream: Any) -> HostArray:
        """Return an array that is downloaded as ``answer``."""
        answering = type("Answering", (HostArray,), {"answer": self.answer})
        return np.zeros(shape, dtype).view(answering)

    def pinned_array(self, shape: int, dtype: Any) -> np.ndarray:
        """Return an ordinary array."""
        return np.empty(shape, dtype)

    def current_context(self) -> SimpleNamespace:
        """Return a device with one TiB of memory and the shared memory that every device grants."""
        memory_info = SimpleNamespace(free=1 << 40, total=1 << 40)
        deallocations = SimpleNamespace(clear=lambda: None)
        shared = launch.PORTABLE_SHARED_BYTES
        device = SimpleNamespace(id=0, MULTIPROCESSOR_COUNT=1, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=shared)
        return SimpleNamespace(device=device, get_memory_info=lambda: memory_info, deallocations=deallocations)


def recorded(call: Callable[[], None], answer: int = 0) -> list[Launch]:
    """Run ``call`` without a device, and return the kernels that it would have launched.

    Device arrays are NumPy arrays, and every downloaded array is filled with ``answer``. The call runs in another
    thread, because streams and buffers are kept per thread and this thread's must not change.
    """
    launches: list[Launch] = []
    host = HostCuda(answer)
    with ExitStack() as stack:
        for module in (caches, launch, memory, pinned):
            stack.enter_context(mock.patch.object(module, "cuda", host))
        stack.enter_context(mock.patch.object(memory, "COPIES", caches.CopyCache()))
        stack.enter_context(mock.patch.object(memory, "device_memset", lambda array, *_, **__: array.fill(0)))
        stack.enter_context(mock.patch.object(launch, "submit", launches.append))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(call).result()
    return [one._replace(arguments=_plain(one.arguments)) for one in launches]


def _plain(argument: Any) -> Any:
    """Return an argument with plain NumPy arrays, which have a type in Numba."""
    if isinstance(argument, np.ndarray):
        return np.asarray(argument)
    if isinstance(argument, tuple):
        values = [_plain(value) for value in argument]
        return type(argument)(*values) if hasattr(argument, "_fields") else tuple(values)
    return argument


def ptx_of(launch: Launch, *capabilities: tuple[int, int]) -> dict[tuple[int, int], str]:
    """Compile a kernel for compute capabilities such as (9, 0), and return the text for each."""
    signature = [typeof(argument) for argument in launch.arguments]
    return texts_of(launch.function, signature, capabilities)


#: The spaces of memory in PTX.
SPACES = ("const", "global", "local", "param", "shared")


def memory_spaces(text: str) -> Counter[str]:
    """Count the instructions of PTX that load, store or change memory, by the space that they name.

    "generic" has no name: the device then finds out at run time whether an address lies in shared or in global memory.
    """
    found: Counter[str] = Counter()
    # Not "bar.red", which is a vote of a block.
    for qualifiers in re.findall(r"(?<![.\w])(?:ld|st|atom|red)((?:\.\w+)+)", text):
        spaces = [name for name in qualifiers.split(".") if name in SPACES]
        found[spaces[0] if spaces else "generic"] += 1
    return found


class Resources(NamedTuple):
    """What ptxas reports of a kernel."""

    registers: int  # per thread
    shared: int  # static shared memory, bytes per block
    spilled: int  # bytes per thread that are stored and loaded because there are too few registers


def ptxas() -> str | None:
    """Return the path of NVIDIA's assembler: of a Python package such as nvidia-cuda-nvcc-cu12, else the system's."""
    package = importlib.util.find_spec("nvidia")
    if package is not None:
        for folder in package.submodule_search_locations or ():
            paths = sorted(Path(folder).glob("*/bin/ptxas"))
            if paths:
                # In alphabetical order, CUDA 13 (cu13) comes before CUDA 12 (cuda_nvcc). It reads the PTX of both.
                return str(paths[0])
    return shutil.which("ptxas")


def resources_of(text: str, capability: tuple[int, int]) -> Resources:
    """Assemble PTX for one kind of device. Raises subprocess.CalledProcessError if ptxas rejects it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(text)
        target = f"-arch=sm_{capability[0]}{capability[1]}"
        command = [str(ptxas()), "-v", target, str(source), "-o", str(source.with_suffix(".cubin"))]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def number(pattern: str) -> int:
        return sum(int(found) for found in re.findall(pattern, report))

    return Resources(number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes spill"))


class Multiprocessor(NamedTuple):
    """The limits of a multiprocessor."""

    warps: int
    blocks: int
    shared: int  # bytes
    reserved: int  # bytes of shared memory that the driver takes for each block


#: Multiprocessors by compute capability.
MULTIPROCESSORS = {
    (7, 5): Multiprocessor(32, 16, 64 << 10, 0),
    (8, 0): Multiprocessor(64, 32, 164 << 10, 1 << 10),
    (9, 0): Multiprocessor(64, 32, 228 << 10, 1 << 10),
}


def occupancy(launch: Launch, resources: Resources, capability: tuple[int, int]) -> float:
    """Return the share of a multiprocessor's warps that can be active at a time."""
    limits = MULTIPROCESSORS[capability]
    warps = -(-launch.threads // 32)
    registers = -(-32 * resources.registers // 256) * 256 * warps
    blocks = min(limits.blocks, limits.warps // warps, 65536 // registers)
    used = resources.shared + launch.shared
    if used:
        blocks = min(blocks, limits.shared // (used + limits.reserved))
    return blocks * warps / limits.warps
