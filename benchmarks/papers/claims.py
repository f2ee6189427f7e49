"""Claims of a page: sentences that stand there as true or as false, as the measured values decide.

A condition compares labels of values, numbers, and multiples of labels, with "<" or ">". With "is", the value must have
the digits of a number:

    tiles minus sequential < 0.01
    best T by equation 11 is 15.48
    G1, ns per token < 0.8 times G0, ns per token
    -0.01 < *: tiles minus sequential < 0.01

A "*" in one label stands for any text. The condition must then hold for every label that it fits.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, pairwise

SIGN = re.compile(r" (<|>|is) ")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
MULTIPLE = re.compile(r"(?P<factor>[\d.]+) times (?P<label>.+)")
WORDS = {"<": "below", ">": "above", "is": "equal to"}
MIRRORED = {"<": ">", ">": "<", "is": "is"}


@dataclass(frozen=True)
class Claim:
    """A sentence, and the conditions under which it is true."""

    says: str
    when: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What values say about a claim."""

    claim: Claim
    holds: bool | None  # None if values that it needs were not measured
    evidence: str  # the values, and their distance from the limit if it does not hold

    @property
    def sentence(self) -> str:
        """The sentence that a page shows."""
        if self.holds is None:
            return f"Not measured: {self.claim.says}"
        start = "" if self.holds else "Does not hold here: "
        return f"{start}{self.claim.says} ({self.evidence}.)"


@dataclass(frozen=True)
class Comparison:
    """A value and its limit."""

    subject: str  # the label of the value
    value: float
    sign: str  # "<", ">" or "is"
    limit: float
    limit_text: str  # a number, or a label and its value

    @property
    def holds(self) -> bool:
        """Whether the value is on the right side of the limit, or equal in the digits that the limit has."""
        if self.sign == "is":
            _, _, decimals = self.limit_text.replace(",", "").partition(".")
            return abs(self.value - self.limit) <= 0.5000001 * 10.0 ** -len(decimals)
        return self.value < self.limit if self.sign == "<" else self.value > self.limit

    @property
    def side(self) -> str:
        """The limit in words."""
        return f"{WORDS[self.sign]} {self.limit_text}"

    @property
    def failure(self) -> str:
        """How far the value is from where it should be."""
        distance = abs(self.value - self.limit)
        by_how_much = "" if math.isnan(distance) else f": it is off by {distance:.2g}"
        return f"{self.subject} is {shown(self.value)}, not {self.side}{by_how_much}"


def judge(claim: Claim, values: Mapping[str, float]) -> Verdict:
    """Return whether a claim holds for these values."""
    try:
        found = [list(comparisons(condition, values)) for condition in claim.when]
    except KeyError:
        return Verdict(claim, None, "")
    failures = [one.failure for one in chain(*found) if not one.holds]
    if failures:
        return Verdict(claim, False, "; ".join(failures))
    evidence = ["; ".join(evidence_of(*pair)) for pair in zip(claim.when, found, strict=True)]
    return Verdict(claim, True, "; ".join(evidence))


def evidence_of(condition: str, found: list[Comparison]) -> Iterator[str]:
    """Yield the values of a condition that holds, each with its limits; of several labels the range."""
    pattern = next((operand for operand in SIGN.split(condition) if "*" in operand), "")
    several = len({one.subject for one in found}) > 1 and pattern
    groups: dict[str, list[Comparison]] = {}
    for one in found:
        groups.setdefault(pattern if several else one.subject, []).append(one)
    for name, group in groups.items():
        low, high = min(one.value for one in group), max(one.value for one in group)
        who = f"all of “{name.removeprefix('*: ').replace('*', '…')}” are" if several else f"{name} is"
        where = f"from {shown(low)} to {shown(high)}" if high > low else shown(low)
        yield f"{who} {where}, {' and '.join(dict.fromkeys(one.side for one in group))}"


def comparisons(condition: str, values: Mapping[str, float]) -> Iterator[Comparison]:
    """Yield the comparisons of a condition. Raises KeyError if no value has one of its labels."""
    parts = SIGN.split(condition)
    operands, signs = parts[::2], parts[1::2]
    if not signs:
        raise ValueError(f"{condition!r} compares nothing: write ' < ', ' > ' or ' is ' between two values")
    pattern = next((operand for operand in operands if "*" in operand), None)
    labels = [label for label in values if pattern and fits(label, pattern)]
    if pattern and not labels:
        raise KeyError(pattern)
    for label in labels or [""]:
        fitting = [label if operand == pattern else operand for operand in operands]
        for (left, right), sign in zip(pairwise(fitting), signs, strict=True):
            # The subject is the side with the star, or else the one that is a label.
            if left not in values or (pattern and right == label):
                left, right, sign = right, left, MIRRORED[sign]
            yield Comparison(left, values[left], sign, *limit_of(right, values))


def limit_of(operand: str, values: Mapping[str, float]) -> tuple[float, str]:
    """Return the value of a number, a label or a multiple of a label, and how it is shown."""
    if NUMBER.fullmatch(operand):
        return float(operand), f"{float(operand):,.{len(operand.partition('.')[2])}f}"
    multiple = MULTIPLE.fullmatch(operand)
    limit = float(multiple["factor"]) * values[multiple["label"]] if multiple else values[operand]
    return limit, f"{operand}, {shown(limit)}"


def fits(label: str, pattern: str) -> bool:
    """Return whether a label has the form of a pattern, in which only "*" is special."""
    return fnmatchcase(label, pattern.replace("[", "[[]").replace("?", "[?]"))


def shown(value: float) -> str:
    """Return a value with four digits; large ones without decimals."""
    if math.isnan(value):
        return "not a number"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
