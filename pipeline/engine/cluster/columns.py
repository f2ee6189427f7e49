"""Training a grid on the workers of a Dask cluster: the task, and a plugin that sends columns between workers."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, cast

from distributed import Worker, get_worker, secede
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import Serialize, to_serialize
from distributed.utils import sync

from ....io.stores.store import Arrays
from ....kernels.simd.aligned import aligned_copy
from ..worker.contributions import ContributionLost, Source
from ..worker.grid_training import GridPlan, GridTrainer
from ..worker.held import HeldArrays, Key, release_files
from ..worker.tasks import AppliedBlock
from .plugins import LOOK_AGAIN_SECONDS, Exchange


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

    async def give(self, attempt: str, key: list[Any]) -> object:
        """Return the arrays of a column, or None if they are not ready within a second."""
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
            return to_serialize(release_files(await request))
        except Exception:
            # This worker's training has failed. The client learns this from its task, and ends the attempt.
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            return None

    # --- columns from other workers ---

    def _request(self, attempt: str, held: HeldArrays, address: str, key: Key) -> None:
        """Put the arrays of a column into ``held`` as soon as the worker at the address has trained them."""

        async def fetch() -> None:
            try:
                arrays = await self._fetch(attempt, address, key)
                held.put(key, {name: aligned_copy(array) for name, array in arrays.items()}, soon=True)
            except BaseException as error:
                held.fail(error)

        self.worker.loop.add_callback(fetch)

    async def _fetch(self, attempt: str, address: str, key: Key) -> Arrays:
        partner = self.worker.rpc(address)
        while True:
            giving = asyncio.ensure_future(partner.corpusmill_column(attempt=attempt, key=list(key)))
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
        for earlier in self._held.values():
            earlier.fail(AttemptEnded())
        folder = Path(self.worker.local_directory, f"corpusmill-{plan.attempt}")
        held = HeldArrays(plan.budget, folder)
        topic = trained_topic(plan.phase.job.training)
        name = str(self.worker.name)

        def report(cells: int, seconds: float) -> None:
            message = {"attempt": plan.attempt, "worker": name, "cells": cells, "seconds": seconds}
            self.worker.log_event(topic, message)
            if not self._ask("is_open", pool=plan.attempt):
                held.fail(AttemptEnded(plan.attempt))

        def request(partner: str, key: Key) -> None:
            self._request(plan.attempt, held, partner, key)

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
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(self, question: str, **arguments: Any) -> Any:
        """Call one of the scheduler's handlers from a thread."""
        return sync(self.worker.loop, getattr(self.worker.scheduler, f"corpusmill_{question}"), **arguments)


def train_on_worker(plan: GridPlan, sources: list[Source]) -> list[AppliedBlock]:
    """Train the rows of this worker in one attempt. The task waits for the tasks of other workers."""
    # `secede` frees the task's thread for another task. Otherwise tasks of two runs could occupy the threads of two
    # workers, and each would wait for a task that cannot start.
    secede()
    exchange = cast(ColumnExchange, get_worker().plugins[ColumnExchange.name])
    return exchange.train(plan, sources)
