"""The command cistopic."""

from functools import partial
from typing import TYPE_CHECKING

import click

from . import show
from .options import json_option
from .session import load_config, open_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..actions import Facts


@click.command(short_help="Train topic models of cells and accessible regions.")
@click.argument("arguments", nargs=-1, required=True, metavar="MATRIX [K]...")
@click.option("-c", "--cells", metavar="FILE", help="Names of the cells, one per line, in the order of the columns.")
@click.option("-r", "--regions", metavar="FILE", help="Names of the regions, one per line, in the order of the rows.")
@click.option(
    "-o", "--output", "prefix", required=True, metavar="PREFIX", help="What the names of all files begin with."
)
@click.option("-t", "--topics", type=click.IntRange(2), multiple=True, required=True, metavar="K...", help="Topics.")
@click.option("-n", "--iterations", default=150, show_default=True, type=click.IntRange(1), help="Epochs.")
@click.option("-a", "--alpha", default=50.0, show_default=True, help="Prior of the topics of a cell.")
@click.option("-A", "--alpha_by_topic", default=True, show_default=True, type=bool, help="Divide alpha by K.")
@click.option("-e", "--eta", default=0.1, show_default=True, help="Prior of the regions of a topic.")
@click.option("-E", "--eta_by_topic", default=False, show_default=True, type=bool, help="Divide eta by K.")
@click.option(
    "--optimize-interval", default=0, show_default=True, help="Epochs between estimates of the priors. 0: none."
)
@click.option("-s", "--seed", default=555, show_default=True, help="Seed of all random draws.")
@click.option(
    "-p",
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes. With the sampler gibbs, each trains a model of its own, and they divide the memory.",
)
@click.option("--stats", is_flag=True, help="Also compute the statistics by which a number of topics is chosen.")
@click.option("--h5ad", is_flag=True, help="Also write AnnData files of cells by topics and of regions by topics.")
@click.option(
    "--sampler",
    type=click.Choice(("gibbs", "esca", "warp", "auto")),
    default="gibbs",
    show_default=True,
    help="gibbs finds better topics, on one worker per model. esca shares a model among the workers or runs on a GPU.",
)
@click.option("--device", type=click.Choice(("auto", "cpu", "cuda")), default="auto", show_default=True, help="Device.")
@click.option("--replace", is_flag=True, help="Train the models again whose parameters or matrix have changed.")
@json_option
def cistopic(
    arguments: tuple[str, ...],
    cells: str | None,
    regions: str | None,
    prefix: str,
    topics: tuple[int, ...],
    iterations: int,
    alpha: float,
    alpha_by_topic: bool,
    eta: float,
    eta_by_topic: bool,
    optimize_interval: int,
    seed: int,
    threads: int,
    stats: bool,
    h5ad: bool,
    sampler: str,
    device: str,
    replace: bool,
    as_json: bool,
) -> None:
    """Train topic models of accessible regions, and write the files that pycisTopic reads.

    MATRIX has a row per region and a column per cell (MatrixMarket or .npz), or a row per cell (AnnData). Its counts
    above 1 are read as 1. One model is trained for each number of topics K. Models that are complete are skipped, and
    an interrupted command continues where it stopped. All models of a PREFIX have the same matrix and parameters but K;
    another --iterations needs another PREFIX, or --replace.

    \b
    Example:
      corpusmill cistopic fragments.mtx.gz -c cells.txt -r regions.txt -o out/tm -t 5 10 20 -p 8 --stats
    """
    from ...cells.cistopic.bundle import Settings
    from ...cells.cistopic.grid import Execution, compare, make_corpus, train_grid

    matrix, numbers = _matrix_and_numbers(arguments, topics)
    settings = Settings(
        n_topics=numbers[0],
        alpha=alpha,
        alpha_by_topic=alpha_by_topic,
        eta=eta,
        eta_by_topic=eta_by_topic,
        iterations=iterations,
        optimize_interval=optimize_interval,
        random_seed=seed,
        sampler=sampler,
    )
    # The sampler gibbs trains a model on one worker, so several models are trained side by side, each in a process.
    processes = threads if sampler == "gibbs" else 1
    cluster = {"kind": "synchronous"} if processes == threads else {"kind": "local", "n_workers": threads}
    complete_before: list[int] = []
    note = partial(_note_model, complete_before, processes)
    with open_session(load_config((), (), {"cluster": cluster}), as_json) as session:
        corpus = make_corpus(matrix, prefix, cells, regions, session.client, overwrite=replace)
        execution = Execution(session.client, [session.display], device, threads, processes, replace)
        bundles = train_grid(corpus, prefix, numbers, settings, execution, note)
        facts: Facts = {
            "prefix": prefix,
            "complete_before": sorted(complete_before),
            "cells": corpus.n_documents,
            "regions": len(corpus.columns or []),
            "accessible": corpus.n_tokens,
            "n_topics": [bundle.settings.n_topics for bundle in bundles],
        }
        if h5ad:
            for bundle in bundles:
                bundle.write_anndata(corpus)
        if stats:
            facts |= dict(compare(bundles, corpus))
    show.result(facts, as_json, lambda: show.model_grid(facts))


def _matrix_and_numbers(arguments: "Sequence[str]", topics: "Sequence[int]") -> tuple[str, list[int]]:
    matrices = [argument for argument in arguments if not argument.isdecimal()]
    if len(matrices) != 1:
        raise click.UsageError(f"give one MATRIX, not {len(matrices)}")
    return matrices[0], [*topics, *(int(argument) for argument in arguments if argument.isdecimal())]


def _note_model(complete_before: list[int], processes: int, number: int, was_complete: bool) -> None:
    """Note that the model with a number of topics was complete, or write a line if it was trained just now."""
    if was_complete:
        complete_before.append(number)
    elif processes > 1:
        # A process of its own does not report its epochs.
        click.echo(f"train: the model with {number} topics is complete", err=True)
