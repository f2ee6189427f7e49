"""A plugin for Dask's workers: they keep the memory of freed arrays, and return it when others need it."""

import asyncio

from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin
from tornado.ioloop import PeriodicCallback

from ..memory import PLANNED_SHARE, keep_freed_memory, return_freed_memory

#: Seconds between two looks at a worker's memory, and the looks without a task after which freed memory is returned.
CHECK_MEMORY_SECONDS = 0.5
IDLE_CHECKS = 4


class KeepMemory(WorkerPlugin):
    """Lets a worker process keep the memory of freed arrays for the next ones, while it has tasks and enough memory."""

    name = "corpusmill-keep-memory"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Set the options of the process, and begin to watch its memory."""
        # A worker without a nanny may be a thread of the user's own program.
        if worker.nanny is None or not keep_freed_memory(worker.memory_manager.memory_limit or 0):
            return
        self.worker = worker
        self._idle_checks = 0
        checking = PeriodicCallback(self._check, 1000 * CHECK_MEMORY_SECONDS)
        worker.periodic_callbacks[self.name] = checking
        checking.start()

    async def _check(self) -> None:
        """Return the memory to the system if the process has more than any plan, or has been without tasks for long."""
        self._idle_checks = 0 if self.worker.state.executing_count else self._idle_checks + 1
        limit = self.worker.memory_manager.memory_limit
        is_full = limit and self.worker.monitor.get_process_memory() > PLANNED_SHARE * limit
        if is_full or self._idle_checks == IDLE_CHECKS:
            await asyncio.to_thread(return_freed_memory)
