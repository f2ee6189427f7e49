"""Kernels as PTX, on a machine without a device: what they are launched with is recorded, then compiled."""

import contextlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from corpusmill.kernels.cuda import jit, memory
from corpusmill.kernels.cuda.jit import KEPT, PORTABLE
from numba import cuda, typeof


class Launch(NamedTuple):
    """A kernel as it was launched."""

    function: Any
    blocks: int
    threads: int
    arguments: tuple[Any, ...]
    shared: int

    @property
    def name(self) -> str:
        """The kernel's module and function."""
        function = self.function.py_func
        folder, file = function.__module__.split(".")[-2:]
        return f"{folder}.{file}.{function.__qualname__.replace('.<locals>', '')}"


@contextlib.contextmanager
def recorded(answer: int = 0) -> Iterator[list[Launch]]:
    """Within, callers of kernels launch nothing; yield what they would have launched.

    Arrays of the device are NumPy's; what comes back from it is full of ``answer``.
    """
    launches: list[Launch] = []

    def launch(function: Any, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
        launches.append(Launch(function, blocks, threads, arguments, shared))

    fakes = {
        "launch": launch,
        "new": np.zeros,
        "reused": lambda what, shape, dtype: np.zeros(shape, dtype),
        "filled": np.copy,
        "resident": np.copy,
        "residents": lambda arrays: type(arrays)(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in arrays)),
        "fetched": lambda array, remember=False: np.full(array.shape, answer, array.dtype),
        "shared_limit": lambda: PORTABLE - KEPT,
    }
    callers = [
        module
        for name, module in sys.modules.items()
        if name.startswith(("corpusmill.kernels.cuda.", "benchmarks.papers.")) and module not in (jit, memory)
    ]
    with contextlib.ExitStack() as stack:
        for module in callers:
            for fake in fakes.keys() & vars(module).keys():
                stack.enter_context(mock.patch.object(module, fake, fakes[fake]))
        yield launches


def ptx_of(launch: Launch, *capabilities: tuple[int, int]) -> dict[tuple[int, int], str]:
    """Compile a recorded kernel for compute capabilities such as (9, 0); what comes before PTX is done once."""
    from numba.cuda.codegen import CUDACodeLibrary

    compiled: dict[tuple[int, int], str] = {}
    generate = CUDACodeLibrary.get_asm_strs

    def for_all(library: Any, cc: tuple[int, int]) -> list[str]:
        for capability in capabilities:
            compiled[capability] = "".join(generate(library, cc=capability))
        return generate(library, cc=cc)

    signature = tuple(typeof(argument) for argument in launch.arguments)
    options = {"device": False, "abi": "numba", "launch_bounds": launch.function.targetoptions.get("launch_bounds")}
    with (
        mock.patch("numba.cuda.dispatcher.get_current_device", return_value=SimpleNamespace(compute_capability=(9, 0))),
        mock.patch.object(CUDACodeLibrary, "get_asm_strs", for_all),
    ):
        cuda.compile(launch.function.py_func, signature, cc=capabilities[0], **options)
    return compiled


class Resources(NamedTuple):
    """What ptxas says that a kernel takes."""

    registers: int  # a thread
    shared: int  # bytes a block, beside the dynamic ones
    spilled: int  # bytes a thread that registers had no room for, stored and loaded


def ptxas() -> str | None:
    """Return the path of NVIDIA's assembler, of the package nvidia-cuda-nvcc-cu12 or the system's; None without one."""
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        # That of CUDA 13, cu13, comes before that of CUDA 12, cuda_nvcc: it reads the PTX of both.
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


def resources_of(text: str, capability: tuple[int, int]) -> Resources:
    """Assemble PTX; raise subprocess.CalledProcessError where that fails."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(text)
        target = f"-arch=sm_{capability[0]}{capability[1]}"
        command = [str(ptxas()), "-v", target, str(source), "-o", str(source.with_suffix(".cubin"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def number(pattern: str) -> int:
        return sum(int(found) for found in re.findall(pattern, said))

    return Resources(number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes spill"))


#: By compute capability: warps, blocks and bytes of shared memory of a multiprocessor, and those it keeps of a block's.
MULTIPROCESSORS = {
    (7, 5): (32, 16, 64 << 10, 0),
    (8, 0): (64, 32, 164 << 10, 1 << 10),
    (9, 0): (64, 32, 228 << 10, 1 << 10),
}


def occupancy(launch: Launch, resources: Resources, capability: tuple[int, int]) -> float:
    """Return the share of a multiprocessor's warps that can be under way."""
    most_warps, most_blocks, shared, kept = MULTIPROCESSORS[capability]
    warps = -(-launch.threads // 32)
    registers = -(-32 * resources.registers // 256) * 256 * warps
    blocks = min(most_blocks, most_warps // warps, 65536 // registers)
    used = resources.shared + launch.shared
    if used:
        blocks = min(blocks, shared // (used + kept))
    return blocks * warps / most_warps
