"""How fast the explorer answers on a synthetic model and corpus of any size.

python -m benchmarks.explorer --help
"""

import statistics
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpusmill import LDA
from corpusmill.io.stores.corpus import WORD_ORDER, ChunkInfo, Corpus, commit_corpus
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.explorer.open import open_explorer
from corpusmill.pipeline.explorer.server import answer
from corpusmill.pipeline.models.base.saved import TrainedModel

from benchmarks.common import JSON, QUICK, print_row, write_json

#: Documents of a chunk, and tokens of a document.
CHUNK_DOCUMENTS = 500_000
TOKENS = 20
#: Number of requests of each kind.
REPEATS = 7


@click.command()
@click.option("--documents", default=10_000_000, show_default=True)
@click.option("--topics", default=10_000, show_default=True)
@click.option("--words", default=200_000, show_default=True)
@click.option("--entries", default=2000, show_default=True, help="Words of each topic.")
@click.option("--folder", help="Where to keep model and corpus. The default is a temporary folder.")
@JSON
@QUICK
def main(documents, topics, words, entries, folder, target, quick):
    """Print seconds until the first picture, and the median and the longest time of each kind of click."""
    if quick:
        documents, topics, words, entries = 2000, 30, 500, 50
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or temporary
        if not Store(f"{place}/model").exists("model.json"):
            write_corpus(f"{place}/corpus", documents, words)
            write_model(f"{place}/model", f"{place}/corpus", topics, words, entries)
        found = {
            "documents": documents,
            "topics": topics,
            "words": words,
            **measure(f"{place}/model", topics, documents, words),
        }
    for name, value in found.items():
        print_row(name, value, width=28)
    if target:
        write_json(target, found)


def measure(model, topics, documents, words):
    """Return the seconds of the first call, of the first picture after it, and of clicks."""
    found = {"first call s": seconds(lambda: open_explorer(model).answer_model())}
    start = time.perf_counter()
    explorer = open_explorer(model)
    explorer.answer_model()
    found["first picture s"] = time.perf_counter() - start
    explorer.start()
    # The page repeats its request until it gets documents. A user reads meanwhile.
    while explorer.scan.seen < min(5000, explorer.scan.limit):
        time.sleep(0.1)
    found["until documents s"] = time.perf_counter() - start
    rng = np.random.default_rng(0)
    for question, most in {"topic": topics, "documents": topics, "word": words, "document": documents}.items():
        name = "topic" if question == "documents" else question
        numbers = [str(number) for number in rng.integers(0, most, REPEATS)]
        found |= clicks(question, [lambda n=n, q=question, k=name: answer(explorer, q, {k: n}) for n in numbers])
    found |= clicks("search", [lambda n=n: answer(explorer, "search", {"text": f"w{n}"}) for n in range(REPEATS)])
    explorer.stop()
    return found


def clicks(name, actions):
    """Return the median and the largest seconds of some actions."""
    times = [seconds(action) for action in actions]
    return {f"{name} median s": statistics.median(times), f"{name} longest s": max(times)}


def seconds(action):
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def write_corpus(url, documents, words):
    """Write a corpus of random documents. Its chunks have no word order, which the explorer does not read."""
    store, infos = Store(url), []
    rng = np.random.default_rng(1)
    for number, first in enumerate(range(0, documents, CHUNK_DOCUMENTS)):
        n = min(CHUNK_DOCUMENTS, documents - first)
        tokens = np.minimum(rng.zipf(1.2, n * TOKENS) - 1, words - 1).astype(np.uint32)
        empty = dict.fromkeys([*WORD_ORDER[:-1], "place"], np.zeros(0, np.uint32))
        arrays = {"doc_ptr": np.arange(n + 1, dtype=np.int64) * TOKENS, "words": tokens}
        store.write_arrays(f"train/{number:06d}", {**arrays, **empty})
        infos.append(ChunkInfo(n, n * TOKENS, 0, TOKENS, first))
    with pq.ParquetWriter(
        f"{url}/documents-train.parquet", pa.schema({"key": pa.string(), "file": pa.string()})
    ) as file:
        for first in range(0, documents, 1 << 20):
            n = min(1 << 20, documents - first)
            keys = [f"document-{number}" for number in range(first, first + n)]
            file.write_table(pa.table({"key": keys, "file": ["none"] * n}))
    frequency = pa.array(np.ones(words, np.int64))
    names = pa.array([f"w{number}" for number in range(words)])
    table = pa.table({"word": names, "term_frequency": frequency, "document_frequency": frequency})
    commit_corpus(store, table, {"train": infos, "held_out": []}, True, "synthetic", {})


def write_model(url, corpus, topics, words, entries):
    """Write an LDA model of random topics, each with the same number of words."""
    rng = np.random.default_rng(2)
    pairs = np.unique(rng.integers(0, words, topics * entries) * topics + np.repeat(np.arange(topics), entries))
    rows, columns = np.divmod(pairs, topics)
    counts = rng.geometric(0.05, len(pairs)).astype(np.int32)
    block = {
        "row_ptr": np.searchsorted(rows, np.arange(words + 1)).astype(np.int64),
        "topics": columns.astype(np.uint16),
        "counts": counts,
    }
    totals = np.bincount(columns, counts, topics).astype(np.int64)
    shared = {
        "totals": totals,
        "seeded": np.zeros(topics, np.int64),
        "alpha": np.full(topics, 50 / topics, np.float32),
        "beta": np.float64(0.01),
    }
    model = LDA(topics)
    data = Corpus(corpus)
    model.model_ = TrainedModel(
        [block], shared, data.vocabulary, {"data": str(Path(corpus).absolute()), "data_hash": data.hash}
    )
    model.history_, model.n_iter_ = [], 0
    model.save(url)


if __name__ == "__main__":
    main()
