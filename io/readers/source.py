"""The files of a source: finding them, opening them, and reading them block by block."""

import codecs
import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple, TypeAlias

import fsspec.core
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from ..errors import DataError, DataWarning
from ..messages import pluralize
from ..stores.filesystems import comes_from_store, explained_errors
from ..stores.store import filesystem_of
from .batches import BATCH_BYTES, replace_surrogates

#: A file, folder, pattern or URL, or several of these.
Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

#: Extensions of compressed files, and fsspec's names of the compressions.
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
#: How files with these extensions begin.
_COMPRESSED_STARTS = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".zip": b"PK",
}

#: Names of files and folders that never have documents: hidden ones, marks of Spark and Delta, and what Windows writes.
_NO_DOCUMENTS = re.compile(
    r"\..*|_success|_metadata|_common_metadata|_temporary|_delta_log|_spark_metadata|_(committed|started)_.*"
    r"|thumbs\.db|desktop\.ini",
    re.IGNORECASE | re.DOTALL,
)
#: Names that programs give to unfinished output, and editors to backup copies.
_NOT_MEANT = re.compile(r"_.*|.*~|#.*#", re.DOTALL)
#: Extensions of copies that lie beside the file itself.
_COPIES = (".bak", ".orig")

#: Bytes that are decompressed at once when a reader needs a single line.
UNPACKED_BYTES = 1 << 16
#: Characters of a path that a message shows.
LONGEST_PATH = 200


@dataclass(frozen=True)
class SourceFile:
    """A file to be read, and what tells one version of its content from another."""

    url: str
    name: str  # path below the folder that contains all files of the source
    size: int  # bytes
    modified: str  # time of the last change, or the object store's tag of the content
    changed: str = ""  # local files: when content or attributes changed last, a time that no program can set
    tag: str = ""  # tag or version of the content, if the store has one
    encoding: str | None = None  # of a file of text in another encoding than UTF-8, and what to do with invalid bytes
    encoding_errors: str = "strict"

    @property
    def stored_url(self) -> str:
        """The URL as stores record it, without secrets. It identifies the file from one ingest to the next."""
        return stored_url(self.url)

    @property
    def compression(self) -> str | None:
        """The compression that the file's extension names, or None."""
        return COMPRESSED.get(PurePosixPath(self._path).suffix.lower())

    @property
    def can_be_cut(self) -> bool:
        """Whether the lines of a byte range can be read without those before."""
        return self.compression is None and self.encoding is None

    @property
    def extension(self) -> str:
        """The extension in lower case, such as ".csv", also for "x.CSV.gz"; empty if there is none."""
        suffixes = [s for s in PurePosixPath(self._path.lower()).suffixes if s not in COMPRESSED]
        return suffixes[-1] if suffixes else ""

    @property
    def _path(self) -> str:
        """The URL without its query. A local path may contain a question mark."""
        return self.url.partition("?")[0] if "://" in self.url else self.url


@dataclass(frozen=True)
class Partition:
    """Part of a source that one task reads.

    ``start`` and ``stop`` are a byte range in files of lines, and a range of row groups in Parquet files.
    """

    file: SourceFile
    start: int = 0
    stop: int = 1 << 62
    first_row: int = 1  # number of the first row or line
    more_files: tuple[SourceFile, ...] = ()  # small files that are read together with ``file``


# --- finding files ---


class _Found(NamedTuple):
    """A file in a filesystem."""

    filesystem: fsspec.AbstractFileSystem
    path: str
    info: dict[str, Any]


def find_files(source: Paths) -> list[SourceFile]:
    """Return the files of a path, folder, glob or URL, or of a list of these, sorted by path.

    Raises DataError if nothing is found.
    """
    found: list[_Found] = []
    for path in path_list(source):
        matches = _matches(path)
        if not matches:
            raise DataError(_no_file(path, is_list=not isinstance(source, str | os.PathLike)))
        found += matches
    if not found:
        raise DataError("the list of paths is empty; name at least one file")
    common = os.path.commonpath([str(PurePosixPath(file.path).parent) for file in found])
    files = list(dict.fromkeys(_describe(file, common) for file in found))
    if len(files) < len(found):
        warnings.warn(
            f"{pluralize(len(found) - len(files), 'file')} of {len(found):,} are named more than once; each is read "
            f"once",
            DataWarning,
            stacklevel=2,
        )
    _warn_of_copies(files)
    return files


def _warn_of_copies(files: list[SourceFile]) -> None:
    """Warn of files that lie beside a compressed one of the same name: both are read."""
    unpacked = {file.url for file in files if file.compression is None}
    packed = [file for file in files if file.compression and file.url[: file.url.rindex(".")] in unpacked]
    if packed:
        warnings.warn(
            f"{packed[0].url}: read besides the file of this name that is not compressed; if they have the same "
            f"documents, remove one ({pluralize(len(packed), 'such file')})",
            DataWarning,
            stacklevel=3,
        )


def _no_file(path: str, is_list: bool) -> str:
    """Return the message for a path that matches no file."""
    # Somebody may have passed a text.
    if len(path) > LONGEST_PATH:
        path = f"{path[:LONGEST_PATH]}..."
    message = f"{path}: no file matches; check the path or the pattern"
    if is_list:
        message += (
            "; strings in a list are paths, so pass texts in memory as a column, such as pandas.Series(texts), or as "
            "lists of words"
        )
    return message


def path_list(source: Paths) -> list[str]:
    """Return one path, or each path of a list, as a string."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    return [os.fspath(path) for path in paths]


def find_folders(source: Paths) -> list[SourceFile]:
    """Return folders that are read as one file each, such as Zarr stores, sorted by path; a list may name several.

    The version of a folder is a digest of the names, sizes and versions of its files. Raises DataError if a folder does
    not exist.
    """
    folders: list[tuple[fsspec.AbstractFileSystem, str]] = []
    for url in path_list(source):
        filesystem, path = filesystem_of(url)
        found = [path]
        with explained_errors(filesystem, url):
            if _is_pattern(path):
                found = sorted(match for match in filesystem.glob(path) if _is_meant(match, path))
            folders += [(filesystem, folder.rstrip("/")) for folder in found if filesystem.isdir(folder)]
    if not folders:
        raise DataError(f"{source}: no such folder; check the path or the pattern")
    common = os.path.commonpath([str(PurePosixPath(folder).parent) for _, folder in folders])
    return [_describe_folder(filesystem, folder, common) for filesystem, folder in folders]


def _describe_folder(filesystem: fsspec.AbstractFileSystem, path: str, common: str) -> SourceFile:
    with explained_errors(filesystem, filesystem.unstrip_protocol(path)):
        below = filesystem.find(path, detail=True)
    files = [_describe(_Found(filesystem, name, below[name]), path) for name in sorted(below) if not _is_marker(name)]
    content = json.dumps([[file.name, file.size, file.modified] for file in files])
    is_local = isinstance(filesystem, LocalFileSystem)
    url = path if is_local else filesystem.unstrip_protocol(path)
    name = str(PurePosixPath(path).relative_to(common))
    tag = hashlib.sha256(content.encode()).hexdigest()[:16]
    return SourceFile(url, name, sum(file.size for file in files), tag, tag=tag)


def is_folder(source: Paths) -> bool:
    """Return whether a source is one folder, not a file, a pattern or a list."""
    if not isinstance(source, str | os.PathLike):
        return False
    filesystem, path = filesystem_of(os.fspath(source))
    with explained_errors(filesystem, os.fspath(source)):
        return not _is_pattern(path) and filesystem.isdir(path)


def _matches(source: str) -> list[_Found]:
    filesystem, path = filesystem_of(source)
    with explained_errors(filesystem, source):
        infos = _infos(filesystem, path)
    return [_Found(filesystem, file, infos[file]) for file in sorted(infos)]


def _infos(filesystem: fsspec.AbstractFileSystem, path: str) -> dict[str, dict[str, Any]]:
    """Return the files of a path, folder or pattern, with what the filesystem knows about each."""
    # The name of a file may have brackets, so a path that exists is not a pattern.
    if _is_pattern(path) and not filesystem.exists(path):
        matches = filesystem.glob(path, detail=True)
        meant = {match: info for match, info in matches.items() if _is_meant(match, path) and not _is_marker(match)}
        return {match: info for match, info in _followed(filesystem, meant).items() if info["type"] == "file"}
    if filesystem.isdir(path):
        infos = _followed(filesystem, _documents_of(filesystem.find(path, detail=True), path))
        _check_no_folders(infos)
        return infos
    return {path: filesystem.info(path)} if filesystem.exists(path) else {}


def _documents_of(listing: Mapping[str, dict[str, Any]], path: str) -> dict[str, dict[str, Any]]:
    """Return what a folder lists without what programs write beside documents, and say which files are left out.

    Copies such as a.txt.bak are left out if the file itself is listed. A pattern reads such files.
    """
    files = {}
    left_out = []
    for name, info in listing.items():
        parts = os.path.relpath(name, path).split("/")
        if _is_marker(name) or any(map(_NO_DOCUMENTS.fullmatch, parts)):
            continue
        is_copy = any(name.endswith(copy) and name.removesuffix(copy) in listing for copy in _COPIES)
        if is_copy or any(map(_NOT_MEANT.fullmatch, parts)):
            left_out.append(name)
        else:
            files[name] = info
    if left_out:
        warnings.warn(
            f"{path}: {pluralize(len(left_out), 'file')} left out, such as {min(left_out)}: names that begin with _, "
            f"and backup copies, are read if a pattern names them",
            DataWarning,
            stacklevel=2,
        )
    return files


def _is_marker(name: str) -> bool:
    """Return whether an object only marks a folder, as consoles of object stores make it. No file has such a name."""
    return name.endswith("/")


def _followed(
    filesystem: fsspec.AbstractFileSystem, listing: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return a listing with what symbolic links lead to: a listing has the type and the times of the links themselves.

    Raises DataError for a link that leads nowhere.
    """
    infos = dict(listing)
    for file, info in listing.items():
        if not info.get("islink"):
            continue
        try:
            infos[file] = filesystem.info(file)
        except FileNotFoundError:
            raise DataError(
                f"{file}: this link leads to {info['destination']}, which does not exist; remove the link, or restore "
                f"the file"
            ) from None
    return infos


def _check_no_folders(infos: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise DataError for a link to a folder: it may lead back to a folder above."""
    for file, info in infos.items():
        if info["type"] == "directory":
            raise DataError(
                f"{file}: links to folders are not followed; remove the link, and name the folder in a list of paths"
            )


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _is_meant(match: str, pattern: str) -> bool:
    """Return whether a pattern names each hidden part of a path that it matches. As in a shell, ``*`` does not."""
    named = [part for part in PurePosixPath(pattern).parts if part.startswith(".")]
    hidden = [part for part in PurePosixPath(match).parts if part.startswith(".")]
    return all(any(fnmatchcase(part, each) for each in named) for part in hidden)


def _describe(found: _Found, common: str) -> SourceFile:
    # Filesystems name the version of a file differently.
    tag = _first_of(found.info, "ETag", "etag", "generation", "VersionId")
    modified = tag or _first_of(found.info, "mtime", "LastModified", "last_modified", "updated")
    is_local = isinstance(found.filesystem, LocalFileSystem)
    changed = _first_of(found.info, "created") if is_local else ""  # fsspec's name of st_ctime
    url = found.path if is_local else found.filesystem.unstrip_protocol(found.path)
    # The name becomes part of the keys of documents.
    path = found.path if is_local else stored_url(found.path)
    name = str(PurePosixPath(path).relative_to(common))
    # Keys of documents are stored in UTF-8. Python has a surrogate for each byte of a name that is not.
    shown = replace_surrogates(url)
    if shown != url:
        raise DataError(f"{shown}: the name of this file or of its folder is not UTF-8; rename it (convmv -t utf8)")
    return SourceFile(url, name, int(found.info["size"] or 0), modified, changed, tag)


def _first_of(info: Mapping[str, Any], *names: str) -> str:
    """Return the first of these entries that has a value, as a string; empty if none has."""
    values = (info.get(name) for name in names)
    return next((str(value) for value in values if value), "")


# --- reading ---


@contextmanager
def open_file(file: SourceFile, unpack: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, decompressed unless ``unpack`` is False; raise DataError if it is missing."""
    filesystem, path = filesystem_of(file.url)
    try:
        with (
            explained_errors(filesystem, file.url),
            unpacked(filesystem, path, file.compression if unpack else None) as stream,
        ):
            if file.encoding is not None and unpack:
                yield io.BufferedReader(_InUTF8(stream, file), UNPACKED_BYTES)
            else:
                yield stream
    except FileNotFoundError:
        raise DataError(f"{file.url}: no such file") from None


class _InUTF8(io.RawIOBase):
    """The text of a stream in another encoding, as UTF-8."""

    def __init__(self, stream: IO[bytes], file: SourceFile):
        self._stream = stream
        self._file = file
        self._decoder = codecs.getincrementaldecoder(str(file.encoding))(file.encoding_errors)
        self._waiting = b""
        self._is_end = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return how many bytes it got."""
        while not self._waiting and not self._is_end:
            more = self._stream.read(UNPACKED_BYTES)
            self._is_end = not more
            try:
                text = self._decoder.decode(more, final=self._is_end)
            except UnicodeError as error:
                raise DataError(
                    f"{self._file.url}: not {self._file.encoding} ({error}); name another encoding, or ingest with "
                    f"encoding_errors=replace, which loses such letters"
                ) from None
            self._waiting = text.encode("utf-8", "replace")
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size


@contextmanager
def unpacked(filesystem: fsspec.AbstractFileSystem, path: str, compression: str | None) -> Iterator[IO[bytes]]:
    """Open a path for reading bytes, decompressed. fsspec's names of the compressions, and "infer", are accepted."""
    if compression == "infer" and path.endswith(".zst"):
        compression = "zstd"
    # fsspec needs another package for zstd, reads the first frame only, and takes a cut-off file as complete.
    is_zstd = compression == "zstd"
    with fsspec.core.OpenFile(filesystem, path, "rb", None if is_zstd else compression) as stream:
        if is_zstd:
            yield io.BufferedReader(pa.CompressedInputStream(stream, compression), UNPACKED_BYTES)
        else:
            yield stream


def read_some(stream: IO[bytes], size: int, file: SourceFile) -> bytes:
    """Read up to ``size`` bytes, or all for -1; raise DataError if a compressed file is cut off or damaged."""
    return _guarded(file, 1, stream.read, size)


def _guarded(file: SourceFile, line: int, read: Callable[..., bytes], *arguments: int) -> bytes:
    """Call ``read``; turn errors of decompression into DataError. ``line`` is the number of the next line."""
    try:
        return read(*arguments)
    except Exception as error:  # each library for decompression has errors of its own
        if file.compression is None or isinstance(error, DataError) or comes_from_store(error):
            raise
        check_is_compressed(file.url)
        raise DataError(
            f"{file.url}, after line {line - 1}: the {file.compression} data is cut off or damaged ({error}); "
            f"fetch the file again"
        ) from None


def check_is_compressed(url: str) -> None:
    """Raise DataError if a file that cannot be decompressed does not begin as the extension of its name says."""
    extension = PurePosixPath(url.partition("?")[0] if "://" in url else url).suffix.lower()
    filesystem, path = filesystem_of(url)
    with explained_errors(filesystem, url), filesystem.open(path, "rb") as stream:
        beginning = stream.read(6)
    # The file may be cut off within its first bytes.
    if not beginning.startswith(_COMPRESSED_STARTS.get(extension, b"")[: len(beginning)]):
        raise DataError(
            f"{url}: its name ends in {extension}, but it begins with {beginning!r}, as no such file does; if it is "
            f"not compressed, let its name end in another way"
        )


def line_blocks(
    file: SourceFile, partition: Partition, size: int = BATCH_BYTES, any_ends: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole lines, each with the number of its first line.

    The lines are those that begin in the byte range of the partition. A line that crosses the start of the range
    belongs to the range before. Raises DataError if all lines of the file end in carriage returns, unless ``any_ends``.
    """
    with open_file(file) as stream:
        line = partition.first_row
        position = partition.start
        if partition.start:
            # Skip the rest of the line that the range begins in. If a line begins exactly at the start of the range,
            # this reads just the newline before it.
            stream.seek(partition.start - 1)
            position += len(stream.readline()) - 1
        while position < partition.stop:
            data = _guarded(file, line, stream.read, min(size, partition.stop - position))
            if not data:
                return
            if not data.endswith(b"\n"):
                data += _guarded(file, line, stream.readline)
            # Without a line feed, the first block is the whole file.
            if position == 0 and not any_ends and b"\n" not in data and b"\r" in data.rstrip(b"\r"):
                raise DataError(
                    f"{file.url}, line 1: carriage returns, but no line ends; convert the file: tr '\\r' '\\n'"
                )
            # Files that were joined have further marks, at the start of a line.
            yield re.sub(b"(?m)^" + codecs.BOM_UTF8, b"", data) if codecs.BOM_UTF8 in data else data, line
            position += len(data)
            line += data.count(b"\n")


# --- URLs as stores record them ---


#: Parameters of signed URLs of Amazon, Google and Azure. They differ from one signature to the next.
_SIGNATURE = re.compile(
    r"x-(amz|goog)-.*|awsaccesskeyid|googleaccessid|key-pair-id|policy|signature|expires|(access_)?token"
    r"|s(ig|e|p|v|t|r|s|ip|pr|rt|koid|ktid|kt|ke|ks|kv)",
    re.IGNORECASE,
)


def stored_url(url: str) -> str:
    """Return a URL as stores record it.

    The parameters of a signature are dropped, so that a file is recognised although it was signed anew. A digest
    replaces the other parameters: they may name the file, or they may be secret. Local paths stay as they are.
    """
    base, mark, query = url.partition("?")
    if not mark or "://" not in base:
        return url
    kept = sorted(each for each in query.split("&") if not _SIGNATURE.fullmatch(each.partition("=")[0]))
    if not kept:
        return base
    digest = hashlib.sha256("&".join(kept).encode()).hexdigest()[:8]
    return f"{base}?hidden={digest}"
