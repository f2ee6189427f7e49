"""The run store: the configuration of one training run, its metrics and its last commits.

Layout below the URL::

    run.json                              algorithm, data, shards and versions of the software
    HEAD                                  the last committed step, and who wrote the steps that are kept; written last
    epochs/<step>-<owner>/metrics.jsonl   one row per committed step
    epochs/<step>-<owner>/shared          Zarr group: the model's shared arrays
    epochs/<step>-<owner>/blocks/<j>      Zarr group: block j of the model; blocks-<n>-<ranges> if it was cut again
    epochs/<step>-<owner>/state/<chunk>   Zarr group: the chunk's state

The owner is the number of the process that wrote the step, see ``io.stores.conditional``.
"""

import contextlib
import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from ...io.errors import DataError
from ...io.stores.conditional import CommitFile, read_commit, take_over, write_if_unchanged
from ...io.stores.in_memory import open_store
from ...io.stores.locks import acquire_lock, is_locked
from ...io.stores.store import Arrays, JsonObject, Store, check_format, encode_json, to_json
from .algorithm import EXECUTION_PARAMETERS, Algorithm, AnyAlgorithm, Metrics, PreviousModel
from .data import DataRef, TrainingData
from .packing import narrow, unpack, widen

FORMAT = 3
#: The oldest format that this version reads. Its states are not narrow.
OLDEST_FORMAT = 2
#: Fields that all algorithms had before, with their values. They are part of the fingerprints of stored runs. An
#: algorithm that still has such a field replaces the value.
FORMER_FIELDS = {"n_ranges": 1, "max_shards": None, "rounds": 1}
#: The metadata of a field that was added later. At its default, it is not part of the fingerprint.
ADDED = {"added": True}
LOCK = "run.lock"
#: What a run writes below its URL, except HEAD, and the model and the report, which are replaced when training ends.
CONTENT = ("run.json", "metrics.jsonl", "epochs", "base", "walks", "restarts", "mlflow.json")
BUSY = "another process is training this run; wait for it or choose another run"

#: The name of a step's folder: the step, and its owner.
_STEP_FOLDER = re.compile(r"(\d{6,})-(\d{4,})")


@dataclass(frozen=True)
class RunHead:
    """Which step of a run is committed, and who owns the run: the content of its file HEAD."""

    #: The last committed step: 0 before the first sweep, -1 if not even the first model is committed.
    step: int = -1
    #: The number of the process that owns the run; 0 if there is no HEAD yet.
    owner: int = 0
    #: The owners who wrote the steps that are kept, by step.
    owners: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunStore:
    """The files of one run.

    The process that trains the run passes its own number, ``owner``, and the ``owners`` of earlier steps. So do its
    tasks. All others leave them out, and this class reads them from HEAD.
    """

    url: str
    owner: int = 0
    owners: Mapping[int, int] = field(default_factory=dict)
    #: The folder of a step's blocks; "" reads it from run.json.
    blocks: str = ""

    @cached_property
    def store(self) -> Store:
        """The store that has these files."""
        return open_store(self.url)

    @property
    def meta(self) -> JsonObject:
        """The content of run.json. Raises DataError if there is no run here."""
        store = self.store
        if not store.exists("run.json"):
            raise DataError(f"{self.url}: no run here (no run.json)")
        meta = store.read_json("run.json")
        check_run(meta, self.url)
        return meta

    @property
    def n_blocks(self) -> int:
        """The number of blocks of the model, whether or not all of them are still there."""
        meta = self.meta
        return len((meta.get("cut") or meta["parameters"])["bounds"]) - 1

    def _block(self, step: int, index: int) -> str:
        return f"{self.folder(step)}/{self.blocks or self._known_blocks}/{index:04d}"

    @cached_property
    def _known_blocks(self) -> str:
        return blocks_folder(self.meta)

    def open_data(self) -> TrainingData:
        """Open the data that the run trains on; raise DataError if it no longer exists."""
        place = self.meta["data"]
        url = place["url"]
        if not Store(url).exists():
            self.check_stored()
            raise DataError(f"{self.url}: the data of this run, {url}, was moved or deleted: put it back")
        return DataRef(url, place["part"] or "train").open()

    def check_stored(self) -> None:
        """Raise DataError if the run trains on data in memory, which only a program in Python can pass again."""
        place = self.meta["data"]
        title = place.get("title", place["url"])
        if title != place["url"]:
            raise DataError(
                f"{self.url}: this run was trained on data that is not stored ({title}): in Python, fit with the same "
                f"parameters, the same data and run={self.url!r} continues the run, or returns its model"
            )

    @property
    def head(self) -> RunHead:
        """The current content of HEAD. Raises DataError if it is damaged."""
        found, _ = read_commit(self.store, "HEAD")
        return self._parse_head(found)

    def _parse_head(self, found: JsonObject | None) -> RunHead:
        if found is None:
            return RunHead()
        with self._naming_damage("HEAD"):
            owners = {int(step): int(owner) for step, owner in found["owners"].items()}
            return RunHead(int(found["step"]), int(found["owner"]), owners)

    @property
    def step(self) -> int:
        """The last committed step: 0 before the first sweep, -1 if not even the first model is committed."""
        head = self.head
        # Another process may have overwritten the run since this object read HEAD last.
        self._known_owners.clear()
        self._known_owners.update(head.owners)
        self.__dict__.pop("_known_blocks", None)
        return head.step

    @property
    def metrics(self) -> list[Metrics]:
        """The rows of all committed steps."""
        head = self.head
        if head.step < 0:
            return []
        name = f"{step_folder(head.step, head.owners.get(head.step, head.owner))}/metrics.jsonl"
        with self._naming_damage(name):
            rows = [json.loads(line) for line in self.store.read_bytes(name).splitlines()]
            committed = [row for row in rows if row["step"] <= head.step]
            # The first model, step 0, has no row if it was not evaluated.
            if head.step and (not committed or committed[-1]["step"] != head.step):
                raise ValueError("rows are missing")
            return committed

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

    def folder(self, step: int) -> str:
        """Return the folder of a committed step, or of the step that is being trained now."""
        if self.owner:
            return step_folder(step, self.owners.get(step, self.owner))
        if step not in self._known_owners:
            head = self.head
            self._known_owners.update(head.owners)
            if step not in head.owners:
                return step_folder(step, head.owner)
        return step_folder(step, self._known_owners[step])

    @cached_property
    def _known_owners(self) -> dict[int, int]:
        """The owners of steps, as a reader found them in HEAD."""
        return {}

    def shared(self, step: int) -> Arrays:
        """Read the shared arrays of a step."""
        return self.store.read_arrays(f"{self.folder(step)}/shared")

    def write_shared(self, step: int, arrays: Arrays) -> None:
        """Write the shared arrays of a step."""
        self.store.write_arrays(f"{self.folder(step)}/shared", arrays)

    def block(self, step: int, index: int, empty: Callable[..., np.ndarray] = np.empty) -> Arrays:
        """Read one block of a step's model; see `Store.read_arrays`."""
        return unpack(self.stored_block(step, index, empty))

    def stored_block(
        self,
        step: int,
        index: int,
        empty: Callable[..., np.ndarray] = np.empty,
        only: Sequence[str] | None = None,
    ) -> Arrays:
        """Read one block in the form in which it is stored, which may be packed; see `Store.read_arrays`."""
        return self.store.read_arrays(self._block(step, index), only, empty)

    def write_block(self, step: int, index: int, arrays: Arrays) -> None:
        """Write one block of a step's model. The arrays must not change afterwards."""
        self.store.write_constant_arrays(self._block(step, index), arrays)

    def state(self, step: int, chunk: int) -> Arrays:
        """Read a chunk's state as it was after a step."""
        return widen(self.store.read_arrays(f"{self.folder(step)}/state/{chunk:06d}"))

    def write_state(self, step: int, chunk: int, arrays: Arrays) -> None:
        """Write a chunk's state. The arrays must not change afterwards."""
        self.store.write_constant_arrays(f"{self.folder(step)}/state/{chunk:06d}", narrow(arrays))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run for writing; raise `io.errors.Locked` if another process trains it."""
        with acquire_lock(self.store, LOCK, BUSY):
            self.store.delete_leftovers()
            yield

    def delete(self, but: str) -> None:
        """Delete the files of the run (`CONTENT`) and its own copy of a graph, except one with the URL ``but``.

        Other files of the folder stay. Without a run, nothing is deleted.
        """
        if not self.store.exists("run.json"):
            return
        with self.locked():
            # HEAD stays, with the fencing token of its owner: a process that was paused must not take itself for the
            # owner.
            self.take_over(is_new=True)
            with contextlib.suppress(DataError):  # a damaged run.json
                # A run's own copy of edges. Other runs have none, so a graph in their folder is not theirs.
                graph = self.store.child("graph").absolute
                if Store(self.meta["data"]["url"]).absolute == graph != Store(but).absolute:
                    self.store.delete("graph")
            for name in CONTENT:
                self.store.delete(name)

    def take_over(self, is_new: bool = False) -> "OwnedRun":
        """Become the owner of the run, and forget all steps of it if ``is_new``. Needs the lock.

        Raises `io.errors.Locked` if another process takes it over at this moment.
        """

        def begin(found: JsonObject | None) -> JsonObject:
            head = RunHead() if is_new else self._parse_head(found)
            return {"step": head.step, "owners": head.owners}

        file = take_over(self.store, "HEAD", BUSY, begin)
        return OwnedRun(self.url, file.owner, file.content["owners"], self.blocks, file=file)


@dataclass(frozen=True)
class OwnedRun(RunStore):
    """A run that this process may write."""

    file: CommitFile = field(kw_only=True)

    @property
    def step(self) -> int:
        """The last committed step, as in `RunStore`."""
        return int(self.file.content["step"])

    def for_tasks(self) -> RunStore:
        """Return the same run without the right to commit, for tasks."""
        return RunStore(self.store.absolute, self.owner, self.owners, self.blocks)

    def write_meta(self, description: JsonObject, tag: str) -> None:
        """Write run.json, whose version had the tag ``tag`` before; raise Locked if another process has taken over."""
        content = encode_json(description | {"owner": self.owner})
        if not write_if_unchanged(self.store, "run.json", content, tag):
            self.file.refuse()

    def commit(self, step: int, rows: list[Metrics], keep: int) -> None:
        """Commit a step: write the metrics, then HEAD. From then on, only the last ``keep`` steps are valid.

        Raises `io.errors.Locked` if another process has taken over the run.
        """
        # The arrays of a step are not flushed either. A reader notices if one of these files did not survive.
        self.store.write_bytes(f"{self.folder(step)}/metrics.jsonl", self._lines(rows), is_flushed=False)
        known: Mapping[int, int] = self.file.content["owners"]
        owners = {other: owner for other, owner in known.items() if step - keep < other < step}
        owners[step] = self.owner
        self.file.replace({"step": step, "owners": owners})

    def prune(self, is_over: bool = False) -> None:
        """Delete the folders of steps that are not valid, except those that this process writes if it is not over."""
        # Another thread may commit a step meanwhile. This thread works with one version of HEAD.
        head = self.file.content
        step: int = head["step"]
        owners: Mapping[int, int] = head["owners"]
        for name in self.store.names("epochs"):
            match = _STEP_FOLDER.fullmatch(name)
            if match is None:
                continue
            number, owner = int(match[1]), int(match[2])
            is_being_written = not is_over and number > step and owner == self.owner
            is_in_use = owners.get(number) == owner or is_being_written
            # Folders of a later owner must stay: this process may be paused here for any time.
            if owner <= self.owner and not is_in_use:
                self.store.delete_unneeded(f"epochs/{name}")

    @cached_property
    def _written(self) -> tuple[list[Metrics], bytearray]:
        """The rows of the last commit, and their lines."""
        return [], bytearray()

    def _lines(self, rows: list[Metrics]) -> bytes:
        """Return rows as lines of metrics.jsonl. Each commit writes all rows, but encodes only the new ones."""
        known, lines = self._written
        if rows[: len(known)] != known:
            known.clear()
            lines.clear()
        for row in rows[len(known) :]:
            lines += json.dumps(row).encode() + b"\n"
            known.append(row)
        return bytes(lines)


def blocks_folder(meta: JsonObject) -> str:
    """Return the name of the folder of blocks, given the content of run.json."""
    if "cut" not in meta:
        return "blocks"
    # Earlier versions did not store the name.
    return str(meta.get("blocks") or f"blocks-{len(meta['cut']['bounds']) - 1}")


def name_blocks(cut: Mapping[str, Any]) -> str:
    """Return a name for the folder of blocks that no other cut of the same run has."""
    return f"blocks-{len(cut['bounds']) - 1}-{cut.get('n_ranges', 1)}"


def step_folder(step: int, owner: int) -> str:
    """Return the folder of a step that an owner wrote."""
    return f"epochs/{step:06d}-{owner:04d}"


def check_run(meta: object, url: str) -> None:
    """Raise DataError if this is not the content of run.json of a run that this version reads."""
    check_format(meta, "run", FORMAT, url, OLDEST_FORMAT)


def describe(
    algorithm: AnyAlgorithm,
    data: TrainingData,
    previous: PreviousModel | None,
    seed: int,
    shards: list[list[int]],
    config: JsonObject,
) -> JsonObject:
    """Return the content of run.json. Its fingerprint covers everything that determines the result, and no path."""
    parameters = parameters_of(algorithm)
    for name in EXECUTION_PARAMETERS:
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


def parameters_of(algorithm: AnyAlgorithm) -> JsonObject:
    """Return the fields of an algorithm, and those of algorithms among them, as run.json has them."""
    parameters: JsonObject = dict(FORMER_FIELDS)
    for described in fields(algorithm):
        value = getattr(algorithm, described.name)
        if described.metadata != ADDED or value != described.default:
            parameters[described.name] = _stored(value)
    return parameters


def _stored(value: object) -> object:
    if isinstance(value, Algorithm):
        return parameters_of(value)
    if isinstance(value, tuple | list):
        return [_stored(item) for item in value]
    return value


def config_section(meta: JsonObject, name: str) -> JsonObject:
    """Return a section of the configuration in run.json; empty if the user's own configuration has no such section."""
    section = meta["config"].get(name)
    return dict(section) if isinstance(section, dict) else {}


def model_kind(meta: JsonObject) -> str:
    """Return the kind of the model that a run trains: that of the configuration, or else that of its algorithm.

    Node2Vec trains word vectors on walks, so its algorithm is word2vec.
    """
    return str(config_section(meta, "model").get("kind", meta["algorithm"]))


def is_same_run(found: JsonObject, wanted: JsonObject) -> bool:
    """Return whether two contents of run.json describe the same run. Equal numbers of two types, 0 and 0.0, are equal.

    Python stores an integer for a real parameter in some runs of earlier versions, where the command line has a float.
    """
    if found["fingerprint"] == wanted["fingerprint"]:
        return True
    # Read as it was stored, so that tuples equal lists.
    stored: JsonObject = json.loads(json.dumps(wanted, default=to_json))
    names = ("algorithm", "parameters", "previous", "seed", "shards")
    is_same_data = found["data"].get("hash") == stored["data"]["hash"]
    return is_same_data and all(found.get(name) == stored[name] for name in names)


def describe_changes(found: JsonObject, wanted: JsonObject, setting_names: Mapping[str, str]) -> str:
    """Describe in what two contents of run.json with different fingerprints differ, by the names that users set.

    ``setting_names``: see `Advice.names`.
    """
    if found["algorithm"] != wanted["algorithm"]:
        return f"the model ({found['algorithm']} there, {wanted['algorithm']} here)"
    changes = _changed_parameters(config_section(found, "model"), config_section(wanted, "model"))
    has_other_data = found["data"].get("hash") != wanted["data"]["hash"]
    if not changes and not has_other_data:
        # A custom configuration need not have the parameters of the model. Those of the algorithm also
        # depend on the data.
        settings = [
            {setting_names.get(name, name): value for name, value in meta["parameters"].items()}
            for meta in (found, wanted)
        ]
        changes = _changed_parameters(*settings)
    if found["seed"] != wanted["seed"] and not changes:
        changes = [f"the seed ({found['seed']} there, {wanted['seed']} here)"]
    if has_other_data:
        changes.append("the data")
    if found.get("previous") != wanted["previous"]:
        changes.append("the model that training continues from")
    return ", ".join(changes) or "a setting that another version of corpusmill added or dropped"


def _changed_parameters(found: JsonObject, wanted: JsonObject) -> list[str]:
    """Return one description per parameter that differs and decides the result."""
    # Read as it was stored, so that tuples equal lists.
    stored: JsonObject = json.loads(json.dumps(wanted, default=to_json))
    names = sorted((set(found) & set(stored)) - set(EXECUTION_PARAMETERS))
    return [
        f"{name} ({_shown(found[name])} there, {_shown(stored[name])} here)"
        for name in names
        if found[name] != stored[name]
    ]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache  # each takes a millisecond
def versions() -> dict[str, str]:
    """Return the versions of the software on which the bits of a result depend."""
    names = ("corpusmill", "numba", "numpy", "dask", "distributed", "zarr")
    return {name: version(name) for name in names} | {"python": platform.python_version()}
