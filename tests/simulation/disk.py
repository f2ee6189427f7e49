"""A disk that loses what was not synced when the power is cut.

Files are in a folder of a tmpfs. Processes pause at each change of the folder. A record of all calls of fsync says
what a power cut leaves: of each file and of each folder, either what was synced last or something newer.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from .world import World

#: What a power cut leaves of a file, or of a folder by name.
Left = bytes | dict[str, "Left"]
#: Events of Python's audit hooks that change a folder.
CHANGES = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"}


class Disk:
    """A folder, and what of it is synced."""

    active: "Disk | None" = None

    def __init__(self, folder: str):
        self.folder = folder
        self.watchers: list[Callable[[str], None]] = []
        self._files: dict[int, bytes] = {}  # content of each inode that was synced
        self._folders: dict[int, dict[str, int]] = {}  # entries of each folder that was synced

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Let processes pause at each change, and record calls of fsync."""
        Disk.active = self
        try:
            with mock.patch.object(os, "fsync", self._sync), mock.patch.object(os, "replace", self._replace):
                yield
        finally:
            Disk.active = None

    # --- changes ---

    def before_change(self, event: str, path: object) -> None:
        """Let other processes run before a change below the folder."""
        world = World.current
        if world.process is None:
            return
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if name.startswith(self.folder) or event in ("os.remove", "os.rmdir"):
            world.pause()
            world.note(f"{event} {name.removeprefix(self.folder)}")

    def _sync(self, descriptor: int) -> None:
        World.current.pause()
        found = os.fstat(descriptor)
        path = f"/proc/self/fd/{descriptor}"
        target = os.readlink(path)
        World.current.note(f"fsync {target.removeprefix(self.folder)}")
        if os.path.isdir(path):
            self._folders[found.st_ino] = _entries(path)
        else:
            self._files[found.st_ino] = Path(path).read_bytes()

    def _replace(self, source: os.PathLike[str], target: os.PathLike[str]) -> None:
        os.rename(source, target)
        for watcher in self.watchers:
            watcher(os.fspath(target))

    # --- the power cut ---

    def cut_power(self) -> None:
        """Leave only what would be there after a power cut."""
        left = self._left_of_folder(os.stat(self.folder).st_ino, self.folder)
        shutil.rmtree(self.folder)
        self._files.clear()
        self._folders.clear()
        self._write(self.folder, left)

    def _left_of_folder(self, inode: int, path: str | None) -> dict[str, Left]:
        """Return what is left of a folder; ``path`` is None if it was deleted."""
        now = _entries(path) if path is not None else {}
        synced = self._folders.get(inode, {})
        left: dict[str, Left] = {}
        for name in sorted(now.keys() | synced.keys()):
            chosen = World.current.random.choice((now.get(name), synced.get(name)))
            if chosen is None:
                continue
            is_here = path is not None and now.get(name) == chosen
            left[name] = self._left_of(chosen, f"{path}/{name}" if is_here else None)
        return left

    def _left_of(self, inode: int, path: str | None) -> Left:
        if inode in self._folders or (path is not None and os.path.isdir(path)):
            return self._left_of_folder(inode, path)
        synced = self._files.get(inode, b"")
        if path is None:
            return synced
        content = Path(path).read_bytes()
        if content == synced:
            return content
        cut = content[: World.current.random.randrange(len(content) + 1)]
        return World.current.random.choice((synced, content, cut))

    def _write(self, path: str, left: Left) -> None:
        """Write what is left. All of it is on the disk."""
        if isinstance(left, bytes):
            Path(path).write_bytes(left)
            self._files[os.stat(path).st_ino] = left
            return
        os.makedirs(path, exist_ok=True)
        for name, content in left.items():
            self._write(f"{path}/{name}", content)
        self._folders[os.stat(path).st_ino] = _entries(path)


def _entries(folder: str) -> dict[str, int]:
    """Return the inodes of a folder by name."""
    with os.scandir(folder) as found:
        return {entry.name: entry.inode() for entry in found}


def _audit(event: str, arguments: tuple) -> None:
    disk = Disk.active
    if disk is not None and event in CHANGES:
        disk.before_change(event, arguments[0])


sys.addaudithook(_audit)
