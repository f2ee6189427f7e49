"""Train for minutes on a local cluster while workers are killed at random, now and then the client, too.

python benchmarks/soak.py --minutes 10

Each run is resumed until it is done; then its model must have the bits of an undisturbed one, every piece of its last
epoch must be readable, and nothing temporary may be left. Between two kills at least one epoch is committed: otherwise
a slow machine would only ever start workers.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
import numpy as np
import psutil
from corpusmill.pipeline import LDA, Corpus
from corpusmill.pipeline.clusters import open_cluster
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import IngestOptions, ingest

#: Signals that end the client, and how often each is chosen.
SIGNALS = {signal.SIGKILL: 2, signal.SIGTERM: 1}


@click.command()
@click.option("--minutes", default=10.0)
@click.option("--every", default=3.0, help="Seconds between two kills, in the mean.")
@click.option("--workers", default=3)
@click.option("--epochs", default=40, help="Epochs of each run.")
@click.option("--documents", default=4000)
@click.option("--seed", default=1, help="Of the faults; the runs count on from it.")
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.option("--quick", is_flag=True, help="Half a minute: does it run?")
def main(minutes, every, workers, epochs, documents, seed, target, quick):
    """Print what was killed, and whether all runs came to the right bits."""
    if quick:
        minutes, every, workers, epochs, documents = 0.5, 2.0, 2, 10, 500
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(Path(folder), epochs, workers)
        soak.prepare(documents)
        soak.until(time.monotonic() + 60 * minutes, every, random.Random(seed))
        found = soak.figures()
    click.echo("\n".join(f"{name:<34} {value}" for name, value in found.items()))
    if target:
        Path(target).write_text(json.dumps(found, indent=1))
    sys.exit(found["runs with other bits"] + found["damaged runs"] > 0)


class Soak:
    """One corpus, and runs on it until time is up."""

    def __init__(self, folder, epochs, workers):
        self.folder, self.epochs, self.workers = folder, epochs, workers
        self.count = Counter({"runs": 0, "wrong": 0, "damaged": 0, "worker": 0, "restarts": 0})
        self.epoch_seconds = 0.0

    def prepare(self, documents):
        """Write a corpus and train an undisturbed model on it."""
        draw = np.random.default_rng(0)
        texts = [[f"w{w}" for w in np.minimum(draw.zipf(1.3, 120), 3000)] for _ in range(documents)]
        ingest(texts, str(self.folder / "corpus"), IngestOptions(chunk_tokens=documents * 120 // 24))
        with open_cluster("local", n_workers=self.workers, memory_limit="2GiB") as client:
            began = time.monotonic()
            self.expected = model(self.epochs).fit(Corpus(str(self.folder / "corpus")), client, run=None).components_
            self.undisturbed = time.monotonic() - began

    def until(self, end, every, chance):
        """Run after run, the last one to its end."""
        while time.monotonic() < end:
            self.run(self.folder / f"run-{self.count['runs']}", every, chance)

    def run(self, folder, every, chance):
        """Train to the end, whatever it takes, and look at what is there."""
        began = time.monotonic()
        client, step = self.start(folder), -1
        while client.poll() is None or client.returncode != 0:
            if client.poll() is not None:
                self.count[f"exit {client.returncode}"] += 1
                self.count["restarts"] += 1
                client = self.start(folder)
            try:
                client.wait(chance.expovariate(1 / every))
            except subprocess.TimeoutExpired:
                now = RunStore(str(folder)).step
                if now > step:
                    self.harm(client, chance)
                    step = now
        self.count["seconds"] += time.monotonic() - began
        self.count["runs"] += 1
        self.judge(folder)

    def start(self, folder):
        """Begin or resume a run in a process of its own."""
        arguments = [str(folder), str(self.folder / "corpus"), str(self.epochs), str(self.workers)]
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import soak; soak.train(*sys.argv[1:])"
        return subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)

    def harm(self, client, chance):
        """Kill a worker, and one time in eight the client with all that it started."""
        below = [
            p for p in psutil.Process(client.pid).children(recursive=True) if "spawn_main" in " ".join(p.cmdline())
        ]
        if chance.random() < 0.125:
            chosen = chance.choices(list(SIGNALS), list(SIGNALS.values()))[0]
            self.count[f"client by {chosen.name}"] += 1
            client.send_signal(chosen)
            client.wait(120)
            for process in below:
                with_patience(process)
        elif below:
            self.count["worker"] += 1
            try:
                chance.choice(below).kill()
            except psutil.NoSuchProcess:
                self.count["worker"] -= 1

    def judge(self, folder):
        """Compare bits; read everything that the last epoch left."""
        run = RunStore(str(folder))
        trained = LDA.from_run(str(folder))
        self.count["epochs"] += trained.n_iter_
        self.count["wrong"] += not np.array_equal(trained.components_, self.expected)
        states = [run.state(run.step, chunk) for shard in run.meta["shards"] for chunk in shard]
        rows = [row["epoch"] for row in run.metrics]
        temporary = list(folder.rglob(".tmp-*"))
        self.count["damaged"] += bool(temporary) or rows != list(range(1, self.epochs + 1)) or not all(states)
        for row in run.metrics:
            self.epoch_seconds += row["seconds"]

    def figures(self):
        """Return the figures by name."""
        runs, count = max(1, self.count["runs"]), self.count
        killed = {k: v for k, v in count.items() if k.startswith(("client", "exit"))}
        return {
            "runs": count["runs"],
            "epochs": count["epochs"],
            "workers killed": count["worker"],
            **{
                k.replace("client", "clients ended") if k.startswith("client") else f"clients with {k}": v
                for k, v in killed.items()
            },
            "resumed": count["restarts"],
            "runs with other bits": count["wrong"],
            "damaged runs": count["damaged"],
            "seconds a run": round(count["seconds"] / runs, 1),
            "undisturbed": round(self.undisturbed, 1),
        }


def with_patience(process):
    """Wait until a worker of a client that died is gone, as its nanny sees to."""
    try:
        process.wait(60)
    except psutil.TimeoutExpired:
        process.kill()


def model(epochs):
    """Return the model that is trained."""
    return LDA(20, doc_topic_prior=0.1, max_iter=epochs, random_state=3)


def train(folder, corpus, epochs, workers):
    """Train in this process until it is killed: what the soak starts."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with open_cluster("local", n_workers=int(workers), memory_limit="2GiB") as client:
        model(int(epochs)).fit(Corpus(corpus), client, run=folder, evaluate_every=0)


if __name__ == "__main__":
    main()
