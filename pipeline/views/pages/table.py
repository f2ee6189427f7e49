"""A table of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table: rows of cells by heading, one cell per column."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]
