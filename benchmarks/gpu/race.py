"""Models on a CUDA device and on the CPU in a race: quality over seconds of training, through the engine.

The same data, parameters and seeds on both. The chunks are those of the product, and the seconds include reading,
copies and commits, but no evaluation. Kernels that have not been compiled yet are compiled in the first epoch, so run
the command once with --quick before.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from corpusmill import LDA, NMF, Word2Vec

from benchmarks.common import DATA, Session, print_row
from benchmarks.lda.data import FILES, load_counts, zipf_counts
from benchmarks.word2vec import quality

METHODS = ("strata", "full", "par")


class Point(NamedTuple):
    """A model after some seconds of training."""

    seconds: float
    epoch: int
    scores: dict[str, float]


@click.command()
@DATA
@click.option("--model", "models", multiple=True, type=click.Choice(["lda", "nmf", "word2vec"]), help="Default: all.")
@click.option("--device", "devices", multiple=True, default=["cuda", "cpu"], help="Where to train.")
@click.option("--topics", default=1024, help="Topics of LDA.")
@click.option("--components", default=256, help="Components of NMF.")
@click.option("--epochs", default=30, help="Epochs of LDA and NMF. Word2Vec has trainings of 1, 2 and 4 epochs.")
@click.pass_obj
def race(session, data, models=(), devices=("cuda", "cpu"), topics=1024, components=256, epochs=30):
    """Held-out likelihood, relative error and word scores over time, on the device and on the CPU."""
    session.data = data
    if session.quick:
        topics, components, epochs = 4, 3, 2
    runs = {
        "lda": lambda device: race_of_lda(session, device, topics, epochs),
        "nmf": lambda device: race_of_nmf(session, device, components, epochs),
        "word2vec": lambda device: race_of_word2vec(session, device),
    }
    print_row("model", "device", "seconds", "epoch", "scores")
    for model, device in itertools.product(models or runs, devices):
        for name, points in runs[model](device):
            session.figures[f"race {name} {device}"] = [point._asdict() for point in points]
            for point in points:
                scores = ", ".join(f"{key} {value:.4g}" for key, value in point.scores.items())
                print_row(name, device, point.seconds, point.epoch, scores)


def race_of_lda(session: Session, device: str, topics: int, epochs: int) -> Iterator[tuple[str, list[Point]]]:
    """Yield the likelihood of held-out documents after each epoch."""
    texts, _ = texts_of(session)
    model = LDA(topics, 50 / topics, max_iter=epochs, random_state=1, device=device)
    held_out = [" ".join(sentence) for sentence in texts.held_out]
    model.fit(texts.corpus, held_out=held_out, evaluate_every=1)
    yield f"lda, K = {topics}", points_of(model.history_, "held_out_log_likelihood")


def race_of_nmf(session: Session, device: str, components: int, epochs: int) -> Iterator[tuple[str, list[Point]]]:
    """Yield the relative error after each epoch."""
    model = NMF(n_components=components, max_iter=epochs, tol=0, random_state=1, device=device)
    model.fit(counts_of(session).astype("float32"), evaluate_every=1)
    yield f"nmf, K = {components}", points_of(model.history_, "relative_error")


def race_of_word2vec(session: Session, device: str) -> Iterator[tuple[str, list[Point]]]:
    """Yield the scores of trainings of 1, 2 and 4 epochs, for each method."""
    texts, folder = texts_of(session)
    pairs = quality.held_out_pairs(texts)
    for method in METHODS:
        points = []
        for epochs in (1,) if session.quick else (1, 2, 4):
            model = word2vec_of(session, method, device, epochs)
            model.fit(texts.corpus, evaluate_every=0)
            seconds = sum(step["seconds"] for step in model.history_)
            points.append(Point(seconds, epochs, scores_of(model, pairs, folder)))
        yield f"word2vec {method}", points


# --- data and scores ---


def counts_of(session: Session):
    """Return the counts of words of Wikipedia's documents, or a few random ones."""
    if session.quick:
        return zipf_counts(20, 120, length=6)
    return load_counts(str(session.data / FILES["wikipedia"]))


def points_of(history: list[dict[str, float]], name: str) -> list[Point]:
    """Return a metric after each epoch of a history, and the seconds of training until then."""
    seconds = itertools.accumulate(step["seconds"] for step in history)
    return [
        Point(until, int(step["epoch"]), {name: step[name]})
        for until, step in zip(seconds, history, strict=True)
        if name in step
    ]


def texts_of(session: Session) -> tuple[quality.Texts, Path | None]:
    """Return wiki8 and the folder of the corpora, or some sentences of random words, which have no judgments."""
    if not session.quick:
        return quality.read_texts(session.data, False, "wiki8", 1000, None), session.data
    words = [f"w{i * i * 7919 % 211 % (1 + i % 7)}" for i in range(120)]
    sentences = [words[i : i + 6] for i in range(0, len(words), 6)]
    return quality.Texts(sentences[:5], sentences[5:], quality.corpus_from(sentences[:5], min_df=1)), None


def word2vec_of(session: Session, method: str, device: str, epochs: int) -> Word2Vec:
    """Return a model with the parameters of ``benchmarks.word2vec.quality``, at the rate that suits few epochs."""
    return Word2Vec(
        vector_size=8 if session.quick else quality.DIMENSION,
        window=2 if session.quick else 5,
        epochs=epochs,
        alpha=0.05,
        seed=1,
        negative=2 if session.quick else quality.NEGATIVE,
        sample=0 if session.quick else quality.SAMPLE,
        min_count=1 if session.quick else quality.MIN_COUNT,
        method=method,
        device=device,
        n_blocks=1 if session.quick else None,
    )


def scores_of(model: Word2Vec, pairs: quality.Pairs, folder: Path | None) -> dict[str, float]:
    """Return the scores of a model's vectors."""
    W_in, W_out = (model.model_.joined(name)[:, : model.vector_size] for name in ("W_in", "W_out"))
    return quality.scores(quality.Trained(model.words_, W_in, W_out, 0.0), pairs, folder)
