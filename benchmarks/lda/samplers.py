"""LDA's samplers side by side: likelihood over epochs and CPU time, threads, and the ideas of SaberLDA one by one.

python -m benchmarks.lda.samplers --help
"""

from statistics import median

import click

from benchmarks.common import DATA, JSON, QUICK, Clock, figure_grid, open_session
from benchmarks.common import print_row as print_narrow_row
from benchmarks.lda.data import read
from benchmarks.lda.sampler_systems import likelihood, makers
from benchmarks.lda.systems import Corpusmill
from benchmarks.papers import saberlda

#: Documents of a mini-batch by corpus, as in Figure 2.8 of Moon's dissertation.
BATCH_DOCUMENTS = {"kos": 330, "nips": 140}


def print_row(*cells: object) -> None:
    """Print one row of a table with wide columns."""
    print_narrow_row(*cells, width=18)


@click.group(chain=True, invoke_without_command=True)
@DATA
@JSON
@QUICK
@click.pass_context
def main(context, data, target, quick):
    """Compare samplers. Several commands may follow one another; --quick alone runs all of them."""
    open_session(context, data, quick, target)
    if context.invoked_subcommand is None:
        if not quick:
            raise click.UsageError("name a command, or use --quick")
        for command in (curves, threads, saber):
            context.invoke(command)


@main.command()
@click.option("--corpus", "names", multiple=True, default=["kos", "nips"])
@click.option("--topics", "n_topics", default=128)
@click.option("--passes", default=200)
@click.option("--sampler", "samplers", multiple=True, type=click.Choice(list(makers())), default=list(makers()))
@click.option("--picture", type=click.Path(), help="Draw the curves to this file (PNG or SVG).")
@click.pass_obj
def curves(session, names, n_topics, passes, samplers, picture):
    """Log-likelihood per token over epochs and CPU time, one thread (Figures 2.4, 2.7 and 2.8 of the dissertation)."""
    passes = 2 if session.quick else passes
    found = {}
    print_row("corpus", "sampler", "M tokens / CPU-s", "log-likelihood", "over the first")
    for name in names:
        matrix = read(session, name)
        found[name] = {}
        for sampler in samplers:
            curve = curve_of(makers(BATCH_DOCUMENTS[name])[sampler](matrix, n_topics, 1), passes)
            found[name][sampler] = curve
            _, seconds, value = curve[-1]
            first = found[name][samplers[0]][-1][2]
            speed = int(matrix.sum()) * passes / seconds / 1e6
            print_row(name, sampler, speed, f"{value:.4f}", f"{value - first:.4f}")
    session.figures["curves"] = found
    if picture:
        draw(found, picture)


def curve_of(system, passes: int) -> list[tuple[int, float, float]]:
    """Return (pass, CPU-seconds, log-likelihood per token) after 1, 2, 3, 4, 6, ... passes and after the last."""
    clock = Clock()
    curve = []
    next_score = 1
    system.run()  # the first pass compiles
    system.start()
    for number in range(1, passes + 1):
        clock.time(system.run)
        if number in (next_score, passes):
            curve.append((number, clock.cpu, likelihood(system)))
            next_score = int(next_score * 1.3) + 1
    return curve


def draw(found, picture: str) -> None:
    """Draw one row per corpus: likelihood over epochs, and over CPU-seconds."""
    figure, axes = figure_grid(len(found), 2, 5.5, 4)
    for (name, samplers), (by_epoch, by_time) in zip(found.items(), axes, strict=True):
        for sampler, curve in samplers.items():
            passes, seconds, values = zip(*curve, strict=True)
            by_epoch.plot(passes, values, label=sampler)
            by_time.plot(seconds, values, label=sampler)
        by_epoch.set(title=name, xlabel="epoch", ylabel="log-likelihood per token")
        by_time.set(title=name, xlabel="CPU-seconds of training", xscale="log")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(picture, dpi=100)


@main.command()
@click.option("--corpus", "name", default="nips")
@click.option("--topics", "n_topics", default=128)
@click.option("--passes", default=7)
@click.pass_obj
def threads(session, name, n_topics, passes):
    """Seconds per pass on one thread and on two; the systems take turns (Table 2.4 of the dissertation)."""
    passes = 2 if session.quick else passes
    matrix = read(session, name)
    systems = {("plain", 1): makers()["plain"](matrix, n_topics, 1)}
    for sampler in ("cgs", "cgs, atomic", "esca", "warp"):
        for number in (1, 2):
            systems[sampler, number] = makers()[sampler](matrix, n_topics, number)
    times = {key: [] for key in systems}
    for _ in range(passes):
        for key, system in systems.items():
            times[key].append(Clock().time(system.run))
    # The first pass compiles.
    medians = {key: [median(column) for column in zip(*found[1:], strict=True)] for key, found in times.items()}
    print_row("sampler", "threads", "s per pass", "CPU-s per pass", "plain's CPU / this")
    for (sampler, number), (wall, cpu) in medians.items():
        print_row(sampler, str(number), wall, cpu, medians["plain", 1][1] / cpu)
        session.figures[f"threads {sampler} {number}"] = [wall, cpu]


@main.command()
@click.option("--corpus", "name", default="nips")
@click.option("--topics", "n_topics", default=1000)
@click.option("--passes", default=20)
@click.pass_obj
def saber(session, name, n_topics, passes):
    """How much each idea of SaberLDA saves, as in its Figure 9, on one thread."""
    matrix = read(session, name, 2_000_000)
    found = saberlda.run(Corpusmill(matrix, n_topics, 1), 2 if session.quick else passes)
    print_row("ns per token", "of the first", "variant")
    first = next(iter(found.values()))
    for variant, nanoseconds in found.items():
        print_row(nanoseconds, nanoseconds / first, variant)
    session.figures["saber"] = found


if __name__ == "__main__":
    main()
