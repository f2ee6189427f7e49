"""Published models: numbered versions below one URL. The file HEAD names the one in use.

Layout below the URL::

    HEAD                                the version in use, those that were withdrawn, and the folder of each version
    created.json                        names of the versions, batches and runs that this program created
    retrain.lock                        held by the process that writes
    versions/<n>-<owner>/model          the saved model of version n
    versions/<n>-<owner>/version.json   what version n was made of, and how it was judged
    batches/<b>                         the corpus of the documents that one call ingested, while a version needs it
    runs/<b>                            the training of a version that is not complete yet

The owner is the number of the process that wrote the version, see ``io.stores.conditional``. HEAD and created.json are
commit files. A version that HEAD does not name is incomplete and does not count. Only what created.json names is ever
deleted, so files that other programs put into these folders are safe.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NotRequired, TypedDict, get_args

from ...io.errors import DataError
from ...io.stores.conditional import CommitFile, take_over
from ...io.stores.locks import acquire_lock
from ...io.stores.store import DATA_KINDS, JsonObject, Store, check_format, check_free
from ..models.base.in_use import VersionsHead, parse_head, read_head, read_published_head

FORMAT = 1
BUSY = "another process is retraining this model; wait for it"

Folder = Literal["versions", "batches", "runs"]
FOLDERS: tuple[Folder, ...] = get_args(Folder)

#: A section of the configuration; None for a section that was left out.
Settings = dict[str, object] | None


class VersionFacts(TypedDict):
    """What a version was made of and how it was judged."""

    #: Digest of everything that decides the result; also the name of the version's batch and run.
    name: str
    #: The version in use when this one was made; 0 for the first one.
    previous: int
    #: Whether the model was trained from scratch.
    fresh: bool
    #: The kind of the model.
    model: str
    #: The sections model, source and corpus of the configuration.
    settings: dict[str, Settings]
    #: The fields of ``manifest.FileVersion`` for each input file, by URL. Those with a default may be missing.
    partitions: dict[str, dict[str, Any]]
    #: URLs of files.
    added: list[str]
    changed: list[str]
    removed: list[str]
    forgotten: list[str]
    #: Name of the batch that has the latest vocabulary, and of the one whose held-out documents judge all versions.
    corpus: str
    held_out: str
    #: Names of all batches that this version needs.
    batches: list[str]
    documents: int
    tokens: int
    words: int
    new_words: int
    epochs: int
    #: Versions of the libraries that made it.
    software: dict[str, str]
    #: Name of the score on the held-out documents, its value, and the value of the version in use at that time.
    measure: str
    score: float | None
    score_before: float | None
    #: The best score of the versions published before, and of these and this one.
    best_before: NotRequired[float | None]
    best_score: NotRequired[float | None]
    #: Share of the tokens of the new documents whose words the version in use did not have.
    new_tokens: NotRequired[float]
    #: Lines of the new files that were skipped.
    bad_lines: NotRequired[int]
    #: Whether all numbers of the model and its score are finite.
    finite: bool
    #: Why the version was refused; empty if it was not.
    refused: str


class VersionRecord(VersionFacts):
    """What is known of a published version, as version.json of its folder has it."""

    kind: str
    format: int
    version: int


class VersionRow(TypedDict):
    """One version in a list of versions."""

    version: int
    previous: int
    measure: str
    score: float | None
    refused: str
    #: Numbers of files.
    partitions: int
    added: int
    changed: int
    removed: int
    #: "in use", "withdrawn", "refused", or empty.
    state: str
    #: When it was made, in ISO 8601.
    made: str


class Rollback(TypedDict):
    """The result of a rollback: the version that is now in use, the version before it, and the URL of the model."""

    url: str
    version: int
    previous: int
    model: str


@dataclass(frozen=True)
class _Owner:
    """The commit files and the lock of the process that may write versions at present."""

    head: CommitFile
    created: CommitFile
    check_lock: Callable[[], None]


class Versions:
    """The versions of a model below a URL."""

    def __init__(self, url: str):
        self.url = url
        self.store = Store(url)
        self._held: _Owner | None = None

    def check_exist(self) -> None:
        """Raise DataError if no version was ever published here."""
        read_published_head(self.store)

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Become the owner; yield a function that raises Locked if another process has taken over meanwhile."""
        if not self.store.exists("HEAD"):
            check_free(self.store, *DATA_KINDS, "run", "model")
        with acquire_lock(self.store, "retrain.lock", BUSY) as check:
            self.store.delete_leftovers()
            head = take_over(self.store, "HEAD", BUSY, lambda found: parse_head(found, self.url).as_json())
            created = take_over(self.store, "created.json", BUSY, self._parse_created)
            self._held = _Owner(head, created, check)
            try:
                yield check
            finally:
                self._held = None

    # --- reading ---

    @property
    def head(self) -> VersionsHead:
        """The current content of HEAD."""
        return read_head(self.store)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the complete versions, ascending."""
        return sorted(self.head.folders)

    def read(self, number: int) -> VersionRecord:
        """Return version.json of a version; raise DataError if there is no such version."""
        found = self.store.read_json(f"{self.folder(number)}/version.json")
        check_format(found, "version", FORMAT, f"{self.url}, version {number}")
        return found

    def folder(self, number: int) -> str:
        """Return the folder of a complete version, relative to the URL; raise DataError if there is no such version."""
        return self.head.folder(number, self.url)

    def model(self, number: int) -> str:
        """Return the URL of a complete version's model."""
        return self.store.child(f"{self.folder(number)}/model").url

    def before(self, number: int) -> int:
        """Return the version that was in use before this one; raise DataError if it was deleted."""
        previous = self.read(number)["previous"]
        if not previous:
            raise DataError(f"{self.url}: version {number} is the first one; there is none before it")
        if previous not in self.numbers:
            raise DataError(f"{self.url}: no version before {number} is kept")
        return previous

    def rows(self) -> list[VersionRow]:
        """Return one row per version, newest first."""
        self.check_exist()
        head = self.head
        return [self._row(number, head) for number in reversed(self.numbers)]

    def _row(self, number: int, head: VersionsHead) -> VersionRow:
        found = self.read(number)
        return {
            "version": found["version"],
            "previous": found["previous"],
            "measure": found["measure"],
            "score": found["score"],
            "refused": found["refused"],
            "partitions": len(found["partitions"]),
            "added": len(found["added"]),
            "changed": len(found["changed"]),
            "removed": len(found["removed"]),
            "state": _state(number, head, found),
            "made": self.store.modified(f"versions/{head.folders[number]}/version.json").isoformat(timespec="seconds"),
        }

    # --- writing, by the owner ---

    @property
    def _owner(self) -> _Owner:
        assert self._held is not None, "versions are written only inside of locked()"
        return self._held

    def begin(self, number: int, name: str) -> str:
        """Record what version ``number`` is about to create, and return the URL for its model.

        Raises DataError if another program put a folder where the version belongs.
        """
        created = self._created()
        folder = self._new_folder(number)
        if self.store.exists(f"versions/{folder}") and folder not in created["versions"]:
            raise DataError(
                f"{self.url}/versions/{folder}: belongs to version {number}, but corpusmill did not create it; move it "
                f"away"
            )
        # Recorded before anything is created: after a kill, only recorded folders may be deleted.
        created["versions"].add(folder)
        created["batches"].add(name)
        created["runs"].add(name)
        self._write_created(created)
        return self.store.child(f"versions/{folder}/model").url

    def finish(self, number: int, facts: VersionFacts) -> None:
        """Complete a version: write its version.json, and add it to HEAD."""
        folder = self._new_folder(number)
        record: VersionRecord = {**facts, "kind": "version", "format": FORMAT, "version": number}
        self.store.write_json(f"versions/{folder}/version.json", record)
        # After a power cut, HEAD must not name a version whose files were never written to the disk.
        self.store.flush(f"versions/{folder}")
        for batch in facts["batches"]:
            self.store.flush(f"batches/{batch}")
        head = self.head
        self._write_head(replace(head, folders={**head.folders, number: folder}))

    def _new_folder(self, number: int) -> str:
        return f"{number:06d}-{self._owner.head.owner:04d}"

    def publish(self, number: int, withdrawn: tuple[int, ...]) -> None:
        """Put a version in use; raise Locked if another process has taken over."""
        self._write_head(replace(self.head, version=number, withdrawn=tuple(sorted(set(withdrawn)))))

    def _write_head(self, head: VersionsHead) -> None:
        self._owner.head.replace(head.as_json())
        # What HEAD does not name any more may now be deleted. After a power cut, the old HEAD must not come back.
        self.store.flush("HEAD")

    def rollback(self, number: int | None = None) -> Rollback:
        """Put another version in use, by default the one before, and withdraw the one in use until now.

        A withdrawn version is not published again by ``retrain``: the same files would give the same model. Raises
        DataError if there is no such version, Locked if another process writes.
        """
        self.check_exist()
        with self.locked():
            head = self.head
            target = self.before(head.version) if number is None else number
            self.read(target)
            if target == head.version:
                raise DataError(
                    f"{self.url}: version {target} is in use already; `corpusmill versions` lists the others"
                )
            # A version that is chosen explicitly is no longer withdrawn.
            withdrawn = [n for n in head.withdrawn if n != target]
            self.publish(target, (*withdrawn, head.version))
        return {"url": self.url, "version": target, "previous": head.version, "model": self.model(target)}

    def delete_unused(self, keep: int, current: str = "") -> None:
        """Delete old versions, and all batches and runs that nothing needs any more.

        Keeps the last ``keep`` versions, the one in use and the one before it, the batches that these need, and the
        batch and the run that are named ``current``. Folders that created.json does not name are left alone.
        """
        created = self._created()
        head = self.head
        needed = {*sorted(head.folders)[-keep:], head.version}
        if head.version in head.folders:
            # For a rollback.
            needed.add(self.read(head.version)["previous"])
        kept = {number: folder for number, folder in head.folders.items() if number in needed}
        # HEAD first. From here on, nobody reads the versions that are deleted below.
        self._write_head(replace(head, folders=kept))
        kept_versions = set(kept.values())
        kept_batches = {batch for number in kept for batch in self.read(number)["batches"]}
        needed_names = {"versions": kept_versions, "batches": kept_batches | {current}, "runs": {current}}
        for folder in FOLDERS:
            for name in sorted(created[folder] - needed_names[folder]):
                # Deletions cannot be made conditional, so the owner makes sure just before each one that it has its
                # lock.
                self._owner.check_lock()
                # What may not be deleted stays recorded, so that a later call deletes it.
                if self.store.delete_unneeded(f"{folder}/{name}"):
                    created[folder].remove(name)
            self.store.flush_names(folder)
        self._write_created(created)

    def _created(self) -> dict[Folder, set[str]]:
        """Return the names in created.json by folder."""
        return {folder: set(self._owner.created.content[folder]) for folder in FOLDERS}

    def _write_created(self, created: dict[Folder, set[str]]) -> None:
        if created != self._created():
            self._owner.created.replace(_created_content(created))
            # After a power cut, there must be no folder that the file does not name: it could not be told from a folder
            # of another program, and nobody would delete it.
            self.store.flush("created.json")

    def _parse_created(self, found: JsonObject | None) -> JsonObject:
        if found is None:
            return _created_content({folder: set() for folder in FOLDERS})
        check_format(found, "created", FORMAT, f"{self.url}/created.json")
        return _created_content({folder: set(found[folder]) for folder in FOLDERS})


def _created_content(created: Mapping[Folder, set[str]]) -> JsonObject:
    content: JsonObject = {"kind": "created", "format": FORMAT}
    for folder in FOLDERS:
        content[folder] = sorted(created[folder])
    return content


def _state(number: int, head: VersionsHead, found: VersionRecord) -> str:
    if number == head.version:
        return "in use"
    if number in head.withdrawn:
        return "withdrawn"
    if found["refused"]:
        return "refused"
    return ""
