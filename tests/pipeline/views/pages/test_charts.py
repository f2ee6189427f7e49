"""Charts: the ticks of their axes, and the points of their curves."""

import math

from corpusmill.pipeline.views.history import metric_points
from corpusmill.pipeline.views.pages.charts import build_chart, nice_ticks
from hypothesis import given
from hypothesis import strategies as st

numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(numbers, numbers)
def test_ticks_enclose_the_values_and_are_few(one, other):
    low, high = sorted((one, other))
    ticks = nice_ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1e-9)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 8
    assert ticks == sorted(set(ticks))


def test_values_that_differ_by_rounding_only_have_a_chart():
    for low, high in ((-2.5, -2.5 + 1e-15), (0.0, 1e-300), (-3e-17, 0.0)):
        chart = build_chart("X", {"x": [(1.0, low), (2.0, high)]})
        assert len(chart.y_ticks) >= 2


def test_labels_of_large_values_differ_from_each_other():
    for low, high in ((1_070_100.0, 1_070_400.0), (1e6, 9e6), (-2e6, -1e3)):
        chart = build_chart("X", {"x": [(1.0, low), (2.0, high)]})
        assert len({tick.label for tick in chart.y_ticks}) == len(chart.y_ticks)


def test_labels_of_epochs_are_whole_numbers_without_repetition():
    chart = build_chart("X", {"x": [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]})
    assert [tick.label for tick in chart.x_ticks] == ["1", "2", "3"]


def test_values_that_are_not_finite_are_left_out():
    found = [{"epoch": 1, "x": math.nan}, {"epoch": 2, "x": 3.0}, {"epoch": 3}, {"epoch": 4, "x": math.inf}]
    assert metric_points(found, "x") == [(2.0, 3.0)]
    assert build_chart("X", {"x": metric_points(found[:1], "x")}) is None


def test_labels_of_an_axis_have_the_same_form():
    chart = build_chart("X", {"x": [(1.0, 31_000.0), (2.0, 246_000.0)]}, from_zero=True)
    assert [tick.label for tick in chart.y_ticks] == ["0", "50,000", "100,000", "150,000", "200,000", "250,000"]


def test_the_label_of_the_last_epoch_has_space_on_a_phone():
    chart = build_chart("X", {"x": [(float(epoch), 1.0) for epoch in range(1, 110)]})
    assert [tick.label for tick in chart.x_ticks] == ["1", "25", "50", "75", "109"]


def test_a_curve_has_its_colour_also_where_another_one_has_no_points():
    both = build_chart("X", {"a": [(1.0, 1.0)], "b": [(1.0, 2.0)]})
    alone = build_chart("X", {"a": [], "b": [(1.0, 2.0)]})
    assert alone.curves[0].hue == both.curves[1].hue
