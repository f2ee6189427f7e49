"""Takes the place of Numba's device, so that tests, benchmarks and the engine run unchanged, with kernels as PTX."""

import atexit
import ctypes
import importlib
import itertools
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, typeof
from numba.core import types
from numba.cuda.cudadrv import driver
from numba.cuda.dispatcher import CUDADispatcher

from . import compiler
from .program import FAULTS, Finding, Program, Range, Schedule, has_compiler

#: Selects the device. `Settings.read` explains its value.
VARIABLE = "CORPUSMILL_PTX"
#: A module of this folder, and the file to which it writes its table when the process ends.
TABLE = "CORPUSMILL_PTX_TABLE"
#: New memory is filled with it, and around each array lies as much memory that no kernel may use.
POISON, ZONE = 0xCD, 4096
#: Device memory, and dynamic shared memory of a block. The latter is that of an H100.
MEMORY_BYTES, SHARED_BYTES = 64 << 30, 227 << 10
MULTIPROCESSORS = 16
#: Kernels that change common numbers without waiting, as their papers do, and the races that they may have: atomic
#: additions beside plain reads. FULL-W2V and PAR-Word2Vec train as Hogwild. The last one is a baseline of AGA-LDA.
RACES_ON_PURPOSE = {
    "word2vec.full.train_full": ("RACE_OF_BLOCKS",),
    "word2vec.par.train_par": ("RACE_OF_BLOCKS",),
    "papers.full_register.train_register": ("RACE_OF_BLOCKS",),
    "papers.aga_lda._draw_immediately": ("RACE_OF_BLOCKS", "RACE_OF_WARPS", "RACE_IN_A_WARP"),
}


@dataclass(frozen=True)
class Settings:
    """What the environment variable says."""

    capability: compiler.Capability = (9, 0)
    schedule: Schedule = field(default_factory=Schedule)

    @classmethod
    def read(cls, text: str) -> "Settings":
        """Read a compute capability and fields of `Schedule`: ``9.0,seed=3,explore=20``."""
        major, minor = text.partition(",")[0].split(".")
        given = dict(part.split("=") for part in text.split(",")[1:])
        names = {one.name for one in fields(Schedule)}
        if not given.keys() <= names:
            raise ValueError(f"{VARIABLE} has {', '.join(sorted(given))}: choose from {', '.join(sorted(names))}")
        schedule = Schedule(**{"resident": MULTIPROCESSORS} | {name: int(value) for name, value in given.items()})
        return cls((int(major), int(minor)), schedule)


class Launched(NamedTuple):
    """One launch that has ended."""

    name: str
    program: Program
    blocks: int
    threads: int
    counts: np.ndarray  # of `program.COUNT` by instruction


#: Called after each launch.
LISTENERS: list[Callable[[Launched], None]] = []
#: Called instead of `Program.run`; see mutations.py.
Runner = Callable[..., tuple[list[Finding], np.ndarray]]
RUNNERS: list[Runner] = []


@contextmanager
def launches() -> Iterator[list[Launched]]:
    """Context manager: yield a list that collects the launches inside."""
    found: list[Launched] = []
    LISTENERS.append(found.append)
    try:
        yield found
    finally:
        LISTENERS.remove(found.append)


class DeviceArray:
    """An array in the memory of the device. The host can copy it and take parts of it, and nothing else."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.shape, self.dtype, self.strides = data.shape, data.dtype, data.strides
        self.size, self.nbytes, self.ndim = data.size, data.nbytes, data.ndim

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        part = self.data[index]
        return DeviceArray(part) if isinstance(part, np.ndarray) else part

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # Arrays of Numba that were made with a stream name it. Who reads such an array lets the host wait for it.
        return {**self.data.__array_interface__, "version": 3, "stream": Stream.handle}

    def reshape(self, *shape: Any) -> "DeviceArray":
        """Return the same memory in another shape."""
        reshaped = self.data.reshape(*shape)
        if self.size and not np.shares_memory(reshaped, self.data):
            raise NotImplementedError("reshaping would copy")
        return DeviceArray(reshaped)

    def view(self, dtype: Any) -> "DeviceArray":
        """Return the same memory as numbers of another type."""
        return DeviceArray(self.data.view(dtype))

    def copy_to_device(self, source: Any, stream: Any = None) -> None:
        """Copy from the host or from another device array."""
        np.copyto(self.data, plain(source))

    def copy_to_host(self, target: np.ndarray | None = None, stream: Any = None) -> np.ndarray:
        """Copy to an array of the host, or to a new one."""
        if target is None:
            return self.data.copy()
        np.copyto(target, self.data)
        return target


def plain(argument: Any) -> Any:
    """Return an argument with NumPy arrays in place of device arrays."""
    if isinstance(argument, DeviceArray):
        return argument.data
    if isinstance(argument, tuple):
        values = [plain(one) for one in argument]
        return type(argument)(*values) if hasattr(argument, "_fields") else tuple(values)
    return argument


def device_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = None) -> Any:
    """Return new memory, between two zones that belong to no array. Raises MemoryError."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    if nbytes > MEMORY_BYTES:
        raise MemoryError(f"{nbytes:,} bytes")
    memory = np.empty(nbytes + 2 * ZONE + 256, np.uint8)
    first = -(memory.ctypes.data + ZONE) % 256 + ZONE
    memory[first : first + nbytes] = POISON
    return DeviceArray(memory[first : first + nbytes].view(dtype).reshape(shape))


def to_device(array: np.ndarray, stream: Any = None, copy: bool = True, to: Any = None) -> DeviceArray:
    """Return a copy of a host array."""
    made: DeviceArray = device_array(np.shape(array), np.asarray(array).dtype)
    made.copy_to_device(np.asarray(array))
    return made


class Stream:
    """A stream of a device on which everything is complete at once."""

    handle = 7

    def synchronize(self) -> None:
        """Wait."""


class Event:
    """A position in a stream."""

    def __init__(self, timing: bool = True) -> None:
        self.seconds = 0.0

    def record(self, stream: Any = None) -> None:
        """Set the position."""
        self.seconds = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Let a stream wait."""

    def synchronize(self) -> None:
        """Wait."""

    def elapsed_time(self, other: "Event") -> float:
        """Return the milliseconds from this event to the other one."""
        return 1e3 * (other.seconds - self.seconds)


def _memset(array: DeviceArray, value: int, size: int, stream: Any = None) -> None:
    array.data.reshape(-1).view(np.uint8)[:size] = value


# --- launches ---

_PROGRAMS: dict[tuple[Any, ...], Program] = {}
_LOCK = threading.RLock()
_NUMBERS = itertools.count(1)


class Configured(NamedTuple):
    """A kernel with a grid."""

    settings: Settings
    function: Any
    grid: Any
    block: Any
    stream: Any = None
    shared: int = 0

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel. Raises RuntimeError for a fault."""
        signature = tuple(typeof(plain(one)) for one in arguments)
        program = _program(self.function, signature, self.settings.capability)
        if program.kernel.dynamic_at + self.shared > SHARED_BYTES + (1 << 10):
            raise RuntimeError(f"{self.shared:,} bytes of shared memory are more than a block may have")
        passed = Passed()
        for kind, argument in zip(signature, arguments, strict=True):
            passed.add(kind, argument)
        blocks, threads = int(np.prod(self.grid)), int(np.prod(self.block))
        if not blocks or not 0 < threads <= 1024:
            raise RuntimeError(f"a grid of {blocks} blocks of {threads} threads")
        schedule = self.settings.schedule
        numbered = Schedule(**{**schedule.__dict__, "seed": schedule.seed * 1_000_003 + next(_NUMBERS)})
        name = compiler.name_of(self.function)
        run = RUNNERS[-1] if RUNNERS else _run
        found, counts = run(name, program, blocks, threads, self.shared, passed.bits, passed.ranges, numbered)
        passed.copy_back()
        found = [one for one in found if one.fault not in RACES_ON_PURPOSE.get(name, ())]
        if found:
            raise RuntimeError("; ".join(explained(one, program) for one in found[:5]))
        for listener in list(LISTENERS):
            listener(Launched(name, program, blocks, threads, counts))


def _run(name: str, program: Program, *arguments: Any) -> tuple[list[Finding], np.ndarray]:
    return program.run(*arguments)


def _program(function: Any, signature: tuple[types.Type, ...], capability: compiler.Capability) -> Program:
    # As Numba does: what was compiled for a function stays, also if constants of its module change.
    key = function.py_func, signature
    with _LOCK:
        if key not in _PROGRAMS:
            _PROGRAMS[key] = Program(compiler.text_of(function, signature, capability))
        return _PROGRAMS[key]


def place_of(program: Program, at: int) -> str:
    """Return the file and the line of an instruction."""
    place = program.kernel.instructions[at].place
    return f"{Path(place.file).name}:{place.line}" if place else "a line without a number"


def explained(found: Finding, program: Program) -> str:
    """Return a sentence about a fault."""

    def described(at: int, block: int, thread: int) -> str:
        opcode = program.kernel.instructions[at].opcode
        return f"{place_of(program, at)} ({opcode}), block {block}, thread {thread}"

    text = f"{FAULTS[found.fault]} at {described(found.at, found.block, found.thread)}"
    if found.other >= 0 and found.other_thread >= 0:
        text += f", with {described(found.other, found.other_block, found.other_thread)}"
    return f"{text}, {found.space} address {found.address:#x}, {found.times} times"


class Passed:
    """The arguments of a launch as the kernel gets them: bits of parameters, and the memory that it may use."""

    def __init__(self) -> None:
        self.bits: list[int] = []
        self.ranges: list[Range] = []
        self._from_host: list[tuple[DeviceArray, np.ndarray]] = []

    def add(self, kind: types.Type, value: Any) -> None:
        """Add an argument, as Numba's dispatcher does."""
        if isinstance(kind, types.Array):
            self._add_array(value)
        elif isinstance(kind, types.BaseTuple):
            for one, part in zip(kind, value, strict=True):
                self.add(one, part)
        elif isinstance(kind, types.EnumMember):
            self.add(kind.dtype, value.value)
        elif isinstance(kind, types.Boolean):
            self.bits.append(int(value))
        elif isinstance(kind, types.Integer):
            self.bits.append(int(value) & (2**kind.bitwidth - 1))
        elif isinstance(kind, types.Float):
            code, integer = ("f", "I") if kind.bitwidth == 32 else ("d", "Q")
            self.bits.append(struct.unpack(integer, struct.pack(code, value))[0])
        elif kind != types.none:
            raise NotImplementedError(f"an argument of type {kind}")

    def _add_array(self, value: Any) -> None:
        if not isinstance(value, DeviceArray):
            copy = to_device(value)
            self._from_host.append((copy, value))
            value = copy
        data = value.data
        # Two pointers that belong to the owner of the memory, and then what the kernel reads.
        self.bits += [0, 0, data.size, data.itemsize, data.ctypes.data, *data.shape, *data.strides]
        if data.size:
            first, end = np.lib.array_utils.byte_bounds(data)
            self.ranges.append(Range(first, end - first, data.itemsize))

    def copy_back(self) -> None:
        """Copy arrays of the host that were passed to the kernel back to the host."""
        for copy, host in self._from_host:
            np.copyto(host, copy.data)


def contents(ranges: list[Range]) -> list[bytes]:
    """Return what the memory has now."""
    return [ctypes.string_at(one.start, one.nbytes) for one in ranges]


def restore(ranges: list[Range], before: list[bytes]) -> None:
    """Write what the memory had before."""
    for one, old in zip(ranges, before, strict=True):
        ctypes.memmove(one.start, old, one.nbytes)


# --- installation ---


def requested() -> bool:
    """Return whether the environment variable selects this device."""
    return bool(os.environ.get(VARIABLE))


def missing() -> str:
    """Return what this machine lacks to compile and run kernels, "" if nothing."""
    if not has_compiler():
        return "needs g++, which executes PTX"
    try:
        from numba.cuda.cudadrv.nvvm import NVVM

        NVVM()
    except Exception as error:
        return f"needs numba-cuda and libNVVM: {error}"
    return ""


_installed = False


def install(text: str | None = None) -> None:
    """Replace Numba's device in this process. ``text`` is by default the value of the environment variable."""
    global _installed
    if _installed:
        return
    settings = Settings.read(text or os.environ[VARIABLE])
    compiler.delete_unused()
    device = SimpleNamespace(
        id=0,
        name=b"PTX on the CPU",
        compute_capability=settings.capability,
        CLOCK_RATE=1_980_000,
        MULTIPROCESSOR_COUNT=MULTIPROCESSORS,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=SHARED_BYTES,
    )
    context = SimpleNamespace(
        device=device,
        get_memory_info=lambda: driver.MemoryInfo(free=MEMORY_BYTES, total=MEMORY_BYTES),
        deallocations=SimpleNamespace(clear=lambda: None),
        synchronize=lambda: None,
    )
    cuda.is_available = lambda: True
    cuda.device_array, cuda.to_device = device_array, to_device
    cuda.pinned_array = lambda shape, dtype=np.float64, **_: np.empty(shape, dtype)
    cuda.stream, cuda.event = Stream, Event
    cuda.current_context = lambda *_: context
    cuda.synchronize = lambda: None
    cuda.get_current_device = lambda: device
    CUDADispatcher.__getitem__ = lambda self, grid: Configured(settings, self, *grid)
    driver.device_memset = _memset
    _installed = True

    from corpusmill.kernels.cuda import launch, memory

    memory.device_memset = _memset
    launch.request_large_shared_memory = lambda *_: None
    if wanted := os.environ.get(TABLE):
        name, _, file = wanted.partition(",")
        module = importlib.import_module(f".{name}", __package__)
        module.begin()
        atexit.register(lambda: Path(file).write_text(module.table()))
