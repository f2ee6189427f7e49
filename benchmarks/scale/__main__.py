"""What an epoch costs besides its sweeps, on clusters of up to a hundred workers that sleep.

python -m benchmarks.scale --help
"""

import os
import statistics
import tempfile

import click
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import EpochFinished, RunStarted
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.run import RunStore

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.scale.cluster import SplitCluster
from benchmarks.scale.costs import fit_costs, print_costs
from benchmarks.scale.delayed import LATENCY, PROTOCOL
from benchmarks.scale.sleeper import Sleeper, write_corpus

COLUMNS = ("W", "S", "B", "ideal s", "epoch s", "overhead s", "tasks", "MB", "client s", "sched. s", "worker s")


@click.command()
@click.option("--workers", multiple=True, type=int, default=[2, 8, 32, 100], show_default=True)
@click.option("--threads", default=1, show_default=True, help="Threads of each worker.")
@click.option("--shards", multiple=True, type=int, help="The default is eight shards per worker.")
@click.option("--blocks", multiple=True, type=int, default=[1, 16], show_default=True)
@click.option("--seconds", default=1.0, show_default=True, help="Ideal seconds of an epoch.")
@click.option("--delta-kb", default=64.0, show_default=True, help="Size of a shard's delta of one block.")
@click.option("--state-kb", default=0.0, show_default=True, help="Size of a chunk's state.")
@click.option("--floats", is_flag=True, help="Merge along the fixed tree, as for sums that are rounded.")
@click.option("--slowness", default=1.0, show_default=True, help="One worker takes this many times as long.")
@click.option("--epochs", default=3, show_default=True, help="Epochs to measure, after one that is left out.")
@click.option("--latency-ms", default=0.0, help="Keep corpus and run in a store whose requests take this time.")
@click.option("--larger-than-memory", is_flag=True, help="Workers have no memory to keep chunks and states.")
@click.option("--processes", default=2, show_default=True, help="Processes that the workers are divided over.")
@JSON
@QUICK
def main(workers, threads, shards, blocks, seconds, target, quick, epochs, processes, larger_than_memory, **options):
    """Print seconds, tasks, bytes and CPU time of an epoch, and fit the constants of the cost model."""
    if quick:
        workers, shards, blocks, seconds, epochs = [2, 3], [6], [1, 2], 0.1, 1
    latency = options["latency_ms"]
    os.environ[LATENCY] = str(latency)
    rows = []
    print_row(*COLUMNS, width=10)
    for n_workers in workers:
        starting = SplitCluster(n_workers, threads, processes, larger_than_memory)
        with starting as cluster, tempfile.TemporaryDirectory() as folder:
            place = f"{PROTOCOL}://{folder}" if latency else folder
            for n_shards in shards or [8 * n_workers * threads]:
                write_corpus(f"{folder}/corpus-{n_shards}", n_shards)
                corpus = Corpus(f"{place}/corpus-{n_shards}")
                for n_blocks in blocks:
                    case = {"W": n_workers, "T": threads, "S": n_shards, "B": n_blocks, "ideal": seconds}
                    found = measure(cluster, corpus, f"{place}/run-{n_shards}-{n_blocks}", case, options, epochs)
                    rows.append(case | found)
                    print_case(rows[-1])
    costs = fit_costs(rows)
    print_costs(costs)
    print_phases(rows)
    if target is not None:
        write_json(target, {"rows": rows, "costs": costs})


def measure(cluster, corpus, folder, case, options, epochs):
    """Train, and return the medians of what the epochs took, without the first one."""
    slots = case["W"] * case["T"]
    algorithm = Sleeper(
        bounds=tuple(range(case["B"] + 1)),
        seconds=case["ideal"] * slots / case["S"],
        delta_bytes=int(options["delta_kb"] * 1024),
        state_bytes=int(options["state_kb"] * 1024),
        exact=not options["floats"],
        slow_worker="w000" if options["slowness"] > 1 else "",
        slowness=options["slowness"],
    )
    counters = []

    def count(event):
        if isinstance(event, RunStarted | EpochFinished):
            counters.append(cluster.measure())

    run = RunStore(folder)
    training = Training(algorithm, corpus, run, epochs + 1, evaluate_every=0, callbacks=[count])
    train(training, OnDask(cluster.client))
    differences = [
        {name: after[name] - before[name] for name in after}
        for before, after in zip(counters[1:-1], counters[2:], strict=True)
    ]
    found = {name: statistics.median(d[name] for d in differences) for name in differences[0]}
    phases = [name for name in run.metrics[-1] if name.startswith("seconds")]
    return found | {name: statistics.median(row[name] for row in run.metrics[1:]) for name in phases}


def print_case(row):
    """Print one line of the table; the CPU time of workers is that of one of them."""
    print_row(
        *(row[name] for name in ("W", "S", "B", "ideal", "wall")),
        row["wall"] - row["ideal"],
        round(row["tasks"]),
        row["bytes"] / 1e6,
        row["client"],
        row["scheduler"],
        row["workers"] / row["W"],
        width=10,
    )


def print_phases(rows):
    """Print where the time of an epoch went."""
    phases = [name for name in rows[0] if name.startswith("seconds")]
    print("\nseconds of an epoch by cause; read, kernel and write are those of one thread of the workers")
    print_row("W", "S", "B", *(name.removeprefix("seconds_") for name in phases), width=10)
    for row in rows:
        slots = row["W"] * row["T"]
        shown = [row[n] / slots if n in ("seconds_read", "seconds_kernel", "seconds_write") else row[n] for n in phases]
        print_row(row["W"], row["S"], row["B"], *shown, width=10)


if __name__ == "__main__":
    main()
