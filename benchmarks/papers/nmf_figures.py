"""Chapter 3 of Moon's dissertation and ALO-NMF (Moon et al., KDD 2020): two papers with the same experiments."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse

from benchmarks.common import Session, fastest_cpu_seconds
from benchmarks.nmf.data import load
from benchmarks.nmf.solvers import contenders, start
from benchmarks.papers import nmf_data_movement as movement
from benchmarks.papers import nmf_sweeps
from benchmarks.papers.kernels import tiled
from benchmarks.papers.registry import Chart, Curve, Measured, Run

#: The first call may still load what the second one finds in the cache.
cpu_seconds = partial(fastest_cpu_seconds, turns=2)
LOCAL = "corpusmill paper"
COLUMNS = "FAST-HALS by columns"
#: Names of solvers on the page, where they differ.
NAMES = {LOCAL: "FAST-HALS in tiles", "corpusmill separable": "FAST-HALS of the package"}


def matrix_of(session: Session, name: str):
    """Read a matrix (documents, words), or make a small one if the session is quick."""
    return load("quick" if session.quick else name, session.data)


def products(A, K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return W (V, K) at random, and what an update of it needs: P = Aᵀ H (V, K) and Q = Hᵀ H (K, K)."""
    W, H = start(A, K, True)
    return W, np.asarray(A.T @ H), H.T @ H


# --- tile sizes ---


def tile_sizes(
    session: Session,
    components: tuple[int, ...] = (80, 160, 240),
    tiles: tuple[int, ...] = (1, 2, 5, 8, 10, 15, 20, 30, 40, 80, 160, 240),
    corpora: tuple[str, ...] = ("20news-tfidf", "faces"),
) -> Measured:
    """Dissertation, Figure 3.6; ALO-NMF, Figure 4: time of an update of W by the width of a tile."""
    values = {}
    charts = []
    compile_tiles()
    for name in corpora:
        A = matrix_of(session, name)
        curves = []
        for K in components:
            W, P, Q = products(A, K)
            widths = [T for T in tiles if K >= T]
            seconds = [cpu_seconds(partial(tiled.update, W.copy(), P, Q, T, True)) for T in widths]
            best = widths[int(np.argmin(seconds))]
            model = tiled.tile_size(K)
            values[f"{name}, K = {K}: best T"] = best
            values[f"{name}, K = {K}: T of equation 11"] = tiled.best_tile(K)
            at_model = float(np.interp(model, widths, seconds))
            values[f"{name}, K = {K}: time at the T of equation 11 over the best"] = at_model / min(seconds)
            curves.append(Curve(f"K = {K}", widths, seconds))
        charts.append(Chart(name, "width T of a tile", "CPU-seconds per update of W", curves, x_log=True, y_log=True))
    return Measured(values, charts)


# --- where the time goes ---


def breakdown(session: Session, components: int = 240, tile: int = 15, corpus: str = "20news-tfidf") -> Measured:
    """Dissertation, Table 3.5; ALO-NMF, Table 2: seconds of each step of an update of W."""
    A = matrix_of(session, corpus)
    W, P, Q = products(A, components)
    _, H = start(A, components, True)
    A_by_words = scipy.sparse.csr_matrix(A.T)
    old = nmf_sweeps.phase_1(W, Q, tile, True)
    values = {
        "SpMM": cpu_seconds(lambda: A_by_words @ H),
        "DMM": cpu_seconds(lambda: H.T @ H),
        "FAST-HALS: DMV": cpu_seconds(lambda: nmf_sweeps.update_by_columns(W.copy(), P, Q, True)),
        "PL-NMF: phase 1": cpu_seconds(lambda: nmf_sweeps.phase_1(W, Q, tile, True)),
        "PL-NMF: phases 2 and 3": cpu_seconds(
            lambda: nmf_sweeps.phases_2_and_3(W.copy(), old.copy(), P, Q, tile, True)
        ),
        "all phases, one product per tile": cpu_seconds(lambda: tiled.update(W.copy(), P, Q, tile, True)),
    }
    phases = values["PL-NMF: phase 1"] + values["PL-NMF: phases 2 and 3"]
    values["DMV over all phases"] = values["FAST-HALS: DMV"] / phases
    return Measured(values)


# --- error over time and over epochs ---


def trace(session: Session, name: str, K: int, systems: tuple[str, ...], epochs: int, seconds: float) -> dict:
    """Return by solver the CPU-seconds after each epoch and the errors; an expensive solver makes fewer epochs."""
    A = matrix_of(session, name)
    makers = contenders(1, True)
    found = {}
    for system in systems:
        if session.seed == 1:
            # Compiles or loads the kernels. Which ones are used depends on the size.
            makers[system](A, K).epoch()
        model = makers[system](A, K)
        spent = 0.0
        times = []
        errors = []
        while len(times) < FIRST_EPOCHS or (len(times) < epochs and spent < seconds):
            began = time.process_time()
            model.epoch()
            spent += time.process_time() - began
            times.append(spent)
            errors.append(model.error())
        found[system] = (times, errors)
    return found


def per_epoch(times: list[float]) -> float:
    """Return the CPU-seconds of the fastest epoch."""
    return min(np.diff([0.0, *times]))


#: Epochs of every solver, however slow.
FIRST_EPOCHS = 2
SYSTEMS = (LOCAL, COLUMNS, "corpusmill separable", "MU")


def convergence(
    session: Session,
    components: tuple[int, ...] = (240,),
    systems: tuple[str, ...] = SYSTEMS,
    epochs: int = 1000,
    seconds: float = 2.0,
    corpora: tuple[str, ...] = ("20news-tfidf", "tdt2", "faces"),
) -> Measured:
    """Dissertation, Figures 3.7 and 3.8; ALO-NMF, Figures 5 and 6: relative error over time and over epochs."""
    values = {}
    charts = []
    for name in corpora:
        for K in components:
            found = trace(session, name, K, systems, epochs, seconds)
            title = f"{name}, K = {K}"
            for solver, (times, errors) in found.items():
                system = NAMES.get(solver, solver)
                values[f"{title}: {system}, error after {FIRST_EPOCHS} epochs"] = errors[FIRST_EPOCHS - 1]
                values[f"{title}: {system}, CPU-seconds of {FIRST_EPOCHS} epochs"] = times[FIRST_EPOCHS - 1]
                # There is no error before the first epoch has ended, nor after the last one.
                after = float(np.interp(seconds, times, errors, left=np.nan, right=np.nan))
                values[f"{title}: {system}, error after {seconds:g} s"] = after
            ratio = per_epoch(found[COLUMNS][0]) / per_epoch(found[LOCAL][0])
            values[f"{title}: time per epoch of FAST-HALS over tiles"] = ratio
            charts.append(over(title, "CPU-seconds", found, by_time=True))
            charts.append(over(title, "epochs", found, by_time=False))
    return Measured(values, charts)


def over(title: str, label: str, found: dict, by_time: bool) -> Chart:
    """Return a panel of errors over CPU-seconds or over epochs."""
    curves = []
    for system, (times, errors) in found.items():
        x = times if by_time else list(range(1, len(errors) + 1))
        curves.append(Curve(NAMES.get(system, system), x, errors))
    return Chart(title, label, "relative error", curves, x_log=by_time)


def speed_to_errors(
    session: Session,
    components: int = 240,
    systems: tuple[str, ...] = (LOCAL, COLUMNS, "MU", "scikit-learn cd"),
    epochs: int = 10,
    seconds: float = 4.0,
    corpora: tuple[str, ...] = ("20news-tfidf", "faces"),
) -> Measured:
    """Dissertation, Figure 3.9; ALO-NMF, Figure 7: how much sooner the tiled solver reaches an error."""
    values = {}
    charts = []
    for name in corpora:
        found = trace(session, name, components, systems, epochs, seconds)
        goal = max(min(errors) for _, errors in found.values())
        values[f"{name}: error that all solvers reach"] = goal
        curves = []
        for system in systems[1:]:
            values[f"{name}: time of {system} over that of tiles, to equal error"] = seconds_to(
                goal, found[system]
            ) / seconds_to(goal, found[LOCAL])
            goals, ratios = ratios_to(found[system], found[LOCAL])
            if ratios:
                curves.append(Curve(system, goals, ratios))
        charts.append(Chart(name, "relative error", "time over that of tiles", curves, y_log=True))
    return Measured(values, charts)


def seconds_to(goal: float, found: tuple[list[float], list[float]]) -> float:
    """Return the CPU-seconds of a solver until an error that it reaches; at least those of its first epoch."""
    times, errors = found
    return float(np.interp(-goal, -np.minimum.accumulate(errors), times))


def ratios_to(other: tuple, own: tuple) -> tuple[list[float], list[float]]:
    """Return the errors of the other solver's epochs that ours reaches too, and the ratios of the times until then.

    An error that ours has passed in its first epoch takes that epoch, so such a ratio is a lower limit.
    """
    goals = [error for error in other[1] if error >= min(own[1])]
    ratios = [seconds / seconds_to(error, own) for seconds, error in zip(*other, strict=True) if error >= min(own[1])]
    return goals, ratios


# --- large K ---


def large_ranks(
    session: Session,
    components: tuple[int, ...] = (200, 400, 800),
    share: float = 0.25,
    corpus: str = "tdt2",
) -> Measured:
    """Dissertation, Figure 3.10; ALO-NMF, Figure 8: speed-up over FAST-HALS by columns for many components."""
    A = matrix_of(session, corpus)
    A = A[: int(share * A.shape[0]), : int(share * A.shape[1])]
    compile_tiles()
    values = {}
    ratios = []
    for K in components:
        seconds = {}
        for solver in ("columns", "tiles"):
            seconds[solver] = fastest_cpu_seconds(epoch_of(A, K, solver), 1)
        ratios.append(seconds["columns"] / seconds["tiles"])
        values[f"K = {K}"] = ratios[-1]
    return Measured(values)


def compile_tiles() -> None:
    """Compile or load the kernel of the tiles, so that no measurement includes it."""
    for normalise in (False, True):
        X = np.ones((4, 4), np.float32)
        tiled.update(X, X.copy(), X.copy(), 2, normalise)


def epoch_of(A, K: int, solver: str) -> Callable[[], None]:
    """Return a function that runs one epoch, with sparse products by SciPy in both cases."""
    W, H = start(A, K, True)
    by_words = scipy.sparse.csr_matrix(A.T)
    T = tiled.tile_size(K)

    def update(X, P, Q, normalise):
        if solver == "columns":
            nmf_sweeps.update_by_columns(X, P, Q, normalise)
        else:
            tiled.update(X, P, Q, T, normalise)

    def epoch():
        update(H, A @ W, W.T @ W, False)
        update(W, by_words @ H, H.T @ H, True)

    return epoch


# --- formulas, and sizes of the data ---


def numbers_moved(session: Session, V: int = 26_214, K: int = 240, T: int = 15, cache: float = 35 << 20) -> Measured:
    """Section 3.6 of the dissertation, section 5 of ALO-NMF: numbers moved in an update of W, by closed formulas."""
    by_columns = movement.moved_by_loop(V, K)
    in_tiles = movement.moved(V, K, T, cache)
    values = {
        "by columns": by_columns,
        "in tiles": in_tiles,
        "by columns over tiles": by_columns / in_tiles,
        "best T by equation 11": tiled.best_tile(K, cache),
    }
    widths = [T for T in range(1, K + 1) if K % T == 0]
    curve = Curve("", widths, [movement.moved(V, K, T, cache) for T in widths])
    chart = Chart(f"V = {V:,}, K = {K}", "width T of a tile", "numbers moved", [curve], x_log=True, y_log=True)
    return Measured(values, [chart])


def operations(session: Session, V: int = 26_214, D: int = 11_314, K: int = 256, T: int = 16) -> Measured:
    """ALO-NMF, Table 3: operations of an epoch, and the rates that follow from the paper's and from our seconds."""
    compile_tiles()
    A = matrix_of(session, "20news-tfidf")
    rates = {}
    for solver in ("columns", "tiles"):
        rates[solver] = movement.hals_flops(V, D, K) / fastest_cpu_seconds(
            epoch_of(A, K if not session.quick else 8, solver), 1
        )
    values = {
        "operations of an epoch of FAST-HALS": movement.hals_flops(V, D, K),
        "operations of an epoch of ALO-NMF": movement.tiled_flops(V, D, K, T),
        "FAST-HALS, Gflop/s as the paper counts": rates["columns"] / 1e9,
        "ALO-NMF, Gflop/s as the paper counts": rates["tiles"] / 1e9,
        "ALO-NMF over FAST-HALS": rates["tiles"] / rates["columns"],
    }
    names = ["FAST-HALS", "ALO-NMF"]
    paper = Curve("paper, 24 cores", names, [480, 1300], from_paper=True)
    ours = Curve("ours, one core", names, [rates["columns"] / 1e9, rates["tiles"] / 1e9])
    return Measured(values, [Chart("rate, as the paper counts", "", "Gflop/s", [paper, ours], bars=True, y_log=True)])


def sizes_of_matrices(session: Session, corpora: tuple[str, ...] = ("20news-counts", "tdt2", "faces")) -> Measured:
    """Dissertation, Table 3.4: rows, columns and entries of the matrices."""
    values = {}
    for name in corpora:
        A = matrix_of(session, name)
        D, V = A.shape
        entries = A.nnz if scipy.sparse.issparse(A) else int(np.count_nonzero(A))
        values |= {f"{name}: words or pixels": V, f"{name}: documents": D, f"{name}: entries": entries}
        values[f"{name}: zeros, %"] = 100 * (1 - entries / (V * D))
    return Measured(values)


QUICK_NMF = {"epochs": 2, "corpora": ("20news-tfidf",), "systems": (LOCAL, COLUMNS)}
DISSERTATION_RUNS = {
    "dissertation-table-3.4": Run(sizes_of_matrices, {}, turns=1),
    "dissertation-section-3.6": Run(numbers_moved, {}, turns=1),
    "dissertation-figure-3.6": Run(tile_sizes, {"components": (8,), "tiles": (1, 4), "corpora": ("20news-tfidf",)}),
    "dissertation-figure-3.7": Run(convergence, QUICK_NMF | {"components": (8,)}),
    "dissertation-figure-3.9": Run(speed_to_errors, QUICK_NMF | {"components": 8, "epochs": 5}),
    "dissertation-table-3.5": Run(breakdown, {"components": 8, "tile": 4}),
    "dissertation-figure-3.10": Run(large_ranks, {"components": (8,)}),
}


#: The same functions with the sizes of ALO-NMF.
ALO_RUNS = {
    "alo-section-5": Run(partial(numbers_moved, V=11_554, K=256, T=16, cache=33), {}, turns=1),
    "alo-figure-4": Run(
        partial(tile_sizes, components=(256,)), {"components": (8,), "tiles": (1, 4), "corpora": ("tdt2",)}
    ),
    "alo-figure-5": Run(
        partial(convergence, components=(64,), systems=(*SYSTEMS, "ANLS-BPP"), corpora=("20news-tfidf",)),
        QUICK_NMF | {"components": (8,)},
    ),
    "alo-figure-7": Run(partial(speed_to_errors, components=256), QUICK_NMF | {"components": 8, "epochs": 5}),
    "alo-table-2": Run(partial(breakdown, components=256, tile=16), {"components": 8, "tile": 4}),
    "alo-figure-8": Run(partial(large_ranks, components=(128, 256, 512)), {"components": (8,)}),
    "alo-table-3": Run(operations, {}),
    "alo-table-5": Run(sizes_of_matrices, {}, turns=1),
}
