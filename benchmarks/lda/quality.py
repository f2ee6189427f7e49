"""How well LDA fits held-out documents: over time, and after training."""

import click
import numpy as np

from benchmarks.common import Clock, figure_grid, print_row
from benchmarks.lda.data import read, split
from benchmarks.lda.systems import PEERS, THREADS, VARIATIONAL


@click.command()
@click.option("--corpus", "names", multiple=True, default=["nips", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[100, 1000])
@click.option("--tokens", default=5_000_000)
@click.option("--seconds", default=60.0, help="CPU-seconds of training.")
@click.option("--peer-seconds", default=0.0, help="CPU-seconds of tomotopy, gensim and scikit-learn, if others.")
@click.option("--held-out", default=100, help="Maximum number of held-out documents.")
@click.option("--threads", default=THREADS)
@click.option("--alpha", default=0.0, help="Prior of each topic, for all systems and the score. 0: 50 / K.")
@click.option("--picture", type=click.Path(), help="Draw the curves to this file (PNG or SVG).")
@click.pass_obj
def race(run, names, topics, tokens, seconds, peer_seconds, held_out, threads, alpha=0.0, picture=None):
    """Held-out log-likelihood per token over training time, and when each system reaches tomotopy's last one."""
    if run.session.quick:
        seconds, peer_seconds = 0.5, 0.5
    curves, reached = {}, {}
    for name in names:
        train, first, second = split(read(run.session, name, tokens), most=held_out)
        for n_topics in topics:
            title = f"{name}, K = {n_topics}"
            curves[title] = {}
            for system, make in run.systems.items():
                limit = (peer_seconds or seconds) if system in PEERS else seconds
                curve = curve_of(make(train, n_topics, threads, alpha=alpha), first, second, limit, alpha)
                curves[title][system] = curve
                print_row(name, str(n_topics), system, f"{curve[-1][1]:.1f} CPU-s", f"{curve[-1][2]:.4f}")
            if "tomotopy" in run.systems:
                reached[title] = times_to_tomotopy(curves[title])
    # The command may be given several times in one run.
    run.session.figures.setdefault("race", {}).update(curves)
    run.session.figures.setdefault("CPU-seconds to tomotopy's likelihood", {}).update(reached)
    if picture:
        draw(curves, picture)


def curve_of(system, first, second, seconds: float, alpha: float = 0.0) -> list[tuple[float, float, float]]:
    """Return (seconds, CPU-seconds, held-out log-likelihood) after 1, 2, 3, 5, 8, ... passes."""
    clock = Clock()
    words = np.flatnonzero(np.diff((first + second).tocsc().indptr))
    first, second = first[:, words], second[:, words]
    curve, observed = [], []
    passes, next_score = 0, 1
    if hasattr(system, "start"):  # the first pass of our kernels compiles them
        system.run()
        system.start()
    while clock.cpu < seconds:
        clock.time(system.run)
        passes += 1
        if passes == next_score or clock.cpu >= seconds:
            value = score(system.phi(words), first, second, alpha)
            curve.append((clock.wall, clock.cpu, value))
            observed.append((passes, value))
            next_score = int(next_score * 1.4) + 1
            if hasattr(system, "observe"):
                system.observe(observed)
    return curve


def times_to_tomotopy(curves: dict[str, list[tuple[float, float, float]]]) -> dict[str, float | None]:
    """Print and return in how many CPU-seconds each system reached tomotopy's last likelihood; None if it did not."""
    goal = curves["tomotopy"][-1][2]
    times = {}
    for system, curve in curves.items():
        _, seconds, values = (np.array(column) for column in zip(*curve, strict=True))
        times[system] = None
        if values.max() >= goal:
            times[system] = float(np.interp(goal, np.maximum.accumulate(values), seconds))
    for system, seconds in times.items():
        if seconds is None:
            print_row("", "", system, "not reached")
        else:
            print_row("", "", system, f"{seconds:.1f} CPU-s", f"{seconds / times['tomotopy']:.3f} of it")
    return times


def score(phi: np.ndarray, first, second, alpha: float | np.ndarray = 0.0, sweeps: int = 50) -> float:
    """Return the held-out log-likelihood per token by document completion, with the same estimator for every system.

    The topic weights of a document come from its first half, by ``sweeps`` steps of expectation-maximisation under
    the prior ``alpha``, one number or one per topic, 50 / K if 0. The second half is scored.
    """
    if not np.any(alpha):
        alpha = 50 / len(phi)
    alpha = np.broadcast_to(alpha, len(phi)).astype(np.float32)
    total = 0.0
    phi = np.ascontiguousarray(phi.T, np.float32)
    for document in range(first.shape[0]):
        given = slice(*first.indptr[document : document + 2])
        scored = slice(*second.indptr[document : document + 2])
        words = phi[first.indices[given]]
        counts = first.data[given].astype(np.float32)
        theta = np.full(phi.shape[1], 1 / phi.shape[1], np.float32)
        for _ in range(sweeps):
            theta = alpha + theta * ((counts / (words @ theta)) @ words)
            theta /= theta.sum()
        total += second.data[scored] @ np.log(phi[second.indices[scored]].astype(float) @ theta)
    return total / second.sum()


def draw(curves, picture: str) -> None:
    """Draw held-out likelihood over time, one panel per corpus and number of topics."""
    figure, axes = figure_grid(1, len(curves), 5, 4)
    for axis, (title, systems) in zip(axes[0], curves.items(), strict=True):
        for name, curve in systems.items():
            _, seconds, values = zip(*curve, strict=True)
            axis.plot(seconds, values, marker=".", label=name)
        axis.set(title=title, xlabel="CPU-seconds of training")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("held-out log-likelihood per token")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(picture, dpi=120)


@click.command()
@click.option("--corpus", "names", multiple=True, default=["kos", "nips"])
@click.option("--topics", "n_topics", default=100)
@click.option("--passes", default=200)
@click.option("--slow-passes", default=50, help="Passes of the variational systems, which converge sooner.")
@click.pass_obj
def quality(run, names, n_topics, passes, slow_passes):
    """Held-out log-likelihood per token after training: one split and one scoring function for all systems."""
    for name in names:
        train, first, second = split(read(run.session, name))
        figures = run.session.figures.setdefault(f"quality {name}", {})
        for system, make in run.systems.items():
            count = slow_passes if system in VARIATIONAL else passes
            model = make(train, n_topics, THREADS)
            for _ in range(2 if run.session.quick else count):
                model.run()
            figures[system] = score(model.phi(), first, second)
            print_row(name, str(n_topics), system, f"{figures[system]:.4f}")
