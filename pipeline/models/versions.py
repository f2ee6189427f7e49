"""Published models: numbered versions below one URL, of which HEAD names the one in use.

Layout below the URL::

    HEAD                        the version in use, and those that a rollback withdrew; replaced last, if unchanged
    retrain.lock                held by whoever writes
    versions/<n>/model          the saved model
    versions/<n>/version.json   of which partitions it is, how it was judged; written last: without it there is none
    batches/<b>                 corpora of what was ingested at once, as long as a version needs them
    runs/<b>                    what is not finished yet
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...io.stores.locks import Locked, acquire_lock, read_with_tag, write_if_unchanged
from ...io.stores.store import DataError, Store, check_format

FORMAT = 1
BUSY = "another process is retraining this model; wait for it"

Facts = dict[str, Any]


@dataclass(frozen=True)
class Head:
    """The content of HEAD. ``version`` is 0 before the first one; ``tag`` names this state of the file."""

    version: int = 0
    withdrawn: tuple[int, ...] = ()
    tag: str = ""


class Versions:
    """The versions below a URL."""

    def __init__(self, url: str):
        self.url, self.store = url, Store(url)

    def exist(self) -> None:
        """Raise DataError when no version was ever published here."""
        # A run has a HEAD as well, of another kind.
        if not self.store.names("versions") or not self.head.version:
            raise DataError(f"{self.url}: no versions here; make the first with `corpusmill retrain CONFIG`")

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Hold all of it for writing; yield a function that raises Locked when the lock is lost."""
        with acquire_lock(self.store, "retrain.lock", BUSY) as check:
            self.store.delete_leftovers()
            yield check

    @property
    def head(self) -> Head:
        """What HEAD says now."""
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
        """Numbers of the versions that are whole, ascending."""
        names = [name for name in self.store.names("versions") if name.isdigit()]
        return [int(name) for name in names if self.store.exists(f"versions/{name}/version.json")]

    def read(self, number: int) -> Facts:
        """Return version.json of a version; raise DataError when there is no such version."""
        if number not in self.numbers:
            there = ", ".join(map(str, self.numbers)) or "none"
            raise DataError(f"{self.url}: no version {number} here; there is {there}")
        found = self.store.read_json(f"versions/{number:06d}/version.json")
        check_format(found, "version", FORMAT, f"{self.url}, version {number}")
        return found

    def model(self, number: int) -> str:
        """Return the URL of a version's model."""
        return self.store.child(f"versions/{number:06d}/model").url

    def begin(self, number: int) -> None:
        """Remove what a broken call left of a version."""
        self.store.delete(f"versions/{number:06d}")

    def finish(self, number: int, facts: Facts) -> None:
        """Make a version whole."""
        head = {"kind": "version", "format": FORMAT, "version": number}
        self.store.write_json(f"versions/{number:06d}/version.json", facts | head)

    def publish(self, number: int, head: Head, withdrawn: tuple[int, ...]) -> None:
        """Switch HEAD from the state ``head`` to a version; raise Locked when another process did so meanwhile."""
        # A power cut must not leave a HEAD that names what was never written.
        for name in (f"versions/{number:06d}", *(f"batches/{b}" for b in self.read(number)["batches"])):
            self.store.flush(name)
        left = sorted(set(withdrawn) & set(self.numbers))
        content = json.dumps({"kind": "head", "version": number, "withdrawn": left}, sort_keys=True) + "\n"
        if not write_if_unchanged(self.store, "HEAD", content.encode(), head.tag):
            raise Locked(f"{self.url}: another process published a version meanwhile: {BUSY}")

    def tidy(self, keep: int, current: str = "") -> None:
        """Delete all but the last ``keep`` versions and the one in use; then what no version and no run needs."""
        kept = {f"{number:06d}" for number in (*self.numbers[-keep:], self.head.version)}
        for name in self.store.names("versions"):
            if name not in kept:
                # What makes it whole goes first: half of a version is none.
                self.store.delete(f"versions/{name}/version.json")
                self.store.delete(f"versions/{name}")
        needed = {batch for number in self.numbers for batch in self.read(number)["batches"]} | {current}
        for folder, wanted in (("batches", needed), ("runs", {current})):
            for name in self.store.names(folder):
                if name not in wanted:
                    self.store.delete(f"{folder}/{name}")

    def rollback(self, number: int | None = None) -> Facts:
        """Put a version in use, by default the one before; what is left behind is withdrawn. Raises DataError, Locked.

        A withdrawn version is never published again by itself: the same partitions would make the same model.
        """
        self.exist()
        with self.locked() as check:
            head = self.head
            target = self.before(head.version) if number is None else number
            self.read(target)
            if target == head.version:
                raise DataError(f"{self.url}: version {target} is in use already")
            check()
            self.publish(target, head, (*(n for n in head.withdrawn if n != target), head.version))
        return {"url": self.url, "version": target, "previous": head.version, "model": self.model(target)}

    def before(self, number: int) -> int:
        """Return the version that was in use before this one; raise DataError when it is not kept."""
        base = self.read(number)["previous"]
        if not base:
            raise DataError(f"{self.url}: version {number} is the first one, there is none before it")
        if base not in self.numbers:
            raise DataError(f"{self.url}: no version before {number} is kept")
        return base

    def list(self) -> list[Facts]:
        """Return a row a version, newest first."""
        self.exist()
        head, rows = self.head, []
        for number in reversed(self.numbers):
            found = self.read(number)
            row = {name: found[name] for name in ("version", "previous", "measure", "score", "refused")}
            row |= {"partitions": len(found["partitions"]), "state": _state(number, head, found)}
            row |= {name: len(found[name]) for name in ("added", "changed", "removed")}
            where = self.store.where(f"versions/{number:06d}/version.json")
            rows.append(row | {"made": self.store.fs.modified(where).isoformat(timespec="seconds")})
        return rows


def _state(number: int, head: Head, found: Facts) -> str:
    if number == head.version:
        return "in use"
    if number in head.withdrawn:
        return "withdrawn"
    return "refused" if found["refused"] else ""


def model_in_use(url: str) -> str:
    """Return the URL of the model in use where ``url`` has versions of one; else ``url`` itself."""
    if Store(url).exists("model.json") or not Store(url).exists("versions"):
        return url
    versions = Versions(url)
    versions.exist()
    return versions.model(versions.head.version)
