"""How edges are read: options, and names of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

#: Usual names of the columns of an edge's two nodes, in lower case.
_USUAL_NAMES = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("head", "tail"),
    ("source_id", "target_id"),
    ("from_id", "to_id"),
    ("from_node", "to_node"),
    ("user", "item"),
)


@dataclass(frozen=True)
class EdgeOptions:
    """How edges are read."""

    format: str = "auto"  # by the file's extension; a file with any other extension is a list of edges
    directed: bool = False
    weighted: bool | None = None  # False ignores weights; None uses weights if there are any
    header: bool | None = None  # whether the first line of a list names its columns; None: found out
    source: str | None = None  # Parquet column of an edge's first node; None: by a usual name, or the first column
    target: str | None = None  # Parquet column of an edge's second node; None: by a usual name, or the second column
    weight: str = "weight"  # Parquet column, or attribute of networkx's edges, of the weights, if it exists


def usual_columns(names: Sequence[str]) -> list[int] | None:
    """Return the positions of an edge's two nodes, and of its weight if there is one, among the names of columns.

    None unless the columns of the nodes have usual names.
    """
    positions = {name.lower(): position for position, name in enumerate(names)}
    for pair in _USUAL_NAMES:
        if all(name in positions for name in pair):
            return [positions[name] for name in (*pair, "weight") if name in positions]
    return None
