"""The registry of figures is complete, and each figure runs on tiny input and writes its files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.source_tree import ROOT

from benchmarks.common import Session
from benchmarks.papers import page
from benchmarks.papers.catalogue import FIGURES, NOT_MEASURED
from benchmarks.papers.registry import converted


def test_a_figure_says_what_it_shows_and_why_values_differ(subtests):
    for figure in FIGURES.values():
        with subtests.test(figure.name):
            assert re.fullmatch(r"[a-z0-9]+-(figure|table|equation|section)-[\d.]+[a-z]?", figure.name)
            assert figure.name.split("-")[0] in page.PAPERS
            assert min(map(len, (figure.title, figure.paper_setting, figure.our_setting))) > 10
            assert figure.explanation.endswith(".") and len(figure.explanation) > 60
            assert figure.paper
            assert 0 < figure.minutes <= 2
            assert set(figure.quick) <= set(figure.parameters)


# Of tomotopy.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:builtin type _VocabDict has no __module__",
    "ignore:The training result may differ even with fixed seed",
)
@pytest.mark.parametrize("figure", [f for f in FIGURES.values() if not f.needs_device], ids=lambda f: f.name)
def test_a_figure_runs_on_tiny_input_and_draws_its_picture(figure, tmp_path):
    pytest.importorskip("matplotlib")
    _, measured = figure.measure(Session(Path("nowhere"), True), {})
    assert measured.values and all(isinstance(label, str) for label in measured.values)
    assert measured.charts or figure.bars
    result = page.Result({}, 1.0, 1.0, False, True, measured)
    page.write_figure(tmp_path, figure, result)
    stored = json.loads((tmp_path / f"{figure.name}.json").read_text())
    assert stored["measured"]["values"].keys() == measured.values.keys()
    if measured.charts:
        assert "<svg" in (tmp_path / f"{figure.name}.svg").read_text()
    text = page.write_page(tmp_path, FIGURES, NOT_MEASURED).read_text()
    assert f"python -m benchmarks.papers {figure.name}" in text


def test_no_figure_is_both_measured_and_left_out():
    assert not set(FIGURES) & set(NOT_MEASURED)


def test_parameters_are_read_in_the_type_of_their_defaults():
    assert converted("8,16", (1, 2)) == (8, 16)
    assert converted("a,b", ("x",)) == ("a", "b")
    assert converted("0.5", 1.0) == 0.5
    assert converted("no", True) is False


@pytest.mark.slow
def test_the_list_names_every_figure():
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.papers"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert all(name in shown for name in FIGURES)
