"""The records of the short benchmarks, and their tables on the page of benchmarks."""

import datetime
import json
import shlex
from importlib.util import find_spec

import pytest

from benchmarks.record import BENCHMARKS, FOLDER, OURS, machine, ratios_of

RECORDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
PARTS = {
    "title": str,
    "command": str,
    "date": str,
    "machine": dict,
    "versions": dict,
    "unit": str,
    "note": str,
    "rates": dict,
    "ratios": dict,
}


def test_every_short_benchmark_has_a_record():
    assert RECORDS.keys() == BENCHMARKS.keys()


def test_a_record_says_what_was_measured_where_and_when(subtests):
    for name, record in RECORDS.items():
        with subtests.test(name):
            assert {name: type(value) for name, value in record.items()} == PARTS
            assert record["machine"].keys() == machine().keys()
            assert all(record["machine"].values())
            assert {"python", "corpusmill", "numpy"} <= record["versions"].keys()
            assert datetime.date.fromisoformat(record["date"]) >= datetime.date(2026, 11, 22)


def test_the_ratios_of_a_record_follow_from_its_rates(subtests):
    for name, record in RECORDS.items():
        with subtests.test(name):
            assert record["rates"]
            for rates in record["rates"].values():
                assert OURS in rates
                assert len(rates) > 1
                assert min(rates.values()) > 0
            expected = ratios_of(record["rates"])
            assert record["ratios"].keys() == expected.keys()
            for case, ratios in record["ratios"].items():
                assert ratios == pytest.approx(expected[case])


def test_the_command_of_a_record_is_the_one_that_is_measured(subtests):
    for name, record in RECORDS.items():
        benchmark = BENCHMARKS[name]
        with subtests.test(name):
            assert record["command"] == f"python -m {benchmark.arguments}"
            described = (record["title"], record["unit"], record["note"])
            assert described == (benchmark.title, benchmark.unit, benchmark.note)
            assert find_spec(shlex.split(benchmark.arguments)[0]) is not None


#: The rows of the table in README.md: a record, and its ratios in the row.
ROWS = {
    "LDA with 1,000 topics": ("lda-race", [("Wikipedia, 1000 topics, esca", "tomotopy")]),
    "LDA with 100 topics": ("lda-race", [("Wikipedia, 100 topics, esca", "tomotopy")]),
    "LDA of 300 single cells": ("cells", [("10 topics, gibbs", "tomotopy"), ("20 topics, gibbs", "tomotopy")]),
    "NMF with 20 and 80 components": (
        "nmf",
        [("20news-tfidf, 20 components", "scikit-learn"), ("20news-tfidf, 80 components", "scikit-learn")],
    ),
    "Word2Vec": ("word2vec", [("window 5, strata", "gensim")]),
    "random walks of Node2Vec": (
        "node2vec",
        [("blogcatalog, p = 0.25, q = 0.25", "fastnode2vec"), ("ppi, p = 0.5, q = 2.0", "fastnode2vec")],
    ),
    "text to a corpus on disk": (
        "ingest",
        [("wiki8: JSONL to a corpus on disk", "CountVectorizer.fit_transform, in memory")],
    ),
}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_page_has_recorded_ratios(page, subtests):
    lines = (FOLDER.parents[2] / page).read_text().splitlines()
    for title, (name, ratios) in ROWS.items():
        with subtests.test(title):
            (row,) = (line for line in lines if line.startswith(f"| {title}"))
            recorded = RECORDS[name]["ratios"]
            found = [f"{recorded[case][system]:.1f}" for case, system in ratios]
            separator = " to " if "to 4" in row else ", "
            assert row.endswith(f"| {separator.join(found)} |")


def test_the_page_of_benchmarks_has_the_recorded_ratios_and_their_command(subtests):
    page = (FOLDER.parents[2] / "benchmarks" / "README.md").read_text()
    for name, record in RECORDS.items():
        with subtests.test(name):
            assert f"$ {record['command']}\n" in page
            for case, ratios in record["ratios"].items():
                for system, ratio in ratios.items():
                    shown = f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
                    assert f"| {case} | {system} | {shown} |\n" in page
