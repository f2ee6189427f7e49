"""Claims of a page: sentences that stand there as true or as false, as the measured values decide.

A condition compares labels of values, numbers, and multiples of labels, with "<" or ">":

    tiles minus sequential < 0.01
    G1, ns per token < 0.8 times G0, ns per token
    -0.01 < *: tiles minus sequential < 0.01

A "*" in one label stands for any text. The condition must then hold for every label that it fits.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

MULTIPLE = re.compile(r"(?P<factor>[\d.]+) times (?P<label>.+)")


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
    """Two sides of which one has a label."""

    subject: str
    value: float
    below: bool  # whether the value must be below the limit
    limit: float
    limit_label: str  # "" if the limit is a number

    @property
    def holds(self) -> bool:
        """Whether the value is on the right side of the limit."""
        return self.value < self.limit if self.below else self.value > self.limit

    @property
    def text(self) -> str:
        """The comparison in words."""
        side = "below" if self.below else "above"
        limit = f"{self.limit_label}, {self.limit:.4g}" if self.limit_label else f"{self.limit:g}"
        if self.holds:
            return f"{self.subject} is {self.value:.4g}, {side} {limit}"
        if math.isnan(self.value - self.limit):
            return f"{self.subject} is {self.value:.4g}, so not {side} {limit}"
        return (
            f"{self.subject} is {self.value:.4g}, not {side} {limit}: it is off by {abs(self.value - self.limit):.2g}"
        )


def judge(claim: Claim, values: Mapping[str, float]) -> Verdict:
    """Return whether a claim holds for these values."""
    try:
        found = [comparison for condition in claim.when for comparison in comparisons(condition, values)]
    except KeyError:
        return Verdict(claim, None, "")
    holds = all(one.holds for one in found)
    shown = [one.text for one in found if one.holds == holds]
    return Verdict(claim, holds, "; ".join(shown))


def comparisons(condition: str, values: Mapping[str, float]) -> Iterator[Comparison]:
    """Yield the comparisons of a condition. Raises KeyError if no value has one of its labels."""
    *sides, last = re.split(r" ([<>]) ", condition)
    operands = [*sides[::2], last]
    signs = sides[1::2]
    for fitting in expand(operands, values):
        for (left, right), sign in zip(pairwise(fitting), signs, strict=True):
            below = sign == "<"
            if is_number(left):
                left, right, below = right, left, not below
            is_multiple = MULTIPLE.fullmatch(right)
            label = "" if is_number(right) else right
            if is_multiple and is_multiple["label"] in values:
                limit = float(is_multiple["factor"]) * values[is_multiple["label"]]
            else:
                limit = float(right) if is_number(right) else values[right]
            yield Comparison(left, values[left], below, limit, label)


def expand(operands: list[str], values: Mapping[str, float]) -> Iterator[list[str]]:
    """Yield the operands once for each label that the one with a "*" fits; as they are without one."""
    patterns = [operand for operand in operands if "*" in operand]
    if not patterns:
        yield operands
        return
    (pattern,) = patterns
    labels = [label for label in values if fits(label, pattern)]
    if not labels:
        raise KeyError(pattern)
    for label in labels:
        yield [label if operand == pattern else operand for operand in operands]


def fits(label: str, pattern: str) -> bool:
    """Return whether a label has the form of a pattern, in which only "*" is special."""
    return fnmatchcase(label, pattern.replace("[", "[[]").replace("?", "[?]"))


def is_number(text: str) -> bool:
    """Return whether a side of a comparison is a number."""
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None
