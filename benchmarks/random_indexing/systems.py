"""Ways to sum contexts: corpusmill's kernels, a plain loop (Algorithm 2.1 of the paper), and matrix products."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse
from corpusmill.kernels import random
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import contexts as ri_contexts
from corpusmill.kernels.random_indexing import text as ri_text

from benchmarks.random_indexing.texts import Text

THREADS = 2
RADIUS = 5
SALT = random.key(0)


def parts_of(text: Text, n_parts: int = THREADS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut a text into ranges of documents, as (doc_ptr, ids); by default one per thread."""
    cuts = np.searchsorted(text.doc_ptr, np.linspace(0, text.doc_ptr[-1], n_parts + 1))
    return [
        (text.doc_ptr[a : b + 1] - text.doc_ptr[a], text.ids[text.doc_ptr[a] : text.doc_ptr[b]])
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    ]


def in_threads(function, arguments, threads: int = THREADS) -> tuple[list, float, float]:
    """Run in threads; return results, wall seconds and CPU seconds of the process."""
    wall = time.perf_counter()
    cpu = time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(lambda a: function(*a), arguments))
    return results, time.perf_counter() - wall, time.process_time() - cpu


# --- sparse seeds ---


WINDOW = ri_text.make_window(RADIUS, "permutation")


class Swept(NamedTuple):
    """What a sweep of one chunk returns: sums of frequent words, and contexts of rare words."""

    sum_ids: np.ndarray
    sums: np.ndarray
    context_ids: np.ndarray
    contexts: np.ndarray


def sweep(chunk, text: Text, dimension: int, pairs: int) -> Swept:
    """Sum the contexts of frequent words, and list those of rare words, as a sweep of training does."""
    V = len(text.words)
    tokens = ri_text.prepare_tokens(chunk, np.ones(V, bool), RADIUS)
    seeds = ri.with_null(ri_text.make_seeds(text.hashes[tokens.ids], SALT, dimension, pairs))
    is_rare = text.frequency[tokens.ids] <= ri_contexts.most_occurrences(WINDOW, dimension)
    sums = ri.sum_pieces(tokens, WINDOW, seeds, dimension, ~is_rare)
    words, contexts = ri_contexts.list_contexts(tokens, WINDOW, is_rare, V)
    return Swept(tokens.ids[sums.words], sums.rows, tokens.ids[words].astype(np.int64), contexts)


def ours(chunks: list, text: Text, dimension: int, pairs: int, threads: int = THREADS) -> tuple[Any, float, float]:
    """Sum all chunks, whose sweeps run in threads: (V, dimension) int32, wall seconds and CPU-seconds."""
    swept, wall, cpu = in_threads(sweep, [(chunk, text, dimension, pairs) for chunk in chunks], threads)
    last, last_wall, last_cpu = in_threads(add_up, [(swept, text, dimension, pairs)], 1)
    return last[0], wall + last_wall, cpu + last_cpu


def add_up(swept: list[Swept], text: Text, dimension: int, pairs: int) -> np.ndarray:
    """Add the sums and the contexts of all chunks, as training does after the last chunk."""
    total = ri.sum_at(len(text.words), [(part.sum_ids, part.sums) for part in swept])
    seeds = ri.with_null(ri_text.make_seeds(text.hashes, SALT, dimension, pairs))
    words = np.concatenate([part.context_ids for part in swept])
    contexts = np.concatenate([part.contexts for part in swept])
    ri_contexts.add_contexts(total, words, contexts, WINDOW, seeds)
    return total


@numba.njit(nogil=True, cache=True)
def plain_loop(doc_ptr, ids, positions, signs, radius, T):
    """Sum contexts as one would write Algorithm 2.1 down."""
    dimension = T.shape[1]
    for d in range(len(doc_ptr) - 1):
        for n in range(doc_ptr[d], doc_ptr[d + 1]):
            for offset in range(-radius, radius + 1):
                m = n + offset
                if offset == 0 or m < doc_ptr[d] or m >= doc_ptr[d + 1]:
                    continue
                for k in range(positions.shape[1]):
                    T[ids[n], (positions[ids[m], k] + offset) % dimension] += signs[k]


def cooccurrences(text: Text) -> list[tuple[int, scipy.sparse.csr_array]]:
    """Return the counts (V, V) of neighbours at each offset."""
    V = len(text.words)
    document = np.repeat(np.arange(len(text.doc_ptr) - 1), np.diff(text.doc_ptr))
    found = []
    for offset in range(1, RADIUS + 1):
        same = document[:-offset] == document[offset:]
        left, right = text.ids[:-offset][same], text.ids[offset:][same]
        counts = scipy.sparse.coo_array((np.ones(len(left), np.int32), (left, right)), shape=(V, V)).tocsr()
        found += [(offset, counts), (-offset, counts.T.tocsr())]
    return found


def sparse_product(text: Text, S: scipy.sparse.csr_array) -> np.ndarray:
    """Return T, computed as one product of two sparse matrices, on two threads.

    The left matrix has the counts of pairs of words at every offset, side by side. The right matrix has the seeds,
    rotated by every offset, one below the other.
    """
    pairs = cooccurrences(text)
    left = scipy.sparse.hstack([counts for _, counts in pairs]).tocsr()
    rotated = []
    for offset, _ in pairs:
        columns = ((S.indices + offset) % S.shape[1]).astype(np.int32)
        rotated.append(scipy.sparse.csr_array((S.data, columns, S.indptr), shape=S.shape))
    right = scipy.sparse.vstack(rotated).tocsr()
    # Words are sorted by frequency: the first fiftieth of them has about half of the pairs.
    cut = len(text.words) // 50
    results, _, _ = in_threads(lambda a: (a @ right).toarray(), [(left[:cut],), (left[cut:],)])
    return np.concatenate(results)


# --- dense seeds ---


@numba.njit(nogil=True, cache=True, fastmath=True)
def plain_dense_loop(doc_ptr, ids, S, radius, T):
    """Sum contexts with dense seeds as one would write it down."""
    dimension = T.shape[1]
    for d in range(len(doc_ptr) - 1):
        for n in range(doc_ptr[d], doc_ptr[d + 1]):
            for offset in range(-radius, radius + 1):
                m = n + offset
                if offset == 0 or m < doc_ptr[d] or m >= doc_ptr[d + 1]:
                    continue
                seed, out = S[ids[m]], T[ids[n]]
                shift = offset % dimension
                for k in range(dimension - shift):
                    out[k + shift] += seed[k]
                for k in range(shift):
                    out[k] += seed[dimension - shift + k]


def ours_dense(chunk, n_words: int, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum dense contexts of one chunk as a sweep of retraining does; return word ids and rows."""
    tokens = ri_text.prepare_tokens(chunk, np.ones(n_words, bool), RADIUS)
    out = np.zeros((len(tokens.ids), S.shape[1]), np.float32)
    slabs = ri.make_slabs([(S, tokens.ids)])
    ri.accumulate_dense(tokens, ri_text.make_window(RADIUS, "permutation"), slabs, 0, out)
    return tokens.ids, out


def dense_product(text: Text, S: np.ndarray) -> np.ndarray:
    """Return T, computed as one product per offset: the counts of pairs at this offset, times the rotated seeds.

    Two threads share the rows, so that each has about half of the counts.
    """
    pairs = [(offset, counts.astype(np.float32)) for offset, counts in cooccurrences(text)]
    entries = sum(counts.indptr.astype(np.int64) for _, counts in pairs)
    cut = int(np.searchsorted(entries, entries[-1] // 2))

    def part(rows):
        out = np.zeros((rows.stop - rows.start, S.shape[1]), np.float32)
        for offset, counts in pairs:
            out += counts[rows] @ np.roll(S, offset, axis=1)
        return out

    results, _, _ = in_threads(part, [(slice(0, cut),), (slice(cut, len(text.words)),)])
    return np.concatenate(results)
