"""A cluster of processes that can be killed, and whose clocks can be moved."""

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import time

import psutil
from distributed import Client
from link import Link

#: C code of a library that adds the seconds in a file to the time of day, for all processes that load it.
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long *shift;
__attribute__((constructor)) static void look(void) {
    int file = open(getenv("SOAK_CLOCK"), O_RDONLY);
    shift = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    close(file);
}
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += *shift;
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    now->tv_sec = t.tv_sec;
    now->tv_usec = t.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
"""


class Clocks:
    """Moves the time of day of every process that is started with its ``environment``."""

    def __init__(self, folder):
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.shift = folder / "clock"
        self.shift.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self.shift)}

    def jump(self, seconds):
        """Move all clocks forward, or back if ``seconds`` is negative."""
        with self.shift.open("r+b") as file:  # in place: a process dies if the file that it has mapped is truncated
            (before,) = struct.unpack("q", file.read())
            file.seek(0)
            file.write(struct.pack("q", before + seconds))


class Cluster:
    """A scheduler and workers in processes of their own. The workers reach the scheduler through a link."""

    def __init__(self, folder, workers, environment):
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.through_link = folder / "scheduler-through-link.json"
        #: Where workers keep data that does not fit in their memory.
        self.scratch = folder / "dask"
        self.scratch.mkdir()
        self.n_workers = workers
        self.environment = environment
        self.link = Link()
        self.nannies = []
        self.processes = []
        self.restarted = 0

    def start(self):
        """Start a scheduler and its workers."""
        self.file.unlink(missing_ok=True)
        options = ["--scheduler-file", str(self.file), "--no-dashboard", "--host", "127.0.0.1", "--port", "0"]
        self.scheduler = self._spawn("scheduler", *options)
        while not (self.file.exists() and self.file.read_text().strip().endswith("}")):
            time.sleep(0.1)
        found = json.loads(self.file.read_text())
        self.link.target = int(found["address"].rpartition(":")[2])
        self.through_link.write_text(json.dumps(found | {"address": f"tcp://127.0.0.1:{self.link.port}"}))
        self.nannies = [self._start_worker() for _ in range(self.n_workers)]

    def _start_worker(self):
        options = ["--scheduler-file", str(self.through_link), "--no-dashboard", "--nthreads", "1"]
        return self._spawn("worker", *options, "--memory-limit", "1GiB", "--local-directory", str(self.scratch))

    def wait(self, process, seconds):
        """Wait at most ``seconds`` for a command to end. Start schedulers and workers that ended again."""
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            if self.scheduler.poll() is not None:
                self.kill_scheduler()
            for position, nanny in enumerate(self.nannies):
                if nanny.poll() is not None:
                    self.restarted += 1
                    self.nannies[position] = self._start_worker()
            time.sleep(0.1)

    def _spawn(self, what, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
        with (self.folder / "cluster.log").open("a") as log:
            quiet = {"stdout": log, "stderr": log}
            process = subprocess.Popen(command, env=self.environment, start_new_session=True, **quiet)
        self.processes.append(process)
        return process

    def running_workers(self):
        """Return the processes of the workers; their nannies start another one when one ends."""
        running = []
        for nanny in self.nannies:
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(nanny.pid).children(recursive=True)
                running += [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        return running

    def client(self):
        """Return a client of the scheduler, for faults that need one."""
        return Client(scheduler_file=str(self.file), timeout=10, set_as_default=False)

    def kill_scheduler(self):
        """Kill the scheduler and start another cluster. The workers of the old one end by themselves."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.start()

    def close(self):
        """Kill every process that was started."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
