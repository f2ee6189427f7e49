"""One page about two runs or models: final figures side by side, curves overlaid, and the settings that differ."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ...formatting import format_duration, format_number, label, with_minus_sign
from ..history import METRIC_LABELS, MetricRow, last_value, metric_points, model_metrics
from .render import Contents, chart, details, page

LIKELIHOODS = {
    "held_out_log_likelihood": "Held-out log-likelihood per token",
    "log_likelihood": "Training log-likelihood per token",
}


def render_both(both: Mapping[str, Contents]) -> str:
    """Return the page of two contents, named by where they are."""
    names, contents = list(both), list(both.values())
    newest = max((c.versions for c in contents), key=lambda v: v.get("corpusmill", ""))
    found = {name: _flat(c.config) for name, c in both.items()}
    differing = _differing(list(found.values()), within=_sections(contents))
    versions = _differing([c.versions for c in contents], within=set())
    return page(
        title=f"{names[0]} and {names[1]}",
        lead=" | ".join(dict.fromkeys(f"{c.title}: {c.lead}" for c in contents)),
        version=newest.get("corpusmill", ""),
        summary=_figures(names, contents),
        body=_curves(both)
        + _table("Settings that differ", names, differing)
        + (_table("Versions that differ", names, versions) if versions else ""),
        made="".join(details(f"Configuration of {name}", c.config) for name, c in both.items()),
    )


# --- figures ---


def figures(rows: Sequence[MetricRow]) -> dict[str, float]:
    """Return what a run came to, by name: how good the model is, then what it took."""
    found = {
        name: value for name in (*LIKELIHOODS, *model_metrics(rows)) if (value := last_value(rows, name)) is not None
    }
    held_out = found.get("held_out_log_likelihood")
    if held_out is not None:  # beside each other
        both = {"held_out_log_likelihood": held_out, "held_out_perplexity": math.exp(min(-held_out, 700.0))}
        found = both | found
    if rows:
        found["epochs"] = float(rows[-1]["epoch"])
    # Versions of a retrained model keep nothing that was measured of a machine.
    if (seconds := last_value(rows, "training_seconds")) is not None:
        found["training_seconds"] = seconds
    rates = sorted(float(row["tokens_per_second"]) for row in rows if "tokens_per_second" in row)
    return found | ({"tokens_per_second": rates[len(rates) // 2]} if rates else {})


def _figures(names: Sequence[str], contents: Sequence[Contents]) -> str:
    left, right = (figures(c.rows) for c in contents)
    rows = []
    for name in {**left, **right}:
        values = [found.get(name) for found in (left, right)]
        change = _said(name, values[1] - values[0], "+") if values[0] is not None and values[1] is not None else ""
        rows.append((_label(name), *(_said(name, v) if v is not None else "–" for v in values), change))
    return _table("Final figures", [*names, "change"], {heading: cells for heading, *cells in rows})


def _said(name: str, value: float, sign: str = "") -> str:
    if name == "training_seconds":
        return ("−" if value < 0 else sign) + format_duration(abs(value))
    text = f"{value:.4f}" if abs(value) < 100 and value != int(value) else format_number(value)
    return with_minus_sign(text if value < 0 else sign + text)


def _label(name: str) -> str:
    return LIKELIHOODS.get(name) or METRIC_LABELS.get(name) or label(name).capitalize()


# --- curves ---


def _curves(both: Mapping[str, Contents]) -> str:
    names = [n for n in LIKELIHOODS if any(last_value(c.rows, n) is not None for c in both.values())]
    names += sorted({n for c in both.values() for n in model_metrics(c.rows)})
    charts = [chart(_label(n), {url: metric_points(c.rows, n) for url, c in both.items()}) for n in names]
    rates = {url: metric_points(c.rows, "tokens_per_second") for url, c in both.items()}
    charts.append(chart("Tokens per second", rates, from_zero=True))
    return f'<h2>Training</h2><section class="charts">{"".join(charts)}</section>' if any(charts) else ""


# --- settings ---


def _flat(tree: Any, above: str = "") -> dict[str, Any]:
    """Turn sections into dotted keys."""
    if not isinstance(tree, dict):
        return {above: tree}
    return {k: v for name, below in tree.items() for k, v in _flat(below, f"{above}.{name}" if above else name).items()}


def _sections(contents: Sequence[Contents]) -> set[str]:
    """Sections that both have: a model knows its own parameters alone, a run knows all."""
    left, right = (set(c.config) for c in contents)
    return left & right


def _differing(found: Sequence[dict[str, Any]], within: set[str]) -> dict[str, list[str]]:
    every = sorted({**found[0], **found[1]}, key=lambda key: not key.startswith("model."))
    keys = [k for k in every if not within or k.partition(".")[0] in within]
    return {k: [_shown(f, k) for f in found] for k in keys if found[0].get(k) != found[1].get(k)}


def _shown(found: dict[str, Any], key: str) -> str:
    return str(found[key]) if key in found else "–"


def _table(title: str, names: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    if not rows:
        return f'<h2>{escape(title)}</h2><p class="lead">None.</p>'
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th>{escape(heading)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for heading, cells in rows.items()
    )
    return f'<h2>{escape(title)}</h2><div class="card table"><table><tr><th></th>{head}</tr>{body}</table></div>'
