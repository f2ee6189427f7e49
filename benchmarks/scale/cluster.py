"""A cluster of many workers in a few processes: one for the scheduler, and some with many workers each.

python -m benchmarks.scale.cluster runs one of these processes; `SplitCluster` starts them.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import dask
import psutil
from corpusmill.pipeline.engine.cluster.open import dask_settings
from corpusmill.pipeline.engine.worker import contributions as worker
from corpusmill.pipeline.engine.worker import tasks, transfers
from corpusmill.pipeline.engine.worker.buffers import Cache
from distributed import Client, Scheduler, Worker, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin

from benchmarks.scale import delayed  # noqa: F401  registers a file system


class TaskCounter(SchedulerPlugin):
    """Counts the tasks that finished."""

    name = "task-counter"

    def __init__(self):
        self.count = 0

    def transition(self, key, start, finish, *args, **kwargs):
        """Count a task whose result is in memory."""
        self.count += start == "processing" and finish == "memory"


class SmallCache(Cache):
    """A cache that has memory for the model, but not for chunks and states."""

    def put(self, key, value, *, nbytes, budget, **options):
        """Keep a value unless it is a chunk or a state."""
        if key[1] in ("chunk", "state"):
            nbytes = budget + 1
        super().put(key, value, nbytes=nbytes, budget=budget, **options)


class CachePerWorker:
    """Replaces the cache of the process, so that workers in one process do not share what they have read."""

    def __init__(self, kind):
        self.kind = kind
        self.caches = {}

    def __getattr__(self, name):
        return getattr(self.caches.setdefault(get_worker().address, self.kind()), name)


class SplitCluster:
    """A scheduler process and ``n_farms`` processes with the workers. Enter it to start it."""

    def __init__(self, n_workers, threads, n_farms, has_small_caches=False):
        self.n_workers = n_workers
        self.cache = "small" if has_small_caches else "large"
        self.threads = threads
        self.n_farms = min(n_farms, n_workers)
        self.farms = []

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(folder, "scheduler.json")
        self.scheduler = self._start("scheduler", str(file))
        while not file.exists():
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        bounds = [self.n_workers * farm // self.n_farms for farm in range(self.n_farms + 1)]
        for first, stop in zip(bounds[:-1], bounds[1:], strict=True):
            self.farms.append(self._start("workers", address, str(first), str(stop), str(self.threads), self.cache))
        self.client = self.stack.enter_context(Client(address, set_as_default=False))
        self.client.wait_for_workers(self.n_workers, timeout=120)
        self.counter = TaskCounter()
        self.client.register_plugin(self.counter)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self.client.shutdown()
        self.stack.close()

    def _start(self, *arguments):
        command = [sys.executable, "-m", "benchmarks.scale.cluster", *arguments]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return psutil.Process(process.pid)

    def measure(self):
        """Return the counters of all processes: seconds of CPU, finished tasks, bytes over the loopback device."""
        return {
            "wall": time.perf_counter(),
            "client": time.process_time(),
            "scheduler": _cpu_seconds(self.scheduler),
            "workers": sum(_cpu_seconds(farm) for farm in self.farms),
            "tasks": self.client.run_on_scheduler(_finished_tasks),
            "bytes": psutil.net_io_counters(pernic=True)["lo"].bytes_sent,
        }


def _cpu_seconds(process):
    times = process.cpu_times()
    return times.user + times.system


def _finished_tasks(dask_scheduler):
    return dask_scheduler.plugins[TaskCounter.name].count


@click.group()
def main():
    """Run one process of the cluster until the scheduler ends."""


@main.command()
@click.argument("file")
def scheduler(file):
    """Run the scheduler, and write its address to FILE."""

    async def run():
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as running:
            temporary = Path(file).with_suffix(".tmp")
            temporary.write_text(json.dumps({"address": running.address}))
            temporary.replace(file)
            await running.finished()

    with dask.config.set(dask_settings()):
        asyncio.run(run())


@main.command()
@click.argument("address")
@click.argument("first", type=int)
@click.argument("stop", type=int)
@click.argument("threads", type=int)
@click.argument("cache", type=click.Choice(["small", "large"]))
def workers(address, first, stop, threads, cache):
    """Run the workers number FIRST to STOP - 1."""
    caches = CachePerWorker(SmallCache if cache == "small" else Cache)
    for module in (tasks, transfers, worker):
        module.CACHE = caches
    # Every worker samples its threads for a profile, and its machine for a monitor. On a hundred machines this takes
    # nothing of an epoch. Here, a hundred workers would do little else.
    settings = dask_settings() | {
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.interval": "1 hour",
    }

    async def run():
        async with contextlib.AsyncExitStack() as stack:
            options = {"nthreads": threads, "memory_limit": 0, "dashboard": False, "host": "127.0.0.1"}
            starting = [Worker(address, name=f"w{number:03d}", **options) for number in range(first, stop)]
            running = [await stack.enter_async_context(worker) for worker in starting]
            await asyncio.gather(*(worker.finished() for worker in running))

    with dask.config.set(settings):
        asyncio.run(run())


if __name__ == "__main__":
    main()
