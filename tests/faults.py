"""Scripted failures: what goes wrong, in which sweep, at which attempt; and a count of the attempts."""

import os
import signal
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from corpusmill.pipeline.algorithm import Algorithm


def happen(what: str) -> None:
    """Fail as told: ``kill`` this process at once, ``raise`` an error, ``sleep`` a while."""
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "raise":
        raise RuntimeError("scripted failure")
    elif what == "sleep":
        time.sleep(2.0)


@dataclass(frozen=True)
class Faulty(Algorithm):
    """Another algorithm whose sweeps fail by a table of (epoch, chunk, attempt from 1, what)."""

    name: ClassVar[str] = "faulty"
    inner: Algorithm = None
    table: tuple[tuple[int, int, int, str], ...] = ()
    folder: str = ""

    @property
    def blocks(self):
        return self.inner.blocks

    @property
    def rounds(self):
        return self.inner.rounds

    def attempts(self, epoch: int, chunk: int) -> int:
        """Count the attempts at one sweep, over all processes."""
        return len(list(Path(self.folder).glob(f"{epoch}-{chunk}-*")))

    def sweep(self, model, chunk, state, deltas, address):
        Path(self.folder, f"{address.epoch}-{address.chunk}-{uuid.uuid4().hex}").touch()
        attempt = self.attempts(address.epoch, address.chunk)
        for epoch, index, which, what in self.table:
            if (epoch, index, which) == (address.epoch, address.chunk, attempt):
                happen(what)
        return self.inner.sweep(model, chunk, state, deltas, address)

    def need(self, data, chunk):
        return self.inner.need(data, chunk)

    def begin(self, block):
        return self.inner.begin(block)

    def begin_shared(self):
        return self.inner.begin_shared()

    def merge(self, left, right):
        return self.inner.merge(left, right)

    def apply(self, block, delta, shared):
        return self.inner.apply(block, delta, shared)

    def finish(self, shared, totals, sums):
        return self.inner.finish(shared, totals, sums)

    def score(self, model, chunk, state, address):
        return self.inner.score(model, chunk, state, address)

    def rate(self, sums, held_out):
        return self.inner.rate(sums, held_out)
