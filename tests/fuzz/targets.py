"""What is fuzzed: for each reader and each stored format, a few valid files, and a function that reads a file."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse
from corpusmill.configs.layers import read_file
from corpusmill.io.errors import DataError
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.open import open_source
from corpusmill.io.stores.formats import parquet_bytes
from corpusmill.io.stores.store import Store
from corpusmill.io.words import TokenOptions, tokenise
from corpusmill.pipeline.models.vectors.vectors import WordVectors
from helpers.cells import write_h5ad, write_market, write_tenx
from numcodecs.zstd import Zstd

TEXTS = ["one fish two fish", "", "rote Fische und 鱼 ❤", "a 'quoted' text, with \"commas\""]
JSON_LINES = "".join(json.dumps({"text": text, "key": str(n)}) + "\n" for n, text in enumerate(TEXTS)).encode()
TABLE = pa.table({"text": TEXTS, "key": ["a", "b", "c", "d"]})
COUNTS = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])


class Target(NamedTuple):
    """A kind of file: its name, some valid contents, and what reads it."""

    file: str
    seeds: Callable[[Path], list[bytes]]
    read: Callable[[str], object]


def _read_source(**options: object) -> Callable[[str], object]:
    """Return a function that reads and tokenises all documents of a file."""

    def read(path: str) -> object:
        reader = open_source(path, ReadOptions(**options))
        found = 0
        for part in reader.partitions():
            for batch in reader.read(part):
                found += tokenise(batch, TokenOptions()).ids.size
        return found

    return read


def _given(*contents: bytes) -> Callable[[Path], list[bytes]]:
    return lambda folder: list(contents)


def _written(write: Callable[[Path], object], name: str) -> Callable[[Path], list[bytes]]:
    """Return a function that returns the bytes of a file that another function writes."""

    def seeds(folder: Path) -> list[bytes]:
        path = folder / name
        write(path)
        return [path.read_bytes()]

    return seeds


def _npz_seeds(folder: Path) -> list[bytes]:
    scipy.sparse.save_npz(folder / "seed.npz", scipy.sparse.csr_matrix(COUNTS))
    return [(folder / "seed.npz").read_bytes()]


# --- word vectors ---


def _vectors() -> WordVectors:
    return WordVectors(["fish", "cat", "dog"], np.arange(12, dtype=np.float32).reshape(3, 4), np.array([3, 2, 1]))


def _word2vec_seeds(binary: bool) -> Callable[[Path], list[bytes]]:
    def write(path: Path) -> None:
        _vectors().save(str(path))

    return _written(write, "seed.bin" if binary else "seed.txt")


# --- stores ---


def _group_seeds(folder: Path) -> list[bytes]:
    """Return the metadata of a group of arrays."""
    Store(folder / "group").write_arrays("", {"counts": np.arange(6).reshape(2, 3), "total": np.float64(2)})
    return [path.read_bytes() for path in sorted((folder / "group").rglob("zarr.json"))]


def _read_group(path: str) -> object:
    """Read a group whose metadata, or whose first array's metadata, is the file."""
    folder = Path(path).parent / "group"
    Store(folder).write_arrays("", {"counts": np.arange(6).reshape(2, 3), "total": np.float64(2)})
    content = Path(path).read_bytes()
    try:
        is_array = b'"array"' in content
        (folder / "counts/zarr.json" if is_array else folder / "zarr.json").write_bytes(content)
        return Store(folder).read_arrays("")
    finally:
        Store(folder).delete("")


def _read_chunk(path: str) -> object:
    """Read a group one of whose chunks is the file."""
    folder = Path(path).parent / "group"
    Store(folder).write_arrays("", {"counts": np.arange(6).reshape(2, 3)})
    try:
        (folder / "counts/c/0/0").write_bytes(Path(path).read_bytes())
        return Store(folder).read_arrays("")
    finally:
        Store(folder).delete("")


def _chunk_seeds(folder: Path) -> list[bytes]:
    Store(folder / "group").write_arrays("", {"counts": np.arange(6).reshape(2, 3)})
    return [(folder / "group/counts/c/0/0").read_bytes()]


def _read_stored_parquet(path: str) -> object:
    return Store(Path(path).parent).read_parquet(Path(path).name)


def _read_stored_json(path: str) -> object:
    return Store(Path(path).parent).read_json(Path(path).name)


def _read_configuration(path: str) -> object:
    return read_file(path)


CONFIGURATION = b"source: {path: texts.jsonl}\nmodel: {kind: lda, n_components: 2}\nrun:\n  url: run\n"
LDA_C = b"2 0:1 2:3\n0\n1 1:2\n"
DOCWORD = b"3\n3\n5\n1 1 2\n1 3 1\n2 2 3\n3 1 1\n3 2 1\n"

TARGETS: dict[str, Target] = {
    "jsonl": Target("x.jsonl", _given(JSON_LINES), _read_source()),
    "jsonl.gz": Target("x.jsonl.gz", _given(gzip.compress(JSON_LINES)), _read_source()),
    "jsonl.bz2": Target("x.jsonl.bz2", _given(bz2.compress(JSON_LINES)), _read_source()),
    "jsonl.xz": Target("x.jsonl.xz", _given(lzma.compress(JSON_LINES)), _read_source()),
    "jsonl.zst": Target("x.jsonl.zst", _given(bytes(Zstd().encode(JSON_LINES))), _read_source()),
    "lines": Target("x.txt", _given("\n".join(TEXTS).encode()), _read_source(format="lines")),
    "csv": Target("x.csv", _given(b'key,text\na,"one, two"\nb,three\n'), _read_source()),
    "parquet": Target("x.parquet", _given(parquet_bytes(TABLE)), _read_source()),
    "docword": Target("docword.x.txt", _given(DOCWORD), _read_source()),
    "svmlight": Target("x.svm", _given(b"1 1:2 7:1\n0 # empty\n1 3:1\n"), _read_source()),
    "lda-c": Target("x.dat", _given(LDA_C), _read_source(format="lda-c")),
    "matrixmarket": Target(
        "x.mtx", _written(lambda path: write_market(path, scipy.sparse.csr_matrix(COUNTS)), "s.mtx"), _read_source()
    ),
    "npz": Target("x.npz", _npz_seeds, _read_source()),
    "h5ad": Target("x.h5ad", _written(write_h5ad, "s.h5ad"), _read_source()),
    "10x-h5": Target("x.h5", _written(write_tenx, "s.h5"), _read_source()),
    "word2vec text": Target("x.txt", _word2vec_seeds(False), lambda path: WordVectors.load_word2vec_format(path)),
    "word2vec binary": Target("x.bin", _word2vec_seeds(True), lambda p: WordVectors.load_word2vec_format(p, True)),
    "safetensors": Target(
        "x.safetensors", _written(lambda path: _vectors().save(str(path)), "s.safetensors"), WordVectors.load
    ),
    "vectors in parquet": Target(
        "x.parquet", _written(lambda path: _vectors().save(str(path)), "s.parquet"), WordVectors.load
    ),
    "zarr metadata": Target("zarr.json", _group_seeds, _read_group),
    "zarr chunk": Target("chunk", _chunk_seeds, _read_chunk),
    "stored parquet": Target("vocabulary.parquet", _given(parquet_bytes(TABLE)), _read_stored_parquet),
    "stored json": Target("corpus.json", _given(b'{"kind": "corpus", "format": 1}\n'), _read_stored_json),
    "configuration": Target("my.yaml", _given(CONFIGURATION), _read_configuration),
}
#: libhdf5 itself may hang or crash on a damaged file, and cannot be interrupted. `make fuzz` tries these formats, each
#: input in a process of its own.
IN_C = ("h5ad", "10x-h5")
#: Errors that a target may raise: those that the command line turns into one sentence about the data.
REFUSALS = (DataError, OSError)
