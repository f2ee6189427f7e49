"""A plugin for Dask's scheduler: tasks do not wait for a worker that has died."""

from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin


class FreeStrandedTasks(SchedulerPlugin):
    """Lets a task that preferred a worker run anywhere once that worker has died.

    Dask does this itself while other workers are alive. A task that becomes ready while there is no worker at all would
    otherwise wait for the address of the dead worker, and a restarted worker has another address.
    """

    name = "corpusmill-free-stranded-tasks"
    idempotent = True

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Drop all preferences for the worker that left."""
        for task in scheduler.tasks.values():
            if task.loose_restrictions and worker in (task.worker_restrictions or ()):
                task.worker_restrictions = None
