"""The first W of a factorisation: random numbers, or the W of a previous model."""

from typing import TYPE_CHECKING

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.text.vocabulary import find_word_ids
from ....kernels import random
from ....kernels.nmf import hals as nmf
from ...engine.algorithm import PreviousModel

if TYPE_CHECKING:
    from .factorization import Factorization

#: Step in the address of the draws of the first W. No real step has this number.
BEGIN = -1


def random_rows(algorithm: "Factorization", block: int, mean: float) -> np.ndarray:
    """Return a block of W (rows, K) with numbers drawn uniformly from 0 to twice ``mean``."""
    first = algorithm.bounds[block]
    stop = algorithm.bounds[block + 1]
    W = np.empty((stop - first, algorithm.n_components), algorithm.dtype)
    nmf.fill_uniform(random.key(algorithm.seed, BEGIN, 0), first, W, 2 * mean)
    return W


def previous_rows(previous: PreviousModel, data: Corpus | Matrix, algorithm: "Factorization", block: int) -> np.ndarray:
    """Return a block of W (rows, K): the previous model's rows, and small random ones for words that are new.

    The previous model is read one block at a time.
    """
    first = algorithm.bounds[block]
    stop = algorithm.bounds[block + 1]
    if isinstance(data, Corpus):
        ids = find_word_ids(data.vocabulary["word"].slice(first, stop - first), previous.vocabulary)
    else:
        ids = np.arange(first, stop)
    known = np.zeros(len(ids), bool)
    values = np.zeros((len(ids), algorithm.n_components), algorithm.dtype)
    total = 0.0
    size = 0
    old_first = 0
    for arrays in previous.blocks():
        W = arrays["W"]
        here = (ids >= old_first) & (ids < old_first + len(W))
        values[here] = W[ids[here] - old_first]
        known |= here
        total += float(W.sum(dtype=np.float64))
        size += W.size
        old_first += len(W)
    rows = random_rows(algorithm, block, total / max(1, size))
    rows[known] = values[known]
    return rows
