"""Epochs on one real worker process and on several: how many times as fast are they?

Processes share a machine's caches, memory and power. So even separate trainings slow each other down. The program
therefore also runs several trainings at the same time, on one worker each. How much more they do than one alone is the
limit for several workers of one training.

python -m benchmarks.scale.workers --help
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import click
import scipy.sparse
from corpusmill import LDA, NMF, Corpus, RandomIndexing, Word2Vec, open_cluster
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import DATA, JSON, QUICK, Session, data_file, print_row, write_json
from benchmarks.lda.data import read

#: An estimator for a number of epochs, by name.
MODELS = {
    "esca": lambda epochs: LDA(200, 50 / 200, max_iter=epochs, sampler="esca", device="cpu"),
    "gibbs": lambda epochs: LDA(100, max_iter=epochs, sampler="gibbs", device="cpu"),
    "warp": lambda epochs: LDA(200, 50 / 200, max_iter=epochs, sampler="warp", device="cpu"),
    "nmf": lambda epochs: NMF(50, n_blocks=4, max_iter=epochs, tol=0, device="cpu"),
    "ri": lambda epochs: RandomIndexing(512, retrain=epochs - 1, device="cpu"),
    "word2vec": lambda epochs: Word2Vec(128, epochs=epochs, device="cpu"),
}
#: Models that need the order of the words.
OF_TEXT = {"ri", "word2vec"}


@click.command()
@DATA
@click.option("--model", "models", multiple=True, type=click.Choice(list(MODELS)), default=list(MODELS))
@click.option("--workers", "n_workers", default=2, show_default=True)
@click.option("--tokens", default=16_000_000, show_default=True, help="At most 17 million are used for text.")
@click.option("--copies", default=1, show_default=True, help="How many times counts are repeated, as more documents.")
@click.option("--chunk-tokens", default=1_000_000, show_default=True)
@click.option("--epochs", default=6, show_default=True)
@click.option("--rounds", default=2, show_default=True, help="Times that all is measured, in turn.")
@JSON
@QUICK
def main(
    data: Path,
    models: list[str],
    n_workers: int,
    tokens: int,
    copies: int,
    chunk_tokens: int,
    epochs: int,
    rounds: int,
    target: Path | None,
    quick: bool,
) -> None:
    """Print the seconds of a typical epoch of Wikipedia on one worker and on several, each of one thread."""
    if quick:
        tokens, chunk_tokens, epochs, rounds = 100_000, 50_000, 4, 1
    session = Session(data, quick)
    corpora: dict[bool, Corpus] = {}
    figures: dict[str, dict[str, list[Epoch]]] = {}
    print_row("model", "one worker", f"{n_workers} workers", "times as fast", "limit", "by CPU time", "limit by CPU")
    for name in models:
        of_text = name in OF_TEXT
        if of_text not in corpora:
            documents = read_text(session, tokens) if of_text else read_counts(session, tokens, copies)
            corpora[of_text] = corpus_from(documents, chunk_tokens=chunk_tokens)
        url = corpora[of_text].url
        found: dict[str, list[Epoch]] = {"one": [], "several": [], "at once": []}
        for _ in range(rounds):
            found["one"] += train_at_once(1, name, epochs, url, n_workers=1)
            found["several"] += train_at_once(1, name, epochs, url, n_workers)
            found["at once"] += train_at_once(n_workers, name, epochs, url, n_workers=1)
        one, several, at_once = (Epoch(*map(mean, zip(*measured, strict=True))) for measured in found.values())
        limits = (n_workers * one.wall / at_once.wall, n_workers * one.cpu / at_once.cpu)
        print_row(name, one.wall, several.wall, one.wall / several.wall, limits[0], one.cpu / several.cpu, limits[1])
        figures[name] = found
    if target is not None:
        write_json(target, figures)


def read_counts(session: Session, tokens: int, copies: int) -> scipy.sparse.csr_matrix:
    """Return the counts of Wikipedia, several times one below the other."""
    return scipy.sparse.vstack([read(session, "wikipedia", tokens)] * copies).tocsr()


def read_text(session: Session, tokens: int) -> list[str]:
    """Return Wikipedia as documents of 1000 words."""
    if session.quick:
        words = ["the", "boat", "on", "the", "sea", "and", "bread", "from", "the", "oven"] * (tokens // 10)
    else:
        words = data_file(session.data, "wiki8.txt").read_text().split()[:tokens]
    return [" ".join(words[first : first + 1000]) for first in range(0, len(words), 1000)]


class Epoch(NamedTuple):
    """The seconds of an epoch."""

    wall: float
    #: CPU time of this process, with the scheduler, and of the worker that computed most. An epoch takes this time if
    #: nothing else runs, and if nothing overlaps.
    cpu: float


def train_at_once(n_trainings: int, name: str, epochs: int, url: str, n_workers: int) -> list[Epoch]:
    """Train a model several times at once, each time on workers of its own; return a typical epoch of each training."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_trainings, mp_context=spawned) as pool:
        trainings = [pool.submit(train, name, epochs, url, n_workers) for _ in range(n_trainings)]
        return [training.result() for training in trainings]


def train(name: str, epochs: int, url: str, n_workers: int) -> Epoch:
    """Train; return the medians of all epochs but the first two, which read, compile and measure speeds."""
    times = []

    with open_cluster("local", n_workers=n_workers, threads_per_worker=1) as client:

        def note(event):
            if isinstance(event, EpochFinished):
                times.append((time.perf_counter(), time.process_time(), client.run(time.process_time)))

        model = MODELS[name](epochs)
        model.fit(Corpus(url), client=client, evaluate_every=0, dashboard=False, callbacks=[note])
    found = []
    for before, after in pairwise(times[1:]):
        workers = max(after[2][address] - before[2][address] for address in after[2])
        found.append(Epoch(after[0] - before[0], after[1] - before[1] + workers))
    return Epoch(*map(median, zip(*found, strict=True)))


if __name__ == "__main__":
    main()
