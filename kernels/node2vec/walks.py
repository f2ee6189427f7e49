"""Random walks of second order for Node2Vec.

Source: Grover and Leskovec (KDD 2016), as in Moon's dissertation, Algorithm 18. From v, come to from t, the next node x
has the weight a(t, x) w(v, x), where a is 1/p if x is t, 1 if there is an edge from t to x, and 1/q otherwise.

By rejection: x is proposed by w(v, x) alone and kept with the probability a / top, top = max(1, 1/q). Where 1/p is
above top, what is missing stands beside the proposals as one more way back to t, so that a small p costs no
rejections. A proposal that would be kept whatever its a is needs no look for the edge from t to x. Where as many
proposals fail as v has edges, all weights are computed once: p and q may be as extreme as one likes.

By tables: one alias table (Walker 1977) an edge (t, v), so that a step is one look-up.

Reference implementation: tests/helpers/naive.py, `walk_probabilities`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
WHOLE = 2.0**32
#: Proposals that may fail besides one for each edge.
EXTRA_PROPOSALS = 16


class Adjacency(NamedTuple):
    """The edges of V nodes by their first node; E counts an undirected edge twice, a loop once."""

    row_ptr: np.ndarray  # (V + 1,) int64
    neighbours: np.ndarray  # (E,) uint32, ascending in a row
    weights: np.ndarray  # (E,) float32 above 0, or empty: all are 1
    symmetric: bool  # undirected


class AliasTables(NamedTuple):
    """Alias tables, one after another: slot i is taken with probability ``share[i]``, else the slot ``other[i]``."""

    ptr: np.ndarray  # (tables + 1,) int64
    share: np.ndarray  # float32
    other: np.ndarray  # uint32, counted from the start of the table


class Walker(NamedTuple):
    """All that a walk reads."""

    graph: Adjacency
    mass: np.ndarray  # (V,) float64: the weights of a row
    nodes: AliasTables  # by node, where edges have weights
    edges: AliasTables  # by edge, or none: rejection
    p: float
    q: float


def make_walker(graph: Adjacency, p: float, q: float, by_tables: bool = False) -> Walker:
    """Prepare walks: by rejection, or from tables of `table_bytes` in all. ``p``, ``q`` above 0."""
    none = AliasTables(np.zeros(1, np.int64), np.empty(0, np.float32), np.empty(0, np.uint32))
    nodes = AliasTables(graph.row_ptr, *_node_tables(graph)) if len(graph.weights) else none
    edges = AliasTables(*_edge_tables(graph, p, q)) if by_tables else none
    return Walker(graph, _masses(graph), nodes, edges, float(p), float(q))


def table_bytes(graph: Adjacency) -> int:
    """Return the bytes of alias tables for every edge: 8 for each pair of an edge and an edge that goes on from it."""
    degrees = np.diff(graph.row_ptr)
    arriving = np.bincount(graph.neighbours, minlength=len(degrees))
    return int(8 * arriving @ degrees) + 8 * len(graph.neighbours)


def walk(walker: Walker, starts: np.ndarray, length: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Walk once from each of ``starts`` (D,) uint32: return doc_ptr (D + 1,) int64 and the nodes (T,) uint32.

    ``length``: nodes of a walk, fewer where it ends in a node without a way out. A walk's draws are a stream of its
    own, whose key is the draw of ``key`` at its first node: a walk depends on nothing else.
    """
    return _walk(walker, starts, length, key)


@kernel
def _walk(walker, starts, length, key):
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


@kernel
def _follow(walker, key, out):
    """Continue the walk that begins with ``out[0]`` by rejection; return its length."""
    row_ptr, neighbours = walker.graph.row_ptr, walker.graph.neighbours
    way_on, way_back = 1 / walker.q, 1 / walker.p
    top = max(1.0, way_on)
    extra = max(0.0, way_back - top)
    # Thresholds of 32 bits: proposals of t, of a neighbour of t, of another node.
    keep_t = np.uint64(min(way_back, top) / top * WHOLE)
    keep_near = np.uint64(WHOLE / top)
    keep_far = np.uint64(way_on / top * WHOLE)
    keep_any = min(keep_t, keep_near, keep_far)
    draws = 0
    t, edge = np.int64(out[0]), np.int64(-1)
    v = t
    for step in range(1, len(out)):
        start, degree = row_ptr[v], row_ptr[v + 1] - row_ptr[v]
        if degree == 0:
            return step
        beside = extra * _weight_back(walker.graph, v, t, edge) if extra > 0 and step > 1 else 0.0
        for _ in range(EXTRA_PROPOSALS + degree):
            if beside > 0:
                draws += 1
                if random.uniform64(key, draws) * (_times(top, walker.mass[v]) + beside) < beside:
                    edge = np.int64(-1)
                    x = t
                    break
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
        t, v = v, x
        out[step] = x
    return len(out)


@kernel(inline="always")
def _times(a, b):
    """A product by a name, so that a device can have one that is rounded before it is added to."""
    return a * b


@kernel(inline="always")
def _draw_alias(tables, start, slot, u):
    return slot if u < tables.share[start + slot] else np.int64(tables.other[start + slot])


@kernel
def _has_edge(graph, t, x):
    """Whether there is an edge from t to x; in an undirected graph the shorter row is searched."""
    if graph.symmetric and graph.row_ptr[x + 1] - graph.row_ptr[x] < graph.row_ptr[t + 1] - graph.row_ptr[t]:
        t, x = x, t
    return _find_edge(graph, t, x) >= 0


@kernel(inline="always")
def _find_edge(graph, t, x):
    """Return the edge from t to x, or -1; no branch depends on what is compared, so none is mispredicted."""
    start, n = graph.row_ptr[t], graph.row_ptr[t + 1] - graph.row_ptr[t]
    if n == 0:
        return np.int64(-1)
    while n > 1:
        half = n >> 1
        start += half if graph.neighbours[start + half] <= x else 0
        n -= half
    return start if graph.neighbours[start] == x else np.int64(-1)


@kernel
def _draw_exactly(walker, t, v, u):
    weights = np.cumsum(_next_weights(walker.graph, t, v, walker.p, walker.q))
    return min(np.searchsorted(weights, u * weights[-1], side="right"), len(weights) - 1)


@kernel
def _weight_back(graph, v, t, edge):
    """The weight of the edge from v to t, where the walk came from t over ``edge`` (-1: not known which)."""
    weighted = len(graph.weights) > 0
    if graph.symmetric and (edge >= 0 or not weighted):
        return np.float64(graph.weights[edge]) if weighted else 1.0
    found = _find_edge(graph, v, t)
    if found < 0:
        return 0.0
    return np.float64(graph.weights[found]) if weighted else 1.0


@kernel
def _follow_tables(walker, key, out):
    """Continue the walk from alias tables; return its length."""
    row_ptr, neighbours = walker.graph.row_ptr, walker.graph.neighbours
    v, edge = np.int64(out[0]), np.int64(-1)
    for step in range(1, len(out)):
        start, degree = row_ptr[v], row_ptr[v + 1] - row_ptr[v]
        if degree == 0:
            return step
        slot = np.int64(((random.draw(key, 2 * step) >> HALF) * np.uint64(degree)) >> HALF)
        u = random.uniform(key, 2 * step + 1)
        if step > 1:
            slot = _draw_alias(walker.edges, walker.edges.ptr[edge], slot, u)
        elif len(walker.nodes.share):
            slot = _draw_alias(walker.nodes, start, slot, u)
        edge = start + slot
        v = np.int64(neighbours[edge])
        out[step] = v
    return len(out)


@kernel
def _masses(graph):
    mass = np.empty(len(graph.row_ptr) - 1, np.float64)
    for v in range(len(mass)):
        start, end = graph.row_ptr[v], graph.row_ptr[v + 1]
        mass[v] = end - start if len(graph.weights) == 0 else 0.0
        for e in range(start, end if len(graph.weights) else start):
            mass[v] += graph.weights[e]
    return mass


@kernel
def _node_tables(graph):
    share = np.empty(len(graph.weights), np.float32)
    other = np.empty(len(graph.weights), np.uint32)
    for v in range(len(graph.row_ptr) - 1):
        row = slice(graph.row_ptr[v], graph.row_ptr[v + 1])
        _fill_table(graph.weights[row].astype(np.float64), share[row], other[row])
    return share, other


@kernel
def _edge_tables(graph, p, q):
    row_ptr, neighbours = graph.row_ptr, graph.neighbours
    ptr = np.zeros(len(neighbours) + 1, np.int64)
    for e in range(len(neighbours)):
        ptr[e + 1] = ptr[e] + row_ptr[neighbours[e] + 1] - row_ptr[neighbours[e]]
    share, other = np.empty(ptr[-1], np.float32), np.empty(ptr[-1], np.uint32)
    for t in range(len(row_ptr) - 1):
        for e in range(row_ptr[t], row_ptr[t + 1]):
            table = slice(ptr[e], ptr[e + 1])
            _fill_table(_next_weights(graph, t, np.int64(neighbours[e]), p, q), share[table], other[table])
    return ptr, share, other


@kernel
def _next_weights(graph, t, v, p, q):
    """The definition: a(t, x) w(v, x) of each x in the row of v."""
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
def _fill_table(weights, share, other):
    """Pair slots below the mean with slots above it (Vose 1991); ``weights`` is used up."""
    n = len(weights)
    weights *= n / weights.sum()
    stack = np.empty(n, np.int64)
    low, high = 0, n
    for i in range(n):
        share[i], other[i] = 1.0, i
        if weights[i] < 1.0:
            stack[low] = i
            low += 1
        else:
            high -= 1
            stack[high] = i
    while low > 0 and high < n:
        low -= 1
        small, large = stack[low], stack[high]
        share[small], other[small] = weights[small], large
        weights[large] -= 1.0 - weights[small]
        if weights[large] < 1.0:
            high += 1
            stack[low] = large
            low += 1


@kernel
def count_visits(doc_ptr, nodes, n_nodes):
    """Count each node's visits, and the walks that visit it: (V,) int64 both; walks are ``doc_ptr`` of ``nodes``."""
    term, document = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    seen = np.full(n_nodes, -1, np.int64)
    for d in range(len(doc_ptr) - 1):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            v = nodes[i]
            term[v] += 1
            document[v] += seen[v] != d
            seen[v] = d
    return term, document
