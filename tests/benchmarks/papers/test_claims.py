"""Claims of pages change with the values: each sentence is shown as true, as false, as undecided or as not measured."""

import math

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers import page, sources
from benchmarks.papers.catalogue import FIGURES
from benchmarks.papers.claims import MULTIPLE, SIGN, Claim, Ruling, fits, judge
from benchmarks.papers.random_indexing_figures import normalisation
from benchmarks.papers.registry import Chart, Curve, Measured, Run, read_figures

LABELS = {"a: time": 2.0, "b: time": 8.0, "a: score": 0.5}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("a: time < 3", True),
        ("a: time < b: time", True),
        ("a: time > 0.3 times b: time", False),
        ("a: time < 0.3 times b: time", True),
        ("1 < a: time < 3", True),
        ("2.5 < a: time < 3", False),
        ("-1 < a: score < 1", True),
        ("*: time < 9", True),
        ("*: time < 8", False),
        ("*: time > a: score", True),
        ("a: score < *: time", True),
        ("0.2 times b: time < a: time < 0.3 times b: time", True),
        ("0.3 times b: time < a: time", False),
        ("a: score is 0.5", True),
        ("a: score is 0.6", False),
        ("a: score is 0.50", True),
        ("c: time < 3", None),
        ("*: speed < 3", None),
        ("a: time < c: time", None),
    ],
)
def test_a_condition_compares_labels_numbers_and_multiples(condition, holds):
    expected = {True: Ruling.TRUE, False: Ruling.FALSE, None: Ruling.MISSING}[holds]
    assert judge(Claim("It is so.", (condition,)), LABELS, {}).ruling is expected


@pytest.mark.parametrize("condition", ["a: time <= 3", "a: time<3", "a: time"])
def test_a_condition_without_a_comparison_is_an_error(condition):
    with pytest.raises(ValueError, match="compares nothing"):
        judge(Claim("It is so.", ("a: time < 3", condition)), LABELS, {})


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from([float, np.float64]))
def test_a_claim_is_true_on_one_side_of_its_limit_only(value, limit, number):
    # A run has values of NumPy, and a record has those of Python.
    values = {"value": number(value), "limit": number(limit)}
    for condition, holds in (("value < limit", value < limit), ("value > limit", value > limit)):
        verdict = judge(Claim("It is so.", (condition,)), values, {})
        assert verdict.ruling is (Ruling.TRUE if holds else Ruling.FALSE)
        assert verdict.sentence.startswith("Does not hold here: ") == (not holds)


def test_all_conditions_of_a_claim_must_hold_and_those_that_do_not_are_named():
    claim = Claim("Both are small.", ("a: time < 3", "b: time < 3"))
    assert judge(claim, LABELS, {}).sentence == (
        "Does not hold here: Both are small. (b: time is 8, not below 3: it is off by 5.)"
    )
    assert judge(claim, LABELS | {"b: time": 1.0}, {}).sentence == (
        "Both are small. (a: time is 2, below 3; b: time is 1, below 3.)"
    )
    several = judge(Claim("All.", ("1 < *: time < 9",)), LABELS, {})
    assert several.evidence == "all of “time” are from 2 to 8, above 1 and below 9"
    assert judge(Claim("One.", ("*: score < 9",)), LABELS, {}).evidence == "a: score is 0.5, below 9"
    assert judge(claim, {"a: time": 2.0}, {}).sentence == "Not measured: Both are small."


def test_a_value_that_was_not_reached_makes_no_claim_true():
    for condition in ("x < 3", "x > 3", "3 < x", "y > x"):
        verdict = judge(Claim("It is so.", (condition,)), {"x": math.nan, "y": 1.0}, {})
        assert verdict.ruling is Ruling.FALSE
        assert verdict.evidence == "x was not reached"


RANGES = st.lists(st.integers(-9, 9), min_size=3, max_size=3).map(sorted)


@given(RANGES, RANGES, st.sampled_from("<>"))
def test_a_comparison_is_undecided_if_values_of_the_spread_would_decide_it_in_both_ways(value, limit, sign):
    values, spread = {"x": value[1], "y": limit[1]}, {"x": value[::2], "y": limit[::2]}
    claim = Claim("It is so.", (f"x {sign} y",))
    ruling = judge(claim, values, spread).ruling
    results = {
        judge(claim, {"x": x, "y": y}, {}).ruling
        for x in range(value[0], value[2] + 1)
        for y in range(limit[0], limit[2] + 1)
    }
    assert ruling is (Ruling.UNDECIDED if len(results) == 2 else results.pop())


def test_a_comparison_that_fails_for_sure_makes_a_claim_false_whatever_is_undecided():
    claim = Claim("Both are small.", ("x < 2", "y < 2"))
    verdict = judge(claim, {"x": 1.5, "y": 5.0}, {"x": [1.0, 3.0]})
    assert verdict.sentence == "Does not hold here: Both are small. (y is 5, not below 2: it is off by 3.)"
    # A value that was reached in some runs only.
    assert "x was not reached in every run" in judge(claim, {"x": 1.0, "y": 1.0}, {"x": [1.0, math.nan]}).sentence


def test_labels_are_plain_text_but_for_the_star():
    assert fits("K = 3 [a?]: time", "K = * [a?]: time")
    assert not fits("K = 3 a: time", "K = * [a?]: time")


def test_the_sentences_of_a_page_change_with_the_values(tmp_path):
    content = {
        "ri-figure-1": {
            "title": "A title", "paper_setting": "theirs", "our_setting": "ours", "minutes": 1,
            "explanation": "A reason.", "paper": {"x": 1}, "kinds": {"*": "CPU time, other hardware"},
            "claims": [{"says": "It is fast.", "when": ["x < 2"]}],
        }
    }  # fmt: skip
    path = tmp_path / "figures.yaml"
    path.write_text(yaml.safe_dump(content))
    figures, _ = read_figures(path, {"ri-figure-1": Run(normalisation, {})})
    digests = sources.digests(normalisation)
    result = {
        "measured": {"values": {"x": 1.0}, "charts": [], "spread": {}}, "sources": digests, "turns": 1,
        "quick": False, "simulated": False, "parameters": {},
        "cpu_seconds": 1.0, "command": "the command", "commit": "abc", "date": "today", "load": [0, 1],
        "machine": {"processor": "a processor", "cores": 2, "python": "3"},
    }  # fmt: skip

    def shown(**changed) -> str:
        page.write_page(tmp_path / "index.html", {"ri-figure-1": result | changed}, figures, {})
        return (tmp_path / "index.html").read_text()

    assert "<li>It is fast. (x is 1, below 2.)</li>" in shown()
    slow = {"values": {"x": 5.0}, "charts": [], "spread": {}}
    assert "<li>Does not hold here: It is fast. (x is 5, not below 2: it is off by 3.)</li>" in shown(measured=slow)
    doubtful = {"values": {"x": 1.5}, "charts": [], "spread": {"x": [1.25, 2.25]}}
    doubt = "(x is 1.5, and the limit is 2: the difference of 0.5 lies within the spread of 1.)"
    assert f"<li>Cannot be decided here: It is fast. {doubt}</li>" in shown(measured=doubtful)
    assert "1.25 to 2.25" in shown(measured=doubtful)
    assert "<li>Not measured: It is fast.</li>" in shown(quick=True)
    assert "Measured before" not in shown()
    older = digests | {"random_indexing_figures.py": "another digest"}
    assert "Measured before the last change of random_indexing_figures.py" in shown(sources=older)
    page.write_page(tmp_path / "index.html", {}, figures, {})
    assert "<li>Not measured: It is fast.</li>" in (tmp_path / "index.html").read_text()


def test_a_value_that_was_not_reached_is_null_in_the_record_and_nan_when_it_is_read(tmp_path):
    (figure, *_) = FIGURES.values()
    measured = Measured({"a": math.nan, "b": 1.0}, [Chart("", "", "", [Curve("", [1, 2], [math.nan, 1.0])])])
    page.write_figure(tmp_path, figure, page.Result({}, 1.0, 1.0, False, False, [0.0, 0.0], 1, measured), "the command")
    assert "NaN" not in (tmp_path / f"{figure.name}.json").read_text()
    (record,) = page.read_results(tmp_path).values()
    assert math.isnan(record["measured"]["values"]["a"])
    page.write_page(tmp_path / "index.html", {figure.name: record}, FIGURES, {})
    assert "not reached" in (tmp_path / "index.html").read_text()


def test_no_claim_has_a_share_of_a_value_below_zero_such_as_a_likelihood(subtests):
    for name, record in page.read_results(page.RECORDS).items():
        with subtests.test(name):
            values = record["measured"]["values"]
            conditions = [condition for claim in FIGURES[name].claims for condition in claim.when]
            operands = [operand for condition in conditions for operand in SIGN.split(condition)[::2]]
            for multiple in filter(None, map(MULTIPLE.fullmatch, operands)):
                assert all(value >= 0 for label, value in values.items() if fits(label, multiple["label"]))


def test_a_claim_is_a_sentence_with_conditions(subtests):
    for figure in FIGURES.values():
        with subtests.test(figure.name):
            for claim in figure.claims:
                assert claim.says.endswith(".")
                assert claim.when
                # Without values, nothing is claimed.
                assert judge(claim, {}, {}).ruling is Ruling.MISSING
