"""Files and folders on a local disk: replaced in one step, deleted, and flushed, with what each system has for it."""

import ctypes
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

#: Errors of a disk without free space, of a user without quota, and of a limit of the size of files (ulimit -f).
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Linux' flag of renameat2 for exchanging two paths, and the file descriptor that stands for the working directory.
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Add the path and the way out to the error of a full disk or quota, which has neither."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise OSError(error.errno, _describe_full_disk(error.errno, path), str(path)) from None


def _describe_full_disk(number: int, path: Path) -> str:
    if number == errno.EDQUOT:
        # The disk may have free space, which the user may not use.
        return "Your disk quota is exhausted; delete files, or choose a folder on another disk"
    if number == errno.EFBIG:
        return _describe_large_file()
    folder = path
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return f"No space left on this disk ({free:,} bytes free); free some, or choose a folder on another disk"


def _describe_large_file() -> str:
    import resource  # Windows has no such module, and no such limit

    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = "this file system allows" if most == resource.RLIM_INFINITY else f"this process may write ({most:,} bytes)"
    return f"The file is larger than {limit}; raise the limit (ulimit -f), or choose a folder on another disk"


def temporary_path(target: Path) -> Path:
    """Return a new path beside ``target``. If the process is killed, its name shows that the file is left over."""
    return target.with_name(f".tmp-{uuid.uuid4().hex}-{target.name}")


def temporary_pattern(name: str = "*") -> str:
    """Return a glob pattern of the names that `temporary_path` gives for targets of this name, or pattern of names."""
    return f".tmp-{'[0-9a-f]' * 32}-{name}"


@contextmanager
def replacing(target: Path, is_flushed: bool = True) -> Iterator[Path]:
    """Context manager: write the content of ``target`` to the temporary file whose path this yields.

    At the end, the file takes the place of ``target`` in one step. After an error, ``target`` is unchanged. The folder
    is made if it is missing. A file that is not flushed may be empty after a power cut.
    """
    temporary = temporary_path(target)
    with naming_full_disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            # After a power cut, the new name must not lead to a file without content.
            if is_flushed:
                flush_path(temporary)
            # Renaming is atomic, so a reader finds either the old content or the new one.
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def replace_folder(source: Path, target: Path) -> None:
    """Rename a folder to the name of another one, which is deleted if it exists.

    Several processes may do this at the same time. If the system can exchange names, there is a folder at ``target`` at
    every moment; otherwise, a reader may find none for a moment.
    """
    while not _renamed(source, target):
        if exchange_paths(source, target):
            remove_path(source)
            return
        old = temporary_path(target)
        # Another process may have moved the folder away first.
        with suppress(FileNotFoundError):
            target.rename(old)
        remove_path(old)


def _renamed(source: Path, target: Path) -> bool:
    """Rename a folder to ``target``, and return whether that worked: not if a folder with files in it is there."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def exchange_paths(first: Path, second: Path) -> bool:
    """Exchange two paths in one step; return False if the system or the filesystem cannot."""
    rename = c_function("renameat2")
    if rename is None:
        return False
    return rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


def remove_path(path: Path) -> None:
    """Delete a file or a folder with its content, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def flush_path(path: Path) -> None:
    """Write a file or the entries of a folder from the system's cache to the disk."""
    try:
        # Windows flushes only files that are open for writing, and writes entries of folders by itself.
        descriptor = os.open(path, os.O_RDONLY if fcntl else os.O_RDWR)
    except PermissionError:
        if fcntl is None and path.is_dir():
            return
        raise
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):  # fsync of macOS leaves the data in the cache of the disk
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def c_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library of this process, or None if the system has none of this name."""
    try:
        library = ctypes.CDLL(None)
    except TypeError:  # Windows has no library without a name
        return None
    return getattr(library, name, None)
