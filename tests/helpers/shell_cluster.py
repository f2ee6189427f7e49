"""A Dask cluster whose scheduler and worker are processes of their own, as started from a shell."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path


@contextlib.contextmanager
def shell_cluster(folder, *arguments, workers=(), scheduler=("--no-dashboard",)):
    """Yield a scheduler's process and its file. The worker, with the arguments ``workers``, is a process of its own."""
    file = folder / "scheduler.json"
    module = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # The path of this process comes along, so that all processes import the same checkout.
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    quiet["env"] = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    scheduler = [*module, "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", *scheduler]
    worker = [*module, "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--local-directory", folder]
    given = ["--scheduler-file", str(file), *arguments]
    with (
        subprocess.Popen([*scheduler, *given], **quiet) as first,
        subprocess.Popen([*worker, *given, *workers], **quiet) as second,
    ):
        try:
            while not (file.exists() and file.read_text().strip().endswith("}")):
                assert first.poll() is None
                time.sleep(0.1)
            yield first, file
        finally:
            for process in (first, second):
                process.kill()
