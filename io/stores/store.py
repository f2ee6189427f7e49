"""A store: the files below one URL, each written completely or not at all.

On a local path, every write goes to a temporary name first, which is then renamed. An object store shows an object
only when its upload is complete. A group of arrays is several objects there, so readers use a group only after a JSON
file that names it has been written.
"""

import contextlib
import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import fsspec
import numpy as np
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem, make_path_posix

from ..errors import AccessDenied, DataError, DataWarning
from .filesystems import (
    REQUESTS,
    explained_errors,
    flush_path,
    naming_full_disk,
    needing_filesystem,
    remove_path,
    replace_folder,
    replacing,
    temporary_path,
    temporary_pattern,
)
from .formats import (
    DAMAGED,
    StoredGroup,
    encode_group,
    parquet_bytes,
    read_group,
    read_parquet,
    read_parquet_rows,
    read_rows,
    recognised_damage,
)

#: Named NumPy arrays and scalars: a chunk's state, a block of a model, a shard's delta.
Arrays = dict[str, Any]
#: The content of a JSON file.
JsonObject = dict[str, Any]


#: Kinds of stores of data. The file ``<kind>.json`` is written last, so it stands for the whole store.
DATA_KINDS = ("corpus", "matrix", "graph")
#: Names that show that this package writes in a folder, also before a store is complete.
_OWN = {f"{kind}.json" for kind in (*DATA_KINDS, "run", "model")} | {"nodes.parquet", "HEAD", ".work"}

#: A user name with a password, as in "s3://user:password@host". A colon before a port does not match, nor does the one
#: in "simplecache::s3://", which joins two URLs.
_PASSWORD = re.compile(r"://[^/@\s:]*:(?!:|\d+(?:[/?]|$))")

#: Several slashes that are not those of "s3://".
_EMPTY_PART = re.compile(r"(?<![:/])/{2,}")
#: The numbers in the name of a chunk, a block or a step.
_DIGITS = re.compile(r"\d+")
#: The right that deletions need.
_RIGHT = "the right to delete objects (s3:DeleteObject on S3)"


@cache
def _warn_of_leftovers(bucket: str) -> None:
    """Warn that files stay in a bucket, once for each bucket."""
    logging.getLogger("corpusmill").warning(
        "%s: old epochs, versions and work files stay there, because the credentials lack %s: grant it, and later "
        "calls delete them",
        bucket,
        _RIGHT,
    )


def to_json(value: Any) -> Any:
    """Return the JSON form of a value that json does not support: NumPy scalars and arrays, paths."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"an object of type {type(value).__name__} cannot be written as JSON: {value!r}")


def encode_json(value: Any) -> bytes:
    """Return the content of a JSON file."""
    return (json.dumps(value, indent=1, sort_keys=True, default=to_json) + "\n").encode()


def without_password(url: str) -> str:
    """Return the URL; raise DataError if it has a password, because URLs are shown and written to files."""
    if _PASSWORD.search(url):
        raise DataError(
            f"{url.partition('://')[0]}://(hidden): this URL contains a password, and URLs are written to files; give "
            f"the password in an environment variable or in the configuration of the storage library"
        )
    return url


def filesystem_of(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the fsspec filesystem of a URL or local path, and the path in it; raise DataError for anything else.

    Raises ImportError if the library for URLs of this kind is not installed.
    """
    if not url:
        raise DataError("the path is empty: name a file, a folder or a URL (is a variable of the shell not set?)")
    # Outside the try: DataError is a ValueError, and the message below would repeat the URL with its password.
    without_password(url)
    if "::" in url and not _joins_urls(url):
        return fsspec.filesystem("file"), make_path_posix(url)
    if url.startswith("file://") and "%" in url and not Path(url.removeprefix("file://")).exists():
        # Such a URL has %20 for a blank, as pathlib writes it. fsspec takes it literally.
        url = unquote(url)
    try:
        with needing_filesystem(url):
            return fsspec.core.url_to_fs(url)
    except ValueError as error:
        raise DataError(f"{url}: {error}; use a local path or a URL that fsspec supports, such as s3://") from None


def _joins_urls(url: str) -> bool:
    """Return whether "::" joins URLs for fsspec, as in "simplecache::s3://bucket/x", or is part of a file's name."""
    return "://" in url or url.partition("::")[0] in fsspec.available_protocols()


class Store:
    """The files below one URL: a local path, or any URL that fsspec supports.

    A store that is not durable may be damaged by a power cut. Its files are written without waiting for the disk.
    """

    def __init__(self, url: str | os.PathLike[str], is_durable: bool = True):
        self.url = os.fspath(url)
        self.is_durable = is_durable
        self.fs, self.path = filesystem_of(self.url)
        self.is_local = isinstance(self.fs, LocalFileSystem)
        if not self.is_local and _EMPTY_PART.search(self.url):
            # As on a disk. A key may have empty parts, but not every library and server takes them.
            self.url = _EMPTY_PART.sub("/", self.url)
            self.fs, self.path = filesystem_of(self.url)
        #: The files of the last group that was read, by the group's name without its numbers: another chunk, state or
        #: block most likely has the same files. If it has not, reading takes one round trip more.
        self._likely_files: dict[tuple[str, Sequence[str] | None], Sequence[str]] = {}

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    @property
    def absolute(self) -> str:
        """The URL in a form that is valid in every process, whatever its working directory."""
        return self.path if self.is_local else self.url

    def child(self, name: str) -> "Store":
        """Return the store at ``name`` below this one; raise DataError if it lies outside."""
        self.where(name)
        return Store(f"{self.url.rstrip('/')}/{name}", self.is_durable)

    def where(self, name: str) -> str:
        """Return the full path of ``name``; raise DataError if it lies outside the store."""
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"{self.url}: the name {name!r} lies outside the store")
        return f"{self.path.rstrip('/')}/{name}" if name else self.path

    def explained_errors(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a context that turns the errors of an object store into DataError."""
        return explained_errors(self.fs, f"{self.url.rstrip('/')}/{name}")

    @contextlib.contextmanager
    def _explained_write_errors(self, name: str) -> Iterator[None]:
        """As ``explained_errors``, for writes to an object store: these need a bucket."""
        try:
            with self.explained_errors(name):
                yield
        except FileNotFoundError as error:
            raise DataError(
                f"{self.url}: cannot be written, because its bucket does not exist ({error}): create it, or correct "
                f"the URL"
            ) from None

    def count(self, kind: str, number: int = 1) -> None:
        """Count requests to an object store. Long listings, large files and retries take more requests than this."""
        if not self.is_local:
            REQUESTS.add(kind, number)

    # --- listing ---

    def exists(self, name: str = "") -> bool:
        """Return whether a file or folder exists."""
        with self.explained_errors(name):
            self.count("list")
            return self.fs.exists(self.where(name))

    def names(self, name: str = "") -> list[str]:
        """List the files and folders directly below ``name``, sorted, without temporary ones."""
        where = self.where(name)
        self.count("list", 2)
        with self.explained_errors(name):
            if not self.fs.exists(where):
                return []
            self.fs.invalidate_cache(where)
            paths = {path.strip("/") for path in self.fs.ls(where, detail=False)}
        # Consoles and other tools mark a folder by an empty object of its name, which is listed among its content.
        found = [os.path.basename(path) for path in paths - {where.strip("/")}]
        return sorted(n for n in found if not n.startswith(".tmp-"))

    def numbers(self, name: str) -> list[int]:
        """List the files and folders directly below ``name`` whose names are numbers, in ascending order.

        Other names are skipped: file managers and backup tools leave files such as .DS_Store in any folder.
        """
        return sorted(int(found) for found in self.names(name) if found.isdecimal())

    def size(self, name: str = "") -> int:
        """Return the number of bytes stored below ``name``."""
        if not self.exists(name):
            return 0
        with self.explained_errors(name):
            return int(self.fs.du(self.where(name)))

    def modified(self, name: str) -> datetime:
        """Return when a file was written, by the store's clock; raise FileNotFoundError if it does not exist."""
        where = self.where(name)
        with self.explained_errors(name):
            self.fs.invalidate_cache(where)
            return self.fs.modified(where)

    # --- files ---

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a file; raise DataError if it does not exist."""
        try:
            with self.explained_errors(name):
                self.count("read")
                return self.fs.cat_file(self.where(name))
        except FileNotFoundError:
            raise DataError(f"{self.where(name)}: no such file") from None

    def write_bytes(self, name: str, content: bytes, is_flushed: bool = True) -> None:
        """Write or replace a file in one step.

        A local file that is not flushed may be empty after a power cut. Flushing takes milliseconds.
        """
        where = self.where(name)
        if not self.is_local:
            with self._explained_write_errors(name):
                self.count("write")
                self.fs.pipe_file(where, bytes(content))
            return
        target = Path(where)
        make_folder(target.parent)
        with replacing(target, is_flushed and self.is_durable) as temporary:
            temporary.write_bytes(content)

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file; raise DataError if it does not exist or is damaged."""
        content = self.read_bytes(name)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{self.where(name)}: not valid JSON ({error})") from None

    def write_json(self, name: str, value: Any) -> None:
        """Write or replace a JSON file in one step."""
        self.write_bytes(name, encode_json(value))

    def read_parquet(self, name: str) -> pa.Table:
        """Return the table of a Parquet file; raise DataError if the file does not exist or is damaged."""
        with self._open_parquet(name) as file:
            return read_parquet(file)

    def read_parquet_rows(self, name: str, first: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows ``first`` to ``stop - 1`` of a Parquet file. Only their row groups are read."""
        with self._open_parquet(name) as file:
            return read_parquet_rows(file, first, stop, columns)

    @contextlib.contextmanager
    def _open_parquet(self, name: str) -> Iterator[IO[bytes]]:
        with self.explained_parquet_errors(name), self.fs.open(self.where(name), "rb") as file:
            yield file

    @contextlib.contextmanager
    def explained_parquet_errors(self, name: str) -> Iterator[None]:
        """Context manager: raise DataError if a Parquet file does not exist or if a read finds it damaged."""
        try:
            with self.explained_errors(name), recognised_damage():
                yield
        except FileNotFoundError:
            raise DataError(f"{self.where(name)}: missing; restore it or write the store again") from None
        except DAMAGED as error:
            raise DataError(f"{self.where(name)}: damaged ({error}); restore it or write the store again") from None

    @contextlib.contextmanager
    def open_for_writing(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file that is written part by part, and not in one step. It is not flushed."""
        if self.is_local:
            make_folder(Path(self.where(name)).parent)
        with self._explained_write_errors(name), self.fs.open(self.where(name), "wb") as file:
            yield file

    def write_parquet(self, name: str, table: pa.Table) -> None:
        """Write or replace a Parquet file in one step."""
        self.write_bytes(name, parquet_bytes(table))

    def delete(self, name: str) -> None:
        """Remove a file or folder if it exists; raise AccessDenied if that is not allowed."""
        where = self.where(name)
        if self.is_local:
            remove_path(Path(where))
            return
        self.count("list", 2)
        with self.explained_errors(name):
            if not self.fs.exists(where):
                return
        try:
            with self.explained_errors(name):
                self._delete_objects(where)
        except AccessDenied as error:
            raise AccessDenied(
                f"{self.url.rstrip('/')}/{name}: cannot be deleted, because the credentials lack {_RIGHT}: grant it, "
                f"or choose another URL"
            ) from error

    def _delete_objects(self, where: str) -> None:
        self.count("delete")
        self.fs.rm(where, recursive=True)
        # s3fs ignores that the store refused to delete some of several objects. It reports that of a single one.
        self.count("list")
        self.fs.invalidate_cache(where)
        for path in self.fs.find(where):
            self.fs.rm_file(path)

    def delete_unneeded(self, name: str) -> bool:
        """Remove a file or folder that nobody reads any more; return whether it is gone.

        If that is not allowed, a warning says so once for each bucket.
        """
        try:
            self.delete(name)
        except AccessDenied:
            _warn_of_leftovers(self.fs.unstrip_protocol(self.path.partition("/")[0]))
            return False
        return True

    # --- groups of arrays ---

    def _group(self, name: str, likely: Sequence[str] = ()) -> StoredGroup:
        return StoredGroup(self.fs, self.where(name), partial(self.count, "read"), likely)

    def read_arrays(
        self, name: str, only: Sequence[str] | None = None, empty: Callable[..., np.ndarray] = np.empty
    ) -> Arrays:
        """Read the arrays of a group; raise DataError if it is missing or damaged.

        With ``only``, read the arrays with these names. Names that the group does not have are left out. ``empty``
        returns uninitialised arrays for the content, as `numpy.empty` does.
        """
        kind = (_DIGITS.sub("0", name), None if only is None else tuple(only))
        files = self._group(name, self._likely_files.get(kind, ()))
        try:
            with self.explained_errors(name):
                arrays = dict(read_group(files, only, empty))
            self._likely_files[kind] = files.needed
            return arrays
        except FileNotFoundError:
            raise DataError(
                f"{self.where(name)}: missing from its store; restore it or write the store again"
            ) from None
        except KeyError as error:
            raise DataError(
                f"{self.where(name)}: the array {error} is missing; restore it or write the store again"
            ) from None
        except ValueError as error:
            raise DataError(f"{self.where(name)}: damaged ({error}); restore it or write the store again") from None

    def read_array_rows(self, name: str, array: str, first: int, stop: int) -> np.ndarray:
        """Read some rows of one array of a group, without verifying checksums; raise DataError for damage."""
        try:
            with self.explained_errors(name):
                return read_rows(self._group(name), array, first, stop)
        except (FileNotFoundError, ValueError) as error:
            raise DataError(f"{self.where(name)}/{array}: cannot be read ({error}); write the store again") from None

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write or replace a Zarr group of arrays of numbers, with checksums.

        Processes may write the same name at the same time if all of them write the same arrays. On an object store,
        arrays of an earlier group of that name are not deleted, but a reader does not see them.
        """
        storable = {key: _storable(key, array) for key, array in arrays.items()}
        if self.is_local:
            self._write_group_folder(Path(self.where(name)), storable)
            return
        where = self.where(name)
        with self._explained_write_errors(name):
            contents = {f"{where}/{file}": b"".join(buffers) for file, buffers in encode_group(storable)}
            self.count("write", len(contents))
            self.fs.pipe(contents)

    def write_constant_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write arrays that never change afterwards, as `write_arrays` does. A store in memory need not copy them."""
        self.write_arrays(name, arrays)

    def _write_group_folder(self, target: Path, arrays: Mapping[str, np.ndarray]) -> None:
        make_folder(target.parent)
        temporary = temporary_path(target)
        made: set[str] = set()
        with naming_full_disk(target):
            try:
                for file, buffers in encode_group(arrays):
                    _make_parents(f"{temporary}/{file}", made)
                    with open(f"{temporary}/{file}", "wb") as stream:
                        stream.writelines(buffers)
                replace_folder(temporary, target)
            except BaseException:
                remove_path(temporary)
                raise

    # --- durability ---

    def flush(self, name: str) -> None:
        """Write everything below ``name`` from the system's cache to the disk (on a local path).

        Call this before a file such as HEAD starts to refer to ``name``: otherwise a power failure could leave HEAD
        on the disk and lose the files.
        """
        if not self.is_local:
            return
        top = Path(self.where(name))
        for path in [*top.rglob("*"), top, *top.parents]:
            if path.is_relative_to(self.path):
                flush_path(path)
        # The store's own entry. Folders above it may be closed to this user; somebody else made them.
        with contextlib.suppress(PermissionError):
            flush_path(Path(self.path).parent)

    def flush_names(self, name: str) -> None:
        """Write the names in a folder, but not the files, to the disk (on a local path).

        Call this after deletions: otherwise a power failure could bring back what was deleted.
        """
        if self.is_local and self.exists(name):
            flush_path(Path(self.where(name)))

    def delete_leftovers(self) -> None:
        """Remove the temporary files of processes that were killed while they wrote (on a local path)."""
        if not self.is_local:
            return
        for path in Path(self.path).rglob(temporary_pattern()):
            remove_path(path)


def split_path(path: str) -> tuple[Store, str]:
    """Return the store of a file's folder, and the name of the file in it."""
    folder, slash, name = path.rpartition("/")
    # A path without a folder is relative to the current one; "/name" is in the root.
    return Store(folder or slash or "."), name


def make_folder(path: Path) -> None:
    """Make a folder and those above it; raise DataError if there is a file at one of these paths."""
    try:
        with naming_full_disk(path):
            path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = path
        while not file.exists():
            file = file.parent
        raise DataError(f"{file}: this is a file, and a folder is needed here; choose another path") from None


def _make_parents(file: str, made: set[str]) -> None:
    """Make the parent folders of a file, from the first missing one on. ``made`` has those that exist.

    A group has many folders and small files. ``Path.mkdir`` would try each folder again for each file.
    """
    folder = file.rpartition("/")[0]
    if folder in made:
        return
    try:
        Path(folder).mkdir()
    except FileNotFoundError:
        _make_parents(folder, made)
        Path(folder).mkdir()
    made.add(folder)


def _storable(name: str, given: Any) -> np.ndarray:
    """Return an array in the form in which it is stored: numbers, row by row, little-endian."""
    array = np.asarray(given, order="C")
    if array.dtype.kind not in "biuf":
        raise DataError(f"the array {name!r} has dtype {array.dtype}, but a store holds only numbers and booleans")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def check_free(store: Store, *kinds: str) -> None:
    """Raise DataError if the folder holds a store of one of these kinds; warn if it holds files, and no store."""
    names = store.names()
    for kind in kinds:
        if f"{kind}.json" in names:
            raise DataError(f"{store.url}: this folder already holds a {kind}; choose another folder")
    if _OWN.isdisjoint(names):
        others = (name for name in names if not (name.startswith(".") or name.endswith(".lock")))
        if other := next((name for name in others if store.fs.isfile(store.where(name))), None):
            _warn_of_other(store.url, other)


@cache  # commands look at a folder before they begin, and again
def _warn_of_other(url: str, name: str) -> None:
    warnings.warn(
        f"{url}: this folder has other files, such as {name}; they are kept, but what is written there lies among "
        f"them: better choose a folder of its own",
        DataWarning,
        stacklevel=4,
    )


def check_format(found: Any, kind: str, version: int, where: str, oldest: int | None = None) -> None:
    """Raise DataError if a store is of another kind, or of a format that this code does not read.

    The formats ``oldest`` to ``version`` are read; only ``version`` if ``oldest`` is None.
    """
    if not isinstance(found, dict):
        raise DataError(f"{where}: damaged (its JSON file is not an object); restore it or write the store again")
    if found.get("kind") != kind:
        raise DataError(f"{where}: a {found.get('kind', 'unknown')!r} store where a {kind!r} store is needed")
    formats = range(version if oldest is None else oldest, version + 1)
    if found.get("format") not in formats:
        readable = " or ".join(map(str, formats))
        raise DataError(
            f"{where}: {kind} format {found.get('format')} is not supported by this version of corpusmill, which "
            f"reads format {readable}; write the store again or install a matching version"
        )
