"""Readers of edges: lists of pairs (text, tables), square matrices (.npz, MatrixMarket, SciPy), networkx's graphs."""

import io
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.io
import scipy.sparse

from ..data import NetworkxGraph, column_names, is_dask_collection, is_networkx, is_table, is_type_of_numbers
from ..errors import DataError, DataWarning
from ..matrices.blocks import native
from ..matrices.transposition import Entries, sorted_rows
from ..messages import pluralize
from ..stores.filesystems import naming_full_disk
from ..stores.formats import DAMAGED
from ..stores.graph import Edges
from .batches import NO_CAST, check_characters, check_options_of_format
from .content import TABLE_EXTENSIONS, check_encoding, check_one_format, format_by_content, read_beginning
from .edge_lists import (
    COLUMNS,
    DIRECTED,
    HEADER,
    MATRIX_ADVICE,
    UNWEIGHTED,
    WEIGHT,
    EdgeOptions,
    Found,
    Pairs,
    edge_columns,
    note_direction,
    read_list,
    type_column,
    usual_columns,
)
from .frames import arrow_batches
from .matrices import no_sparse_matrix
from .source import Paths, SourceFile, find_files, open_file, path_list, read_some, stored_url
from .tables import arrow_batches as arrow_file_batches
from .tables import open_arrow, open_parquet


class EdgeTable(Protocol):
    """A table of edges in memory, of pandas, polars, Arrow or another library, with one edge per row."""

    __arrow_c_stream__: Callable[..., Any]


SparseMatrix: TypeAlias = scipy.sparse.spmatrix | scipy.sparse.sparray
#: Files of edges, or a square matrix, a table or a graph of networkx in memory.
EdgeSource: TypeAlias = Paths | SparseMatrix | NetworkxGraph | EdgeTable

FORMATS = ("edges", "npz", "matrixmarket", "parquet", "arrow")
_MATRIX, _TABLE, _GRAPH = "a matrix in memory", "a table in memory", "a graph of networkx"
_WITH_COLUMNS = ("edges", "parquet", "arrow", _TABLE)
#: The formats in which each option has an effect. Options that are not here have one in all.
FORMATS_OF_OPTION = {
    "format": FORMATS,
    **dict.fromkeys(("header", "delimiter", "quote", "comments"), ("edges",)),
    **dict.fromkeys(("source", "target"), _WITH_COLUMNS),
    "weight": (*_WITH_COLUMNS, _GRAPH),
}
#: How networkx reads files of graphs that are no lists of edges.
_READ_BY_NETWORKX = {
    ".gml": "read_gml",
    ".graphml": "read_graphml",
    ".gexf": "read_gexf",
    ".net": "read_pajek",
    ".g6": "read_graph6",
    ".adjlist": "read_adjlist",
    ".json": "node_link_graph",
    ".jsonl": "from_pandas_edgelist",
}
#: How they begin, where lists of edges have such names too.
_BEGINNINGS = {".net": (b"*",), ".json": (b"{", b"["), ".jsonl": (b"{", b"[")}
#: Node numbers are 32-bit integers.
MAX_NODES = (1 << 31) - 1
#: Rows of a table whose names are converted at once.
PARQUET_ROWS = 1 << 20
#: Edges that get the numbers of their nodes together, at least.
PART_EDGES = 1 << 21
#: An edge in a temporary file: the numbers of its nodes, in the order in which they were first read, and its weight.
_RECORD = np.dtype([("source", np.int32), ("target", np.int32), ("weight", np.float32)])
NO_EDGES = "there are no edges in it, at least none with a weight above 0"


def read_edges(source: EdgeSource, options: EdgeOptions | None = None) -> Edges:
    """Read the edges of a graph from files, from a sparse matrix, from a table, or from a graph of networkx.

    ``source`` is a path, glob or URL, or a list of these, a square scipy.sparse matrix, a table with one edge per row,
    or a graph of networkx, which says itself whether it is directed. Several lists of edges make one graph. Nodes are
    numbered in the order of their names; if all names are integers, in the order of these integers. The weights of an
    edge that occurs more than once are added up; without weights it counts once. Edges of weight 0 are left out. Raises
    DataError for sources that cannot be used and ValueError for a bad option or another type of source.
    """
    options = options or EdgeOptions()
    found = Found()
    edges = _read_edges(source, options, found)
    for notice in found.notices:
        warnings.warn(notice, DataWarning, stacklevel=2)
    metadata = edges.metadata | {"options": asdict(replace(options, directed=edges.is_directed)), "found": found.facts}
    return edges._replace(metadata=metadata)


def node_names(source: EdgeSource) -> pa.Array:
    """Return the names of the nodes of edges in the order of their numbers, without saying anything of the edges."""
    return _read_edges(source, EdgeOptions(), Found()).names


def _read_edges(source: EdgeSource, options: EdgeOptions, found: Found) -> Edges:
    check_characters(delimiter=options.delimiter, quote=options.quote)
    if options.format not in ("auto", *FORMATS):
        raise ValueError(f"format={options.format!r} is not known: choose one of auto, {', '.join(FORMATS)}")
    if scipy.sparse.issparse(source):
        check_options_of_format(options, FORMATS_OF_OPTION, _MATRIX, "the source")
        return edges_of_matrix(source, options, found)._replace(metadata={"source": "matrix in memory"})
    if is_networkx(source):
        check_options_of_format(options, FORMATS_OF_OPTION, _GRAPH, "the source")
        if options.directed and not source.is_directed():
            raise ValueError("directed=True, but this graph of networkx has no direction: pass graph.to_directed()")
        options = replace(options, directed=source.is_directed())
        return _edges_of_networkx(source, options, found)._replace(metadata={"source": "graph in memory"})
    if is_table(source):
        check_options_of_format(options, FORMATS_OF_OPTION, _TABLE, "the source")
        edges = _edges_of_pairs(_pairs_in_memory(cast(EdgeTable, source), options, found), "table", options, found)
        return edges._replace(metadata={"source": "table in memory"})
    given = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(path, str | os.PathLike) for path in given):
        raise ValueError(
            f"edges are of type {type(source).__name__}: pass the URL of a file of edges, or a list of URLs; a table "
            f"of edges; a sparse matrix, such as scipy.sparse.csr_array(array); or a graph of networkx, such as "
            f"networkx.Graph(pairs)"
        )
    paths = cast(Paths, source)
    edges = _read_files(paths, options, found)
    stored = [stored_url(path) for path in path_list(paths)]
    return edges._replace(metadata={"source": stored[0] if len(stored) == 1 else stored})


def _read_files(source: Paths, options: EdgeOptions, found: Found) -> Edges:
    files = find_files(source)
    formats = {_format_of(file, options): file for file in files}
    check_one_format(source, formats)
    format_name = next(iter(formats))
    check_options_of_format(options, FORMATS_OF_OPTION, format_name, str(source))
    if format_name in ("npz", "matrixmarket"):
        if len(files) > 1:
            raise DataError(f"{source}: {len(files)} matrices; give one matrix, or several lists of edges")
        return _read_matrix(files[0], format_name, options, found)
    if format_name == "edges":
        check_encoding(files, "convert it to UTF-8: iconv -f {} -t UTF-8 FILE")
        parts = (read_list(file, options, found) for file in files)
    else:
        parts = (_read_table(file, format_name, options, found) for file in files)
    return _edges_of_pairs(chain.from_iterable(parts), files[0].url, options, found)


def _format_of(file: SourceFile, options: EdgeOptions) -> str:
    if options.format != "auto":
        return options.format
    beginnings = _BEGINNINGS.get(file.extension, (b"",))
    if file.extension in _READ_BY_NETWORKX and read_beginning(file).lstrip().startswith(beginnings):
        function = f"networkx.{_READ_BY_NETWORKX[file.extension]}"
        raise DataError(
            f"{file.url}: its name ends in {file.extension}; read it with {function} and pass the graph in Python, or "
            f"let its name end in another way if it is a list of edges (in Python, ingest_graph(..., format='edges'))"
        )
    return format_by_content(file, TABLE_EXTENSIONS.get(file.extension, "edges"))


# --- matrices ---


def edges_of_matrix(
    matrix: SparseMatrix,
    options: EdgeOptions,
    found: Found,
    where: str = "matrix",
    first_name: int = 0,
    names: Sequence[str] | None = None,
) -> Edges:
    """Return the edges of a square sparse matrix, whose node i gets the name ``first_name + i``, or ``names[i]``.

    The matrix of an undirected graph is symmetric or triangular. ``where`` names the matrix in errors (DataError).
    """
    n_rows, n_columns = matrix.shape
    if n_rows != n_columns:
        raise DataError(f"{where}: the matrix of a graph must be square, but this one is {n_rows} × {n_columns}")
    given = scipy.sparse.csr_array(native(matrix))
    _note_zeros(int(np.count_nonzero(given.data == 0)), where, found)
    _check_weights(given.data, where)
    weights = given.astype(np.float32)
    if options.weighted is False:
        weights.data[:] = weights.data != 0
    # Duplicates are added up before zeros are removed: weights that add up to 0 leave no edge.
    weights.sum_duplicates()
    weights.eliminate_zeros()
    _check_sums(weights.data, where)
    if not options.directed:
        weights = _symmetric(weights, where)
    if names is None:
        numbers = pa.array(np.arange(first_name, first_name + n_rows))
        return _edges(weights, numbers.cast(pa.string()), where, options)
    if len(names) != n_rows or len(set(names)) != n_rows:
        raise DataError(f"{where}: {n_rows} nodes, but {len(set(names))} different names: give each node its own name")
    return _edges(weights, pa.array(names, pa.string()), where, options)


def _check_names(names: pa.Array, where: str) -> None:
    if not len(names):
        raise DataError(f"{where}: the graph has no nodes")
    if len(names) > MAX_NODES:
        raise DataError(f"{where}: {len(names):,} nodes are too many; a graph may have {MAX_NODES:,}")


def _edges(weights: scipy.sparse.csr_array, names: pa.Array, where: str, options: EdgeOptions) -> Edges:
    _check_names(names, where)
    if not weights.nnz:
        raise DataError(f"{where}: {NO_EDGES}")
    weights.sort_indices()
    is_weighted = options.weighted
    if is_weighted is None:
        is_weighted = bool((weights.data != 1).any())
    return Edges([weights], names, is_weighted, options.directed, {})


def _symmetric(weights: scipy.sparse.csr_array, where: str) -> scipy.sparse.csr_array:
    """Return a symmetric matrix as it is, and a triangular one with its other half."""
    transposed = weights.T.tocsr()
    if abs(weights - transposed).nnz == 0:
        return weights
    if scipy.sparse.tril(weights, -1).nnz and scipy.sparse.triu(weights, 1).nnz:
        raise DataError(
            f"{where}: the matrix of an undirected graph must be symmetric or triangular; read it with {DIRECTED}"
        )
    # The diagonal is in both matrices.
    diagonal = scipy.sparse.diags_array(weights.diagonal(), dtype=np.float32)
    return (weights + transposed - diagonal).tocsr()


def _note_zeros(number: int, where: str, found: Found) -> None:
    """Say how many edges are left out because their weight is 0."""
    found.count("edges_of_weight_0", number)
    if number:
        found.notices.append(f"{where}: {pluralize(number, 'edge')} of weight 0 left out; their nodes are kept")


def _check_weights(weights: np.ndarray, where: str, first: int = 0) -> None:
    """Raise DataError unless all weights, those from edge ``first`` on, can be stored as 32-bit numbers."""
    if np.iscomplexobj(weights):
        raise DataError(f"{where}: its weights are complex numbers; pass real ones, such as their absolute values")
    largest, least = np.finfo(np.float32).max, float(np.finfo(np.float32).smallest_subnormal)
    # Numbers up to half of the least one would become 0, and their edges would be left out.
    is_bad = ~((weights >= 0) & (weights <= largest)) | ((weights > 0) & (weights <= least / 2))
    if is_bad.any():
        edge = int(np.argmax(is_bad))
        raise DataError(
            f"{where}, edge {first + edge + 1}: the weight {weights[edge]} must be finite and not negative, 0 or at "
            f"least {least:.2g}, and at most {largest:.3g}; correct it, or ignore weights with {UNWEIGHTED}"
        )


def _check_sums(weights: np.ndarray, where: str) -> None:
    """Raise DataError if the weights of an edge that occurs more than once add up to more than a 32-bit number."""
    if not np.isfinite(weights).all():
        raise DataError(
            f"{where}: an edge occurs more than once, and its weights add up to more than "
            f"{np.finfo(np.float32).max:.3g}; scale the weights"
        )


def _read_matrix(file: SourceFile, format_name: str, options: EdgeOptions, found: Found) -> Edges:
    with open_file(file) as stream:
        content = io.BytesIO(read_some(stream, -1, file))
    names = None
    try:
        if format_name == "matrixmarket":
            matrix = scipy.io.mmread(content)
        elif "IDs" in (arrays := np.load(content)):
            matrix, names = _matrix_of_pecanpy(arrays)
        else:
            content.seek(0)
            matrix = scipy.sparse.load_npz(content)
    except MemoryError:
        raise
    except Exception as error:
        reason = (
            f"not a sparse matrix of MatrixMarket ({error})"
            if format_name == "matrixmarket"
            else no_sparse_matrix(error)
        )
        raise DataError(f"{file.url}: {reason}") from None
    # MatrixMarket counts rows and columns from 1.
    first_name = 1 if format_name == "matrixmarket" else 0
    return edges_of_matrix(matrix, options, found, file.url, first_name, names)


def _matrix_of_pecanpy(arrays: Mapping[str, np.ndarray]) -> tuple[SparseMatrix, list[str]]:
    """Return matrix and names of the nodes of a file that pecanpy saved: sparse, or dense without ``indptr``."""
    names = [str(name) for name in arrays["IDs"]]
    if "indptr" not in arrays:
        return scipy.sparse.csr_array(arrays["data"]), names
    compressed = (arrays["data"], arrays["indices"], arrays["indptr"])
    return scipy.sparse.csr_array(compressed, shape=(len(names), len(names))), names


# --- graphs of networkx ---


def _edges_of_networkx(graph: NetworkxGraph, options: EdgeOptions, found: Found) -> Edges:
    """Return the edges of a graph of networkx. A node's name is its text; nodes without edges are kept."""
    where = "graph"
    nodes = list(graph.nodes)
    names = pa.array([str(node) for node in nodes], pa.string())
    if len(names.unique()) != len(nodes):
        raise DataError(
            f"{where}: {len(nodes):,} nodes have only {len(names.unique()):,} different names, because a name is the "
            f"text of a node; rename some with networkx.relabel_nodes"
        )
    order = _order_of(names)
    number_of = {nodes[position]: number for number, position in enumerate(order.tolist())}
    ends = [(number_of[first], number_of[second]) for first, second, *_ in graph.edges]
    source, target = np.array(ends, np.int32).reshape(-1, 2).T
    weights = None if options.weighted is False else _weights_of_networkx(graph, options.weight)
    if weights is not None:
        _check_weights(weights, where)
    entries = Entries(source, target, np.ones(len(ends)) if weights is None else weights)
    found.facts["edges"] = len(ends)
    return _edges_of_entries(names.take(pa.array(order)), [entries], weights is not None, where, options, found)


def _weights_of_networkx(graph: NetworkxGraph, attribute: str) -> np.ndarray | None:
    """Return the weights of all edges, 1 where an edge has none; None if no edge has any."""
    found = [weight for *_, weight in graph.edges(data=attribute)]
    if all(weight is None for weight in found):
        return None
    try:
        return np.array([1 if weight is None else weight for weight in found], np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"graph: the attribute {attribute!r} of an edge is no number ({error}): correct it, or remove it from the "
            f"edges"
        ) from None


# --- pairs ---


def _edges_of_pairs(parts: Iterable[Pairs], where: str, options: EdgeOptions, found: Found) -> Edges:
    """Return the edges of pairs, of which only the names of nodes are kept in memory."""
    nodes = _Nodes()
    seen = _SeenWeights()
    file = tempfile.TemporaryFile(prefix="corpusmill-edges-")  # noqa: SIM115 - it is read when this has returned
    for pairs in _joined(parts, nodes):
        if not seen.number:
            _check_no_matrix(pairs, where, found)
        records = np.ones(len(pairs.source), _RECORD)
        records["source"], records["target"] = nodes.numbers(pairs)
        if pairs.weight is not None:
            _check_weights(pairs.weight, where, seen.number)
            records["weight"] = pairs.weight
        seen.add(pairs)
        with naming_full_disk(Path(tempfile.gettempdir())):
            file.write(records.tobytes())
    if not seen.number:
        raise DataError(f"{where}: there are no edges in it")
    order = _order_of(nodes.names)
    names, counts = nodes.names.take(pa.array(order)), nodes.counts[:, order]
    if found.are_two_kinds and len(both := np.flatnonzero(counts.all(axis=0))):
        raise DataError(
            f"{where}: the two columns have nodes of two kinds, and {pluralize(len(both), 'name')} such as "
            f"{names[int(both[0])].as_py()!r:.40} in both, which would become one node: write the names of one column "
            f"in another way, such as 'item 1'"
        )
    _note_first_edge(names, counts.sum(axis=0), where, found)
    number_of = np.empty(len(order), np.int32)
    number_of[order] = np.arange(len(order), dtype=np.int32)
    has_weights = _has_weights(seen, where, options, found)
    found.facts["edges"] = seen.number
    return _edges_of_entries(names, _entries_of(file, number_of), has_weights, where, options, found)


class _Nodes:
    """The nodes of the edges so far, in the order in which they were first read. V nodes."""

    def __init__(self) -> None:
        self.names = pa.array([], pa.string())
        self.counts = np.zeros((2, 0), np.int64)  # (2, V): how often each is the first, and the second, of a pair

    def numbers(self, pairs: Pairs) -> list[np.ndarray]:
        """Return the first and the second nodes of pairs as numbers, each (N,) int32. New nodes are added."""
        ends = pa.chunked_array([pairs.source, pairs.target])
        number_of = pc.fill_null(pc.index_in(ends, self.names), -1).to_numpy().copy()
        is_new = number_of < 0
        if is_new.any():
            new = ends.filter(is_new).combine_chunks().dictionary_encode()
            number_of[is_new] = len(self.names) + new.indices.to_numpy()
            self.names = pa.concat_arrays([self.names, new.dictionary])
        numbers = np.split(number_of, 2)
        counts = np.stack([np.bincount(one, minlength=len(self.names)) for one in numbers])
        counts[:, : self.counts.shape[1]] += self.counts
        self.counts = counts
        return numbers


def _joined(parts: Iterable[Pairs], nodes: _Nodes) -> Iterator[Pairs]:
    """Yield edges in larger parts, each at least half as many as ``nodes``, which are all looked at for each part."""
    waiting: list[Pairs] = []
    for pairs in chain(parts, [None]):
        size = max(PART_EDGES, len(nodes.names) // 2)
        if waiting and (pairs is None or sum(len(one.source) for one in waiting) >= size):
            source, target = (pa.concat_arrays([one[end] for one in waiting]) for end in (0, 1))
            weight = None
            if any(one.weight is not None for one in waiting):
                weight = np.concatenate([one.given_weights() for one in waiting])
            yield Pairs(source, target, weight)
            waiting = []
        if pairs is not None:
            waiting.append(pairs)


def _entries_of(file: IO[bytes], number_of: np.ndarray) -> Iterator[Entries]:
    """Yield the edges of a temporary file. ``number_of`` (V,) int32 has the final number of each number of a node."""
    file.seek(0)
    while data := file.read(PART_EDGES * _RECORD.itemsize):
        records = np.frombuffer(data, _RECORD)
        yield Entries(number_of[records["source"]], number_of[records["target"]], records["weight"])
    file.close()


def _check_no_matrix(pairs: Pairs, where: str, found: Found) -> None:
    """Raise DataError for three lines of three numbers, of which the diagonal is 0: an adjacency matrix."""
    if found.is_weight_named or pairs.weight is None or len(pairs.source) != 3:
        return
    try:
        rows = np.array([pairs.source.to_pylist(), pairs.target.to_pylist(), pairs.weight], float)
    except ValueError:
        return  # names
    if not rows.diagonal().any():
        raise DataError(
            f"{where}: three lines of three numbers, as a matrix has: {MATRIX_ADVICE}; if these are edges, name the "
            f"columns source, target and weight"
        )


def _note_first_edge(names: pa.Array, counts: np.ndarray, where: str, found: Found) -> None:
    """Say if headers may be edges: those that follow again, or first lines whose names occur nowhere else.

    ``counts`` (V,) is how often each name occurs.
    """
    if found.n_headers_again:
        found.notices.append(
            f"{where}: {pluralize(found.n_headers_again, 'line')} like the header, as where files were joined, became "
            f"edges; remove such lines"
        )
    if found.first_edge is None or counts.sum() < 6 or found.first_edge[0] == found.first_edge[1]:
        return
    first, second = found.first_edge
    numbers = [pc.index(names, pa.scalar(name)).as_py() for name in (first, second)]
    if counts[numbers].sum() == 2 * found.n_first_edges:
        found.notices.append(
            f"{where}: the first line is taken for an edge between {first!r:.40} and {second!r:.40}, which occur "
            f"nowhere else; if it names the columns, read it with {HEADER}"
        )


class _SeenWeights:
    """What is known of the weights of the edges so far; an edge without one has the weight 1."""

    def __init__(self) -> None:
        self.number = 0
        self.are_given = False
        self.least, self.most = math.inf, -math.inf
        self.are_whole = self.are_dates = self.are_ascending = True
        self.n_steps = 0  # how often a weight differs from the one before
        self._last: list[float] = []

    def add(self, pairs: Pairs) -> None:
        """Look at the weights of some edges."""
        self.number += len(pairs.source)
        self.are_given |= pairs.weight is not None
        weights = pairs.given_weights()
        self.least, self.most = min(self.least, weights.min()), max(self.most, weights.max())
        self.are_whole &= bool((weights % 1 == 0).all())
        years, months, days = weights // 10_000, weights // 100 % 100, weights % 100
        are_days = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
        self.are_dates &= bool(((years >= 1900) & (years <= 2100) & are_days).all())
        steps = np.diff(weights, prepend=self._last)
        self._last = [weights[-1]]
        self.are_ascending &= bool((steps >= 0).all())
        self.n_steps += int(np.count_nonzero(steps))

    @property
    def are_times(self) -> bool:
        """Whether all are seconds or milliseconds of Unix, or dates such as 20261231."""
        are_seconds = any(first <= self.least <= self.most <= 2 * first for first in (1e9, 1e12))
        return are_seconds or (self.are_whole and self.are_dates)


def _has_weights(seen: _SeenWeights, where: str, options: EdgeOptions, found: Found) -> bool:
    """Return whether edges have weights that count, and note what may be wrong with them."""
    if options.weighted is False or not seen.are_given:
        return False
    if not found.is_weight_named and seen.are_times:
        found.notices.append(
            f"{where}: the third column, from {seen.least:.10g} to {seen.most:.10g}, is taken for times, and "
            f"left out; if it has weights, name it in the first line and with {WEIGHT}"
        )
        columns = found.facts.get("columns", [])
        found.facts["skipped_columns"] = columns[2:] or ["the third"]
        del columns[2:]
        return False
    found.notices += found.taken_for_weights
    found.facts["weights"] = [float(seen.least), float(seen.most)]
    like_times = None
    if seen.number > 3 and seen.are_ascending and seen.n_steps > 1:
        like_times = f"rise from line to line, from {seen.least:,.0f} to {seen.most:,.0f}, as times do"
    if 1900 <= seen.least <= seen.most <= 2100:
        like_times = f"are from {seen.least:.0f} to {seen.most:.0f}, as years are"
    if like_times and not found.is_weight_named and seen.are_whole:
        found.notices.append(
            f"{where}: the weights {like_times}; if they are no weights, ignore them with {UNWEIGHTED}"
        )
    return True


def _edges_of_entries(
    names: pa.Array,
    entries: Iterable[Entries],
    has_weights: bool,
    where: str,
    options: EdgeOptions,
    found: Found,
) -> Edges:
    """Return the edges between nodes given by their numbers, with the weights 1 unless they count.

    ``found`` has the number of edges.
    """
    _check_names(names, where)
    n_edges = found.facts["edges"]
    shape = (len(names), len(names))
    if not options.directed:
        entries = map(_upper, entries)
    once = _each_once(sorted_rows(entries, n_edges, shape, "<f4"), has_weights, where, options, found)
    blocks = sorted_rows(once, (1 if options.directed else 2) * n_edges, shape, "<f4")
    # All edges are checked before there is a first row.
    first = next(blocks)
    is_weighted = found.are_weights_different if options.weighted is None else options.weighted
    return Edges(chain([first], blocks), names, is_weighted, options.directed, {})


def _upper(entries: Entries) -> Entries:
    """Return both directions of an edge as entries of the upper triangle, those from below with a minus sign."""
    source, target, weights = entries
    signed = np.where(source > target, -weights, weights)
    return Entries(np.minimum(source, target), np.maximum(source, target), signed)


def _each_once(
    blocks: Iterable[scipy.sparse.csr_matrix], has_weights: bool, where: str, options: EdgeOptions, found: Found
) -> Iterator[Entries]:
    """Yield the entries of the adjacency matrix: each edge once, and an undirected one in both directions."""
    first_row = n_loops = n_zeros = n_copies = n_pairs = n_both = n_entries = 0
    for block in blocks:
        rows = np.repeat(np.arange(block.shape[0], dtype=np.int32), np.diff(block.indptr))
        is_loop = block.indices == rows + first_row
        is_new = np.ones(block.nnz, bool)
        is_new[1:] = (np.diff(block.indices) != 0) | (np.diff(rows) != 0)
        directions = np.zeros((2, np.count_nonzero(is_new)), bool)
        directions[np.signbit(block.data).astype(np.int8), np.cumsum(is_new) - 1] = True
        n_both += int(np.count_nonzero(directions.all(axis=0)))
        n_pairs += int(np.count_nonzero(is_new & ~is_loop))
        n_loops += int(np.count_nonzero(is_loop))
        n_copies += int(np.count_nonzero(~is_new))
        n_zeros += int(np.count_nonzero(block.data == 0))
        np.abs(block.data, out=block.data)
        block.sum_duplicates()
        if not has_weights:
            block.data[:] = 1
        block.eliminate_zeros()
        _check_sums(block.data, where)
        found.are_weights_different |= bool((block.data != 1).any())
        n_entries += block.nnz
        rows = first_row + np.repeat(np.arange(block.shape[0], dtype=np.int32), np.diff(block.indptr))
        yield Entries(rows, block.indices, block.data)
        if not options.directed:
            is_apart = rows != block.indices
            yield Entries(block.indices[is_apart], rows[is_apart], block.data[is_apart])
        first_row += block.shape[0]
    if has_weights and 0 < n_both < n_pairs:
        found.notices.append(
            f"{where}: {n_both:,} of {pluralize(n_pairs, 'pair')} of nodes are listed in both "
            f"directions, and their weights are added up; if directions differ, read it with {DIRECTED}"
        )
    found.count("loops", n_loops)
    _note_zeros(n_zeros, where, found)
    found.count("repetitions", n_copies)
    if not n_entries:
        raise DataError(f"{where}: {NO_EDGES}")


def _order_of(names: pa.Array) -> np.ndarray:
    """Return the positions of names in ascending order; if all are integers, in the order of these integers."""
    # No leading zeros, so that 7 and 07 stay different nodes, and at most 18 digits, so that the numbers fit int64.
    are_integers = pc.all(pc.match_substring_regex(names, r"^(0|[1-9]\d{0,17})$")).as_py()
    return pc.sort_indices(names.cast(pa.int64()) if are_integers else names).to_numpy()


def _read_table(file: SourceFile, format_name: str, options: EdgeOptions, found: Found) -> Iterator[Pairs]:
    is_parquet = format_name == "parquet"
    with open_file(file, unpack=not is_parquet) as stream:
        try:
            if is_parquet:
                table = open_parquet(file, stream)
                # Not all groups in one call, which would keep all that it has read.
                batches = chain.from_iterable(
                    table.iter_batches(PARQUET_ROWS, row_groups=[group], use_threads=False)
                    for group in range(table.num_row_groups)
                )
                yield from _pairs_of_batches(table.schema_arrow, batches, file.url, options, found)
            else:
                table = open_arrow(stream, file)
                yield from _pairs_of_batches(table.schema, arrow_file_batches(table), file.url, options, found)
        except DAMAGED as error:
            raise DataError(f"{file.url}: not a whole file of {format_name.capitalize()} ({error})") from None


def _pairs_in_memory(source: EdgeTable, options: EdgeOptions, found: Found) -> Iterator[Pairs]:
    """Yield the edges of a table in memory."""
    data: Any = source
    if is_dask_collection(data):
        data = data.compute()
    try:
        table = pa.Table.from_batches(batches) if (batches := list(arrow_batches(data))) else pa.table({})
    except NO_CAST as error:
        raise DataError(f"table: a column has values of several types ({error.args[-1]}); convert it") from None
    if hasattr(data, "loc") and len(data) == len(names := column_names(data)) and list(map(str, data.index)) == names:
        raise DataError(f"table: its rows have the names of its columns, as those of a matrix: {MATRIX_ADVICE}")
    yield from _pairs_of_batches(table.schema, table.to_batches(), "table", options, found, in_memory=True)


def _pairs_of_batches(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    where: str,
    options: EdgeOptions,
    found: Found,
    in_memory: bool = False,
) -> Iterator[Pairs]:
    """Yield the edges of a table. ``where`` names it in errors (DataError)."""
    names = schema.names
    batches = iter(batches)
    begun: list[pa.RecordBatch] = []
    for batch in batches:
        begun.append(batch)
        if sum(one.num_rows for one in begun) > len(names):
            break
    is_named = usual_columns(names) is not None or options.source or options.target
    # A matrix may have a column with the names of its rows.
    is_square = sum(one.num_rows for one in begun) in (len(names), len(names) - 1)
    if len(names) > 3 and not is_named and (is_square or in_memory):
        raise DataError(
            f"{where}: {len(names)} columns, none of which are called source and target: name the columns of the two "
            f"nodes with {COLUMNS}; if it is a matrix, {MATRIX_ADVICE}"
        )
    has_numbers = lambda column: is_type_of_numbers(schema.field(column).type)  # noqa: E731
    columns = [names[column] for column in edge_columns(names, options, where, has_numbers, found)]
    types = type_column(names)
    says_directed = False
    for batch in chain(begun, batches):
        if types is not None and not says_directed and "Directed" in batch.column(types).unique().to_pylist():
            says_directed = True
            note_direction(where, "column 'Type' says", options, found)
        # In parts, because an array of strings has at most 2 GiB.
        for first in range(0, batch.num_rows, PARQUET_ROWS):
            rows = batch.slice(first, PARQUET_ROWS)
            source, target = (_cast_column(where, rows, name, pa.string()) for name in columns[:2])
            if source.null_count or target.null_count:
                raise DataError(f"{where}: {columns[0]} or {columns[1]} is null in some row; drop such rows")
            weight = None
            if len(columns) > 2:
                weight = _cast_column(where, rows, columns[2], pa.float64()).to_numpy(zero_copy_only=False)
            yield Pairs(source, target, weight)


def _cast_column(where: str, rows: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return rows[name].cast(kind)
    except NO_CAST as error:
        raise DataError(f"{where}: column {name!r} cannot be read as {kind} ({error}); convert it") from None
