"""FAST-HALS on a CUDA device: a half-epoch in one launch, a thread block a block of rows.

A block holds x (K, 32) of its 32 rows and what is left of their products, y = r − penalty − S·x, in shared memory. Its
warps compute y, which is Algorithm 2's phase 1 for all tiles at once; then component after component moves to max(ε,
x + y's share), and its change goes to the y of the components behind it, which is phases 2 and 3. The papers' form, a
launch a component, is in nmf_tiled.py. P and Q are products of their own: cuSPARSE's and cuBLAS's where CuPy is.
"""

import importlib.util
from typing import Any

import numpy as np
from numba import config, cuda, float64

from ...nmf.hals import Scratch, SparseMatrix, SparseRows, UpdateRule
from ...simd import tiles
from ..jit import device, kernel, launch, named, shared_limit, stream
from ..memory import fetched, filled, new, resident, residents
from ..warp import FULL, WARP

#: Threads that sweep a block of 32 rows, and that add up a row of P or a tile of Q.
THREADS = 256
#: Numbers in a line of shared memory: rows side by side, and one more, so that columns use different banks too.
LINE = WARP + 1
#: Blocks of a product, at most.
BLOCKS = 2048


def sweep_sparse(
    A: SparseMatrix,
    W: np.ndarray,
    rule: UpdateRule,
    H: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    sweeps: int,
    scratch: Scratch,
) -> None:
    """Sweep H (D, K) for SparseMatrix A and W (V, K); add AᵀH to P (V, K), the upper half of HᵀH to Q (K, K) float64.

    As the CPU's; arrays are changed in place. Raises ValueError where K is too large for shared memory; DeviceError.
    """
    if not len(H):
        return
    moved = _sweep(residents(A.by_row), resident(W), rule, H, sweeps)
    P += _product(A.by_column, moved, P)
    Q += _gram(moved, Q)
    H[:] = fetched(moved)


def sweep_rows(R: np.ndarray, rule: UpdateRule, H: np.ndarray, Q: np.ndarray, sweeps: int, scratch: Scratch) -> float:
    """Sweep H (D, K) given R (D, K); add the upper half of HᵀH to Q (K, K) float64; return ⟨R, H⟩; as the CPU's."""
    if not len(H):
        return 0.0
    none = SparseRows(filled(np.zeros(0, np.int64)), filled(np.zeros(0, np.int32)), filled(np.zeros(0, R.dtype)))
    moved = _sweep(none, resident(R), rule, H, sweeps)
    Q += _gram(moved, Q)
    H[:] = fetched(moved)
    return float(np.einsum("dk,dk->", R, H, dtype=np.float64))


def _sweep(rows: SparseRows, X: Any, rule: UpdateRule, H: np.ndarray, sweeps: int) -> Any:
    """Sweep H for products of sparse rows with X, or where there are no such rows for the products X."""
    K = H.shape[1]
    shared = 2 * K * LINE * H.itemsize
    if shared > shared_limit():
        raise ValueError(
            f"{K:,} components take {shared:,} bytes of a block's shared memory, which has {shared_limit():,}: choose "
            f"fewer, or device 'cpu'"
        )
    padded = len(rule.keep)
    S = rule.S.reshape(padded // tiles.ROWS, padded, tiles.ROWS).transpose(0, 2, 1).reshape(padded, padded)
    there = filled(np.ascontiguousarray(S[:K, :K])), filled(rule.keep), filled(rule.step), rule.penalty, rule.floor
    moved = filled(H)
    launch(_sweep_block, -(-len(H) // WARP), THREADS, rows, X, there, moved, sweeps, shared=shared)
    return moved


@kernel
def _sweep_block(rows, X, rule, H, sweeps):
    """Sweep 32 rows: a warp's lanes are rows, and each of its warps has some of the components."""
    indptr, indices, data = rows
    S, keep, step, penalty, floor = rule
    K, first = H.shape[1], cuda.blockIdx.x * WARP
    lane, warp, warps = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    n = min(WARP, len(H) - first)
    room = cuda.shared.array(0, H.dtype)
    x, r = room[: K * LINE], room[K * LINE :]
    for d in range(warp, WARP, warps):
        for k in range(lane, K, WARP):
            total = -penalty
            if d < n:
                if len(indptr):
                    for i in range(indptr[first + d], indptr[first + d + 1]):
                        total += data[i] * X[indices[i], k]
                else:
                    total += X[first + d, k]
            x[k * LINE + d] = H[first + d, k] if d < n else 0
            r[k * LINE + d] = total
    cuda.syncthreads()
    for k in range(warp, K, warps):
        total = r[k * LINE + lane]
        for j in range(K):
            total -= S[k, j] * x[j * LINE + lane]
        r[k * LINE + lane] = total
    for turn in range(sweeps):
        for k in range(K):
            cuda.syncthreads()
            old = x[k * LINE + lane]
            new = max(floor, keep[k] * old + step[k] * r[k * LINE + lane])
            # Behind the last sweep nobody asks what is left of the components before.
            for j in range((k + 1 if turn + 1 == sweeps else 0) + warp, K, warps):
                if j != k:
                    r[j * LINE + lane] -= S[k, j] * (new - old)
            cuda.syncthreads()
            if warp == 0:
                x[k * LINE + lane] = new
                r[k * LINE + lane] -= S[k, k] * (new - old)
    cuda.syncthreads()
    for d in range(warp, n, warps):
        for k in range(lane, K, WARP):
            H[first + d, k] = x[k * LINE + d]


# --- products ---


def has_cupy() -> bool:
    """Say whether CuPy, and so NVIDIA's libraries, can be used."""
    return not config.ENABLE_CUDASIM and importlib.util.find_spec("cupy") is not None


@named()
def multiply(make: Any, *arrays: Any) -> np.ndarray:
    """Return ``make(cupy, *arrays)`` of device arrays, on this thread's stream. Raises DeviceError."""
    import cupy

    with cupy.cuda.ExternalStream(int(stream().handle)):
        return cupy.asnumpy(make(cupy, *(cupy.asarray(a) for a in arrays)))


def _product(A: SparseRows, X: Any, like: np.ndarray) -> np.ndarray:
    """A·X for sparse rows and X on the device: cuSPARSE's product, or a row a warp."""
    there = residents(A)
    if has_cupy():
        from cupyx.scipy.sparse import csr_matrix

        shape = len(like), X.shape[0]
        return multiply(
            lambda _, indptr, indices, data, X: csr_matrix((data, indices, indptr.astype("i4")), shape) @ X, *there, X
        )
    out = new(like.shape, like.dtype)
    launch(_multiply_rows, min(BLOCKS, len(like)), WARP, there, X, out)
    return fetched(out)


@kernel
def _multiply_rows(rows, X, out):
    indptr, indices, data = rows
    for i in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        for k in range(cuda.threadIdx.x, out.shape[1], WARP):
            total = 0 * X[0, k]
            for j in range(indptr[i], indptr[i + 1]):
                total += data[j] * X[indices[j], k]
            out[i, k] = total


def _gram(X: Any, Q: np.ndarray) -> np.ndarray:
    """The upper half of XᵀX in float64: cuBLAS's product, or an element a warp."""
    if has_cupy():
        return np.triu(multiply(lambda cupy, X: X.astype(cupy.float64).T @ X.astype(cupy.float64), X))
    out = new(Q.shape, np.float64)
    launch(_multiply_columns, min(BLOCKS, Q.size), WARP, X, out)
    return np.triu(fetched(out))


@kernel
def _multiply_columns(X, out):
    K = len(out)
    for e in range(cuda.blockIdx.x, K * K, cuda.gridDim.x):
        total = float64(0)
        for d in range(cuda.threadIdx.x, len(X), WARP):
            total += float64(X[d, e // K]) * float64(X[d, e % K])
        total = warp_sum(total)
        if cuda.threadIdx.x == 0:
            out[e // K, e % K] = total


@device
def warp_sum(x):
    """Return the sum over a warp to all of its threads."""
    for bits in (16, 8, 4, 2, 1):
        x += cuda.shfl_xor_sync(FULL, x, bits)
    return x
