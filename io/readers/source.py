"""Where documents come from: the files that a source names, and the batches that readers make of them."""

import codecs
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fsspec.implementations.local import LocalFileSystem

from ..stores.store import DataError, filesystem_of

#: Bytes of text that a reader hands on at once: what follows holds about ten times as much.
BATCH_BYTES = 4 << 20
#: Bytes of a partition, the unit of work that is redone after an interruption.
PARTITION_BYTES = 16 << 20
#: More partitions than this are joined, so that a scheduler is not swamped.
MAX_PARTITIONS = 4096

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


class Bag(NamedTuple):
    """Counted words by column number, expanded to one entry a token."""

    doc_ptr: np.ndarray  # (D + 1,) int64
    columns: np.ndarray  # (T,) int64: ascending in a document
    names: pa.Array | None  # the word of each column; None names a column by its number


class Batch(NamedTuple):
    """Some consecutive documents: their keys, and texts (large_string), tokens (large_list of string) or a bag."""

    keys: pa.Array  # (D,) string
    content: pa.Array | Bag


@dataclass(frozen=True)
class ReadOptions:
    """How documents are found in a source."""

    format: str = "auto"
    text: str = "text"  # column or field of the text
    tokens: str | None = None  # column or field of a list of tokens, instead of text
    key: str | None = None  # column or field of the document's own key; else file:row
    vocabulary_file: str | None = None  # words of a docword, svmlight or MatrixMarket file, one a line
    zero_based: bool = False  # svmlight columns count from 0
    encoding_errors: str = "strict"  # or "replace": what to do with invalid UTF-8
    null_text: str = "error"  # or "empty": what to do with a row without text


@dataclass(frozen=True)
class SourceFile:
    """One file of a source; ``name`` is its path below what the source's files share."""

    url: str
    name: str
    size: int
    modified: str

    @property
    def compression(self) -> str | None:
        """How the file is packed, by its extension."""
        return COMPRESSED.get(PurePosixPath(self.url).suffix.lower())

    @property
    def extension(self) -> str:
        """The extension in lower case, one of packing left out."""
        suffixes = PurePosixPath(self.url.lower()).suffixes
        return "".join([s for s in suffixes if s not in COMPRESSED][-1:])


@dataclass(frozen=True)
class Partition:
    """A part of a source that is read on its own. What start, stop and first mean is the reader's business."""

    file: SourceFile
    start: int = 0
    stop: int = 1 << 62
    first: int = 1  # number of the first row or line
    more: tuple[SourceFile, ...] = ()  # files read together with this one


def find_files(source: Any) -> list[SourceFile]:
    """Return the files of a path, folder, glob or URL, or of a list of them, in order of their names.

    Raises DataError where nothing is found.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    found: list[tuple[Any, str, dict[str, Any]]] = []
    for one in [os.fspath(s) for s in sources]:
        matches = _matches(one)
        if not matches:
            raise DataError(f"{one}: no file matches; check the path or the pattern")
        found += matches
    shared = os.path.commonpath([str(PurePosixPath(path).parent) for _, path, _ in found])
    return [_describe(fs, path, info, str(PurePosixPath(path).relative_to(shared))) for fs, path, info in found]


def is_folder(source: Any) -> bool:
    """Whether a source is one folder, not a file, a pattern or a list."""
    if not isinstance(source, str | os.PathLike):
        return False
    fs, path = filesystem_of(os.fspath(source))
    return not _is_pattern(path) and fs.isdir(path)


def _matches(source: str) -> list[tuple[Any, str, dict[str, Any]]]:
    fs, path = filesystem_of(source)
    # A file may have brackets in its name.
    if _is_pattern(path) and not fs.exists(path):
        found = {p: info for p, info in fs.glob(path, detail=True).items() if info["type"] == "file"}
    elif fs.isdir(path):
        everything = fs.find(path, detail=True)
        found = {p: info for p, info in everything.items() if not _is_hidden(os.path.relpath(p, path))}
    else:
        found = {path: fs.info(path)} if fs.exists(path) else {}
    return [(fs, p, found[p]) for p in sorted(found)]


def _is_pattern(path: str) -> bool:
    return any(c in path for c in "*?[")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _describe(fs: Any, path: str, info: dict[str, Any], name: str) -> SourceFile:
    modified = next((str(info[k]) for k in ("ETag", "mtime", "LastModified", "updated") if info.get(k)), "")
    url = path if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(path)
    return SourceFile(url, name, int(info["size"] or 0), modified)


@contextmanager
def open_file(file: SourceFile, unpack: bool = True) -> Iterator[Any]:
    """Open a file for reading bytes, unpacked by its extension; raise DataError when it is gone or damaged."""
    try:
        with fsspec.open(file.url, "rb", compression=file.compression if unpack else None) as stream:
            yield stream
    except FileNotFoundError:
        raise DataError(f"{file.url}: no such file") from None


def read_some(stream: Any, size: int, file: SourceFile, line: int = 1) -> bytes:
    """Read up to ``size`` bytes; a packed file that ends too early or is damaged is a DataError with the line."""
    return _guarded(file, line, stream.read, size)


def _guarded(file: SourceFile, line: int, read: Callable[..., bytes], *arguments: int) -> bytes:
    try:
        return read(*arguments)
    except Exception as error:  # every library that unpacks has errors of its own
        if file.compression is None:
            raise
        raise DataError(
            f"{file.url}, after line {line - 1}: the {file.compression} data is cut off or damaged ({error}); "
            f"fetch the file again"
        ) from None


def line_blocks(file: SourceFile, part: Partition, size: int = BATCH_BYTES) -> Iterator[tuple[bytes, int]]:
    """Yield (whole lines, number of the first) of the lines that begin in ``part.start:part.stop``.

    The line that a range falls into belongs to the range before.
    """
    with open_file(file) as stream:
        line, position = part.first, part.start
        if part.start:
            stream.seek(part.start - 1)
            position += len(stream.readline()) - 1
        while position < part.stop:
            data = _guarded(file, line, stream.read, min(size, part.stop - position))
            if not data:
                return
            if not data.endswith(b"\n"):
                data += _guarded(file, line, stream.readline)
            yield data if position else data.removeprefix(codecs.BOM_UTF8), line
            position += len(data)
            line += data.count(b"\n")


def as_text(values: pa.Array, options: ReadOptions, where: Any) -> pa.Array:
    """Return (D,) large_string for binary or string values; ``where(i)`` names row i in an error.

    Raises DataError for nulls and invalid UTF-8, unless the options say "empty" and "replace".
    """
    if values.null_count:
        if options.null_text == "error":
            row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise DataError(f"{where(row)}: no text; drop such rows, or ingest with null_text=empty")
        filler = pa.string() if pa.types.is_null(values.type) else values.type
        values = pc.fill_null(values.cast(filler), pa.scalar("").cast(filler))
    if not pa.types.is_binary(values.type) and not pa.types.is_large_binary(values.type):
        return as_string(values, options.text, where)
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array(_decoded(values.to_pylist(), options, where), pa.large_string())


def as_string(values: pa.Array, column: str, where: Any) -> pa.Array:
    """Return a column of text, numbers or dates as large_string; raise DataError for lists, structs and the like."""
    try:
        return values.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{where(0)}: column {column!r} is {values.type} where text is needed") from None


def token_lists(values: pa.Array, options: ReadOptions, where: Any) -> pa.Array:
    """Return (D,) large_list of large_string; raise DataError for other columns, null tokens, and nulls as as_text."""
    try:
        lists = values.cast(pa.large_list(pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"{where(0)}: column {options.tokens!r} is {values.type} where lists of strings are needed"
        ) from None
    if lists.null_count and options.null_text == "error":
        row = lists.is_null().to_pylist().index(True)
        raise DataError(f"{where(row)}: no tokens; drop such rows, or ingest with null_text=empty")
    if lists.flatten().null_count:
        row = next(i for i, tokens in enumerate(lists) if tokens.is_valid and None in tokens.as_py())
        raise DataError(f"{where(row)}: a token is null")
    return lists


def clean(value: Any) -> Any:
    """Replace lone surrogates, which JSON can spell and UTF-8 cannot."""
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value if value is None or value.isascii() else value.encode("utf-8", "replace").decode()


def _decoded(values: list[bytes], options: ReadOptions, where: Any) -> Iterable[str]:
    for row, value in enumerate(values):
        try:
            yield value.decode("utf-8", options.encoding_errors)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where(row)}: invalid UTF-8 at byte {error.start}; ingest with encoding_errors=replace to go on"
            ) from None


def row_keys(name: str, first: int, count: int) -> pa.Array:
    """Return the keys ``name:first`` to ``name:first + count - 1``."""
    numbers = pa.array(np.arange(first, first + count)).cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar(name), numbers, ":")
