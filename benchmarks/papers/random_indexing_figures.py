"""Section 7 of "Implementing Random Indexing on GPU" (Polok and Smrž, 2011), on a CPU."""

import numba
import numpy as np
from corpusmill import RandomIndexing
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import Clock, Session
from benchmarks.papers.registry import Chart, Curve, Measured, Run
from benchmarks.papers.word2vec_figures import PAIRS, pair_scores
from benchmarks.random_indexing.comparison import one_dense, one_sparse
from benchmarks.random_indexing.systems import RADIUS
from benchmarks.random_indexing.texts import Text, documents, encode

OURS = "corpusmill"
LOOP = "plain loop"


def over_dimensions(title: str, seconds: dict[str, list[float]], dimensions: tuple[int, ...]) -> Chart:
    """Return a panel of CPU-seconds over the dimension."""
    curves = [Curve(label, dimensions, found) for label, found in seconds.items()]
    return Chart(title, "dimension of a vector", "CPU-seconds", curves, x_log=True, y_log=True)


def from_sparse_seeds(
    session: Session,
    dimensions: tuple[int, ...] = (256, 512, 1024, 2048, 4096),
    seed_lengths: tuple[int, ...] = (10, 100),
    systems: tuple[str, ...] = (OURS, LOOP),
    corpus: str = "kjv",
    tokens: int = 300_000,
) -> Measured:
    """Figure 7.1: time of training from sparse seeds."""
    text = encode(session, corpus, tokens)
    values = {}
    charts = []
    for length in seed_lengths:
        seconds = {name: [] for name in systems}
        for dimension in dimensions:
            found = one_sparse(text, dimension, length, list(systems), 1)
            for name in systems:
                seconds[name].append(found[name][1])
            ratio = found[LOOP][1] / found[OURS][1]
            values[f"seed length {length}, D = {dimension}: plain loop over corpusmill"] = ratio
        charts.append(over_dimensions(f"{corpus}, seed length {length}", seconds, dimensions))
    return Measured(values, charts)


def from_dense_seeds(
    session: Session,
    dimensions: tuple[int, ...] = (256, 1024, 4096),
    systems: tuple[str, ...] = (OURS, LOOP),
    corpus: str = "kjv",
    tokens: int = 120_000,
) -> Measured:
    """Figure 7.2: time of retraining from the vectors of the last pass."""
    text = encode(session, corpus, tokens)
    values = {}
    seconds = {name: [] for name in systems}
    for dimension in dimensions:
        found = one_dense(text, dimension, list(systems), 1)
        for name in systems:
            seconds[name].append(found[name][1])
        values[f"D = {dimension}: plain loop over corpusmill"] = found[LOOP][1] / found[OURS][1]
    return Measured(values, [over_dimensions(corpus, seconds, dimensions)])


@numba.njit(nogil=True, cache=True)
def plain_lengths(rows):
    """Return rows (n, D) float32 scaled to length 1, as one would write it down."""
    out = np.empty_like(rows)
    for i in range(len(rows)):
        square = 0.0
        for k in range(rows.shape[1]):
            square += rows[i, k] * rows[i, k]
        scale = np.float32(1 / np.sqrt(square))
        for k in range(rows.shape[1]):
            out[i, k] = rows[i, k] * scale
    return out


def normalisation(
    session: Session,
    numbers: int = 1 << 24,
    widths: tuple[int, ...] = (128, 500, 2048, 4096, 16_384, 131_072, 1_048_576),
) -> Measured:
    """Figure 7.3: time of scaling vectors to length 1, by their dimension."""
    values = {}
    ratios = []
    rates = {LOOP: [], OURS: []}
    for width in widths:
        rows = np.random.default_rng(0).random((max(1, numbers // width), width), np.float32)
        loop = min(Clock().time(lambda rows=rows: plain_lengths(rows))[1] for _ in range(2))
        ours = min(Clock().time(lambda rows=rows: ri.normalised(rows))[1] for _ in range(2))
        ratios.append(loop / ours)
        values[f"D = {width}: plain loop over corpusmill"] = ratios[-1]
        for name, seconds in ((LOOP, loop), (OURS, ours)):
            rates[name].append(8 * rows.size / seconds / 1e9)
    values["largest ratio"] = max(ratios)
    curves = [Curve(name, widths, found) for name, found in rates.items()]
    speed = Chart("normalisation", "dimension of a vector", "GB read and written per CPU-second", curves, x_log=True)
    return Measured(values, [speed])


def large_text(
    session: Session, dimension: int = 2048, seed_length: int = 10, corpus: str = "wikipedia", tokens: int = 200_000
) -> Measured:
    """Table 7.1: training and retraining on a larger vocabulary."""
    text: Text = encode(session, corpus, tokens)
    systems = [OURS, LOOP]
    sparse = one_sparse(text, dimension, seed_length, systems, 1)
    dense = one_dense(text, dimension, systems, 1)
    millions = len(text.ids) / 1e6
    values = {}
    for name, found in (("training", sparse), ("retraining", dense)):
        values[f"{name}: plain loop over ours"] = found[LOOP][1] / found[OURS][1]
        values[f"{name}: plain loop, CPU-seconds per million tokens"] = found[LOOP][1] / millions
        values[f"{name}: ours, CPU-seconds per million tokens"] = found[OURS][1] / millions
    return Measured(values | {"words": len(text.words)})


def order_and_retraining(
    session: Session,
    orders: tuple[str, ...] = ("none", "permutation"),
    retrain: tuple[int, ...] = (0, 1),
    dimension: int = 1024,
    max_count: int = 3000,
    words: int = 2_500_000,
) -> Measured:
    """Sections 1 and 2: scores of vectors without and with the order of words, before and after retraining."""
    corpus = corpus_from(documents(session, "wikipedia")[: words // 1000 or None], min_df=1 if session.quick else 5)
    values = {}
    for order in orders:
        for passes in retrain:
            model = RandomIndexing(
                dimension, RADIUS, order=order, retrain=passes, max_count=max_count, random_state=session.seed
            )
            wv = model.fit(corpus, evaluate_every=0).wv
            title = f"{'retrained' if passes else 'once'}, order {order}"
            for name, score in pair_scores(session, wv).items():
                values[f"{title}: {name}"] = score
    names = [label.split(":")[0] for label in values if "WordSim" in label]
    curves = []
    for score in PAIRS:
        curves.append(Curve(score, names, [value for label, value in values.items() if label.endswith(score)]))
    return Measured(values, [Chart("Wikipedia", "", "rank correlation", curves, bars=True)])


SMALL = {"dimensions": (64,)}
RUNS = {
    "ri-section-1": Run(order_and_retraining, {"words": 0, "dimension": 64}),
    "ri-figure-7.1": Run(from_sparse_seeds, SMALL | {"seed_lengths": (10,)}),
    "ri-figure-7.2": Run(from_dense_seeds, SMALL),
    "ri-figure-7.3": Run(normalisation, {"numbers": 1 << 12, "widths": (128, 500)}),
    "ri-table-7.1": Run(large_text, {"dimension": 64}),
}
