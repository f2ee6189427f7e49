"""The files of a Zarr group (format 3) of plain arrays: pieces of whole rows, each followed by its checksum.

Written and read without the library, which takes some five milliseconds an array and copies it twice: as long as the
kernels take for a small chunk. Whatever knows Zarr reads these files.
"""

import json
import math
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import google_crc32c
import numpy as np

#: Elements in one piece of an array, unless a row has more: 64 Mi stay below every object store's and codec's limit.
PIECE = 1 << 26
#: Bytes of filled-up zeros that are read at a time.
STEP = 1 << 20


def group_files(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the files of a group and what each consists of."""
    # Which arrays there are: one that is missing as a whole is damage.
    about = {"arrays": list(arrays)}
    yield "zarr.json", [_json({"attributes": about, "zarr_format": 3, "node_type": "group"})]
    for name, array in arrays.items():
        row = math.prod(array.shape[1:])
        piece = [max(1, min(n, PIECE // max(1, row)) if axis == 0 else n) for axis, n in enumerate(array.shape)]
        yield f"{name}/zarr.json", [_json(_description(array.dtype, array.shape, piece))]
        for key, rows in _pieces(array, piece):
            content = rows.reshape(-1).view(np.uint8)
            yield f"{name}/{key}", [content, _bytes_of(google_crc32c.value(content))]


class Files(NamedTuple):
    """How a group's files are read, by their names in it."""

    contents: Callable[[list[str]], dict[str, bytes]]  # of several small ones at once; those that are not there are not
    opened: Callable[[str], IO[bytes]]


def read_group(files: Files, only: tuple[str, ...] | None = None) -> dict[str, np.ndarray] | None:
    """Read a group's arrays (all, or those named in ``only``); None for a group of another layout.

    Raises FileNotFoundError where there is no group, KeyError where an array is missing, ValueError where a piece is
    missing or damaged.
    """
    about = files.contents(["zarr.json"])
    if not about:
        raise FileNotFoundError("zarr.json")
    there = json.loads(about["zarr.json"]).get("attributes", {}).get("arrays")
    if there is None:
        return None
    names = {f"{name}/zarr.json": name for name in there if only is None or name in only}
    found = files.contents(list(names))
    for file in names.keys() - found.keys():
        raise KeyError(names[file])
    layouts = {name: _layout(json.loads(found[file])) for file, name in names.items()}
    if None in layouts.values():
        return None
    return {name: _read_array(files, name, *layout) for name, layout in layouts.items() if layout}


def _layout(found: dict[str, Any]) -> tuple[np.ndarray, list[int]] | None:
    """Return room for the array that is described, and the shape of its pieces; None if it is laid out otherwise."""
    try:
        dtype, piece = np.dtype(found["data_type"]), found["chunk_grid"]["configuration"]["chunk_shape"]
        if found != json.loads(_json(_description(dtype, found["shape"], piece))):
            return None
    except (KeyError, TypeError):
        return None
    return np.empty(found["shape"], dtype), piece


def _read_array(files: Files, name: str, array: np.ndarray, piece: list[int]) -> np.ndarray:
    size = math.prod(piece) * array.itemsize
    for key, rows in _places(array, piece):
        try:
            with files.opened(f"{name}/{key}") as file:
                _fill(rows, size, file)
        except FileNotFoundError:
            raise ValueError(f"the piece {name}/{key} is missing") from None
        except ValueError as error:
            raise ValueError(f"{error} in the piece {name}/{key}") from None
    return array


def _fill(rows: np.ndarray, size: int, file: Any) -> None:
    """Read the rows of a piece of ``size`` bytes, and check them together with the zeros that may follow."""
    content = rows.reshape(-1).view(np.uint8)
    file.readinto(content)
    checksum = google_crc32c.value(content)
    for left in range(size - content.nbytes, 0, -STEP):
        checksum = google_crc32c.extend(checksum, file.read(min(left, STEP)))
    if file.read() != _bytes_of(checksum):
        raise ValueError("wrong checksum")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _bytes_of(checksum: int) -> bytes:
    return checksum.to_bytes(4, "little")


def _description(dtype: np.dtype, shape: Any, piece: Any) -> dict[str, Any]:
    endian = {"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {}
    return {
        "shape": shape,
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": piece}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": dtype.type(0).item(),
        "codecs": [{"name": "bytes"} | endian, {"name": "crc32c"}],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _pieces(array: np.ndarray, piece: list[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield pieces with their Zarr keys; every piece is of one size, the last filled up with zeros."""
    for key, rows in _places(array, piece):
        missing = piece[0] - len(rows) if piece else 0
        yield key, np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]) if missing else rows


def _places(array: np.ndarray, piece: list[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the Zarr key of each piece, and its rows."""
    if array.ndim == 0:
        yield "c", array
    elif array.size:
        for index, first in enumerate(range(0, len(array), piece[0])):
            yield "/".join(["c", str(index), *("0" for _ in array.shape[1:])]), array[first : first + piece[0]]
