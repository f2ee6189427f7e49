"""Numbers as people write them."""

import math

#: Measures whose underscore is part of the name.
MEASURES = ("c_v", "u_mass")


def format_number(number: float) -> str:
    """Write a number in at most four digits: 12.3 M, 4,321, 0.0123."""
    if not math.isfinite(number):
        return "–"
    for least, scale, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e5, 1e3, "k")):
        if abs(number) >= least:
            return f"{number / scale:.3g} {unit}"
    return f"{number:,.0f}" if abs(number) >= 1000 or number == int(number) else f"{number:.4g}"


def pluralize(number: int, noun: str) -> str:
    """Write how many there are: 1 chunk, 1,234 chunks."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def label(name: str) -> str:
    """Write a key as people say it: training seconds, held-out loss, coherence c_v."""
    kept = next((measure for measure in MEASURES if f"_{name}".endswith(f"_{measure}")), "")
    return name.removesuffix(kept).replace("held_out_", "held-out ").replace("_", " ") + kept


def with_minus_sign(number: str) -> str:
    """Write a negative number with a minus sign, which is as wide as the digits."""
    return number.replace("-", "\u2212")


def format_duration(seconds: float) -> str:
    """Write a duration as people do: 0.4 s, 12 s, 3 min 5 s, 5 min, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
