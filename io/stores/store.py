"""A store: named JSON files and groups of arrays below one URL, written whole or not at all.

On a local path every write goes to a temporary name, is flushed and renamed. An object store shows an object only
when it is complete, and a group counts only once a later JSON file names it.
"""

import contextlib
import io
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import zarr
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.local import LocalFileSystem

from .zarr_files import Files, group_files, read_group

#: Named NumPy arrays and scalars: a chunk's state, a block of a model, a shard's delta.
Arrays = dict[str, Any]


class DataError(Exception):
    """Input or a store that cannot be used as it is; the sentence says what, where and the way out."""


#: A colon in the first part of a URL after ://, unless a port follows, or the next URL of a chain.
PASSWORD = re.compile(r"://[^/@\s:]*:(?!:|\d+(?:[/?]|$))")

#: Temporary names of files and folders that are being written.
LEFTOVER = f".tmp-{'[0-9a-f]' * 32}-*"

#: Errors that are told by those who asked: what is not there, what is damaged.
OWN_STORY = (DataError, FileNotFoundError, KeyError, ValueError, zarr.errors.BaseZarrError)


def without_password(url: str) -> str:
    """Return a URL as it is; raise DataError for one with a password, which would be written wherever the URL is."""
    if PASSWORD.search(url):
        raise DataError(
            f"{url.partition('://')[0]}://(hidden): a password may not stand in a URL, which is written to files and "
            f"shown; give it by the environment variables or the configuration of the storage's library"
        )
    return url


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return fsspec's filesystem for a URL or local path, and the path there; raise DataError for what is neither."""
    if not url:
        raise DataError("an empty path: name a file, a folder or a URL (is a variable of the shell not set?)")
    try:
        return fsspec.core.url_to_fs(without_password(url))
    except ValueError as error:
        raise DataError(f"{url}: {error}; use a local path or a URL that fsspec knows, such as s3://") from None


class Store:
    """The files below one URL (a local path or whatever fsspec knows)."""

    def __init__(self, url: str | os.PathLike[str]):
        self.url = os.fspath(url)
        self.fs, self.path = filesystem_of(self.url)
        self.is_local = isinstance(self.fs, LocalFileSystem)

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    @property
    def absolute(self) -> str:
        """The URL as processes with other working directories find it."""
        return self.path if self.is_local else self.url

    def child(self, name: str) -> "Store":
        """Return the store at ``name`` below this one."""
        return Store(f"{self.url.rstrip('/')}/{name}")

    def where(self, name: str) -> str:
        """Return the full path of ``name``; a name may not lead out of the store."""
        parts = name.split("/")
        if name.startswith("/") or ".." in parts:
            raise DataError(f"{self.url}: the name {name!r} leads out of the store")
        return f"{self.path.rstrip('/')}/{name}" if name else self.path

    def exists(self, name: str = "") -> bool:
        """Say whether a file or folder is there."""
        with self._named(name):
            return self.fs.exists(self.where(name))

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Say what an error of an object store means, once its library has given up trying again."""
        try:
            yield
        except Exception as error:
            if self.is_local or isinstance(error, OWN_STORY):
                raise
            where = f"{self.url.rstrip('/')}/{name}"
            if isinstance(error, PermissionError):
                raise DataError(
                    f"{where}: access denied ({error}); check the credentials and what they allow"
                ) from error
            raise DataError(
                f"{where}: the store failed again and again ({type(error).__name__}: {error}); what is committed is "
                f"safe, the same command goes on from there"
            ) from error

    def names(self, name: str = "") -> list[str]:
        """List what lies directly below ``name``, sorted; temporary names are left out."""
        where = self.where(name)
        if not self.fs.exists(where):
            return []
        self.fs.invalidate_cache(where)
        found = (os.path.basename(p.rstrip("/")) for p in self.fs.ls(where, detail=False))
        return sorted(n for n in found if not n.startswith(".tmp-"))

    def size(self, name: str = "") -> int:
        """Return the bytes stored below ``name``."""
        return int(self.fs.du(self.where(name))) if self.exists(name) else 0

    def read_bytes(self, name: str) -> bytes:
        """Return a file's content; raise DataError when it is missing."""
        try:
            with self._named(name):
                return self.fs.cat_file(self.where(name))
        except FileNotFoundError:
            raise DataError(f"{self.where(name)}: no such file") from None

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write or replace a file in one step."""
        where = self.where(name)
        if not self.is_local:
            with self._named(name), self._writable():
                self.fs.pipe_file(where, bytes(content))
            return
        target = Path(where)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".tmp-{uuid.uuid4().hex}-{target.name}")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file."""
        content = self.read_bytes(name)
        try:
            return json.loads(content)
        except ValueError as error:
            raise DataError(f"{self.where(name)}: not valid JSON ({error})") from None

    def write_json(self, name: str, value: Any) -> None:
        """Write or replace a JSON file in one step."""
        self.write_bytes(name, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())

    def delete(self, name: str) -> None:
        """Remove a file or folder if it is there."""
        where = self.where(name)
        if self.is_local:
            path = Path(where)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        elif self.fs.exists(where):
            self.fs.rm(where, recursive=True)

    def flush(self, name: str) -> None:
        """Bring what lies below ``name`` on a local path from the system's memory to the disk: for before a HEAD."""
        top = Path(self.where(name))
        for path in [*top.rglob("*"), top, *top.parents] if self.is_local else ():
            if path.is_relative_to(self.path):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def delete_leftovers(self) -> None:
        """Remove what processes that were killed in mid-write left below a local path."""
        for path in Path(self.path).rglob(LEFTOVER) if self.is_local else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def write_arrays(self, name: str, arrays: Arrays) -> None:
        """Write a Zarr group of arrays with checksums; whoever wrote the same name before wrote the same bytes."""
        plain = {key: _plain(key, array) for key, array in arrays.items()}
        if not self.is_local:
            where = self.where(name)
            with self._named(name), self._writable():
                self.delete(name)
                self.fs.pipe({f"{where}/{file}": b"".join(parts) for file, parts in group_files(plain)})
            return
        target = Path(self.where(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".tmp-{uuid.uuid4().hex}-{target.name}")
        try:
            for file, parts in group_files(plain):
                path = temporary / file
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as stream:
                    stream.writelines(parts)
            _replace_folder(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def read_arrays(self, name: str, only: tuple[str, ...] | None = None) -> Arrays:
        """Read a group's arrays (all, or those named in ``only`` that are there); checksums are verified."""
        try:
            with self._named(name):
                found = read_group(self._files(self.where(name)), only)
                return self._read_by_library(name, only) if found is None else found
        except KeyError as error:
            raise DataError(f"{self.where(name)}: the array {error} is missing; write the store anew") from None
        except (FileNotFoundError, zarr.errors.GroupNotFoundError):
            raise DataError(f"{self.where(name)}: missing from its store") from None
        except (ValueError, zarr.errors.MetadataValidationError) as error:
            raise DataError(f"{self.where(name)}: damaged ({error}); restore it or write the store anew") from None

    def _files(self, where: str) -> Files:
        def contents(names: list[str]) -> dict[str, bytes]:
            # From byte 0: for a whole file some stores are asked for its size first.
            found = self.fs.cat_ranges([f"{where}/{name}" for name in names], 0, None, on_error="return")
            for content in found:
                if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                    raise content
            return {name: c for name, c in zip(names, found, strict=True) if not isinstance(c, Exception)}

        def opened(name: str) -> Any:
            path = f"{where}/{name}"
            return open(path, "rb") if self.is_local else io.BytesIO(self.fs.cat_file(path))

        return Files(contents, opened)

    def _read_by_library(self, name: str, only: tuple[str, ...] | None) -> Arrays:
        group = zarr.open_group(self._zarr_store(name), mode="r")
        there: Any = group.attrs.get("arrays", list(group.array_keys()))
        keys = there if only is None else [k for k in only if k in there]
        return {k: self._read_whole(group[k], name) for k in keys}

    def _read_whole(self, array: Any, name: str) -> np.ndarray:
        # Zarr reads a missing piece as zeros; here every piece was written, so a missing one is damage.
        if array.size and array.nchunks_initialized < array.nchunks:
            raise DataError(f"{self.where(name)}: a piece of {array.basename!r} is missing; write the store anew")
        return np.asarray(array[...])

    @contextlib.contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise DataError(f"{self.url}: cannot be written, its bucket or container is not there ({error})") from None

    def _zarr_store(self, name: str) -> Any:
        where = self.where(name)
        if self.is_local:
            return where
        # Through this store's own filesystem: of one that Zarr opens nobody closes the connections.
        return zarr.storage.FsspecStore(AsyncFileSystemWrapper(self.fs, asynchronous=True), path=where)


def _plain(name: str, given: Any) -> np.ndarray:
    """Return an array as it is stored: of numbers, row by row, the least byte first."""
    array = np.asarray(given, order="C")
    if array.dtype.kind not in "biuf":
        raise DataError(f"the array {name!r} is of type {array.dtype}: a store holds numbers")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _replace_folder(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError:
        # A folder of that name is there: an earlier try's. Put it aside, so that no reader sees a mixture.
        aside = target.with_name(f".tmp-{uuid.uuid4().hex}-old")
        target.rename(aside)
        source.rename(target)
        shutil.rmtree(aside, ignore_errors=True)


def check_free(store: Store, *kinds: str) -> None:
    """Raise DataError where a store of one of these kinds lies already: a folder holds one thing."""
    for kind in kinds:
        if store.exists(f"{kind}.json"):
            raise DataError(f"{store.url}: a {kind} is here; choose another folder")


def check_format(found: dict[str, Any], kind: str, version: int, where: str) -> None:
    """Refuse a store of another kind or of a format version that this code does not know."""
    if found.get("kind") != kind:
        raise DataError(f"{where}: a {found.get('kind', 'unknown')!r} store where a {kind!r} store is needed")
    if found.get("format") != version:
        raise DataError(
            f"{where}: {kind} format {found.get('format')} is not known to this version of corpusmill, "
            f"which reads format {version}: write the store anew or install a matching version"
        )
