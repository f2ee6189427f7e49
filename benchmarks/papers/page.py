"""The record of a measured figure as JSON, and a page with the tables, claims and pictures of all records."""

import base64
import io
import json
import math
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import jinja2
import markupsafe
import numpy as np

from benchmarks.common import figure_grid
from benchmarks.papers import sources
from benchmarks.papers.claims import NOT_REACHED, Ruling, Verdict
from benchmarks.papers.registry import KINDS, TURNS, Chart, Curve, Figure, Measured, compared
from benchmarks.record import machine

#: Titles of the papers by the first part of a figure's name, in the order of the page.
PAPERS = {
    "dissertation": "Moon, Parallel Algorithms for Machine Learning (dissertation, 2019)",
    "saberlda": "Li et al., SaberLDA (ASPLOS 2017)",
    "alo": "Moon et al., ALO-NMF (KDD 2020)",
    "fullw2v": "Randall et al., FULL-W2V (ICS 2021)",
    "ri": "Polok and Smrž, Implementing Random Indexing on GPU (2011)",
}
#: The records in the repository.
RECORDS = Path(__file__).parents[2] / "docs" / "measurements" / "papers"
WIDTH = 5.4
HEIGHT = 3.8
LEGEND_LINE = 0.2
#: Inches that the label of the x axis takes.
BELOW_PANEL = 0.4
#: Characters of a legend, in the width of a panel.
LEGEND_CHARACTERS = 80
#: A logarithmic axis with so few points has a tick at each.
FEW_PLACES = 8
#: Only powers of ten are labelled on a logarithmic axis whose ends are farther apart.
MANY_STEPS = 2000


@dataclass(frozen=True)
class Result:
    """One run of a figure."""

    parameters: dict[str, str]
    seconds: float
    cpu_seconds: float
    simulated: bool  # whether CUDA kernels ran on the CPU
    quick: bool  # whether the input was tiny
    load: list[float]  # processes that wanted to run on the machine, before and after; the run itself is one
    turns: int  # runs, of which the values are medians
    measured: Measured


def write_figure(folder: Path, figure: Figure, result: Result, command: str) -> None:
    """Write the record of a run to the folder of results."""
    content = {
        "name": figure.name,
        "command": command,
        "commit": commit(),
        "date": date.today().isoformat(),
        "machine": machine() | {"python": platform.python_version()},
        "sources": sources.digests(figure.run),
    }
    text = json.dumps(content | asdict(result), indent=1, default=plain)
    # Points of a curve, and other lists of numbers, on one line each.
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    # JSON has no NaN.
    text = re.sub(r"\bNaN\b", "null", text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{figure.name}.json").write_text(text + "\n")


def plain(value):
    """Return a number of NumPy as one of Python, for JSON."""
    return value.item() if isinstance(value, np.generic) else list(value)


def commit() -> str:
    """Return the commit of the sources; with "-dirty" if files outside docs were changed since."""
    root = Path(__file__).parents[2]
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    if found.returncode:
        return "unknown"
    # The records themselves change while all figures are measured.
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", ":!docs"], cwd=root, check=False).returncode
    return found.stdout.strip() + ("-dirty" if changed else "")


# --- tables ---


class Row(NamedTuple):
    """One row of a table, as text."""

    label: str
    paper: str
    ours: str
    spread: str
    kind: str


def rows_of(
    figure: Figure, values: Mapping[str, float], spread: Mapping[str, Sequence[float]], run: str = ""
) -> list[Row]:
    """Return the rows: first what the paper prints, then further values. ``run`` is "simulated", "trial" or nothing."""
    labels = list(figure.paper) + [label for label in values if label not in figure.paper]
    rows = []
    for label in labels:
        kind = figure.kind(label)
        if label in values and run:
            kind = f"{run}, {kind}"
        if label not in figure.paper:
            # There is nothing beside it that could differ.
            kind = ", ".join(word for word in kind.split(", ") if not word.startswith(("other ", "measured in")))
        low_to_high = " to ".join(map(number, spread.get(label, ())))
        paper = number(figure.paper.get(label))
        if label in figure.deviations:
            paper += f" ± {number(figure.deviations[label])}"
        rows.append(Row(label, paper, number(values.get(label)), low_to_high, kind))
    return rows + [Row(label, number(value), "", "", "only in the paper") for label, value in figure.paper_only.items()]


def number(value: float | str | None) -> str:
    """Return a value as text, with four digits; nothing for a missing value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value != value:
        return NOT_REACHED
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def table_of(figure: Figure, result: Result) -> str:
    """Return the table and the claims in Markdown."""
    unit = f" ({figure.unit})" if figure.unit else ""
    lines = [f"| {figure.name}{unit} | paper | ours | spread | kind |", "|---|---|---|---|---|"]
    values, spread = result.measured.values, result.measured.spread
    rows = rows_of(figure, values, spread, run_of(result.simulated, result.quick))
    lines += [f"| {' | '.join(row)} |" for row in rows]
    if not result.quick:
        lines += ["", *(f"- {verdict.sentence}" for verdict in figure.verdicts(values, spread))]
    return "\n".join(lines)


def run_of(simulated: bool, quick: bool) -> str:
    """Return the kind of all values of a run; nothing for a real one."""
    if simulated:
        return "simulated"
    return "trial" if quick else ""


# --- pictures ---


def draw(charts: list[Chart]) -> bytes:
    """Return the panels of a figure as SVG, at most three in a row."""
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator
    from matplotlib.transforms import ScaledTranslation

    matplotlib.use("Agg")
    pyplot.rcParams.update({"svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False})
    # Without a salt, every run would give other names to the parts of the file.
    pyplot.rcParams["svg.hashsalt"] = "papers"
    columns = min(3, len(charts))
    lines = max(map(legend_lines, charts))
    figure, axes = figure_grid(-(-len(charts) // columns), columns, WIDTH, HEIGHT + LEGEND_LINE * lines)
    panels = axes.ravel()
    for axis in panels[len(charts) :]:
        axis.set_axis_off()
    for axis, chart in zip(panels, charts, strict=False):
        if chart.bars:
            draw_bars(axis, chart)
        else:
            for curve in chart.curves:
                draw_curve(axis, curve)
        axis.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
        if chart.x_log:
            axis.set_xscale("log")
            label_steps(axis.xaxis)
            places = sorted({x for curve in chart.curves for x in curve.x})
            if len(places) <= FEW_PLACES:
                size = 7 if places[-1] >= 100_000 else None
                axis.set_xticks(places, [f"{x:,.10g}" for x in places], fontsize=size)
        elif not chart.bars and all(isinstance(x, int) for curve in chart.curves for x in curve.x):
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        if chart.y_log:
            axis.set_yscale("log")
            label_steps(axis.yaxis)
            if chart.bars:
                # Lengths of bars mean nothing on this axis, but its steps do if it begins with a power of ten.
                values = np.concatenate([np.append(curve.y, [low for low, _ in curve.ends]) for curve in chart.curves])
                axis.set_ylim(bottom=10 ** np.floor(np.log10(values[values > 0].min())))
        axis.grid(alpha=0.25)
        if legend_lines(chart):
            # Outside the panel, where it hides no curve: below, or above the long names of bars.
            legend = {"fontsize": 8, "frameon": False, "ncols": legend_columns(chart)}
            if chart.bars:
                axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), **legend)
                axis.set_title(chart.title, pad=10 + 14 * legend_lines(chart))
            else:
                below = axis.transAxes + ScaledTranslation(0, -BELOW_PANEL, figure.dpi_scale_trans)
                axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, **legend)
    figure.tight_layout()
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return picture.getvalue()


def legend_columns(chart: Chart) -> int:
    """Return how many labels of curves fit beside each other."""
    longest = max(len(curve.label) for curve in chart.curves)
    return min(len(chart.curves), max(1, LEGEND_CHARACTERS // (longest + 6)))


def legend_lines(chart: Chart) -> int:
    """Return the lines of a legend; 0 if the only curve has no label."""
    if len(chart.curves) == 1 and not chart.curves[0].label:
        return 0
    return -(-len(chart.curves) // legend_columns(chart))


def label_steps(axis) -> None:
    """Label the powers of ten of a logarithmic axis, and 2 and 5 times these if they are few: 2000, 20 k, 5 M."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    large = EngFormatter()
    axis.set_major_locator(LogLocator(subs=(1,) if high > MANY_STEPS * low else (1, 2, 5), numticks=12))
    axis.set_major_formatter(lambda x, _: f"{x:g}" if x < 10_000 else large(x))
    axis.set_minor_formatter(NullFormatter())


def draw_curve(axis, curve: Curve) -> None:
    """Draw a line with a mark at each point, and its spread as an area; lines of the paper are dashed."""
    style = "--" if curve.from_paper else "-"
    (line,) = axis.plot(curve.x, curve.y, style, marker=".", markersize=4, linewidth=1.2, label=curve.label)
    if curve.ends:
        axis.fill_between(curve.x, *np.array(curve.ends, float).T, color=line.get_color(), alpha=0.15, linewidth=0)


def draw_bars(axis, chart: Chart) -> None:
    """Draw groups of bars side by side, one group for each name, with their spread; bars of the paper are hatched."""
    names = list(chart.curves[0].x)
    width = 0.8 / len(chart.curves)
    for place, curve in enumerate(chart.curves):
        left = np.arange(len(names)) + (place - (len(chart.curves) - 1) / 2) * width
        style = {"color": "0.85", "edgecolor": "0.4", "hatch": "//"} if curve.from_paper else {}
        axis.bar(left, curve.y, width, label=curve.label, **style)
        heights, ends = np.array(curve.y, float), np.array(curve.ends, float).reshape(-1, 2)
        several = np.flatnonzero(ends[:, 0] != ends[:, 1])
        if len(several):
            lines = np.abs(ends[several] - heights[several, None]).T
            axis.errorbar(left[several], heights[several], lines, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    longest = max(map(len, names))
    rotation = 30 if longest * len(names) > 40 else 0
    axis.set_xticks(np.arange(len(names)), names, rotation=rotation, ha="right" if rotation else "center", fontsize=8)


# --- the page ---


def read_results(folder: Path) -> dict[str, dict]:
    """Return the records in a folder by the names of their figures; values that were not reached are NaN."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    for record in records.values():
        measured = record["measured"]
        measured["values"] = {label: reached(value) for label, value in measured["values"].items()}
        measured["spread"] = {label: [*map(reached, ends)] for label, ends in measured["spread"].items()}
    return records


def reached(value: float | None) -> float:
    """Return a value of a record, or NaN."""
    return math.nan if value is None else value


def verdicts_of(figure: Figure, record: Mapping[str, dict] | None) -> list[Verdict]:
    """Return what a record says about the claims of its figure."""
    measured = record["measured"] if record else {"values": {}, "spread": {}}
    return figure.verdicts(measured["values"], measured["spread"])


def write_page(
    path: Path,
    results: Mapping[str, dict],
    figures: Mapping[str, Figure],
    left_out: Mapping[str, str],
    explanation: str = "",
) -> None:
    """Write a page with the records of all figures, and with those that are left out.

    ``explanation`` is the address of the page that explains the papers; without one there is no link.
    """
    sections = []
    for key, title in PAPERS.items():
        entries = [entry_of(one, results.get(name)) for name, one in figures.items() if name.startswith(f"{key}-")]
        reasons = {name: reason for name, reason in left_out.items() if name.startswith(f"{key}-")}
        sections.append({"key": key, "title": title, "entries": entries, "not_measured": reasons})
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = with_code
    environment.filters["short"] = short
    text = environment.get_template("page.html.j2").render(
        sections=sections, kinds=KINDS, turns=TURNS, explanation=explanation
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_code(text: str) -> markupsafe.Markup:
    """Return text as HTML, with what stands between backticks as code."""
    return markupsafe.Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(markupsafe.escape(text))))


#: How the explanation introduces a claim that is not true here.
OTHERWISE = {Ruling.FALSE: "Not so", Ruling.UNDECIDED: "Undecided"}


def summary(paper: str, records: Mapping[str, dict], figures: Mapping[str, Figure], page: str) -> str:
    """Return the claims about a paper as a table in Markdown; links go to ``page``."""
    lines = ["| figure | holds here | does not hold here, or cannot be decided |", "|---|---|---|"]
    for name, figure in figures.items():
        if name.startswith(f"{paper}-") and figure.claims:
            verdicts = verdicts_of(figure, records.get(name))
            true = " ".join(one.claim.says for one in verdicts if one.ruling is Ruling.TRUE)
            others = " ".join(
                f"{OTHERWISE[one.ruling]}: “{one.claim.says}” *{one.evidence}.*"
                for one in verdicts
                if one.ruling in OTHERWISE
            )
            where = f'<a href="{page}#{name}">{short(name)}</a>: {figure.title}'
            lines.append(f"| {where} | {true if name in records else 'not measured yet'} | {others} |")
    return "\n".join(lines)


def short(name: str) -> str:
    """Return the number of a figure without its paper, such as "Figure 2.4"."""
    return name.split("-", 1)[1].replace("-", " ").capitalize()


def entry_of(figure: Figure, result: dict | None) -> dict:
    """Return the values of one figure for the template of the page."""
    if result is None:
        return {
            "figure": figure,
            "result": None,
            "rows": rows_of(figure, {}, {}),
            "verdicts": verdicts_of(figure, None),
        }
    run = run_of(result["simulated"], result["quick"])
    values, spread = result["measured"]["values"], result["measured"]["spread"]
    charts = [
        Chart(**chart | {"curves": [Curve(**c) for c in chart["curves"]]}) for chart in result["measured"]["charts"]
    ]
    charts += compared(figure, values, spread)
    return {
        "figure": figure,
        "result": result,
        "changed": sources.changed(figure.run, result["sources"]),
        "rows": rows_of(figure, values, spread, run),
        # Kernels that were simulated have exact counts, and no other values.
        "verdicts": verdicts_of(figure, None if run == "trial" else result),
        "picture": base64.b64encode(draw(charts)).decode() if charts else "",
    }
