"""A CUDA device without a GPU: it executes the PTX of the project's kernels on the CPU, and checks every access.

PTX is the assembly language that Numba compiles kernels to. What runs here is the text that a GPU's driver would get,
after type inference and NVVM's optimizer, with the real numbers of threads. The environment variable
``CORPUSMILL_PTX`` turns the device on, for tests, benchmarks and the engine alike::

    CORPUSMILL_PTX=9.0 python -m pytest tests/kernels/cuda
    CORPUSMILL_PTX=7.5,seed=3,explore=20 python -m benchmarks.gpu --quick nmf

The value is a compute capability, followed by fields of `device.Settings`.

What executes
    `parser` reads the text, `operations` writes C++ for each opcode, `machine.cpp` executes warps, `program` connects
    them, and `device` takes the place of Numba's device. A compiler is needed, g++, but no GPU and no driver.

Order of execution
    A block's warps, and the resident blocks, take turns at random for a random number of instructions. The seed
    decides. Lanes of a warp have program counters of their own, as since Volta: the lowest runs first, or, with
    ``explore=N``, in N of 100 choices any other one. So lanes run together only where the program makes them.

What is an error
    Accesses out of bounds or misaligned; a read of shared memory that nobody wrote; a division by zero; a barrier that
    some threads miss or reach at different places; a warp operation whose mask lacks a lane that calls it, or names one
    that does not come; blocks that wait for ever; and races.

Races
    Two accesses to the same place, one of which writes another value, must be ordered. Accesses are ordered inside a
    thread; in a warp by ``bar.warp.sync``; in a block by ``bar``; between blocks by a fence, an atomic operation on
    each side and another fence. Two atomic operations never race. A shuffle or a vote brings lanes together, and orders
    nothing. `device.RACES_ON_PURPOSE` names the kernels that race as their papers do.

What it does not model
    Memory is sequentially consistent: a missing fence is found as a race, but a stale value is never read. The last
    write and the last two reads of a place are remembered, so a race with an earlier read may be missed. A
    ``bar.warp.sync`` of some lanes orders the whole warp. Scopes of fences and atomic operations are ignored.
    Copies and launches are complete when they return, so streams and events order nothing. Approximate functions
    (``ex2.approx``, ``rcp.approx``) are computed with the CPU's, and differ in their last bits from a GPU's. ptxas, the
    last step from PTX to a GPU's own instructions, takes no part.
"""

import os

#: Whether to execute and assemble everything for each generation: `make ptx`. Otherwise, kernels are assembled for the
#: oldest and the newest one, and most tests are executed for the newest one only.
EVERYTHING = "CORPUSMILL_PTX_EVERYTHING" in os.environ


def install() -> None:
    """Let the device that CORPUSMILL_PTX describes take the place of Numba's in this process."""
    # The import loads CUDA, which a process that only describes work must not.
    from . import device

    device.install()
