"""CPU time of skip-gram in strata of cells against training in the order of the text, without the engine.

python -m benchmarks.word2vec.strata --help

A system is "par", "sgns" or "full", trained in the order of the text, or a number P, which stands for strata of P
blocks. Parts of wiki8 in sentences of 1000 words are trained with all systems in turn, again and again.
"""

import statistics
from collections import Counter
from dataclasses import replace

import click
import numpy as np

from benchmarks.common import DATA, JSON, QUICK, data_file, write_json
from benchmarks.word2vec.schedules import Parameters, Sentences, Strata, train_in_order

SENTENCE = 1000
UNKNOWN = 2**32 - 1


def count_words(documents, min_count=5):
    """Return the text of documents, which are lists of words; rare words become tokens outside the vocabulary."""
    counts = Counter(word for document in documents for word in document)
    kept = [(-count, word) for word, count in counts.items() if count >= min_count]
    vocabulary = [word for _, word in sorted(kept)]
    rank = {word: r for r, word in enumerate(vocabulary)}
    tokens = np.array([rank.get(word, UNKNOWN) for document in documents for word in document], np.uint32)
    ptr = np.r_[0, np.cumsum([len(document) for document in documents])].astype(np.int64)
    return Sentences(vocabulary, np.array([counts[word] for word in vocabulary]), ptr, tokens)


def read_wiki8(data, quick):
    """Return the text of wiki8 in sentences of SENTENCE words."""
    if quick:
        words = [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(20_000)]
    else:
        words = data_file(data, "wiki8.txt").read_text().split()
    return count_words([words[i : i + SENTENCE] for i in range(0, len(words), SENTENCE)])


def train(system, text, parameters, rounds):
    """Train with one system."""
    if system.isdigit():
        return Strata(text, parameters, int(system), rounds).train()
    return train_in_order(text, parameters, system)


@click.command(help=__doc__.split("\n")[0])
@DATA
@JSON
@QUICK
@click.option("--system", "systems", multiple=True, default=["par", "sgns", "8", "16", "32"])
@click.option("--rounds", default=16, help="Rounds of strata over all epochs.")
@click.option("--tokens", default=1_000_000)
@click.option("--repeats", default=7)
def main(data, target, quick, systems, rounds, tokens, repeats):
    text = read_wiki8(data, quick)
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
        print(
            f"{system:>6}: {min(found) / len(part.tokens) * 1e9:5.0f} ns a token at best, "
            f"{median / len(part.tokens) * 1e9:5.0f} in the median, {median / first:.2f} of {systems[0]}"
        )
    if target:
        write_json(target, seconds)


if __name__ == "__main__":
    main()
