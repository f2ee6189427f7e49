"""Scripted failures: a table says which sweep fails, at which attempt, and how. Attempts are counted."""

import os
import signal
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from corpusmill.pipeline.engine.algorithm import Algorithm

#: Memory that the fault "hoard" never frees.
HOARD: list[bytearray] = []
#: Bytes that the process has in memory after the fault "hoard".
HOARDED = 945 << 20


def inject(fault: str) -> None:
    """Kill this process, raise an error or interrupt, sleep for two seconds, or allocate memory that is never freed."""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "raise":
        raise RuntimeError("scripted failure")
    elif fault == "interrupt":
        # As Python raises it if the signal arrives while a kernel is called.
        raise SystemError("a kernel returned a result with an exception set") from KeyboardInterrupt()
    elif fault == "sleep":
        time.sleep(2.0)
    elif fault == "hoard":
        held = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
        HOARD.append(bytearray(b"x") * (HOARDED - held))
        time.sleep(2.0)


@dataclass(frozen=True, kw_only=True)
class FaultyAlgorithm(Algorithm):
    """Wraps an algorithm. Its sweeps fail by a table of (step, chunk, attempt from 1, fault)."""

    name: ClassVar[str] = "faulty"
    inner: Algorithm
    table: tuple[tuple[int, int, int, str], ...] = ()
    folder: str = ""

    def attempts(self, step: int, chunk: int) -> int:
        """Count the attempts at one sweep, over all processes."""
        return len(list(Path(self.folder).glob(f"{step}-{chunk}-*")))

    def sweep(self, model, chunk, state, shard, address):
        Path(self.folder, f"{address.step}-{address.chunk}-{uuid.uuid4().hex}").touch()
        attempt = self.attempts(address.step, address.chunk)
        for step, index, which, fault in self.table:
            if (step, index, which) == (address.step, address.chunk, attempt):
                inject(fault)
        return self.inner.sweep(model, chunk, state, shard, address)

    # --- what is that of the wrapped algorithm ---

    def begin(self, data, blocks, previous):
        return self.inner.begin(data, blocks, previous)

    def begin_shared(self, data, previous):
        return self.inner.begin_shared(data, previous)

    def load_chunk(self, data, index, model):
        return self.inner.load_chunk(data, index, model)

    def apply(self, block, delta, shared, first):
        return self.inner.apply(block, delta, shared, first)

    def reduce(self, shared, totals, sums, history):
        return self.inner.reduce(shared, totals, sums, history)

    @property
    def merge(self):
        return self.inner.merge

    def memory(self, data, chunk):
        return self.inner.memory(data, chunk)

    def needs(self, data, n_workers):
        return self.inner.needs(data, n_workers)

    @property
    def scores(self):
        return self.inner.scores


def Faulty(inner, table, folder):
    """Return a FaultyAlgorithm with the blocks of ``inner``."""
    return FaultyAlgorithm(inner=inner, table=table, folder=folder, bounds=inner.bounds)


def peak_rss() -> int:
    """Return the peak memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


# --- a process that is killed at a chosen change of the file system ---

CHANGES = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Changes:
    """Counts the changes of this process below a folder, and kills the process before change number ``last``."""

    def __init__(self, folder: str, last: int = 0):
        self.folder = Path(folder).resolve()
        self.last = last
        self.count = 0
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        if event in CHANGES and self._counts(event, arguments):
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)

    def _counts(self, event, arguments):
        if event == "open" and not arguments[2] & WRITES:
            return False
        name = arguments[0]
        if isinstance(name, str | os.PathLike) and Path(name).is_absolute():
            return Path(name).is_relative_to(self.folder)
        # shutil.rmtree removes files by names relative to an open folder.
        return event in ("os.remove", "os.rmdir")
