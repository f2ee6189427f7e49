"""Skip-gram in strata of cells against training in the order of the text: CPU, quality, and short documents.

python -m benchmarks.word2vec.strata --help

It calls the kernels without the engine, in one process. A system is "par", "sgns" or "full", trained in the order of
the text; a number P, which stands for strata of P blocks; or "gensim". ``quality`` trains wiki8 in sentences of 1000
words and scores the vectors. ``speed`` trains parts of it with all systems in turn, again and again. ``verses`` trains
the King James Bible verse by verse and prints the loss of held-out verses.
"""

import itertools
import re
import statistics
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram
from corpusmill.kernels.word2vec.pairs import split_pairs
from corpusmill.pipeline.models.base.vectors import WordVectors
from corpusmill.pipeline.models.base.word_evaluation import evaluate_analogies, evaluate_pairs

from benchmarks.common import DATA, JSON, QUICK, open_session
from benchmarks.word2vec.schedules import Parameters, Sentences, Strata, Trained, train_in_order

SENTENCE = 1000
UNKNOWN = 2**32 - 1
PAIR_FILES = {
    "ws353": "wordsim353.tsv",
    "simlex": "simlex999.txt",
    "simverb": "SimVerb-3500.tsv",
    "mturk": "MTurk-771.tsv",
}
SYSTEMS = click.option("--system", "systems", multiple=True, default=["par", "sgns", "8", "16", "32"])
RATES = click.option("--alpha", "rates", type=float, multiple=True, default=[0.025, 0.05, 0.1])
SEEDS = click.option("--seed", "seeds", type=int, multiple=True, default=[1])
EPOCHS = click.option("--epochs", default=1)
ROUNDS = click.option("--rounds", default=16, help="Rounds of strata over all epochs.")
THREADS = click.option("--threads", default=1, help="Threads that train the cells of a stratum.")


@click.group(help=__doc__.split("\n")[0])
@DATA
@JSON
@QUICK
@click.pass_context
def main(context, data, target, quick):
    open_session(context, data, quick, target)


def count_words(documents, min_count=5):
    """Return the text of documents, which are lists of words; rare words become tokens outside the vocabulary."""
    counts = Counter(word for document in documents for word in document)
    kept = [(-count, word) for word, count in counts.items() if count >= min_count]
    vocabulary = [word for _, word in sorted(kept)]
    rank = {word: r for r, word in enumerate(vocabulary)}
    ptr, tokens = encode(documents, rank)
    return Sentences(vocabulary, np.array([counts[word] for word in vocabulary]), ptr, tokens), rank


def encode(documents, rank):
    """Return the bounds and the tokens of documents."""
    tokens = np.array([rank.get(word, UNKNOWN) for document in documents for word in document], np.uint32)
    return np.r_[0, np.cumsum([len(document) for document in documents])].astype(np.int64), tokens


def read_wiki8(session):
    """Return the text of wiki8 in sentences of SENTENCE words."""
    if session.quick:
        words = [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(20_000)]
    else:
        words = (session.data / "wiki8.txt").read_text().split()
    return count_words([words[i : i + SENTENCE] for i in range(0, len(words), SENTENCE)])[0]


def train(system, text, parameters, rounds, threads=1):
    """Train with one system."""
    if system == "gensim":
        return train_gensim(text, parameters)
    if system.isdigit():
        return Strata(text, parameters, int(system), rounds, threads).train()
    return train_in_order(text, parameters, system)


def train_gensim(text, parameters):
    """Train with gensim, one worker; words of equal frequency may come in another order."""
    from gensim.models import Word2Vec

    vocabulary = text.vocabulary
    tokens = text.tokens.tolist()
    sentences = [
        [vocabulary[token] for token in tokens[a:b] if token != UNKNOWN]
        for a, b in zip(text.ptr[:-1], text.ptr[1:], strict=True)
    ]
    peer = Word2Vec(
        vector_size=parameters.dimension,
        window=parameters.window,
        sg=1,
        negative=parameters.negative,
        alpha=parameters.alpha,
        min_alpha=parameters.min_alpha,
        sample=parameters.sample,
        workers=1,
        seed=parameters.seed,
        min_count=1,
    )
    peer.build_vocab(sentences)
    began = time.process_time()
    peer.train(sentences, total_examples=len(sentences), epochs=parameters.epochs)
    cpu = time.process_time() - began
    order = [peer.wv.key_to_index[word] for word in vocabulary]
    return Trained(peer.wv.vectors[order], peer.syn1neg[order], cpu)


def scores(text, trained, parameters, folder, answers):
    """Return rank correlations with human judgments and the accuracy of analogies."""
    wv = WordVectors(text.vocabulary, trained.W_in[:, : parameters.dimension])
    found = {name: evaluate_pairs(wv, str(folder / file)).spearman for name, file in PAIR_FILES.items()}
    found["google"] = evaluate_analogies(wv, str(folder / "questions-words.txt"), answers).total.accuracy
    return found


@main.command()
@SYSTEMS
@RATES
@SEEDS
@EPOCHS
@ROUNDS
@THREADS
@click.option("--answers", default=30_000, help="Analogies: number of candidate words.")
@click.pass_obj
def quality(session, systems, rates, seeds, epochs, rounds, threads, answers):
    """Train each system at each rate with each seed, and score the vectors."""
    text = read_wiki8(session)
    for seed, alpha, system in itertools.product(seeds, rates, systems):
        parameters = Parameters(alpha=alpha, seed=seed, epochs=epochs)
        trained = train(system, text, parameters, rounds, threads)
        row = {"cpu": trained.cpu_seconds}
        if not session.quick:
            row |= scores(text, trained, parameters, session.data / "eval", answers)
        session.figures[f"{system}, alpha {alpha}, seed {seed}"] = row
        shown = " ".join(f"{name} {value:.3f}" for name, value in row.items())
        print(f"{system:>6} alpha {alpha} seed {seed}: {shown}", flush=True)


@main.command()
@SYSTEMS
@ROUNDS
@click.option("--tokens", default=1_000_000)
@click.option("--repeats", default=7)
@click.pass_obj
def speed(session, systems, rounds, tokens, repeats):
    """Train the same tokens with all systems in turn; print medians of CPU time, relative to the first system's."""
    text = read_wiki8(session)
    last = int(np.searchsorted(text.ptr, min(tokens, len(text.tokens)), "left"))
    part = replace(text, ptr=text.ptr[: last + 1], tokens=text.tokens[: text.ptr[last]])
    seconds = {system: [] for system in systems}
    for repeat in range(repeats + 1):
        for system, found in seconds.items():
            trained = train(system, part, Parameters(), rounds)
            # The first time includes compilation.
            if repeat:
                found.append(trained.cpu_seconds)
    first = statistics.median(seconds[systems[0]])
    for system, found in seconds.items():
        median = statistics.median(found)
        session.figures[system] = found
        print(
            f"{system:>6}: {min(found) / len(part.tokens) * 1e9:5.0f} ns a token at best, "
            f"{median / len(part.tokens) * 1e9:5.0f} in the median, {median / first:.2f} of {systems[0]}"
        )


# --- short documents ---


def read_verses(path: Path):
    """Return the text of nine of ten verses, and the bounds and tokens of the others."""
    lines = path.read_text().splitlines()
    verses = [re.findall("[a-z]+", line.split("\t")[3].lower()) for line in lines]
    text, rank = count_words([verse for v, verse in enumerate(verses) if v % 10])
    return text, encode(verses[::10], rank)


def held_out_pairs(text, held_out, n_pairs=60_000, negative=5):
    """Return pairs of words and context words of the held-out documents, and negatives: (n, 2) and (n, negative)."""
    places = np.arange(len(text.vocabulary), dtype=np.uint32)
    keep = skip_gram.keep_probability(text.frequency, 1e-3)
    pairs, _ = split_pairs(*held_out, places, keep, 5, random.key(1), random.key(2), 1)
    rng = np.random.default_rng(0)
    pairs = rng.permutation(pairs)[:n_pairs]
    weights = text.frequency**0.75
    negatives = rng.choice(len(weights), (len(pairs), negative), p=weights / weights.sum())
    return np.stack([pairs & 0xFFFF, pairs >> 16], 1).astype(np.int64), negatives


@main.command()
@SYSTEMS
@RATES
@SEEDS
@EPOCHS
@ROUNDS
@click.pass_obj
def verses(session, systems, rates, seeds, epochs, rounds):
    """Train verses of about 25 words, and print the loss per pair of held-out verses."""
    text, held_out = read_verses(session.data / "kjv.tsv")
    pairs, negatives = held_out_pairs(text, held_out)
    for seed, alpha, system in itertools.product(seeds, rates, systems):
        trained = train(system, text, Parameters(alpha=alpha, seed=seed, epochs=epochs), rounds)
        loss = skip_gram.loss(trained.W_in, trained.W_out, pairs, negatives) / len(pairs)
        session.figures[f"{system}, alpha {alpha}, seed {seed}"] = {"loss": loss, "cpu": trained.cpu_seconds}
        print(f"{system:>6} alpha {alpha} seed {seed}: loss {loss:.3f}, {trained.cpu_seconds:.2f} CPU-s", flush=True)


if __name__ == "__main__":
    main()
