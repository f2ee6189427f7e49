"""What an object is: documents, a table, a matrix, edges, a store, or a path; and which store is at a path.

`ingest`, and `fit` and other methods of the models, decide by this module alone what they were given. Objects of other
libraries are recognised by their attributes, so that these libraries are not imported.
"""

import os
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
import pyarrow as pa
import scipy

from .errors import DataError
from .matrices.blocks import RowBlocks
from .matrices.memory import is_annotated, is_backed, is_dask_array, is_missing
from .messages import listed
from .stores.corpus import Corpus
from .stores.graph import Graph
from .stores.matrix import Matrix
from .stores.store import Store

#: A string that is a URL and nothing else.
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
#: How tables of other libraries become tables of Arrow, the best way first.
TO_ARROW = ("__arrow_c_stream__", "to_arrow", "__dataframe__")
#: What is iterable, but has no documents in a certain order.
_NO_DOCUMENTS = (bytes, bytearray, memoryview, Mapping, set, frozenset)
#: Pairs of a document and something else, which would become one of its words.
_PAIRS = (zip, enumerate, ItemsView)


class NetworkxGraph(Protocol):
    """A graph of networkx. The library is optional, so its classes cannot be named."""

    nodes: Any
    edges: Any
    is_directed: Callable[[], bool]


class Kind(Enum):
    """What an object is."""

    DOCUMENTS = "documents"  # strings or lists of words, also none at all
    TABLE = "table"  # documents in a column: a table with other columns than numbers, or dictionaries, one per row
    TABLES = "tables"  # parts of such a table, one after another
    MATRIX = "matrix"  # numbers, with one row per document or sample
    EDGES = "edges"  # a graph of networkx
    STORE = "store"  # an open corpus or matrix
    PATH = "path"  # a path or URL, or a list of paths and URLs
    UNKNOWN = "unknown"


class Data(NamedTuple):
    """An object and what it is. An iterator was begun to see that: ``value`` has all of its items."""

    kind: Kind
    value: Any
    first: Any = None  # the first item that is present, if it was looked at


def recognise(data: Any) -> Data:
    """Return what an object is. What is already recognised stays as it is."""
    if isinstance(data, Data):
        return data
    kind = _kind_of_object(data)
    if kind is not None:
        return Data(kind, data)
    if hasattr(data, "__array__") and not isinstance(data, Iterable):
        return recognise(np.asarray(data))
    if isinstance(data, (*_NO_DOCUMENTS, *_PAIRS)) or not isinstance(data, Iterable) or _is_cursor(data):
        return Data(Kind.UNKNOWN, data)
    if _are_paths(data):
        return Data(Kind.PATH, data)
    if isinstance(data, Iterator) or is_dask_collection(data):
        # These can be read only once, or are computed each time.
        items = items_of(data)
        begun = list(_until_present(items))
        value = chain(begun, items)
        kind = _kind_of_items(begun, value)
        return Data(kind, data if kind is Kind.UNKNOWN else value, *begun[-1:])
    begun = list(_until_present(data))
    return Data(_kind_of_items(begun, data), data, *begun[-1:])


def _until_present(items: Iterable[Any]) -> Iterator[Any]:
    """Yield items up to the first that is not missing."""
    for item in items:
        value = item.as_py() if isinstance(item, pa.Scalar) else item
        yield value
        if not is_missing(value):
            return


def _kind_of_object(data: Any) -> Kind | None:
    """Return what an object is, if that can be told without looking at its items."""
    if isinstance(data, str | os.PathLike):
        return Kind.PATH
    if isinstance(data, Corpus | Matrix):
        return Kind.STORE
    if is_networkx(data):
        return Kind.EDGES
    if scipy.sparse.issparse(data) or isinstance(data, RowBlocks):
        return Kind.MATRIX
    if is_annotated(data) or is_backed(data) or is_dask_array(data):
        return Kind.MATRIX
    if is_table(data):
        # A single column of the usual name has texts, although they may be numbers.
        is_matrix = column_names(data) and column_names(data) != ["text"] and not other_columns(data)
        return Kind.MATRIX if is_matrix else Kind.TABLE
    if getattr(data, "ndim", 1) != 1 and hasattr(data, "shape"):
        return Kind.UNKNOWN if _is_array_of_text(data) else Kind.MATRIX
    return None


def _kind_of_items(begun: Sequence[Any], data: Any) -> Kind:
    """Return what ``data`` is, whose items begin with ``begun``. The last of these decides."""
    first = begun[-1] if begun else None
    if isinstance(first, os.PathLike):
        return Kind.UNKNOWN
    if is_missing(first) or isinstance(first, str):
        return Kind.DOCUMENTS
    if is_row(first):
        return Kind.TABLE
    if is_table(first):
        return Kind.TABLES
    if _has_columns(first):
        return Kind.UNKNOWN
    if _is_number(first):
        # An array of one dimension, which is refused for its shape.
        return Kind.MATRIX if hasattr(data, "__array__") else Kind.UNKNOWN
    if isinstance(first, np.ndarray | list | tuple) and len(first) and any(map(_is_number, first)):
        # A row with text too is one of a table.
        is_matrix = isinstance(data, Sequence) and not any(isinstance(value, str) for value in first)
        return Kind.MATRIX if is_matrix else Kind.UNKNOWN
    return Kind.DOCUMENTS if is_list_of_words(first) else Kind.UNKNOWN


def _are_paths(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(one, os.PathLike) or _is_url(one) for one in data)
    # Texts of a column are documents, also if they are URLs.
    is_column = hasattr(data, "__array__") and not is_dask_collection(data)
    return is_column and len(data) > 0 and all(isinstance(one, os.PathLike) for one in data)


def _is_url(value: object) -> bool:
    return isinstance(value, str) and _URL.fullmatch(value) is not None


def _has_columns(value: object) -> bool:
    """Return whether a value is a key with a row, a column or a group, as tables of pandas give them."""
    if not isinstance(value, list | tuple):
        return False
    # Numbers of NumPy have a dtype too, but no length.
    sized = [one for one in value if hasattr(one, "__len__") and not isinstance(one, str)]
    return any(isinstance(one, tuple) or hasattr(one, "dtype") or is_table(one) for one in sized)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | complex | np.number | np.bool)


def _is_array_of_text(data: Any) -> bool:
    kind = getattr(getattr(data, "dtype", None), "kind", "")
    if kind == "O" and isinstance(data, np.ndarray):
        return any(isinstance(value, str) for value in data[:1].ravel())
    return kind in ("U", "S", "T")


def is_list_of_words(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value may be the words of a document: they are in a certain order."""
    return isinstance(value, Iterable) and not (isinstance(value, (str, *_NO_DOCUMENTS)) or is_table(value))


def _is_cursor(data: object) -> bool:
    """Return whether an object has the results of a database, whose rows would be taken for lists of words."""
    return hasattr(data, "fetchone")


def is_row(value: object) -> bool:
    """Return whether a value is a row whose values have names: a dictionary, a named tuple, a row of a database."""
    if isinstance(value, Mapping) or hasattr(value, "_asdict"):
        return True
    # A series of pandas has keys too.
    return hasattr(value, "keys") and hasattr(value, "__len__") and not hasattr(value, "dtype") and not is_table(value)


def as_mapping(row: Any) -> Mapping[str, Any]:
    """Return a row whose values have names as a dictionary."""
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "_asdict"):
        found: Mapping[str, Any] = row._asdict()
        return found
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 - rows of sqlite3 iterate over their values


def is_networkx(data: object) -> TypeGuard[NetworkxGraph]:
    """Return whether an object is a graph of networkx."""
    modules = {base.__module__.partition(".")[0] for base in type(data).__mro__}
    return "networkx" in modules and hasattr(data, "is_directed")


# --- tables ---


def is_dask_collection(data: Any) -> bool:
    """Return whether an object is a Dask bag, series or data frame, which is computed part by part."""
    is_collection = hasattr(data, "dask") and hasattr(data, "to_delayed") and hasattr(data, "npartitions")
    return is_collection and not is_dask_array(data)


def is_table(data: Any) -> bool:
    """Return whether an object is a table with named columns, and not a single column."""
    if is_dask_collection(data):
        return getattr(data, "ndim", 1) == 2
    if not any(hasattr(data, name) for name in TO_ARROW) and not isinstance(data, Iterable):
        return False
    return hasattr(data, "columns") or hasattr(data, "column_names")


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of an Arrow table or of a data frame."""
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def other_columns(table: Any) -> list[str]:
    """Return the names of the columns that are not numbers."""
    names = column_names(table)
    if isinstance(table, pa.Table | pa.RecordBatch):
        are_numbers = [is_type_of_numbers(field.type) for field in table.schema]
    elif hasattr(table, "dtypes"):
        are_numbers = [_has_numbers(table, position, dtype) for position, dtype in enumerate(table.dtypes)]
    else:
        are_numbers = [False] * len(names)
    return [str(name) for name, is_number in zip(names, are_numbers, strict=True) if not is_number]


def is_type_of_numbers(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers or booleans."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _has_numbers(table: Any, position: int, dtype: Any) -> bool:
    """Return whether a column of pandas, polars or Dask has numbers."""
    if not hasattr(dtype, "kind"):  # a type of polars
        return dtype.is_numeric() or str(dtype) == "Boolean"
    if dtype.kind != "O" or is_dask_collection(table):
        return dtype.kind in "biufc"
    present = (value for value in table.iloc[:, position] if not is_missing(value))
    return _is_number(next(present, None))


def items_of(data: Any) -> Iterator[Any]:
    """Yield the items of a column, of a Dask bag or series (part by part), or of any iterable."""
    if is_dask_collection(data):
        for part in data.to_delayed():
            yield from part.compute()
    elif hasattr(data, "to_pylist"):
        yield from data.to_pylist()
    else:
        yield from data


# --- what is refused ---


def refusal(data: Data, caller: str, takes: str) -> DataError:
    """Return the error of data that ``caller``, an estimator or a function, does not take. It ``takes`` other data."""
    given = data.value
    if _is_cursor(given):
        return DataError(f"{caller} takes no cursor of a database: pass its texts, [row[0] for row in cursor]")
    if data.kind is Kind.TABLES:
        return DataError(
            f"{caller} takes documents, not parts of a table: pass the texts of all parts as one list, or call "
            f"ingest(parts, FOLDER, text=NAME)"
        )
    names = None
    if isinstance(given, Mapping):
        names = list(given)
    elif is_table(given):
        names = other_columns(given) or column_names(given)
    if names is not None:
        return DataError(
            f"{caller} takes documents, not a table with the columns {listed([str(name) for name in names])}: pass the "
            f"column with the text alone, table[NAME], or ingest(table, FOLDER, text=NAME)"
        )
    if _is_array_of_text(given) and given.ndim != 1:
        return DataError(
            f"{caller}: X is an array of text of shape {given.shape}: pass a list of strings if it holds documents, "
            f"such as X[:, 0].tolist(), or convert it to numbers if it holds these"
        )
    if _are_paths(given):
        return DataError(f"{caller} takes no list of paths: pass ingest(paths, FOLDER)")
    described = type(given).__name__
    if data.first is not None:
        described += f" of {type(data.first).__name__}"
    way_out = _way_out(given, data.first)
    return DataError(f"{caller} takes {takes}, not {described}{way_out and f': pass {way_out}'}")


def _way_out(given: Any, first: Any) -> str:
    """Return what to pass instead of what is often passed by mistake; empty for other objects."""
    is_list = isinstance(first, list | tuple) and len(first) > 0
    ways = (
        (any(isinstance(one, bytes | bytearray) for one in (given, first)), "decoded text, such as data.decode()"),
        (any(isinstance(one, set | frozenset) for one in (given, first)), "a list in place of each set"),
        (hasattr(given, "collect"), "the table itself, given.collect()"),
        (isinstance(first, os.PathLike), f"a list of pathlib.Path to ingest, for files such as {first}"),
        (isinstance(given, _PAIRS), "the texts of the pairs alone, [text for _, text in pairs]"),
        (is_list and isinstance(first[0], tuple), "bags of gensim as gensim.matutils.corpus2csc(bags).T"),
        (_has_columns(first), "the table itself"),
        (is_list and any(isinstance(one, str) for one in first), "the texts alone, [row[NUMBER] for row in rows]"),
    )
    return next((way_out for is_given, way_out in ways if is_given), "")


# --- stores ---


def open_data(url: str | os.PathLike[str], part: str = "train") -> Corpus | Matrix | Graph:
    """Return the corpus, matrix or graph store at ``url``; raise DataError if there is none."""
    store = Store(url)
    if store.exists("corpus.json"):
        return Corpus(url, part)
    if store.exists("matrix.json"):
        return Matrix(url, part)
    if store.exists("graph.json"):
        return Graph(url)
    raise DataError(
        f"{store.url}: no corpus and no matrix here; make a corpus with `corpusmill ingest SOURCE {store.url}`"
    )
