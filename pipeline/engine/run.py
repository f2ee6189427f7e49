"""The run store: the configuration of one training run, its metrics and its last commits.

Layout below the URL::

    run.json                      algorithm, data, shards and versions of the software
    metrics.jsonl                 one row per committed step
    HEAD                          the last committed step; written last
    epochs/<step>/shared          Zarr group: the model's shared arrays
    epochs/<step>/blocks/<j>      Zarr group: block j of the model
    epochs/<step>/state/<chunk>   Zarr group: the chunk's state
"""

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version

from ...io.stores.locks import acquire_lock, is_locked
from ...io.stores.store import Arrays, DataError, JsonObject, Store, check_format, to_json
from .algorithm import AnyAlgorithm, Metrics, PreviousModel
from .data import DataRef, TrainingData

FORMAT = 1
LOCK = "run.lock"


@dataclass(frozen=True)
class RunStore:
    """The files of one run."""

    url: str

    @cached_property
    def store(self) -> Store:
        """The store that has these files."""
        return Store(self.url)

    @property
    def meta(self) -> JsonObject:
        """The content of run.json. Raises DataError if there is no run here."""
        store = self.store
        if not store.exists("run.json"):
            raise DataError(f"{self.url}: no run here (no run.json)")
        meta = store.read_json("run.json")
        check_format(meta, "run", FORMAT, self.url)
        return meta

    def open_data(self) -> TrainingData:
        """Open the data that the run trains on; raise DataError if it is not there any more."""
        place = self.meta["data"]
        url = place["url"]
        if not Store(url).exists():
            title = place.get("title", url)
            if title != url:
                raise DataError(
                    f"{self.url}: this run was trained on {title}, which are not kept: ingest them, and train on the "
                    f"corpus"
                )
            raise DataError(f"{self.url}: the data of this run, {url}, was moved or deleted: put it back")
        return DataRef(url, place["part"] or "train").open()

    @property
    def step(self) -> int:
        """The last committed step: 0 before the first sweep, -1 if not even the first model is committed."""
        store = self.store
        with self._naming_damage("HEAD"):
            return int(store.read_json("HEAD")["step"]) if store.exists("HEAD") else -1

    @property
    def metrics(self) -> list[Metrics]:
        """The rows of metrics.jsonl up to HEAD."""
        store = self.store
        if not store.exists("metrics.jsonl"):
            return []
        step = self.step
        with self._naming_damage("metrics.jsonl"):
            rows = [json.loads(line) for line in store.read_bytes("metrics.jsonl").splitlines()]
            return [row for row in rows if row["step"] <= step]

    @contextlib.contextmanager
    def _naming_damage(self, name: str) -> Iterator[None]:
        """Raise DataError, with advice, if a file of the run has another content than it should."""
        try:
            yield
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{self.url}/{name}: damaged; restore it, or delete the run and train again") from None

    @property
    def is_held(self) -> bool:
        """Whether a process is training the run now."""
        return is_locked(self.store, LOCK)

    def shared(self, step: int) -> Arrays:
        """Read the shared arrays of a step."""
        return self.store.read_arrays(f"epochs/{step:06d}/shared")

    def write_shared(self, step: int, arrays: Arrays) -> None:
        """Write the shared arrays of a step."""
        self.store.write_arrays(f"epochs/{step:06d}/shared", arrays)

    def block(self, step: int, index: int) -> Arrays:
        """Read one block of a step's model."""
        return self.store.read_arrays(f"epochs/{step:06d}/blocks/{index:04d}")

    def write_block(self, step: int, index: int, arrays: Arrays) -> None:
        """Write one block of a step's model."""
        self.store.write_arrays(f"epochs/{step:06d}/blocks/{index:04d}", arrays)

    def state(self, step: int, chunk: int) -> Arrays:
        """Read a chunk's state as it was after a step."""
        return self.store.read_arrays(f"epochs/{step:06d}/state/{chunk:06d}")

    def write_state(self, step: int, chunk: int, arrays: Arrays) -> None:
        """Write a chunk's state."""
        self.store.write_arrays(f"epochs/{step:06d}/state/{chunk:06d}", arrays)

    def commit(self, step: int, rows: list[Metrics], keep: int) -> None:
        """Commit a step: write the metrics, then HEAD. Then delete steps that are ``keep`` or more steps older."""
        store = self.store
        store.write_bytes("metrics.jsonl", b"".join(self._line(row) for row in rows))
        store.write_json("HEAD", {"step": step})
        for other in store.numbers("epochs"):
            if other <= step - keep or other > step:
                store.delete(f"epochs/{other:06d}")

    @cached_property
    def _lines(self) -> dict[float, tuple[Metrics, bytes]]:
        """The rows of earlier commits by step, and their lines."""
        return {}

    def _line(self, row: Metrics) -> bytes:
        """Return a row as a line of metrics.jsonl. Each commit writes all rows, but encodes only the new one."""
        known = self._lines.get(row["step"])
        if known is None or known[0] is not row:
            known = (row, json.dumps(row).encode() + b"\n")
            self._lines[row["step"]] = known
        return known[1]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run for writing; raise `io.stores.locks.Locked` if another process trains it."""
        busy = "another process is training this run; wait for it or choose another run"
        with acquire_lock(self.store, LOCK, busy):
            self.store.delete_leftovers()
            yield


def describe(
    algorithm: AnyAlgorithm,
    data: TrainingData,
    previous: PreviousModel | None,
    seed: int,
    shards: list[list[int]],
    config: JsonObject,
) -> JsonObject:
    """Return the content of run.json. Its fingerprint covers everything that determines the result, and no path."""
    parameters = asdict(algorithm)
    # A run may continue on another device or with other threads. Results have the same bits there, or differ by
    # rounding.
    for name in ("device", "threads"):
        parameters.pop(name, None)
    decisive: JsonObject = {
        "algorithm": algorithm.name,
        "parameters": parameters | {"class": type(algorithm).__name__},
        "data": {"url": data.url, "title": data.title, "part": data.part, "hash": data.hash, "kind": data.kind},
        "previous": previous.digest if previous is not None else None,
        "seed": seed,
        "shards": shards,
    }
    # Only the hash of the data enters: a corpus may be moved during a run.
    content = json.dumps(decisive | {"data": data.hash}, sort_keys=True, default=to_json)
    return decisive | {
        "kind": "run",
        "format": FORMAT,
        "fingerprint": hashlib.sha256(content.encode()).hexdigest()[:32],
        "config": config,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of the software on which the bits of a result depend."""
    names = ("corpusmill", "numba", "numpy", "dask", "distributed", "zarr")
    return {name: version(name) for name in names} | {"python": platform.python_version()}
