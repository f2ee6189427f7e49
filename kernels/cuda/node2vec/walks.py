"""Random walks on a CUDA device: each thread takes one walk, by the CPU's own functions, so the walks are the same.

The functions are those of kernels/node2vec/walks.py, compiled for the device (`port.to_device`), with one exception:
a draw from all weights. The CPU stores the weights of a node's neighbours, and a thread has no memory for them.
`_draw_exactly` computes each weight twice instead, and adds them in the same order.

Walks share nothing, so the kernel uses no shared memory and no barriers.

Tests against the CPU's walks: tests/kernels/cuda/node2vec/test_walks.py.
Reference implementation: tests/helpers/naive.py, `walk_probabilities`.
"""

import numpy as np
from numba import cuda

from ...node2vec import walks as cpu
from ...node2vec.walks import Walker
from .. import random
from ..arrays import DeviceArray
from ..jit import device, kernel
from ..launch import launch
from ..memory import allocate, cached_copies, cached_copy, download, on_device, upload
from ..port import multiply64, to_device

#: Threads per block: few, since a block is as slow as its longest walk.
THREADS = 64


@device
def _draw_exactly(walker: Walker, t: int, v: int, u: float) -> int:
    """Draw a neighbour of v from all weights, having come from t."""
    start = walker.graph.row_ptr[v]
    end = walker.graph.row_ptr[v + 1]
    total = 0.0
    for edge in range(start, end):
        total += _next_weight(walker, t, edge)
    wanted = u * total
    running = 0.0
    for edge in range(start, end):
        running += _next_weight(walker, t, edge)
        if running > wanted:
            return edge - start
    return end - start - 1


@device
def _next_weight(walker: Walker, t: int, edge: int) -> float:
    """Return the weight of taking an edge, having come from t: w/p back to t, w to its neighbours, w/q elsewhere."""
    graph = walker.graph
    x = np.int64(graph.neighbours[edge])
    weight = np.float64(graph.weights[edge]) if len(graph.weights) else 1.0
    if x == t:
        return weight / walker.p
    if _find_edge(graph, t, x) < 0:
        return weight / walker.q
    return weight


_find_edge = to_device(cpu._find_edge)
_draw_alias = to_device(cpu._draw_alias)
_has_edge = to_device(cpu._has_edge, _find_edge=_find_edge)
_weight_back = to_device(cpu._weight_back, _find_edge=_find_edge)
_follow = to_device(
    cpu._follow,
    random=random,
    _draw_alias=_draw_alias,
    _draw_exactly=_draw_exactly,
    _has_edge=_has_edge,
    _times=multiply64,
    _weight_back=_weight_back,
)
_follow_tables = to_device(cpu._follow_tables, random=random, _draw_alias=_draw_alias)


def walk(walker: Walker, starts: np.ndarray, length: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Walk once from each of ``starts`` (D,) uint32: return doc_ptr (D + 1,) int64 and the nodes (T,) uint32.

    The walks are those of the CPU. A walk has ``length`` nodes, or fewer if it reaches a node without outgoing edges.
    Raises DeviceError.
    """
    copy = on_device(
        walker,
        graph=cached_copies(walker.graph, "graph"),
        mass=cached_copy(walker.mass, "mass"),
        nodes=cached_copies(walker.nodes, "node tables"),
        edges=cached_copies(walker.edges, "edge tables"),
    )
    nodes = allocate((len(starts), length), np.uint32, "walks")
    lengths = allocate(len(starts), np.int64, "lengths")
    if len(starts):
        blocks = -(-len(starts) // THREADS)
        launch(_walk, blocks, THREADS, copy, upload(starts, "starts"), np.uint64(key), nodes, lengths)
    taken = download(lengths, "lengths")
    found = download(nodes, "walks")
    # Walks that ended early leave gaps.
    is_node = np.arange(length) < taken[:, None]
    return np.r_[0, np.cumsum(taken)].astype(np.int64), found[is_node]


@kernel
def _walk(walker: Walker, starts: DeviceArray, key: np.uint64, nodes: DeviceArray, lengths: DeviceArray) -> None:
    """Walk from ``starts[d]`` in thread d: write to row d of ``nodes`` (D, length), and the length to ``lengths`` (D,).

    The edges have alias tables if the walker was prepared with them. Without tables, a step draws by rejection or from
    all weights.
    """
    d = cuda.grid(1)
    if d >= len(starts):
        return
    own_key = random.draw(key, starts[d])
    out = nodes[d]
    out[0] = starts[d]
    has_tables = len(walker.edges.ptr) > 1
    if has_tables:
        lengths[d] = _follow_tables(walker, own_key, out)
    else:
        lengths[d] = _follow(walker, own_key, out)
