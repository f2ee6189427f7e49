"""Random indexing against a plain loop of Algorithm 2.1 and against sparse products; quality of the vectors.

python -m benchmarks.random_indexing --help
"""

import json
import os
import re
import time
from collections import Counter
from pathlib import Path
from statistics import median

import click
import numba
import numpy as np
import scipy.sparse
import scipy.stats
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.random_indexing import accumulate as ri
from corpusmill.kernels.random_indexing import text as ri_text
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.random_indexing.estimator import RandomIndexing

from benchmarks.random_indexing.systems import (
    RADIUS,
    SALT,
    Text,
    dense_product,
    halves,
    in_threads,
    ours,
    ours_dense,
    plain_dense_loop,
    plain_loop,
    sparse_product,
)

SYSTEMS = ("corpusmill", "plain loop", "sparse product")


@click.group(chain=True, invoke_without_command=True)
@click.option("--data", default=os.environ.get("CORPUSMILL_DATA", "data"), help="Folder of the unpacked corpora.")
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.option(
    "--quick", is_flag=True, help="A few thousand made-up tokens: does it run? Without a command, all but quality."
)
@click.pass_context
def main(context, data, target, quick):
    """Compare; several commands may follow one another: sparse cores roof dense epoch quality."""
    context.obj = {"data": Path(data), "quick": quick, "found": {}}
    context.call_on_close(lambda: target and Path(target).write_text(json.dumps(context.obj["found"], indent=1)))
    if context.invoked_subcommand is None:
        if not quick:
            raise click.UsageError("name a command, or --quick")
        for command in (sparse, cores, roof, dense, epoch):
            context.invoke(command)


def row(*cells) -> None:
    """Print one row of a table."""
    print("  ".join(f"{c:>15}" if isinstance(c, str) else f"{c:>15.3g}" for c in cells), flush=True)


# --- texts ---


def documents(options, name: str) -> list[list[str]]:
    """Chapters of the King James Bible, papers of NIPS, or Wikipedia in pieces of 1,000 words."""
    if options["quick"]:
        return [[f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(d, d + 200)] for d in range(20)]
    if name == "kjv":
        chapters = {}
        for line in (options["data"] / "kjv.tsv").read_text().splitlines():
            book, chapter, _, text = line.split("\t")
            chapters.setdefault((book, chapter), []).extend(re.findall("[a-z']+", text.lower()))
        found = list(chapters.values())
    elif name == "nips":
        lines = (options["data"] / "nips.jsonl").read_text().splitlines()
        found = [re.findall("[a-z']+", json.loads(line)["text"].lower()) for line in lines]
    else:
        words = (options["data"] / "wiki8.txt").read_text().split()
        found = [words[i : i + 1000] for i in range(0, len(words), 1000)]
    return found


def encode(options, name: str, tokens: int) -> Text:
    """Number the words of the first ``tokens`` tokens by falling frequency."""
    docs = documents(options, name)
    docs = docs[: int(np.searchsorted(np.cumsum([len(d) for d in docs]), tokens)) + 1]
    counts = Counter(word for d in docs for word in d)
    words = sorted(counts, key=lambda w: (-counts[w], w))
    ids = {word: i for i, word in enumerate(words)}
    doc_ptr = np.r_[0, np.cumsum([len(d) for d in docs])].astype(np.int64)
    numbers = np.array([ids[word] for d in docs for word in d], np.uint32)
    return Text(words, doc_ptr, numbers, ri_text.hash_words(words))


# --- sparse seeds ---


def one_sparse(text: Text, dimension: int, seed_length: int, systems: list[str], repeats: int) -> dict:
    """Return each system's median (wall, CPU) seconds; all must have the same sums."""
    packed = ri_text.make_seeds(text.hashes, SALT, dimension, seed_length // 2)
    positions = np.concatenate([packed & 0xFFFF, packed >> 16], axis=1).astype(np.int64)
    signs = np.repeat(np.array([1, -1], np.int32), seed_length // 2)
    indptr = np.arange(0, positions.size + 1, seed_length)
    S = scipy.sparse.csr_array((np.tile(signs, len(positions)), positions.ravel(), indptr), (len(positions), dimension))
    parts, V = halves(text), len(text.words)
    chunks = [make_chunk(0, *part) for part in parts]

    def run_ours():
        results, wall, cpu = in_threads(ours, [(c, text, dimension, seed_length // 2) for c in chunks])
        return lambda: _whole(results, V, dimension), wall, cpu

    def run_loop():
        Ts = [np.zeros((V, dimension), np.int32) for _ in parts]
        arguments = [(*p, positions, signs, RADIUS, T) for p, T in zip(parts, Ts, strict=True)]
        _, wall, cpu = in_threads(plain_loop, arguments)
        return lambda: sum(Ts), wall, cpu

    def run_product():
        wall, cpu = time.perf_counter(), time.process_time()
        T = sparse_product(text, S)
        return lambda: T, time.perf_counter() - wall, time.process_time() - cpu

    return race(dict(zip(SYSTEMS, (run_ours, run_loop, run_product), strict=True)), systems, repeats)


def _whole(results, V: int, dimension: int) -> np.ndarray:
    T = np.zeros((V, dimension), results[0][1].dtype)
    for ids, rows in results:
        T[ids] += rows
    return T


def race(runs: dict, systems: list[str], repeats: int) -> dict:
    """Run systems in turn; compare their results; return median wall and CPU seconds of each."""
    seconds = {name: [] for name in systems}
    first = None
    for turn in range(repeats + 1):  # the first turn compiles and warms up
        for name in systems:
            result, wall, cpu = runs[name]()
            if turn:
                seconds[name].append((wall, cpu))
            else:
                T = result()
                first = T if first is None else first
                # Sums of integers are the same to the bit.
                tolerance = 0 if T.dtype == np.int32 else 1e-3
                np.testing.assert_allclose(T, first, rtol=tolerance, atol=tolerance * np.abs(first).max())
    return {name: [median(s[i] for s in found) for i in (0, 1)] for name, found in seconds.items()}


def table(options, name: str, text: Text, dimension: int, seed_length: int, found: dict) -> None:
    """Print and keep one comparison."""
    clock = cycles_per_second()
    for system, (wall, cpu) in found.items():
        tokens = len(text.ids)
        ratio = cpu / found["corpusmill"][1]
        row(name, str(dimension), str(seed_length), system, tokens / wall / 1e6, tokens / cpu / 1e6, ratio)
        options["found"][f"{name} {dimension} {seed_length} {system}"] = {
            "tokens_per_second": tokens / wall,
            "tokens_per_cpu_second": tokens / cpu,
            "cycles_per_token": clock * cpu / tokens,
            "cpu_seconds_of_ours": 1 / ratio,
        }


def cycles_per_second() -> float:
    """The clock that the operating system states."""
    lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("cpu MHz")]
    return float(lines[0].split(":")[1]) * 1e6


TITLES = ("corpus", "dimension", "seed length", "system", "M tokens/s", "M per CPU-s", "CPU to ours")


@main.command()
@click.option("--corpus", "names", multiple=True, default=["kjv", "wikipedia"])
@click.option("--dimension", "dimensions", multiple=True, type=int, default=[256, 512, 1024, 2048, 4096])
@click.option("--seed-length", "lengths", multiple=True, type=int, default=[10, 100])
@click.option("--tokens", default=2_000_000, help="At most so many of a corpus.")
@click.option("--repeats", default=3)
@click.option("--system", "systems", multiple=True, default=SYSTEMS)
@click.pass_obj
def sparse(options, names, dimensions, lengths, tokens, repeats, systems):
    """Training from sparse seeds (Figure 7.1), systems taking turns, two threads each."""
    row(*TITLES)
    for name in names:
        text = encode(options, name, tokens)
        for dimension in dimensions:
            for length in lengths:
                found = one_sparse(text, dimension, length, systems, 1 if options["quick"] else repeats)
                table(options, name, text, dimension, length, found)


@main.command()
@click.option("--corpus", "names", multiple=True, default=["kjv", "wikipedia"])
@click.option("--dimension", default=2048)
@click.option("--seed-length", default=10)
@click.option("--tokens", default=2_000_000, help="At most so many of a corpus.")
@click.option("--repeats", default=7)
@click.pass_obj
def cores(options, names, dimension, seed_length, tokens, repeats):
    """Two threads against one on the same two chunks, taking turns: seconds by the clock."""
    row("corpus", "M/s, one thread", "M/s, two", "ratio")
    for name in names:
        text = encode(options, name, tokens)
        chunks = [(make_chunk(0, *part), text, dimension, seed_length // 2) for part in halves(text)]
        seconds = {1: [], 2: []}
        for _ in range(1 if options["quick"] else repeats):
            for threads, found in seconds.items():
                found.append(in_threads(ours, chunks, threads)[1])
        one, two = (len(text.ids) / median(found) / 1e6 for found in seconds.values())
        row(name, one, two, two / one)


@numba.njit(nogil=True, cache=True)
def scattered(positions, row):
    """Additions in random places of one row."""
    for position in positions:
        row[position] += 1


def least(function, repeats: int = 5) -> float:
    """Return the least CPU seconds of several calls."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


@main.command()
@click.option("--corpus", "name", default="kjv")
@click.option("--dimension", default=2048)
@click.option("--seed-length", default=10)
@click.option("--tokens", default=2_000_000, help="At most so many of the corpus.")
@click.pass_obj
def roof(options, name, dimension, seed_length, tokens):
    """Training from sparse seeds beside what its additions and its new memory cost this machine, one thread."""
    text = encode(options, name, tokens)
    chunk, window = make_chunk(0, *halves(text)[0]), ri_text.make_window(RADIUS, "permutation")
    by_word = ri_text.prepare_tokens(chunk, np.ones(len(text.words), bool), RADIUS)
    # Neighbours that differ, of a piece of a word's occurrences and an offset.
    distinct = ri._list_neighbours(by_word, ri.cut_blocks(by_word.occurrence_ptr), window, 0, len(by_word.ids)).ptr[-1]
    counted = len(window.offsets) + distinct * seed_length / len(chunk.words)
    positions = np.random.default_rng(0).integers(0, dimension, 1 << 16).astype(np.uint32)
    line = np.zeros(dimension, np.int32)
    an_add = 1e9 * least(lambda: scattered(positions, line)) / len(positions)
    shape = (len(by_word.ids), dimension)
    memory = 1e9 * least(lambda: np.ones(shape, np.int32)) / len(chunk.words)
    ours_ = 1e9 * least(lambda: ours(chunk, text, dimension, seed_length // 2)) / len(chunk.words)
    row("adds, plain", "adds, counted", "ns an add", "ns of memory", "roof, ns", "ours, ns", "share")
    bound = counted * an_add + memory
    row(len(window.offsets) * seed_length, counted, an_add, memory, bound, ours_, bound / ours_)


# --- dense seeds ---


def one_dense(text: Text, dimension: int, systems: list[str], repeats: int) -> dict:
    """Return each system's median (wall, CPU) seconds of one retraining pass."""
    V, parts = len(text.words), halves(text)
    S = ri.normalised(np.random.default_rng(0).normal(size=(V, dimension)).astype(np.float32))
    chunks = [make_chunk(0, *part) for part in parts]

    def run_ours():
        results, wall, cpu = in_threads(ours_dense, [(c, V, S) for c in chunks])
        return lambda: _whole(results, V, dimension), wall, cpu

    def run_loop():
        Ts = [np.zeros((V, dimension), np.float32) for _ in parts]
        _, wall, cpu = in_threads(plain_dense_loop, [(*p, S, RADIUS, T) for p, T in zip(parts, Ts, strict=True)])
        return lambda: sum(Ts), wall, cpu

    def run_product():
        wall, cpu = time.perf_counter(), time.process_time()
        T = dense_product(text, S)
        return lambda: T, time.perf_counter() - wall, time.process_time() - cpu

    return race(dict(zip(SYSTEMS, (run_ours, run_loop, run_product), strict=True)), systems, repeats)


@main.command()
@click.option("--corpus", "names", multiple=True, default=["kjv"])
@click.option("--dimension", "dimensions", multiple=True, type=int, default=[256, 512, 1024, 2048, 4096])
@click.option("--tokens", default=1_000_000, help="At most so many of a corpus.")
@click.option("--repeats", default=1)
@click.option("--system", "systems", multiple=True, default=SYSTEMS)
@click.pass_obj
def dense(options, names, dimensions, tokens, repeats, systems):
    """Retraining from the last pass's rows (Figure 7.2), systems taking turns, two threads each."""
    row(*TITLES)
    for name in names:
        text = encode(options, name, tokens)
        for dimension in dimensions:
            found = one_dense(text, dimension, systems, repeats)
            table(options, name, text, dimension, dimension, found)


# --- whole epochs, and quality ---


@main.command()
@click.option("--corpus", "name", default="wikipedia")
@click.option("--dimension", default=2048)
@click.option("--retrain", default=1)
@click.pass_obj
def epoch(options, name, dimension, retrain):
    """Whole epochs through the engine in this process: reading, kernels, merging, writing."""
    corpus = corpus_from(documents(options, name), min_df=1 if options["quick"] else 5)
    model = RandomIndexing(dimension, retrain=retrain).fit(corpus, evaluate_every=0)
    row("epoch", "M tokens/s", "seconds", "kernel", "read", "merge, write")
    for line in model.history_:
        seconds = [line[k] for k in ("seconds", "seconds_kernel", "seconds_read", "seconds_merge")]
        row(str(line["epoch"]), line["tokens_per_second"] / 1e6, *seconds)
    options["found"][f"epoch {name} {dimension}"] = model.history_


@main.command()
@click.option("--dimension", default=2048)
@click.option("--order", "orders", multiple=True, default=["permutation", "direction", "none"])
@click.option("--window", default=RADIUS)
@click.option("--max-count", type=int, default=20_000, help="More frequent words are null terms.")
@click.option("--retrain", default=1)
@click.pass_obj
def quality(options, dimension, orders, window, max_count, retrain):
    """WordSim-353 and SimLex-999 (Spearman), synonyms out of four, before and after retraining, on Wikipedia."""
    corpus = corpus_from(documents(options, "wikipedia"), min_df=1 if options["quick"] else 5)
    row("order", "retraining", "WordSim-353", "SimLex-999", "synonyms of 4")
    for order in orders:
        for passes in range(retrain + 1):
            model = RandomIndexing(dimension, window, order=order, retrain=passes, max_count=max_count)
            wv = model.fit(corpus, evaluate_every=0).wv
            found = evaluate(options["data"] / "eval", wv)
            row(order, str(passes), *found.values())
            for word in ("king", "three", "paris"):
                if word in wv:
                    print(f"    {word}: {' '.join(w for w, _ in wv.most_similar(word, topn=6))}")
            options["found"][f"quality {order} {passes}"] = found


def evaluate(folder: Path, wv) -> dict[str, float]:
    """Return correlations with people's judgements, and how often a synonym is told from three other words."""
    scores, pairs = {}, {}
    for name, file in (("wordsim", "wordsim353.tsv"), ("simlex", "simlex999.txt")):
        lines = [line.split("\t") for line in (folder / file).read_text().splitlines() if line[0] != "#"]
        pairs[name] = [(a, b, float(score)) for a, b, score in lines if a in wv and b in wv]
        found = [wv.similarity(a, b) for a, b, _ in pairs[name]]
        scores[name] = scipy.stats.spearmanr(found, [score for *_, score in pairs[name]])[0]
    return scores | {"synonyms": synonyms(pairs["simlex"], wv)}


def synonyms(pairs, wv) -> float:
    """As in the TOEFL: which of four means the same? Pairs that people gave 8 of 10 or more; three others drawn."""
    rng = np.random.default_rng(0)
    others = sorted({word for a, b, _ in pairs for word in (a, b)})
    close = [(a, b) for a, b, score in pairs if score >= 8]
    right = [
        max([b, *rng.choice(others, 3)], key=lambda word, a=a: -2 if word == a else wv.similarity(a, word)) == b
        for a, b in close
    ]
    return float(np.mean(right)) if right else float("nan")


if __name__ == "__main__":
    main()
