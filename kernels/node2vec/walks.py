"""Random walks of second order for Node2Vec.

A walk that came from t to v moves to a neighbour x of v with probability in proportion to a(t, x) w(v, x), where

    a(t, x) = 1/p if x is t;  1 if there is an edge from t to x;  1/q otherwise

and w are the weights of the edges. The first step depends only on w.

Source: Grover and Leskovec, "node2vec" (KDD 2016), section 3.2, as in Moon's dissertation (2019), Algorithm 18; alias
tables as in Walker (1977) and Vose (1991).

Two methods:

- Rejection: x is proposed in proportion to w(v, x) and accepted with probability a / top, top = max(1, 1/q). If 1/p is
  above top, the excess weight of t is a further outcome in addition to the proposals, so that a small p causes no
  rejections. A proposal that is accepted for every value of a needs no search for the edge from t to x. If too many
  proposals fail, the weights of all neighbours are computed and one is drawn from them. So p and q may be as extreme as
  one likes.
- Tables: one alias table per pair (t, v), so that a step is one look-up. They take much memory, see `table_bytes`.

Layout: the graph is a CSR matrix, see `Adjacency`. A walk's draws are a stream of its own, so a walk depends on its
first node and the key alone.

Reference implementation: tests/helpers/naive.py, `walk_probabilities`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
WHOLE = 2.0**32
#: Proposals that may fail before all weights are computed, in addition to one for each edge of the node.
EXTRA_PROPOSALS = 16


class Adjacency(NamedTuple):
    """The edges of V nodes by their first node. E counts an undirected edge twice, and a loop once."""

    row_ptr: np.ndarray  # (V + 1,) int64
    neighbours: np.ndarray  # (E,) uint32, ascending in a row
    weights: np.ndarray  # (E,) float32 above 0, or empty if all are 1
    symmetric: bool  # undirected


class AliasTables(NamedTuple):
    """Alias tables, one after another.

    To draw from a table, take slot i of it uniformly. Keep it with probability ``share[i]``, else take ``other[i]``.
    """

    ptr: np.ndarray  # (tables + 1,) int64
    share: np.ndarray  # float32
    other: np.ndarray  # uint32, counted from the start of the table


class Walker(NamedTuple):
    """All that a walk reads."""

    graph: Adjacency
    mass: np.ndarray  # (V,) float64: the sum of the weights of a row
    nodes: AliasTables  # one per node; empty if edges have no weights
    edges: AliasTables  # one per edge; empty for walks by rejection
    p: float
    q: float


# --- called by the model ---


def make_walker(graph: Adjacency, p: float, q: float, by_tables: bool = False) -> Walker:
    """Prepare walks by rejection, or from tables of `table_bytes`; ``p`` and ``q`` are above 0."""
    none = AliasTables(np.zeros(1, np.int64), np.empty(0, np.float32), np.empty(0, np.uint32))
    nodes = AliasTables(graph.row_ptr, *_node_tables(graph)) if len(graph.weights) else none
    edges = AliasTables(*_edge_tables(graph, p, q)) if by_tables else none
    return Walker(graph, _masses(graph), nodes, edges, float(p), float(q))


def table_bytes(graph: Adjacency) -> int:
    """Return the bytes of the alias tables of all edges.

    The table of an edge has one slot of 8 bytes for each edge that can follow it, and a pointer of 8 bytes.
    """
    degrees = np.diff(graph.row_ptr)
    arriving = np.bincount(graph.neighbours, minlength=len(degrees))
    return int(8 * arriving @ degrees) + 8 * len(graph.neighbours)


@kernel
def walk(walker: Walker, starts: np.ndarray, length: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Walk once from each of ``starts`` (D,) uint32: return doc_ptr (D + 1,) int64 and the nodes (T,) uint32.

    A walk has ``length`` nodes, or fewer if it reaches a node without outgoing edges. Its draws are the stream whose
    key is the draw of ``key`` at its first node.
    """
    doc_ptr = np.zeros(len(starts) + 1, np.int64)
    nodes = np.empty(len(starts) * length, np.uint32)
    by_tables = len(walker.edges.ptr) > 1
    end = 0
    for d in range(len(starts)):
        own = random.draw(key, starts[d])
        out = nodes[end : end + length]
        out[0] = starts[d]
        end += _follow_tables(walker, own, out) if by_tables else _follow(walker, own, out)
        doc_ptr[d + 1] = end
    return doc_ptr, nodes[:end].copy()


# --- rejection ---


@kernel
def _follow(walker: Walker, key: np.uint64, out: np.ndarray) -> int:
    """Continue the walk that begins with ``out[0]`` by rejection; return its length."""
    row_ptr = walker.graph.row_ptr
    neighbours = walker.graph.neighbours
    way_on, way_back = 1 / walker.q, 1 / walker.p
    top = max(1.0, way_on)
    extra = max(0.0, way_back - top)
    # Thresholds of 32 bits for proposals of t, of a neighbour of t, and of another node.
    keep_t = np.uint64(min(way_back, top) / top * WHOLE)
    keep_near = np.uint64(WHOLE / top)
    keep_far = np.uint64(way_on / top * WHOLE)
    keep_any = min(keep_t, keep_near, keep_far)
    draws = 0
    t = np.int64(out[0])
    edge = np.int64(-1)
    v = t
    for step in range(1, len(out)):
        start = row_ptr[v]
        degree = row_ptr[v + 1] - row_ptr[v]
        if degree == 0:
            return step
        # The excess weight of returning to t, which is drawn separately from the proposals.
        excess = extra * _weight_back(walker.graph, v, t, edge) if extra > 0 and step > 1 else 0.0
        for _ in range(EXTRA_PROPOSALS + degree):
            if excess > 0:
                draws += 1
                if random.uniform64(key, draws) * (_times(top, walker.mass[v]) + excess) < excess:
                    edge = np.int64(-1)
                    x = t
                    break
            # One draw: its upper half chooses the slot, its lower half decides on acceptance.
            draws += 1
            r = random.draw(key, draws)
            slot = np.int64(((r >> HALF) * np.uint64(degree)) >> HALF)
            if len(walker.nodes.share):
                draws += 1
                slot = _draw_alias(walker.nodes, start, slot, random.uniform(key, draws))
            edge = start + slot
            x = np.int64(neighbours[edge])
            kept = r & LOWER
            if step == 1 or kept < keep_any:
                break
            if x == t:
                if kept < keep_t:
                    break
            elif kept < (keep_near if _has_edge(walker.graph, t, x) else keep_far):
                break
        else:
            draws += 1
            edge = start + _draw_exactly(walker, t, v, random.uniform64(key, draws))
            x = np.int64(neighbours[edge])
        t = v
        v = x
        out[step] = x
    return len(out)


@kernel(inline="always")
def _times(a: float, b: float) -> float:
    """Return a * b. CUDA kernels replace this by a product that is rounded before it is added to something."""
    return a * b


@kernel(inline="always")
def _draw_alias(tables: AliasTables, start: int, slot: np.int64, u: float) -> np.int64:
    """Return ``slot`` or its alternative, as ``u`` decides, in the alias table that begins at ``start``."""
    return slot if u < tables.share[start + slot] else np.int64(tables.other[start + slot])


@kernel
def _has_edge(graph: Adjacency, t: int, x: int) -> bool:
    """Return whether there is an edge from t to x. In an undirected graph the shorter row is searched."""
    if graph.symmetric and graph.row_ptr[x + 1] - graph.row_ptr[x] < graph.row_ptr[t + 1] - graph.row_ptr[t]:
        t, x = x, t
    return _find_edge(graph, t, x) >= 0


@kernel(inline="always")
def _find_edge(graph: Adjacency, t: int, x: int) -> np.int64:
    """Return the edge from t to x, or -1. The binary search has no branch that depends on a comparison."""
    start = graph.row_ptr[t]
    n = graph.row_ptr[t + 1] - graph.row_ptr[t]
    if n == 0:
        return np.int64(-1)
    while n > 1:
        half = n >> 1
        # Compiled to a conditional move. A branch would be mispredicted half of the time.
        start += half if graph.neighbours[start + half] <= x else 0
        n -= half
    return start if graph.neighbours[start] == x else np.int64(-1)


@kernel
def _draw_exactly(walker: Walker, t: int, v: int, u: float) -> int:
    """Return which edge of v a uniform number u falls on, from the weights of all of them."""
    weights = np.cumsum(_next_weights(walker.graph, t, v, walker.p, walker.q))
    return min(np.searchsorted(weights, u * weights[-1], side="right"), len(weights) - 1)


@kernel
def _weight_back(graph: Adjacency, v: int, t: int, edge: int) -> float:
    """Return the weight of the edge from v to t, if the walk came from t over ``edge``; -1 if that is not known."""
    weighted = len(graph.weights) > 0
    if graph.symmetric and (edge >= 0 or not weighted):
        return np.float64(graph.weights[edge]) if weighted else 1.0
    found = _find_edge(graph, v, t)
    if found < 0:
        return 0.0
    return np.float64(graph.weights[found]) if weighted else 1.0


@kernel
def _masses(graph: Adjacency) -> np.ndarray:
    """Return the sum of the weights of each row: (V,) float64."""
    mass = np.empty(len(graph.row_ptr) - 1, np.float64)
    for v in range(len(mass)):
        start, end = graph.row_ptr[v], graph.row_ptr[v + 1]
        mass[v] = end - start if len(graph.weights) == 0 else 0.0
        for e in range(start, end if len(graph.weights) else start):
            mass[v] += graph.weights[e]
    return mass


# --- tables ---


@kernel
def _follow_tables(walker: Walker, key: np.uint64, out: np.ndarray) -> int:
    """Continue the walk that begins with ``out[0]`` from alias tables; return its length."""
    row_ptr = walker.graph.row_ptr
    neighbours = walker.graph.neighbours
    v = np.int64(out[0])
    edge = np.int64(-1)
    for step in range(1, len(out)):
        start = row_ptr[v]
        degree = row_ptr[v + 1] - row_ptr[v]
        if degree == 0:
            return step
        # 32 random bits times the degree, divided by 2^32: an unbiased enough slot without a slow modulo.
        slot = np.int64(((random.draw(key, 2 * step) >> HALF) * np.uint64(degree)) >> HALF)
        u = random.uniform(key, 2 * step + 1)
        # The first step has no edge before it, so it follows the weights of the node.
        if step > 1:
            slot = _draw_alias(walker.edges, walker.edges.ptr[edge], slot, u)
        elif len(walker.nodes.share):
            slot = _draw_alias(walker.nodes, start, slot, u)
        edge = start + slot
        v = np.int64(neighbours[edge])
        out[step] = v
    return len(out)


@kernel
def _node_tables(graph: Adjacency) -> tuple[np.ndarray, np.ndarray]:
    """Make the table of each node, for its first step: ``share`` and ``other`` of AliasTables."""
    share = np.empty(len(graph.weights), np.float32)
    other = np.empty(len(graph.weights), np.uint32)
    for v in range(len(graph.row_ptr) - 1):
        row = slice(graph.row_ptr[v], graph.row_ptr[v + 1])
        _fill_table(graph.weights[row].astype(np.float64), share[row], other[row])
    return share, other


@kernel
def _edge_tables(graph: Adjacency, p: float, q: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the table of each edge (t, v): the fields of AliasTables."""
    row_ptr = graph.row_ptr
    neighbours = graph.neighbours
    ptr = np.zeros(len(neighbours) + 1, np.int64)
    for e in range(len(neighbours)):
        ptr[e + 1] = ptr[e] + row_ptr[neighbours[e] + 1] - row_ptr[neighbours[e]]
    share = np.empty(ptr[-1], np.float32)
    other = np.empty(ptr[-1], np.uint32)
    for t in range(len(row_ptr) - 1):
        for e in range(row_ptr[t], row_ptr[t + 1]):
            table = slice(ptr[e], ptr[e + 1])
            _fill_table(_next_weights(graph, t, np.int64(neighbours[e]), p, q), share[table], other[table])
    return ptr, share, other


@kernel
def _next_weights(graph: Adjacency, t: int, v: int, p: float, q: float) -> np.ndarray:
    """Return a(t, x) w(v, x) for each x in the row of v, as defined: (degree,) float64."""
    start, end = graph.row_ptr[v], graph.row_ptr[v + 1]
    weights = np.ones(end - start, np.float64)
    for i in range(len(weights)):
        x = np.int64(graph.neighbours[start + i])
        if len(graph.weights):
            weights[i] = graph.weights[start + i]
        if x == t:
            weights[i] /= p
        elif _find_edge(graph, t, x) < 0:
            weights[i] /= q
    return weights


@kernel
def _fill_table(weights: np.ndarray, share: np.ndarray, other: np.ndarray) -> None:
    """Make one alias table (n,) by Vose's method: slots below the mean are filled up from slots above it.

    Changes ``weights`` (n,) float64.
    """
    n = len(weights)
    weights *= n / weights.sum()
    # One array is both stacks: small slots grow from its start, large ones from its end.
    stack = np.empty(n, np.int64)
    low, high = 0, n
    for i in range(n):
        share[i] = 1.0
        other[i] = i
        if weights[i] < 1.0:
            stack[low] = i
            low += 1
        else:
            high -= 1
            stack[high] = i
    while low > 0 and high < n:
        low -= 1
        small = stack[low]
        large = stack[high]
        share[small] = weights[small]
        other[small] = large
        weights[large] -= 1.0 - weights[small]
        if weights[large] < 1.0:
            high += 1
            stack[low] = large
            low += 1


# --- statistics ---


@kernel
def count_visits(doc_ptr: np.ndarray, nodes: np.ndarray, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each node is visited, and how many walks visit it, as two int64 arrays of shape (V,).

    Walk d has the nodes ``doc_ptr[d]:doc_ptr[d + 1]`` of ``nodes`` (T,) uint32; ``doc_ptr`` (D + 1,) int64.
    """
    visits = np.zeros(n_nodes, np.int64)
    walks = np.zeros(n_nodes, np.int64)
    last_walk = np.full(n_nodes, -1, np.int64)
    for d in range(len(doc_ptr) - 1):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            v = nodes[i]
            visits[v] += 1
            # A walk may visit a node several times, but counts once as a document of the node.
            walks[v] += last_walk[v] != d
            last_walk[v] = d
    return visits, walks
