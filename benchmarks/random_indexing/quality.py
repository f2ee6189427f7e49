"""Whole epochs of random indexing, and the quality of its vectors."""

from pathlib import Path

import click
import numpy as np
import scipy.stats
from corpusmill import RandomIndexing
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import data_file, print_row
from benchmarks.random_indexing.systems import RADIUS
from benchmarks.random_indexing.texts import documents


@click.command()
@click.option("--corpus", "name", default="wikipedia")
@click.option("--dimension", default=2048)
@click.option("--retrain", default=1)
@click.pass_obj
def epoch(session, name, dimension, retrain):
    """Whole epochs through the engine in this process: reading, kernels, merging and writing."""
    corpus = corpus_from(documents(session, name), min_df=1 if session.quick else 5)
    model = RandomIndexing(dimension, retrain=retrain).fit(corpus, evaluate_every=0)
    print_row("epoch", "M tokens/s", "seconds", "kernel", "read", "merge, write")
    for line in model.history_:
        seconds = [line[k] for k in ("seconds", "seconds_kernel", "seconds_read", "seconds_merge")]
        print_row(str(line["epoch"]), line["tokens_per_second"] / 1e6, *seconds)
    session.figures[f"epoch {name} {dimension}"] = model.history_


@click.command()
@click.option("--dimension", default=2048)
@click.option("--order", "orders", multiple=True, default=["permutation", "direction", "none"])
@click.option("--window", default=RADIUS)
@click.option("--max-count", type=int, default=20_000, help="Ignore words that are more frequent.")
@click.option("--retrain", default=1)
@click.pass_obj
def quality(session, dimension, orders, window, max_count, retrain):
    """Rank correlation with WordSim-353 and SimLex-999, and synonyms out of four words, on Wikipedia."""
    corpus = corpus_from(documents(session, "wikipedia"), min_df=1 if session.quick else 5)
    print_row("order", "retraining", "WordSim-353", "SimLex-999", "synonyms of 4")
    for order in orders:
        for passes in range(retrain + 1):
            model = RandomIndexing(dimension, window, order=order, retrain=passes, max_count=max_count)
            wv = model.fit(corpus, evaluate_every=0).wv
            found = evaluate(session.data, wv)
            print_row(order, str(passes), *found.values())
            for word in ("king", "three", "paris"):
                if word in wv:
                    print(f"    {word}: {' '.join(w for w, _ in wv.most_similar(word, topn=6))}")
            session.figures[f"quality {order} {passes}"] = found


def evaluate(folder: Path, wv) -> dict[str, float]:
    """Return rank correlations with human judgements, and the accuracy of choosing a synonym out of four words."""
    scores = {}
    pairs = {}
    for name, file in (("wordsim", "eval/wordsim353.tsv"), ("simlex", "eval/simlex999.txt")):
        pairs[name] = []
        for line in data_file(folder, file).read_text().splitlines():
            if line[0] != "#":
                first, second, score = line.split("\t")
                if first in wv and second in wv:
                    pairs[name].append((first, second, float(score)))
        found = [wv.similarity(first, second) for first, second, _ in pairs[name]]
        scores[name] = scipy.stats.spearmanr(found, [score for *_, score in pairs[name]])[0]
    return scores | {"synonyms": synonyms(pairs["simlex"], wv)}


def synonyms(pairs, wv) -> float:
    """Return how often the synonym of a word is found among four words, as in the TOEFL.

    Synonyms are the pairs with a score of 8 or more out of 10. The three other words are drawn at random.
    """
    rng = np.random.default_rng(0)
    others = sorted({word for first, second, _ in pairs for word in (first, second)})
    right = []
    for word, synonym, score in pairs:
        if score >= 8:
            candidates = [synonym, *rng.choice(others, 3)]
            # A word is not its own synonym.
            similarities = [-2 if c == word else wv.similarity(word, c) for c in candidates]
            right.append(candidates[int(np.argmax(similarities))] == synonym)
    return float(np.mean(right)) if right else float("nan")
