"""Claims of a page: sentences that stand there as true, as false or as undecided, as the measured values decide.

A condition compares labels of values, numbers, and multiples of labels, with "<" or ">". With "is", the value must have
the digits of a number:

    tiles minus sequential < 0.01
    best T by equation 11 is 15.48
    G1, ns per token < 0.8 times G0, ns per token
    -0.01 < *: tiles minus sequential < 0.01

A "*" in one label stands for any text. The condition must then hold for every label that it fits.

A value that was measured several times has a spread, from the smallest to the largest. A comparison whose result
would be another one for other values of the spreads cannot be decided.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import chain, pairwise, product
from typing import NamedTuple

SIGN = re.compile(r" (<|>|is) ")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
MULTIPLE = re.compile(r"(?P<factor>[\d.]+) times (?P<label>.+)")
WORDS = {"<": "below", ">": "above", "is": "equal to"}
MIRRORED = {"<": ">", ">": "<", "is": "is"}
#: What stands in the place of a value that is NaN.
NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Claim:
    """A sentence, and the conditions under which it is true."""

    says: str
    when: tuple[str, ...]


class Ruling(StrEnum):
    """What values say about a claim, as the beginning of its sentence."""

    TRUE = ""
    FALSE = "Does not hold here: "
    UNDECIDED = "Cannot be decided here: "
    MISSING = "Not measured: "


@dataclass(frozen=True)
class Verdict:
    """What values say about a claim."""

    claim: Claim
    ruling: Ruling
    evidence: str  # the values, and their distance from the limit if it does not hold

    @property
    def sentence(self) -> str:
        """The sentence that a page shows."""
        evidence = f" ({self.evidence}.)" if self.evidence else ""
        return f"{self.ruling}{self.claim.says}{evidence}"


class Range(NamedTuple):
    """The smallest, the middle and the largest of the values that one label had."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> "Range":
        """Return a multiple."""
        return Range(*sorted(factor * value for value in self))


@dataclass(frozen=True)
class Comparison:
    """A value and its limit."""

    subject: str  # the label of the value
    value: Range
    sign: str  # "<", ">" or "is"
    limit: Range
    limit_text: str  # a number, or a label and its value

    @property
    def holds(self) -> bool | None:
        """Whether the value is on the right side of the limit; None if that depends on where in the spread they are."""
        (first, *others) = {self.compare(value, limit) for value, limit in product(self.value, self.limit)}
        return None if others else first

    def compare(self, value: float, limit: float) -> bool:
        """Return whether a value is on the right side of a limit, or equal in the digits that the limit has."""
        # Values of NumPy would give truths of NumPy, which are neither `True` nor `False`.
        if self.sign == "is":
            _, _, decimals = self.limit_text.replace(",", "").partition(".")
            return bool(abs(value - limit) <= 0.5000001 * 10.0 ** -len(decimals))
        return bool(value < limit if self.sign == "<" else value > limit)

    @property
    def side(self) -> str:
        """The limit in words."""
        return f"{WORDS[self.sign]} {self.limit_text}"

    @property
    def distance(self) -> float:
        """How far the value is from its limit."""
        return abs(self.value.middle - self.limit.middle)

    @property
    def failure(self) -> str:
        """How far the value is from where it should be."""
        if math.isnan(self.distance):
            label = self.subject if math.isnan(self.value.middle) else self.limit_text.removesuffix(f", {NOT_REACHED}")
            return f"{label} was {NOT_REACHED}"
        return f"{self.subject} is {shown(self.value.middle)}, not {self.side}: it is off by {self.distance:.2g}"

    @property
    def doubt(self) -> str:
        """How large the spread is that the comparison is lost in."""
        spread = self.value.high - self.value.low + self.limit.high - self.limit.low
        if math.isnan(spread):
            return f"{self.subject} was not reached in every run"
        return (
            f"{self.subject} is {shown(self.value.middle)}, and the limit is {self.limit_text}: the difference of "
            f"{self.distance:.2g} lies within the spread of {spread:.2g}"
        )


def judge(claim: Claim, values: Mapping[str, float], spread: Mapping[str, Sequence[float]]) -> Verdict:
    """Return what these values say about a claim. ``spread`` has the ends of ranges by label."""
    ranges = {label: Range(value, value, value) for label, value in values.items()}
    ranges |= {label: Range(low, values[label], high) for label, (low, high) in spread.items()}
    try:
        found = [list(comparisons(condition, ranges)) for condition in claim.when]
    except KeyError:
        return Verdict(claim, Ruling.MISSING, "")
    failures = [one.failure for one in chain(*found) if one.holds is False]
    if failures:
        return Verdict(claim, Ruling.FALSE, "; ".join(failures))
    doubts = [one.doubt for one in chain(*found) if one.holds is None]
    if doubts:
        return Verdict(claim, Ruling.UNDECIDED, "; ".join(doubts))
    evidence = ["; ".join(evidence_of(*pair)) for pair in zip(claim.when, found, strict=True)]
    return Verdict(claim, Ruling.TRUE, "; ".join(evidence))


def evidence_of(condition: str, found: list[Comparison]) -> Iterator[str]:
    """Yield the values of a condition that holds, each with its limits; of several labels the range."""
    pattern = next((operand for operand in SIGN.split(condition) if "*" in operand), "")
    several = len({one.subject for one in found}) > 1 and pattern
    groups: dict[str, list[Comparison]] = {}
    for one in found:
        groups.setdefault(pattern if several else one.subject, []).append(one)
    for name, group in groups.items():
        middles = [one.value.middle for one in group]
        low, high = min(middles), max(middles)
        who = f"all of “{name.removeprefix('*: ').replace('*', '…')}” are" if several else f"{name} is"
        where = f"from {shown(low)} to {shown(high)}" if high > low else shown(low)
        yield f"{who} {where}, {' and '.join(dict.fromkeys(one.side for one in group))}"


def comparisons(condition: str, values: Mapping[str, Range]) -> Iterator[Comparison]:
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


def limit_of(operand: str, values: Mapping[str, Range]) -> tuple[Range, str]:
    """Return the values of a number, a label or a multiple of a label, and how they are shown."""
    if NUMBER.fullmatch(operand):
        number = float(operand)
        return Range(number, number, number), f"{number:,.{len(operand.partition('.')[2])}f}"
    multiple = MULTIPLE.fullmatch(operand)
    limit = values[multiple["label"]].times(float(multiple["factor"])) if multiple else values[operand]
    return limit, f"{operand}, {shown(limit.middle)}"


def fits(label: str, pattern: str) -> bool:
    """Return whether a label has the form of a pattern, in which only "*" is special."""
    return fnmatchcase(label, pattern.replace("[", "[[]").replace("?", "[?]"))


def shown(value: float) -> str:
    """Return a value with four digits; large ones without decimals."""
    if math.isnan(value):
        return NOT_REACHED
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
