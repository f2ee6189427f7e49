"""Write numbers, durations and names for people."""

import math
import re

#: A minus sign (U+2212), which is as wide as a digit. A hyphen is narrower.
MINUS_SIGN = "\u2212"
#: Coherence measures, whose names contain an underscore.
MEASURES = ("c_v", "u_mass")

#: Units of bytes, the largest first.
_BINARY_UNITS = {"PiB": 2**50, "TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "kiB": 2**10}
#: Control characters, and those that change the direction of text. An escape that begins a colour is none.
_CONTROLS = re.compile(r"(?!\x1b\[[0-9;]*m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def format_number(number: float) -> str:
    """Write a number with about four digits: 12.3 M, 4,321, 0.0123. Infinity and NaN are a dash."""
    if not math.isfinite(number):
        return "–"
    size = abs(number)
    if size >= 1e9:
        return f"{number / 1e9:.3g} G"
    if size >= 1e6:
        return f"{number / 1e6:.3g} M"
    # Up to here, all digits are written: 12,345 is easier to read than 12.3 k.
    if size >= 1e5:
        return f"{number / 1e3:.3g} k"
    if size >= 1000 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.4g}"


def format_score(number: float) -> str:
    """Write the value of a metric: four decimals below 1,000, and a short form such as 1.23 M from there on."""
    if abs(number) >= 1000:
        return format_number(number)
    return f"{number:.4f}"


def format_bytes(number: float) -> str:
    """Write a number of bytes with a binary unit, as Dask does: 12.30 MiB. The unit is GiB from 0.9 GiB on."""
    for name, size in _BINARY_UNITS.items():
        if number >= 0.9 * size:
            return f"{number / size:.2f} {name}"
    return f"{number} B"


def label(name: str) -> str:
    """Write a key in words: training seconds, held-out loss, coherence c_v, sum of alpha."""
    if name.endswith("_sum"):
        return f"sum of {label(name.removesuffix('_sum'))}"
    measure = ""
    for known in MEASURES:
        if name == known or name.endswith(f"_{known}"):
            measure = known
    words = (
        name.removesuffix(measure)
        .replace("held_out_", "held-out ")
        .replace("log_likelihood", "log-likelihood")
        .replace("_", " ")
    )
    return words + measure


def capitalize(text: str) -> str:
    """Write the first letter in upper case and leave the others as they are."""
    return text[:1].upper() + text[1:]


def model_title(kind: str) -> str:
    """Write the kind of a model as a title: LDA, NMF, Word2Vec, FastRP, Random indexing."""
    name = kind.replace("-", " ")
    return name.upper() if len(name) <= 3 else name.capitalize().replace("2vec", "2Vec").replace("rp", "RP")


def with_minus_sign(number: str) -> str:
    """Replace the hyphens of formatted numbers by minus signs."""
    return number.replace("-", MINUS_SIGN)


def format_duration(seconds: float) -> str:
    """Write a duration with its two largest units: 0.4 s, 12 s, 3 min 5 s, 5 min, 2 h 10 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def without_controls(text: str) -> str:
    """Replace characters that control a terminal by their escapes, except line feeds, tabs and colours."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
