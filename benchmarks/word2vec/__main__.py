"""Word2Vec against gensim and fastText: speed and quality, with equal epochs, threads and windows.

python -m benchmarks.word2vec --help

The text is cut into sentences of 1000 words. All systems train the same words with the same number of threads, and
take turns seed by seed. Seconds are CPU-seconds of the whole process, input and output included. Each training prints
one line, and a table follows at the end.
"""

import itertools
import statistics
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.vectors.vectors import WordVectors

from benchmarks.common import DATA, JSON, QUICK, data_file, write_json
from benchmarks.papers.algorithms.word2vec import PaperWord2Vec

SENTENCE = 1000
METRICS = ("ws353", "simlex", "analogies")
PEERS = ("gensim", "fasttext")
SYSTEMS = ("strata", "par", "full", *filter(find_spec, PEERS))


@dataclass(frozen=True)
class Comparison:
    """What is trained, and how."""

    data: Path
    quick: bool
    words: int | None
    epochs: int
    dimension: int
    threads: int
    answers: int


def read_text(comparison):
    """Return the words of the text."""
    if comparison.quick:
        return [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(20_000)]
    text = data_file(comparison.data, "wiki8.txt").read_text()
    return text.split(None, comparison.words or -1)[: comparison.words]


def train_corpusmill(method, corpus, comparison, window, seed):
    model = PaperWord2Vec(
        vector_size=comparison.dimension,
        window=window,
        epochs=comparison.epochs,
        seed=seed,
        method=method,
        threads=comparison.threads if method == "strata" else 1,
    )
    return model.fit(corpus, evaluate_every=0).wv


def train_gensim(sentences, comparison, window, seed):
    """Return when training began, after gensim has built its vocabulary, and the vectors."""
    from gensim.models import Word2Vec as Peer

    peer = Peer(
        vector_size=comparison.dimension, window=window, sg=1, negative=5, workers=comparison.threads, seed=seed
    )
    peer.build_vocab(sentences)
    started = time.process_time(), time.perf_counter()
    peer.train(sentences, total_examples=peer.corpus_count, epochs=comparison.epochs)
    return started, WordVectors(peer.wv.index_to_key, peer.wv.vectors)


def train_fasttext(path, comparison, window, seed):
    import fasttext

    del seed  # fastText's Python module has none to set
    peer = fasttext.train_unsupervised(
        path, model="skipgram", dim=comparison.dimension, ws=window, epoch=comparison.epochs, neg=5, maxn=0, lr=0.025,
        t=1e-3, thread=comparison.threads, minCount=5, verbose=0,
    )  # fmt: skip
    return WordVectors(peer.words, [peer.get_word_vector(word) for word in peer.words])


def quality(wv, comparison):
    """Return rank correlations with human judgements, and the accuracy of analogies."""
    if comparison.quick:
        return dict.fromkeys(METRICS, float("nan"))
    pairs = {"ws353": "wordsim353.tsv", "simlex": "simlex999.txt"}
    paths = {name: str(data_file(comparison.data, f"eval/{file}")) for name, file in pairs.items()}
    questions = str(data_file(comparison.data, "eval/questions-words.txt"))
    found = {name: wv.evaluate_word_pairs(path)[1].statistic for name, path in paths.items()}
    return found | {"analogies": wv.evaluate_word_analogies(questions, comparison.answers)[0]}


def measure(system, inputs, comparison, window, seed):
    """Train once; return words per CPU-second, words per second, and the quality of the vectors."""
    corpus, sentences, path = inputs
    started = (time.process_time(), time.perf_counter())
    if system == "gensim":
        started, wv = train_gensim(sentences, comparison, window, seed)
    elif system == "fasttext":
        wv = train_fasttext(path, comparison, window, seed)
    else:
        wv = train_corpusmill(system, corpus, comparison, window, seed)
    cpu = time.process_time() - started[0]
    wall = time.perf_counter() - started[1]
    words = corpus.n_tokens * comparison.epochs
    return {"words_per_cpu_second": words / cpu, "words_per_second": words / wall} | quality(wv, comparison)


def warm_up(sentences):
    """Compile the kernels, so that no measurement includes it."""
    corpus = corpus_from(sentences[:2])
    for method in ("strata", "par", "full", "sgns"):
        PaperWord2Vec(vector_size=16, min_count=1, epochs=1, method=method).fit(corpus)


def score(found, peers, name):
    """Return mean and standard deviation over seeds, and the distance from gensim's mean in its deviations."""
    ours = [run[name] for run in found]
    theirs = [run[name] for run in peers]
    shown = f"{np.mean(ours):.3f}±{np.std(ours, ddof=min(1, len(ours) - 1)):.3f}"
    if len(theirs) > 1 and peers is not found:
        shown += f" ({(np.mean(ours) - np.mean(theirs)) / np.std(theirs, ddof=1):+.1f})"
    return f"{shown:18}"


def print_table(runs):
    """Print one row per window and system: medians of speed, means of quality."""
    print("window    system  M words/CPU-s  to gensim  M words/s  " + "".join(f"{m:20}" for m in METRICS))
    for (window, system), found in runs.items():
        speed = statistics.median(run["words_per_cpu_second"] for run in found)
        wall = statistics.median(run["words_per_second"] for run in found)
        peers = runs.get((window, "gensim"), [])
        ratio = float("nan")
        if peers:
            ratio = speed / statistics.median(run["words_per_cpu_second"] for run in peers)
        scores = "  ".join(score(found, peers, name) for name in METRICS)
        names = f"{window:6} {system:>9}"
        print(f"{names} {speed / 1e6:14.2f} {ratio:10.1f} {wall / 1e6:10.2f}  {scores}")


@click.command(help=__doc__.split("\n")[0])
@DATA
@JSON
@QUICK
@click.option("--words", type=int, help="Only this number of words from the start of wiki8.")
@click.option("--window", "windows", multiple=True, default=[5, 8])
@click.option("--epochs", default=5)
@click.option("--dimension", default=128)
@click.option("--threads", default=2, help="Of the peers and of strata. The others have one.")
@click.option("--seed", "seeds", multiple=True, default=[1, 2, 3, 4, 5])
@click.option("--chunk-tokens", type=int)
@click.option("--system", "systems", multiple=True, default=SYSTEMS, help="The default is all that are installed.")
@click.option("--answers", default=30_000, help="Candidate words of an analogy.")
def main(data, target, quick, words, windows, epochs, dimension, threads, seeds, chunk_tokens, systems, answers):
    if quick:
        epochs, seeds, dimension = 1, [1], 16
    comparison = Comparison(data, quick, words, epochs, dimension, threads, answers)
    text = read_text(comparison)
    sentences = [text[i : i + SENTENCE] for i in range(0, len(text), SENTENCE)]
    corpus = corpus_from(sentences, chunk_tokens=chunk_tokens)
    runs = {row: [] for row in itertools.product(windows, systems)}
    warm_up(sentences)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/text"
        Path(path).write_text("\n".join(" ".join(s) for s in sentences) + "\n")
        for seed in seeds:
            for (window, system), found in runs.items():
                found.append(measure(system, (corpus, sentences, path), comparison, window, seed))
                shown = " ".join(f"{name} {value:.4g}" for name, value in found[-1].items())
                print(f"seed {seed} window {window} {system}: {shown}", flush=True)
    print(f"{len(text):,} words, {epochs} epochs, {threads} threads, d = {dimension}")
    print_table(runs)
    if target:
        table = [dict(zip(("window", "system"), row, strict=True)) | {"runs": r} for row, r in runs.items()]
        write_json(target, table)


if __name__ == "__main__":
    main()
