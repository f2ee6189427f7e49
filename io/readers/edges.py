"""Readers of edges: lists of pairs as text or Parquet, and sparse matrices (CSR .npz, MatrixMarket)."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import scipy.io
import scipy.sparse

from ..stores.parquet import read_parquet
from ..stores.store import DataError
from .source import Partition, SourceFile, find_files, line_blocks, open_file

FORMATS = ("edges", "npz", "matrixmarket", "parquet")
_EXTENSIONS = {".npz": "npz", ".mtx": "matrixmarket", ".mm": "matrixmarket", ".parquet": "parquet", ".pq": "parquet"}
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True)
class EdgeOptions:
    """How edges are read."""

    format: str = "auto"  # by the file's extension; other extensions are lists of edges
    directed: bool = False
    weighted: bool | None = None  # False: leave weights aside; None: weights where there are any
    header: bool | None = None  # the list's first line names its columns; None: see `_is_header`
    source: str | None = None  # Parquet columns; None: the first two
    target: str | None = None
    weight: str = "weight"


class Edges(NamedTuple):
    """A square sparse matrix of weights, its rows' names, and whether the weights differ from 1."""

    matrix: scipy.sparse.csr_array  # (V, V) float32, indices sorted, no zeros
    names: pa.Array  # (V,) string
    weighted: bool


def read_edges(source: Any, options: EdgeOptions) -> Edges:
    """Read a file, or several lists of edges as one; raise DataError, ValueError.

    Nodes are ordered by name, by number where all names are whole numbers. Edges that stand there twice add up their
    weights, without weights they count once; edges of weight 0 are none.
    """
    if options.format not in ("auto", *FORMATS):
        raise ValueError(f"format={options.format!r} is not known: choose one of auto, {', '.join(FORMATS)}")
    files = find_files(source)
    kinds = {_EXTENSIONS.get(f.extension, "edges") if options.format == "auto" else options.format for f in files}
    kind = kinds.pop()
    if kinds or (kind in ("npz", "matrixmarket") and len(files) > 1):
        raise DataError(f"{source}: give one matrix, or lists of edges of one format")
    if kind in ("npz", "matrixmarket"):
        return _read_matrix(files[0], kind, options)
    read = _read_parquet if kind == "parquet" else _read_list
    return _from_pairs([pair for f in files for pair in read(f, options)], files[0].url, options)


def from_matrix(matrix: Any, options: EdgeOptions, where: str = "matrix", first: int = 0) -> Edges:
    """Return the edges of a square sparse matrix; node i is named ``first + i``. Raises DataError.

    An undirected graph's matrix is symmetric, or holds each edge once, in one triangle.
    """
    weights = scipy.sparse.csr_array(matrix, dtype=np.float32)
    if weights.shape[0] != weights.shape[1]:
        raise DataError(f"{where}: a graph's matrix is square, this one is {weights.shape[0]} × {weights.shape[1]}")
    _check_weights(weights.data, where)
    if options.weighted is False:
        weights.data[:] = weights.data != 0
    weights.sum_duplicates()
    weights.eliminate_zeros()
    if not options.directed:
        weights = _symmetric(weights, where)
    names = pa.array(np.arange(first, first + weights.shape[0])).cast(pa.string())
    return _edges(weights, names, where, options)


def _edges(weights: scipy.sparse.csr_array, names: pa.Array, where: str, options: EdgeOptions) -> Edges:
    if not len(names):
        raise DataError(f"{where}: there is no node in it")
    if len(names) >= 1 << 31:
        raise DataError(f"{where}: {len(names):,} nodes are more than the {(1 << 31) - 1:,} that a graph may have")
    weights.sort_indices()
    weighted = bool((weights.data != 1).any()) if options.weighted is None else options.weighted
    return Edges(weights, names, weighted)


def _symmetric(weights: scipy.sparse.csr_array, where: str) -> scipy.sparse.csr_array:
    other = weights.T.tocsr()
    if abs(weights - other).nnz == 0:
        return weights
    if scipy.sparse.tril(weights, -1).nnz and scipy.sparse.triu(weights, 1).nnz:
        raise DataError(f"{where}: the matrix is neither symmetric nor triangular; read it with directed=True")
    return (weights + other - scipy.sparse.diags_array(weights.diagonal(), dtype=np.float32)).tocsr()


def _check_weights(weights: np.ndarray, where: str) -> None:
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{where}, edge {row + 1}: the weight {weights[row]} is not a number from 0 up; "
            f"correct it, or read with weighted=False"
        )


# --- matrices ---


def _read_matrix(file: SourceFile, kind: str, options: EdgeOptions) -> Edges:
    with open_file(file) as stream:
        content = io.BytesIO(stream.read())
    try:
        matrix = scipy.sparse.load_npz(content) if kind == "npz" else scipy.io.mmread(content)
    except Exception as error:
        raise DataError(f"{file.url}: not a {kind} file of a sparse matrix ({error})") from None
    # MatrixMarket counts from 1.
    return from_matrix(matrix, options, file.url, first=int(kind == "matrixmarket"))


# --- pairs ---


class _Pairs(NamedTuple):
    """Some edges: names (N,) string, weights (N,) float64 or None."""

    source: pa.Array
    target: pa.Array
    weight: np.ndarray | None


def _from_pairs(parts: list[_Pairs], where: str, options: EdgeOptions) -> Edges:
    if not sum(len(p.source) for p in parts):
        raise DataError(f"{where}: there is no edge in it")
    names, (source, target) = _number([p.source for p in parts], [p.target for p in parts])
    weighted = options.weighted is not False and any(p.weight is not None for p in parts)
    if not options.directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    weights = np.ones(len(source), np.float32)
    if weighted:
        weights = np.concatenate([np.ones(len(p.source)) if p.weight is None else p.weight for p in parts])
        _check_weights(weights, where)
    matrix = scipy.sparse.coo_array((weights.astype(np.float32), (source, target)), shape=(len(names),) * 2).tocsr()
    if not weighted:
        matrix.data[:] = 1
    matrix.eliminate_zeros()
    if not options.directed:
        matrix = _symmetric(matrix, where)
    return _edges(matrix, names, where, options)


def _number(*columns: list[pa.Array]) -> tuple[pa.Array, list[np.ndarray]]:
    """Return all names in order, and each column as numbers (N,) int32."""
    encoded = [c.dictionary_encode() for column in columns for c in column]
    joined = pa.chunked_array(encoded).unify_dictionaries()
    names = joined.chunk(0).dictionary
    numeric = pc.all(pc.match_substring_regex(names, r"^(0|[1-9]\d{0,17})$")).as_py()
    order = pc.sort_indices(names.cast(pa.int64()) if numeric else names).to_numpy()
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    numbers = place[np.concatenate([c.indices.to_numpy() for c in joined.chunks])]
    ends = np.cumsum([sum(len(c) for c in column) for column in columns])
    return names.take(pa.array(order)), np.split(numbers, ends[:-1])


def _read_parquet(file: SourceFile, options: EdgeOptions) -> Iterator[_Pairs]:
    with open_file(file, unpack=False) as stream:
        try:
            table = read_parquet(stream)
        except pa.ArrowInvalid as error:
            raise DataError(f"{file.url}: not a Parquet file ({error})") from None
    present = table.column_names
    ends = [options.source or present[0], options.target or [*present, ""][1]]
    for name in ends:
        if name not in present:
            raise DataError(f"{file.url}: no column {name!r} among {', '.join(present)}: say source and target")
    source, target = (table[name].cast(pa.string()).combine_chunks() for name in ends)
    if source.null_count or target.null_count:
        raise DataError(f"{file.url}: an edge without a node; drop such rows")
    weight = None
    if options.weight in present and options.weighted is not False:
        weight = table[options.weight].cast(pa.float64()).to_numpy()
    yield _Pairs(_whole(source), _whole(target), weight)


def _whole(column: Any) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _read_list(file: SourceFile, options: EdgeOptions) -> Iterator[_Pairs]:
    """Read lines of two names and maybe a weight, apart by tabs, commas or spaces; lines of # and % are comments."""
    delimiter, columns = b"", 0
    for data, line in line_blocks(file, Partition(file)):
        # Comments become empty lines, so that lines keep their numbers.
        text = re.sub(rb"(?m)^[ \t]*[#%].*$|\r$", b"", data)
        if not text.strip():
            continue
        if not delimiter:
            first = next(one for one in text.split(b"\n") if one.strip())
            delimiter = next((d for d in (b"\t", b",") if d in first), b" ")
            columns = len(_fields(first, delimiter))
            if columns not in (2, 3):
                shown = first[:40].decode("utf-8", "replace")
                raise DataError(f"{file.url}: an edge is two names and maybe a weight, not {columns} fields: {shown!r}")
            if options.header or (options.header is None and _is_header(text, delimiter)):
                text = text.replace(first, b"", 1)
        yield _parse(text, delimiter, columns, f"{file.url}, line", line)


def _fields(line: bytes, delimiter: bytes) -> list[bytes]:
    return line.split() if delimiter == b" " else [f.strip() for f in line.split(delimiter)]


def _is_header(text: bytes, delimiter: bytes) -> bool:
    """Whether the first line has a word where those after it have a number, in the same column."""
    lines = [_fields(one, delimiter) for one in text[: 1 << 16].split(b"\n") if one.strip()]
    first, others = lines[0], lines[1:100]
    return bool(others) and any(
        not NUMBER.fullmatch(name) and all(len(o) > c and NUMBER.fullmatch(o[c]) for o in others)
        for c, name in enumerate(first)
    )


def _parse(text: bytes, delimiter: bytes, columns: int, where: str, line: int) -> _Pairs:
    if delimiter == b" ":
        text = re.sub(rb"(?m)^ +| +$", b"", re.sub(rb"[ \t]+", b" ", text))
    names = ["source", "target", "weight"][:columns]
    types = {"source": pa.string(), "target": pa.string(), "weight": pa.float64()}
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1),
            pyarrow.csv.ParseOptions(delimiter=delimiter.decode(), quote_char=False),
            pyarrow.csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise DataError(_what_is_wrong(text, delimiter, columns, where, line) or f"{where} {line}: {error}") from None
    source, target = (_whole(table[name].combine_chunks()) for name in names[:2])
    if pc.any(pc.or_(pc.equal(source, ""), pc.equal(target, ""))).as_py():
        raise DataError(_what_is_wrong(text, delimiter, columns, where, line))
    return _Pairs(source, target, table["weight"].to_numpy() if columns == 3 else None)


def _what_is_wrong(text: bytes, delimiter: bytes, columns: int, where: str, line: int) -> str:
    for number, one in enumerate(text.split(b"\n"), line):
        fields = _fields(one, delimiter)
        if not one.strip() or (
            len(fields) == columns and all(fields) and (columns == 2 or NUMBER.fullmatch(fields[2]))
        ):
            continue
        shown = one[:40].decode("utf-8", "replace")
        wanted = "two names and a weight" if columns == 3 else "two names"
        hint = "; if it names the columns, read with header=True" if number == line else ""
        return f"{where} {number}: {wanted} are needed, not {shown!r}{hint}"
    return ""
