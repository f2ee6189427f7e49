"""What readers of counted words share: batches of documents, the words of the columns, and whole numbers."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..errors import DataError
from ..matrices.names import first_repetition
from ..ranges import bounded_ranges
from .batches import Bag, Batch, ReadOptions, RowName, as_text
from .source import Partition, find_files, line_blocks

#: Most tokens in a batch.
BATCH_TOKENS = 1 << 21
#: Most tokens of one document. A larger sum of counts is an error of the file, and would take memory.
MAX_DOCUMENT_TOKENS = 1 << 26
#: The largest integer up to which floating-point numbers represent every integer.
MAX_COUNT = 1 << 53


def bag_batches(
    keys: pa.Array,
    entry_ptr: Sequence[int] | np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
    names: pa.Array | None,
    row_name: RowName,
) -> Iterator[Batch]:
    """Yield documents in batches of about BATCH_TOKENS tokens.

    Document d has the entries ``entry_ptr[d]:entry_ptr[d + 1]`` of ``columns`` and ``counts``, both (n,) int64, and the
    key ``keys[d]``. Raises DataError for a document with too many tokens.
    """
    # Cut off, so that sums do not overflow. Counts that were too large for int64 are negative.
    limited = np.minimum(counts.view(np.uint64), MAX_DOCUMENT_TOKENS + 1).view(np.int64)
    doc_ptr = np.append(0, np.cumsum(limited))[entry_ptr]
    lengths = np.diff(doc_ptr)
    check_lengths(lengths, row_name)
    # Each document counts one token more than it has, so that a batch of empty documents is bounded too.
    for first, stop in bounded_ranges(np.append(0, np.cumsum(lengths + 1)), BATCH_TOKENS):
        entries = slice(entry_ptr[first], entry_ptr[stop])
        # A document has a word as often as it is counted.
        tokens = np.repeat(columns[entries], counts[entries])
        yield Batch(keys[first:stop], Bag(doc_ptr[first : stop + 1] - doc_ptr[first], tokens, names))


def check_lengths(lengths: np.ndarray, row_name: RowName) -> None:
    """Raise DataError if the counts of a document add up to more tokens than a document may have."""
    is_too_long = lengths > MAX_DOCUMENT_TOKENS
    if is_too_long.any():
        where = row_name(int(is_too_long.argmax()))
        raise DataError(
            f"{where}: its counts add up to more than the {MAX_DOCUMENT_TOKENS:,} words that a document may have; "
            f"correct the counts, or ingest with binarize"
        )


def read_names(path: str | None) -> pa.Array | None:
    """Return the words of a vocabulary file, one per line; raise DataError if a word occurs twice."""
    if path is None:
        return None
    file = find_files(path)[0]
    lines: list[bytes] = []
    for data, _ in line_blocks(file, Partition(file), any_ends=True):
        lines += [line.strip() for line in data.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    names = as_text(pa.array(lines, pa.large_binary()), ReadOptions(), lambda row: f"{file.url}, line {row + 1}")
    blank = next((row for row, line in enumerate(lines) if not line), None)
    if blank is not None:
        raise DataError(f"{file.url}, line {blank + 1}: a blank line, where a name is needed; write one, or remove it")
    row = first_repetition(names)
    if row is not None:
        word = names[row].as_py()
        raise DataError(f"{file.url}, line {row + 1}: the word {word!r} occurs a second time; rename or remove it")
    return names


def whole_number(field: bytes) -> int:
    """Return the integer that a field spells, also as "2.0" or "1e3"; raise ValueError for anything else."""
    value = float(field)
    if not value.is_integer() or abs(value) > MAX_COUNT:
        raise ValueError
    return int(value)
