"""How well topics' words belong together, from how often they occur in the same documents or windows.

Sources: u_mass (Mimno et al., EMNLP 2011); NPMI (Bouma 2009; Aletras and Stevenson 2013); topic diversity (Dieng et
al., TACL 2020).
"""

import numpy as np
import scipy.sparse

#: Added to a joint probability, so that words that never meet have a logarithm.
EPSILON = 1e-12


def document_pairs(counts: scipy.sparse.csr_matrix, words: np.ndarray) -> np.ndarray:
    """Count the documents that hold both words of each pair: (n, n) int64; the diagonal holds document frequencies.

    ``counts`` (D, V), ``words`` (n,) ids. Sums over chunks are the corpus's.
    """
    held = counts[:, words].astype(bool).astype(np.int64)
    return (held.T @ held).toarray()


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
    values = []
    for i, w in enumerate(topic):
        for v in topic[:i]:
            joint = pairs[w, v] / n_contexts + EPSILON
            single = pairs[w, w] * pairs[v, v] / n_contexts**2
            values.append(np.log(joint / single) / -np.log(joint))
    return float(np.mean(values))


def diversity(topics: np.ndarray) -> float:
    """Return the share of distinct words among all topics' words: ``topics`` (K, n) ids."""
    return len(np.unique(topics)) / topics.size
