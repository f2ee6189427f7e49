"""Batches of documents, which readers yield: made of columns and of fields of objects, and without bad lines."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..stores.corpus import DOCUMENT_COLUMNS
from .kept import KeptColumn, KeptColumns, first_not_utf8, join_batches
from .kinds import no_values

#: Names of columns that a table of documents, or of their weights, has already.
RESERVED = (*DOCUMENT_COLUMNS, "document", "weights")
#: Bytes of text in a batch. Tokenising a batch takes about ten times as much memory.
BATCH_BYTES = 4 << 20

#: Tests for Arrow's types of bytes of any length.
BINARY_TYPES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)

#: Errors of casts between types of Arrow.
NO_CAST = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
#: Names a row of a batch in an error message, such as "news.csv, row 7".
RowName = Callable[[int], str]

#: Characters of a bad line that are kept.
KEPT_CHARACTERS = 10_000

#: Some consecutive lines, in the form in which a reader parses them.
Lines = TypeVar("Lines")
#: The same as a named tuple of sequences.
Columns = TypeVar("Columns", bound=Any)
#: Marks a field that an object does not have. None is a value: JSON's null.
_ABSENT = object()


@dataclass(frozen=True)
class ReadOptions:
    """How documents are read from a source."""

    format: str = "auto"
    text: str = "text"  # column or field of the text
    tokens: str | None = None  # column or field with a list of tokens, to be read instead of text
    key: str | None = None  # column or field with the document's key; None: the key is file:row
    vocabulary_file: str | None = None  # names of the columns of a matrix without names, one per line
    keys_file: str | None = None  # names of the documents of such a matrix, one per line
    layer: str | None = None  # matrix of an AnnData file: "X" (also None), "raw/X", or such as "layers/counts"
    names: str | None = None  # names of 10x features: "id" (also None) or "name"
    feature_type: str | None = None  # keep the 10x features of this type only, such as "Peaks"
    transpose: bool = False  # whether the columns of a MatrixMarket or .npz file are the documents
    delimiter: str | None = None  # what separates the columns of CSV files; None: a tab in .tsv and .tab, else a comma
    quote: str = '"'  # what is around fields of CSV files that hold delimiters or line ends; "none": nothing is
    escape: str | None = None  # what is before a quote in a field of a CSV file; None: a second quote
    columns: Sequence[str] = ()  # names of the columns of CSV files without a header
    encoding: str | None = None  # of files of text; None: UTF-8
    binarize: bool = False  # whether a count above 0 is read as 1
    zero_based: bool = False  # whether svmlight columns count from 0
    encoding_errors: str = "strict"  # what to do with invalid UTF-8: "strict" refuses it, "replace" replaces it
    null_text: str = "error"  # what to do with a row without text: "error" refuses it, "empty" reads an empty text
    on_bad_line: str = "error"  # what to do with a line that cannot be read: "error", "skip" or "quarantine"
    max_bad_lines: int | float = 0.1  # most lines to skip: a number (int) or a share of all lines (float)
    keep: Sequence[str] = ()  # columns or fields that are stored with the documents, such as the date


def check_options_of_format(
    options: Any, formats_of_option: Mapping[str, Sequence[str]], format_name: str, source: str
) -> None:
    """Raise ValueError for an option, of a dataclass, that has no effect in this format and is not at its default."""
    for field in fields(options):
        formats = formats_of_option.get(field.name, (format_name,))
        if format_name not in formats and getattr(options, field.name) not in (field.default, []):
            option = " (--columns)" if field.name in ("source", "target") else ""  # of the command graph
            raise ValueError(f"{field.name}{option} applies to {', '.join(formats)}, but {source} is {format_name}")


def check_characters(**options: str | None) -> None:
    """Raise ValueError for a delimiter, a quote or an escape that is not one character."""
    others = {"delimiter": (None, "\\t"), "quote": ("none",), "escape": (None,)}
    for name, character in options.items():
        if character not in others[name] and not (character and len(character) == 1 and character.isascii()):
            raise ValueError(f"{name}={character!r} must be one character of ASCII")


def check_kept_names(names: Sequence[str]) -> None:
    """Raise ValueError for a name that the table of documents uses itself, and for one that occurs twice."""
    for name in names:
        if name in RESERVED:
            raise ValueError(f"keep: a corpus has a column {name!r} of its own; rename the column of the source")
    if len(set(names)) < len(names):
        raise ValueError(f"keep names a column twice: {', '.join(names)}")


def wanted_columns(options: ReadOptions) -> list[str]:
    """Return the columns to read, each once: text or tokens, the key if the options name one, and those to keep."""
    content = options.tokens or options.text
    key = [options.key] if options.key else []
    return list(dict.fromkeys([content, *key, *options.keep]))


class Bag(NamedTuple):
    """Documents as counted words, with one entry per token. D documents, T tokens."""

    doc_ptr: np.ndarray  # (D + 1,) int64
    columns: np.ndarray  # (T,) int64: column numbers, ascending in a document
    names: pa.Array | None  # the word of each column; None: a column's word is its number


class BadLine(NamedTuple):
    """A line of a file that could not be read as a document and was skipped."""

    file: str  # its URL
    line: int | None  # its number in the file, from 1; None: the whole file was skipped
    error: str  # why it could not be read
    text: str  # the beginning of the line


class Odd(NamedTuple):
    """Rows that are read although something is odd about them."""

    reason: str  # what is odd, and what to do
    number: int
    first: str  # where the first of them is, such as "news.csv, line 7"


def merge_odd(parts: Iterable[Odd]) -> list[Odd]:
    """Return one entry for each reason, in the order of the parts."""
    found: dict[str, Odd] = {}
    for one in parts:
        before = found.get(one.reason, one._replace(number=0))
        found[one.reason] = before._replace(number=before.number + one.number)
    return list(found.values())


class Batch(NamedTuple):
    """Some documents that follow each other in a source, which are read and split into words together. D documents."""

    keys: pa.Array  # (D,) string: the names of the documents, such as "news.csv:7"
    content: pa.Array | Bag  # (D,) large_string (texts) or large_list<large_string> (tokens), or counted words
    bad: tuple[BadLine, ...] = ()  # lines that were skipped
    kept: KeptColumns | None = None  # columns that the option keep names; None: it names none
    odd: tuple[Odd, ...] = ()  # what is odd about rows that were read, not only of this batch


# --- keys ---


def number_keys(first: int, n_rows: int) -> pa.Array:
    """Return the keys ``first``, ``first + 1`` and so on, for ``n_rows`` rows."""
    return pa.array(np.arange(first, first + n_rows)).cast(pa.string())


def row_keys(file_name: str, first_row: int, n_rows: int) -> pa.Array:
    """Return the keys ``file_name:first_row``, ``file_name:first_row + 1`` and so on, for ``n_rows`` rows."""
    return keys_of_rows(file_name, np.arange(first_row, first_row + n_rows))


def keys_of_rows(file_name: str, numbers: np.ndarray) -> pa.Array:
    """Return the key ``file_name:number`` of each row, for the numbers of D rows, (D,) int64."""
    return pc.binary_join_element_wise(pa.scalar(file_name), pa.array(numbers).cast(pa.string()), ":")


# --- columns of text and of tokens ---


def as_text(values: pa.Array, options: ReadOptions, row_name: RowName) -> pa.Array:
    """Return bytes or strings as (D,) large_string.

    Raises DataError for nulls and for invalid UTF-8, unless the options allow them.
    """
    if values.null_count and options.null_text == "error":
        row = values.is_null().to_pylist().index(True)
        raise DataError(f"{row_name(row)}: no text (a missing value); drop such rows, or ingest with null_text=empty")
    if any(is_binary(values.type) for is_binary in BINARY_TYPES):
        data = _without_nulls(values.cast(pa.large_binary()))
    else:
        texts = _without_nulls(as_string(values, options.text, row_name))
        if is_utf8(texts):
            return texts
        data = texts.cast(pa.large_binary())
    try:
        return data.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array(_decoded(data.to_pylist(), options, row_name), pa.large_string())


def _without_nulls(values: pa.Array) -> pa.Array:
    """Return texts, as large_string or large_binary, in which empty texts take the place of missing ones."""
    return pc.fill_null(values, pa.scalar("").cast(values.type)) if values.null_count else values


def _decoded(values: Iterable[bytes], options: ReadOptions, row_name: RowName) -> Iterator[str]:
    for row, value in enumerate(values):
        try:
            yield value.decode("utf-8", options.encoding_errors)
        except UnicodeDecodeError as error:
            raise invalid_utf8(row_name(row), error) from None


def invalid_utf8(where: str, error: UnicodeDecodeError) -> DataError:
    """Return the error for bytes that are not UTF-8."""
    return DataError(
        f"{where}: invalid UTF-8 at byte {error.start}; name the encoding of the file, such as encoding=cp1252, or "
        f"ingest with encoding_errors=replace, which loses such letters"
    )


def check_utf8(line: bytes, where: str) -> str:
    """Return a line of a file that can be in no other encoding as text; raise DataError if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: invalid UTF-8 at byte {error.start}; convert the file, such as with iconv -f cp1252 -t UTF-8"
        ) from None


def as_string(values: pa.Array, column: str, row_name: RowName) -> pa.Array:
    """Return text, numbers or dates as (D,) large_string; raise DataError for lists, structs and other types."""
    try:
        if isinstance(values.type, pa.BaseExtensionType) and pa.types.is_integer(values.type.storage_type):
            # The numbers may mean something else, such as the months of pandas.
            raise pa.ArrowInvalid
        return values.cast(pa.large_string())
    except NO_CAST:
        raise DataError(f"{row_name(0)}: column {column!r} is {values.type} where text is needed") from None


def is_utf8(values: pa.Array) -> bool:
    """Return whether all strings are UTF-8. A damaged Parquet file may have others, and Arrow does not check them."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def as_token_lists(values: pa.Array, options: ReadOptions, row_name: RowName) -> pa.Array:
    """Return the tokens of D documents in one Arrow type, (D,) large_list<large_string>.

    Raises DataError for other types, for null tokens, and for null lists unless the options allow them.
    """
    if pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type):
        # Arrow casts views of lists wrongly if one is null.
        values = pa.array(values.to_pylist(), pa.large_list(values.type.value_type))
    try:
        lists = values.cast(pa.large_list(pa.large_string()))
    except NO_CAST:
        raise DataError(
            f"{row_name(0)}: column {options.tokens!r} is {values.type} where lists of strings are needed"
        ) from None
    if not is_utf8(lists):
        raise DataError(f"{row_name(0)}: column {options.tokens!r} has tokens that are not UTF-8; write the file again")
    if lists.null_count and options.null_text == "error":
        row = lists.is_null().to_pylist().index(True)
        raise DataError(f"{row_name(row)}: no tokens; drop such rows, or ingest with null_text=empty")
    if lists.flatten().null_count:
        row = next(i for i, tokens in enumerate(lists.to_pylist()) if tokens is not None and None in tokens)
        raise DataError(f"{row_name(row)}: a token is null")
    return lists


def column_at(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a column, or a field of nested columns such as "article.body"; None if there is none.

    A column whose own name has dots comes first.
    """
    if name in batch.schema.names:
        return _decoded_dictionary(batch.column(name))
    root, _, rest = name.partition(".")
    if not rest or root not in batch.schema.names:
        return None
    column = batch.column(root)
    for part in rest.split("."):
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return None
        column = pc.struct_field(column, part)
    return _decoded_dictionary(column)


def _decoded_dictionary(column: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column
    values = column.dictionary
    if pa.types.is_string_view(values.type):  # polars has such text, and Arrow cannot take values from it
        values = values.cast(pa.large_string())
    return values.take(column.indices)


def column_batch(
    options: ReadOptions,
    file_name: str,
    values: pa.Array,
    keys: pa.Array | None,
    row_name: RowName,
    first_row: int,
    kept: KeptColumns | None = None,
) -> Batch:
    """Return the batch of a column of text or tokens, a column of keys if there is one, and the kept columns."""
    convert = as_token_lists if options.tokens else as_text
    content = convert(values, options, row_name)
    if keys is None:
        return Batch(row_keys(file_name, first_row, len(values)), content, kept=kept)
    if keys.null_count:
        row = keys.is_null().to_pylist().index(True)
        raise DataError(f"{row_name(row)}: no key in {options.key!r}")
    texts = as_string(keys, str(options.key), row_name)
    if not is_utf8(texts):
        raise DataError(f"{row_name(first_not_utf8(texts))}: the key in {options.key!r} is not UTF-8")
    return Batch(texts.cast(pa.string()), content, kept=kept)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by question marks: JSON can express them, UTF-8 cannot."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


# --- fields of objects ---


def value_at(row: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the value of a field, or ``default`` if there is none. A field whose own name has dots comes first."""
    if name in row:
        return row[name]
    if "." not in name:
        return default
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return default
        value = value[part]
    return value


def values_at(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[list[Any], bool]:
    """Return the value of a field in each object, None where there is none, and whether any object has the field."""
    found = [value_at(row, name, _ABSENT) for row in rows]
    is_present = any(value is not _ABSENT for value in found)
    return [None if value is _ABSENT else value for value in found], is_present


def field_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields that occur in some JSON objects, each once.

    The field ``body`` of an object in the field ``article`` is "article.body".
    """
    names: dict[str, None] = {}
    for row in rows:
        waiting = [(str(name), value) for name, value in row.items()]
        while waiting:
            name, value = waiting.pop(0)
            if isinstance(value, Mapping) and value:
                waiting = [(f"{name}.{inner}", each) for inner, each in value.items()] + waiting
            else:
                names[name] = None
    return list(names)


# --- bad lines: rows of a file that a reader refuses, while all others are good ---


def parse_good_lines(
    lines: Lines,
    parse: Callable[[Lines], Batch],
    halve: Callable[[Lines], tuple[Lines, Lines] | None],
    describe: Callable[[Lines, str], BadLine],
    options: ReadOptions,
) -> Batch:
    """Return the documents of the lines that can be parsed, and descriptions of the others.

    Lines with an error among them are halved until each bad line is alone. ``halve`` returns None for one line, and
    ``describe`` is called with that line and the error. Raises the DataError of ``parse`` if the options allow no bad
    lines.
    """
    if options.on_bad_line == "error":
        return parse(lines)
    batches = []
    waiting = [lines]
    while waiting:
        some = waiting.pop()
        try:
            batches.append(parse(some))
        except DataError as error:
            halves = halve(some)
            if halves is None:
                batches.append(without_documents([describe(some, str(error))], options))
            else:
                # The first half is parsed first.
                waiting += reversed(halves)
    return _join(batches, options)


def without_documents(bad: Sequence[BadLine], options: ReadOptions) -> Batch:
    """Return a batch that has no documents, only descriptions of bad lines."""
    content_type = pa.large_list(pa.large_string()) if options.tokens else pa.large_string()
    kept = None
    if options.keep:
        kept = {name: KeptColumn(pa.nulls(0), no_values(is_present=False)) for name in options.keep}
    return Batch(pa.array([], pa.string()), pa.array([], content_type), tuple(bad), kept)


def _join(batches: Sequence[Batch], options: ReadOptions) -> Batch:
    if len(batches) == 1:
        return batches[0]
    empty = without_documents([], options)
    keys = pa.concat_arrays([empty.keys, *(batch.keys for batch in batches)])
    content = pa.concat_arrays([empty.content, *(batch.content for batch in batches)])
    kept = join_batches([batch.kept for batch in batches if batch.kept is not None]) if options.keep else None
    bad = tuple(line for batch in batches for line in batch.bad)
    return Batch(keys, content, bad, kept, tuple(one for batch in batches for one in batch.odd))


def bad_line(file: str, line: int | None, error: str, text: bytes | str) -> BadLine:
    """Return the description of a bad line. Its beginning is kept."""
    if isinstance(text, bytes):
        text = text[: 4 * KEPT_CHARACTERS].decode("utf-8", "replace")
    return BadLine(file, line, error, text.rstrip("\r\n")[:KEPT_CHARACTERS])


def halve_columns(lines: Columns) -> tuple[Columns, Columns] | None:
    """Cut lines that are given by several sequences with an entry for each line."""
    middle = len(lines[-1]) // 2
    if not middle:
        return None
    return lines._make(each[:middle] for each in lines), lines._make(each[middle:] for each in lines)


def halve_block(block: tuple[bytes, int]) -> tuple[tuple[bytes, int], tuple[bytes, int]] | None:
    """Cut a block of whole lines, given with the number of its first line, at the end of a line near its middle."""
    data, line = block
    end = data.rfind(b"\n", 0, len(data) // 2) + 1
    if not end:
        end = data.find(b"\n") + 1
    if end in (0, len(data)):
        return None
    return (data[:end], line), (data[end:], line + data.count(b"\n", 0, end))
