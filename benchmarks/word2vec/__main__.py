"""Word2Vec beside gensim and fastText: words a second and what the vectors know, at equal epochs, threads and windows.

Text is cut into sentences of 1000 words. Seconds are CPU seconds of the whole process, input and output included, so
that ratios hold on a busy machine; every system is asked to train the same words, and to use as many threads. Systems
take turns, a seed after the other, and each training prints a line; the table comes at the end.
"""

import argparse
import json
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.vectors import WordVectors
from corpusmill.pipeline.models.base.word_evaluation import evaluate_analogies, evaluate_pairs
from corpusmill.pipeline.models.word2vec.estimator import Word2Vec

SENTENCE = 1000
METRICS = ("ws353", "simlex", "analogies")
PEERS = ("gensim", "fasttext")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with wiki8.txt and eval/")
    parser.add_argument("--words", type=int, default=0, help="use only the first so many words")
    parser.add_argument("--windows", type=int, nargs="+", default=[5, 8])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--shards-per-round", type=int, nargs="+", default=[1], help="several: one row each")
    parser.add_argument("--chunk-tokens", type=int, default=None)
    systems = ["par", "full", *filter(find_spec, PEERS)]
    parser.add_argument("--systems", nargs="+", default=systems, help="by default those that are installed")
    parser.add_argument("--answers", type=int, default=30_000, help="most frequent words that answer analogies")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="made-up text of a few thousand words")
    return parser.parse_args()


def read_text(args):
    if args.quick:
        return [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(20_000)]
    text = (args.data / "wiki8.txt").read_text()
    return text.split(None, args.words)[: args.words] if args.words else text.split()


def train_corpusmill(method, corpus, args, window, seed, together):
    model = Word2Vec(
        vector_size=args.dimension,
        window=window,
        epochs=args.epochs,
        seed=seed,
        method=method,
        threads=args.threads,
        shards_per_round=together,
    )
    return model.fit(corpus, evaluate_every=0).wv


def train_gensim(sentences, args, window, seed):
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
    if args.quick:
        return dict.fromkeys(METRICS, float("nan"))
    folder = args.data / "eval"
    return {
        "ws353": evaluate_pairs(wv, str(folder / "wordsim353.tsv")).spearman,
        "simlex": evaluate_pairs(wv, str(folder / "simlex999.txt")).spearman,
        "analogies": evaluate_analogies(wv, str(folder / "questions-words.txt"), args.answers).total.accuracy,
    }


def measure(system, inputs, args, window, seed, together):
    """Return words a CPU second, words a second, and the quality of one training."""
    corpus, sentences, path = inputs
    started = time.process_time(), time.perf_counter()
    if system == "gensim":
        started, wv = train_gensim(sentences, args, window, seed)
    elif system == "fasttext":
        wv = train_fasttext(path, args, window, seed)
    else:
        wv = train_corpusmill(system, corpus, args, window, seed, together)
    cpu, wall = time.process_time() - started[0], time.perf_counter() - started[1]
    words = corpus.n_tokens * args.epochs
    return {"words_per_cpu_second": words / cpu, "words_per_second": words / wall} | quality(wv, args)


def rows_of(args):
    for window in args.windows:
        for system in args.systems:
            for together in args.shards_per_round if system not in PEERS else [0]:
                yield window, system, together


def warm_up(sentences):
    """Compile the kernels before any clock runs."""
    corpus = corpus_from(sentences[:2])
    for method in ("par", "full", "sgns"):
        Word2Vec(vector_size=16, min_count=1, epochs=1, method=method).fit(corpus)


def score(found, peers, name):
    """Return mean and deviation over seeds, and how many of gensim's deviations lie between its mean and this one."""
    ours, theirs = ([f[name] for f in runs] for runs in (found, peers))
    shown = f"{np.mean(ours):.3f}±{np.std(ours, ddof=min(1, len(ours) - 1)):.3f}"
    if len(theirs) > 1 and peers is not found:
        shown += f" ({(np.mean(ours) - np.mean(theirs)) / np.std(theirs, ddof=1):+.1f})"
    return f"{shown:18}"


def print_table(runs):
    """Print a row for each window, system and number of shards: medians of speed, scores by ``score``."""
    print("window    system shards  M words/CPU-s  to gensim  M words/s  " + "".join(f"{m:20}" for m in METRICS))
    for (window, system, together), found in runs.items():
        speed, wall = (
            statistics.median(f[name] for f in found) for name in ("words_per_cpu_second", "words_per_second")
        )
        peers = runs.get((window, "gensim", 0), [])
        ratio = speed / statistics.median(f["words_per_cpu_second"] for f in peers) if peers else float("nan")
        scores = "  ".join(score(found, peers, name) for name in METRICS)
        print(f"{window:6} {system:>9} {together:6} {speed / 1e6:14.2f} {ratio:10.1f} {wall / 1e6:10.2f}  {scores}")


def main():
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
            for (window, system, together), found in runs.items():
                found.append(measure(system, (corpus, sentences, path), args, window, seed, together))
                shown = " ".join(f"{name} {value:.4g}" for name, value in found[-1].items())
                print(f"seed {seed} window {window} {system} {together}: {shown}", flush=True)
    print(f"{len(words):,} words, {args.epochs} epochs, {args.threads} threads, d = {args.dimension}")
    print_table(runs)
    if args.json:
        table = [dict(zip(("window", "system", "shards"), row, strict=True)) | {"runs": r} for row, r in runs.items()]
        args.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
