"""Compiles the machine for the opcodes that occur, and runs a kernel's PTX on it."""

import copy
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import operations
from .parser import Instruction, Kernel, bytes_of, parse

HERE = Path(__file__).parent
#: Compiled machines, and the PTX that `device` has compiled.
CACHE = HERE / "__pycache__"
#: -O2 does not change floats; without these two options, g++ may fuse products and sums, or forget the rounding mode.
OPTIONS = ("-O2", "-march=native", "-ffp-contract=off", "-frounding-math", "-std=c++17", "-shared", "-fPIC")
#: Opcodes of one lane that the project's kernels have. Others are added when they occur, which compiles again.
OPCODES = HERE / "opcodes.txt"

#: Kinds of instructions, in the order of `Kind` in machine.cpp.
KINDS = (
    *("lane", "branch", "return", "barrier", "count barrier", "warp barrier", "shuffle"),
    *("vote", "match", "load", "store", "atomic", "fence", "active mask", "nothing"),
)
KIND_OF_FAMILY = {
    "bra": "branch",
    "ret": "return",
    "shfl": "shuffle",
    "vote": "vote",
    "match": "match",
    "ld": "load",
    "st": "store",
    "atom": "atomic",
    "red": "atomic",
    "membar": "fence",
    "fence": "fence",
    "activemask": "active mask",
}
BARRIERS = {"bar.sync": "barrier", "bar.red.popc.u32": "count barrier", "bar.warp.sync": "warp barrier"}
SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = ("ballot", "any", "all")
#: Atomic operations in the order of `AtomicMode` in machine.cpp.
ATOMICS = ("add", "add.f32", "add.f64", "cas", "exch", "and", "or", "min", "max")
SPACES = ("global", "shared")
#: Faults in the order of `Fault` in machine.cpp.
FAULTS = {
    "OUT_OF_BOUNDS": "an access out of bounds",
    "MISALIGNED": "a misaligned access",
    "RACE_OF_BLOCKS": "a race between blocks",
    "RACE_OF_WARPS": "a race between warps of a block",
    "RACE_IN_A_WARP": "a race between lanes of a warp",
    "RACE_OF_LANES": "lanes write different numbers to one place",
    "READ_OF_NOTHING": "a read of shared memory that nobody wrote",
    "DIVISION_BY_ZERO": "a division by zero",
    "DIVERGENT_BARRIER": "lanes of a warp wait at different barriers",
    "BARRIER_AFTER_END": "a barrier after threads have ended",
    "LANE_NOT_IN_MASK": "a lane that the mask of a warp operation does not name",
    "LANES_MISSING": "a warp operation to which some of its lanes do not come",
    "HANG": "threads that never end",
}
SPECIALS = ("tid.x", "ctaid.x", "ntid.x", "nctaid.x", "laneid", "warpid", "dynamic_smem_size")
MOST_FINDINGS = 100

_INT, _LONG = "i4", "i8"
INSTRUCTION = np.dtype(
    [("kind", _INT), ("opcode", _INT), ("guard", _INT), ("negated", _INT), ("targets", _INT, 4), ("sources", _INT, 6)]
    + [(name, _INT) for name in ("offset", "branch", "space", "size", "count", "is_signed", "mode", "mask")]
)
FINDING = np.dtype(
    [(name, _INT) for name in ("fault", "at", "other", "space", "block", "thread", "other_block", "other_thread")]
    + [(name, _LONG) for name in ("address", "times")]
)
COUNT = np.dtype(
    [(name, _LONG) for name in ("warps", "lanes", "requests", "sectors", "least_sectors", "passes", "least_passes")]
)


class _Launch(ctypes.Structure):
    """`Launch` of machine.cpp."""

    _fields_ = (
        ("code", ctypes.c_void_p),
        ("n_registers", ctypes.c_int64),
        ("constant_registers", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("n_constants", ctypes.c_int64),
        ("specials", ctypes.c_int32 * 8),
        *((name, ctypes.c_int64) for name in ("blocks", "threads", "static_shared", "dynamic_at", "dynamic_shared")),
        *((name, ctypes.c_int64) for name in ("resident", "longest_turn", "explore", "most_steps", "seed")),
        ("ranges", ctypes.c_void_p),
        ("n_ranges", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("findings", ctypes.c_void_p),
        ("most_findings", ctypes.c_int64),
        ("n_findings", ctypes.c_int64),
    )


class Range(NamedTuple):
    """Memory that a kernel may use, and the bytes of a number in it: what the race check takes for one place."""

    start: int
    nbytes: int
    unit: int


class Finding(NamedTuple):
    """A fault, the instructions that cause it, and how often it occurred."""

    fault: str  # a key of FAULTS
    at: int  # index of the instruction
    other: int  # of the earlier access; -1 for none
    space: str
    block: int
    thread: int
    other_block: int
    other_thread: int
    address: int
    times: int


@dataclass(frozen=True)
class Schedule:
    """In which order threads run."""

    seed: int = 1
    explore: int = 0  # of 100 choices between lanes of a warp, how many are at random
    longest_turn: int = 64  # instructions of a warp before another one runs
    resident: int = 16  # blocks that run at a time
    most_steps: int = 1 << 40  # instructions of all warps before the kernel counts as hanging


class Machine:
    """The compiled machine.cpp, and the numbers of its opcodes. A new opcode compiles it again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opcodes = OPCODES.read_text().split() if OPCODES.exists() else []
        self._library: ctypes.CDLL | None = None

    def number_of(self, opcode: str) -> int:
        """Return the number of an opcode. Raises NotImplementedError if nobody has written its C++."""
        with self._lock:
            if opcode not in self._opcodes:
                operations.code_of(opcode)
                self._opcodes.append(opcode)
                self._library = None
            return self._opcodes.index(opcode)

    def library(self) -> ctypes.CDLL:
        """Return the compiled machine."""
        with self._lock:
            if self._library is None:
                self._library = self._compiled()
            return self._library

    def _compiled(self) -> ctypes.CDLL:
        cases = (
            f"      case {number}: EACH_LANE({operations.code_of(opcode)}) break;  // {opcode}"
            for number, opcode in enumerate(self._opcodes)
        )
        source = (HERE / "machine.cpp").read_text()
        source = source.replace("\nCASES\n", "\n" + "\n".join(cases) + "\n")
        source = source.replace("{ FAULTS }", f"{{ {', '.join(FAULTS)} }}")
        digest = hashlib.sha256(f"{source} {OPTIONS} {_processor()}".encode()).hexdigest()[:16]
        compiled = CACHE / f"machine-{digest}.so"
        if not compiled.exists():
            CACHE.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                text = Path(folder, "machine.cpp")
                text.write_text(source)
                command = ["g++", *OPTIONS, str(text), "-o", str(text.with_suffix(".so"))]
                subprocess.run(command, check=True)
                text.with_suffix(".so").rename(compiled)
        library = ctypes.CDLL(str(compiled))
        if library.launch_bytes() != ctypes.sizeof(_Launch):
            raise TypeError("program.py and machine.cpp have different structures")
        return library


def _processor() -> str:
    """Return what tells processors apart for which g++ compiles different code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


MACHINE = Machine()


def has_compiler() -> bool:
    """Return whether g++ is installed."""
    return shutil.which("g++") is not None


class Program:
    """A kernel's PTX, ready to run."""

    def __init__(self, text: str) -> None:
        self.kernel = parse(text)
        self.table = _decoded(self.kernel)
        unknown = set(self.kernel.specials) - set(SPECIALS)
        if unknown:
            raise NotImplementedError(f"special registers {', '.join(sorted(unknown))}")

    def without(self, index: int) -> "Program":
        """Return the kernel without one instruction, which must have no result."""
        mutant = copy.copy(self)
        mutant.table = self.table.copy()
        mutant.table[index]["kind"] = KINDS.index("nothing")
        return mutant

    def run(
        self,
        blocks: int,
        threads: int,
        shared: int,
        parameters: Sequence[int],
        ranges: Iterable[Range],
        schedule: Schedule,
    ) -> tuple[list[Finding], np.ndarray]:
        """Run a grid. Return what was found, and how often each instruction ran, an array of COUNT.

        ``parameters`` are the bits of the kernel's parameters, and ``shared`` is the dynamic shared memory in bytes.
        """
        kernel = self.kernel
        bits = dict(kernel.constants)
        bits |= dict(zip(kernel.parameters, (value & (2**64 - 1) for value in parameters), strict=True))
        registers, constants = np.array(list(bits), np.int32), np.array(list(bits.values()), np.uint64)
        usable = np.array(_joined(ranges), np.uint64).reshape(-1, 3)
        counts = np.zeros(len(self.table), COUNT)
        findings = np.zeros(MOST_FINDINGS, FINDING)
        specials = (ctypes.c_int32 * 8)(*(kernel.specials.get(name, -1) for name in SPECIALS), -1)
        launch = _Launch(
            code=self.table.ctypes.data,
            n_registers=kernel.n_registers,
            constant_registers=registers.ctypes.data,
            constants=constants.ctypes.data,
            n_constants=len(registers),
            specials=specials,
            blocks=blocks,
            threads=threads,
            static_shared=kernel.static_shared,
            dynamic_at=kernel.dynamic_at,
            dynamic_shared=shared,
            resident=schedule.resident,
            longest_turn=schedule.longest_turn,
            explore=schedule.explore,
            most_steps=schedule.most_steps,
            seed=schedule.seed,
            ranges=usable.ctypes.data,
            n_ranges=len(usable),
            counts=counts.ctypes.data,
            findings=findings.ctypes.data,
            most_findings=len(findings),
            n_findings=0,
        )
        MACHINE.library().run_grid(ctypes.byref(launch))
        names = list(FAULTS)
        found = []
        for row in findings[: launch.n_findings].tolist():
            fault, at, other, space, *rest = row
            found.append(Finding(names[fault], at, other, SPACES[space], *rest))
        return found, counts


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges in order, with those that touch as one."""
    found: list[Range] = []
    for one in sorted(set(ranges)):
        if not one.nbytes:
            continue
        last = found[-1] if found else None
        if last and one.start <= last.start + last.nbytes:
            end = max(last.start + last.nbytes, one.start + one.nbytes)
            found[-1] = Range(last.start, end - last.start, min(last.unit, one.unit))
        else:
            found.append(one)
    return found


def _decoded(kernel: Kernel) -> np.ndarray:
    """Return the instructions as an array of INSTRUCTION."""
    table = np.zeros(len(kernel.instructions), INSTRUCTION)
    for field in ("targets", "sources", "branch"):
        table[field] = -1
    for row, instruction in zip(table, kernel.instructions, strict=True):
        _decode(instruction, row, kernel.labels)
    return table


def _decode(instruction: Instruction, row: np.void, labels: dict[str, int]) -> None:
    family, *modifiers = instruction.opcode.split(".")
    kind = BARRIERS.get(instruction.opcode) or KIND_OF_FAMILY.get(family, "lane")
    row["kind"] = KINDS.index(kind)
    row["guard"], row["negated"], row["offset"] = instruction.guard, instruction.negated, instruction.offset
    row["targets"][: len(instruction.targets)] = instruction.targets
    row["sources"][: len(instruction.sources)] = instruction.sources
    if instruction.label is not None:
        row["branch"] = labels[instruction.label]
    if kind == "lane":
        row["opcode"] = MACHINE.number_of(instruction.opcode)
    elif kind == "shuffle":
        row["mode"], row["mask"] = SHUFFLES.index(modifiers[1]), 3
    elif kind == "vote":
        row["mode"], row["mask"] = VOTES.index(modifiers[1]), 1
    elif kind == "match":
        if instruction.opcode != "match.any.sync.b32":
            raise NotImplementedError(f"PTX opcode {instruction.opcode}")
        row["mask"] = 1
    elif kind in ("load", "store", "atomic"):
        _decode_access(instruction.opcode, kind, row)


def _decode_access(opcode: str, kind: str, row: np.void) -> None:
    # Scopes and the order of memory are not modelled.
    parts = [part for part in opcode.split(".")[1:] if part not in ("volatile", "relaxed", "gpu", "cta", "acq_rel")]
    space, number = parts[0], parts[-1]
    if space not in SPACES:
        raise NotImplementedError(f"PTX opcode {opcode}")
    row["space"], row["size"], row["count"] = SPACES.index(space), bytes_of(number), 1
    row["is_signed"] = number[0] == "s"
    if kind == "atomic":
        name = f"{parts[1]}.{number}" if number[0] == "f" else parts[1]
        if name not in ATOMICS:
            raise NotImplementedError(f"PTX opcode {opcode}")
        row["mode"] = ATOMICS.index(name)
    elif parts[-2] in ("v2", "v4"):
        row["count"] = int(parts[-2][1])
