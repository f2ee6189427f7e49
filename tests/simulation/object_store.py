"""A simulated object store, as a filesystem of fsspec with conditional writes like those of S3.

Each request may be late, may be lost before or after the store has carried it out, and may be carried out twice, the
second time much later. Listings come in any order.
"""

import contextlib
import datetime
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import fsspec
from corpusmill.io.stores import conditional
from fsspec.spec import AbstractFileSystem

from .world import World

PROTOCOL = "sim"


class StoredObject(NamedTuple):
    """One version of an object."""

    content: bytes
    tag: str
    modified: float


class Bucket:
    """The objects by path. ``watchers`` are called after each change."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.watchers: list[Callable[[str, bytes | None], None]] = []
        self.writes = 0

    def put(self, path: str, content: bytes) -> None:
        """Write or replace an object."""
        self.writes += 1
        self.objects[path] = StoredObject(content, f'"{self.writes}"', World.current.now)
        self._tell(path, content)

    def remove(self, path: str) -> None:
        """Remove an object if it exists."""
        if self.objects.pop(path, None) is not None:
            self._tell(path, None)

    def below(self, path: str) -> list[str]:
        """Return the paths of all objects below a path."""
        return [name for name in self.objects if name.startswith(f"{path}/")]

    def _tell(self, path: str, content: bytes | None) -> None:
        for watcher in self.watchers:
            watcher(path, content)


class SimulatedStore(AbstractFileSystem):
    """The filesystem. All instances share the bucket of the current world."""

    protocol = PROTOCOL
    cachable = False
    bucket = Bucket()

    # --- requests ---

    def _request(self, what: str, path: str, effect: Callable[[], Any], *, is_write: bool = False) -> Any:
        """Carry out a request with everything that may go wrong."""
        world = World.current
        if world.process is None:
            return effect()
        world.pause()
        if world.has_fault():
            return self._faulty_request(what, path, effect, is_write)
        if is_write:
            world.note(f"{what} {path}")
        result = effect()
        if world.random.random() < 0.3:
            world.pause()
        return result

    def _faulty_request(self, what: str, path: str, effect: Callable[[], Any], is_write: bool) -> Any:
        world = World.current
        kind = world.random.choice(("request lost", "answer lost", "retried", "repeated late"))
        if not is_write:
            kind = "request lost"
        world.counts[kind] += 1
        world.note(f"{what} {path}: {kind}")
        if kind == "request lost":
            raise OSError(f"simulated: {kind}")
        if kind == "repeated late":
            # The client gave up on the first attempt, which reaches the store after the second one.
            delay = world.random.choice((0.1, 1.0, 10.0))
            world.start("network", None, lambda: self._arrive_late(what, path, effect, delay))
            return effect()
        effect()
        world.pause()
        if kind == "answer lost":
            raise OSError(f"simulated: {kind}")
        return effect()

    def _arrive_late(self, what: str, path: str, effect: Callable[[], Any], delay: float) -> None:
        World.current.sleep(delay)
        World.current.note(f"{what} {path}: arrives late")
        # The condition of a write does not hold.
        with contextlib.suppress(OSError, conditional.ConditionFailed):
            effect()

    # --- reading ---

    def _found(self, path: str) -> StoredObject:
        found = self.bucket.objects.get(path)
        if found is None:
            raise FileNotFoundError(path)
        return found

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return size, type and tag of an object."""
        path = self._strip_protocol(path)
        return self._request("info", path, lambda: self._info(path))

    def _info(self, path: str) -> dict[str, Any]:
        found = self.bucket.objects.get(path)
        if found is not None:
            modified = datetime.datetime.fromtimestamp(found.modified, datetime.UTC)
            facts = {"size": len(found.content), "type": "file", "ETag": found.tag, "LastModified": modified}
            return {"name": path, **facts}
        if self.bucket.below(path):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether there is an object or a folder."""
        path = self._strip_protocol(path)
        return self._request("exists", path, lambda: path in self.bucket.objects or bool(self.bucket.below(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a folder, in any order."""
        path = self._strip_protocol(path)
        return self._request("list", path, lambda: self._ls(path, detail))

    def _ls(self, path: str, detail: bool) -> list[Any]:
        start = len(path) + 1
        names = sorted({f"{path}/{name[start:].partition('/')[0]}" for name in self.bucket.below(path)})
        World.current.random.shuffle(names)
        if detail:
            return [self._info(name) for name in names]
        return names

    def modified(self, path: str) -> datetime.datetime:
        """Return when an object was written, by the store's clock."""
        return self.info(path)["LastModified"]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Return the content of an object."""
        path = self._strip_protocol(path)
        return self._request("get", path, lambda: self._found(path).content[start:end])

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, **_: Any) -> list[Any]:
        """Return the contents of several objects, or the errors."""
        found: list[Any] = []
        for path in paths:
            try:
                found.append(self.cat_file(path))
            except OSError as error:
                found.append(error)
        return found

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Open an object for reading."""
        assert mode == "rb"
        return io.BytesIO(self.cat_file(path))

    # --- writing ---

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write an object."""
        path = self._strip_protocol(path)
        self._request("put", path, lambda: self.bucket.put(path, bytes(value)), is_write=True)

    def pipe(self, path: Any, value: bytes | None = None, **_: Any) -> None:
        """Write several objects."""
        contents = path if isinstance(path, dict) else {path: value}
        for name, content in contents.items():
            self.pipe_file(name, content)

    def rm(self, path: str, recursive: bool = False, **_: Any) -> None:
        """Remove an object, or all objects of a folder one by one."""
        path = self._strip_protocol(path)
        for name in self._request("list", path, lambda: [path, *sorted(self.bucket.below(path))]):
            if name in self.bucket.objects:
                self._request("delete", name, lambda name=name: self.bucket.remove(name), is_write=True)


class SimulatedObjects(conditional.ConditionalObjects):
    """Conditional writes to the simulated store."""

    def read(self, path: str) -> conditional.Version:
        """Return an object and its tag."""
        found = self.fs._request("get", path, lambda: self.fs._found(path))
        return conditional.Version(found.content, found.tag)

    def write(self, path: str, content: bytes, tag: str | None) -> str:
        """Write an object under a condition."""
        return self.fs._request("put if", path, lambda: self._write_if(path, content, tag), is_write=True)

    def _write_if(self, path: str, content: bytes, tag: str | None) -> str:
        found = self.fs.bucket.objects.get(path)
        if tag is not None and tag != ("" if found is None else found.tag):
            raise conditional.ConditionFailed(path)
        self.fs.bucket.put(path, content)
        return str(self.fs.bucket.objects[path].tag)

    async def _read(self, path: str) -> conditional.Version:
        raise NotImplementedError

    async def _write(self, path: str, content: bytes, tag: str | None) -> str:
        raise NotImplementedError


conditional.KINDS[PROTOCOL] = SimulatedObjects
fsspec.register_implementation(PROTOCOL, SimulatedStore, clobber=True)
