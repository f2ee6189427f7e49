"""How well topics' words belong together, from how often they occur in the same documents or windows.

Sources: u_mass (Mimno et al., EMNLP 2011); NPMI (Bouma 2009; Aletras and Stevenson 2013);
c_v (Röder et al., WSDM 2015, whose context vectors are NPMI to the power of one).

Reference implementation: tests/helpers/naive.py, `window_pairs`.
"""

import numpy as np

from .jit import kernel

#: Added to a joint probability, so that words that never meet have a logarithm.
EPSILON = 1e-12


@kernel
def count_pairs(doc_ptr, numbers, n, window):
    """Count the windows that hold both words of each pair: (n, n) int64, and all windows.

    ``doc_ptr`` (D + 1,) int64; ``numbers`` (T,) int64 in document order, 0 <= number < n of the words that are counted,
    others below 0. A document no longer than ``window`` words is one window. The diagonal counts windows by word.
    """
    pairs, inside = np.zeros((n, n), np.int64), np.zeros(n, np.int64)
    present, place = np.empty(n, np.int64), np.empty(n, np.int64)
    contexts = 0
    for d in range(len(doc_ptr) - 1):
        start, end = doc_ptr[d], doc_ptr[d + 1]
        steps = max(1, end - start - window + 1)
        contexts += steps
        held = 0
        for i in range(start, min(start + window, end)):
            held = _enter(numbers[i], inside, present, place, held)
        same = 1
        for s in range(1, steps):
            leaving, entering = numbers[start + s - 1], numbers[start + s + window - 1]
            if leaving != entering and (leaving >= 0 or entering >= 0):
                _add(pairs, present[:held], same)
                same = 0
                held = _leave(leaving, inside, present, place, held)
                held = _enter(entering, inside, present, place, held)
            same += 1
        _add(pairs, present[:held], same)
        for v in present[:held]:
            inside[v] = 0
    return pairs, contexts


@kernel
def _enter(v, inside, present, place, held):
    if v < 0:
        return held
    inside[v] += 1
    if inside[v] > 1:
        return held
    present[held] = v
    place[v] = held
    return held + 1


@kernel
def _leave(v, inside, present, place, held):
    if v < 0:
        return held
    inside[v] -= 1
    if inside[v] > 0:
        return held
    last = present[held - 1]
    present[place[v]] = last
    place[last] = place[v]
    return held - 1


@kernel
def _add(pairs, present, windows):
    for v in present:
        for w in present:
            pairs[v, w] += windows


def u_mass(topic: np.ndarray, pairs: np.ndarray, n_documents: int) -> float:
    """Average log((D(w, w') / D + ε) / (D(w') / D)) over pairs, w' the heavier; ``topic`` (n,) rows of ``pairs``."""
    values = [
        np.log((pairs[w, v] / n_documents + EPSILON) / (pairs[v, v] / n_documents))
        for i, w in enumerate(topic)
        for v in topic[:i]
    ]
    return float(np.mean(values))


def npmi(topic: np.ndarray, pairs: np.ndarray, n_contexts: int) -> float:
    """Average normalised pointwise mutual information over pairs, -1 to 1; ``topic`` (n,) rows of ``pairs``."""
    return float(np.mean(_npmi(topic, pairs, n_contexts)[np.tril_indices(len(topic), -1)]))


def c_v(topic: np.ndarray, pairs: np.ndarray, n_contexts: int) -> float:
    """Average cosine of each word's NPMI with all words and of their sum; ``topic`` (n,) rows of ``pairs``."""
    vectors = _npmi(topic, pairs, n_contexts)
    whole = vectors.sum(axis=0)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(whole)
    return float(np.mean(vectors @ whole / lengths))


def _npmi(topic: np.ndarray, pairs: np.ndarray, n_contexts: int) -> np.ndarray:
    joint = pairs[np.ix_(topic, topic)] / n_contexts + EPSILON
    single = np.diag(pairs)[topic] / n_contexts
    return np.log(joint / np.outer(single, single)) / -np.log(joint)


#: Measures by name: functions of a topic's words, counts of pairs, and the number of windows.
MEASURES = {"u_mass": u_mass, "npmi": npmi, "c_v": c_v}
