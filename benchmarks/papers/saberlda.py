"""SaberLDA's ideas one by one, on a CPU (Li et al., ASPLOS 2017, Figure 9).

A token is drawn from the part of its document, Σ A_dk φ_vk over the entries of the document's row, or from the part of
the prior, Σ α φ_vk over all topics, for which each word has a table. φ is dense: K float32 per word.
"""

from typing import NamedTuple

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.lda.counts import count_documents
from corpusmill.kernels.simd.prefetch import prefetch

from benchmarks.common import Clock

#: Children of a node of the tree: as many as a cache line has floats.
W = 16
#: How many tokens ahead to prefetch.
AHEAD = 8


class Variant(NamedTuple):
    """Which ideas a variant uses."""

    by_word: bool  # tokens in word order (PDOW) instead of document order
    table: str  # for the part of the prior: none, alias, tree
    segmented: bool  # shuffle and segmented count instead of a full sort
    ahead: bool  # prefetch


VARIANTS = {
    "no table": Variant(False, "none", False, False),
    "G0: document order, alias, sort": Variant(False, "alias", False, False),
    "G1: word order": Variant(True, "alias", False, False),
    "G2: W-ary tree": Variant(True, "tree", False, False),
    "G3: segmented count": Variant(True, "tree", True, False),
    "G4: prefetch": Variant(True, "tree", True, True),
}


def run(system, passes: int) -> dict[str, float]:
    """Train some passes on one chunk, then return the nanoseconds per token of each variant and the shipped kernel."""
    for _ in range(passes):
        system.run()
    (chunk,), (z,) = system.chunks, system.states
    phi, tokens = np.ascontiguousarray(system.phi().T), chunk.n_tokens
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    found: dict[str, float] = {}
    for _ in range(2):  # the first round compiles
        for name, variant in VARIANTS.items():
            seconds = Clock().time(lambda variant=variant: one_pass(chunk, rows, phi, system.alpha[0], z, variant))[1]
            found[name] = min(found.get(name, np.inf), seconds / tokens * 1e9)
        seconds = Clock().time(system.run)[1]
        found["shipped kernel"] = min(found.get("shipped kernel", np.inf), seconds / tokens * 1e9)
    return found


def one_pass(chunk, rows, phi, alpha, z, variant: Variant) -> np.ndarray:
    """Build the tables, draw all topics, count them by document; return the topics (T,) uint16."""
    words = chunk.words[chunk.word_to_doc_order]
    order = np.arange(len(z)) if variant.by_word else np.argsort(chunk.word_to_doc_order)
    table, other = build(phi, variant.table)
    kind, out = ("none", "alias", "tree").index(variant.table), np.empty_like(z)
    tokens, key = (order, chunk.docs, words), random.key(3)
    draw(tokens, rows, phi, (table, other), (kind, float(alpha), variant.ahead, key), out)
    if variant.segmented:
        count_documents(chunk.doc_ptr, chunk.word_to_doc_order, out)
    else:
        sort_and_count(chunk.docs, out)
    return out


def build(phi, table: str):
    """Return the table of each word for the part of the prior, and its aliases."""
    if table == "alias":
        return alias_tables(phi)
    return (np.cumsum(phi, axis=1, dtype=np.float32) if table == "tree" else phi), np.zeros((1, 1), np.uint16)


def sort_and_count(docs, z):
    """Sort all tokens by document and topic, and count them."""
    pairs = np.sort(docs.astype(np.uint64) << np.uint64(16) | z)
    heads = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
    return pairs[heads], np.diff(np.r_[heads, len(pairs)])


@kernel
def alias_tables(phi):
    """Build Walker's alias table of each row: thresholds (V, K) float32 and aliases (V, K) uint16."""
    V, K = phi.shape
    threshold, alias = np.ones((V, K), np.float32), np.zeros((V, K), np.uint16)
    low, high, mass = np.empty(K, np.int64), np.empty(K, np.int64), np.empty(K, np.float64)
    for v in range(V):
        total = phi[v].sum()
        lows = highs = 0
        for k in range(K):
            mass[k] = phi[v, k] * K / total
            if mass[k] < 1:
                low[lows] = k
                lows += 1
            else:
                high[highs] = k
                highs += 1
        while lows and highs:
            lows -= 1
            k, h = low[lows], high[highs - 1]
            threshold[v, k], alias[v, k] = mass[k], h
            mass[h] -= 1 - mass[k]
            if mass[h] < 1:
                highs -= 1
                low[lows] = h
                lows += 1
    return threshold, alias


@kernel
def draw(tokens, rows, phi, tables, how, out):
    """Draw ``out`` (T,) uint16 from both parts, token by token in ``order``."""
    (order, docs, words), (row_ptr, entries), (table, other), (kind, alpha, ahead, key) = tokens, rows, tables, how
    sums = np.empty(1 << 15, np.float32)
    K, mass = phi.shape[1], np.empty(len(phi), np.float32)
    for v in range(len(phi)):
        mass[v] = alpha * (table[v, K - 1] if kind == 2 else phi[v].sum())
    for j in range(len(order)):
        i = order[j]
        d, v = docs[i], words[i]
        if ahead:
            prefetch(entries, row_ptr[docs[order[min(j + AHEAD, len(order) - 1)]]])
        total, start = np.float32(0), row_ptr[d]
        for e in range(start, row_ptr[d + 1]):
            entry = np.int64(entries[e])
            total += np.float32(entry & 0xFFFF) * phi[v, min(entry >> 16, K - 1)]
            sums[e - start] = total
        u = random.uniform64(key, i) * (total + mass[v])
        if u < total:
            e = 0
            while sums[e] <= u:
                e += 1
            out[i] = entries[start + e] >> 16
        else:
            out[i] = look_up(table[v], other[v if kind == 1 else 0], kind, (u - total) / mass[v])


@kernel
def look_up(table, other, kind, u):
    """Return the topic of a uniform number ``u``: along the row, in an alias table, or down a tree of prefix sums."""
    K = len(table)
    if kind == 1:
        k = min(int(u * K), K - 1)
        return np.int64(k) if u * K - k < table[k] else np.int64(other[k])
    k = 0
    if kind == 0:
        x = u * table.sum()
        while k < K - 1 and x >= table[k]:
            x -= table[k]
            k += 1
        return k
    x, step = u * table[K - 1], W * W
    while step:
        while k + step <= K - 1 and table[k + step - 1] <= x:
            k += step
        step //= W
    return k
