"""What an epoch of LDA would take on a corpus and a cluster that nobody has tried, by a cost model.

python -m benchmarks.scale.extrapolation --help

The constants come from other programs: those of the client and the scheduler from `benchmarks.scale`, those of packing
from `benchmarks.scale.packing`, and tokens per second from `benchmarks.scale.workers`.
"""

from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.common import JSON, print_row, write_json

#: Bytes of a token in chunks, and in states: read and written in each epoch if they do not fit into memory.
CHUNK_BYTES = 12
STATE_BYTES = 4
#: Bytes of an entry of the counts: the topic and the count.
ENTRY_BYTES = 6


@dataclass
class Constants:
    """What was measured, or is assumed."""

    tokens: float
    threads: int  # of each worker
    speed: float  # tokens per second and thread
    bandwidth: float  # bytes per second of each worker
    entries: float  # of the counts of the whole model
    growth: float  # entries grow with this power of the tokens
    packed: float  # share of the bytes that packed counts have
    unpacking: float  # bytes per second and thread, of the unpacked form
    coordination: float  # seconds of the client and the scheduler per worker
    memory: float  # bytes of each worker
    price: float  # dollars of each worker per hour


def extrapolate(c: Constants, n_workers: int) -> dict[str, float]:
    """Return the seconds of the parts of an epoch, the bytes of each worker, and the dollars of a hundred epochs."""
    model = ENTRY_BYTES * c.entries
    deltas = c.packed * model * (1 / n_workers) ** c.growth
    data = (CHUNK_BYTES + STATE_BYTES) * c.tokens / n_workers
    fits = data + model + deltas < c.memory
    sweeps = c.tokens / (n_workers * c.threads * c.speed)
    streams = 0.0 if fits else data / c.bandwidth
    reading = c.packed * model / c.bandwidth + model / (c.threads * c.unpacking)
    exchange = 2 * deltas / c.bandwidth  # each worker sends its counts, and receives as many
    coordination = c.coordination * n_workers
    epoch = max(sweeps, streams) + reading + exchange + coordination
    return {
        "sweeps, s": sweeps,
        "chunks and states during sweeps, s": streams,
        "reading the model, s": reading,
        "exchange of counts, s": exchange,
        "client and scheduler, s": coordination,
        "an epoch, s": epoch,
        "share of computing": sweeps / epoch,
        "counts that a worker sends, GB": deltas / 1e9,
        "model in the memory of a worker, GB": model / 1e9,
        "chunks and states of a worker, GB": data / 1e9,
        "price of 100 epochs, dollars": 100 * epoch / 3600 * n_workers * c.price,
    }


@click.command()
@click.option("--workers", multiple=True, type=int, default=[100, 1000], show_default=True)
@click.option("--tokens", default=1e12, show_default=True)
@click.option("--threads", default=8, show_default=True, help="Threads of each worker.")
@click.option("--speed", default=10e6, show_default=True, help="Tokens per second and thread.")
@click.option("--bandwidth", default=1.25e9, show_default=True, help="Bytes per second of each worker.")
@click.option("--entries", default=2.8e9, show_default=True, help="Entries of the counts of the model.")
@click.option("--growth", default=0.6, show_default=True, help="Entries grow with this power of the tokens.")
@click.option("--packed", default=0.25, show_default=True, help="Share of the bytes that packed counts have.")
@click.option("--unpacking", default=6e8, show_default=True, help="Bytes per second and thread, unpacked.")
@click.option("--coordination", default=0.006, show_default=True, help="Seconds of client and scheduler per worker.")
@click.option("--memory", default=64e9, show_default=True, help="Bytes of each worker.")
@click.option("--price", default=0.81, show_default=True, help="Dollars of each worker per hour.")
@JSON
def main(workers: list[int], target: Path | None, **constants: float) -> None:
    """Print the parts of an epoch for each number of workers."""
    found = {n: extrapolate(Constants(**constants), n) for n in workers}
    print(f"{'workers':>36}", end="  ")
    print_row(*map(str, workers))
    for name in next(iter(found.values())):
        print(f"{name:>36}", end="  ")
        print_row(*(figures[name] for figures in found.values()))
    if target is not None:
        write_json(target, found)


if __name__ == "__main__":
    main()
