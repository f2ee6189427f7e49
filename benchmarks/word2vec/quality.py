"""Quality of word vectors: every system at every learning rate, window and number of epochs, with several seeds.

    python -m benchmarks.word2vec.quality --data FOLDER --results results.jsonl
    python -m benchmarks.word2vec.quality --data FOLDER --results verses.jsonl --text kjv

All systems train the same sentences. Every hundredth sentence is held out. Scores are rank correlations with human
judgments, the accuracy of analogies, and the loss of pairs of neighbours of the held-out sentences. Each training
appends one line to the results, and trainings that are there already are not repeated, so a long comparison can be
continued. A table of means and standard deviations over seeds follows at the end. With ``--table`` there is only the
table.

``--text kjv`` has short documents: the verses of the King James Bible, of 25 words. Their only score is the loss.
"""

import itertools
import json
import re
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from corpusmill import Corpus
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram
from corpusmill.kernels.word2vec.pairs import split_pairs
from corpusmill.kernels.word2vec.text import first_vectors, keep_probability, negative_table
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.vectors.vectors import WordVectors

from benchmarks.common import DATA, QUICK, data_file
from benchmarks.papers.algorithms.word2vec import PaperWord2Vec
from benchmarks.word2vec import psgnscc

#: One sentence of this number is held out.
HELD_OUT = 100
HELD_OUT_PAIRS = 100_000
MIN_COUNT = 5
SAMPLE = 1e-3
NEGATIVE = 5
UNKNOWN = 2**32 - 1
PAIR_FILES = {
    "WordSim": "eval/wordsim353.tsv",
    "SimLex": "eval/simlex999.txt",
    "SimVerb": "eval/SimVerb-3500.tsv",
    "MTurk": "eval/MTurk-771.tsv",
}
ANALOGIES = "eval/questions-words.txt"
#: Candidate words of an analogy.
ANSWERS = 30_000
DIMENSION = 128
#: Entries of pSGNScc's table of negatives.
TABLE = 1 << 24
SPEED = "M words/CPU-s"


@dataclass(frozen=True)
class Setting:
    """One training. A system is a method of PaperWord2Vec, "strata:P" for strata of P blocks, "gensim" or "psgnscc"."""

    system: str
    window: int
    epochs: int
    alpha: float
    seed: int


SETTING = [field.name for field in fields(Setting)]


class Texts(NamedTuple):
    """Sentences to train, sentences to score, and the same as a corpus."""

    sentences: list[list[str]]
    held_out: list[list[str]]
    corpus: Corpus


class Trained(NamedTuple):
    """The vectors of a training, row by row for its words, and the CPU-seconds that it took."""

    words: list[str]
    W_in: np.ndarray
    W_out: np.ndarray
    cpu_seconds: float


class Pairs(NamedTuple):
    """Neighbours of the held-out sentences, and negatives, as numbers of words."""

    words: list[str]
    neighbours: np.ndarray  # (n, 2) int64
    negatives: np.ndarray  # (n, NEGATIVE) int64


@click.command(help=__doc__.split("\n")[0])
@DATA
@QUICK
@click.option("--text", type=click.Choice(["wiki8", "kjv"]), default="wiki8", help="What is trained.")
@click.option("--sentence", default=1000, help="Words of a sentence of wiki8.")
@click.option("--words", type=int, help="Only this number of words from the start of wiki8.")
@click.option("--results", type=click.Path(path_type=Path), help="File of results, one line for each training.")
@click.option("--table", is_flag=True, help="Train nothing; print the table of the results.")
@click.option("--system", "systems", multiple=True, default=["strata", "sgns", "par", "gensim"])
@click.option("--alpha", "rates", type=float, multiple=True, default=[0.025, 0.05, 0.1])
@click.option("--window", "windows", multiple=True, default=[5, 8])
@click.option("--epochs", "epochs", multiple=True, default=[1, 3, 10])
@click.option("--seed", "seeds", multiple=True, default=[1, 2, 3, 4, 5])
def main(data, quick, text, sentence, words, results, table, systems, rates, windows, epochs, seeds):
    if quick:
        windows, epochs, rates, seeds = [5], [1], [0.05], [1, 2]
    rows = read_results(results)
    if not table:
        folder = None if quick or text == "kjv" else data
        settings = [Setting(*values) for values in itertools.product(systems, windows, epochs, rates, seeds)]
        train_all(read_texts(data, quick, text, sentence, words), folder, results, rows, settings)
    print_table(rows)


# --- texts ---


def read_texts(data, quick, text, sentence, n_words):
    """Read a text, and set every hundredth sentence aside."""
    if text == "kjv":
        lines = data_file(data, "kjv.tsv").read_text().splitlines()
        sentences = [re.findall("[a-z]+", line.split("\t")[3].lower()) for line in lines]
    else:
        if quick:
            words = [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(200_000)]
        else:
            words = data_file(data, "wiki8.txt").read_text().split(None, n_words or -1)[:n_words]
        sentences = [words[i : i + sentence] for i in range(0, len(words), sentence)]
    kept = [s for number, s in enumerate(sentences) if number % HELD_OUT]
    return Texts(kept, sentences[::HELD_OUT], corpus_from(kept, min_df=1))


def frequent_words(corpus):
    """Return the words that are trained, and how often they occur, the most frequent one first."""
    frequency = corpus.vocabulary["term_frequency"].to_numpy().astype(np.int64)
    frequency = frequency[frequency >= MIN_COUNT]
    return corpus.vocabulary["word"].to_pylist()[: len(frequency)], frequency


def held_out_pairs(texts):
    """Return pairs of neighbours of the held-out sentences, with negatives of the trained sentences."""
    words, frequency = frequent_words(texts.corpus)
    rank = {word: r for r, word in enumerate(words)}
    tokens = np.array([rank.get(word, UNKNOWN) for sentence in texts.held_out for word in sentence], np.uint32)
    ptr = np.r_[0, np.cumsum([len(sentence) for sentence in texts.held_out])].astype(np.int64)
    keep = keep_probability(frequency, SAMPLE)
    # Rows of a block have 16 bits, so the words are in several blocks; all cells are joined again.
    n_blocks = len(words) // (1 << 16) + 1
    numbers = np.arange(len(words), dtype=np.uint32)
    places = numbers % n_blocks << 16 | numbers // n_blocks
    pairs, counts = split_pairs(
        ptr, np.array([0, len(ptr) - 1]), tokens, places, keep, 5, random.key(1), random.key(2), n_blocks
    )
    cells = np.repeat(np.arange(n_blocks * n_blocks), counts.ravel())
    centres = (pairs >> 16) * n_blocks + cells // n_blocks
    contexts = (pairs & 0xFFFF) * n_blocks + cells % n_blocks
    rng = np.random.default_rng(0)
    neighbours = rng.permutation(np.stack([contexts, centres], axis=1))[:HELD_OUT_PAIRS]
    share = frequency**0.75 / (frequency**0.75).sum()
    negatives = rng.choice(len(words), (len(neighbours), NEGATIVE), p=share)
    return Pairs(words, neighbours.astype(np.int64), negatives)


# --- training ---


def train_all(texts, folder, results, rows, settings):
    """Train what the results do not have yet, and add it to them and to ``rows``."""
    pairs = held_out_pairs(texts)
    found = {Setting(*(row[name] for name in SETTING)) for row in rows}
    warmed = set()
    for setting in settings:
        if setting in found:
            continue
        if setting.system not in warmed:
            warm_up(setting)
            warmed.add(setting.system)
        trained = train(setting, texts)
        words = texts.corpus.n_tokens * setting.epochs
        row = asdict(setting) | {SPEED: words / trained.cpu_seconds / 1e6} | scores(trained, pairs, folder)
        rows.append(row)
        shown = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        print(", ".join(f"{name} {value}" for name, value in shown.items()), flush=True)
        if results:
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")


def train(setting, texts):
    """Train with one system."""
    if setting.system == "gensim":
        return train_gensim(setting, texts.sentences)
    if setting.system == "psgnscc":
        return train_psgnscc(setting, texts)
    method, _, n_blocks = setting.system.partition(":")
    model = PaperWord2Vec(
        vector_size=DIMENSION,
        window=setting.window,
        epochs=setting.epochs,
        alpha=setting.alpha,
        seed=setting.seed,
        negative=NEGATIVE,
        sample=SAMPLE,
        min_count=MIN_COUNT,
        method=method,
        n_blocks=int(n_blocks) if n_blocks else None,
        device="cpu",
    )
    began = time.process_time()
    model.fit(texts.corpus, evaluate_every=0)
    cpu = time.process_time() - began
    W_in, W_out = (model.model_.joined(name)[:, :DIMENSION] for name in ("W_in", "W_out"))
    return Trained(model.words_, W_in, W_out, cpu)


def train_gensim(setting, sentences):
    """Train with gensim; its workers would share the vectors without locks, so there is one."""
    from gensim.models import Word2Vec as Peer

    peer = Peer(
        vector_size=DIMENSION,
        window=setting.window,
        sg=1,
        negative=NEGATIVE,
        alpha=setting.alpha,
        min_alpha=0.0001,
        sample=SAMPLE,
        workers=1,
        seed=setting.seed,
        min_count=MIN_COUNT,
    )
    peer.build_vocab(sentences)
    began = time.process_time()
    peer.train(sentences, total_examples=len(sentences), epochs=setting.epochs)
    return Trained(peer.wv.index_to_key, peer.wv.vectors, peer.syn1neg, time.process_time() - began)


def train_psgnscc(setting, texts):
    """Train with pSGNScc; as with gensim, the words are counted before."""
    words, frequency = frequent_words(texts.corpus)
    rank = {word: r for r, word in enumerate(words)}
    sentences = [[rank[word] for word in sentence if word in rank] for sentence in texts.sentences]
    ptr = np.r_[0, np.cumsum([len(sentence) for sentence in sentences])].astype(np.int64)
    text = psgnscc.Text(ptr, np.array(list(itertools.chain(*sentences)), np.uint32))
    options = psgnscc.Options(
        window=setting.window,
        negative=NEGATIVE,
        keep=keep_probability(frequency, SAMPLE),
        table=negative_table(frequency, 0.75, TABLE, random.key(setting.seed)),
        alpha=setting.alpha,
        epochs=setting.epochs,
        seed=setting.seed,
    )
    W_in = first_vectors(np.arange(len(words), dtype=np.uint32), DIMENSION, random.key(setting.seed, 1))
    W_out = np.zeros_like(W_in)
    began = time.process_time()
    psgnscc.train(text, options, W_in, W_out)
    return Trained(words, W_in[:, :DIMENSION], W_out[:, :DIMENSION], time.process_time() - began)


def warm_up(setting):
    """Compile the kernels, so that no measurement includes it."""
    sentences = [[f"w{i}" for i in range(40)]] * 10
    texts = Texts(sentences, [], corpus_from(sentences))
    train(Setting(setting.system.partition(":")[0], 2, 1, 0.01, 1), texts)


# --- scores ---


def scores(trained, pairs, folder):
    """Return the scores of vectors. ``folder`` is that of the corpora, with judgments and analogies, or None."""
    found = {}
    if folder:
        wv = WordVectors(trained.words, trained.W_in)
        for name, file in PAIR_FILES.items():
            _, spearman, _ = wv.evaluate_word_pairs(str(data_file(folder, file)))
            found[name] = spearman.statistic
        found["Google"], _ = wv.evaluate_word_analogies(str(data_file(folder, ANALOGIES)), ANSWERS)
    row_of = {word: row for row, word in enumerate(trained.words)}
    rows = np.array([row_of[word] for word in pairs.words])
    W_in, W_out = (np.ascontiguousarray(W[rows]) for W in (trained.W_in, trained.W_out))
    total = float(skip_gram.loss(W_in, W_out, pairs.neighbours, pairs.negatives))
    found["loss"] = total / max(1, len(pairs.neighbours))
    return found


def read_results(path):
    """Return the rows of earlier runs."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def print_table(rows):
    """Print a row of means, with standard deviations over seeds, for each system and setting."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["window"], row["epochs"], row["alpha"], row["system"]].append(row)
    names = [name for name in rows[0] if name not in SETTING] if rows else []
    print("| window | epochs | rate | system | seeds | " + " | ".join(names) + " |")
    print("|" + "---|" * (5 + len(names)))
    for setting, found in sorted(groups.items()):
        cells = [*map(str, setting), str(len(found))]
        for name in names:
            values = [row[name] for row in found]
            cell = f"{np.mean(values):.3f}"
            if len(values) > 1 and name != SPEED:
                cell += f" ± {np.std(values, ddof=1):.3f}"
            cells.append(cell)
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
