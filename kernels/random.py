"""Addressed random numbers: a draw is a function of (key, index), so a task that runs twice draws the same.

The finaliser is the 64-bit mixer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
"""

import numpy as np

from .jit import kernel

GAMMA = np.uint64(0x9E3779B97F4A7C15)
M1 = np.uint64(0xBF58476D1CE4E5B9)
M2 = np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S40 = (np.uint64(s) for s in (11, 27, 30, 31, 40))
FLOAT32_STEP = np.float32(2.0**-24)
FLOAT64_STEP = 2.0**-53
MASK = (1 << 64) - 1


def mix(x):
    """Scramble the bits of uint64 ``x``."""
    x = (x ^ (x >> S30)) * M1
    x = (x ^ (x >> S27)) * M2
    return x ^ (x >> S31)


mix_cpu = kernel(mix, inline="always")


@kernel(inline="always")
def draw(key, index):
    """Return the uint64 at ``index`` of the stream ``key``."""
    return mix_cpu(np.uint64(key) + (np.uint64(index) + np.uint64(1)) * GAMMA)


@kernel(inline="always")
def uniform(key, index):
    """Return a float32 in [0, 1) with 24 random bits."""
    return np.float32(draw(key, index) >> S40) * FLOAT32_STEP


@kernel(inline="always")
def uniform64(key, index):
    """Return a float64 in [0, 1) with 53 random bits."""
    return np.float64(draw(key, index) >> S11) * FLOAT64_STEP


def key(*address: int) -> np.uint64:
    """Hash an address such as (seed, epoch, chunk) into the uint64 key of one stream."""
    state = 0
    for part in address:
        state = _mix_int((state + (part & MASK) * int(GAMMA) + int(GAMMA)) & MASK)
    return np.uint64(state)


def _mix_int(x: int) -> int:
    x = ((x ^ (x >> 30)) * int(M1)) & MASK
    x = ((x ^ (x >> 27)) * int(M2)) & MASK
    return x ^ (x >> 31)


@kernel
def stream(key, n):
    """Return the first n draws of a stream: (n,) uint64."""
    out = np.empty(n, np.uint64)
    for i in range(n):
        out[i] = draw(key, i)
    return out


@kernel
def fingerprints(doc_ptr, words, seed):
    """Hash each document's words in their order: (D,) uint64, for draws that belong to it wherever it lies."""
    out = np.empty(len(doc_ptr) - 1, np.uint64)
    for d in range(len(out)):
        state = seed
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            state = mix_cpu(state + (np.uint64(words[i]) + np.uint64(1)) * GAMMA)
        out[d] = state
    return out
