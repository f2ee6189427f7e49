"""How fast LDA trains and applies: by system, by number of topics, and folding in against training."""

import time
from statistics import median

import click
import numpy as np
from corpusmill import LDA
from corpusmill.pipeline.engine.events import EpochFinished, Event
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import Clock, print_row
from benchmarks.lda.data import read
from benchmarks.lda.systems import THREADS, VARIATIONAL, Corpusmill

#: Tokens times topics of a pass of the variational systems, so that it takes seconds.
VARIATIONAL_WORK = 40_000_000


@click.command()
@click.option("--corpus", "names", multiple=True, default=["nips", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[100, 1000, 5000])
@click.option("--tokens", default=5_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--passes", default=30)
@click.pass_obj
def speed(run, names, topics, tokens, passes):
    """Tokens per second and per CPU-second by pass; the systems take turns."""
    passes = 2 if run.session.quick else passes
    print_row("corpus", "topics", "system", "M tokens/s", "per CPU-s", "first / this", "first passes")
    for name in names:
        for n_topics in topics:
            rates = rates_of(run.systems, read(run.session, name, tokens), n_topics, passes)
            run.session.figures[f"speed {name} {n_topics}"] = rates
            ours = median(cpu for _, cpu in next(iter(rates.values()))[-5:])
            for system, found in rates.items():
                wall = median(wall for wall, _ in found[-5:])
                late = median(cpu for _, cpu in found[-5:])
                early = median(cpu for _, cpu in found[:3])
                print_row(name, str(n_topics), system, wall / 1e6, late / 1e6, ours / late, early / 1e6)


def rates_of(makers, matrix, n_topics: int, passes: int) -> dict[str, list[tuple[float, float]]]:
    """Return the (tokens per second, tokens per CPU-second) of every pass of each system."""
    order = np.random.default_rng(1).permutation(matrix.shape[0])
    ends = np.cumsum(matrix.sum(axis=1).A1[order])
    few = matrix[np.sort(order[: max(20, np.searchsorted(ends, VARIATIONAL_WORK // n_topics))])]
    inputs = {name: few if name in VARIATIONAL else matrix for name in makers}
    systems = {name: make(inputs[name], n_topics, THREADS) for name, make in makers.items()}
    rates = {name: [] for name in makers}
    for number in range(passes):
        for name, system in systems.items():
            if number < 3 or name not in VARIATIONAL:
                wall, cpu = Clock().time(system.run)
                tokens = int(inputs[name].sum())
                rates[name].append((tokens / wall, tokens / cpu))
    return rates


@click.command()
@click.option("--tokens", default=5_000_000)
@click.option("--passes", default=40)
@click.pass_obj
def topics(run, tokens, passes):
    """Tokens per CPU-second at 10,000 topics against 1,000, on Wikipedia."""
    passes = 2 if run.session.quick else passes
    matrix = read(run.session, "wikipedia", tokens)
    systems = {n_topics: Corpusmill(matrix, n_topics, THREADS) for n_topics in (1000, 10_000)}
    rates = {n_topics: [] for n_topics in systems}
    print_row("pass", "K = 1000", "K = 10000", "ratio")
    for number in range(passes):
        for n_topics, system in systems.items():
            rates[n_topics].append(int(matrix.sum()) / Clock().time(system.run)[1])
        if number % 10 == 9 or number == passes - 1:
            few, many = (median(found[-5:]) for found in rates.values())
            print_row(str(number + 1), few / 1e6, many / 1e6, many / few)
    run.session.figures["topics"] = rates


@click.command()
@click.option("--corpus", "names", multiple=True, default=["nips", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[100, 1000])
@click.option("--tokens", default=2_000_000, help="Maximum number of tokens of a corpus.")
@click.option("--passes", default=30)
@click.pass_obj
def transform(run, names, topics, tokens, passes):
    """M tokens per CPU-second of whole calls of transform, against whole epochs of training."""
    print_row("corpus", "topics", "training", "transform", "of training")
    for name in names:
        corpus = corpus_from(read(run.session, name, tokens))
        for n_topics in topics:
            model = LDA(n_topics, 50 / n_topics, max_iter=2 if run.session.quick else passes)
            training = corpus.n_tokens / median(seconds_of_epochs(model, corpus)[-5:])
            folding = corpus.n_tokens / median(seconds_of_transform(model, corpus))
            run.session.figures[f"transform {name} {n_topics}"] = {"training": training, "transform": folding}
            print_row(name, str(n_topics), training / 1e6, folding / 1e6, folding / training)


def seconds_of_epochs(model, corpus) -> list[float]:
    """Fit the model and return the CPU-seconds of each epoch but the first, which may compile."""
    times = []

    def record(event: Event) -> None:
        if isinstance(event, EpochFinished):
            times.append(time.process_time())

    model.fit(corpus, evaluate_every=0, callbacks=[record])
    return np.diff(times).tolist()


def seconds_of_transform(model, corpus) -> list[float]:
    """Return the CPU-seconds of three calls, after one that may compile."""
    model.transform(corpus)
    return [Clock().time(lambda: model.transform(corpus))[1] for _ in range(3)]
