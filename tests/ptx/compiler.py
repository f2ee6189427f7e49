"""The PTX of a kernel for one or several generations of GPUs, kept on disk.

Numba takes seconds for a kernel. The text depends on the function, on all functions that it calls, on the constants of
both, and on the types of the arguments. These make up the name of the file.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numba import cuda
from numba.core import types

from . import EVERYTHING
from .program import CACHE

Capability = tuple[int, int]
#: The generations for which kernels are assembled: Turing, Ampere and Hopper.
CAPABILITIES: tuple[Capability, ...] = ((7, 5), (8, 0), (9, 0)) if EVERYTHING else ((7, 5), (9, 0))
#: Texts that nobody has used for so long are deleted.
KEPT_SECONDS = 14 * 24 * 3600


def name_of(function: Any) -> str:
    """Return a kernel's folder, file and function."""
    plain = function.py_func
    folder, file = plain.__module__.split(".")[-2:]
    return f"{folder}.{file}.{plain.__qualname__.replace('.<locals>', '')}"


def text_of(function: Any, signature: Sequence[types.Type], capability: Capability) -> str:
    """Return the PTX of a kernel, with the lines of its source."""
    return texts_of(function, signature, [capability])[capability]


def texts_of(
    function: Any, signature: Sequence[types.Type], capabilities: Sequence[Capability]
) -> dict[Capability, str]:
    """Return the PTX of a kernel for several generations. Types are inferred once for all that are compiled."""
    bounds = function.targetoptions.get("launch_bounds")
    parts = [_described(function, set()), *signature, bounds, version("numba-cuda"), np.__version__]
    digest = hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:24]
    files = {one: CACHE / f"{name_of(function)}-{digest}-{one[0]}{one[1]}.ptx" for one in capabilities}
    missing = [one for one in capabilities if not files[one].exists()]
    if missing:
        CACHE.mkdir(exist_ok=True)
        for one, text in compiled(function.py_func, tuple(signature), missing, bounds).items():
            temporary = files[one].with_suffix(f".{os.getpid()}")
            temporary.write_text(text)
            temporary.rename(files[one])
    for file in files.values():
        os.utime(file)
    return {one: file.read_text() for one, file in files.items()}


def delete_unused() -> None:
    """Delete what was compiled long ago and is not used any more."""
    for file in [*CACHE.glob("*.ptx"), *CACHE.glob("machine-*.so")]:
        if file.stat().st_mtime < time.time() - KEPT_SECONDS:
            file.unlink(missing_ok=True)


def compiled(
    function: FunctionType, signature: tuple[types.Type, ...], capabilities: Sequence[Capability], bounds: Any = None
) -> dict[Capability, str]:
    """Compile for all capabilities.

    Numba has no public function for that. So this replaces two of its functions: the first reports a device, the second
    translates for all capabilities.
    """
    from numba.cuda.codegen import CUDACodeLibrary

    found: dict[Capability, str] = {}
    generate = CUDACodeLibrary.get_asm_strs

    def for_all(library: Any, cc: Capability) -> list[str]:
        for capability in capabilities:
            found[capability] = "".join(generate(library, cc=capability))
        return generate(library, cc=cc)

    device = SimpleNamespace(compute_capability=capabilities[-1])
    with (
        mock.patch("numba.cuda.dispatcher.get_current_device", return_value=device),
        mock.patch.object(CUDACodeLibrary, "get_asm_strs", for_all),
    ):
        options = {"device": False, "abi": "numba", "lineinfo": True, "launch_bounds": bounds}
        cuda.compile(function, signature, cc=capabilities[-1], **options)
    return found


def _described(value: Any, seen: set[int]) -> str:
    """Return a text that differs for functions that compile to different code."""
    value = getattr(value, "py_func", getattr(value, "_defn", value))
    if isinstance(value, FunctionType):
        if id(value) in seen:
            return value.__qualname__
        seen.add(id(value))
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        names = [value.__globals__.get(name) for name in sorted(_names(value.__code__))]
        uses = [_described(one, seen) for one in cells + names]
        return f"{value.__module__}.{value.__qualname__}({_code(value.__code__)}{uses})"
    if isinstance(value, (tuple, list)):
        return str([_described(one, seen) for one in value])
    if isinstance(value, dict):
        return str([(key, _described(one, seen)) for key, one in value.items()])
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if value is None or isinstance(value, (bool, int, float, str, np.generic, types.Type)):
        return repr(value)
    return f"{type(value).__name__} {getattr(value, '__name__', '')}"


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(one) for one in code.co_consts if isinstance(one, CodeType)))


def _code(code: CodeType) -> str:
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_code.hex()} {code.co_linetable.hex()} {constants}"
