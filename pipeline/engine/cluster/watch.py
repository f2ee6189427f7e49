"""Watches a Dask cluster while a client waits.

A lost scheduler, workers that are all paused, and the loss of all workers end the wait.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from ....io.messages import pluralize
from ...formatting import format_bytes, format_duration
from ..memory import memory_limits, out_of_memory_kills

if TYPE_CHECKING:
    from distributed import Client

#: Seconds that all workers may be paused before their tasks are cancelled.
STALLED_SECONDS = 60.0
#: How many times the system may kill a worker of this machine for its memory before a run ends. The next worker would
#: begin the same task.
MOST_KILLS = 2
#: Seconds to wait for a worker before tasks are submitted.
FIRST_SECONDS = 120.0
#: Seconds without a connection to the scheduler after which waits end. Dask itself gives up after 30 s.
LOST_SECONDS = 90.0


def no_workers_seconds() -> float:
    """Return how long a cluster may be without workers, by Dask's setting no-workers-timeout."""
    import dask
    from dask.utils import parse_timedelta

    return float(parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout") or "1000 days"))


def workers_of(client: "Client") -> dict[str, Any]:
    """Return the scheduler's description of each worker, by address.

    `Client.scheduler_info` returns a field that another thread sets to a description without workers every two seconds.
    """
    if client.scheduler is None:
        raise ConnectionError("the client is closed")
    return client.sync(client.scheduler.identity, n_workers=-1)["workers"]


def address_of(client: "Client") -> str:
    """Return the address of a client's scheduler. A client that has just lost its scheduler does not know it."""
    return "the client's address" if client.scheduler is None else str(client.scheduler.address)


def _limits_of(workers: dict[str, Any]) -> str:
    """Return the memory limits of the workers for a message: those that differ, or "none"."""
    limits = sorted({worker["memory_limit"] or 0 for worker in workers.values()})
    return ", ".join(format_bytes(limit) if limit else "none" for limit in limits)


def _describe_paused(workers: dict[str, Any]) -> str:
    """Return that all workers were paused, and what to do."""
    return (
        f"all workers were paused for {STALLED_SECONDS:.0f} s with their memory full (limit {_limits_of(workers)} "
        f"each): raise memory_limit, or use fewer threads per worker, then resume the run"
    )


def _describe_killed(kills: int, workers: dict[str, Any]) -> str:
    """Return that the system has killed workers, and what to do."""
    least = memory_limits()[0]
    limits = f" ({_limits_of(workers)})" if workers else ""  # all of them may be gone at this moment
    return (
        f"the system killed workers {pluralize(kills, 'time')}, because their memory was full: "
        f"{format_bytes(int(least.value))} are allowed to all processes here ({least.source}), and each worker plans "
        f"with its own limit{limits}: set a lower memory_limit, use fewer workers, or stop other "
        f"programs, then resume the run; committed epochs are safe"
    )


def _describe_no_workers(client: "Client", address: str, seconds: float) -> str:
    """Return that all workers were away, and what to do."""
    away = f"{address} has had no worker for {format_duration(seconds)}"
    if hasattr(client.cluster, "job_script"):
        return (
            f"{away}: its jobs have ended, as at their walltime, and no other one has started; committed epochs are "
            f"safe: look at the queue, and give the same command again, or resume the run (to wait longer, set "
            f"the environment variable DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT, such as 12h)"
        )
    return (
        f"{away}; committed epochs are safe: start workers with this address and give the same command again, or "
        f"resume the run"
    )


class TaskLost(Exception):
    """The cluster lost a task and cannot repeat it. All commits are safe, so the run can be resumed."""


@contextlib.contextmanager
def asking_for_worker(client: "Client") -> Iterator[None]:
    """Context manager: have a task that waits, because a cluster that adapts starts its first worker only for one."""
    future = client.submit(int, key=f"corpusmill-start-{os.urandom(4).hex()}")
    try:
        yield
    finally:
        future.release()


def await_worker(client: "Client") -> None:
    """Wait up to FIRST_SECONDS for a worker; raise TaskLost if none comes."""
    try:
        with asking_for_worker(client):
            client.wait_for_workers(1, timeout=FIRST_SECONDS)
    except TimeoutError:
        raise TaskLost(_describe_no_workers(client, address_of(client), FIRST_SECONDS)) from None


class ClusterWatch:
    """Watches the cluster of a client."""

    def __init__(self, client: "Client"):
        self._client = client
        self._address = address_of(client)
        self._kills = out_of_memory_kills()
        self._seen: dict[str, Any] = {}  # the workers that were there last, by address
        self._gone = False  # whether a worker has left. The system may also kill other programs of this group.
        #: Why the tasks of the last wait were cancelled; empty if they were not.
        self.stall = ""

    @contextlib.contextmanager
    def unless_stalled(self, keys: Callable[[], list[str]]) -> Iterator[None]:
        """Cancel the tasks if no worker can run them.

        All workers may be paused for STALLED_SECONDS, because nothing but the end of their tasks frees their memory.
        They may all be away as long as the setting ``no-workers-timeout`` allows.
        """
        done = threading.Event()
        self.stall = ""

        def watch() -> None:
            # If the scheduler has died, the thread that waits for results reports it.
            with contextlib.suppress(Exception):
                paused_since = away_since = time.monotonic()
                while not done.wait(min(STALLED_SECONDS, away_seconds) / 12):
                    now = time.monotonic()
                    workers = workers_of(self._client)
                    self._gone |= not self._seen.keys() <= workers.keys()
                    if workers:
                        away_since, self._seen = now, workers
                    if not workers or any(worker["status"] != "paused" for worker in workers.values()):
                        paused_since = now
                    if now - paused_since > STALLED_SECONDS:
                        self.stall = _describe_paused(workers)
                    elif now - away_since > away_seconds:
                        self.stall = _describe_no_workers(self._client, self._address, away_seconds)
                    elif self._gone:
                        self.stall = self._why_killed(MOST_KILLS)
                    if self.stall:
                        self._client.cancel([Future(key, self._client) for key in keys()], force=True)
                        return

        from distributed import Future

        away_seconds = no_workers_seconds()

        threading.Thread(target=watch, name="corpusmill-stalled", daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def why_stalled(self, error: BaseException | None) -> str:
        """Return why no worker could run a task that failed with ``error``; "" if there is another reason."""
        from distributed.scheduler import KilledWorker, NoWorkerError

        if not self.stall and isinstance(error, KilledWorker):
            return self._why_killed(1)
        # Dask's scheduler counts the same time, and may be done a moment earlier than the thread of this class.
        if not self.stall and isinstance(error, NoWorkerError):
            return _describe_no_workers(self._client, self._address, no_workers_seconds())
        return self.stall

    def _why_killed(self, least: int) -> str:
        """Return why workers of this machine were killed; "" if they were not, or fewer than ``least`` times."""
        kills = out_of_memory_kills() - self._kills
        return _describe_killed(kills, self._seen or workers_of(self._client)) if kills >= least else ""

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Context manager: raise `TaskLost` in place of the errors that a lost scheduler causes."""
        from distributed.client import ClosedClientError
        from distributed.comm import CommClosedError

        done = threading.Event()
        threading.Thread(target=self._cancel_if_lost, args=[done], name="corpusmill-lost", daemon=True).start()
        try:
            yield
        except (TaskLost, OSError, CancelledError, RuntimeError, AttributeError, ClosedClientError) as error:
            # Dask uses the scheduler of a client that has none any more, an AttributeError.
            # The scheduler is reachable, so the error has another cause, such as a full disk.
            if self._client.status == "running" and not isinstance(error, CommClosedError):
                raise
            raise TaskLost(
                f"the scheduler at {self._address} cannot be reached; committed epochs are safe: start a cluster, or "
                f"open another client if this one was closed, and give the same command again, or resume the run"
            ) from error
        finally:
            done.set()

    def _cancel_if_lost(self, done: threading.Event) -> None:
        """Watch the connection until ``done`` is set. If it is lost for LOST_SECONDS, cancel all futures.

        Dask does this itself after 30 s. But if its task that reconnects fails, a wait for results would never end.
        """
        since = time.monotonic()
        while not done.wait(LOST_SECONDS / 12):
            if self._client.status == "running":
                since = time.monotonic()
            elif time.monotonic() - since > LOST_SECONDS:
                assert self._client.loop is not None, "the client was never started"
                self._client.loop.add_callback(self._cancel_all)
                with contextlib.suppress(Exception):
                    self._client.close()
                return

    def _cancel_all(self) -> None:
        for state in list(self._client.futures.values()):
            state.cancel()
