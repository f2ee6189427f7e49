"""A stress test: train, and retrain for several nights, on a cluster of processes, while random faults happen.

python tests/stress --minutes 10

The faults: a worker or the scheduler is killed; a worker or the command is stopped for a while; the link between
workers and scheduler is slow or interrupted; the scheduler believes that a worker has died while it works, so that its
tasks run twice; something else takes the memory of a worker; the command receives SIGKILL or SIGTERM; the disk of the
results, or that of the workers, is full (small tmpfs); a stored file is truncated, or one of its bits is flipped; the
clocks of all processes jump; the same command is called twice at the same time.

Whenever a command ends, everything that it committed must be complete. When a command ends with success, all bytes
must equal those of an undisturbed run in one process.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
import numpy as np
import paths  # noqa: F401
import yaml
from cluster import Clocks, Cluster
from cluster_faults import ClusterFaults
from trials import Night, Training, call, contents, zarr_chunks

MODELS = {
    "lda": {"n_components": 10, "max_iter": 12},
    "nmf": {"n_components": 10, "max_iter": 12},
    "word2vec": {"vector_size": 32, "epochs": 4, "n_blocks": 8},
    "random-indexing": {"vector_size": 256},
    "fastrp": {"vector_size": 32},
    "node2vec": {"vector_size": 16, "epochs": 4, "num_walks": 4, "walk_length": 20},
}
#: Nodes and edges of the graph for Node2Vec.
NODES = 400
EDGES = 3000
NIGHTS = 3
#: Exit codes that a command may end with after a fault, in addition to success.
EXCUSED = {
    "worker killed": {1},
    "worker stopped": {1},
    "worker believed dead": {1},
    "worker's memory taken": {1},
    "worker's disk full": {1, 4},
    "link slow": {1},
    "link interrupted": {1},
    "command stopped": set(),
    "scheduler killed": {1, 2},
    "clock jumps": {1},
    "command killed": {-signal.SIGKILL},
    "command terminated": {143, -signal.SIGTERM},
    "disk full": {1, 4},
    "file truncated": {4, -signal.SIGKILL},
    "bit flipped": {4, -signal.SIGKILL},
    "called twice": {75},
}
#: Exit codes for damaged data, and for a run that another process uses.
DATA = 4
LOCKED = 75
#: Seconds after which a command counts as hanging.
HANGING_SECONDS = 600
#: Counters that make the stress test fail.
PROBLEMS = ("other bytes", "damaged or incomplete", "unexpected ends", "damage not named")
#: Bytes of the small disk.
DISK = 64 << 20
#: Bytes of the workers' disk.
SCRATCH = 16 << 20


@click.command()
@click.option("--minutes", default=10.0)
@click.option("--every", default=3.0, help="Mean seconds between two faults.")
@click.option("--workers", default=2)
@click.option("--documents", default=1500, help="Documents of the corpus. Each night adds a fifth as many.")
@click.option("--seed", default=1, help="Seed of the faults.")
@click.option("--json", "target", type=click.Path(), help="Write all figures to this file.")
@click.option("--quick", is_flag=True, help="Run for seconds, to see that the program works.")
def main(minutes, every, workers, documents, seed, target, quick):
    """Print the faults, how commands ended, and whether all results are right."""
    if quick:
        minutes, every, documents = 0.2, 1.0, 60
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, contextlib.ExitStack() as stack:
        soak = Soak(Path(folder), workers, every, random.Random(seed), stack)
        soak.prepare(documents, list(MODELS)[: 1 if quick else None])
        soak.until(time.monotonic() + 60 * minutes)
        found = soak.figures()
    click.echo("\n".join(f"{name:<34} {value}" for name, value in found.items()))
    if target:
        Path(target).write_text(json.dumps(found, indent=1))
    sys.exit(any(found[name] for name in PROBLEMS))


class Soak(ClusterFaults):
    """Runs trials one after another, injects faults, and counts what happens."""

    def __init__(self, folder, workers, every, chance, stack):
        self.folder, self.every, self.chance, self.count = folder, every, chance, Counter()
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.environment = dict(os.environ)
        self.faults = {
            "worker killed": self.kill_worker,
            "worker stopped": self.stop_worker,
            "worker believed dead": self.remove_worker,
            "worker's memory taken": self.take_memory,
            "link slow": self.slow_link,
            "link interrupted": self.interrupt_link,
            "scheduler killed": self.kill_scheduler,
            "command stopped": self.stop,
            "command killed": self.kill,
            "command terminated": self.terminate,
            "file truncated": self.truncate,
            "bit flipped": self.flip,
            "called twice": self.call_twice,
        }
        if os.system(f"mount -t tmpfs -o size={DISK} tmpfs {self.disk} 2> {os.devnull}") == 0:
            stack.callback(os.system, f"umount -l {self.disk}")
            self.faults["disk full"] = self.fill_disk
        if shutil.which("cc"):
            self.clocks = Clocks(folder)
            self.environment |= self.clocks.environment
            self.faults["clock jumps"] = self.jump
        self.cluster = Cluster(folder, workers, self.environment)
        stack.callback(self.cluster.close)
        if os.system(f"mount -t tmpfs -o size={SCRATCH} tmpfs {self.cluster.scratch} 2> {os.devnull}") == 0:
            stack.callback(os.system, f"umount -l {self.cluster.scratch}")
            self.faults["worker's disk full"] = self.fill_scratch

    # --- preparation ---

    def prepare(self, documents, kinds):
        """Write the documents of all days, and start a cluster."""
        draw = np.random.default_rng(0)
        (self.folder / "days").mkdir()
        for day, number in enumerate([documents] + [documents // 5] * NIGHTS):
            texts = [" ".join(f"w{w}" for w in np.minimum(draw.zipf(1.3, 80), 3000)) for _ in range(number)]
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
            (self.folder / "days" / f"2026-11-{day + 1:02d}.jsonl").write_text(lines)
        ends = draw.integers(0, NODES, (EDGES, 2))
        (self.folder / "edges.csv").write_text("".join(f"n{first},n{second}\n" for first, second in ends))
        self.kinds, self.expected = kinds, {}
        self.cluster.start()

    def expect(self, kind):
        """Run the commands of a model undisturbed in this process, and keep the bytes after each."""
        folder = self.begin(self.folder / "expected" / kind, kind)
        for number, trial in enumerate(self.trials(kind, folder, {"kind": "synchronous"})):
            call(folder, trial.arguments)
            self.expected[kind, number] = contents(folder)

    def begin(self, folder, kind):
        """Create a folder with the configuration of a model."""
        folder.mkdir(parents=True)
        tree = {
            "source": {"path": f"{self.folder}/days/*.jsonl"},
            "corpus": {"url": "corpus", "held_out": 0.1, "chunk_tokens": 15_000},
            "model": {"kind": kind} | MODELS[kind],
            "run": {"url": "run", "model": "model", "evaluate_every": 4},
            "report": None,
            "retrain": {"url": "models", "tolerance": 1e9, "max_new_words": 1.0, "keep": NIGHTS},
        }
        if kind in ("node2vec", "fastrp"):
            tree["corpus"] = {"url": f"{self.folder}/edges.csv"}
            del tree["source"], tree["retrain"], tree["run"]["evaluate_every"]
        (folder / "my.yaml").write_text(yaml.safe_dump(tree))
        return folder

    def trials(self, kind, folder, cluster):
        """Yield the trials of a folder in order: one run, then the nights. A graph has no nights."""
        options = ["--json", "--set", f"cluster={json.dumps(cluster)}"]
        if kind in ("node2vec", "fastrp"):
            yield Training(kind, folder, ["train", "my.yaml", *options], self.expected.get((kind, 0)))
            return
        yield Training(kind, folder, ["run", "my.yaml", *options], self.expected.get((kind, 0)))
        for night in range(1, NIGHTS + 1):
            until = ["--as-of", f"2026-11-{night:02d}"]
            yield Night(kind, folder, ["retrain", "my.yaml", *until, *options], self.expected.get((kind, night)))

    # --- a trial ---

    def until(self, end):
        """Run trials until the time is over. The last command may finish."""
        cluster = {"kind": "address", "scheduler_file": str(self.cluster.file)}
        while time.monotonic() < end:
            kind = self.chance.choice(self.kinds)
            if (kind, 0) not in self.expected:
                self.expect(kind)
            folder = self.begin(self.disk / f"{self.count['folders']:03d}", kind)
            self.count["folders"] += 1
            for trial in self.trials(kind, folder, cluster):
                self.run(trial)
                if time.monotonic() > end:
                    return
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, trial):
        """Call a command again and again until it succeeds, with a few faults; then compare its files."""
        began = time.monotonic()
        faults = self.chance.randint(1, 6)
        process = trial.start(self.environment)
        while process.poll() != 0:
            self.cluster.wait(process, self.chance.expovariate(1 / self.every) if faults else HANGING_SECONDS)
            if process.poll() is None:
                process, faults = self.inject_fault(trial, process, faults)
            if process.poll():
                self.check(trial, process)
                self.count["called again"] += 1
                process = trial.start(self.environment)
        self.count["nights" if isinstance(trial, Night) else "runs"] += 1
        self.count["epochs"] += trial.epochs()
        self.count["seconds"] += time.monotonic() - began
        there = contents(trial.folder)
        differing = [n for n in sorted({*there, *trial.expected}) if there.get(n) != trial.expected.get(n)]
        if differing:
            self.problem("other bytes", trial, ", ".join(differing[:5]))

    def inject_fault(self, trial, process, faults):
        """Inject one fault; return the process that continues, and the number of faults still to come."""
        if not faults:
            self.problem("unexpected ends", trial, f"nothing for {HANGING_SECONDS} s")
            self.kill(trial, process)
            return process, 0
        name = self.chance.choice(list(self.faults))
        self.count[name] += 1
        trial.excused |= EXCUSED[name]
        return self.faults[name](trial, process) or process, faults - 1

    def check(self, trial, process):
        """Check how a command ended, and what it has committed."""
        self.count[f"exit code {process.returncode}"] += 1
        sentence = trial.errors.read_text()
        if process.returncode not in trial.excused or "Traceback" in sentence:
            self.problem("unexpected ends", trial, f"{process.returncode}: {sentence[-2000:]}")
        lost = trial.lost()
        if lost:
            self.problem("damaged or incomplete", trial, lost)

    def problem(self, name, trial, what):
        """Count and print a problem."""
        self.count[name] += 1
        click.echo(f"{name}: {trial.kind}, {' '.join(trial.arguments[:4])}: {what}", err=True)

    # --- faults ---

    def kill(self, trial, process):
        """End the command by SIGKILL."""
        process.kill()
        process.wait()

    def terminate(self, trial, process):
        """End the command by SIGTERM."""
        process.terminate()

    def jump(self, trial, process):
        """Move all clocks forward by up to a day, or back by up to ten seconds: Dask's timers are late by as much."""
        self.clocks.jump(self.chance.choice([self.chance.randint(1, 86_400), -self.chance.randint(1, 10)]))

    def fill_disk(self, trial, process):
        """Fill the disk of the results for a while, except for a few bytes."""
        self.fill(self.disk, process)

    def call_twice(self, trial, process):
        """Call the same command a second time: one of the two gets the lock."""
        second = trial.start(self.environment, "errors of the second")
        self.cluster.wait(second, HANGING_SECONDS)
        code = second.poll()
        self.count["second call locked out"] += code == LOCKED
        if code not in (0, LOCKED) and code not in trial.excused:
            self.problem("unexpected ends", trial, f"second call: {code}")

    def damage(self, trial, process, change):
        """Change a stored file while no command runs; check that the next command names it; restore the file."""
        self.kill(trial, process)
        there = zarr_chunks(trial.folder)
        if not there:
            return process
        path = Path(self.chance.choice(there))
        before = path.read_bytes()
        path.write_bytes(change(before))
        process = trial.start(self.environment)
        self.cluster.wait(process, HANGING_SECONDS)
        group = path.parents[path.parts[::-1].index("c") + 1].relative_to(trial.folder)
        if process.returncode == DATA and str(group) not in trial.errors.read_text():
            self.problem("damage not named", trial, f"{path}: {trial.errors.read_text()}")
        self.count["damage named" if process.returncode == DATA else "damage not read"] += 1
        if path.exists():
            path.write_bytes(before)
        return process

    def truncate(self, trial, process):
        """Cut off the end of a stored file."""
        return self.damage(trial, process, lambda content: content[: self.chance.randrange(len(content))])

    def flip(self, trial, process):
        """Flip one bit of a stored file."""
        place = self.chance.random()
        bit = 1 << self.chance.randrange(8)

        def change(content):
            at = int(place * len(content))
            return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]

        return self.damage(trial, process, change)

    # --- result ---

    def figures(self):
        """Return all counters by name."""
        names = (
            "runs",
            "nights",
            "epochs",
            *self.faults,
            "faults that failed",
            "damage named",
            "damage not read",
            "second call locked out",
        )
        codes = sorted(name for name in self.count if name.startswith("exit code"))
        figures = {name: self.count[name] for name in (*names, *codes, "called again", *PROBLEMS)}
        trials = self.count["runs"] + self.count["nights"]
        figures["workers started again"] = self.cluster.restarted
        return figures | {"seconds each": round(self.count["seconds"] / max(1, trials), 1)}


if __name__ == "__main__":
    main()
