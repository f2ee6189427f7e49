"""Published models: numbered versions below one URL. The file HEAD names the one in use.

Layout below the URL::

    HEAD                        the version in use, and the versions that were withdrawn; written last
    created.json                names of the versions, batches and runs that this program created
    retrain.lock                held by the process that writes
    versions/<n>/model          the saved model of version n
    versions/<n>/version.json   what version n was made of, and how it was judged; written last
    batches/<b>                 the corpus of the documents that one call ingested, while a version needs it
    runs/<b>                    the training of a version that is not complete yet

A version without version.json is incomplete and does not count. Only what created.json names is ever deleted, so files
that other programs put into these folders are safe.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict, get_args

from ...io.stores.conditional import read_with_tag, write_if_unchanged
from ...io.stores.locks import Locked, acquire_lock
from ...io.stores.store import DataError, Store, check_format

FORMAT = 1
BUSY = "another process is retraining this model; wait for it"

Folder = Literal["versions", "batches", "runs"]

#: A section of the configuration; None for a section that was left out.
Settings = dict[str, object] | None


class FileRecord(TypedDict):
    """One input file, as version.json stores it. See ``io.manifest``."""

    size: int
    modified: str
    #: Missing in versions of early releases.
    changed: NotRequired[str]
    digest: str
    batch: str


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
    #: The input files by URL.
    partitions: dict[str, FileRecord]
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
    #: The best score of the versions published before, and of these and this one. Missing in early releases.
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
    """The content of version.json."""

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
class Head:
    """The content of HEAD. ``version`` is 0 before the first one; ``tag`` identifies this state of the file."""

    version: int = 0
    withdrawn: tuple[int, ...] = ()
    tag: str = ""


class Versions:
    """The versions of a model below a URL."""

    def __init__(self, url: str):
        self.url = url
        self.store = Store(url)

    def exist(self) -> None:
        """Raise DataError if no version was ever published here."""
        # A run has a file HEAD too, with another content.
        if not self.store.names("versions") or not self.head.version:
            raise DataError(f"{self.url}: there are no versions here; make the first with `corpusmill retrain CONFIG`")

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Hold the lock for writing; yield a function that raises Locked if the lock was lost meanwhile."""
        with acquire_lock(self.store, "retrain.lock", BUSY) as check:
            self.store.delete_leftovers()
            yield check

    # --- reading ---

    @property
    def head(self) -> Head:
        """The current content of HEAD."""
        content, tag = read_with_tag(self.store, "HEAD")
        if content is None:
            return Head()
        try:
            found = json.loads(content)
            return Head(int(found["version"]), tuple(int(n) for n in found["withdrawn"]), tag)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.url}/HEAD: names no version ({error!r})") from None

    @property
    def numbers(self) -> list[int]:
        """Numbers of the complete versions, ascending."""
        numbers = self.store.numbers("versions")
        return [number for number in numbers if self.store.exists(f"{_version_folder(number)}/version.json")]

    def read(self, number: int) -> VersionRecord:
        """Return version.json of a version; raise DataError if there is no such version."""
        numbers = self.numbers
        if number not in numbers:
            known = ", ".join(str(n) for n in numbers) or "none"
            raise DataError(f"{self.url}: no version {number} here; versions: {known}")
        found = self.store.read_json(f"{_version_folder(number)}/version.json")
        check_format(found, "version", FORMAT, f"{self.url}, version {number}")
        return found

    def model(self, number: int) -> str:
        """Return the URL of a version's model."""
        return self.store.child(f"{_version_folder(number)}/model").url

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
        self.exist()
        head = self.head
        return [self._row(number, head) for number in reversed(self.numbers)]

    def _row(self, number: int, head: Head) -> VersionRow:
        found = self.read(number)
        where = self.store.where(f"{_version_folder(number)}/version.json")
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
            "made": self.store.fs.modified(where).isoformat(timespec="seconds"),
        }

    # --- writing, by the holder of the lock ---

    def begin(self, number: int, name: str) -> None:
        """Record what version ``number`` is about to create, and delete what an interrupted call left of it.

        Raises DataError if another program put a folder where the version belongs.
        """
        created = self._created()
        folder = _version_folder(number)
        if self.store.exists(folder) and f"{number:06d}" not in created["versions"]:
            raise DataError(
                f"{self.url}/{folder}: belongs to version {number}, but corpusmill did not create it; move it away"
            )
        # Recorded before anything is created: after a kill, only recorded folders may be deleted.
        created["versions"].add(f"{number:06d}")
        created["batches"].add(name)
        created["runs"].add(name)
        self._write_created(created)
        self.store.delete(folder)

    def finish(self, number: int, facts: VersionFacts) -> None:
        """Complete a version: write its version.json."""
        record: VersionRecord = {**facts, "kind": "version", "format": FORMAT, "version": number}
        self.store.write_json(f"{_version_folder(number)}/version.json", record)

    def publish(self, number: int, head: Head, withdrawn: tuple[int, ...]) -> None:
        """Put a version in use, if HEAD is still ``head``; raise Locked if another process changed it."""
        # After a power cut, HEAD must not name a version whose files were never written to the disk.
        self.store.flush(_version_folder(number))
        for batch in self.read(number)["batches"]:
            self.store.flush(f"batches/{batch}")
        still_there = sorted(set(withdrawn) & set(self.numbers))
        content = json.dumps({"kind": "head", "version": number, "withdrawn": still_there}, sort_keys=True) + "\n"
        if not write_if_unchanged(self.store, "HEAD", content.encode(), head.tag):
            raise Locked(f"{self.url}: another process published a version meanwhile: {BUSY}")

    def rollback(self, number: int | None = None) -> Rollback:
        """Put another version in use, by default the one before, and withdraw the one in use until now.

        A withdrawn version is not published again by ``retrain``: the same files would give the same model. Raises
        DataError if there is no such version, Locked if another process writes.
        """
        self.exist()
        with self.locked() as check:
            head = self.head
            target = self.before(head.version) if number is None else number
            self.read(target)
            if target == head.version:
                raise DataError(f"{self.url}: version {target} is in use already")
            check()
            # A version that is chosen explicitly is no longer withdrawn.
            withdrawn = [n for n in head.withdrawn if n != target]
            self.publish(target, head, (*withdrawn, head.version))
        return {"url": self.url, "version": target, "previous": head.version, "model": self.model(target)}

    def delete_unused(self, keep: int, current: str = "") -> None:
        """Delete old versions, and all batches and runs that nothing needs any more.

        Keeps the last ``keep`` versions and the one in use, the batches that these need, and the batch and the run
        that are named ``current``. Folders that created.json does not name are left alone.
        """
        created = self._created()
        kept_versions = {f"{number:06d}" for number in (*self.numbers[-keep:], self.head.version)}
        for name in sorted(created["versions"] - kept_versions):
            # Deleting version.json first marks the version as incomplete, in case the rest is interrupted.
            self.store.delete(f"versions/{name}/version.json")
            self.store.delete(f"versions/{name}")
        kept_batches = {batch for number in self.numbers for batch in self.read(number)["batches"]}
        for name in sorted(created["batches"] - kept_batches - {current}):
            self.store.delete(f"batches/{name}")
        for name in sorted(created["runs"] - {current}):
            self.store.delete(f"runs/{name}")
        created["versions"] &= kept_versions
        created["batches"] &= kept_batches | {current}
        created["runs"] &= {current}
        self._write_created(created)

    def _created(self) -> dict[Folder, set[str]]:
        """Return the names in created.json by folder."""
        folders: tuple[Folder, ...] = get_args(Folder)
        if not self.store.exists("created.json"):
            return self._created_by_early_releases()
        found = self.store.read_json("created.json")
        check_format(found, "created", FORMAT, f"{self.url}/created.json")
        return {folder: set(found[folder]) for folder in folders}

    def _created_by_early_releases(self) -> dict[Folder, set[str]]:
        """Return the names in the records of complete versions. Early releases did not write created.json."""
        records = [self.read(number) for number in self.numbers]
        return {
            "versions": {f"{record['version']:06d}" for record in records},
            "batches": {batch for record in records for batch in record["batches"]},
            "runs": {record["name"] for record in records},
        }

    def _write_created(self, created: dict[Folder, set[str]]) -> None:
        is_recorded = self.store.exists("created.json") or not any(created.values())
        if is_recorded and created == self._created():
            return
        names = {folder: sorted(names) for folder, names in created.items()}
        self.store.write_json("created.json", {"kind": "created", "format": FORMAT, **names})


def _version_folder(number: int) -> str:
    return f"versions/{number:06d}"


def _state(number: int, head: Head, found: VersionRecord) -> str:
    if number == head.version:
        return "in use"
    if number in head.withdrawn:
        return "withdrawn"
    if found["refused"]:
        return "refused"
    return ""


def model_in_use(url: str) -> str:
    """Return the URL of the model in use if ``url`` has versions of a model, and ``url`` itself otherwise."""
    if Store(url).exists("model.json") or not Store(url).exists("versions"):
        return url
    versions = Versions(url)
    versions.exist()
    return versions.model(versions.head.version)
