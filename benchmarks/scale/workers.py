"""Epochs on one real worker process and on several: how many times as fast are they?

python -m benchmarks.scale.workers --help
"""

import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
from corpusmill import LDA, NMF, Corpus, RandomIndexing, Word2Vec, open_cluster
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import DATA, JSON, QUICK, Session, data_file, print_row, write_json
from benchmarks.lda.data import read

#: An estimator for a number of epochs, by name.
MODELS = {
    "esca": lambda epochs: LDA(200, 50 / 200, max_iter=epochs, sampler="esca", device="cpu"),
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
@click.option("--tokens", default=16_000_000, show_default=True)
@click.option("--chunk-tokens", default=1_000_000, show_default=True)
@click.option("--epochs", default=6, show_default=True)
@click.option("--rounds", default=2, show_default=True, help="Times that both clusters are measured, in turn.")
@JSON
@QUICK
def main(
    data: Path,
    models: list[str],
    n_workers: int,
    tokens: int,
    chunk_tokens: int,
    epochs: int,
    rounds: int,
    target: Path | None,
    quick: bool,
) -> None:
    """Print the median seconds of an epoch of Wikipedia on one worker and on several, each of one thread."""
    if quick:
        tokens, chunk_tokens, epochs, rounds = 100_000, 50_000, 4, 1
    kinds = {name in OF_TEXT for name in models}
    corpora = {of_text: wikipedia(of_text, Session(data, quick), tokens, chunk_tokens) for of_text in kinds}
    figures = {}
    print_row("model", "one worker", f"{n_workers} workers", "times as fast", "by CPU time")
    with (
        open_cluster("local", n_workers=1, threads_per_worker=1) as single,
        open_cluster("local", n_workers=n_workers, threads_per_worker=1) as cluster,
    ):
        for name in models:
            corpus = corpora[name in OF_TEXT]
            found: dict[int, list[Epoch]] = {1: [], n_workers: []}
            for _ in range(rounds):
                found[1] += measure_epochs(MODELS[name](epochs), corpus, single)
                found[n_workers] += measure_epochs(MODELS[name](epochs), corpus, cluster)
            one, several = (Epoch(*map(median, zip(*measured, strict=True))) for measured in found.values())
            print_row(name, one.wall, several.wall, one.wall / several.wall, one.cpu / several.cpu)
            figures[name] = found
    if target is not None:
        write_json(target, figures)


def wikipedia(of_text: bool, session: Session, tokens: int, chunk_tokens: int) -> Corpus:
    """Return Wikipedia in the order of its words, or its counts."""
    if not of_text:
        return corpus_from(read(session, "wikipedia", tokens), chunk_tokens=chunk_tokens)
    if session.quick:
        words = ["the", "boat", "on", "the", "sea", "and", "bread", "from", "the", "oven"] * (tokens // 10)
    else:
        words = data_file(session.data, "wiki8.txt").read_text().split()[:tokens]
    documents = [" ".join(words[first : first + 1000]) for first in range(0, len(words), 1000)]
    return corpus_from(documents, chunk_tokens=chunk_tokens)


class Epoch(NamedTuple):
    """The seconds of an epoch."""

    wall: float
    #: CPU time of this process, with the scheduler, and of the worker that computed most. An epoch takes this time if
    #: nothing else runs, and if nothing overlaps.
    cpu: float


def measure_epochs(model, corpus, client) -> list[Epoch]:
    """Train; return the seconds of all epochs but the first two, which read, compile and measure speeds."""
    times = []

    def note(event):
        if isinstance(event, EpochFinished):
            times.append((time.perf_counter(), time.process_time(), client.run(time.process_time)))

    model.fit(corpus, client=client, evaluate_every=0, dashboard=False, callbacks=[note])
    epochs = []
    for before, after in pairwise(times[1:]):
        workers = max(after[2][address] - before[2][address] for address in after[2])
        epochs.append(Epoch(after[0] - before[0], after[1] - before[1] + workers))
    return epochs


if __name__ == "__main__":
    main()
