"""Opens HDF5 files and Zarr stores, whose groups and arrays have the same interface for reading."""

import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from ..errors import DataError
from ..extras import needing
from ..stores.filesystems import explained_errors
from ..stores.store import filesystem_of

#: A group of h5py or Zarr.
Group = Any
#: What h5py raises if it reads a damaged part of a file, now or later.
HDF5_ERRORS = (KeyError, RuntimeError, OSError, ValueError, TypeError)
#: How the messages of HDF5 begin.
HDF5_SENTENCE = re.compile(r"\b([Uu]nable to|[Cc]an't|[Uu]nspecified error)\b")


@contextmanager
def open_hdf5(url: str) -> Iterator[Group]:
    """Open an HDF5 file for reading; raise DataError for another file, and ImportError without h5py."""
    with needing("h5py", "corpusmill[h5ad]", url):
        import h5py

    filesystem, path = filesystem_of(url)
    if not filesystem.isfile(path):
        raise DataError(f"{url}: no such file")
    try:
        if isinstance(filesystem, LocalFileSystem):
            with _opened(h5py, path, url) as root:
                yield root
            return
        # HDF5 has its own access to local files. For remote ones, it reads from a stream of Python.
        with (
            explained_errors(filesystem, url),
            filesystem.open(path, "rb") as stream,
            _opened(h5py, stream, url) as root,
        ):
            yield root
    except HDF5_ERRORS as error:
        if not isinstance(error, DataError) and HDF5_SENTENCE.search(str(error)):
            raise DataError(f"{url}: damaged ({error}); fetch the file again, or write it again") from None
        raise


def _opened(h5py: Any, file: Any, url: str, mode: str = "r") -> Any:
    try:
        return h5py.File(file, mode)
    except OSError as error:
        raise DataError(f"{url}: not an HDF5 file, or a damaged one ({error})") from None


@contextmanager
def open_zarr(url: str) -> Iterator[Group]:
    """Open a Zarr store of format 2 or 3 for reading; raise DataError for anything else."""
    import zarr

    filesystem, path = filesystem_of(url)
    location = path if isinstance(filesystem, LocalFileSystem) else url
    try:
        with explained_errors(filesystem, url):
            yield zarr.open_group(location, mode="r")
    except FileNotFoundError:
        raise DataError(f"{url}: no Zarr store") from None


def open_hierarchy(url: str) -> AbstractContextManager[Group]:
    """Open a Zarr store if ``url`` ends in .zarr, else an HDF5 file."""
    return open_zarr(url) if is_zarr(url) else open_hdf5(url)


def is_zarr(url: str) -> bool:
    """Return whether the name of a file is that of a Zarr store."""
    return url.rstrip("/").lower().endswith(".zarr")


@contextmanager
def open_for_writing(path: str) -> Iterator[Group]:
    """Open a local HDF5 file or Zarr store, to which elements are added."""
    if is_zarr(path):
        import zarr

        # Consolidated metadata would hide new elements.
        yield zarr.open_group(path, mode="r+", use_consolidated=False)
        return
    with needing("h5py", "corpusmill[h5ad]", path):
        import h5py

    with _opened(h5py, path, path, "r+") as root:
        yield root


def consolidate_zarr(path: str) -> None:
    """Collect the metadata of a Zarr store in one file if the store has such a file."""
    import zarr

    if zarr.open_group(path, mode="r").metadata.consolidated_metadata is not None:
        with warnings.catch_warnings():
            # zarr warns that format 3 does not specify this file yet. anndata writes it all the same.
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(path)
