"""Readers of edges: lists of pairs (text, tables), square matrices (.npz, MatrixMarket, SciPy), networkx's graphs."""

import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.io
import scipy.sparse

from ..data import NetworkxGraph, column_names, is_dask_collection, is_networkx, is_table, is_type_of_numbers
from ..errors import DataError, DataWarning
from ..matrices.blocks import native
from ..messages import pluralize
from ..stores.formats import DAMAGED, read_parquet
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
from .tables import open_arrow


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
#: Rows of a Parquet file whose names are converted at once.
PARQUET_ROWS = 1 << 20


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
        edges = _edges_of_pairs(
            list(_pairs_in_memory(cast(EdgeTable, source), options, found)), "table", options, found
        )
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
    # Nodes get their numbers after all files are read, so that the order of the files does not matter.
    pairs = [pairs for part in parts for pairs in part]
    return _edges_of_pairs(pairs, files[0].url, options, found)


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


def _edges(weights: scipy.sparse.csr_array, names: pa.Array, where: str, options: EdgeOptions) -> Edges:
    if not len(names):
        raise DataError(f"{where}: the graph has no nodes")
    if len(names) > MAX_NODES:
        raise DataError(f"{where}: {len(names):,} nodes are too many; a graph may have {MAX_NODES:,}")
    if not weights.nnz:
        raise DataError(f"{where}: there are no edges in it, at least none with a weight above 0")
    weights.sort_indices()
    is_weighted = options.weighted
    if is_weighted is None:
        is_weighted = bool((weights.data != 1).any())
    return Edges(weights, names, is_weighted, options.directed, {})


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


def _check_weights(weights: np.ndarray, where: str) -> None:
    """Raise DataError unless all weights can be stored as 32-bit numbers."""
    if np.iscomplexobj(weights):
        raise DataError(f"{where}: its weights are complex numbers; pass real ones, such as their absolute values")
    largest, least = np.finfo(np.float32).max, float(np.finfo(np.float32).smallest_subnormal)
    # Numbers up to half of the least one would become 0, and their edges would be left out.
    is_bad = ~((weights >= 0) & (weights <= largest)) | ((weights > 0) & (weights <= least / 2))
    if is_bad.any():
        edge = int(np.argmax(is_bad))
        raise DataError(
            f"{where}, edge {edge + 1}: the weight {weights[edge]} must be finite and not negative, 0 or at least "
            f"{least:.2g}, and at most {largest:.3g}; correct it, or ignore weights with {UNWEIGHTED}"
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
    return _edges_of_numbers(names.take(pa.array(order)), (source, target), weights, where, options, found)


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


def _edges_of_pairs(parts: list[Pairs], where: str, options: EdgeOptions, found: Found) -> Edges:
    if not sum(len(part.source) for part in parts):
        raise DataError(f"{where}: there are no edges in it")
    _check_no_matrix(parts, where, found)
    names, source, target = _number_nodes(parts)
    if found.are_two_kinds and len(both := np.intersect1d(source, target)):
        raise DataError(
            f"{where}: the two columns have nodes of two kinds, and {pluralize(len(both), 'name')} such as "
            f"{names[int(both[0])].as_py()!r:.40} in both, which would become one node: write the names of one column "
            f"in another way, such as 'item 1'"
        )
    _note_first_edge(names, source, target, where, found)
    return _edges_of_numbers(
        names, (source, target), _weights_of_pairs(parts, where, options, found), where, options, found
    )


def _check_no_matrix(parts: list[Pairs], where: str, found: Found) -> None:
    """Raise DataError for three lines of three numbers, of which the diagonal is 0: an adjacency matrix."""
    if found.is_weight_named or sum(len(part.source) for part in parts) != 3:
        return
    columns = [[part.source.to_pylist(), part.target.to_pylist(), part.weight] for part in parts]
    try:
        rows = np.concatenate([np.array(one, float).T for one in columns if one[2] is not None])
    except ValueError:
        return  # names
    if rows.shape == (3, 3) and not rows.diagonal().any():
        raise DataError(
            f"{where}: three lines of three numbers, as a matrix has: {MATRIX_ADVICE}; if these are edges, name the "
            f"columns source, target and weight"
        )


def _note_first_edge(names: pa.Array, source: np.ndarray, target: np.ndarray, where: str, found: Found) -> None:
    """Say if headers may be edges: those that follow again, or first lines whose names occur nowhere else."""
    if found.n_headers_again:
        found.notices.append(
            f"{where}: {pluralize(found.n_headers_again, 'line')} like the header, as where files were joined, became "
            f"edges; remove such lines"
        )
    if found.first_edge is None or len(source) < 3 or found.first_edge[0] == found.first_edge[1]:
        return
    first, second = found.first_edge
    numbers = [pc.index(names, pa.scalar(name)).as_py() for name in (first, second)]
    if np.count_nonzero(np.isin(np.concatenate([source, target]), numbers)) == 2 * found.n_first_edges:
        found.notices.append(
            f"{where}: the first line is taken for an edge between {first!r:.40} and {second!r:.40}, which occur "
            f"nowhere else; if it names the columns, read it with {HEADER}"
        )


def _edges_of_numbers(
    names: pa.Array,
    ends: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray | None,
    where: str,
    options: EdgeOptions,
    found: Found,
) -> Edges:
    """Return the edges between nodes given by their numbers (N,) int32, with weights (N,) float64 if there are any."""
    source, target = ends
    if not options.directed:
        if weights is not None:
            _note_both_directions(source, target, where, found)
        # Both directions of an undirected edge become entries of the upper triangle, where they add up.
        source, target = np.minimum(source, target), np.maximum(source, target)
    found.facts["edges"] = len(source)
    found.count("loops", int(np.count_nonzero(source == target)))
    if weights is not None:
        _check_weights(weights, where)
        _note_zeros(int(np.count_nonzero(weights == 0)), where, found)
    entries = np.ones(len(source), np.float32) if weights is None else weights.astype(np.float32)
    matrix = scipy.sparse.coo_array((entries, (source, target)), shape=(len(names), len(names))).tocsr()
    found.count("repetitions", len(source) - matrix.nnz)
    if weights is None:
        # Conversion to CSR has added up repeated edges.
        matrix.data[:] = 1
    matrix.eliminate_zeros()
    _check_sums(matrix.data, where)
    if not options.directed:
        matrix = _symmetric(matrix, where)
    return _edges(matrix, names, where, options)


def _weights_of_pairs(parts: list[Pairs], where: str, options: EdgeOptions, found: Found) -> np.ndarray | None:
    """Return the weights of all pairs, 1 where a file has none; None if no file has any or they are ignored."""
    if options.weighted is False or all(part.weight is None for part in parts):
        return None
    weights = np.concatenate([np.ones(len(part.source)) if part.weight is None else part.weight for part in parts])
    if not found.is_weight_named and _are_times(weights):
        found.notices.append(
            f"{where}: the third column, from {weights.min():.10g} to {weights.max():.10g}, is taken for times, and "
            f"left out; if it has weights, name it in the first line and with {WEIGHT}"
        )
        columns = found.facts.get("columns", [])
        found.facts["skipped_columns"] = columns[2:] or ["the third"]
        del columns[2:]
        return None
    found.notices += found.taken_for_weights
    found.facts["weights"] = [float(weights.min()), float(weights.max())]
    steps = np.diff(weights)
    like_times = None
    if len(weights) > 3 and (steps >= 0).all() and np.count_nonzero(steps) > 1:
        like_times = f"rise from line to line, from {weights[0]:,.0f} to {weights[-1]:,.0f}, as times do"
    if ((weights >= 1900) & (weights <= 2100)).all():
        like_times = f"are from {weights.min():.0f} to {weights.max():.0f}, as years are"
    if like_times and not found.is_weight_named and (weights % 1 == 0).all():
        found.notices.append(
            f"{where}: the weights {like_times}; if they are no weights, ignore them with {UNWEIGHTED}"
        )
    return weights


def _note_both_directions(source: np.ndarray, target: np.ndarray, where: str, found: Found) -> None:
    """Say if some pairs of nodes, but not all, are listed in both directions: their weights become twice as large."""
    apart = source != target
    span = int(max(source.max(), target.max())) + 1
    first, second = source[apart].astype(np.int64), target[apart].astype(np.int64)
    n_directed = len(np.unique(first * span + second))
    n_pairs = len(np.unique(np.minimum(first, second) * span + np.maximum(first, second)))
    if 0 < n_directed - n_pairs < n_pairs:
        found.notices.append(
            f"{where}: {n_directed - n_pairs:,} of {pluralize(n_pairs, 'pair')} of nodes are listed in both "
            f"directions, and their weights are added up; if directions differ, read it with {DIRECTED}"
        )


def _are_times(values: np.ndarray) -> bool:
    """Return whether all numbers (N,) float64 are seconds or milliseconds of Unix, or dates such as 20261231."""
    if any(((values >= first) & (values <= 2 * first)).all() for first in (1e9, 1e12)):
        return True
    if not np.isfinite(values).all():
        return False
    years, months, days = values // 10_000, values // 100 % 100, values % 100
    are_dates = (values % 1 == 0) & (years >= 1900) & (years <= 2100)
    return bool((are_dates & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())


def _number_nodes(parts: list[Pairs]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Return the names of all nodes in order, and all pairs' first and second nodes as numbers (N,) int32."""
    columns = [part.source for part in parts] + [part.target for part in parts]
    encoded = pa.chunked_array([column.dictionary_encode() for column in columns]).unify_dictionaries()
    names = encoded.chunk(0).dictionary
    order = _order_of(names)
    number_of = np.empty(len(order), np.int32)
    number_of[order] = np.arange(len(order), dtype=np.int32)
    numbers = number_of[np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])]
    source, target = np.split(numbers, 2)
    return names.take(pa.array(order)), source, target


def _order_of(names: pa.Array) -> np.ndarray:
    """Return the positions of names in ascending order; if all are integers, in the order of these integers."""
    # No leading zeros, so that 7 and 07 stay different nodes, and at most 18 digits, so that the numbers fit int64.
    are_integers = pc.all(pc.match_substring_regex(names, r"^(0|[1-9]\d{0,17})$")).as_py()
    return pc.sort_indices(names.cast(pa.int64()) if are_integers else names).to_numpy()


def _read_table(file: SourceFile, format_name: str, options: EdgeOptions, found: Found) -> Iterator[Pairs]:
    is_parquet = format_name == "parquet"
    with open_file(file, unpack=not is_parquet) as stream:
        try:
            table = read_parquet(stream) if is_parquet else open_arrow(stream, file).read_all()
        except DAMAGED as error:
            raise DataError(f"{file.url}: not a file of {format_name.capitalize()} ({error})") from None
    yield from _pairs_of_table(table, file.url, options, found)


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
    yield from _pairs_of_table(table, "table", options, found, in_memory=True)


def _pairs_of_table(
    table: pa.Table, where: str, options: EdgeOptions, found: Found, in_memory: bool = False
) -> Iterator[Pairs]:
    """Yield the edges of a table. ``where`` names it in errors (DataError)."""
    names = table.column_names
    is_named = usual_columns(names) is not None or options.source or options.target
    # A matrix may have a column with the names of its rows.
    is_square = table.num_rows in (len(names), len(names) - 1)
    if len(names) > 3 and not is_named and (is_square or in_memory):
        raise DataError(
            f"{where}: {len(names)} columns, none of which are called source and target: name the columns of the two "
            f"nodes with {COLUMNS}; if it is a matrix, {MATRIX_ADVICE}"
        )
    has_numbers = lambda column: is_type_of_numbers(table.schema.field(column).type)  # noqa: E731
    columns = [names[column] for column in edge_columns(names, options, where, has_numbers, found)]
    types = type_column(names)
    if types is not None and "Directed" in table.column(types).unique().to_pylist():
        note_direction(where, "column 'Type' says", options, found)
    # In parts, because an array of strings has at most 2 GiB.
    for rows in table.to_batches(PARQUET_ROWS):
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
