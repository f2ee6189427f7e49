"""The tables of word vectors on the site have the figures of their record."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.word2vec.quality import SETTING

DOCS = Path(__file__).parents[2] / "docs"
RECORD = DOCS / "measurements" / "word-vectors.jsonl"
PAGES = [(DOCS / "explanation" / name).read_text() for name in ("strata.md", "strata-experiments.md")]
NAMES = {"gensim": "gensim", "psgnscc": "pSGNScc"}


def short(value):
    """Return a number as the tables have it: .565, 2.375."""
    return f"{value:.3f}".removeprefix("0")


def rows():
    """Return the rows of the record for each system, number of epochs and learning rate."""
    found = defaultdict(list)
    for line in RECORD.read_text().splitlines():
        row = json.loads(line)
        found[row["system"], row["epochs"], row["alpha"]].append(row)
    return found


def test_tables_have_the_means_and_deviations_of_the_record(subtests):
    for (system, epochs, alpha), found in rows().items():
        name = NAMES.get(system, f"`{system}`")
        cells = [str(len(found))]
        for score in [key for key in found[0] if key not in SETTING]:
            values = [row[score] for row in found]
            deviation = f" ± {short(np.std(values, ddof=1))}" if len(values) > 1 else ""
            cells.append(short(np.mean(values)) + deviation)
        tables = [f"| {label} | {' | '.join(cells)} |" for label in (name, f"{name}, rate {short(alpha).rstrip('0')}")]
        with subtests.test(f"{system}, {epochs} epochs, rate {alpha}"):
            assert any(table in page for table in tables for page in PAGES), tables
