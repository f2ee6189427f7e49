"""Kernels as PTX, on a machine without a device: what they are launched with is recorded, then compiled."""

import contextlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numba import cuda, typeof

from .jit import PORTABLE


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
        return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__.replace('.<locals>', '')}"


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
        "filled": np.copy,
        "resident": np.copy,
        "residents": lambda arrays: type(arrays)(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in arrays)),
        "fetched": lambda array, remember=False: np.full(array.shape, answer, array.dtype),
        "shared_limit": lambda: PORTABLE,
    }
    package = __name__.rpartition(".")[0]
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith(f"{package}.") and name not in (__name__, f"{package}.memory", f"{package}.jit"):
                for fake in fakes.keys() & vars(module).keys():
                    stack.enter_context(mock.patch.object(module, fake, fakes[fake]))
        yield launches


def ptx_of(launch: Launch, capability: tuple[int, int]) -> str:
    """Compile a recorded kernel for a compute capability such as (9, 0)."""
    signature = tuple(typeof(argument) for argument in launch.arguments)
    device = SimpleNamespace(compute_capability=capability)
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=device):
        ptx, _ = cuda.compile(launch.function.py_func, signature, cc=capability, device=False, abi="numba")
    return ptx
