"""Text to tokens and to a corpus, against scikit-learn's CountVectorizer and Hugging Face's tokenizers.

python -m benchmarks.ingest --data FOLDER
"""

import importlib.util
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa
from corpusmill.io.readers.batches import BATCH_BYTES, Batch
from corpusmill.io.words import TokenOptions
from corpusmill.pipeline.ingest.ingest import ingest
from corpusmill.pipeline.ingest.tasks import PartitionWords
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.common import DATA, JSON, QUICK, data_file, write_json

if TYPE_CHECKING:
    import tokenizers

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

Documents = list[str]

#: Files of documents, one JSON object on each line.
FILES = {"nips": "nips.jsonl", "20news": "20news-bydate.jsonl"}


@click.command()
@DATA
@click.option("--corpus", "names", multiple=True, default=["wiki8", "nips", "20news"])
@click.option("--megabytes", default=24.0, help="At most so much of each corpus.")
@click.option("--repeats", default=5)
@JSON
@QUICK
def main(data, names, megabytes, repeats, target, quick):
    """Print megabytes of text per CPU-second, medians of runs that take turns, and ratios to CountVectorizer."""
    found = {}
    corpora = {"made-up": made_up(1.0)} if quick else {n: load(data, n, megabytes) for n in names}
    for name, documents in corpora.items():
        size = sum(len(d.encode()) for d in documents) / 1e6
        with tempfile.TemporaryDirectory() as folder:
            found[name] = {
                "tokens": race(size, tokenisers(documents), 1 if quick else repeats),
                "corpus": race(size, makers(documents, Path(folder)), 1 if quick else repeats),
            }
        report(name, size, found[name])
    if target:
        write_json(target, found)


def load(data: Path, name: str, megabytes: float) -> Documents:
    """Return documents of a corpus: lines of 1,000 words of wiki8, else the field ``text``."""
    limit = int(megabytes * 1e6)
    if name == "wiki8":
        words = data_file(data, "wiki8.txt").read_text()[:limit].split()
        return [" ".join(words[i : i + 1000]) for i in range(0, len(words), 1000)]
    documents, size = [], 0
    with data_file(data, FILES[name]).open() as lines:
        for line in lines:
            documents.append(json.loads(line)["text"])
            size += len(documents[-1])
            if size > limit:
                break
    return documents


def made_up(megabytes: float) -> Documents:
    """Return documents of made-up words."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 10))) for _ in range(20_000)]
    return [" ".join(draw.choices(words, k=200)) for _ in range(int(megabytes * 1e6 / 1300))]


def tokenisers(documents: Documents) -> dict[str, Callable[[], object]]:
    """Text in memory to numbers of words."""
    batches = list(as_batches(documents))
    analyze = CountVectorizer().build_analyzer()
    systems: dict[str, Callable[[], object]] = {
        "CountVectorizer's analyzer": lambda: [analyze(d) for d in documents],
        "CountVectorizer.fit": lambda: CountVectorizer().fit(documents),
        "corpusmill.pipeline.ingest.tasks": lambda: number_words(batches),
    }
    if importlib.util.find_spec("tokenizers") is not None:
        words = fast_tokenizer(documents)
        systems["tokenizers.encode_batch_fast"] = lambda: words.encode_batch_fast(documents)
    return systems


def fast_tokenizer(documents: Documents) -> "tokenizers.Tokenizer":
    """Return a tokenizer of Hugging Face that splits as CountVectorizer does."""
    import tokenizers

    known = CountVectorizer().fit(documents).vocabulary_ | {"[UNK]": 1 << 30}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(known)}, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\b\w\w+\b"), "removed", invert=True)
    return words


def number_words(batches: list[Batch]) -> pa.Table:
    """Split the documents of one partition into words, number and count them; return the counts, as ingest does."""
    words = PartitionWords(TokenOptions())
    for batch in batches:
        words.add(batch, np.ones(len(batch.content), bool))
    return words.table()


def as_batches(documents: Documents) -> Iterator[Batch]:
    """Yield documents in batches as readers cut them."""
    waiting, size = [], 0
    for document in [*documents, None]:
        if waiting and (document is None or size > BATCH_BYTES):
            yield Batch(pa.array([""] * len(waiting)), pa.array(waiting, pa.large_string()))
            waiting, size = [], 0
        waiting.append(document)
        size += len(document or "")


def makers(documents: Documents, folder: Path) -> dict[str, Callable[[], object]]:
    """A JSONL file to a matrix of counts, or to a whole corpus store."""
    source = folder / "source.jsonl"
    source.write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))

    def count() -> object:
        with source.open() as lines:
            return CountVectorizer().fit_transform(json.loads(line)["text"] for line in lines)

    def make() -> object:
        with tempfile.TemporaryDirectory(dir=folder) as corpus:
            return ingest(source, corpus)

    return {"CountVectorizer.fit_transform": count, "corpusmill.ingest": make}


def race(size: float, systems: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median megabytes per CPU-second of each system; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repeats):
        for name, run in systems.items():
            started = time.process_time()
            run()
            seconds[name].append(time.process_time() - started)
    return {name: size / median(s) for name, s in seconds.items()}


def report(name: str, size: float, found: dict[str, dict[str, float]]) -> None:
    """Print a table: systems, megabytes per CPU-second, ratio to the first."""
    for what, speeds in found.items():
        first = next(iter(speeds.values()))
        print(f"\n{name}, {size:.1f} MB: {what}".ljust(52) + "MB per CPU-s".rjust(14) + "ratio".rjust(8))
        for system, speed in speeds.items():
            print(f"  {system}".ljust(51) + f"{speed:14.1f}{speed / first:8.2f}", flush=True)


if __name__ == "__main__":
    main()
