"""Publishing on a local disk while the power is cut now and then."""

import contextlib
import os
import shutil
import tempfile

from corpusmill.pipeline.publishing.versions import Versions

from .disk import Disk
from .publishing import PublishingScenario

#: A file system in memory whose inodes have numbers that are not used again.
MEMORY = "/dev/shm"


class PowerScenario(PublishingScenario):
    """As PublishingScenario, on a disk. What was published before a power cut is in use after it."""

    def _set_up_store(self) -> str:
        self._folder = tempfile.mkdtemp(dir=MEMORY if os.path.isdir(MEMORY) else None)
        self._disk = Disk(f"{self._folder}/disk")
        os.mkdir(self._disk.folder)
        self._mount = contextlib.ExitStack()
        self._mount.enter_context(self._disk.mounted())
        self._disk.watchers.append(self._watch_disk)
        self.world.add_fault("power cut", self._cut_power)
        return f"{self._disk.folder}/models"

    def _watch_disk(self, path: str) -> None:
        if path == f"{self.url}/HEAD":
            self._check_head()

    def _cut_power(self) -> None:
        self.world.note("power cut")
        for caller in self.callers:
            caller.kill()
        self._disk.cut_power()
        if not os.path.exists(f"{self.url}/HEAD"):
            self.world.check(not self.acknowledged, "HEAD is lost")
            self.history.clear()
            self.owner = 0
            return
        head = Versions(self.url).store.read_json("HEAD")
        del head["owner"]
        self.world.check(head in self.history[max(0, self.acknowledged - 1) :], f"HEAD names an old version: {head}")
        # The number of an owner whose files are lost is used again.
        self.owner = 0
        self._check_head()
        self.acknowledged = len(self.history)

    def close(self) -> None:
        """Remove the folder of the disk."""
        self._mount.close()
        shutil.rmtree(self._folder)
