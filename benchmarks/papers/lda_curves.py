"""Likelihood of test documents while LDA trains, as in the figures of chapter 2 of Moon's dissertation."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse
from corpusmill.kernels.lda import inference

from benchmarks.lda.data import tokens_of, zipf_counts
from benchmarks.papers.lda_samplers import CurrentCounts
from benchmarks.papers.registry import Chart, Curve

#: Passes between two scores grow by this factor.
GROWTH = 1.3
WARM_PASSES = 5


class Documents(NamedTuple):
    """Test documents, in document order."""

    doc_ptr: np.ndarray  # (D + 1,) int64
    words: np.ndarray  # (T,) uint32


class Split(NamedTuple):
    """The training documents and the test documents of a corpus."""

    train: scipy.sparse.csr_matrix
    test: Documents


class Progress(NamedTuple):
    """The test likelihood of one system as it trains."""

    passes: list[int]
    cpu_seconds: list[float]  # of training, since its start
    seconds: list[float]
    values: list[float]  # log-likelihood per token


def split_documents(matrix: scipy.sparse.csr_matrix, most: int, share: float = 0.1) -> Split:
    """Set a tenth of the documents aside, at most ``most`` of them for tests. Drop words that only they have."""
    order = np.random.default_rng(0).permutation(matrix.shape[0])
    count = max(1, int(share * matrix.shape[0]))
    train = matrix[np.sort(order[count:])]
    seen = np.flatnonzero(train.sum(axis=0).A1)
    return Split(train[:, seen].tocsr(), Documents(*tokens_of(matrix[order[: min(count, most)]][:, seen].tocsr())))


def likelihood(system, test: Documents) -> float:
    """Return equation 2.4 of the dissertation: the log-likelihood (equation 2.3) per token of the test documents.

    φ is that of training. θ of a test document maximises the same likelihood given φ, from all its tokens.
    """
    if isinstance(system, CurrentCounts):
        system.finish()
    weights = inference.word_weights(system.model)
    return inference.score_completion(test, test, weights) / len(test.words)


def progress(make: Callable, split: Split, passes: int, seconds: float = np.inf) -> Progress:
    """Train, and score after 1, 2, 3, 4, 6, ... passes; end after ``passes`` or ``seconds`` of CPU time."""
    warm = make(zipf_counts(300, 4000))  # compiles the kernels, also those of sparser counts after some passes
    for _ in range(WARM_PASSES):
        warm.run()
    likelihood(warm, Documents(np.array([0, 2]), np.array([0, 1], np.uint32)))
    system = make(split.train)
    found = Progress([], [], [], [])
    wall = cpu = 0.0
    next_score = 1
    for number in range(1, passes + 1):
        wall_before = time.perf_counter()
        cpu_before = time.process_time()
        system.run()
        wall += time.perf_counter() - wall_before
        cpu += time.process_time() - cpu_before
        last = number == passes or cpu >= seconds
        if number >= next_score or last:
            found.passes.append(number)
            found.cpu_seconds.append(cpu)
            found.seconds.append(wall)
            found.values.append(likelihood(system, split.test))
            next_score = int(number * GROWTH) + 1
        if last:
            break
    return found


def time_to(found: Progress, goal: float, clock: str = "cpu_seconds") -> float:
    """Return the seconds until a likelihood was reached, between scores by a straight line; NaN if it was not."""
    best = np.maximum.accumulate(found.values)
    if best[-1] < goal:
        return float("nan")
    return float(np.interp(goal, best, getattr(found, clock)))


def passes_to(found: Progress, goal: float) -> float:
    """Return the passes until a likelihood was reached."""
    best = np.maximum.accumulate(found.values)
    return float("nan") if best[-1] < goal else float(np.interp(goal, best, found.passes))


def over_passes(title: str, found: Mapping[str, Progress]) -> Chart:
    """Return a panel of likelihood over passes."""
    curves = [Curve(label, one.passes, one.values) for label, one in found.items()]
    return Chart(title, "passes over the corpus", "test log-likelihood per token", curves)


def over_time(title: str, found: Mapping[str, Progress], clock: str = "cpu_seconds") -> Chart:
    """Return a panel of likelihood over seconds of training."""
    label = {"cpu_seconds": "CPU-seconds of training", "seconds": "seconds of training, by the clock"}[clock]
    curves = [Curve(name, getattr(one, clock), one.values) for name, one in found.items()]
    return Chart(title, label, "test log-likelihood per token", curves, x_log=True)
