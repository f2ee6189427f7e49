"""How much faster many workers train word vectors: measured times of cells, and a simulated cluster.

python -m benchmarks.scale.grid_speed CORPUS

Sweeps and cells of one step are run one by one in this process and timed by the CPU clock. A simulation then runs them
on workers in the engine's order. A worker's threads take its cells in turn and wait for rows and columns. A column goes
from worker to worker over a network; a message also occupies both workers' network threads for a while. The cost of
coordination is that of docs/explanation/scaling.md.
"""

import time
from dataclasses import dataclass

import click
import numpy as np
from corpusmill import Corpus, Word2Vec
from corpusmill.kernels.simd.aligned import aligned_copy
from corpusmill.pipeline.engine.algorithm import Address, Shard
from corpusmill.pipeline.engine.cluster.pool import balanced_places
from corpusmill.pipeline.engine.grid import Grid
from corpusmill.pipeline.engine.memory import Capacity

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.scale.large_model import write_random_corpus

COLUMNS = (
    *("P", "steps", "passes", "cell ms", "column MB", "workers", "threads"),
    *("seconds", "sweeps", "coord.", "training", "speedup"),
)


@dataclass
class Costs:
    """What one step costs on one thread, in seconds of CPU, and the sizes of what is sent."""

    sweeps: float
    prepare: float
    apply: float
    cells: np.ndarray  # (passes, P, P)
    pair_bytes: int
    column_bytes: float


@dataclass
class Network:
    """A network, and what a step costs the client and the scheduler."""

    bandwidth: float  # bytes per second, in each direction
    message: float  # seconds that a message occupies the network threads of both workers
    step: float  # seconds per step
    worker: float  # seconds per step and worker


@click.command(help=__doc__.split("\n")[0])
@click.argument("corpus", required=False)
@click.option("--blocks", multiple=True, type=int, default=[8, 16, 32], show_default=True)
@click.option("--workers", multiple=True, type=int, default=[1, 2, 4, 8, 16], show_default=True)
@click.option("--threads", default=1, show_default=True, help="Threads of each worker.")
@click.option("--epochs", default=1, show_default=True)
@click.option("--vector-size", default=128, show_default=True)
@click.option("--bandwidth", default=1.25e9, show_default=True, help="Bytes per second.")
@click.option("--message", default=0.0005, show_default=True, help="Seconds of both workers per message.")
@JSON
@QUICK
def main(corpus, blocks, workers, threads, epochs, vector_size, bandwidth, message, target, quick):
    """Print speedups over one thread of one worker."""
    if quick:
        data = write_random_corpus("corpus", 2000, 20_000)
        blocks, workers = blocks[:1], workers[:2]
    else:
        data = Corpus(corpus)
    network = Network(bandwidth, message, step=0.1, worker=0.006)
    rows = []
    print("seconds are those of all steps; sweeps, coordination and training are parts of them")
    print_row(*COLUMNS, width=9)
    for n_blocks in blocks:
        model = Word2Vec(vector_size, epochs=epochs, n_blocks=n_blocks, min_count=1 if quick else 5, device="cpu")
        algorithm = model._algorithm(data)
        costs = measure(algorithm, data)
        steps = algorithm.steps
        alone = None
        for n_workers in workers:
            parts = steps * step_seconds(algorithm, costs, network, n_workers, threads)
            seconds = sum(parts)
            if alone is None:
                alone = sum(steps * step_seconds(algorithm, costs, network, 1, 1))
            row = {
                "P": n_blocks,
                "steps": steps,
                "passes": algorithm.passes,
                "cell": 1e3 * float(costs.cells.mean()),
                "column": costs.column_bytes / 1e6,
                "workers": n_workers,
                "threads": threads,
                "seconds": seconds,
                "sweeps": parts[0],
                "coord.": parts[1],
                "training": parts[2],
                "speedup": alone / seconds,
            }
            rows.append(row)
            print_row(*row.values(), width=9)
    if target is not None:
        write_json(target, rows)


# --- measured ---


class FirstModel:
    """The model before the first step."""

    def __init__(self, algorithm, data):
        self.shared = algorithm.begin_shared(data, None)
        blocks = algorithm.begin(data, range(algorithm.n_blocks), None)
        # Workers train copies that begin with a cache line, too.
        self.blocks = [{name: aligned_copy(array) for name, array in block.items()} for block in blocks]

    def block(self, index):
        """Return the arrays of a block."""
        return self.blocks[index]

    def joined(self, name):
        """Return one array of all blocks."""
        return np.concatenate([block[name] for block in self.blocks])


def measure(algorithm, data):
    """Run the first step, one task after the other, twice: the first time includes compilation."""
    model = FirstModel(algorithm, data)
    for _ in range(2):
        clock = Clock()
        deltas = None
        for chunk in range(0, len(data.chunks), algorithm.rounds):
            loaded = algorithm.load_chunk(data, chunk, model)
            clock.skip()
            shard = Shard(deltas, range(algorithm.n_blocks))
            deltas = algorithm.sweep(model, loaded, None, shard, Address(1, 1, chunk)).deltas
            clock.lap("sweeps")
        prepared = [algorithm.prepare(row, delta) for row, delta in enumerate(deltas)]
        clock.lap("prepare")
        cells = np.zeros((algorithm.passes, algorithm.n_blocks, algorithm.n_blocks))
        grid = Grid(1, 1, algorithm.n_blocks, algorithm.passes)
        for _, cell in grid.cells(range(algorithm.n_blocks), algorithm.n_blocks):
            rows, columns = model.blocks[cell.row], model.blocks[cell.column]
            clock.skip()
            algorithm.train_cell(rows, columns, prepared[cell.row], model.shared, cell, 1)
            cells[cell.grid_pass, cell.row, cell.column] = clock.lap("cells")
        apply_seconds = 2e-9 * sum(block["W_in"].nbytes for block in model.blocks)
    return Costs(
        sweeps=clock.seconds["sweeps"],
        prepare=clock.seconds["prepare"],
        apply=apply_seconds,
        cells=cells,
        pair_bytes=sum(pair_bytes(delta) for delta in deltas),
        column_bytes=float(np.mean([block["W_out"].nbytes for block in model.blocks])),
    )


def pair_bytes(delta):
    """Return the bytes of the pairs in a delta."""
    return sum(array.nbytes for name, array in delta.items() if name.startswith("pairs"))


class Clock:
    """Seconds of this thread's CPU, by name."""

    def __init__(self):
        self.seconds = {}
        self.last = time.thread_time()

    def skip(self):
        """Count the time since the last call for nothing."""
        self.last = time.thread_time()

    def lap(self, name):
        """Add the time since the last call, and return it."""
        now = time.thread_time()
        lapped, self.last = now - self.last, now
        self.seconds[name] = self.seconds.get(name, 0.0) + lapped
        return lapped


# --- simulated ---


def step_seconds(algorithm, costs, network, n_workers, threads):
    """Return the seconds of one step: of sweeps, of coordination and exchange of pairs, and of rows and cells."""
    slots = n_workers * threads
    coordination = network.step + network.worker * n_workers
    deltas = costs.pair_bytes / n_workers * (1 - 1 / n_workers) / network.bandwidth
    owners = rows_of_workers(algorithm.n_blocks, n_workers, threads)
    # Rows are prepared by the threads of their worker; blocks are written by them too.
    by_row = (costs.prepare + costs.apply) / algorithm.n_blocks
    most = max(np.bincount(owners))
    rows = by_row * -(-most // threads)
    training = rows + train_seconds(algorithm, costs, network, owners, threads)
    return np.array([costs.sweeps / slots, coordination + deltas, training])


def rows_of_workers(n_blocks, n_workers, threads):
    """Return the worker of each row, as the engine assigns them."""
    capacities = [Capacity(f"w{number:03d}", str(number), threads, 0) for number in range(n_workers)]
    return np.array([int(address) for address in balanced_places([1] * n_blocks, capacities)])


def train_seconds(algorithm, costs, network, owners, threads):
    """Return the seconds from the first cell to the end of the last one."""
    n_blocks = algorithm.n_blocks
    grid = Grid(1, 1, n_blocks, algorithm.passes)
    transfer = costs.column_bytes / network.bandwidth + network.message
    free = [[0.0] * threads for _ in range(owners.max() + 1)]  # when each thread of each worker is free
    sending = np.zeros(len(free))  # when a worker's network thread has sent what it sends
    receiving = np.zeros(len(free))
    row_ready = np.zeros(n_blocks)
    column_ready = np.zeros(n_blocks)
    holder = np.full(n_blocks, -1)
    for _, cell in grid.cells(range(n_blocks), n_blocks):
        worker = owners[cell.row]
        before = holder[cell.column]
        arrival = column_ready[cell.column]
        if before not in (-1, worker):
            begin = max(arrival, sending[before], receiving[worker])
            arrival = begin + transfer
            sending[before] = receiving[worker] = arrival
        thread = int(np.argmin(free[worker]))
        start = max(free[worker][thread], row_ready[cell.row], arrival)
        end = start + costs.cells[cell.grid_pass, cell.row, cell.column]
        free[worker][thread] = row_ready[cell.row] = column_ready[cell.column] = end
        holder[cell.column] = worker
    return max(row_ready)


if __name__ == "__main__":
    main()
