"""The cost model of an epoch: constants per epoch, per task and per byte, fitted to measurements."""

import numpy as np
from scipy.optimize import nnls

#: The terms of the model; each is a seconds-per-unit constant times a number of units.
TERMS = ("epoch", "task", "megabyte")


def fit_costs(rows):
    """Return, for each process, the constants that fit its CPU seconds best: none is negative."""
    units = np.array([[1.0, row["tasks"], row["bytes"] / 1e6] for row in rows])
    costs = {}
    for process in ("client", "scheduler", "workers"):
        found, residual = nnls(units, np.array([row[process] for row in rows]))
        costs[process] = dict(zip(TERMS, found.tolist(), strict=True)) | {"residual": float(residual)}
    return costs


def print_costs(costs):
    """Print the constants in milliseconds of CPU time."""
    print("\nfitted cost model: milliseconds of CPU time of all processes of a kind")
    for process, found in costs.items():
        shown = ", ".join(f"{1000 * found[term]:.3g} per {term}" for term in TERMS)
        print(f"{process:>10}: {shown}; residual {1000 * found['residual']:.3g}")
