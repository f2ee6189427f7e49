"""NMF: time per epoch and time to an error, for several solvers that start from the same W and H.

python -m benchmarks.nmf --help
"""

import os

# One thread each, for BLAS as well. It reads these variables when NumPy is imported.
os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import time

import click
import numpy as np
import scipy.sparse

from benchmarks.common import JSON, QUICK, figure_grid, write_json
from benchmarks.nmf.data import load
from benchmarks.nmf.solvers import contenders
from benchmarks.papers import nmf_data_movement


def trace(model, epochs):
    """Return CPU-seconds and seconds of each epoch, and the errors after them."""
    cpu, wall, errors = [], [], []
    for _ in range(epochs):
        cpu_before = time.process_time()
        wall_before = time.perf_counter()
        model.epoch()
        cpu.append(time.process_time() - cpu_before)
        wall.append(time.perf_counter() - wall_before)
        errors.append(model.error())
    return {"cpu": cpu, "wall": wall, "errors": errors}


def sgemm_rate():
    """Return how many operations per second a float32 matrix product reaches on one thread of this machine."""
    a = np.random.default_rng(0).random((1024, 1024), np.float32)
    rates = []
    for _ in range(8):
        began = time.process_time()
        a @ a
        rates.append(2 * 1024**3 / (time.process_time() - began))
    return max(rates)


def compare(name, K, epochs, threads, chosen):
    """Measure solvers on one matrix; print a table and return its rows."""
    A = load(name)
    small = load("quick")
    if not scipy.sparse.issparse(A):
        small = small.toarray()
    table = []
    for label, make in chosen.items():
        make(small, 8).epoch()  # compiles
        table.append({"name": label} | trace(make(A, K), epochs))
    D, V = A.shape
    stored = A.nnz if scipy.sparse.issparse(A) else A.size
    work = nmf_data_movement.flops(V, D, K, stored)
    moved = nmf_data_movement.bytes_moved(V, D, K, stored)
    print_table(f"{name}: {D} x {V}, {stored} stored, K = {K}, {threads} thread(s)", table, work, moved)
    return {"data": name, "K": K, "threads": threads, "flops": work, "bytes": moved, "rows": table}


def fastest(row, clock):
    """Return the seconds of the fastest epoch after the first. Other programs on the machine only make it slower."""
    return min(row[clock][1:])


def time_to(row, error):
    """Return the epochs and CPU-seconds that a solver took to an error, as text."""
    for number, reached in enumerate(row["errors"], 1):
        if reached <= error:
            return str(number), f"{sum(row['cpu'][:number]):.2f}"
    return "-", "-"


def print_table(title, table, work, moved):
    """Print seconds, errors, and how many times as fast as scikit-learn each row is."""
    base = fastest(table[-1], "cpu")
    goal = table[0]["errors"][-1]
    rate = sgemm_rate()
    print(f"\n{title}\n  needs {work / 1e9:.2f} Gflop: {work / rate:.3f} s at one core's sgemm, {rate / 1e9:.0f} GF/s")
    print(f"  and {moved / 1e6:.0f} MB; ratios: to the last row's CPU seconds; goal: the first row's last error")
    head = ("CPU s", "ratio", "wall s", "ratio", "GF/s", "error 3", "error last", "goal at", "CPU s")
    print(" " * 38 + "".join(f"{name:>11}" for name in head))
    for row in table:
        cpu = fastest(row, "cpu")
        wall = fastest(row, "wall")
        third = row["errors"][:3][-1]
        cells = [f"{cpu:.3f}", f"{base / cpu:.2f}", f"{wall:.3f}", f"{base / wall:.2f}", f"{work / cpu / 1e9:.1f}"]
        cells += [f"{third:.6f}", f"{row['errors'][-1]:.6f}", *time_to(row, goal)]
        print(f"  {row['name']:36}" + "".join(f"{cell:>11}" for cell in cells))


def draw(found, path):
    """Draw relative errors over epochs and over seconds, one row of two panels per table."""
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = figure_grid(len(found), 2, 5, 3.6)
    for (left, right), table in zip(axes, found, strict=True):
        for row in table["rows"]:
            # Curves lie on top of each other where errors are equal, so other systems are dashed.
            style = "-" if row["name"].startswith("corpusmill") else (0, (2, 2))
            left.plot(range(1, len(row["errors"]) + 1), row["errors"], linestyle=style, label=row["name"])
            right.plot(np.cumsum(row["cpu"]), row["errors"], linestyle=style)
        lowest = min(row["errors"][-1] for row in table["rows"])
        left.sharey(right)
        left.set_ylim(lowest - 0.001, table["rows"][0]["errors"][1])
        left.set(xlabel="epochs", ylabel="relative error", title=f"{table['data']}, K = {table['K']}")
        right.set(xlabel="CPU seconds", xscale="log")
        left.legend(frameon=False)
    figure.tight_layout()
    # Without a date, the same figures give the same file.
    figure.savefig(path, dpi=70, metadata={"Date": None} if path.endswith(".svg") else None)


@click.command()
@click.option(
    "--data",
    multiple=True,
    default=("20news-tfidf",),
    help="20news-tfidf, 20news-counts, tdt2, faces, or cells-5000 for 5,000 generated cells",
)
@click.option("--components", "-k", multiple=True, type=int, default=(80, 256))
@click.option("--epochs", default=6)
@click.option("--threads", multiple=True, type=int, default=(1, 2))
@click.option("--slow", is_flag=True, help="Also run ANLS-BPP.")
@click.option("--only", multiple=True, help="Run only the solvers with these names.")
@JSON
@click.option(
    "--picture", type=click.Path(), help="Draw errors over epochs and over seconds to this file (SVG or PNG)."
)
@QUICK
def main(data, components, epochs, threads, slow, only, target, picture, quick):
    """Compare solvers. The data come from the folder that the environment variable CORPUSMILL_DATA names."""
    if quick:
        data, components, epochs, slow = ("quick",), (8,), 3, True
    found = []
    for number in threads:
        chosen = {name: make for name, make in contenders(number, slow).items() if not only or name in only}
        found += [compare(name, K, epochs, number, chosen) for name in data for K in components]
    if picture:
        draw(found, picture)
    if target:
        write_json(target, found)


if __name__ == "__main__":
    main()
