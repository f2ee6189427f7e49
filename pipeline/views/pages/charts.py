"""Charts by epoch: lines in an SVG that stretches with the page, and labels in HTML, which do not stretch.

All positions are percentages of the plot's width and height, from its top left corner.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...formatting import capitalize, format_number, format_score, with_minus_sign
from ..history import Points

#: CSS variables with the colours of the curves, in their order.
HUES = ("var(--one)", "var(--two)", "var(--three)")
#: Space that the label of the last epoch takes, as a share of the axis; labels of other epochs stay out of it.
_LAST_LABEL = 0.12
#: Space that the label of the first epoch takes, in percent of the axis.
_FIRST_LABEL = 5
#: Values that differ by a smaller share than this are drawn as one value.
_ROUNDING = 1e-9
#: Most decimals of a label.
_MAX_DIGITS = 16
#: Ticks of an axis, about.
TICKS = 5


@dataclass(frozen=True)
class Curve:
    """One curve. ``line`` and ``area`` are points in the format of SVG; an empty ``area`` is not drawn."""

    name: str
    hue: str
    line: str
    area: str
    #: The position (left, top) of a curve's only point. Such a curve is drawn as a dot.
    dot: tuple[float, float] | None


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis."""

    position: float
    label: str
    is_last: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart as the template draws it."""

    title: str
    curves: list[Curve]
    y_ticks: list[Tick]
    x_ticks: list[Tick]
    #: First and last epoch as JSON, for the script that shows the values under the pointer.
    span: str
    #: Names and points of all curves as JSON, for the same script.
    values: str
    #: What the numbers below the axis are.
    axis: str = "epoch"

    @property
    def legend(self) -> list[Curve]:
        """The curves that a legend must name. A curve with the title of the chart needs no name."""
        return [curve for curve in self.curves if capitalize(curve.name) != self.title]


@dataclass(frozen=True)
class _Scale:
    """Maps epochs and values to positions."""

    first: float
    last: float
    low: float
    high: float

    def left(self, epoch: float) -> float:
        """Position of an epoch. The only epoch of a chart is in the middle."""
        if self.last == self.first:
            return 50.0
        return (epoch - self.first) / (self.last - self.first) * 100

    def top(self, value: float) -> float:
        """Position of a value."""
        return 100 - (value - self.low) / (self.high - self.low) * 100

    def point(self, epoch: float, value: float) -> str:
        """Position of a point in the format of SVG."""
        return f"{self.left(epoch):.2f},{self.top(value):.2f}"


def build_chart(title: str, curves: Mapping[str, Points], from_zero: bool = False, axis: str = "epoch") -> Chart | None:
    """Return a chart of curves by name over numbers that ``axis`` names, or None if no curve has a point.

    ``from_zero``: let the axis begin at zero, and fill the area below each curve.
    """
    drawn = {name: points for name, points in curves.items() if points}
    # A curve has the same colour in all charts, also where another one has no points.
    hues = dict(zip(curves, HUES, strict=False))
    if not drawn:
        return None
    epochs = [epoch for points in drawn.values() for epoch, _ in points]
    values = [value for points in drawn.values() for _, value in points]
    if from_zero:
        values.append(0.0)
    # The axis begins and ends at a tick.
    ticks = nice_ticks(min(values), max(values))
    scale = _Scale(min(epochs), max(epochs), ticks[0], ticks[-1])
    # What the script shows under the pointer.
    shown = [
        {"name": name, "points": [(epoch, value, with_minus_sign(format_score(value))) for epoch, value in points]}
        for name, points in drawn.items()
    ]
    return Chart(
        title=title,
        curves=[_curve(*item, hues[item[0]], scale, from_zero) for item in drawn.items()],
        y_ticks=_value_ticks(ticks, scale),
        x_ticks=_epoch_ticks(scale),
        span=json.dumps([scale.first, scale.last]),
        values=json.dumps(shown),
        axis=axis,
    )


def _curve(name: str, points: Points, hue: str, scale: _Scale, is_filled: bool) -> Curve:
    line = " ".join(scale.point(epoch, value) for epoch, value in points)
    area = ""
    if is_filled:
        area = f"{scale.point(points[0][0], 0)} {line} {scale.point(points[-1][0], 0)}"
    dot = None
    if len(points) == 1:
        epoch, value = points[0]
        dot = (scale.left(epoch), scale.top(value))
    return Curve(name, hue, line, area, dot)


# --- axes ---


def nice_ticks(low: float, high: float) -> list[float]:
    """Return about TICKS evenly spaced round numbers that enclose ``low`` and ``high``."""
    # Equal, or different by rounding only: a step between such values could not be written with digits.
    if high - low <= max(_ROUNDING * max(abs(low), abs(high)), sys.float_info.min):
        high = low + (abs(low) * 0.1 or 1.0)
    smallest_step = (high - low) / TICKS
    magnitude = 10.0 ** math.floor(math.log10(smallest_step))
    step = next(magnitude * m for m in (1, 2, 2.5, 5, 10) if magnitude * m >= smallest_step)
    # The slack absorbs rounding: without it, a bound that is a multiple of the step could get one tick too many.
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def _value_ticks(ticks: Sequence[float], scale: _Scale) -> list[Tick]:
    labels = [format_number(tick) for tick in ticks]
    # A small number needs the decimals of the step. A short form such as 1.07 M may hide the step, and 100 k would be
    # above 50,000.
    if max(abs(scale.low), abs(scale.high)) < 1e6 or len(set(labels)) < len(labels):
        digits = _digits_of(ticks[1] - ticks[0])
        labels = [with_minus_sign(f"{tick:,.{digits}f}") for tick in ticks]
    return [Tick(scale.top(tick), text) for tick, text in zip(ticks, labels, strict=True)]


def _digits_of(step: float) -> int:
    """Return the number of decimals that a step needs."""
    needed = (digits for digits in range(_MAX_DIGITS) if math.isclose(round(step, digits), step))
    return next(needed, _MAX_DIGITS)


def _epoch_ticks(scale: _Scale) -> list[Tick]:
    if scale.first == scale.last:
        return [Tick(scale.left(scale.first), f"{scale.first:.0f}", is_last=False)]
    found = [Tick(scale.left(scale.first), f"{scale.first:.0f}")]
    found += [Tick(scale.left(epoch), f"{epoch}") for epoch in _inner_epochs(scale)]
    found.append(Tick(scale.left(scale.last), f"{scale.last:.0f}", is_last=True))
    return found


def _inner_epochs(scale: _Scale) -> Iterable[int]:
    """Return round epochs whose labels overlap neither that of the first epoch nor that of the last."""
    # Epochs are integers, but the steps between ticks need not be.
    epochs = sorted({round(tick) for tick in nice_ticks(scale.first, scale.last)})
    end = scale.last - _LAST_LABEL * (scale.last - scale.first)
    return [epoch for epoch in epochs if scale.first < epoch < end and scale.left(epoch) > _FIRST_LABEL]
