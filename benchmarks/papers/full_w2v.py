"""Tables 1 and 4 of FULL-W2V: words that the CPU prepares, and bytes that training moves."""

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec_cuda
from corpusmill.kernels.word2vec.text import MINIBATCH, keep_probability, subsample

from benchmarks.common import Session, fastest_cpu_seconds
from benchmarks.gpu.word2vec import bytes_a_word, step_of, text_of
from benchmarks.papers.registry import Measured, Run

#: Our variants by the names of the paper's programs.
PROGRAMS = {"full": "FULL-W2V", "full, no ring": "FULL-Register", "skip-gram": "accSGNS", "par": "PAR-Word2Vec"}


def traffic(session: Session, words: int = 16_718_845, dimension: int = 128) -> Measured:
    """Table 4 by counted bytes: GB per epoch of Text8 beyond shared memory."""
    step, _ = step_of(50, 64)
    found = bytes_a_word(dimension, step)
    values = {name: words * found[form] / 1e9 for form, name in PROGRAMS.items()}
    values["FULL-Register over FULL-W2V"] = values["FULL-Register"] / values["FULL-W2V"]
    return Measured(values)


def batching(session: Session, words: int = 4_000_000) -> Measured:
    """Table 1: M words per second that one CPU thread prepares for the device."""
    n_words, text = text_of(session, words)
    keep = keep_probability(np.bincount(text.words, minlength=n_words), 1e-3)
    rates = {}
    for name, call in {
        "subsampling": lambda: subsample(text.ptr, text.words, keep, random.key(1)),
        "stretches": lambda: word2vec_cuda.cut_stretches(text.ptr, MINIBATCH),
    }.items():
        rates[name] = len(text.words) / fastest_cpu_seconds(call, 2) / 1e6
    both = 1 / sum(1 / rate for rate in rates.values())
    return Measured({"FULL-W2V": both} | {f"of it, {name}": rate for name, rate in rates.items()})


RUNS = {
    "fullw2v-table-1": Run(batching, {}),
    "fullw2v-table-4": Run(traffic, {}, turns=1),
}
