"""The registry of figures is complete, and each figure runs on tiny input and writes its files."""

import datetime
import html
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.on_device import on_device
from helpers.source_tree import ROOT

from benchmarks.common import Session
from benchmarks.gpu.data import QUICK_TOKENS, QUICK_WORDS, Topics
from benchmarks.gpu.word2vec import text_of
from benchmarks.papers import page, sources
from benchmarks.papers.__main__ import shown
from benchmarks.papers.catalogue import FIGURES, NOT_MEASURED
from benchmarks.papers.claims import Ruling
from benchmarks.papers.registry import KINDS, SIZES, TURNS, Chart, Curve, Measured, compared, converted, medians
from benchmarks.papers.vector_lengths import QUICK_NUMBERS

RECORDS = page.read_results(page.RECORDS)


def test_a_figure_says_what_it_shows_and_why_values_differ(subtests):
    for figure in FIGURES.values():
        with subtests.test(figure.name):
            assert re.fullmatch(r"[a-z0-9]+-(figure|table|equation|section)-[\d.]+[a-z]?", figure.name)
            assert figure.name.split("-")[0] in page.PAPERS
            assert min(map(len, (figure.title, figure.paper_setting, figure.our_setting))) > 10
            assert figure.explanation.endswith(".")
            assert figure.paper or figure.paper_only
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
    parameters, measured = figure.measure(Session(Path("nowhere"), True), {})
    assert measured.values and all(isinstance(label, str) for label in measured.values)
    # Sizes that a trial run does not use are not shown.
    assert set(parameters) - set(figure.quick) <= set(figure.parameters) - set(SIZES)
    result = page.Result({}, 1.0, 1.0, False, True, [0.0, 0.0], 1, measured)
    page.write_figure(tmp_path, figure, result, "the command")
    records = page.read_results(tmp_path)
    assert records[figure.name]["measured"]["values"] == pytest.approx(measured.values, nan_ok=True)
    page.write_page(tmp_path / "index.html", records, FIGURES, NOT_MEASURED)
    section = section_of((tmp_path / "index.html").read_text(), figure)
    assert "the command" in section
    assert all(f"trial, {figure.kind(label)}".split(", other")[0] in section for label in measured.values)
    if measured.charts:
        assert "data:image/svg+xml" in section
    assert section.count("Not measured: ") == len(figure.claims)


@on_device
@pytest.mark.slow
@pytest.mark.parametrize("figure", [f for f in FIGURES.values() if f.needs_device], ids=lambda f: f.name)
def test_a_figure_of_cuda_kernels_counts_launches_on_any_device(figure):
    _, measured = figure.measure(Session(Path("nowhere"), True), {})
    launches = [value for label, value in measured.values.items() if label.startswith("launches of")]
    assert launches and min(launches) >= 1


def section_of(text, figure):
    """Return the part of the page about a figure, as plain text."""
    return html.unescape(re.search(rf'<section id="{re.escape(figure.name)}">.*?</section>', text, re.DOTALL)[0])


def test_each_value_has_a_kind_that_says_how_it_was_found(subtests):
    for figure in FIGURES.values():
        with subtests.test(figure.name):
            assert list(figure.kinds)[-1] == "*"
            for kind in figure.kinds.values():
                first, *others = kind.split(", ")
                assert not first.startswith(("other ", "measured in"))
                assert {first, *others} <= set(KINDS) - {"simulated", "trial"}


def test_every_figure_has_a_record_but_for_those_that_wait_for_a_quiet_machine():
    assert set(RECORDS) <= set(FIGURES)
    assert {name for name in set(FIGURES) - set(RECORDS) if not FIGURES[name].is_timed} == set()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_has_the_values_of_its_figure_and_says_how_they_were_found(name):
    figure, record = FIGURES[name], RECORDS[name]
    assert record["name"] == name
    assert record["command"] == f"python -m benchmarks.papers {name}"
    assert record["machine"].keys() == {"processor", "cores", "system", "python"}
    assert all(record["machine"].values())
    assert re.fullmatch("[0-9a-f]{7,40}", record["commit"])
    assert datetime.date.fromisoformat(record["date"]) >= datetime.date(2026, 11, 27)
    assert len(record["load"]) == 2
    # Only the figures of CUDA kernels may be simulated, on tiny input.
    assert record["quick"] == record["simulated"]
    assert figure.needs_device or not record["simulated"]
    # A record of an earlier version of the figure may have other values. The page says so.
    if sources.changed(figure.run, record["sources"]):
        return
    expected = figure.parameters | (figure.quick if record["quick"] else {})
    assert record["parameters"] == {name: shown(value) for name, value in expected.items()}
    assert record["turns"] == (1 if record["quick"] else figure.turns)
    if not record["simulated"]:
        assert set(figure.paper) <= set(record["measured"]["values"])
        assert all(verdict.ruling is not Ruling.MISSING for verdict in page.verdicts_of(figure, record))


def test_what_is_timed_is_measured_three_times(subtests):
    for figure in FIGURES.values():
        with subtests.test(figure.name):
            timed = any(kind.startswith(("CPU time", "by the clock")) for kind in figure.kinds.values())
            assert figure.turns == TURNS or not timed


def test_values_and_curves_are_medians_of_the_runs_and_the_spread_has_their_ends():
    def run(value, *points):
        curve = Curve("a", list(range(len(points))), list(points))
        return Measured({"x": value, "always 3": 3}, [Chart("", "", "", [curve])])

    found = medians([run(5.0, 1, 9), run(1.0, 2, 8, 7), run(2.0, 3, 4)])
    assert found.values == {"x": 2.0, "always 3": 3}
    assert found.spread == {"x": (1.0, 5.0)}
    assert found.charts[0].curves == [Curve("a", [0, 1], [2, 8], ends=((1, 3), (4, 9)))]
    elsewhere = Measured(found.values, [Chart("", "", "", [Curve("a", [0, 2], [4, 5])])])
    assert medians([run(1.0, 2, 8), elsewhere, run(1.0, 3, 9)]).charts[0].curves == [Curve("a", [0, 1], [3, 8])]
    # One run in which a value was not reached leaves the median of the others above it.
    doubtful = medians([run(5.0, 1), run(math.nan, 1), run(2.0, 1)])
    assert doubtful.values["x"] == 5.0
    assert doubtful.spread["x"] == pytest.approx((2.0, math.nan), nan_ok=True)
    assert medians([run(math.nan, 1)] * 3).spread == {}


def test_bars_without_numbers_of_the_paper_are_ours_alone():
    values = {"sgns: M words per CPU-second": 1.0, "full: M words per CPU-second": 2.0, "sgns over full": 0.5}
    (chart,) = compared(FIGURES["fullw2v-figure-6"], values, {})
    assert chart.title == "M words per CPU-second"
    assert chart.curves == [Curve("ours", ("sgns", "full"), [1.0, 2.0], ends=[(1.0, 1.0), (2.0, 2.0)])]


def test_bars_and_rows_have_the_deviations_of_the_paper_and_the_spread_of_ours():
    figure = FIGURES["dissertation-table-4.8"]
    values, spread = {"ppi: micro_f1": 0.25, "ppi: macro_f1": 0.2}, {"ppi: micro_f1": [0.24, 0.27]}
    theirs, ours = compared(figure, values, spread)[0].curves
    assert theirs.ends == [pytest.approx((0.217, 0.229)), pytest.approx((0.188, 0.2))]
    assert ours.ends == [(0.24, 0.27), (0.2, 0.2)]
    picture = page.draw([Chart("", "", "", [theirs, ours], bars=True)]).decode()
    plain = page.draw([Chart("", "", "", [replace(theirs, ends=()), replace(ours, ends=())], bars=True)]).decode()
    # Lines on the bars of the paper, and on ours.
    assert picture.count("LineCollection") == plain.count("LineCollection") + 2
    assert page.rows_of(figure, values, spread)[0][1:4] == ("0.223 ± 0.006", "0.25", "0.24 to 0.27")


def test_labels_have_the_names_of_the_paper():
    _, measured = replace(FIGURES["alo-table-2"], run=breakdown_of_two).measure(Session(Path("nowhere"), True), {})
    assert measured.values == {"ALO-NMF: phase 1": 1.0, "SpMM": 2.0}
    assert measured.spread == {"ALO-NMF: phase 1": (0.5, 1.5)}


def breakdown_of_two(session, components=1, tile=1):
    """Return two values by the labels of the dissertation."""
    return Measured({"PL-NMF: phase 1": 1.0, "SpMM": 2.0}, spread={"PL-NMF: phase 1": (0.5, 1.5)})


def test_figures_of_topics_say_which_priors_ran(subtests):
    for figure in FIGURES.values():
        if "topics" in figure.parameters:
            with subtests.test(figure.name):
                text = figure.our_setting + figure.paper_setting
                assert re.search(r"alpha = (50 / K|beta)", text)
                assert "beta = 0." in text


def test_figures_of_factorisations_say_which_precision_ran(subtests):
    for name, figure in FIGURES.items():
        if "nmf_figures.py" in sources.digests(figure.run) and figure.is_timed:
            with subtests.test(name):
                assert "float32" in figure.our_setting
                assert "float64" in figure.paper_setting


def test_the_digests_of_a_figure_are_those_of_what_it_imports_from_the_papers():
    assert set(sources.digests(FIGURES["alo-figure-8"].run)) == {
        "kernels/tiled.py", "nmf_data_movement.py", "nmf_figures.py", "nmf_sweeps.py"
    }  # fmt: skip


def test_the_digest_is_that_of_code_without_comments_and_docstrings():
    code = b"def f(x):\n    return 'a # b'\n"
    documented = (
        b'"""A module."""\n\n\ndef f(x):  # twice\n    """Return\n    text."""\n    # Why.\n    return \'a # b\'\n'
    )
    assert sources.code_of(documented) == sources.code_of(code)
    assert sources.code_of(code.replace(b"# b", b"# c")) != sources.code_of(code)


@pytest.mark.slow
def test_the_page_has_the_values_of_the_records_and_what_they_say_about_the_claims(tmp_path, subtests):
    pytest.importorskip("matplotlib")
    page.write_page(tmp_path / "index.html", RECORDS, FIGURES, NOT_MEASURED)
    text = (tmp_path / "index.html").read_text()
    for name, record in RECORDS.items():
        with subtests.test(name):
            section = section_of(text, FIGURES[name])
            values = record["measured"]["values"]
            assert record["command"] in section
            assert record["commit"] in section
            for label, value in values.items():
                row = re.search(rf"<tr><td>{re.escape(label)}</td>.*?</tr>", section)[0]
                assert f'<td class="number">{page.number(value)}</td>' in row
                assert ("simulated" in row) == record["simulated"]
            verdicts = page.verdicts_of(FIGURES[name], record)
            assert all(f"<li>{html.unescape(page.with_code(verdict.sentence))}</li>" in section for verdict in verdicts)
            assert ("Measured before" in section) == bool(sources.changed(FIGURES[name].run, record["sources"]))
            assert all(f"{key} = {value}" in section for key, value in record["parameters"].items())


def test_the_explanation_has_a_row_for_each_figure_with_claims():
    for paper in page.PAPERS:
        table = page.summary(paper, RECORDS, FIGURES, "page.html")
        own = [figure for figure in FIGURES.values() if figure.name.startswith(f"{paper}-") and figure.claims]
        assert table.count("\n| ") == len(own)
        assert f"<!-- generated: papers-{paper} -->" in (ROOT / "docs" / "explanation" / "papers.md").read_text()
        for figure in own:
            (row,) = (line for line in table.splitlines() if f'"page.html#{figure.name}"' in line)
            first, second = row.split(" | ")[1:]
            for verdict in page.verdicts_of(figure, RECORDS.get(figure.name)):
                assert (verdict.claim.says in second) == (verdict.ruling in page.OTHERWISE)
                assert (verdict.claim.says in first) == (verdict.ruling is Ruling.TRUE)
            assert ("not measured yet" in first) == (figure.name not in RECORDS)


def test_no_figure_is_both_measured_and_left_out():
    assert not set(FIGURES) & set(NOT_MEASURED)


def test_figures_of_a_simulated_device_show_the_sizes_that_run():
    session = Session(Path("nowhere"), True)
    sizes = {
        "tokens": Topics(8, QUICK_TOKENS, 2, QUICK_WORDS).n_tokens,
        "words": len(text_of(session, 0)[1].words),
        "numbers": QUICK_NUMBERS,
    }
    for figure in FIGURES.values():
        if figure.needs_device:
            shown_sizes = {name: value for name, value in figure.quick.items() if name in SIZES}
            assert len(shown_sizes) == 1
            # What ran comes first.
            (size,) = shown_sizes.values()
            assert figure.our_setting.startswith(f"{size} ")
            assert figure.our_setting.find("simulated device") < figure.our_setting.find("With a GPU")
            assert shown_sizes.items() <= sizes.items()


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
