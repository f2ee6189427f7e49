"""Topic coherence: how well the words of a topic belong together, from how often they occur in the same contexts.

A context is a document or a sliding window. With D(w) the contexts that hold w and D(w, w') those that hold both:

    u_mass(t)   = mean over pairs of log((D(w, w') / D + ε) / (D(w') / D)), w' before w in the topic
    NPMI(w, w') = log(p(w, w') / (p(w) p(w'))) / -log p(w, w')
    c_v(t)      = mean over w of cos(NPMI(w, ·), Σ_w' NPMI(w', ·))

Sources: u_mass (Mimno et al., EMNLP 2011); NPMI (Bouma 2009; Aletras and Stevenson 2013); c_v (Röder, Both and
Hinneburg, WSDM 2015, table 3, with context vectors of NPMI to the power of one).

The counts of all n words under study are one dense matrix (n, n): topics have few words.

Reference implementation: tests/helpers/naive.py, `window_pairs`, for the counts.
"""

import numpy as np

from .jit import kernel

#: Added to a joint probability, so that the logarithm of two words that never meet is finite.
EPSILON = 1e-12


@kernel
def count_pairs(doc_ptr: np.ndarray, numbers: np.ndarray, n: int, window: int) -> tuple[np.ndarray, int]:
    """Count the windows that hold both words of each pair: (n, n) int64, and the number of all windows.

    ``doc_ptr`` (D + 1,) int64; ``numbers`` (T,) int64 in document order, the number 0 <= v < n of each word under
    study, below 0 for other words. A document of at most ``window`` words is one window. The diagonal counts the
    windows of each word.
    """
    pairs = np.zeros((n, n), np.int64)
    # The words inside the window are kept as a list, so that a window costs the square of the words under study in it,
    # not of all n. ``inside`` counts occurrences, ``present[:held]`` lists the words, ``slot`` are their indices in it.
    inside = np.zeros(n, np.int64)
    present = np.empty(n, np.int64)
    slot = np.empty(n, np.int64)
    contexts = 0
    for d in range(len(doc_ptr) - 1):
        start, end = doc_ptr[d], doc_ptr[d + 1]
        steps = max(1, end - start - window + 1)
        contexts += steps
        held = 0
        for i in range(start, min(start + window, end)):
            held = _enter(numbers[i], inside, present, slot, held)
        # Most steps of the window change no word under study. Equal windows are counted and added at once.
        same = 1
        for s in range(1, steps):
            leaving = numbers[start + s - 1]
            entering = numbers[start + s + window - 1]
            if leaving != entering and (leaving >= 0 or entering >= 0):
                _add(pairs, present[:held], same)
                same = 0
                held = _leave(leaving, inside, present, slot, held)
                held = _enter(entering, inside, present, slot, held)
            same += 1
        _add(pairs, present[:held], same)
        for v in present[:held]:
            inside[v] = 0
    return pairs, contexts


@kernel
def _enter(v: int, inside: np.ndarray, present: np.ndarray, slot: np.ndarray, held: int) -> int:
    """Add one occurrence of word v to the window; return the new number of distinct words."""
    if v < 0:
        return held
    inside[v] += 1
    if inside[v] > 1:
        return held
    present[held] = v
    slot[v] = held
    return held + 1


@kernel
def _leave(v: int, inside: np.ndarray, present: np.ndarray, slot: np.ndarray, held: int) -> int:
    """Remove one occurrence of word v from the window; return the new number of distinct words."""
    if v < 0:
        return held
    inside[v] -= 1
    if inside[v] > 0:
        return held
    # The last word of the list takes the free slot.
    last = present[held - 1]
    present[slot[v]] = last
    slot[last] = slot[v]
    return held - 1


@kernel
def _add(pairs: np.ndarray, present: np.ndarray, windows: int) -> None:
    """Add ``windows`` to the count of each pair of the words (held,) in the window."""
    for v in present:
        for w in present:
            pairs[v, w] += windows


def u_mass(topic: np.ndarray, pairs: np.ndarray, n_documents: int) -> float:
    """Return the u_mass coherence of one topic.

    ``topic`` (n,) are rows of ``pairs``, by falling weight in the topic; ``pairs`` counts documents.
    """
    values = []
    for i, w in enumerate(topic):
        for v in topic[:i]:
            joint = pairs[w, v] / n_documents + EPSILON
            values.append(np.log(joint / (pairs[v, v] / n_documents)))
    return float(np.mean(values))


def npmi(topic: np.ndarray, pairs: np.ndarray, n_contexts: int) -> float:
    """Return the mean NPMI of all pairs of one topic, from -1 to 1; ``topic`` (n,) are rows of ``pairs``."""
    return float(np.mean(_npmi(topic, pairs, n_contexts)[np.tril_indices(len(topic), -1)]))


def c_v(topic: np.ndarray, pairs: np.ndarray, n_contexts: int) -> float:
    """Return the c_v coherence of one topic; ``topic`` (n,) are rows of ``pairs``."""
    vectors = _npmi(topic, pairs, n_contexts)
    whole = vectors.sum(axis=0)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(whole)
    return float(np.mean(vectors @ whole / lengths))


def _npmi(topic: np.ndarray, pairs: np.ndarray, n_contexts: int) -> np.ndarray:
    """Return the NPMI of each pair of a topic's n words: (n, n) float64."""
    joint = pairs[np.ix_(topic, topic)] / n_contexts + EPSILON
    single = np.diag(pairs)[topic] / n_contexts
    return np.log(joint / np.outer(single, single)) / -np.log(joint)


#: Measures by name. Each is a function of a topic's words, the counts of pairs and the number of contexts.
MEASURES = {"u_mass": u_mass, "npmi": npmi, "c_v": c_v}
