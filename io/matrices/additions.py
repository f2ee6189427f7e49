"""Adds elements to an AnnData file so that the file is either unchanged or complete, whenever the process is killed.

The elements are written into a copy beside the file, which then takes its place in one step. The chunks of a Zarr store
are not copied but linked.
"""

import glob
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..extras import needing
from ..stores.filesystems import exchange_paths, flush_path, remove_path, temporary_path, temporary_pattern
from ..stores.store import Store
from .anndata import check_anndata
from .hierarchies import Group, consolidate_zarr, open_for_writing, open_hierarchy

#: Names of the files of a Zarr store that are rewritten in place when groups change.
_ZARR_METADATA = ("zarr.json", ".zmetadata", ".zgroup", ".zattrs", ".zarray")


def add_elements(url: str, elements: Mapping[str, Any], replace: bool = False) -> None:
    """Write elements into an AnnData file in one step.

    ``elements`` has their values by path, such as "obsm/X_topics": arrays, numbers, texts, lists of these, or
    dictionaries of them. Raises DataError if one of them exists already and ``replace`` is False, if the file is not on
    a local path, or if another program changes it meanwhile.
    """
    store = Store(url)
    if not store.is_local:
        raise DataError(f"{url}: results can be added to local files only; copy the file here first")
    # The file that a link leads to gets the results. Otherwise, the copy would take the place of the link.
    target = Path(store.path).resolve()
    _undo_interrupted_replacement(target)
    if not target.exists():
        raise DataError(f"{url}: no such file")
    # The file is large and the copy takes time. Another program may write to the file in between.
    before = _version(target)
    _delete_leftovers(target)
    copy = temporary_path(target)
    try:
        _copy(target, copy)
        with open_for_writing(str(copy)) as root:
            check_anndata(root, url)
            for path, value in elements.items():
                if path in root:
                    if not replace:
                        raise _already_exists(url, path)
                    del root[path]
                _write(root, path, value)
        if copy.is_dir():
            consolidate_zarr(str(copy))
        # After a power cut, the name of the file must not lead to an incomplete copy.
        _flush(copy)
        if _version(target) != before:
            raise DataError(f"{url}: another program changed the file meanwhile; run the command again")
        _replace_target(copy, target)
    finally:
        remove_path(copy)


def write_anndata(path: str, values: np.ndarray, rows: list[str], columns: list[str]) -> None:
    """Write a new AnnData file (HDF5) with a dense matrix and the names of its rows and columns."""
    with needing("h5py", "corpusmill[h5ad]", path):
        import h5py

    with h5py.File(path, "w") as root:
        _encode(root, "anndata", "0.1.0")
        _write(root, "X", values)
        for table, names in (("obs", rows), ("var", columns)):
            _write(root, f"{table}/_index", np.array(names, np.str_))
            _encode(root[table], "dataframe", "0.2.0")
            root[table].attrs["_index"] = "_index"
            root[table].attrs["column-order"] = np.array([], "S1")
        for name in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            _write(root, name, {})


def check_absent(url: str, paths: Iterable[str]) -> None:
    """Raise DataError if an AnnData file has one of the elements already."""
    with open_hierarchy(url) as root:
        for path in paths:
            if path in root:
                raise _already_exists(url, path)


def _already_exists(url: str, path: str) -> DataError:
    return DataError(f"{url}: {path} exists already; replace it with --replace (replace=True), or choose another key")


# --- elements ---


def _write(group: Group, path: str, value: Any) -> None:
    """Write one element below a group. Groups of the path that do not exist are made."""
    parent, _, name = path.rpartition("/")
    for part in parent.split("/") if parent else []:
        if part not in group:
            _encode(group.create_group(part), "dict", "0.1.0")
        group = group[part]
    if isinstance(value, Mapping):
        _encode(group.create_group(name), "dict", "0.1.0")
        for key, inner in value.items():
            _write(group[name], str(key), inner)
        return
    array = np.asarray(value)
    # anndata's format for text is variable-length UTF-8. NumPy's text has a fixed width.
    if array.dtype.kind == "U":
        _write_text(group, name, array)
        _encode(group[name], "string-array" if array.ndim else "string", "0.2.0")
        return
    if _is_hdf5(group):
        group.create_dataset(name, data=array)
    else:
        group.create_array(name, data=array)
    _encode(group[name], "array" if array.ndim else "numeric-scalar", "0.2.0")


def _is_hdf5(group: Group) -> bool:
    """Return whether a group is one of h5py. It has the attribute ``file``, which Zarr's groups lack."""
    return hasattr(group, "file")


def _write_text(group: Group, name: str, array: np.ndarray) -> None:
    if _is_hdf5(group):
        import h5py

        group.create_dataset(name, data=array.astype(object), dtype=h5py.string_dtype())
        return
    text = group.create_array(name, shape=array.shape, dtype=str)
    text[...] = array.astype(np.dtypes.StringDType())


def _encode(element: Any, kind: str, version: str) -> None:
    """Mark an element with its type, as the format of AnnData demands."""
    element.attrs["encoding-type"] = kind
    element.attrs["encoding-version"] = version


# --- files ---


def _version(path: Path) -> dict[Path, tuple[int, int, int]]:
    """Return numbers that differ after a file, or any file of a folder, was changed or replaced."""
    found = {}
    for each in [path, *path.rglob("*")]:
        # Another program may delete files at this moment, which is a change.
        with suppress(FileNotFoundError):
            status = each.stat()
            found[each] = status.st_ino, status.st_mtime_ns, status.st_size
    return found


def _copy(source: Path, copy: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, copy, copy_function=_link_or_copy)
        return
    # Only an HDF5 file is checked, because the links above take no space.
    free = shutil.disk_usage(source.parent).free
    size = source.stat().st_size
    if free < size:
        raise DataError(
            f"{source}: adding results needs a copy of {size:,} bytes, and {free:,} are free; make space, or move the "
            f"file"
        )
    shutil.copy2(source, copy)


def _link_or_copy(source: str, copy: str) -> None:
    """Link a chunk, which is never rewritten in place, and copy a file of metadata."""
    if Path(source).name in _ZARR_METADATA:
        shutil.copy2(source, copy)
        return
    try:
        os.link(source, copy)
    except OSError:  # not every filesystem has links
        shutil.copy2(source, copy)


def _flush(path: Path) -> None:
    """Write a file or all files of a folder from the system's cache to the disk."""
    for each in [*path.rglob("*"), path] if path.is_dir() else [path]:
        flush_path(each)


def _replace_target(copy: Path, target: Path) -> None:
    """Rename the copy to the target's name.

    A file is replaced. A folder exchanges its name with the copy if the system can do that, and is deleted otherwise.
    """
    if not target.is_dir():
        copy.replace(target)
    elif not exchange_paths(copy, target):
        # If the process is killed between the two renames, the next call brings the old folder back.
        old = target.with_name(f".old-{target.name}")
        target.rename(old)
        copy.rename(target)
        remove_path(old)
    flush_path(target.parent)


def _undo_interrupted_replacement(target: Path) -> None:
    """Bring a folder back if its replacement was interrupted between the two renames of `_replace_target`."""
    old = target.with_name(f".old-{target.name}")
    if not old.exists():
        return
    if target.exists():
        remove_path(old)
    else:
        old.rename(target)


def _delete_leftovers(target: Path) -> None:
    """Delete the half-written copies of a file that processes left when they were killed."""
    for path in target.parent.glob(temporary_pattern(glob.escape(target.name))):
        remove_path(path)
