"""Which reader reads what: by the option ``format``, else by the file's name or the kind of object."""

import os
from typing import Any

import scipy.sparse

from . import demo
from .bags import Docword, Matrix, MatrixMarket, SVMLight
from .readers import CSV, Documents, JSONLines, Parquet, PlainText, Reader, TextFiles
from .source import ReadOptions, SourceFile, find_files
from .store import DataError

FORMATS: dict[str, type[Reader]] = {
    "jsonl": JSONLines,
    "text": PlainText,
    "csv": CSV,
    "parquet": Parquet,
    "files": TextFiles,
    "docword": Docword,
    "svmlight": SVMLight,
    "matrixmarket": MatrixMarket,
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


def open_source(source: Any, options: ReadOptions, names: Any | None = None) -> Reader:
    """Return the reader of a path, URL, glob, folder, list of paths, ``demo:NAME``, matrix or iterable of documents.

    ``names``: the words of a matrix's columns. Raises DataError where nothing is found, ValueError for a bad option.
    """
    _check(options)
    if scipy.sparse.issparse(source) or hasattr(source, "__array__"):
        return Matrix(source, names, options)
    if not isinstance(source, str | os.PathLike) and not _are_paths(source):
        return Documents(source, options)
    if isinstance(source, str) and source.startswith(demo.PREFIX):
        return demo.open_demo(source, options)
    files = find_files(source)
    kind = options.format if options.format != "auto" else _guess(source, files)
    return FORMATS[kind](tuple(files), options)


def _check(options: ReadOptions) -> None:
    choices = {"format": ("auto", *FORMATS), "encoding_errors": ("strict", "replace"), "null_text": ("error", "empty")}
    for name, allowed in choices.items():
        if getattr(options, name) not in allowed:
            raise ValueError(f"{name}={getattr(options, name)!r} is not known: choose one of {', '.join(allowed)}")


def _are_paths(source: Any) -> bool:
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(s, os.PathLike) for s in source)


def _guess(source: Any, files: list[SourceFile]) -> str:
    kinds = {_kind(f) for f in files}
    if len(kinds) > 1 and kinds & {"text", "files"} == kinds - set(FORMATS) | (kinds & {"text"}):
        kinds -= {"text"}
    if len(kinds) > 1:
        raise DataError(
            f"{source}: files of several formats ({', '.join(sorted(kinds))}); name one with format, or give a pattern "
            f"such as {os.fspath(source) if isinstance(source, str | os.PathLike) else '...'}/*.jsonl"
        )
    kind = kinds.pop()
    is_folder = isinstance(source, str | os.PathLike) and len(files) > 0 and not _names_files(os.fspath(source), files)
    return "files" if kind == "text" and is_folder else kind


def _names_files(source: str, files: list[SourceFile]) -> bool:
    """Whether the source is a pattern or one file, not a folder."""
    return any(c in source for c in "*?[") or (len(files) == 1 and files[0].url.endswith(source.rsplit("/", 1)[-1]))


def _kind(file: SourceFile) -> str:
    if os.path.basename(file.url).startswith("docword."):
        return "docword"
    return _EXTENSIONS.get(file.extension, "text")
