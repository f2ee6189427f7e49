"""Random walks on a CUDA device: a walk a thread, by the CPU's own functions, so the same walks to the bit."""

import numpy as np
from numba import cuda

from ...node2vec import walks as cpu
from ...node2vec.walks import Walker
from .. import random
from ..exact import times64
from ..jit import device, kernel, launch
from ..memory import fetched, filled, new, resident, residents
from ..port import ported

#: Threads a block: few, since a block is as slow as its longest walk.
THREADS = 64


@device
def _draw_exactly(walker, t, v, u):
    """Draw from all weights, summed in the CPU's order, without room for them."""
    start, end = walker.graph.row_ptr[v], walker.graph.row_ptr[v + 1]
    total = 0.0
    for edge in range(start, end):
        total += _next_weight(walker, t, edge)
    wanted, running = u * total, 0.0
    for edge in range(start, end):
        running += _next_weight(walker, t, edge)
        if running > wanted:
            return edge - start
    return end - start - 1


@device
def _next_weight(walker, t, edge):
    graph = walker.graph
    x = np.int64(graph.neighbours[edge])
    weight = np.float64(graph.weights[edge]) if len(graph.weights) else 1.0
    if x == t:
        return weight / walker.p
    return weight / walker.q if _find_edge(graph, t, x) < 0 else weight


_find_edge, _draw_alias = ported(cpu._find_edge), ported(cpu._draw_alias)
_has_edge = ported(cpu._has_edge, _find_edge=_find_edge)
_weight_back = ported(cpu._weight_back, _find_edge=_find_edge)
_follow = ported(
    cpu._follow,
    random=random,
    _draw_alias=_draw_alias,
    _draw_exactly=_draw_exactly,
    _has_edge=_has_edge,
    _times=times64,
    _weight_back=_weight_back,
)
_follow_tables = ported(cpu._follow_tables, random=random, _draw_alias=_draw_alias)


def walk(walker: Walker, starts: np.ndarray, length: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Walk once from each of ``starts`` (D,) uint32: return doc_ptr (D + 1,) int64 and the nodes (T,) uint32.

    As the CPU's: ``length``, nodes of a walk, fewer where it ends in a node without a way out. Raises DeviceError.
    """
    there = walker._replace(
        graph=residents(walker.graph),
        mass=resident(walker.mass),
        nodes=residents(walker.nodes),
        edges=residents(walker.edges),
    )
    nodes, lengths = new((len(starts), length), np.uint32), new(len(starts), np.int64)
    if len(starts):
        launch(_walk, -(-len(starts) // THREADS), THREADS, there, filled(starts), np.uint64(key), nodes, lengths)
    n, found = fetched(lengths), fetched(nodes)
    return np.r_[0, np.cumsum(n)].astype(np.int64), found[np.arange(length) < n[:, None]]


@kernel
def _walk(walker, starts, key, nodes, lengths):
    d = cuda.grid(1)
    if d < len(starts):
        own, out = random.draw(key, starts[d]), nodes[d]
        out[0] = starts[d]
        by_tables = len(walker.edges.ptr) > 1
        lengths[d] = _follow_tables(walker, own, out) if by_tables else _follow(walker, own, out)
