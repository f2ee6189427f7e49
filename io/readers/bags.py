"""Functions that readers of counted words share: they read the words of the columns and parse whole numbers."""

import pyarrow as pa

from .batches import ReadOptions, as_text, check_names
from .source import Partition, find_files, line_blocks

#: The largest integer up to which floating-point numbers represent every integer.
MAX_COUNT = 1 << 53


def read_names(path: str | None) -> pa.Array | None:
    """Return the words of a vocabulary file, one per line; raise DataError if a word occurs twice."""
    if path is None:
        return None
    file = find_files(path)[0]
    lines: list[bytes] = []
    for data, _ in line_blocks(file, Partition(file)):
        lines += [line.strip() for line in data.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    words = as_text(pa.array(lines, pa.large_binary()), ReadOptions(), lambda row: f"{file.url}, line {row + 1}")
    return check_names(words.to_pylist(), file.url)


def whole_number(field: bytes) -> int:
    """Return the integer that a field spells, also as "2.0" or "1e3"; raise ValueError for anything else."""
    value = float(field)
    if not value.is_integer() or abs(value) > MAX_COUNT:
        raise ValueError
    return int(value)
