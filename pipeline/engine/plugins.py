"""What corpusmill adds to a Dask scheduler."""

from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin


class FreeStrandedTasks(SchedulerPlugin):
    """Let a task that preferred a worker run anywhere once that worker is gone.

    Dask does so while other workers live; a task that becomes ready while there is no worker at all would otherwise
    wait for the dead one's address for ever, since a restarted worker has another address.
    """

    name = "corpusmill-free-stranded-tasks"
    idempotent = True

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Drop preferences for the worker that left."""
        for task in scheduler.tasks.values():
            if task.loose_restrictions and worker in (task.worker_restrictions or ()):
                task.worker_restrictions = None
