"""Word2Vec against gensim and fastText: speed and quality, with equal epochs, threads and windows.

python -m benchmarks.word2vec --help

The text is cut into sentences of 1000 words. All systems train the same words with the same number of threads, and
take turns seed by seed. Seconds are CPU-seconds of the whole process, input and output included. Each training prints
one line, and a table follows at the end.
"""

import argparse
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from corpusmill import Word2Vec
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.vectors import WordVectors
from corpusmill.pipeline.models.base.word_evaluation import evaluate_analogies, evaluate_pairs

from benchmarks.common import write_json

SENTENCE = 1000
METRICS = ("ws353", "simlex", "analogies")
PEERS = ("gensim", "fasttext")


def parse():
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with wiki8.txt and eval/")
    parser.add_argument("--words", type=int, default=0, help="use only this many words from the start")
    parser.add_argument("--windows", type=int, nargs="+", default=[5, 8])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2, help="of the peers and of strata; the others have one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--chunk-tokens", type=int, default=None)
    systems = ["strata", "par", "full", *filter(find_spec, PEERS)]
    parser.add_argument("--systems", nargs="+", default=systems, help="the default is all that are installed")
    parser.add_argument("--answers", type=int, default=30_000, help="analogies: number of candidate words")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="random text of a few thousand words")
    return parser.parse_args()


def read_text(args):
    """Return the words of the text."""
    if args.quick:
        return [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(20_000)]
    text = (args.data / "wiki8.txt").read_text()
    return text.split(None, args.words)[: args.words] if args.words else text.split()


def train_corpusmill(method, corpus, args, window, seed):
    model = Word2Vec(
        vector_size=args.dimension,
        window=window,
        epochs=args.epochs,
        seed=seed,
        method=method,
        threads=args.threads if method == "strata" else 1,
    )
    return model.fit(corpus, evaluate_every=0).wv


def train_gensim(sentences, args, window, seed):
    """Return when training began, after gensim has built its vocabulary, and the vectors."""
    from gensim.models import Word2Vec as Peer

    peer = Peer(vector_size=args.dimension, window=window, sg=1, negative=5, workers=args.threads, seed=seed)
    peer.build_vocab(sentences)
    started = time.process_time(), time.perf_counter()
    peer.train(sentences, total_examples=peer.corpus_count, epochs=args.epochs)
    return started, WordVectors(peer.wv.index_to_key, peer.wv.vectors)


def train_fasttext(path, args, window, seed):
    import fasttext

    del seed  # fastText's Python module has none to set
    peer = fasttext.train_unsupervised(
        path, model="skipgram", dim=args.dimension, ws=window, epoch=args.epochs, neg=5, maxn=0, lr=0.025, t=1e-3,
        thread=args.threads, minCount=5, verbose=0,
    )  # fmt: skip
    return WordVectors(peer.words, [peer.get_word_vector(word) for word in peer.words])


def quality(wv, args):
    """Return rank correlations with human judgements, and the accuracy of analogies."""
    if args.quick:
        return dict.fromkeys(METRICS, float("nan"))
    folder = args.data / "eval"
    return {
        "ws353": evaluate_pairs(wv, str(folder / "wordsim353.tsv")).spearman,
        "simlex": evaluate_pairs(wv, str(folder / "simlex999.txt")).spearman,
        "analogies": evaluate_analogies(wv, str(folder / "questions-words.txt"), args.answers).total.accuracy,
    }


def measure(system, inputs, args, window, seed):
    """Train once; return words per CPU-second, words per second, and the quality of the vectors."""
    corpus, sentences, path = inputs
    started = (time.process_time(), time.perf_counter())
    if system == "gensim":
        started, wv = train_gensim(sentences, args, window, seed)
    elif system == "fasttext":
        wv = train_fasttext(path, args, window, seed)
    else:
        wv = train_corpusmill(system, corpus, args, window, seed)
    cpu = time.process_time() - started[0]
    wall = time.perf_counter() - started[1]
    words = corpus.n_tokens * args.epochs
    return {"words_per_cpu_second": words / cpu, "words_per_second": words / wall} | quality(wv, args)


def rows_of(args):
    """Yield the window and the system of each row of the table."""
    for window in args.windows:
        for system in args.systems:
            yield window, system


def warm_up(sentences):
    """Compile the kernels, so that no measurement includes it."""
    corpus = corpus_from(sentences[:2])
    for method in ("strata", "par", "full", "sgns"):
        Word2Vec(vector_size=16, min_count=1, epochs=1, method=method).fit(corpus)


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


def main():
    """Train every system with every seed, and print the table."""
    args = parse()
    if args.quick:
        args.epochs, args.seeds, args.dimension = 1, [1], 16
    words = read_text(args)
    sentences = [words[i : i + SENTENCE] for i in range(0, len(words), SENTENCE)]
    corpus = corpus_from(sentences, chunk_tokens=args.chunk_tokens)
    runs = {row: [] for row in rows_of(args)}
    warm_up(sentences)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/text"
        Path(path).write_text("\n".join(" ".join(s) for s in sentences) + "\n")
        for seed in args.seeds:
            for (window, system), found in runs.items():
                found.append(measure(system, (corpus, sentences, path), args, window, seed))
                shown = " ".join(f"{name} {value:.4g}" for name, value in found[-1].items())
                print(f"seed {seed} window {window} {system}: {shown}", flush=True)
    print(f"{len(words):,} words, {args.epochs} epochs, {args.threads} threads, d = {args.dimension}")
    print_table(runs)
    if args.json:
        table = [dict(zip(("window", "system"), row, strict=True)) | {"runs": r} for row, r in runs.items()]
        write_json(args.json, table)


if __name__ == "__main__":
    main()
