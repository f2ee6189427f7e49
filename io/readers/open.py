"""Which reader reads what: by the option ``format``, else by the file's name or the kind of object."""

from pathlib import PurePosixPath
from typing import Any

import scipy.sparse

from ..stores.store import DataError
from . import demo
from .bags import DocwordReader, MatrixMarketReader, MatrixReader, SVMLightReader
from .lines import DocumentsReader, LinesReader, Reader, TextFilesReader
from .source import ReadOptions, SourceFile, find_files, is_folder
from .tables import CSVReader, JSONLinesReader, ParquetReader

FORMATS: dict[str, type[Reader]] = {
    "jsonl": JSONLinesReader,
    "lines": LinesReader,
    "csv": CSVReader,
    "parquet": ParquetReader,
    "text": TextFilesReader,
    "docword": DocwordReader,
    "svmlight": SVMLightReader,
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


def open_source(source: Any, options: ReadOptions) -> Reader:
    """Return the reader of a path, URL, glob, folder or ``demo:NAME``, or of a list of the first four.

    Raises DataError where nothing is found or formats are mixed, ValueError for a bad option.
    """
    _check(options)
    if isinstance(source, str) and source.startswith(demo.PREFIX):
        return demo.open_demo(source, options)
    files = find_files(source)
    kind = options.format if options.format != "auto" else _guess(source, files)
    if options.vocabulary_file and FORMATS[kind].ordered:
        raise ValueError(f"vocabulary_file names the columns of docword, svmlight and MatrixMarket; {source} is {kind}")
    return FORMATS[kind](tuple(files), options)


def from_memory(data: Any, options: ReadOptions, names: Any | None = None) -> Reader:
    """Return the reader of a matrix of counts, whose columns ``names`` names, or of an iterable of documents."""
    _check(options)
    if scipy.sparse.issparse(data) or getattr(data, "ndim", 1) == 2:
        return MatrixReader(data, names, options)
    return DocumentsReader(data, options)


def _check(options: ReadOptions) -> None:
    choices = {"format": ("auto", *FORMATS), "encoding_errors": ("strict", "replace"), "null_text": ("error", "empty")}
    for name, allowed in choices.items():
        if getattr(options, name) not in allowed:
            raise ValueError(f"{name}={getattr(options, name)!r} is not known: choose one of {', '.join(allowed)}")


def _guess(source: Any, files: list[SourceFile]) -> str:
    """By the files' names; in a folder, files of no known name are a document each."""
    kinds = sorted({_kind(f) for f in files})
    if len(kinds) > 1:
        raise DataError(
            f"{source}: files of several formats ({', '.join(kinds)}): name one with format, or use a pattern"
        )
    return "text" if kinds == ["lines"] and is_folder(source) else kinds[0]


def _kind(file: SourceFile) -> str:
    if file.extension in _ARCHIVES:
        raise DataError(f"{file.url}: an archive; unpack it, and ingest the folder that it makes")
    if PurePosixPath(file.url).name.startswith("docword."):
        return "docword"
    return _EXTENSIONS.get(file.extension, "lines")
