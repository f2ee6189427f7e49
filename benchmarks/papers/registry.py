"""The registry of the figures and tables of the papers: the content of each, its values, and how it is measured."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from benchmarks.common import Session
from benchmarks.papers.claims import Claim, Verdict, fits, judge

#: A parameter of a figure: one value, or several that are measured one after the other.
Parameter = int | float | str | bool | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

#: Parameters that a run on tiny input does not use, unless it names them.
SIZES = ("tokens", "words", "numbers")

#: How a value was found, and how the paper's value beside it differs. Runs add "simulated" or "trial".
KINDS = {
    "CPU time": "CPU-seconds, or ratios and rates of them; those of the papers are by the clock",
    "by the clock": "seconds by the clock, or ratios and rates of them; other programs on the machine change them",
    "counted": "counted in the data or by the program: operations, tokens, bytes, launches",
    "formula": "computed by a formula from sizes; nothing ran",
    "scaled": "measured on a part, and multiplied by the size of the paper's corpus",
    "score": "quality of a model: likelihood, error, correlation, accuracy",
    "setting": "a parameter",
    "other size": "the paper's value is for another size",
    "other corpus": "the paper's value is for another corpus",
    "other hardware": "the paper's value is for other hardware, or for another number of cores",
    "other program": "the paper compares other programs",
    "measured in the paper": "the paper's value was measured, ours was not",
    "simulated": "CUDA kernels ran on a CPU, on tiny input: counts of this run are exact, and there are no times",
    "trial": "tiny random input: the value means nothing",
}

#: Kinds that change with the load of the machine.
TIMED = ("CPU time", "by the clock", "scaled")

#: Runs of a figure: all that it compares takes its turn in each, and values are medians.
TURNS = 3

#: Values that differ by more than this factor are drawn on a logarithmic axis.
WIDE_RANGE = 50


@dataclass(frozen=True)
class Curve:
    """Points that belong together. ``x`` are numbers, or the names of bars."""

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    from_paper: bool = False  # drawn dashed, or hatched
    ends: Sequence[tuple[float, float]] = ()  # the smallest and the largest value at each of x


@dataclass(frozen=True)
class Chart:
    """One panel of a picture: curves, or groups of bars."""

    title: str
    x_label: str
    y_label: str
    curves: list[Curve]
    bars: bool = False
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True)
class Measured:
    """What a run found: values by the labels of the paper's values, and further ones; and panels of a picture."""

    values: dict[str, float]
    charts: list[Chart] = field(default_factory=list)
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)  # smallest and largest, where they differ


@dataclass(frozen=True)
class Figure:
    """A figure, a table or a set of printed numbers of a paper, and the function that measures the same here."""

    name: str  # such as saberlda-table-2
    title: str  # what it shows
    paper_setting: str  # corpus, size and machine of the paper
    our_setting: str  # corpus and size here
    unit: str  # of the values; "" if their labels have it
    paper: Mapping[str, float | str]  # the printed values by label; words for what a reader sees in a plot
    explanation: str  # what needs no measurement: methods, settings, reasons why values can differ
    kinds: Mapping[str, str]  # by pattern of labels: some of KINDS; the first pattern that fits counts
    minutes: float  # of CPU time on one core, about
    bars: str  # the y axis of bars that compare the paper's numbers with ours; "" for none
    run: Callable[..., Measured]  # takes a Session, and parameters by name
    quick: Mapping[str, Parameter]  # parameters for tiny input
    needs_device: bool = False  # without a CUDA device it runs on the CPU, at a tiny size
    turns: int = TURNS  # runs, each with a seed of its own
    claims: tuple[Claim, ...] = ()
    paper_only: Mapping[str, float | str] = field(default_factory=dict)  # printed values that nothing here compares to
    names: Mapping[str, str] = field(default_factory=dict)  # what labels of the function are called in this paper
    deviations: Mapping[str, float] = field(default_factory=dict)  # printed standard deviations of printed values

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters with their defaults."""
        given = inspect.signature(self.run).parameters.values()
        return {one.name: one.default for one in given if one.default is not inspect.Parameter.empty}

    def kind(self, label: str) -> str:
        """Return the kind of a value, such as "CPU time, other hardware"."""
        return next(kind for pattern, kind in self.kinds.items() if fits(label, pattern))

    def named(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return values by the labels that this paper uses."""
        renamed = {}
        for label, value in values.items():
            for name, own in self.names.items():
                label = label.replace(name, own)
            renamed[label] = value
        return renamed

    @property
    def is_timed(self) -> bool:
        """Whether a value changes with the load of the machine."""
        return any(kind.split(", ")[0] in TIMED for kind in self.kinds.values())

    def verdicts(self, values: Mapping[str, float], spread: Mapping[str, Sequence[float]]) -> list[Verdict]:
        """Return what values and their spread say about the claims."""
        return [judge(claim, values, spread) for claim in self.claims]

    def measure(self, session: Session, changed: Mapping[str, Parameter]) -> tuple[dict[str, Parameter], Measured]:
        """Run with some parameters changed; return the parameters that counted, and what was found."""
        chosen = self.parameters
        if session.quick:
            chosen |= self.quick
        chosen |= changed
        seeds = range(1, 2 if session.quick else self.turns + 1)
        runs = [self.run(replace(session, seed=seed, figures={}), **chosen) for seed in seeds]
        measured = medians([replace(run, values=self.named(run.values), spread=self.named(run.spread)) for run in runs])
        if session.quick:
            chosen = {name: value for name, value in chosen.items() if name in self.quick or name not in SIZES}
        return chosen, measured


class Run(NamedTuple):
    """The function of a figure, and its parameters for tiny input; the rest of a figure is in figures/*.yaml."""

    function: Callable[..., Measured]
    quick: Mapping[str, Parameter]
    needs_device: bool = False
    turns: int = TURNS  # 1 for values that are the same in each run, or that have a spread of their own


def medians(runs: Sequence[Measured]) -> Measured:
    """Return the medians of several runs, and the spread of the values that differ."""
    first, *others = runs
    if not others:
        return first
    values = {}
    spread = {}
    for label in first.values:
        # Values that were not reached come last.
        low, *_, high = ordered = np.sort([run.values[label] for run in runs])
        values[label] = ordered[len(runs) // 2] if low != high else first.values[label]
        if low != high and not np.isnan(low):
            spread[label] = (low, high)
    charts = [middle_of(charts) for charts in zip(*(run.charts for run in runs), strict=True)]
    return Measured(values, charts, spread)


def middle_of(charts: Sequence[Chart]) -> Chart:
    """Return a panel with the medians of the points that the same panel has in all runs."""
    curves = []
    for curve in charts[0].curves:
        same = []
        for chart in charts:
            same += [other for other in chart.curves if other.label == curve.label]
        points = min(len(other.x) for other in same)
        x, y = ([getattr(other, axis)[:points] for other in same] for axis in "xy")
        names = any(isinstance(value, str) for value in x[0])
        same_places = all(list(other) == list(x[0]) for other in x)
        x = x[0] if names else np.sort(x, axis=0)[len(same) // 2].tolist()
        low, *_, high = ordered = np.sort(y, axis=0).tolist()
        ends = tuple(zip(low, high, strict=True)) if same_places and low != high else ()
        curves.append(replace(curve, x=x, y=ordered[len(same) // 2], ends=ends))
    return replace(charts[0], curves=curves)


def read_figures(path: Path, runs: Mapping[str, Run]) -> tuple[dict[str, Figure], dict[str, str]]:
    """Read the figures of a file, and those that are not measured with the reason."""
    content = yaml.safe_load(path.read_text())
    not_measured = content.pop("not measured", {})
    if set(content) != set(runs):
        raise ValueError(f"{path}: texts without a function, or functions without a text: {set(content) ^ set(runs)}")
    figures = {}
    for name, text in content.items():
        run = runs[name]
        claims = tuple(Claim(claim["says"], tuple(claim["when"])) for claim in text.pop("claims", []))
        figures[name] = Figure(
            name=name,
            run=run.function,
            quick=run.quick,
            needs_device=run.needs_device,
            turns=run.turns,
            claims=claims,
            paper_only=text.pop("only in the paper", {}),
            deviations=text.pop("standard deviations", {}),
            **({"unit": "", "bars": "", "paper": {}} | text),
        )
    return figures, not_measured


def compared(figure: Figure, ours: Mapping[str, float], spread: Mapping[str, Sequence[float]]) -> list[Chart]:
    """Return a panel with bars of the paper and of ours for the values that both have; none if neither has any.

    If the paper prints no numbers, it has bars of ours alone, of all labels that end like the paper's.
    """
    if not figure.bars:
        return []
    theirs = {label: float(value) for label, value in figure.paper.items() if not isinstance(value, str)}
    ends = {label.rpartition(": ")[2] for label in figure.paper}
    labels = list(theirs) or [label for label in ours if label.rpartition(": ")[2] in ends]
    labels = [label for label in labels if np.isfinite(ours.get(label, np.nan))]
    if not labels:
        return []
    names, title = names_of_bars(labels)
    own = [float(ours[label]) for label in labels]
    curves = [Curve("ours", names, own, ends=[tuple(spread.get(label, (ours[label],) * 2)) for label in labels])]
    if theirs:
        differences = dict.fromkeys(word for label in labels for word in figure.kind(label).split(", ")[1:])
        name = f"paper ({', '.join(differences)})" if differences else "paper"
        heights = [theirs[label] for label in labels]
        around = zip(heights, (figure.deviations.get(label, 0) for label in labels), strict=True)
        curves.insert(0, Curve(name, names, heights, True, [(value - one, value + one) for value, one in around]))
    heights = [value for curve in curves for value in curve.y]
    return [Chart(title, "", figure.bars, curves, bars=True, y_log=max(heights) > WIDE_RANGE * min(heights))]


def names_of_bars(labels: Sequence[str]) -> tuple[Sequence[str], str]:
    """Return labels without what all have before or after the colon, and that as a title."""
    heads, _, tails = zip(*(label.rpartition(": ") for label in labels), strict=True)
    if len(set(tails)) == 1 < len(labels):
        return heads, tails[0]
    if len(set(heads)) == 1 and heads[0]:
        return tails, heads[0]
    return labels, "paper and ours"


def converted(text: str, default: Parameter) -> Parameter:
    """Return a parameter that is given as text, such as "8,16", in the type of its default."""
    if isinstance(default, tuple):
        kind = type(default[0])
        return tuple(kind(part) for part in text.split(","))
    if isinstance(default, bool):
        return text.lower() in ("1", "true", "yes")
    return type(default)(text)
