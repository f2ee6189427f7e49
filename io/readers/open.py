"""Choose the reader of a source: by the option ``format``, by the names of its files, or by the type of an object."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import scipy.sparse

from ..stores.store import DataError
from . import demo
from .batches import ReadOptions
from .content import check_is_text
from .jsonl import JSONLinesReader
from .lda_c import LDACReader
from .lines import LinesReader, TextFilesReader
from .memory import DocumentsReader, MatrixReader
from .reader import Reader
from .source import SourceFile, find_files, is_folder
from .svmlight import SVMLightReader
from .tables import CSVReader, ParquetReader
from .triples import DocwordReader, MatrixMarketReader

FORMATS: dict[str, type[Reader]] = {
    "jsonl": JSONLinesReader,
    "lines": LinesReader,
    "csv": CSVReader,
    "parquet": ParquetReader,
    "text": TextFilesReader,
    "docword": DocwordReader,
    "svmlight": SVMLightReader,
    "lda-c": LDACReader,
    "matrixmarket": MatrixMarketReader,
}
_EXTENSIONS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".mtx": "matrixmarket",
    ".mm": "matrixmarket",
}
_ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar")
#: Allowed values of options.
_CHOICES = {
    "format": ("auto", *FORMATS),
    "encoding_errors": ("strict", "replace"),
    "null_text": ("error", "empty"),
}


def open_source(source: Any, options: ReadOptions) -> Reader:
    """Return the reader of a path, URL, glob or folder, of a list of these, or of ``demo:NAME``.

    Raises DataError if nothing is found or if formats are mixed, and ValueError for a bad option.
    """
    _check(options)
    if isinstance(source, str) and source.startswith(demo.PREFIX):
        return demo.open_demo(source, options)
    files = find_files(source)
    format_name = options.format
    if format_name == "auto":
        format_name = _guess_format(source, files)
    reader = FORMATS[format_name]
    if options.vocabulary_file and reader.is_ordered:
        raise ValueError(
            f"vocabulary_file names the columns of docword, svmlight, LDA-C and MatrixMarket files, but "
            f"{source} is {format_name}"
        )
    return reader(files, options)


def from_memory(data: Any, options: ReadOptions, names: Sequence[str] | None = None) -> Reader:
    """Return the reader of a matrix of counts, whose columns have ``names``, or of an iterable of documents."""
    _check(options)
    if scipy.sparse.issparse(data) or getattr(data, "ndim", 1) == 2:
        return MatrixReader(data, names, options)
    return DocumentsReader(data, options)


def _check(options: ReadOptions) -> None:
    for name, allowed in _CHOICES.items():
        value = getattr(options, name)
        if value not in allowed:
            raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(allowed)}")


def _guess_format(source: Any, files: list[SourceFile]) -> str:
    """Return the format that the names of the files mean.

    Files with other names hold one document per line, except in a folder: there each file is a document. Raises
    DataError if such files hold numbers or binary data.
    """
    formats = sorted({_format_of(file) for file in files})
    if len(formats) > 1:
        raise DataError(
            f"{source}: files of several formats ({', '.join(formats)}); choose one with the option format, or name "
            f"the files with a pattern"
        )
    if formats == ["lines"]:
        check_is_text(files)
        if is_folder(source):
            return "text"
    return formats[0]


def _format_of(file: SourceFile) -> str:
    if file.extension in _ARCHIVES:
        raise DataError(f"{file.url}: an archive; unpack it and ingest the folder")
    if PurePosixPath(file.url).name.startswith("docword."):
        return "docword"
    return _EXTENSIONS.get(file.extension, "lines")
