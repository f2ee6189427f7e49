"""Measure the short benchmarks again, and keep their ratios for the page of benchmarks: python -m benchmarks.record

Each is one program of this folder with fixed options, which takes less than two minutes. Its record in
``docs/measurements/benchmarks`` has the command, the machine, the date, the versions, and how many times as fast
corpusmill is as each other system. ``benchmarks/README.md`` shows these ratios, and a test compares them.
"""

import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import llvmlite.binding

from benchmarks.common import write_json

FOLDER = Path(__file__).parents[1] / "docs" / "measurements" / "benchmarks"
PACKAGES = ("corpusmill", "numba", "numpy", "scipy", "scikit-learn", "gensim", "tomotopy", "fastnode2vec", "pecanpy")
OURS = "corpusmill"

#: Rates by system, for each case: a higher rate is better.
Rates = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Benchmark:
    """One command, and how its figures become rates."""

    title: str
    unit: str
    arguments: str
    rates: Callable[[Any], Rates]
    #: What a reader must know to judge the ratios.
    note: str = ""


def of_lda(figures: Any) -> Rates:
    """Return tokens per CPU-second of the passes after the first, which compiles."""
    found = {}
    for name, systems in figures.items():
        _, corpus, topics = name.split()
        speeds = {system: statistics.median(cpu for _, cpu in passes[1:]) for system, passes in systems.items()}
        # The other sampler is a case of its own.
        peers = {system: speed for system, speed in speeds.items() if system not in (OURS, "warp")}
        found[f"{corpus}, {topics} topics, esca"] = {OURS: speeds[OURS]} | peers
        found[f"{corpus}, {topics} topics, warp"] = {OURS: speeds["warp"]} | peers
    return found


def of_race(figures: Any) -> Rates:
    """Return trainings to tomotopy's last held-out likelihood per CPU-second."""
    found: Rates = {}
    for title, times in figures["CPU-seconds to tomotopy's likelihood"].items():
        topics = title.rpartition(" ")[2]
        for system, seconds in times.items():
            # A sampler that does not reach the likelihood has no rate.
            if system != "tomotopy" and seconds is not None:
                sampler = "esca" if system == OURS else system
                rates = {OURS: 1 / seconds, "tomotopy": 1 / times["tomotopy"]}
                found[f"Wikipedia, {topics} topics, {sampler}"] = rates
    return found


def of_nmf(figures: Any) -> Rates:
    """Return epochs per CPU-second of the fastest epoch after the first."""
    found = {}
    for table in figures:
        speeds = {row["name"]: 1 / min(row["cpu"][1:]) for row in table["rows"]}
        case = f"{table['data']}, {table['K']} components"
        found[case] = {OURS: speeds["corpusmill separable"], "scikit-learn": speeds["scikit-learn cd"]}
    return found


def of_random_indexing(figures: Any) -> Rates:
    """Return tokens per CPU-second."""
    found: Rates = {}
    for name, speeds in figures.items():
        corpus, dimension, seed_length, system = name.split(maxsplit=3)
        case = f"{corpus}, dimension {dimension}, seeds of {seed_length}"
        found.setdefault(case, {})[system] = speeds["tokens_per_cpu_second"]
    return found


def of_ingest(figures: Any) -> Rates:
    """Return megabytes of text per CPU-second."""
    found = {}
    for name, parts in figures.items():
        tokens = parts["tokens"]
        found[f"{name}: words split, numbered and counted"] = {
            OURS: tokens["corpusmill.pipeline.ingest.tasks"],
            "CountVectorizer.fit": tokens["CountVectorizer.fit"],
        }
        corpus = parts["corpus"]
        found[f"{name}: JSONL to a corpus on disk"] = {
            OURS: corpus["corpusmill.ingest"],
            "CountVectorizer.fit_transform, in memory": corpus["CountVectorizer.fit_transform"],
        }
    return found


def of_cells(figures: Any) -> Rates:
    """Return epochs per CPU-second."""
    found: Rates = {}
    speeds = {(row["topics"], row["name"]): 1 / row["seconds"] for row in figures}
    for (topics, name), speed in speeds.items():
        if name.startswith(OURS):
            sampler = name.removeprefix(OURS).strip()
            found[f"{topics} topics, {sampler}"] = {OURS: speed, "tomotopy": speeds[topics, "tomotopy"]}
    return found


def of_node2vec(figures: Any) -> Rates:
    """Return steps of random walks per CPU-second."""
    found = {}
    for row in figures:
        speeds = row["steps_per_second"]
        peers = {name: speed for name, speed in speeds.items() if not name.startswith(OURS)}
        # Large graphs are walked without peers.
        if peers:
            graph = row["graph"].removesuffix(".edges.tsv")
            found[f"{graph}, p = {row['p']}, q = {row['q']}"] = {OURS: speeds[OURS]} | peers
    return found


def of_word2vec(figures: Any) -> Rates:
    """Return words per CPU-second."""
    speeds = {
        (row["window"], row["system"]): statistics.median(run["words_per_cpu_second"] for run in row["runs"])
        for row in figures
    }
    found = {}
    for (window, system), speed in speeds.items():
        if system != "gensim":
            found[f"window {window}, {system}"] = {OURS: speed, "gensim": speeds[window, "gensim"]}
    return found


BENCHMARKS = {
    "lda": Benchmark(
        "LDA, two threads",
        "tokens per CPU-second",
        "benchmarks.lda --system corpusmill --system warp --system tomotopy --system gensim speed --corpus nips "
        "--topics 100 --passes 4",
        of_lda,
    ),
    "lda-race": Benchmark(
        "LDA: training until held-out documents are as likely as after 80 CPU-seconds of tomotopy, one thread",
        "trainings per CPU-second",
        "benchmarks.lda --system corpusmill --system auto --system tomotopy race --corpus wikipedia --tokens 2000000 "
        "--topics 100 --topics 1000 --alpha .05 --threads 1 --seconds 30 --peer-seconds 80",
        of_race,
        "All have the priors 0.05 and 0.01, and are scored in one way. With 100 topics, this alpha is tomotopy's best.",
    ),
    "nmf": Benchmark(
        "NMF, one thread",
        "epochs per CPU-second",
        "benchmarks.nmf --data 20news-tfidf --data cells-5000 -k 20 -k 80 --epochs 4 --threads 1 "
        "--only 'corpusmill separable' --only 'scikit-learn cd'",
        of_nmf,
    ),
    "cells": Benchmark(
        "LDA of accessible regions in 300 cells, one thread",
        "epochs per CPU-second",
        "benchmarks.cistopic --cells 300 --epochs 20 -t 10 -t 20 -t 50",
        of_cells,
        "`gibbs` reaches the likelihood of tomotopy after equally many epochs. `esca` needs at least three times as "
        "many.",
    ),
    "word2vec": Benchmark(
        "Word2Vec, eight million words, one thread",
        "words per CPU-second",
        "benchmarks.word2vec --words 8000000 --epochs 1 --window 5 --threads 1 --seed 1 --system strata "
        "--system par --system gensim",
        of_word2vec,
    ),
    "node2vec": Benchmark(
        "Random walks of Node2Vec, one thread",
        "steps per CPU-second",
        "benchmarks.node2vec --rounds 3",
        of_node2vec,
    ),
    "random-indexing": Benchmark(
        "Random indexing, two threads",
        "tokens per CPU-second",
        "benchmarks.random_indexing sparse --corpus kjv --dimension 1024 --seed-length 10 --repeats 3",
        of_random_indexing,
    ),
    "ingest": Benchmark(
        "Ingest, one thread",
        "MB of text per CPU-second",
        "benchmarks.ingest --megabytes 5 --repeats 3",
        of_ingest,
    ),
}


def machine() -> dict[str, object]:
    """Return processor, cores and system."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        # Virtual machines hide the exact name. LLVM recognises the generation.
        "processor": f"{name} ({llvmlite.binding.get_host_cpu_name()})",
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the systems that are compared."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def ratios_of(rates: Rates) -> Rates:
    """Return how many times as fast corpusmill is as each other system."""
    found = {}
    for case, speeds in rates.items():
        found[case] = {name: speeds[OURS] / speed for name, speed in speeds.items() if name != OURS}
    return found


def measure(name: str, folder: Path) -> dict[str, object]:
    """Run one benchmark and return its record."""
    benchmark = BENCHMARKS[name]
    module, *options = shlex.split(benchmark.arguments)
    target = folder / f"{name}.json"
    subprocess.run([sys.executable, "-m", module, "--json", str(target), *options], check=True)
    rates = benchmark.rates(json.loads(target.read_text()))
    return {
        "title": benchmark.title,
        "command": f"python -m {benchmark.arguments}",
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "unit": benchmark.unit,
        "note": benchmark.note,
        "rates": rates,
        "ratios": ratios_of(rates),
    }


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
def main(names: tuple[str, ...]) -> None:
    """Measure NAMES, or all short benchmarks, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names or BENCHMARKS:
            write_json(FOLDER / f"{name}.json", measure(name, Path(folder)))


if __name__ == "__main__":
    main()
