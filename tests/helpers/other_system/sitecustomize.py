"""Take from each Python process what macOS or Windows lacks: the variable CORPUSMILL_TEST_SYSTEM names one of them.

A test puts this folder into PYTHONPATH. The processor, the files and the way to start processes remain those of Linux.
"""

import builtins
import ctypes
import os
import signal
import sys
from errno import ENOENT
from pathlib import Path

WINDOWS = os.environ["CORPUSMILL_TEST_SYSTEM"] == "windows"


def only_for_others(call, refuse):
    """Return a function that first asks ``refuse`` for an error to raise. Only calls from corpusmill are refused."""

    def guarded(*arguments, **options):
        error = refuse(*arguments)
        caller = sys._getframe().f_back if error else None
        while caller and "pathlib" in caller.f_code.co_filename:
            caller = caller.f_back
        if caller and not {"site-packages", "lib"} & set(Path(caller.f_code.co_filename).parts):
            raise error
        return call(*arguments, **options)

    return guarded


def is_mapped(path, *_):
    """Refuse a path that this process maps, as Windows does."""
    with open("/proc/self/maps") as maps:
        mapped = str(path) in maps.read()
    if mapped:
        return PermissionError(13, "The process cannot access the file", str(path))
    return None


def is_folder(path, *_):
    """Refuse a folder, which Windows does not open."""
    return PermissionError(13, "Permission denied", str(path)) if Path(path).is_dir() else None


def is_of_linux(path, *_):
    """Hide files that only Linux has."""
    return FileNotFoundError(ENOENT, "No such file", str(path)) if str(path).startswith(("/proc", "/sys")) else None


del os.sched_getaffinity
Path.read_text = only_for_others(Path.read_text, is_of_linux)
if WINDOWS:
    missing = {"fcntl", "resource"}
    builtins.__import__ = only_for_others(
        builtins.__import__, lambda name, *_: ImportError(name) if name in missing else None
    )
    del signal.pthread_kill, signal.pthread_sigmask
    ctypes.CDLL = only_for_others(ctypes.CDLL, lambda name: None if name else TypeError("LoadLibrary() argument 1"))
    os.open = only_for_others(os.open, is_folder)
    os.unlink = only_for_others(os.unlink, is_mapped)
    os.replace = only_for_others(os.replace, is_mapped)
else:

    class Library:
        """A C library that has no function of glibc or Linux."""

    ctypes.CDLL = only_for_others(ctypes.CDLL, lambda name: None)
    plain = ctypes.CDLL
    ctypes.CDLL = lambda name, *rest, **options: plain(name, *rest, **options) if name else Library()
    import fcntl

    fcntl.F_FULLFSYNC = 51
    plain_fcntl = fcntl.fcntl
    fcntl.fcntl = lambda file, request, *rest: (
        os.fsync(file) or 0 if request == fcntl.F_FULLFSYNC else plain_fcntl(file, request, *rest)
    )
