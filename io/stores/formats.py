"""The formats of stored tables and arrays: Parquet, and Zarr groups (format 3), which need no zarr library here.

A group holds plain arrays of numbers. Each array is cut along its first axis into Zarr chunks of whole rows, and each
Zarr chunk ends with a CRC-32C checksum. Any library for Zarr 3 can read these files; a test does so with zarr.

The library itself is too slow for small groups: on one machine zarr 3.1 took 9 ms to read seven small arrays, which
is as long as the kernels need for a small corpus chunk. This module took 0.5 ms.

Parquet is read without Arrow's threads. They may still hold Python objects when the interpreter exits, which aborts the
process. On a busy machine this happened to one of ten short processes (https://github.com/apache/arrow/issues/34314).
"""

import contextlib
import io
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import IO, Any, NamedTuple, TypeAlias

import fsspec
import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

#: Most elements of a Zarr chunk, unless one row has more. Chunks of 64 Mi elements stay below the size limits of
#: object stores and codecs.
CHUNK_ELEMENTS = 1 << 26
#: Bytes of Zarr chunks that are fetched at once. Larger arrays are fetched chunk by chunk, to save memory.
FETCHED_BYTES = 1 << 26
#: Bytes of padding that are read or written at a time.
PADDING_BYTES = 1 << 20
#: Bytes of the checksum at the end of each Zarr chunk.
CHECKSUM_BYTES = 4
#: A path, a stream, or a buffer of Arrow.
ParquetSource: TypeAlias = str | IO[bytes] | pa.NativeFile
#: Errors of damaged files. Names and types in a damaged schema may be invalid in other ways than its structure.
DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeDecodeError)


class StoredGroup:
    """The files of one Zarr group, which are read with few round trips to an object store.

    ``fs`` and ``path`` say where the group is. ``count`` is called with the number of requests that follow.
    ``likely`` are names of files that the group probably has. ``needed`` are those that `fetch` was called with.
    """

    def __init__(
        self,
        fs: fsspec.AbstractFileSystem,
        path: str,
        count: Callable[[int], None],
        likely: Sequence[str] = (),
    ):
        self._fs = fs
        self._is_local = isinstance(fs, LocalFileSystem)
        self._path = path
        self._count = count
        self._likely = likely
        self._fetched: dict[str, bytes] = {}
        self.needed: Sequence[str] = ()

    def read_small(self, names: Sequence[str]) -> dict[str, bytes]:
        """Read several files at the same time; files that do not exist are left out."""
        if not names:
            return {}
        # Ranges from byte 0: for whole files, some filesystems request each file's size first.
        paths = [f"{self._path}/{name}" for name in names]
        self._count(len(paths))
        contents = self._fs.cat_ranges(paths, 0, None, on_error="return")
        found = {}
        for name, content in zip(names, contents, strict=True):
            if isinstance(content, FileNotFoundError):
                continue
            if isinstance(content, Exception):
                raise content
            found[name] = content
        return found

    def read_first(self, name: str) -> dict[str, bytes]:
        """Read the file that lists the others, and at the same time the files that the group probably has."""
        found = self.read_small([name, *self._likely])
        self._fetched = {likely: found.pop(likely) for likely in self._likely if likely in found}
        return found

    def fetch(self, names: Sequence[str]) -> None:
        """Fetch several files at once, because each request to an object store takes a round trip."""
        if not self._is_local:
            self.needed = names
            self._fetched |= self.read_small([name for name in names if name not in self._fetched])

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the group to read its bytes. A remote file is read whole."""
        path = f"{self._path}/{name}"
        if self._is_local:
            return open(path, "rb")
        if name in self._fetched:
            return io.BytesIO(self._fetched.pop(name))
        self._count(1)
        return io.BytesIO(self._fs.cat_file(path))

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes ``start`` to ``stop - 1`` of a file."""
        self._count(1)
        return self._fs.cat_file(f"{self._path}/{name}", start, stop)


class _Layout(NamedTuple):
    """How the files of a Zarr store hold one array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    chunk_shape: tuple[int, ...]


def encode_group(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name of each file of a group, and the buffers that it consists of.

    The same arrays always give the same bytes: in files, arrays have the order of their names.
    """
    arrays = {name: arrays[name] for name in sorted(arrays)}
    layouts = {name: _Layout(array.shape, array.dtype, _chunk_shape(array.shape)) for name, array in arrays.items()}
    # The metadata of all arrays is in the group too, so that a reader needs one round trip less.
    metadata = {
        "attributes": {"arrays": list(arrays)},
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": {
            "kind": "inline",
            "must_understand": False,
            "metadata": {name: _array_metadata(layout) for name, layout in layouts.items()},
        },
    }
    yield "zarr.json", [_to_json(metadata)]
    for name, array in arrays.items():
        layout = layouts[name]
        yield f"{name}/zarr.json", [_encoded_metadata(layout)]
        for key, rows in _zarr_chunks(array, layout):
            yield f"{name}/{key}", _encoded_chunk(rows, layout)


def read_group(
    files: StoredGroup, only: Sequence[str] | None = None, empty: Callable[..., np.ndarray] = np.empty
) -> dict[str, np.ndarray]:
    """Read all arrays of a group, or those named in ``only`` that it has, into arrays that ``empty`` returns.

    Raises FileNotFoundError if there is no group, KeyError with the name of an array that is missing, and ValueError
    for a Zarr chunk that is missing or damaged and for a layout that this module does not write.
    """
    found = files.read_first("zarr.json")
    if not found:
        raise FileNotFoundError("zarr.json")
    group = _from_json(found["zarr.json"])
    names = _array_names(group)
    if only is not None:
        names = [name for name in names if name in only]
    if "consolidated_metadata" in group:
        metadata = _consolidated_metadata(group)
    else:
        metadata = _separate_metadata(files, names)
    # All metadata is checked before the first array is read, since arrays may be large.
    layouts = {}
    for name in names:
        if name not in metadata:
            raise KeyError(name)
        layouts[name] = _parse_layout(name, metadata[name])
    files.fetch(_small_chunks(layouts))
    return {name: _read_array(files, name, layout, empty) for name, layout in layouts.items()}


def _separate_metadata(files: StoredGroup, names: Sequence[str]) -> dict[str, Any]:
    """Read the metadata of each array of a group, which is not consolidated or not needed as a whole."""
    found = files.read_small([f"{name}/zarr.json" for name in names])
    return {name: _from_json(found[f"{name}/zarr.json"]) for name in names if f"{name}/zarr.json" in found}


def read_rows(files: StoredGroup, name: str, first: int, stop: int) -> np.ndarray:
    """Read the rows ``first`` to ``stop - 1`` of one array, without verifying checksums, which cover whole Zarr chunks.

    Raises FileNotFoundError if there is no such array, and ValueError for a Zarr chunk that is too short.
    """
    layout = _parse_layout(name, _separate_metadata(files, [name]).get(name))
    stop = min(stop, layout.shape[0])
    rows = np.empty((max(0, stop - first), *layout.shape[1:]), layout.dtype)
    row_bytes = math.prod(layout.shape[1:]) * layout.dtype.itemsize
    step = layout.chunk_shape[0]
    done = 0
    while done < len(rows):
        index, offset = divmod(first + done, step)
        part = rows[done : done + step - offset].reshape(-1).view(np.uint8)
        key = "/".join(["c", str(index), *("0" for _ in layout.shape[1:])])
        content = files.read_range(f"{name}/{key}", offset * row_bytes, offset * row_bytes + part.nbytes)
        if len(content) != part.nbytes:
            raise ValueError(f"the Zarr chunk {name}/{key} is too short")
        part[:] = np.frombuffer(content, np.uint8)
        done += step - offset
    return rows


def _small_chunks(layouts: Mapping[str, _Layout]) -> list[str]:
    """Return the files of the smallest arrays, FETCHED_BYTES of them at most."""
    names: list[str] = []
    n_bytes = 0
    for name, layout in sorted(layouts.items(), key=lambda item: _n_bytes(item[1])):
        n_bytes += _n_bytes(layout)
        if n_bytes > FETCHED_BYTES:
            break
        # An array of this shape that occupies no memory.
        shape_only = np.broadcast_to(np.empty((), layout.dtype), layout.shape)
        names += [f"{name}/{key}" for key, _ in _zarr_chunks(shape_only, layout)]
    return names


def _n_bytes(layout: _Layout) -> int:
    return math.prod(layout.shape) * layout.dtype.itemsize


def _array_names(group: Any) -> list[str]:
    try:
        names = group["attributes"]["arrays"]
    except (KeyError, TypeError):
        raise ValueError("this Zarr group was not written by corpusmill") from None
    # A name is part of a path, which must not lead out of the group.
    if not isinstance(names, list) or not all(_is_name(name) for name in names):
        raise ValueError("this Zarr group has names of arrays that corpusmill does not write")
    return names


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and "/" not in name and name not in ("", ".", "..")


def _consolidated_metadata(group: Any) -> dict[str, Any]:
    try:
        metadata = group["consolidated_metadata"]["metadata"]
    except (KeyError, TypeError):
        metadata = None
    if not isinstance(metadata, dict):
        raise ValueError("the metadata of this Zarr group are damaged")
    return metadata


def _parse_layout(name: str, found: Any) -> _Layout:
    try:
        chunk_shape = tuple(found["chunk_grid"]["configuration"]["chunk_shape"])
        layout = _Layout(tuple(found["shape"]), np.dtype(found["data_type"]), chunk_shape)
        is_known = found == json.loads(_encoded_metadata(layout)) and chunk_shape == _chunk_shape(layout.shape)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        is_known = False
    if not is_known:
        raise ValueError(f"the array {name} has a layout that corpusmill does not write")
    return layout


def _read_array(files: StoredGroup, name: str, layout: _Layout, empty: Callable[..., np.ndarray]) -> np.ndarray:
    size = math.prod(layout.chunk_shape) * layout.dtype.itemsize
    try:
        array = empty(layout.shape, layout.dtype)
    except MemoryError:
        raise ValueError(f"the array {name} needs {_n_bytes(layout):,} bytes, and there is no memory for it") from None
    for key, rows in _zarr_chunks(array, layout):
        try:
            with files.open(f"{name}/{key}") as file:
                _fill(rows, size, file)
        except FileNotFoundError:
            raise ValueError(f"the Zarr chunk {name}/{key} is missing") from None
        except ValueError as error:
            raise ValueError(f"{error} in the Zarr chunk {name}/{key}") from None
    return array


def _fill(rows: np.ndarray, size: int, file: Any) -> None:
    """Read the rows of a Zarr chunk of ``size`` bytes; raise ValueError if its checksum does not match.

    The last chunk of an array is padded to full size. The checksum covers the padding as well.
    """
    # Before the memory of a large array is used: the metadata may be damaged.
    if file.seek(0, 2) != size + CHECKSUM_BYTES:
        raise ValueError("wrong number of bytes")
    file.seek(0)
    content = rows.reshape(-1).view(np.uint8)
    file.readinto(content)
    checksum = google_crc32c.value(content)
    for left in range(size - content.nbytes, 0, -PADDING_BYTES):
        checksum = google_crc32c.extend(checksum, file.read(min(left, PADDING_BYTES)))
    if file.read() != _checksum_bytes(checksum):
        raise ValueError("wrong checksum")


def _zarr_chunks(array: np.ndarray, layout: _Layout) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the key of each Zarr chunk, and its rows of the array."""
    if array.ndim == 0:
        yield "c", array
        return
    if not array.size:
        return
    step = layout.chunk_shape[0]
    for index, first in enumerate(range(0, len(array), step)):
        # Chunks hold whole rows, so their index is 0 along every axis but the first.
        key = "/".join(["c", str(index), *("0" for _ in array.shape[1:])])
        yield key, array[first : first + step]


def _encoded_chunk(rows: np.ndarray, layout: _Layout) -> list[bytes | np.ndarray]:
    """Return the parts of the file of a Zarr chunk: its rows, padding and checksum.

    In Zarr all chunks have one size, so rows of zeros are appended to the last one. They are written in small parts,
    because a padded copy of the rows would need as much memory again.
    """
    content = rows.reshape(-1).view(np.uint8)
    parts: list[bytes | np.ndarray] = [content]
    checksum = google_crc32c.value(content)
    size = math.prod(layout.chunk_shape) * layout.dtype.itemsize
    for left in range(size - content.nbytes, 0, -PADDING_BYTES):
        padding = bytes(min(left, PADDING_BYTES))
        parts.append(padding)
        checksum = google_crc32c.extend(checksum, padding)
    parts.append(_checksum_bytes(checksum))
    return parts


def _chunk_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the Zarr chunks for an array: at most CHUNK_ELEMENTS elements, in whole rows."""
    if not shape:
        return ()
    row_elements = max(1, math.prod(shape[1:]))
    rows = max(1, min(shape[0], CHUNK_ELEMENTS // row_elements))
    return (rows, *shape[1:])


def _array_metadata(layout: _Layout) -> dict[str, Any]:
    # Zarr has no byte order for types of one byte.
    bytes_codec: dict[str, Any] = {"name": "bytes"}
    if layout.dtype.itemsize > 1:
        bytes_codec["configuration"] = {"endian": "little"}
    return {
        "shape": layout.shape,
        "data_type": layout.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": layout.chunk_shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": layout.dtype.type(0).item(),
        "codecs": [bytes_codec, {"name": "crc32c"}],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


@lru_cache(maxsize=256)
def _encoded_metadata(layout: _Layout) -> bytes:
    """Return the metadata of an array as JSON. Training writes the same few layouts in each epoch."""
    return _to_json(_array_metadata(layout))


def _from_json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("the metadata are nested too deeply") from None


def _to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _checksum_bytes(checksum: int) -> bytes:
    return checksum.to_bytes(4, "little")


# --- Parquet ---


@contextlib.contextmanager
def recognised_damage() -> Iterator[None]:
    """Context manager: raise ArrowInvalid instead of an OSError that comes from a damaged file."""
    try:
        yield
    except OSError as error:
        # Errors of the operating system have a number, and those of object stores have classes of their own.
        if type(error) is OSError and error.errno is None:
            raise pa.ArrowInvalid(str(error)) from error
        raise


@contextlib.contextmanager
def _opened(source: ParquetSource) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file and compare its checksums."""
    with recognised_damage(), pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file:
        yield file


def read_parquet(source: ParquetSource) -> pa.Table:
    """Read a whole Parquet file from a path, stream or buffer; raise one of DAMAGED if the file is damaged."""
    with _opened(source) as file:
        return file.read(use_threads=False)


def read_parquet_rows(source: ParquetSource, first: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Read some consecutive rows of a Parquet file; raise one of DAMAGED if the file is damaged."""
    with _opened(source) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = list(itertools.accumulate(sizes))
        groups = [group for group, end in enumerate(ends) if end > first and end - sizes[group] < stop]
        if not groups:
            return file.schema_arrow.empty_table().select(list(columns or file.schema_arrow.names))
        start = ends[groups[0]] - sizes[groups[0]]
        table = file.read_row_groups(groups, None if columns is None else list(columns), use_threads=False)
        return table.slice(first - start, stop - first)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    return sink.getvalue().to_pybytes()
