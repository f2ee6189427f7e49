"""Two nightly jobs and a rollback write the versions of one model. Whatever happens, HEAD names a complete version."""

import contextlib

import numpy as np
from corpusmill.io.errors import DataError
from corpusmill.io.stores.store import JsonObject, Store
from corpusmill.pipeline.publishing.versions import Versions

from .calls import EXCUSED, Caller
from .object_store import PROTOCOL, Bucket, SimulatedStore
from .world import World

NIGHTS = 3
KEEP = 2


def model_of(name: str) -> np.ndarray:
    """Return the model that belongs to the name of a version."""
    return np.frombuffer(name.encode() * 4, np.uint8)


class PublishingScenario:
    """Publishes a version per night from two processes, rolls back once, and reads the version in use."""

    def __init__(self, world: World):
        self.world = world
        self.owner = 0
        #: What HEAD has contained, without the owners, and how many entries there were when the last call succeeded.
        self.history: list[JsonObject] = []
        self.acknowledged = 0
        self.url = self._set_up_store()
        world.add_fault("process stopped", world.stop_a_process)
        world.add_fault("clock moved", world.move_clock)
        self.callers = [Caller(world, "job", lambda: self._publish(NIGHTS))]
        if world.random.random() < 0.7:
            self.callers.append(Caller(world, "other-job", lambda: self._publish(NIGHTS)))
        if world.random.random() < 0.5:
            self.callers.append(Caller(world, "rollback", self._roll_back))
        self._start_reader()

    def _set_up_store(self) -> str:
        """Make an empty store, and return the URL of the model."""
        SimulatedStore.bucket = Bucket()
        SimulatedStore.bucket.watchers.append(self._watch)
        self.in_use: dict[str, bytes] = {}
        return f"{PROTOCOL}://bucket/models"

    def _start_reader(self) -> None:
        self.world.start("reader", self.world.start_process("reader"), self._read)

    def close(self) -> None:
        """Free what the scenario holds."""

    # --- commands ---

    def _publish(self, nights: int) -> None:
        """Publish versions until there are enough."""
        for _ in range(nights):
            versions = Versions(self.url)
            with versions.locked():
                self._publish_one(versions, nights)
                self.acknowledged = len(self.history)

    def _publish_one(self, versions, nights: int) -> None:
        head = versions.head
        published = versions.read(head.version) if head.version else None
        night = published["documents"] + 1 if published else 1
        if night > nights:
            return
        name = f"night-{night}-from-{head.version}"
        versions.delete_unused(KEEP, name)
        number = self._find(versions, name)
        if not number:
            number = max(versions.numbers, default=0) + 1
            model = versions.begin(number, name)
            versions.store.write_arrays(f"batches/{name}", {"documents": model_of(name)})
            Store(model).write_arrays("", {"model": model_of(name)})
            facts = {"name": name, "previous": head.version, "batches": [name], "documents": night}
            versions.finish(number, facts)
        if number in head.withdrawn:
            number = head.version
        versions.publish(number, head.withdrawn)
        versions.delete_unused(KEEP)

    def _find(self, versions: Versions, name: str) -> int:
        for number in reversed(versions.numbers):
            if versions.read(number)["name"] == name:
                return number
        return 0

    def _roll_back(self) -> None:
        # There may be no version before the one in use.
        with contextlib.suppress(DataError):
            Versions(self.url).rollback()

    def _read(self) -> None:
        """Read the version in use from time to time, as a service does."""
        while not all(caller.is_done for caller in self.callers):
            self.world.sleep(self.world.random.choice((0.5, 3.0, 10.0)))
            try:
                versions = Versions(self.url)
                number = versions.head.version
                if number:
                    self._read_version(versions, number)
            except EXCUSED:
                continue

    # --- checks ---

    def _read_version(self, versions: Versions, number: int) -> None:
        """Check that a version is complete, and that its parts belong together."""
        name = versions.read(number)["name"]
        model = Store(versions.model(number)).read_arrays("")["model"]
        batch = versions.store.read_arrays(f"batches/{name}")["documents"]
        is_whole = np.array_equal(model, model_of(name)) and np.array_equal(batch, model_of(name))
        self.world.check(is_whole, f"parts of version {number} do not belong together")

    def _watch(self, path: str, content: bytes | None) -> None:
        if path in self.in_use:
            self.world.check(content == self.in_use[path], f"{path} of the version in use was changed")
        if not path.endswith("/HEAD"):
            return
        self._check_head()
        with self.world.observing():
            versions = Versions(self.url)
            number = versions.head.version
            if not number:
                return
            needed = {f"batches/{versions.read(number)['name']}", versions.folder(number)}
        objects = SimulatedStore.bucket.objects
        folders = tuple(f"bucket/models/{folder}/" for folder in needed)
        self.in_use = {name: found.content for name, found in objects.items() if name.startswith(folders)}

    def _check_head(self) -> None:
        """Check HEAD and the version that it names."""
        with self.world.observing():
            versions = Versions(self.url)
            content = versions.store.read_json("HEAD")
            number = versions.head.version
            try:
                if number:
                    self._read_version(versions, number)
            except DataError as error:
                self.world.check(False, f"HEAD names an incomplete version: {error}")
        owner = content.pop("owner")
        self.world.check(owner >= self.owner, f"owner {owner} writes HEAD after owner {self.owner}")
        self.owner = owner
        self.history.append(content)

    def check_end(self) -> None:
        """Check the version in use after all processes have ended."""
        with self.world.observing():
            versions = Versions(self.url)
            self._read_version(versions, versions.head.version)
