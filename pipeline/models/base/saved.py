"""Models on disk.

Layout below the URL::

    model.json                        kind, parameters, metadata, history, name of the folder of arrays; written last
    arrays-<digest>/shared            Zarr group: the arrays that belong to no block
    arrays-<digest>/<j>               Zarr group: block j
    arrays-<digest>/vocabulary.parquet  word, with counts; the row number is the word's id
    names.json                        names that users gave to topics, and the folder of arrays that they were given for

Another model that is saved to the same place does not inherit the names, because its arrays have another folder.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....io.errors import DataError
from ....io.stores.formats import read_parquet
from ....io.stores.store import Arrays, JsonObject, Store, check_format
from ...engine.memory import EmptyArrays
from .in_use import model_in_use, model_place

MODEL_FORMAT = 1
NAMES = "names.json"
#: Longest name of a topic in characters.
MAX_NAME_LENGTH = 80
#: The name of a folder of arrays.
ARRAYS_FOLDER = re.compile(r"arrays-[0-9a-f]{16}")


@dataclass
class TrainedModel:
    """A trained model in memory."""

    blocks: list[Arrays]
    shared: Arrays
    vocabulary: pa.Table
    metadata: JsonObject  # the data that it was trained on, its last step and metrics

    def block(self, index: int, rows: np.ndarray | None = None) -> Arrays:
        """The arrays of one block of rows. All rows are in memory, whichever the caller needs."""
        return self.blocks[index]

    @property
    def has_words(self) -> bool:
        """Whether the vocabulary has words. That of a model of a `Matrix` is empty."""
        return "word" in self.vocabulary.column_names

    def joined(self, name: str) -> np.ndarray:
        """Return one array of all blocks."""
        if len(self.blocks) == 1:
            return self.blocks[0][name]
        parts = [block[name] for block in self.blocks]
        shape = (sum(map(len, parts)), *parts[0].shape[1:])
        return np.concatenate(parts, out=EmptyArrays()(shape, np.result_type(*parts)))

    def digest(self) -> str:
        """Return a digest of vocabulary and arrays: 16 hexadecimal digits."""
        digest = hashlib.sha256(_vocabulary_bytes(self.vocabulary))
        for arrays in (self.shared, *self.blocks):
            for name in sorted(arrays):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(arrays[name]).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class SavedModel:
    """A saved model that is read one block at a time, so that it need not fit into memory.

    Tasks receive it as an argument: it is a URL and a few numbers.
    """

    url: str
    arrays: str
    n_blocks: int

    @classmethod
    def open(cls, url: str) -> "SavedModel":
        """Open a saved model; raise DataError if there is none."""
        return cls.described_by(read_model_meta(url), url)

    @classmethod
    def described_by(cls, meta: JsonObject, url: str) -> "SavedModel":
        """Return the saved model whose model.json has the content ``meta``."""
        return cls(Store(model_in_use(url)).absolute, meta["arrays"], meta["blocks"])

    @property
    def digest(self) -> str:
        """Digest of vocabulary and arrays."""
        return self.arrays.removeprefix("arrays-")

    @property
    def _store(self) -> Store:
        return Store(self.url).child(self.arrays)

    @property
    def shared(self) -> Arrays:
        """Read the arrays that belong to no block."""
        return self._store.read_arrays("shared")

    @property
    def vocabulary(self) -> pa.Table:
        """Read the vocabulary: one row per row of the model."""
        return read_parquet(pa.BufferReader(self._store.read_bytes("vocabulary.parquet")))

    def block(self, index: int, empty: Callable[..., np.ndarray] = np.empty) -> Arrays:
        """Read one block; see `Store.read_arrays`."""
        return self._store.read_arrays(f"{index:04d}", empty=empty)

    def blocks(self) -> Iterator[Arrays]:
        """Read the blocks one after another."""
        return (self.block(index) for index in range(self.n_blocks))

    def load(self, metadata: JsonObject) -> TrainedModel:
        """Read the whole model, see `EmptyArrays`."""
        empty = EmptyArrays()
        blocks = [self.block(index, empty) for index in range(self.n_blocks)]
        return TrainedModel(blocks, self.shared, self.vocabulary, metadata)


def write_arrays(store: Store, model: TrainedModel) -> str:
    """Write a model's arrays into a folder named by their content, and return its name."""
    name = f"arrays-{model.digest()}"
    store.write_arrays(f"{name}/shared", model.shared)
    for index, block in enumerate(model.blocks):
        store.write_arrays(f"{name}/{index:04d}", block)
    store.write_bytes(f"{name}/vocabulary.parquet", _vocabulary_bytes(model.vocabulary))
    return name


def read_model_meta(url: str) -> JsonObject:
    """Return the content of model.json; raise DataError if there is no model.

    The folder of a run stands for its model, and that of a retrained model for the version in use.
    """
    store = Store(model_in_use(url))
    if not store.exists("model.json"):
        hint = "; pass the folder of a saved model or of a run"
        if store.exists("run.json"):
            hint = _hint_for_run(store, url)
        raise DataError(f"{url}: no model here (no model.json){hint}")
    meta = store.read_json("model.json")
    check_format(meta, "model", MODEL_FORMAT, url)
    return meta


def _hint_for_run(store: Store, url: str) -> str:
    """Say how to get the model of a run whose folder has none."""
    place = model_place(store)
    resume = f"'corpusmill resume {url}' continues it"
    if place and "://" not in place and not Path(place).is_absolute():
        return (
            f"; if this run has ended, its model is at {place} below the folder where the run was started: call the "
            f"command there; if it has not, {resume}"
        )
    return f"; this run has not saved its model yet: {resume} (in Python, call save after fit)"


def has_model(url: str) -> bool:
    """Return whether there is a model that this version can read."""
    try:
        read_model_meta(url)
    except DataError:
        return False
    return True


def _vocabulary_bytes(table: pa.Table) -> bytes:
    """Return the bytes of a Parquet file with the vocabulary.

    They have no checksums of pages, unlike those of `io.stores.formats.parquet_bytes`: the digest of a model is made
    of these bytes, so another form would give all saved models other digests.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


# --- names that users give to topics ---


def read_names(url: str, arrays: str) -> dict[int, str]:
    """Return the names of topics by number. ``arrays`` is the folder of arrays of the model at ``url``."""
    store = Store(url)
    if not store.exists(NAMES):
        return {}
    found = store.read_json(NAMES)
    if found.get("arrays") != arrays:
        return {}
    return {int(topic): clean_name(str(name)) for topic, name in found["names"].items()}


def write_names(url: str, arrays: str, names: Mapping[int, str]) -> None:
    """Write the names of topics by number beside a model."""
    Store(url).write_json(NAMES, {"arrays": arrays, "names": {str(topic): name for topic, name in names.items()}})


def clean_name(name: str) -> str:
    """Return a name without line breaks and control characters, cut to MAX_NAME_LENGTH."""
    printable = "".join(character if character.isprintable() else " " for character in name)
    return " ".join(printable.split())[:MAX_NAME_LENGTH].strip()
