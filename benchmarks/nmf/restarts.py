"""Many restarts of NMF in one pass, against scikit-learn's, and against separate runs: CPU seconds and errors.

python -m benchmarks.nmf.restarts --help

scikit-learn trains only some of the restarts. Its runs alternate with ours, and its CPU seconds are scaled up.
"""

import os

# One thread each, for BLAS as well. It reads these variables when NumPy is imported.
os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import time

import click
import numpy as np
from corpusmill import NMF

from benchmarks.common import JSON, QUICK, write_json
from benchmarks.nmf.data import load


def timed(function):
    """Call a function; return its result and the CPU-seconds that it took."""
    began = time.process_time()
    result = function()
    return result, time.process_time() - began


def summary(name, seconds, models, errors, epochs):
    """Return one row of the table, per restart."""
    return {
        "name": name,
        "seconds": seconds / models,
        "epochs": float(np.mean(epochs)),
        "milliseconds_per_epoch": 1e3 * seconds / float(np.sum(epochs)),
        "mean_error": float(np.mean(errors)),
        "lowest_error": float(np.min(errors)),
    }


def together(A, K, n, options):
    """Train n restarts in one pass."""
    models, seconds = timed(lambda: NMF(**options).fit_restarts(A, [(K, seed) for seed in range(n)]))
    errors = [model.reconstruction_err_ for model in models]
    return summary("corpusmill, side by side", seconds, n, errors, [model.n_iter_ for model in models])


def apart(A, K, n, options):
    """Train n restarts one after the other."""
    models, seconds = timed(lambda: [NMF(K, random_state=seed, **options).fit(A) for seed in range(n)])
    errors = [model.reconstruction_err_ for model in models]
    return summary("corpusmill, separate runs", seconds, n, errors, [model.n_iter_ for model in models])


def peer(A, K, n, tol, max_iter):
    """Train n restarts with scikit-learn, as cNMF does."""
    from sklearn import decomposition

    def train():
        found = []
        for seed in range(n):
            model = decomposition.NMF(K, init="random", solver="cd", tol=tol, max_iter=max_iter, random_state=seed)
            found.append(model.fit(A))
        return found

    models, seconds = timed(train)
    errors = [model.reconstruction_err_ for model in models]
    return summary("scikit-learn cd, float64", seconds, n, errors, [model.n_iter_ for model in models])


@click.command()
@click.option("--data", default="cells-5000", help="As for benchmarks.nmf.")
@click.option("--components", "-k", default=20)
@click.option("--restarts", default=100)
@click.option("--peers", default=5, help="Restarts of scikit-learn, and of ours one after the other.")
@click.option("--tol", default=1e-4, help="Both stop by the projected gradient.")
@click.option("--max-iter", default=1000)
@JSON
@QUICK
def main(data, components, restarts, peers, tol, max_iter, target, quick):
    """Compare CPU seconds and errors per restart."""
    if quick:
        data, components, restarts, peers, max_iter = "cells-200", 4, 4, 1, 5
    A = load(data)
    wide = A.astype(np.float64)
    options = {"tol": tol, "max_iter": max_iter, "convergence": "gradient", "device": "cpu"}
    together(A, components, 2, options | {"max_iter": 2})  # compiles
    apart(A, components, 1, options | {"max_iter": 2})
    rows = [peer(wide, components, peers, tol, max_iter), together(A, components, restarts, options)]
    rows += [apart(A, components, peers, options), peer(wide, components, peers, tol, max_iter)]
    print(f"{data}: {A.shape[0]} x {A.shape[1]}, {A.nnz} non-zeros, K = {components}; per restart:")
    print(f"{'':28}{'CPU s':>9}{'ratio':>8}{'epochs':>8}{'ms/epoch':>10}{'mean error':>12}{'lowest':>10}")
    base = min(rows[0]["seconds"], rows[-1]["seconds"])
    for row in rows:
        cells = f"{row['seconds']:>9.3f}{base / row['seconds']:>8.2f}{row['epochs']:>8.1f}"
        cells += f"{row['milliseconds_per_epoch']:>10.2f}{row['mean_error']:>12.3f}{row['lowest_error']:>10.3f}"
        print(f"{row['name']:28}{cells}")
    if target:
        write_json(target, rows)


if __name__ == "__main__":
    main()
