"""Chapter 2 of Moon's dissertation: parallel collapsed Gibbs sampling on multi-core processors."""

import heapq
from collections.abc import Callable
from functools import partial

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.dealing import deal

from benchmarks.common import Clock, Session
from benchmarks.lda.data import read, tokens_of
from benchmarks.papers.kernels import every_token
from benchmarks.papers.lda_curves import (
    Split,
    over_passes,
    over_time,
    passes_to,
    progress,
    split_documents,
    time_to,
)
from benchmarks.papers.lda_samplers import SAMPLERS, UpdateTimes
from benchmarks.papers.registry import Chart, Curve, Measured, Run
from benchmarks.papers.update_times import COMBINATIONS

#: Priors of section 2.4: alpha is 50 / K, the default of the systems.
BETA = 0.1
#: Passes of a training that ends after some seconds: more than any sampler makes.
MOST_PASSES = 100_000
#: Documents of a mini-batch by corpus (Figure 2.8).
BATCH_DOCUMENTS = {"kos": 330, "nips": 140, "wikipedia": 300}


#: Documents of each corpus that are set aside for the likelihood.
TEST_DOCUMENTS = 60


def sampler(session: Session, name: str, topics: int, threads: int = 1, **options) -> Callable:
    """Return a function that makes a sampler of a matrix, with the prior of the dissertation."""
    return partial(SAMPLERS[name], n_topics=topics, threads=threads, beta=BETA, seed=session.seed, **options)


def measure_corpora(
    session: Session,
    corpora: tuple[str, ...],
    tokens: int,
    measure: Callable[[str, Split], tuple[dict[str, float], Chart]],
) -> Measured:
    """Call ``measure`` with the name and the documents of each corpus; join the values and charts that it returns."""
    values = {}
    charts = []
    for corpus in corpora:
        split = split_documents(read(session, corpus, tokens), TEST_DOCUMENTS)
        found, chart = measure(corpus, split)
        values |= {f"{corpus}: {name}": value for name, value in found.items()}
        charts.append(chart)
    return Measured(values, charts)


# --- tiles ---


def convergence_of_tiles(
    session: Session,
    topics: int = 128,
    parts: int = 16,
    threads: int = 2,
    passes: int = 15,
    corpora: tuple[str, ...] = ("nips", "wikipedia"),
    tokens: int = 1_000_000,
) -> Measured:
    """Figure 2.4: one tile, which is sequential sampling in word order, and many tiles over passes."""

    def measure(corpus: str, split: Split) -> tuple[dict[str, float], Chart]:
        one = progress(sampler(session, "tiles", topics, parts=1), split, passes)
        tiled = progress(sampler(session, "tiles", topics, threads, parts=parts), split, passes)
        values = {
            "tiles minus sequential": tiled.values[-1] - one.values[-1],
            "sequential, last pass": one.values[-1],
            "gain of sequential, first to last pass": one.values[-1] - one.values[0],
        }
        return values, over_passes(corpus, {"sequential": one, f"{parts} x {parts} tiles": tiled})

    return measure_corpora(session, corpora, tokens, measure)


def makespan(tokens: np.ndarray, threads: int) -> float:
    """Return when the last of some threads ends if each takes the next tile as soon as it is free."""
    busy = [0] * threads
    for size in tokens:
        heapq.heappush(busy, heapq.heappop(busy) + int(size))
    return max(busy)


def counted_speedup(docs: np.ndarray, words: np.ndarray, parts: int, threads: int, by_tokens: bool) -> float:
    """Return the speed-up that the sizes of the tiles allow.

    It is the number of all tokens, divided by the tokens of the busiest thread, which are added up over the diagonals.

    ``docs`` and ``words`` (T,) are the tokens. ``by_tokens``: parts with equal numbers of tokens, as corpusmill cuts
    them; otherwise equal ranges of documents and of words, as in the dissertation.
    """
    if by_tokens:
        frequency = np.bincount(words)
        group = every_token.cut(docs, parts)
        block = deal(frequency, parts, random.key(0), len(frequency))[words]
    else:
        group = docs.astype(np.int64) * parts // (int(docs.max()) + 1)
        block = words.astype(np.int64) * parts // (int(words.max()) + 1)
    sizes = np.bincount(group * parts + block, minlength=parts * parts)
    table = sizes.reshape(parts, parts)
    rows = np.arange(parts)
    longest = sum(makespan(table[rows, (rows + step) % parts], threads) for step in range(parts))
    return len(docs) / longest


def tokens_in_word_order(matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the document and the word of each token, both (T,)."""
    chunk = make_chunk(0, *tokens_of(matrix))
    return chunk.docs, chunk.words[chunk.word_to_doc_order]


def convergence_by_parts(
    session: Session,
    topics: int = 128,
    parts: tuple[int, ...] = (8, 16, 32, 64),
    threads: int = 2,
    counted_threads: int = 4,
    passes: int = 5,
    tokens: int = 1_000_000,
) -> Measured:
    """Figure 2.5: time over the number of parts; and the balance of the load, counted from tokens per tile."""
    matrix = read(session, "nips", tokens)
    docs, words = tokens_in_word_order(matrix)
    balance = {}
    for label, by_tokens in (("equal ranges (paper)", False), ("equal numbers of tokens (corpusmill)", True)):
        balance[label] = [counted_speedup(docs, words, p, counted_threads, by_tokens) for p in parts]
    split = split_documents(matrix, TEST_DOCUMENTS)
    found = {f"P = {p}": progress(sampler(session, "tiles", topics, threads, parts=p), split, passes) for p in parts}
    values = {}
    for label, speedups in balance.items():
        values[f"time of the fewest parts over that of the most, {label}"] = speedups[-1] / speedups[0]
        values |= {
            f"P = {p}: speed-up of {counted_threads} threads, {label}": one
            for p, one in zip(parts, speedups, strict=True)
        }
    for label, one in found.items():
        values[f"{label}: CPU-seconds per pass"] = one.cpu_seconds[-1] / one.passes[-1]
        values[f"{label}: test log-likelihood after the last pass"] = one.values[-1]
    curves = [Curve(label, parts, speedups) for label, speedups in balance.items()]
    speed = Chart(
        f"balance of {counted_threads} threads, by counts", "parts P", "speed-up over one thread (counted)", curves
    )
    return Measured(values, [over_time(f"NIPS, {threads} threads", found, "seconds"), speed])


def speed_of_threads(
    session: Session,
    topics: int = 128,
    parts: int = 50,
    counted_parts: int = 300,
    passes: int = 2,
    tokens: int = 1_000_000,
    corpora: tuple[str, ...] = ("nips", "wikipedia"),
) -> Measured:
    """Table 2.4: seconds of an iteration on one and two threads, and counted speed-ups for more."""
    values = {}
    curves = []
    for corpus in corpora:
        matrix = read(session, corpus, tokens)
        systems = {
            "sequential": sampler(session, "plain", topics)(matrix),
            "1 thread": sampler(session, "copies", topics, 1, parts=parts)(matrix),
            "2 threads": sampler(session, "copies", topics, 2, parts=parts)(matrix),
        }
        seconds = dict.fromkeys(systems, 0.0)
        for turn in range(passes + 1):  # the first turn compiles
            for label, system in systems.items():
                wall, _ = Clock().time(system.run)
                if turn:
                    seconds[label] += wall / passes
        values |= {f"{corpus}: {label}, s per pass": found for label, found in seconds.items()}
        values[f"{corpus}: speed-up of 2 threads"] = seconds["1 thread"] / seconds["2 threads"]
        docs, words = tokens_in_word_order(matrix)
        threads = (1, 2, 4, 8)
        counted = [counted_speedup(docs, words, counted_parts, n, True) for n in threads]
        for n, speedup in zip(threads[1:], counted[1:], strict=True):
            values[f"{corpus}: speed-up of {n} threads, by tokens of {counted_parts} x {counted_parts} tiles"] = speedup
        curves.append(Curve(f"{corpus}, counted", threads, counted))
    for corpus, seconds in PAPER_SECONDS.items():
        curves.append(Curve(f"{corpus}, paper", (1, 2, 4, 8), [seconds[0] / s for s in seconds], from_paper=True))
    return Measured(values, [Chart(f"P = {counted_parts}", "threads", "speed-up over one thread", curves)])


#: Table 2.4: seconds per iteration of parallel OD-LDA on 1, 2, 4 and 8 threads.
PAPER_SECONDS = {"NIPS": (1.2406, 0.7132, 0.4421, 0.2857), "NYTimes": (66.2232, 36.5454, 21.0296, 12.6711)}


def convergence_by_threads(
    session: Session,
    topics: int = 128,
    parts: int = 50,
    threads: tuple[int, ...] = (1, 2),
    passes: int = 6,
    tokens: int = 1_000_000,
    corpora: tuple[str, ...] = ("nips", "wikipedia"),
) -> Measured:
    """Figure 2.6: likelihood over seconds for several numbers of threads."""

    def measure(corpus: str, split: Split) -> tuple[dict[str, float], Chart]:
        found = {
            f"{n} threads": progress(sampler(session, "copies", topics, n, parts=parts), split, passes) for n in threads
        }
        goal = min(one.values[-1] for one in found.values())
        first, *_, last = found.values()
        ratio = time_to(first, goal, "seconds") / time_to(last, goal, "seconds")
        values = {
            f"time of {threads[0]} over {threads[-1]} threads, to equal likelihood": ratio,
            "largest difference in likelihood": abs(first.values[-1] - last.values[-1]),
        }
        return values, over_time(corpus, found, "seconds")

    return measure_corpora(session, corpora, tokens, measure)


def totals_with_and_without_atomics(
    session: Session,
    topics: int = 128,
    parts: int = 50,
    threads: int = 2,
    passes: int = 10,
    corpus: str = "nips",
    tokens: int = 1_000_000,
) -> Measured:
    """Figure 2.7: one array of totals with atomic additions against one copy for each tile."""
    split = split_documents(read(session, corpus, tokens), TEST_DOCUMENTS)
    atomic = progress(sampler(session, "cgs, atomic", topics, threads, parts=parts), split, passes)
    free = progress(sampler(session, "copies", topics, threads, parts=parts), split, passes)
    found = {"atomic additions": atomic, "a copy of NT for each tile": free}
    goal = min(atomic.values[-1], free.values[-1])
    values = {
        "time with atomics over time without": time_to(atomic, goal) / time_to(free, goal),
        "likelihood without atomics minus with": free.values[-1] - atomic.values[-1],
    }
    return Measured(values, [over_time(corpus, found), over_passes(corpus, found)])


# --- mini-batches ---


def update_combinations(
    session: Session,
    topics: int = 128,
    passes: int = 12,
    corpora: tuple[str, ...] = ("kos", "nips"),
    tokens: int = 350_000,
) -> Measured:
    """Figure 2.8: all combinations of immediate and delayed updates, and uncollapsed sampling."""

    def measure(corpus: str, split: Split) -> tuple[dict[str, float], Chart]:
        found = {}
        for label, immediate in COMBINATIONS.items():
            make = partial(UpdateTimes, n_topics=topics, threads=1, immediate=immediate, beta=BETA, seed=session.seed)
            found[label] = progress(partial(make, documents=BATCH_DOCUMENTS[corpus]), split, passes)
        found["uncollapsed (UCGS)"] = progress(sampler(session, "uncollapsed", topics), split, passes)
        first = found["all immediate (CGS)"].values[-1]
        values = {f"{label}, minus CGS": one.values[-1] - first for label, one in found.items()}
        return values, over_passes(corpus, found)

    return measure_corpora(session, corpora, tokens, measure)


def sizes_of_minibatches(
    session: Session,
    topics: int = 128,
    documents: tuple[int, ...] = (10, 100, 1000),
    passes: int = 12,
    corpus: str = "wikipedia",
    tokens: int = 700_000,
) -> Measured:
    """Figure 2.9: likelihood over time, and time of all passes, by the size of a mini-batch."""
    split = split_documents(read(session, corpus, tokens), 100)
    found = {}
    for size in documents:
        found[f"{size} documents"] = progress(sampler(session, "minibatch", topics, documents=size), split, passes)
    goal = min(one.values[-1] for one in found.values())
    first, *_, last = found.values()
    values = {"time of the smallest over that of the largest": first.cpu_seconds[-1] / last.cpu_seconds[-1]}
    for label, one in found.items():
        values[f"{label}: CPU-seconds of {passes} passes"] = one.cpu_seconds[-1]
        values[f"{label}: passes to the lowest final likelihood"] = passes_to(one, goal)
    times = [one.cpu_seconds[-1] for one in found.values()]
    curve = Curve("", documents, times)
    chart = Chart(f"time of {passes} passes", "documents of a mini-batch", "CPU-seconds", [curve], x_log=True)
    return Measured(values, [over_time(corpus, found), chart])


def samplers_over_time(
    session: Session,
    topics: int = 128,
    seconds: float = 2.5,
    corpora: tuple[str, ...] = ("kos", "nips"),
    tokens: int = 1_000_000,
    alpha: float = 0.1,
) -> Measured:
    """Figures 2.12 and 2.13: likelihood over time, and times to equal likelihood."""

    def measure(corpus: str, split: Split) -> tuple[dict[str, float], Chart]:
        samplers = {
            "sequential CGS": sampler(session, "plain", topics, alpha=alpha),
            "sequential CGS in vector registers": sampler(session, "sequential", topics, alpha=alpha),
            "mini-batches (Algorithm 4)": sampler(
                session, "minibatch", topics, alpha=alpha, documents=BATCH_DOCUMENTS[corpus]
            ),
            "ESCA": sampler(session, "esca", topics, alpha=alpha),
            "WarpLDA": sampler(session, "warp", topics, alpha=alpha),
        }
        found = {label: progress(make, split, MOST_PASSES, seconds) for label, make in samplers.items()}
        sequential = found["sequential CGS"]
        goal = sequential.values[-1]
        baseline = time_to(sequential, goal)
        slowest = sequential.cpu_seconds[-1] / sequential.passes[-1]
        values = {}
        for label, one in found.items():
            values[f"{label}, last likelihood"] = one.values[-1]
            if one is sequential:
                continue
            speed = slowest * one.passes[-1] / one.cpu_seconds[-1]
            values[f"tokens per CPU-second of {label} over sequential CGS"] = speed
            values[f"time of sequential CGS over that of {label}"] = baseline / time_to(one, goal)
        return values, over_time(corpus, found)

    return measure_corpora(session, corpora, tokens, measure)


# --- sizes of the corpora ---


def sizes_of_corpora(session: Session, corpora: tuple[str, ...] = ("kos", "nips", "wikipedia")) -> Measured:
    """Tables 2.2 and 2.6: documents, tokens and words of the corpora."""
    values = {}
    for corpus in corpora:
        matrix = read(session, corpus)
        values[f"{corpus}: documents D"] = matrix.shape[0]
        values[f"{corpus}: tokens W"] = int(matrix.sum())
        values[f"{corpus}: words V"] = matrix.shape[1]
    return Measured(values)


TINY = {"topics": 8, "passes": 2}
RUNS = {
    "dissertation-table-2.2": Run(
        partial(sizes_of_corpora, corpora=("nips", "wikipedia")), {"corpora": ("nips",)}, turns=1
    ),
    "dissertation-table-2.6": Run(sizes_of_corpora, {"corpora": ("kos",)}, turns=1),
    "dissertation-figure-2.4": Run(convergence_of_tiles, TINY | {"parts": 4, "corpora": ("nips",)}),
    "dissertation-figure-2.5": Run(convergence_by_parts, TINY | {"parts": (2, 4)}),
    "dissertation-figure-2.6": Run(convergence_by_threads, TINY | {"parts": 4, "corpora": ("nips",)}),
    "dissertation-figure-2.7": Run(totals_with_and_without_atomics, TINY | {"parts": 4}),
    "dissertation-table-2.4": Run(speed_of_threads, TINY | {"parts": 4, "counted_parts": 8, "corpora": ("nips",)}),
    "dissertation-figure-2.8": Run(update_combinations, TINY | {"corpora": ("kos",)}),
    "dissertation-figure-2.9": Run(sizes_of_minibatches, TINY | {"documents": (10, 50)}),
    "dissertation-figure-2.12": Run(samplers_over_time, {"topics": 8, "seconds": 0.05, "corpora": ("kos",)}),
}
