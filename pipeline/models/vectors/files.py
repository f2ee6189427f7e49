"""Reading and writing word vectors: safetensors, Parquet and Zarr; word2vec's formats are in word2vec_format.

Paths are local paths or URLs of any storage that fsspec supports. Every file is written whole or not at all.
"""

import bz2
import gzip
import json
import lzma
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import safetensors
import safetensors.numpy

from ....io.errors import DataError
from ....io.messages import listed, shortened
from ....io.stores.parquet import DAMAGED, parquet_bytes, read_parquet
from ....io.stores.store import Store, check_format, split_path

#: Functions that compress bytes, by the ending of a file's name.
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
#: Version of the Zarr layout.
ZARR_FORMAT = 1
#: The safetensors library reads no header longer than this, and the words are in the header.
MAX_SAFETENSORS_HEADER_BYTES = 100_000_000
#: Types of tensors, as safetensors names them, that convert to float32.
SAFETENSORS_TYPES = ("F16", "F32", "F64")


class VectorTable(NamedTuple):
    """The content of a file of word vectors: V words, vectors (V, D), and the count of each word (V,), if known."""

    words: list[str]
    vectors: np.ndarray
    counts: np.ndarray | None = None


# --- files ---


def write_file(path: str, content: bytes) -> None:
    """Write or replace a file in one step, compressed if the name ends in .gz, .bz2 or .xz."""
    compress = COMPRESSORS.get(Path(path).suffix)
    if compress is not None:
        content = compress(content)
    store, name = split_path(str(path))
    store.write_bytes(name, content)


# --- safetensors ---


def write_safetensors(path: str, table: VectorTable) -> None:
    """Write the tensors ``vectors`` (V, D) and, if known, ``counts`` (V,); the words are JSON in the metadata.

    Raises ValueError when the words take more space than the format allows for metadata.
    """
    words = json.dumps(table.words, ensure_ascii=False)
    # The metadata is JSON itself, so that quotes within it are escaped.
    if len(json.dumps(words, ensure_ascii=False).encode()) > MAX_SAFETENSORS_HEADER_BYTES - 1000:
        raise ValueError(
            f"{path}: {len(table.words):,} words exceed the {MAX_SAFETENSORS_HEADER_BYTES:,} bytes that a safetensors "
            f"header may have; save them as .parquet or .zarr"
        )
    tensors = {"vectors": np.ascontiguousarray(table.vectors)}
    if table.counts is not None:
        tensors["counts"] = np.ascontiguousarray(table.counts)
    write_file(path, safetensors.numpy.save(tensors, {"format": "np", "words": words}))


def read_safetensors(path: str) -> VectorTable:
    """Read a file of `write_safetensors`. Raises DataError if it is damaged, or has other tensors or types."""
    try:
        with _local_file(path) as local, safetensors.safe_open(local, framework="np") as file:
            names = sorted(file.keys())
            metadata = file.metadata() or {}
            if "vectors" not in names or "words" not in metadata:
                raise DataError(
                    f"{path}: has the tensors {listed(names, '(none)')} and the metadata "
                    f"{listed(sorted(metadata), '(none)')}; word vectors need the tensor 'vectors' and the "
                    f"metadata 'words'"
                )
            # A slice is lazy. The type is checked before any data is read, because NumPy has no bfloat16.
            dtype = file.get_slice("vectors").get_dtype()
            if dtype not in SAFETENSORS_TYPES:
                raise DataError(f"{path}: vectors of type {dtype}: convert them to {', '.join(SAFETENSORS_TYPES)}")
            words = json.loads(metadata["words"])
            if not isinstance(words, list):
                raise DataError(f"{path}: the words in its metadata are not a list")
            counts = file.get_tensor("counts") if "counts" in names else None
            return VectorTable(words, file.get_tensor("vectors"), counts)
    except (safetensors.SafetensorError, ValueError) as error:
        raise DataError(f"{path}: not a safetensors file of word vectors ({error})") from None


@contextmanager
def _local_file(path: str) -> Iterator[str]:
    """Yield a local path with the content of ``path``: the library reads local files only."""
    store, name = split_path(str(path))
    if store.is_local and store.exists(name):
        yield store.where(name)
        return
    with tempfile.TemporaryDirectory(prefix="corpusmill-vectors-") as folder:
        copy = Path(folder) / "vectors.safetensors"
        copy.write_bytes(store.read_bytes(name))
        yield str(copy)


# --- Parquet ---


def write_parquet(path: str, table: VectorTable) -> None:
    """Write the columns ``word``, ``vector`` (a list of D floats) and, if known, ``count``."""
    flat = pa.array(table.vectors.ravel())
    columns = {
        "word": pa.array(table.words, pa.string()),
        "vector": pa.FixedSizeListArray.from_arrays(flat, table.vectors.shape[1]),
    }
    if table.counts is not None:
        columns["count"] = pa.array(table.counts)
    write_file(path, parquet_bytes(pa.table(columns)))


def read_parquet_vectors(path: str) -> VectorTable:
    """Read a file written by `write_parquet`. Raises DataError for any other file."""
    store, name = split_path(str(path))
    content = store.read_bytes(name)
    try:
        found = read_parquet(pa.BufferReader(content))
        vectors = found["vector"].combine_chunks()
        counts = found["count"].to_numpy() if "count" in found.column_names else None
        rows = vectors.flatten().to_numpy().reshape(len(vectors), -1)
        return VectorTable(found["word"].to_pylist(), rows, counts)
    except (KeyError, AttributeError, ValueError, *DAMAGED) as error:
        raise DataError(f"{path}: not a Parquet file of word vectors ({shortened(error)})") from None


# --- Zarr ---


def write_zarr(url: str, table: VectorTable) -> None:
    """Write a Zarr group with the arrays ``vectors`` (V, D) and, if known, ``counts`` (V,), and ``words.json``."""
    store = Store(url)
    arrays = {"vectors": table.vectors}
    if table.counts is not None:
        arrays["counts"] = table.counts
    # A reader needs words.json. It is deleted first and written last, so that words and vectors always match.
    store.delete("words.json")
    store.write_arrays("vectors", arrays)
    store.write_json("words.json", {"kind": "vectors", "format": ZARR_FORMAT, "words": table.words})


def read_zarr(url: str) -> VectorTable:
    """Read a group written by `write_zarr`. Raises DataError for any other store."""
    store = Store(url)
    if not store.exists("words.json"):
        raise DataError(f"{url}: no word vectors here (words.json is missing)")
    metadata = store.read_json("words.json")
    check_format(metadata, "vectors", ZARR_FORMAT, url)
    arrays = store.read_arrays("vectors")
    return VectorTable(metadata["words"], arrays["vectors"], arrays.get("counts"))
