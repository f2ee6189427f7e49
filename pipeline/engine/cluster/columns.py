"""Training a grid on the workers of a Dask cluster: the task, and a plugin that sends columns between workers."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from distributed import Worker, get_worker, secede
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import Serialize, to_serialize
from distributed.utils import sync

from ....io.stores.store import Arrays
from ....kernels.simd.aligned import aligned_copy
from ..device import DeviceCounts, any_on_device, bring_back, received, sendable, takes_from_device
from ..worker.contributions import ContributionLost, Source
from ..worker.grid_training import DEVICE_SHARE, GridPlan, GridTrainer
from ..worker.held import HeldArrays, Key
from ..worker.tasks import AppliedBlock
from .exchange import LOOK_AGAIN_SECONDS, Exchange


class AttemptEnded(Exception):
    """The client has given up this attempt to train a grid, and nobody reads the result."""


def trained_topic(training: str) -> str:
    """Return the topic under which workers report the cells of a run that they have trained."""
    return f"corpusmill-trained-{training}"


class ColumnExchange(WorkerPlugin):
    """Sends the columns that this worker has trained to the workers that train them next."""

    name = "corpusmill-columns"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Register the handler of other workers' requests."""
        self.worker = worker
        self._held: dict[str, HeldArrays] = {}  # by attempt
        worker.handlers["corpusmill_column"] = self.give

    # --- columns for other workers ---

    async def give(self, attempt: str, key: list[Any], to_device: bool) -> object:
        """Return the arrays of a column, or None if they are not ready within a second.

        ``to_device``: if they are on the device of this worker, they go to that of the other one.
        """
        held = self._held.get(attempt)
        if held is None:
            # The task of this worker has not begun yet.
            await asyncio.sleep(LOOK_AGAIN_SECONDS / 20)
            return None
        column = cast(Key, tuple(key))
        request = asyncio.wrap_future(held.request(column))
        await asyncio.wait({request}, timeout=LOOK_AGAIN_SECONDS)
        if not request.done() and held.withdraw(column):
            return None
        try:
            arrays = await request
            if to_device:
                return to_serialize(sendable(arrays))
            if any_on_device(arrays.values()):
                # In another thread, because this one answers all requests.
                await asyncio.to_thread(bring_back, arrays.values())
            return to_serialize(arrays)
        except Exception:
            # This worker's training has failed. The client learns this from its task, and ends the attempt.
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            return None

    # --- columns from other workers ---

    def _request(self, plan: GridPlan, held: HeldArrays, address: str, key: Key, device: DeviceCounts) -> None:
        """Put the arrays of a column into ``held`` as soon as the worker at the address has trained them.

        What that does on the CUDA device is added to ``device``.
        """
        to_device = plan.phase.job.needs.device != "cpu" and takes_from_device(
            address, plan.cell_device_bytes, DEVICE_SHARE
        )

        async def fetch() -> None:
            try:
                arrays = await self._fetch(plan.attempt, address, key, to_device)
                with device.counting():
                    held.put(key, _own_arrays(arrays), were_used=False)
            except BaseException as error:
                held.fail(error)

        self.worker.loop.add_callback(fetch)

    async def _fetch(self, attempt: str, address: str, key: Key, to_device: bool) -> Arrays:
        partner = self.worker.rpc(address)
        while True:
            giving = asyncio.ensure_future(
                partner.corpusmill_column(attempt=attempt, key=list(key), to_device=to_device)
            )
            # Dask tries for half a minute to connect to a worker that has died. The scheduler notices it earlier.
            while not (await asyncio.wait({giving}, timeout=2 * LOOK_AGAIN_SECONDS))[0]:
                if not await self._goes_on(attempt, address):
                    giving.cancel()
            try:
                arrays = giving.result()
            except (OSError, asyncio.CancelledError):
                # Time for the scheduler to notice that the worker has died.
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                raise ContributionLost(address) from None
            if arrays is not None:
                # Between workers in one process, nothing is serialized.
                return arrays.data if isinstance(arrays, Serialize) else arrays
            if not await self._goes_on(attempt, address):
                raise ContributionLost(address)

    async def _goes_on(self, attempt: str, address: str) -> bool:
        """Return whether the worker at the address is still there; raise AttemptEnded if the client has given up."""
        if not await self.worker.scheduler.corpusmill_is_open(pool=attempt):
            raise AttemptEnded(attempt)
        return bool(await self.worker.scheduler.corpusmill_has_worker(address=address))

    # --- training ---

    def train(self, plan: GridPlan, sources: list[Source]) -> list[AppliedBlock]:
        """Train the rows of this worker."""
        address = self.worker.address
        # A worker that died may come back at the same address. Its columns are lost if Dask repeats its task there.
        if not self._ask("begin", pool=plan.attempt, address=address):
            raise ContributionLost(address)
        # An earlier attempt of this run may still wait for arrays. Other runs go on.
        for attempt, earlier in list(self._held.items()):
            if attempt.startswith(f"{plan.phase.job.name}-"):
                earlier.fail(AttemptEnded())
        folder = Path(self.worker.local_directory, f"corpusmill-{plan.attempt}")
        held = plan.held(folder)
        topic = trained_topic(plan.phase.job.name)
        name = str(self.worker.name)

        def report(cells: int, seconds: float) -> None:
            message = {"attempt": plan.attempt, "worker": name, "cells": cells, "seconds": seconds}
            self.worker.log_event(topic, message)
            if not self._ask("is_open", pool=plan.attempt):
                held.fail(AttemptEnded(plan.attempt))

        def request(partner: str, key: Key, device: DeviceCounts) -> None:
            self._request(plan, held, partner, key, device)

        self._held[plan.attempt] = held
        try:
            trainer = GridTrainer(plan, address, held, self.worker.state.nthreads, request, report)
            deltas = cast(Exchange, self.worker.plugins[Exchange.name])
            applied = trainer.train(sources, deltas.fetch)
            # Wait until other workers have taken the last columns that this worker has trained.
            while not held.wait_until_empty(LOOK_AGAIN_SECONDS):
                if not self._ask("is_open", pool=plan.attempt):
                    raise AttemptEnded(plan.attempt)
            return applied
        finally:
            del self._held[plan.attempt]
            held.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(self, question: str, **arguments: Any) -> Any:
        """Call one of the scheduler's handlers from a thread."""
        return sync(self.worker.loop, getattr(self.worker.scheduler, f"corpusmill_{question}"), **arguments)


def _own_arrays(arrays: Mapping[str, Any]) -> Arrays:
    """Return received arrays in the form that cells train."""
    own: Arrays = {}
    on_device = {}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            own[name] = aligned_copy(array)
        else:
            on_device[name] = array
    if on_device:
        own |= received(on_device)
    return own


def train_on_worker(plan: GridPlan, sources: list[Source]) -> list[AppliedBlock]:
    """Train the rows of this worker in one attempt. The task waits for the tasks of other workers."""
    # `secede` frees the task's thread for another task. Otherwise tasks of two runs could occupy the threads of two
    # workers, and each would wait for a task that cannot start.
    secede()
    exchange = cast(ColumnExchange, get_worker().plugins[ColumnExchange.name])
    return exchange.train(plan, sources)
