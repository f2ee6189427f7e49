"""Addressed random numbers: a draw is a function of only (key, index), so a task that runs twice draws the same.

Source: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Draw i of the
stream ``key`` is ``mix(key + (i + 1) * GAMMA)``, where ``mix`` is the 64-bit finaliser of that paper. There is no state
to keep or to send: each thread computes the draw of its token from the token's index.

Reference implementation: tests/helpers/naive.py, `splitmix`.
"""

import numpy as np

from .jit import kernel

#: The constants of SplitMix64: the increment of its counter and the two multipliers of its finaliser.
GAMMA = np.uint64(0x9E3779B97F4A7C15)
M1 = np.uint64(0xBF58476D1CE4E5B9)
M2 = np.uint64(0x94D049BB133111EB)
#: Shifts as uint64, because numba gives an operation of uint64 and a signed integer another type.
S11, S27, S30, S31, S40 = (np.uint64(s) for s in (11, 27, 30, 31, 40))
FLOAT32_STEP = np.float32(2.0**-24)
FLOAT64_STEP = 2.0**-53
#: Python's integers have no width, so `key` cuts them to 64 bits.
MASK = (1 << 64) - 1


def mix(x: np.uint64) -> np.uint64:
    """Scramble the bits of a uint64. Not compiled here: `mix_cpu` and the CUDA kernels compile it for their target."""
    x = (x ^ (x >> S30)) * M1
    x = (x ^ (x >> S27)) * M2
    return x ^ (x >> S31)


mix_cpu = kernel(mix, inline="always")


@kernel(inline="always")
def draw(key: np.uint64, index: np.uint64) -> np.uint64:
    """Return the uint64 at ``index`` of the stream ``key``."""
    return mix_cpu(np.uint64(key) + (np.uint64(index) + np.uint64(1)) * GAMMA)


@kernel(inline="always")
def uniform(key: np.uint64, index: np.uint64) -> np.float32:
    """Return a float32 in [0, 1) with 24 random bits."""
    return np.float32(draw(key, index) >> S40) * FLOAT32_STEP


@kernel(inline="always")
def uniform64(key: np.uint64, index: np.uint64) -> np.float64:
    """Return a float64 in [0, 1) with 53 random bits."""
    return np.float64(draw(key, index) >> S11) * FLOAT64_STEP


def key(*address: int) -> np.uint64:
    """Hash an address such as (seed, step, chunk) into the uint64 key of one stream."""
    state = 0
    for part in address:
        state = _mix_int((state + (part & MASK) * int(GAMMA) + int(GAMMA)) & MASK)
    return np.uint64(state)


def _mix_int(x: int) -> int:
    """Do the same as `mix` with Python's integers: NumPy scalars would warn of overflow."""
    x = ((x ^ (x >> 30)) * int(M1)) & MASK
    x = ((x ^ (x >> 27)) * int(M2)) & MASK
    return x ^ (x >> 31)


@kernel
def stream(key: np.uint64, n: int) -> np.ndarray:
    """Return the first n draws of a stream: (n,) uint64."""
    out = np.empty(n, np.uint64)
    for i in range(n):
        out[i] = draw(key, i)
    return out


@kernel
def fingerprints(doc_ptr: np.ndarray, words: np.ndarray, seed: np.uint64) -> np.ndarray:
    """Hash each document's words in their order: (D,) uint64.

    ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order. A draw whose key is a document's fingerprint
    does not depend on the chunk in which the document is stored.
    """
    out = np.empty(len(doc_ptr) - 1, np.uint64)
    for d in range(len(out)):
        state = seed
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            state = mix_cpu(state + (np.uint64(words[i]) + np.uint64(1)) * GAMMA)
        out[d] = state
    return out
