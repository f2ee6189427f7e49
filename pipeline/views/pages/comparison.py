"""The HTML report that compares two runs or models: final figures, curves, and the settings that differ."""

from collections.abc import Mapping, Sequence

from ...formatting import MINUS_SIGN, capitalize, format_duration, format_number, label, with_minus_sign
from ..history import MetricRow, last_value, median_speed, metric_points, model_metrics, perplexity, summary_metrics
from .charts import Chart, build_chart
from .page import Contents, Settings, Table, flatten, render_template

_LIKELIHOODS = {
    "held_out_log_likelihood": "Held-out log-likelihood per token",
    "log_likelihood": "Training log-likelihood per token",
}
#: In place of a value that only the other one has.
_MISSING = "–"


def render_comparison(both: Mapping[str, Contents]) -> str:
    """Return the report as HTML. ``both`` has the contents of two runs or models by their paths."""
    names = list(both)
    left, right = both.values()
    version = max(left.versions.get("corpusmill", ""), right.versions.get("corpusmill", ""))
    values = {
        "title": f"{names[0]} and {names[1]}",
        "lead": " | ".join(dict.fromkeys(f"{contents.title}: {contents.lead}" for contents in both.values())),
        "version": version,
        "figures": Table("Final figures", [*names, "change"], _figure_rows(figures(left.rows), figures(right.rows))),
        "charts": _charts(both),
        "settings": Table("Settings that differ", names, _differing_settings(left.config, right.config)),
        "versions": Table("Versions that differ", names, _differences(left.versions, right.versions)),
        "configs": {name: contents.config for name, contents in both.items()},
    }
    return render_template("comparison.html.j2", values)


# --- figures ---


def figures(rows: Sequence[MetricRow]) -> dict[str, float]:
    """Return the final metrics of a run by name: first how good the model is, then what training took."""
    found: dict[str, float] = {}
    for name in (*_LIKELIHOODS, *summary_metrics(rows)):
        value = last_value(rows, name)
        if value is not None:
            found[name] = value
            if name == "held_out_log_likelihood":
                found["held_out_perplexity"] = perplexity(value)
    if rows:
        found["epochs"] = float(rows[-1]["epoch"])
    # The versions of a retrained model record neither times nor speed.
    seconds = last_value(rows, "training_seconds")
    if seconds is not None:
        found["training_seconds"] = seconds
    speed = median_speed(rows)
    if speed is not None:
        found["tokens_per_second"] = speed
    return found


def _figure_rows(left: Mapping[str, float], right: Mapping[str, float]) -> dict[str, list[str]]:
    rows = {}
    for name in {**left, **right}:
        cells = [_format_value(name, found[name]) if name in found else _MISSING for found in (left, right)]
        change = ""
        if name in left and name in right:
            difference = right[name] - left[name]
            change = (MINUS_SIGN if difference < 0 else "+") + _format_value(name, abs(difference))
        rows[_heading(name)] = [*cells, change]
    return rows


def _format_value(name: str, value: float) -> str:
    if name == "training_seconds":
        return format_duration(value)
    if abs(value) < 100 and value != int(value):
        return with_minus_sign(f"{value:.4f}")
    return with_minus_sign(format_number(value))


def _heading(name: str) -> str:
    return _LIKELIHOODS.get(name) or capitalize(label(name))


# --- curves ---


def _charts(both: Mapping[str, Contents]) -> list[Chart]:
    names = list(_LIKELIHOODS)
    names += sorted({name for contents in both.values() for name in model_metrics(contents.rows)})
    charts = [build_chart(_heading(name), _curves(both, name)) for name in names]
    charts.append(build_chart("Tokens per second", _curves(both, "tokens_per_second"), from_zero=True))
    return [chart for chart in charts if chart is not None]


def _curves(both: Mapping[str, Contents], metric: str) -> dict[str, list[tuple[float, float]]]:
    return {name: metric_points(contents.rows, metric) for name, contents in both.items()}


# --- settings ---


def _differing_settings(left: Settings, right: Settings) -> dict[str, list[str]]:
    """Return the settings that differ, by dotted key, those of the model first."""
    # A saved model has only the section of its parameters, a run has all. Compare the sections that both have.
    sections = [name for name in {**left, **right} if name in left and name in right]
    if not sections:
        sections = list({**left, **right})
    found = _differences(*(flatten({name: each[name] for name in sections if name in each}) for each in (left, right)))
    return dict(sorted(found.items(), key=lambda item: not item[0].startswith("model.")))


def _differences(left: Mapping[str, object], right: Mapping[str, object]) -> dict[str, list[str]]:
    """Return both values of each key whose values differ."""
    keys = {**left, **right}
    return {
        key: [str(values.get(key, _MISSING)) for values in (left, right)]
        for key in keys
        if left.get(key) != right.get(key)
    }
