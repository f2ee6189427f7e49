"""The simulated cluster of `benchmarks.scale`, and its extrapolation."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from corpusmill.pipeline.engine.memory import PROCESS_BYTES

from benchmarks.scale import extrapolation, memory_plan
from benchmarks.scale.cluster import SmallCache


def test_a_small_cache_keeps_blocks_of_the_model_but_no_chunks():
    cache = SmallCache()
    reads = []

    def read():
        reads.append("read")
        return "value"

    for kind in ("block", "chunk"):
        for _ in range(2):
            cache.load(("run", kind, 0), read, size=len, budget=1000, for_every_chunk=True)
    assert len(reads) == 1 + 2


def test_the_page_about_scaling_has_the_extrapolated_figures(tmp_path):
    target = tmp_path / "figures.json"
    CliRunner().invoke(extrapolation.main, ["--json", str(target)], catch_exceptions=False)
    figures = json.loads(target.read_text()).values()
    page = Path(__file__).parents[2].joinpath("docs", "explanation", "scaling.md").read_text()

    def shown(part):
        (row,) = re.findall(rf"^\| {re.escape(part)} \| (.*) \|$", page, re.MULTILINE)
        return [float(re.findall(r"[\d.]+", cell)[-1]) for cell in row.split(" | ")]

    for part, name, scale in (
        ("sweeps", "sweeps, s", 1),
        ("**an epoch**", "an epoch, s", 1),
        ("share of the time that threads compute", "share of computing", 100),
        ("price of 100 epochs", "price of 100 epochs, dollars", 1),
    ):
        assert shown(part) == pytest.approx([scale * row[name] for row in figures], rel=0.01)


@pytest.mark.slow
def test_no_worker_needs_more_memory_than_its_plan(tmp_path):
    target = tmp_path / "figures.json"
    CliRunner().invoke(memory_plan.main, ["--quick", "--json", str(target)], catch_exceptions=False)
    rows = json.loads(target.read_text())
    assert len(rows) == 8
    for row in rows:
        # Python with its libraries, which is most of these small plans, takes half of its share on some systems.
        arrays = row["planned"] - PROCESS_BYTES
        assert 0.5 * arrays < row["peak"] <= row["planned"] <= row["limit"], row
