"""All compiler options of the CPU kernels, and the folder of compiled kernels on disk, in one place.

``nogil``: a kernel that held the interpreter lock would stop the heartbeat of its Dask worker. ``cache``: compiled code
is kept on disk, so a worker starts in milliseconds. ``error_model="numpy"``: a division by zero gives infinity instead
of an exception, which leaves loops without branches. There is no ``parallel``, because the parallelism is one chunk
per Dask thread.

Numba compiles a cached function again if its own file has changed, but not if another file has from which it calls a
function. So each version of the sources has a cache folder of its own, whose name contains a digest of all files that a
kernel may use.
"""

import contextlib
import gc
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba.core import event

Arrays = TypeVar("Arrays", bound=NamedTuple)

KERNELS = Path(__file__).parent
#: The folder of kernels that use files of all others. Other folders use the files beside this one, those in ``simd``,
#: and their own; import-linter checks this.
USES_ALL = "cuda"
#: Compiled kernels of a version are deleted after this time without use: several checkouts may share one cache.
KEPT_SECONDS = 30 * 24 * 3600.0

#: Numba has one setting of the folder for all functions of the process.
_LOCK = Lock()


def compiled(compiler: Callable[..., Any], function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a function with one of numba's decorators, so that its cache notices changes of other files."""
    if function is None:
        return partial(compiled, compiler, **options)
    if not options.get("cache"):
        return compiler(**options)(function)
    with _cached_in(cache_folder(_group_of(function.__code__.co_filename))):
        return compiler(**options)(function)


@cache
def cache_folder(group: str) -> Path:
    """Return the folder of the compiled kernels of a folder of sources, "" for the top one; delete unused versions.

    Raises ImportError if this user cannot write there.
    """
    content = hashlib.sha256()
    for file in sources(group):
        content.update(_digest(file))
    prefix = f"corpusmill-{group or 'common'}"
    with _LOCK:  # outside, another thread may have changed numba's setting
        root = _root_of_caches()
    folder = root / f"{prefix}-{content.hexdigest()[:16]}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # the time of its last use
        for version in folder.parent.glob(f"{prefix}-*"):
            if version != folder and version.stat().st_mtime < time.time() - KEPT_SECONDS:
                shutil.rmtree(version, ignore_errors=True)
    if not os.access(folder, os.W_OK):
        raise ImportError(
            f"{folder}: this user cannot write compiled kernels there; set NUMBA_CACHE_DIR to a folder for them"
        )
    return folder


def cache_folders() -> list[Path]:
    """Return the folders of the compiled kernels of this version, one for each folder of sources."""
    folders = [folder.name for folder in KERNELS.iterdir() if (folder / "__init__.py").exists()]
    return [cache_folder(folder) for folder in ["", *folders]]


def sources(group: str) -> list[Path]:
    """Return the files of which the kernels of a folder consist, in the same order on every machine."""
    if group == USES_ALL:
        return sorted(KERNELS.rglob("*.py"))
    files = {*KERNELS.glob("*.py"), *(KERNELS / "simd").glob("*.py")}
    if group:
        files.update((KERNELS / group).rglob("*.py"))
    return sorted(files)


@cache
def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


@cache
def _group_of(file: str) -> str:
    """Return the folder of sources that a file belongs to. Kernels of tests and benchmarks may use all."""
    if not Path(file).is_relative_to(KERNELS):
        return USES_ALL
    parts = Path(file).relative_to(KERNELS).parts
    return parts[0] if len(parts) > 1 else ""


def _root_of_caches() -> Path:
    """Return the folder that NUMBA_CACHE_DIR names, or else one beside the sources, or that of the user."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    beside = KERNELS / "__pycache__"
    with contextlib.suppress(OSError):
        beside.mkdir(exist_ok=True)
    if os.access(beside, os.W_OK):
        return beside
    # A user without a home, as in some containers, gets "~". The functions of `Path` would raise an error.
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(caches) / "corpusmill"


@contextlib.contextmanager
def _cached_in(folder: Path) -> Iterator[None]:
    """Let the functions that are decorated in this block have their cache in a folder."""
    with _LOCK:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            numba.config.CACHE_DIR = before


#: Exact IEEE arithmetic in the order of the source. For samplers, whose results must be the same bit for bit.
kernel = partial(compiled, numba.njit, nogil=True, cache=True, error_model="numpy")

#: The compiler may reorder and fuse additions, so that sums run in vector registers. The result is the same in every
#: run on one type of processor, but may differ in the last bit between types.
vector_kernel = partial(kernel, fastmath={"reassoc", "contract", "nsz", "arcp"})


class PauseCollector(event.Listener):
    """Pauses Python's garbage collector while numba compiles.

    Compilation makes many objects, nearly none of which are garbage, and the collector would visit them repeatedly.
    That takes about a sixth of the time of a first training. Compilation holds numba's lock, so that only one thread
    at a time changes the depth.

    A threshold of zero pauses the collector, and ``gc.isenabled()`` stays true. A library may remember the latter:
    ``dask.array`` reads it when it is imported, and then restores what it saw after each slice.
    """

    def __init__(self) -> None:
        self.depth = 0  # of nested compilations: a kernel compiles the kernels that it calls
        self.thresholds = gc.get_threshold()

    def on_start(self, event: event.Event) -> None:
        """Pause the collector when the outermost compilation starts."""
        if self.depth == 0:
            self.thresholds = gc.get_threshold()
            gc.set_threshold(0)
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        """Resume the collector when the outermost compilation ends."""
        if self.depth == 0:
            return  # the compilation started before this listener was registered
        self.depth -= 1
        if self.depth == 0:
            gc.set_threshold(*self.thresholds)


event.register("numba:compile", PauseCollector())


def read_only_tuple(arrays: Arrays) -> Arrays:
    """Return a named tuple with read-only views of its arrays.

    Whether an array is writable is part of its numba type, and arrays from a store are not. With read-only views
    one compiled function serves arrays of any origin.
    """
    views = (read_only(field) if isinstance(field, np.ndarray) else field for field in arrays)
    return arrays._make(views)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
