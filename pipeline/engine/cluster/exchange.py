"""A plugin for Dask's workers: they fetch deltas from each other, to update blocks."""

import asyncio
import contextlib
from functools import partial
from typing import Any, cast

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import Serialize, to_serialize
from distributed.utils import sync

from ....kernels.cuda.residents import RESIDENT_SHARE
from ..device import include_traffic, received, sendable, takes_from_device, with_traffic
from ..worker.buffers import CACHE
from ..worker.contributions import (
    FETCHES_AT_ONCE,
    ContributionLost,
    Pieces,
    Source,
    SweptDeltas,
    update_blocks,
)
from ..worker.tasks import AppliedBlock, SweepPhase

#: Seconds after which a worker that waits for another one looks again whether to go on.
LOOK_AGAIN_SECONDS = 1.0


class Exchange(WorkerPlugin):
    """Keeps the deltas that this worker has swept, lets other workers fetch them, and fetches theirs."""

    name = "corpusmill-exchange"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Register the handlers of requests by other workers and by the scheduler."""
        self.worker = worker
        self.deltas = SweptDeltas(worker.local_directory)
        worker.handlers["corpusmill_give"] = self.give
        worker.stream_handlers["corpusmill_forget"] = self.forget

    def forget(self, run: str) -> None:
        """Forget what this worker keeps for a run. The scheduler sends this when training ends."""
        CACHE.forget(run)
        self.deltas.forget(run)

    async def give(self, source: Source, indices: list[int], to_device: bool) -> object:
        """Return the pieces of some blocks of a contribution, or None if this worker does not have its deltas.

        ``to_device``: those on the device of this worker go to that of the other one. Otherwise, the answer also has
        what this worker has done on its device, for the metrics of the task that fetches.
        """
        source = Source(*source)
        try:
            if to_device:
                return {"pieces": _sendable(self.deltas.fetch(source, indices)), "traffic": []}
            # In another thread, because packing takes long, and this one answers all requests.
            packing = partial(self.deltas.fetch_packed, source, indices)
            pieces, traffic = await asyncio.to_thread(with_traffic, packing)
        except ContributionLost:
            return None
        return {"pieces": to_serialize(pieces), "traffic": traffic}

    def fetch(self, source: Source, indices: list[int]) -> Pieces:
        """Return the pieces of some blocks of a contribution; raise ContributionLost if its worker has died."""
        if source.address == self.worker.address:
            return self.deltas.fetch(source, indices)
        # Several threads fetch at the same time.
        expected = FETCHES_AT_ONCE * source.nbytes
        to_device = source.on_device and takes_from_device(source.address, expected, RESIDENT_SHARE)
        given = sync(self.worker.loop, self._fetch, source, indices, to_device)
        if given is None:
            raise ContributionLost(source.address)
        pieces: Any = given["pieces"]
        # Between workers in one process, nothing is serialized.
        if isinstance(pieces, Serialize):
            pieces = pieces.data
        if to_device:
            pieces = [(node, [received(delta) for delta in deltas]) for node, deltas in pieces]
        include_traffic(given["traffic"])
        found: Pieces = pieces
        return found

    async def _fetch(self, source: Source, indices: list[int], to_device: bool) -> dict[str, Any] | None:
        partner = self.worker.rpc(source.address)
        giving = asyncio.ensure_future(
            partner.corpusmill_give(source=tuple(source), indices=indices, to_device=to_device)
        )
        # Dask tries for half a minute to connect to a worker that has died. The scheduler notices its death earlier.
        while True:
            done, _ = await asyncio.wait({giving}, timeout=LOOK_AGAIN_SECONDS)
            if done:
                break
            if not await self.worker.scheduler.corpusmill_has_worker(address=source.address):
                giving.cancel()
                return None
        with contextlib.suppress(OSError):
            given: dict[str, Any] | None = giving.result()
            return given
        return None


def _sendable(pieces: Pieces) -> Serialize:
    """Return pieces for the device of another worker, so marked that Dask serializes each array by itself.

    Dask chooses the way by the type of the array and by the protocol. It would pickle an unmarked piece as a whole.
    """
    marked = []
    for node, deltas in pieces:
        marked.append(to_serialize([node, to_serialize([to_serialize(sendable(delta)) for delta in deltas])]))
    return to_serialize(marked)


def update_on_worker(phase: SweepPhase, blocks: list[int], sources: list[Source]) -> list[AppliedBlock]:
    """Update some blocks, with deltas from all workers."""
    exchange = cast(Exchange, get_worker().plugins[Exchange.name])
    return update_blocks(phase, blocks, sources, exchange.fetch)
