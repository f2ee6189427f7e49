"""The command group cnmf: factorize."""

import click

from ..terminal import show
from .options import json_option
from .session import load_config, open_session


@click.group()
def cnmf() -> None:
    """Factorisations for consensus NMF, in the files of the package cNMF."""


@cnmf.command()
@click.argument("more", nargs=-1, type=click.IntRange(1), metavar="[K]...")
@click.option("--output-dir", default=".", show_default=True, metavar="FOLDER", help="As for `cnmf prepare`.")
@click.option("--name", required=True, help="As for `cnmf prepare`.")
@click.option("-k", "--components", multiple=True, required=True, type=click.IntRange(1), help="As for `cnmf prepare`.")
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
    """Train the restarts that `cnmf prepare` planned.

    Takes the place of `cnmf factorize`: `cnmf combine`, `cnmf k_selection_plot` and `cnmf consensus` use the results.

    \b
    Example:
      cnmf prepare --output-dir out --name study -c counts.h5ad -k 5 6 7 -n 100 --seed 14
      corpusmill cnmf factorize --output-dir out --name study -k 5 6 7 -n 100 --seed 14
      cnmf combine --output-dir out --name study
    """
    from ...cnmf.factorize import Study, restarts
    from ...cnmf.factorize import factorize as train_restarts

    study = Study(output_dir, name)
    planned = restarts([*components, *more], n_iter, seed)
    study.check_number(len(planned))
    config = load_config((), (), {"cluster": {"kind": "synchronous"}})
    with open_session(config, as_json) as session:
        trained = train_restarts(study, planned[worker_index::total_workers], skip_completed_runs, session.client)
    facts = {"name": name, "planned": len(planned), "trained": len(trained)}
    show.result(facts, as_json, lambda: show.facts(facts))
