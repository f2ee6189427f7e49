"""Files of a measured figure: values as JSON, a picture as SVG, a table as Markdown; and one page of all figures."""

import base64
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import jinja2
import numpy as np

from benchmarks.common import figure_grid
from benchmarks.papers.registry import Chart, Curve, Figure, Measured, compared

#: Titles of the papers by the first part of a figure's name, in the order of the page.
PAPERS = {
    "dissertation": "Moon, Parallel Algorithms for Machine Learning (dissertation, 2019)",
    "saberlda": "Li et al., SaberLDA (ASPLOS 2017)",
    "alo": "Moon et al., ALO-NMF (KDD 2020)",
    "fullw2v": "Randall et al., FULL-W2V (ICS 2021)",
    "ri": "Polok and Smrž, Implementing Random Indexing on GPU (2011)",
}
WIDTH = 5.4
HEIGHT = 3.8


@dataclass(frozen=True)
class Result:
    """One run of a figure."""

    parameters: dict[str, str]
    seconds: float
    cpu_seconds: float
    simulated: bool  # whether CUDA kernels ran on the CPU
    quick: bool  # whether the input was tiny
    measured: Measured


def write_figure(folder: Path, figure: Figure, result: Result) -> None:
    """Write the three files of a figure to the folder of results."""
    folder.mkdir(parents=True, exist_ok=True)
    content = asdict(result) | {
        "name": figure.name,
        "paper": dict(figure.paper),
        "machine": f"{processor()}, Python {platform.python_version()}",
        "date": date.today().isoformat(),
    }
    (folder / f"{figure.name}.json").write_text(json.dumps(content, indent=1, default=plain) + "\n")
    (folder / f"{figure.name}.md").write_text(f"# {figure.title}\n\n{table_of(figure, result.measured)}\n")
    charts = result.measured.charts + compared(figure, result.measured.values)
    if charts:
        draw(folder / f"{figure.name}.svg", charts)


def plain(value):
    """Return a number of NumPy as one of Python, for JSON."""
    return value.item() if isinstance(value, np.generic) else list(value)


def processor() -> str:
    """Return the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# --- tables ---


def rows_of(figure: Figure, values: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Return label, the paper's value and ours: first what the paper prints, then further values."""
    labels = list(figure.paper) + [label for label in values if label not in figure.paper]
    return [(label, number(figure.paper.get(label)), number(values.get(label))) for label in labels]


def number(value: float | str | None) -> str:
    """Return a value as text, with four digits; nothing for a missing value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value != value:
        return "not reached"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def table_of(figure: Figure, measured: Measured) -> str:
    """Return the table in Markdown."""
    unit = f" ({figure.unit})" if figure.unit else ""
    lines = [f"| {figure.name}{unit} | paper | ours |", "|---|---|---|"]
    lines += [f"| {label} | {paper} | {ours} |" for label, paper, ours in rows_of(figure, measured.values)]
    return "\n".join(lines)


# --- pictures ---


def draw(path: Path, charts: list[Chart]) -> None:
    """Draw the panels of a figure, at most three in a row."""
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("Agg")
    pyplot.rcParams.update({"svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False})
    # Without a salt, every run would give other names to the parts of the file.
    pyplot.rcParams["svg.hashsalt"] = "papers"
    columns = min(3, len(charts))
    figure, axes = figure_grid(-(-len(charts) // columns), columns, WIDTH, HEIGHT)
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
        if chart.y_log:
            axis.set_yscale("log")
            label_steps(axis.yaxis)
        axis.grid(alpha=0.25)
        if len(chart.curves) > 1 or chart.curves[0].label:
            axis.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def label_steps(axis) -> None:
    """Label 1, 2 and 5 times the powers of ten of a logarithmic axis, as plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def draw_curve(axis, curve: Curve) -> None:
    """Draw a line with a mark at each point; lines of the paper are dashed."""
    style = "--" if curve.from_paper else "-"
    axis.plot(curve.x, curve.y, style, marker=".", markersize=4, linewidth=1.2, label=curve.label)


def draw_bars(axis, chart: Chart) -> None:
    """Draw groups of bars side by side, one group for each name; bars of the paper are hatched."""
    names = list(chart.curves[0].x)
    width = 0.8 / len(chart.curves)
    for place, curve in enumerate(chart.curves):
        left = np.arange(len(names)) + (place - (len(chart.curves) - 1) / 2) * width
        if curve.from_paper:
            axis.bar(left, curve.y, width, label=curve.label, color="0.85", edgecolor="0.4", hatch="//")
        else:
            axis.bar(left, curve.y, width, label=curve.label)
    longest = max(map(len, names))
    rotation = 30 if longest * len(names) > 40 else 0
    axis.set_xticks(np.arange(len(names)), names, rotation=rotation, ha="right" if rotation else "center", fontsize=8)


# --- the page ---


def write_page(folder: Path, figures: Mapping[str, Figure], not_measured: Mapping[str, str]) -> Path:
    """Write index.html with all results in the folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for key, title in PAPERS.items():
        own = [entry_of(folder, figure) for name, figure in figures.items() if name.startswith(f"{key}-")]
        missing = {name: reason for name, reason in not_measured.items() if name.startswith(f"{key}-")}
        sections.append({"key": key, "title": title, "entries": own, "not_measured": missing})
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    path = folder / "index.html"
    path.write_text(environment.get_template("page.html.j2").render(sections=sections))
    return path


def entry_of(folder: Path, figure: Figure) -> dict:
    """Return the values of one figure for the template of the page."""
    entry = {"figure": figure, "result": None, "rows": rows_of(figure, {}), "picture": ""}
    stored = folder / f"{figure.name}.json"
    if stored.exists():
        result = json.loads(stored.read_text())
        entry |= {"result": result, "rows": rows_of(figure, result["measured"]["values"])}
        picture = folder / f"{figure.name}.svg"
        if picture.exists():
            entry["picture"] = base64.b64encode(picture.read_bytes()).decode()
    return entry
