"""Choose the reader of a source: by the option ``format``, by the names of its files, or by the type of an object."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..data import Kind, items_of, recognise, refusal
from ..errors import DataError, DataWarning
from ..matrices.hierarchies import is_zarr
from ..matrices.memory import matrix_of, row_blocks
from .batches import Batch, ReadOptions, check_characters, check_options_of_format
from .content import (
    CHECKED_FILES,
    TABLE_EXTENSIONS,
    check_encoding,
    check_encoding_name,
    check_is_text,
    check_one_format,
    format_by_content,
)
from .delimited import CSVReader
from .frames import TableReader, table_parts
from .jsonl import JSONLinesReader
from .lines import LinesReader, MalletReader, TextFilesReader
from .market import TenXFolderReader, TransposedMatrixMarketReader, is_tenx_folder
from .matrices import AnnDataReader, AnnDataZarrReader, MatrixReader, NpzReader, TenXReader
from .reader import DocumentsReader, Reader
from .source import Partition, Paths, SourceFile, find_files, find_folders, is_folder, path_list
from .svmlight import LDACReader, SVMLightReader
from .tables import ArrowReader, ParquetReader
from .triples import DocwordReader, MatrixMarketReader

FORMATS: dict[str, type[Reader]] = {
    "jsonl": JSONLinesReader,
    "lines": LinesReader,
    "csv": CSVReader,
    "mallet": MalletReader,
    "parquet": ParquetReader,
    "arrow": ArrowReader,
    "text": TextFilesReader,
    "docword": DocwordReader,
    "svmlight": SVMLightReader,
    "lda-c": LDACReader,
    "matrixmarket": MatrixMarketReader,
    "npz": NpzReader,
    "h5ad": AnnDataReader,
    "zarr": AnnDataZarrReader,
    "10x-h5": TenXReader,
    "10x-mtx": TenXFolderReader,
}
#: Formats in which a source is a folder, not a file.
_FOLDER_FORMATS = ("zarr", "10x-mtx")
#: What `open_in_memory` takes, and `open_source`.
_TAKEN = "documents (strings or lists of words), a table of them, a matrix of counts, or paths of files"
#: What data in memory is called where the formats of an option are named.
_IN_MEMORY = {
    Kind.DOCUMENTS: "documents in memory",
    Kind.TABLE: "a table in memory",
    Kind.TABLES: "a table in memory",
    Kind.MATRIX: "a matrix in memory",
}
#: Formats of files of text.
_TEXT_FORMATS = ("jsonl", "lines", "csv", "mallet", "text")
#: Formats in which a document is a row with columns or fields.
_WITH_COLUMNS = ("jsonl", "csv", "parquet", "arrow", "a table in memory")
_COUNTS_AS_TEXT = ("docword", "svmlight", "lda-c", "matrixmarket")
_WITHOUT_TEXT = (*_COUNTS_AS_TEXT, "npz", "h5ad", "zarr", "10x-h5", "10x-mtx")
_WITH_TEXT = (*_TEXT_FORMATS, "parquet", "arrow", "demo", "documents in memory", "a table in memory")
#: The formats in which each option has an effect. Options that are not here have one in all.
FORMATS_OF_OPTION = {
    "format": tuple(FORMATS),
    **dict.fromkeys(("text", "tokens", "key", "keep"), _WITH_COLUMNS),
    "null_text": (*_WITH_COLUMNS, "documents in memory"),
    **dict.fromkeys(("on_bad_line", "max_bad_lines", "encoding"), _TEXT_FORMATS),
    **dict.fromkeys(("encoding_errors", "token_pattern"), _WITH_TEXT),
    "vocabulary_file": (*_COUNTS_AS_TEXT, "npz"),
    **dict.fromkeys(("keys_file", "transpose"), ("matrixmarket", "npz")),
    "binarize": (*_WITHOUT_TEXT, "a matrix in memory"),
    "zero_based": ("svmlight",),
    "layer": ("h5ad", "zarr", "a matrix in memory"),
    **dict.fromkeys(("delimiter", "quote", "escape", "columns"), ("csv",)),
    **dict.fromkeys(("names", "feature_type"), ("10x-h5", "10x-mtx")),
}
_EXTENSIONS = TABLE_EXTENSIONS | {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".h5ad": "h5ad",
    ".h5": "10x-h5",
}
#: Names of matrices that 10x Genomics' programs write, also in collections such as GEO.
_OF_TENX = re.compile(r"(^|/)(GS[EM]\d+_(\w+[_.-])?)?matrix\.mtx(\.gz)?$")
_ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar")
#: Allowed values of options.
_CHOICES = {
    "format": ("auto", *FORMATS),
    "encoding_errors": ("strict", "replace"),
    "null_text": ("error", "empty"),
    "on_bad_line": ("error", "skip", "quarantine"),
    "names": (None, "id", "name"),
}
#: Begins the name of a text that comes with this package, for a quick start without data.
DEMO_PREFIX = "demo:"


def open_source(source: Paths, options: ReadOptions) -> Reader:
    """Return the reader of a path, URL, glob or folder, of a list of these, or of ``demo:NAME``.

    Raises DataError if nothing is found or if formats are mixed, and ValueError for a bad option.
    """
    _check_values(options)
    if isinstance(source, str) and source.startswith(DEMO_PREFIX):
        check_options_of_format(options, FORMATS_OF_OPTION, "demo", source)
        if source != f"{DEMO_PREFIX}kjv":
            raise DataError(f"{source}: no such demo; choose {DEMO_PREFIX}kjv")
        return KingJamesReader(options)
    format_name = options.format
    if format_name == "auto":
        format_name = _folder_format(source) or ""
    is_folder_format = format_name in _FOLDER_FORMATS
    files = find_folders(source) if is_folder_format else find_files(source)
    if options.encoding is not None:
        files = [replace(one, encoding=options.encoding, encoding_errors=options.encoding_errors) for one in files]
    format_name = format_name or _guess_format(source, files)
    check_options_of_format(options, FORMATS_OF_OPTION, format_name, str(source))
    if format_name in _TEXT_FORMATS:
        check_encoding(files)
    elif format_name in _COUNTS_AS_TEXT:
        check_encoding(files, "convert it to UTF-8: iconv -f {} -t UTF-8 FILE")
    reader = FORMATS[format_name]
    if format_name == "matrixmarket":
        if options.transpose:
            reader = TransposedMatrixMarketReader
        elif found := next((file.url for file in files if _OF_TENX.search(file.url)), None):
            warnings.warn(
                f"{found}: each row is a document, but in 10x Genomics' files of this name each column is a cell; if "
                f"it is one, read its folder, with barcodes.tsv and features.tsv, or the file with transpose=True",
                DataWarning,
                stacklevel=2,
            )
    return reader(files, options)


def open_in_memory(data: Any, options: ReadOptions, names: Sequence[str] | None = None) -> Reader:
    """Return the reader of documents, of a table of documents, or of a matrix of counts, whose columns have ``names``.

    Raises DataError for anything else.
    """
    _check_values(options)
    recognised = recognise(data)
    kind, value, _ = recognised
    if kind in _IN_MEMORY:
        check_options_of_format(options, FORMATS_OF_OPTION, _IN_MEMORY[kind], "the source")
    if kind is Kind.MATRIX:
        numbers, own_names = matrix_of(value, options.layer)
        return MatrixReader(row_blocks(numbers, names or own_names), options)
    if kind in (Kind.TABLE, Kind.TABLES):
        return TableReader(table_parts(value, options), options)
    if kind is Kind.DOCUMENTS:
        return DocumentsReader(items_of(value), options)
    raise refusal(recognised, "ingest", _TAKEN)


def _folder_format(source: Paths) -> str | None:
    """Return the format of a folder that is read as one file, or None for any other source."""
    paths = path_list(source)
    if paths and all(is_zarr(path) for path in paths):
        return "zarr"
    if paths and all(is_folder(path) and is_tenx_folder(path) for path in paths):
        return "10x-mtx"
    return None


def _check_values(options: ReadOptions) -> None:
    """Raise ValueError if an option has a value that no format allows."""
    check_characters(delimiter=options.delimiter, quote=options.quote, escape=options.escape)
    if options.encoding is not None:
        check_encoding_name(options.encoding)
    for name, allowed in _CHOICES.items():
        value = getattr(options, name)
        if value not in allowed:
            shown = ", ".join(str(choice) for choice in allowed)
            raise ValueError(f"{name}={value!r} is not known: choose one of {shown}")


def _guess_format(source: Paths, files: list[SourceFile]) -> str:
    """Return the format that the beginnings of the first files mean, or else the names of the files.

    Files with other names hold one document per line, except in a folder: there each file is a document. Raises
    DataError if such files hold numbers or binary data.
    """
    formats = {format_by_content(file, _format_of(file)): file for file in files[:CHECKED_FILES]}
    formats |= {_format_of(file): file for file in files[CHECKED_FILES:]}
    check_one_format(source, formats)
    format_name = next(iter(formats))
    if format_name == "lines":
        check_is_text(files)
        if is_folder(source):
            return "text"
    return format_name


def _format_of(file: SourceFile) -> str:
    if file.extension in _ARCHIVES:
        raise DataError(f"{file.url}: an archive; unpack it and ingest the folder, or name other files with a pattern")
    if PurePosixPath(file.url).name.startswith("docword."):
        return "docword"
    return _EXTENSIONS.get(file.extension, "lines")


# --- a text that comes with this package ---


class KingJamesReader(Reader):
    """The King James Bible, which is in the public domain: 1,189 chapters, each a document."""

    kind = "KingJames"

    def __init__(self, options: ReadOptions):
        super().__init__((SourceFile(f"{DEMO_PREFIX}kjv", "kjv", 0, ""),), options)

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield all chapters."""
        content = resources.files("corpusmill.configs").joinpath("kjv.parquet").read_bytes()
        chapters = pq.read_table(pa.BufferReader(content)).combine_chunks()
        yield Batch(chapters["key"].chunk(0), chapters["text"].cast(pa.large_string()).chunk(0))
