"""The command group cnmf: factorize, k_selection_plot and consensus."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from . import show
from .options import json_option
from .session import load_config, open_session

if TYPE_CHECKING:
    from ...cells.cnmf.refit import Progress

#: Minimum number of seconds between two lines about progress.
LINE_SECONDS = 5.0

Command = TypeVar("Command", bound=Callable[..., object])


@click.group(short_help="Consensus NMF in the files of the package cNMF.")
def cnmf() -> None:
    """Run the steps of consensus NMF that follow `cnmf prepare`, on the files of the package cNMF."""


def _study_options(command: Command) -> Command:
    """Add the options that name an analysis."""
    command = click.option("--name", required=True, help="As for `cnmf prepare`.")(command)
    folder = click.option(
        "--output-dir", default=".", show_default=True, metavar="FOLDER", help="As for `cnmf prepare`."
    )
    return folder(command)


def _chosen_components(command: Command) -> Command:
    """Add the option and the argument for numbers of components, all of them by default."""
    more = click.argument("more", nargs=-1, type=click.IntRange(2), metavar="[K]...")
    numbers = click.option(
        "-k", "--components", multiple=True, type=click.IntRange(2), help="Numbers of components. Default: all."
    )
    return more(numbers(command))


@cnmf.command()
@click.argument("more", nargs=-1, type=click.IntRange(1), metavar="[K]...")
@_study_options
@click.option("-k", "--components", multiple=True, type=click.IntRange(1), help="As for `cnmf prepare`.")
@click.option("-n", "--n-iter", default=100, show_default=True, type=click.IntRange(1), help="As for `cnmf prepare`.")
@click.option("--seed", type=int, help="As for `cnmf prepare`.")
@click.option("--worker-index", default=0, show_default=True, type=click.IntRange(0), help="Number of this process.")
@click.option("--total-workers", default=1, show_default=True, type=click.IntRange(1), help="Processes that share.")
@click.option("--skip-completed-runs", is_flag=True, help="Leave out restarts whose file exists.")
@json_option
def factorize(
    more: tuple[int, ...],
    output_dir: str,
    name: str,
    components: tuple[int, ...],
    n_iter: int,
    seed: int | None,
    worker_index: int,
    total_workers: int,
    skip_completed_runs: bool,
    as_json: bool,
) -> None:
    """Train the restarts that `cnmf prepare` planned, many side by side.

    Takes the place of `cnmf factorize`. The results are for `corpusmill cnmf consensus`, or for `cnmf combine`. If the
    command is interrupted, the same command continues.

    \b
    Example:
      cnmf prepare --output-dir out --name study -c counts.h5ad -k 5 6 7 -n 100 --seed 14
      corpusmill cnmf factorize --output-dir out --name study -k 5 6 7 -n 100 --seed 14
      corpusmill cnmf k_selection_plot --output-dir out --name study
      corpusmill cnmf consensus --output-dir out --name study -k 6 --local-density-threshold 0.1
    """
    from ...cells.cnmf.factorize import factorize as train_restarts
    from ...cells.cnmf.study import Study, plan_restarts

    if not components:
        raise click.UsageError(
            "give -k, -n and --seed as for `cnmf prepare`: its plan is a file of pickled objects, which may be code"
        )
    study = Study(output_dir, name)
    planned = plan_restarts([*components, *more], n_iter, seed)
    study.check_number(len(planned))
    config = load_config((), (), {"cluster": {"kind": "synchronous"}})
    # Processes may be numbered from 1, as cNMF allows.
    share = planned[worker_index % total_workers :: total_workers]
    with open_session(config, as_json) as session:
        trained = train_restarts(study, share, skip_completed_runs, client=session.client, callbacks=[session.display])
    facts = {"name": name, "planned": len(planned), "trained": len(trained)}
    show.result(facts, as_json)


@cnmf.command("k_selection_plot")
@_chosen_components
@_study_options
@json_option
def k_selection_plot(
    more: tuple[int, ...], output_dir: str, name: str, components: tuple[int, ...], as_json: bool
) -> None:
    """Draw stability and error over the number of components.

    Takes the place of `cnmf combine` and `cnmf k_selection_plot`. The cells are read once, in blocks.

    \b
    Example:
      corpusmill cnmf k_selection_plot --output-dir out --name study
    """
    from ...cells.cnmf.consensus import numbers_of, select
    from ...cells.cnmf.plots import plot_selection
    from ...cells.cnmf.study import Study

    study = Study(output_dir, name)
    selection = select(study, numbers_of(study, [*components, *more]), _progress(as_json))
    path = study.result("k_selection.png")
    plot_selection(selection, path)
    facts = dict(selection) | {"plot": str(path)}
    show.result(facts, as_json)


@cnmf.command()
@_chosen_components
@_study_options
@click.option(
    "--local-density-threshold",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Leave out spectra whose mean distance to their neighbours is larger. 2 keeps all.",
)
@click.option(
    "--local-neighborhood-size",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the restarts that are neighbours.",
)
@click.option("--show-clustering", is_flag=True, help="Also draw the clusters of the spectra.")
@json_option
def consensus(
    more: tuple[int, ...],
    output_dir: str,
    name: str,
    components: tuple[int, ...],
    local_density_threshold: float,
    local_neighborhood_size: float,
    show_clustering: bool,
    as_json: bool,
) -> None:
    """Find the programs that the restarts agree on, and their usages.

    Takes the place of `cnmf combine` and `cnmf consensus`, and writes the same files. The cells are read three times in
    blocks, so that they need not fit in memory.

    \b
    Example:
      corpusmill cnmf consensus --output-dir out --name study -k 6 --local-density-threshold 0.1
    """
    from ...cells.cnmf.consensus import Filter, numbers_of
    from ...cells.cnmf.consensus import consensus as find_consensus
    from ...cells.cnmf.plots import plot_clusters
    from ...cells.cnmf.study import Study

    study = Study(output_dir, name)
    numbers = numbers_of(study, [*components, *more])
    chosen = Filter(local_density_threshold, local_neighborhood_size)
    groups = find_consensus(study, numbers, chosen, _progress(as_json))
    left_out = [len(group.density) - len(group.between) for group in groups]
    facts: dict[str, object] = {"name": name, "n_components": numbers, "spectra_left_out": left_out}
    if show_clustering:
        for number, group in zip(numbers, groups, strict=True):
            plot_clusters(group, chosen, study.result(f"clustering.k_{number}.dt_{chosen.label}.png"))
    facts["folder"] = str(study.folder)
    show.result(facts, as_json)


def _progress(is_quiet: bool) -> "Progress":
    """Return a function that writes the number of cells read to stderr, at most once in a few seconds."""
    last_line = time.monotonic()

    def write(done: int, total: int) -> None:
        nonlocal last_line
        now = time.monotonic()
        if is_quiet or now - last_line < LINE_SECONDS:
            return
        last_line = now
        click.echo(f"cells: {done:,} of {total:,}", err=True)

    return write
