"""Commands that must succeed in the end, and the files that they must leave."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import google_crc32c
from corpusmill.pipeline.commands.cli.main import main as corpusmill
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.publishing.versions import Versions
from helpers.nightly import without_owners

COMMAND = [sys.executable, "-c", "from corpusmill.pipeline.commands.cli.main import main; main()"]
#: Files with times, which differ between runs.
TIMED = ("run.json", "metrics.jsonl", "model.json", "report.html")


class Trial:
    """A command in a folder. ``expected`` has the files that it must leave when it has succeeded."""

    def __init__(self, kind, folder, arguments, expected):
        self.kind = kind
        self.folder = folder
        self.arguments = arguments
        self.expected = expected
        self.reached = -1
        self.excused = set()

    @property
    def errors(self):
        """The file with what the command wrote to stderr."""
        return self.folder.parents[1] / "errors"

    def start(self, environment, errors="errors"):
        """Start the command in a process of its own."""
        with (self.folder.parents[1] / errors).open("w") as stderr:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": stderr}
            return subprocess.Popen([*COMMAND, *self.arguments], cwd=self.folder, env=environment, **quiet)

    def lost(self):
        """Say what is lost or incomplete; return an empty string if nothing is."""
        reached = self.reached
        now = self.committed()
        self.reached = now
        if now < reached:
            return f"went back from {reached} to {now}"
        return self.broken()


class Training(Trial):
    """A run and its model."""

    def committed(self):
        """Return the last committed step."""
        return RunStore(str(self.folder / "run")).step

    def epochs(self):
        """Return how many epochs were trained."""
        return len(RunStore(str(self.folder / "run")).metrics)

    def broken(self):
        """Check every stored array of the committed step, and that each step has a row of metrics."""
        run = RunStore(str(self.folder / "run"))
        if run.step < 0:
            return ""
        if [row["step"] for row in run.metrics] != list(range(1, run.step + 1)):
            return "rows of metrics are missing"
        return ", ".join(path for path in zarr_chunks(self.folder / "run" / run.folder(run.step)) if not is_whole(path))


class Night(Trial):
    """A night's retraining."""

    def committed(self):
        """Return the version in use."""
        return Versions(str(self.folder / "models")).head.version

    def epochs(self):
        """Return how many epochs were trained."""
        versions = Versions(str(self.folder / "models"))
        return versions.read(versions.head.version)["epochs"]

    def broken(self):
        """Compare every version with that of an undisturbed run."""
        there = contents(self.folder)
        wanted = self.expected
        names = (f"models/versions/{number:06d}-0000/" for number in Versions(str(self.folder / "models")).numbers)
        return ", ".join(n for n in names if below(there, n) != below(wanted, n))


def contents(folder):
    """Return the bytes of all files by path, except locks and files with times. The folder's own path reads '.'."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".lock", ".yaml")]
    names = {str(path.relative_to(folder)): path for path in files}
    timed = {n for n in names if Path(n).name in TIMED and not n.startswith("models/")}
    here = os.fsencode(folder)
    found = {name: path.read_bytes().replace(here, b".") for name, path in names.items() if name not in timed}
    return {without_owners(name): without_owners(content) for name, content in found.items()}


def below(files, start):
    """Return the files whose paths start with ``start``."""
    return {name: content for name, content in files.items() if name.startswith(start)}


def zarr_chunks(folder):
    """List the Zarr chunks below a folder."""
    return [str(p) for p in folder.rglob("c/*") if p.is_file() and ".tmp-" not in str(p)]


def is_whole(path):
    """Compare a Zarr chunk with its checksum."""
    content = Path(path).read_bytes()
    return int(google_crc32c.value(content[:-4])).to_bytes(4, "little") == content[-4:]


def call(folder, arguments):
    """Run a command in this process, which must succeed."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        try:
            corpusmill(arguments)
        except SystemExit as end:
            assert not end.code, f"{arguments} ended with {end.code}"
