"""Faults of workers, of the scheduler, and of the link between them."""

import contextlib
import os
import shutil
import signal
import sys
import time

import cloudpickle
import psutil

# The processes of the cluster cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: Seconds for which a process is stopped, or a link is slow or interrupted.
SHORT = (0.5, 2.0, 8.0)
#: Seconds by which a slow link delays each message.
DELAYS = (0.05, 0.3, 1.0)
#: Mebibytes that something else takes of a worker's 1024. Dask pauses a worker at 90% and restarts it at 95%.
TAKEN = (300, 600, 1100)


def hold_memory(mebibytes, seconds):
    """Occupy memory of a worker for a while."""
    held = bytearray(b"x") * (mebibytes << 20)
    time.sleep(seconds)
    return len(held)


class ClusterFaults:
    """Methods that each cause a fault, given the trial and the process of its command."""

    def kill_worker(self, trial, process):
        """Kill a worker. Its nanny starts another one."""
        running = self.cluster.running_workers()
        if running:
            self.chance.choice(running).kill()

    def kill_scheduler(self, trial, process):
        """Kill the scheduler."""
        self.cluster.kill_scheduler()

    def stop_worker(self, trial, process):
        """Stop a worker for a while, as a frozen machine does."""
        running = self.cluster.running_workers()
        if not running:
            return
        worker = self.chance.choice(running)
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.suspend()
            self.cluster.wait(process, self.chance.choice(SHORT))
            worker.resume()

    def stop(self, trial, process):
        """Stop the command for a while."""
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(self.chance.choice(SHORT))
        os.kill(process.pid, signal.SIGCONT)

    def slow_link(self, trial, process):
        """Delay all messages between workers and scheduler for a while."""
        self.cluster.link.delay = self.chance.choice(DELAYS)
        self.cluster.wait(process, self.chance.choice(SHORT))
        self.cluster.link.restore()

    def interrupt_link(self, trial, process):
        """Break the connections between workers and scheduler, for a while."""
        self.cluster.link.interrupt()
        self.cluster.wait(process, self.chance.choice(SHORT))
        self.cluster.link.restore()

    def remove_worker(self, trial, process):
        """Let the scheduler believe that a worker has died. Its tasks run again while it still runs them."""
        with self.chaos_client() as client:
            addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
            if addresses:
                address = self.chance.choice(addresses)
                client.run_on_scheduler(_remove, address)

    def take_memory(self, trial, process):
        """Occupy memory of a worker for some seconds."""
        with self.chaos_client() as client:
            addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
            if addresses:
                worker = self.chance.choice(addresses)
                client.run(hold_memory, self.chance.choice(TAKEN), 3.0, workers=[worker], wait=False)
                self.cluster.wait(process, 1.0)

    @contextlib.contextmanager
    def chaos_client(self):
        """Yield a client. Its errors do not matter, because other faults may have ended the scheduler."""
        try:
            with self.cluster.client() as client:
                yield client
        except Exception:
            self.count["faults that failed"] += 1

    def fill_scratch(self, trial, process):
        """Fill the disk of the workers for a while."""
        self.fill(self.cluster.scratch, process)

    def fill(self, folder, process):
        """Fill a disk for a while, except for a few bytes."""
        ballast = folder / "ballast"
        free = shutil.disk_usage(folder).free
        with contextlib.suppress(OSError):  # some of the space was used in the meantime
            ballast.write_bytes(bytes(max(0, free - self.chance.randrange(1 << 17))))
        self.cluster.wait(process, 4 * self.every)
        ballast.unlink()


async def _remove(address, dask_scheduler):
    await dask_scheduler.remove_worker(address, close=False, stimulus_id="chaos")
