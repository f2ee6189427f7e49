"""PAR-Word2Vec with another number of words per mini-batch: the shipped kernel, compiled anew with another constant."""

import types

import numpy as np
from corpusmill.kernels.word2vec import par, skip_gram
from numba.core.registry import CPUDispatcher


def train_with_batches(words: int):
    """Return a function with the arguments of `skip_gram.train`, for mini-batches of ``words`` words."""
    if words == par.BATCH:
        return skip_gram.train
    attract = recompiled(par._attract, {"BATCH": words})
    train_par = recompiled(par.train_par, {"BATCH": words, "_attract": attract})

    def train(method: str, text, options, W_in: np.ndarray, W_out: np.ndarray) -> None:
        del method  # always "par"
        train_par(0, len(text.ptr) - 1, text, options, W_in, W_out)

    return train


def recompiled(kernel: CPUDispatcher, names: dict) -> CPUDispatcher:
    """Return the same kernel with other values of some names of its module."""
    original = kernel.py_func
    function = types.FunctionType(original.__code__, original.__globals__ | names, original.__name__)
    # Without a cache: Numba's cache does not see that a constant differs.
    return CPUDispatcher(function, targetoptions=kernel.targetoptions)
