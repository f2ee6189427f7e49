"""One self-contained HTML page about a run: numbers, curves, topics, configuration. No external resource.

Words, paths and settings come from elsewhere, so everything is escaped on its way into the page.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from string import Template
from typing import Any

import yaml

from ...formatting import format_duration, format_number, label, with_minus_sign
from ..history import METRIC_LABELS, MetricRow, Points, last_value, likelihood_names, metric_points, model_metrics

#: Topics shown, the largest ones.
MOST_TOPICS = 200
HUES = ("var(--one)", "var(--two)", "var(--three)")


@dataclass(frozen=True)
class Contents:
    """What a report shows. ``rows`` are those of metrics.jsonl, ``topics`` those of an estimator's ``topics()``."""

    title: str
    lead: str
    rows: Sequence[MetricRow]
    topics: Sequence[dict[str, Any]] = ()
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def render(contents: Contents) -> str:
    """Return the page."""
    return page(
        title=contents.title,
        lead=contents.lead,
        summary=f'<section class="tiles" aria-label="Summary">{_tiles(contents)}</section>',
        body=_training(contents.rows) + _topics(contents.topics),
        made=details("Configuration", contents.config) + details("Versions", contents.versions),
        version=contents.versions.get("corpusmill", ""),
    )


def page(title: str, lead: str, version: str, summary: str, body: str, made: str) -> str:
    """Return a page of plain text and of markup: a summary, the body, and how it was made."""
    template = Template(resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    plain = {"title": escape(title), "lead": escape(lead), "version": escape(version)}
    return template.substitute(plain, summary=summary, body=body, made=made)


# --- summary ---


def _tiles(contents: Contents) -> str:
    rows = contents.rows
    if not rows:
        return _tile("0", "epochs", "nothing is committed yet")
    tiles = []
    held_out = last_value(rows, "held_out_log_likelihood")
    if held_out is not None:
        perplexity = f"perplexity {format_number(math.exp(min(-held_out, 700)))}"
        tiles.append(_tile(with_minus_sign(f"{held_out:.4f}"), "held-out log-likelihood per token", perplexity))
    trained = last_value(rows, "log_likelihood")
    if trained is not None:
        tiles.append(_tile(with_minus_sign(f"{trained:.4f}"), "training log-likelihood per token"))
    for name in model_metrics(rows):
        tiles.append(_tile(format_number(metric_points(rows, name)[-1][1]), label(name)))
    rates = sorted(r["tokens_per_second"] for r in rows if "tokens_per_second" in r)
    if rates:
        tiles.append(_tile(format_number(rates[len(rates) // 2]), "tokens per second", "the median epoch"))
    # Versions of a retrained model keep no time.
    seconds = last_value(rows, "training_seconds")
    tiles.append(
        _tile(format_number(rows[-1]["epoch"]), "epochs", "" if seconds is None else f"in {format_duration(seconds)}")
    )
    if contents.topics:
        tiles.append(_tile(format_number(len(contents.topics)), "topics"))
    return "".join(tiles)


def _tile(value: str, name: str, note: str = "") -> str:
    return f'<div class="card tile"><b>{escape(value)}</b><span>{escape(name)}</span><i>{escape(note)}</i></div>'


# --- curves ---


def _training(rows: Sequence[MetricRow]) -> str:
    if not rows:
        return ""
    shown = [_convergence(rows), *_others(rows), _throughput(rows)]
    return f'<h2>Training</h2><section class="charts">{"".join(shown)}</section>{_time_split(rows)}'


def _convergence(rows: Sequence[MetricRow]) -> str:
    names = likelihood_names(rows)
    return chart("Log-likelihood per token", {METRIC_LABELS[n]: metric_points(rows, n) for n in names}) if names else ""


def _throughput(rows: Sequence[MetricRow]) -> str:
    return chart("Tokens per second", {"tokens/s": metric_points(rows, "tokens_per_second")}, from_zero=True)


def _others(rows: Sequence[MetricRow]) -> Iterable[str]:
    """Charts of what else the model measured."""
    for name in model_metrics(rows):
        title = label(name)
        yield chart(title[0].upper() + title[1:], {title: metric_points(rows, name)})


def chart(title: str, curves: dict[str, Points], from_zero: bool = False) -> str:
    """Return one chart: lines in an SVG that stretches, labels in HTML that do not."""
    curves = {name: found for name, found in curves.items() if found}
    if not curves:
        return ""
    xs = [x for found in curves.values() for x, _ in found]
    ys = [y for found in curves.values() for _, y in found]
    ticks = nice_ticks(0.0 if from_zero else min(ys), max(ys))
    low, high, first, final = ticks[0], ticks[-1], min(xs), max(xs)

    def place(x: float, y: float) -> str:
        across = (x - first) / (final - first) * 100 if final > first else 50.0
        return f"{across:.2f},{100 - (y - low) / (high - low) * 100:.2f}"

    drawn = []
    for hue, found in zip(HUES, curves.values(), strict=False):
        path = " ".join(place(x, y) for x, y in found)
        if from_zero:
            drawn.append(
                f'<polygon style="--hue:{hue}" points="{place(found[0][0], 0)} {path} {place(found[-1][0], 0)}"/>'
            )
        drawn.append(f'<polyline style="--hue:{hue}" points="{path}"/>')
    hover = [{"name": n, "points": [(x, y, _precise(y)) for x, y in found]} for n, found in curves.items()]
    return (
        f'<figure class="card chart"><h3>{escape(title)} <small>by epoch</small></h3>{_legend(list(curves))}'
        f'<div class="plot" data-span="{escape(json.dumps([first, final]))}" data-curves="{escape(json.dumps(hover))}">'
        f"{_axes(ticks, first, final)}"
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{escape(title)} over epochs">'
        f"{''.join(drawn)}</svg></div></figure>"
    )


def _precise(y: float) -> str:
    return with_minus_sign(f"{y:.4f}") if abs(y) < 1000 else format_number(y)


def _legend(names: Sequence[str], notes: Sequence[str] = ()) -> str:
    shown = [
        f'<span style="--hue:{hue}">{escape(name)} {escape(note)}</span>'
        for hue, name, note in zip(HUES, names, notes or [""] * len(names), strict=False)
    ]
    return f'<div class="legend">{"".join(shown)}</div>'


def _axes(ticks: Sequence[float], first: float, final: float) -> str:
    low, high = ticks[0], ticks[-1]
    digits = next(d for d in range(17) if math.isclose(round(ticks[1] - ticks[0], d), ticks[1] - ticks[0]))
    parts = []
    for tick in ticks:
        top = f"top:{100 - (tick - low) / (high - low) * 100:.2f}%"
        text = format_number(tick) if abs(high) >= 1000 else with_minus_sign(f"{tick:.{digits}f}")
        parts.append(f'<div class="rule" style="{top}"></div><div class="tick y" style="{top}">{text}</div>')
    # Epochs are whole, and the last label needs some room.
    marks = {round(t) for t in nice_ticks(first, final)} if final > first else set()
    inner = sorted(t for t in marks if first < t < final - 0.06 * (final - first))
    for tick in [first, *inner, final] if final > first else [first]:
        left = (tick - first) / (final - first) * 100 if final > first else 50
        if tick in (first, final) or left > 5:
            end = " end" if tick == final else ""
            parts.append(f'<div class="tick x{end}" style="left:{left:.2f}%">{tick:.0f}</div>')
    return "".join(parts)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return about ``wanted`` evenly spaced round numbers that enclose ``low`` and ``high``."""
    if high <= low:
        high = low + (abs(low) * 0.1 or 1.0)
    raw = (high - low) / wanted
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw)
    start = math.floor(low / step + 1e-9)
    end = math.ceil(high / step - 1e-9)
    return [i * step for i in range(start, end + 1)]


def _time_split(rows: Sequence[MetricRow]) -> str:
    causes = ("seconds_kernel", "seconds_read", "seconds_write")
    sums = [sum(float(row.get(cause, 0.0)) for row in rows) for cause in causes]
    whole = sum(float(row.get("seconds", 0.0)) for row in rows)
    merge = sum(float(row.get("seconds_merge", 0.0)) for row in rows)
    bars = [
        _bar("Where the workers' time went", [METRIC_LABELS[c] for c in causes], sums),
        _bar("Where the epochs' time went", ["sweeping", "merging and applying"], [max(0.0, whole - merge), merge]),
    ]
    return f'<section class="card split">{"".join(bars)}</section>' if whole > 0 else ""


def _bar(title: str, names: Sequence[str], seconds: Sequence[float]) -> str:
    total = sum(seconds) or 1.0
    pieces = [f'<i style="--hue:{h};width:{s / total:.2%}"></i>' for h, s in zip(HUES, seconds, strict=False)]
    notes = [f"{s / total:.0%} · {format_duration(s)}" for s in seconds]
    return f'<div><h3>{escape(title)}</h3><div class="bar">{"".join(pieces)}</div>{_legend(names, notes)}</div>'


# --- topics and settings ---


def _topics(topics: Sequence[dict[str, Any]]) -> str:
    if not topics:
        return ""
    ranked = sorted(topics, key=lambda t: -t["size"])[:MOST_TOPICS]
    largest = ranked[0]["size"] or 1.0
    note = "largest first, with each word's weight"
    if len(topics) > len(ranked):
        note = f"the {len(ranked)} largest of {len(topics):,}"
    cards = "".join(_topic(topic, topic["size"] / largest) for topic in ranked)
    return (
        f'<div class="find"><h2>Topics<small>{note}</small></h2>'
        f'<input type="search" placeholder="Find a word" aria-label="Find a word in the topics"></div>'
        f'<section class="topics">{cards}</section>'
    )


def _topic(topic: dict[str, Any], share: float) -> str:
    weights = [w.get("probability", w.get("weight", 0.0)) for w in topic["words"]]
    best = max(weights, default=1.0) or 1.0
    lines = "".join(
        f'<li style="--w:{weight / best:.1%}"><span>{escape(w["word"])}</span>'
        f"<i>{f'{weight:.2%}' if 'probability' in w else format_number(weight)}</i></li>"
        for w, weight in zip(topic["words"], weights, strict=True)
    )
    return (
        f'<article class="card topic"><header><b>Topic {topic["topic"]}</b>'
        f"<span>{topic['size']:.1%} of the whole</span></header>"
        f'<div class="bar"><i style="--hue:var(--one);width:{share:.1%}"></i></div><ol>{lines}</ol></article>'
    )


def details(title: str, values: dict[str, Any]) -> str:
    """Return settings that open on a click."""
    if not values:
        return ""
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return f'<details class="card"><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>'
