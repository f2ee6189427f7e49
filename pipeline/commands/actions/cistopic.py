"""Train a grid of models of accessible regions, and compare them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...cells.cistopic.bundle import Settings
from ...cells.cistopic.grid import Execution, compare, make_corpus, plot, prepare_plot, train_grid
from ...engine.events import Callback
from ..results import Facts

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class GridRequest:
    """The arguments of the command."""

    matrix: str
    prefix: str
    numbers: Sequence[int]
    cells: str | None = None
    regions: str | None = None
    with_statistics: bool = False
    plot: str | None = None
    with_anndata: bool = False
    device: str = "auto"
    n_threads: int = 1
    replace: bool = False

    def processes(self, sampler: str) -> int:
        """Return how many models are trained at the same time, each in a process of its own.

        Only the sampler gibbs trains a model on one worker. Models of the others are trained one after another, each on
        all workers.
        """
        return self.n_threads if sampler == "gibbs" else 1


def cistopic(
    request: GridRequest,
    settings: Settings,
    client: "Client | None" = None,
    callbacks: Sequence[Callback] = (),
    trained: Callable[[int], None] | None = None,
) -> Facts:
    """Ingest the matrix, train the models that are not complete, and describe all of them.

    ``trained`` is called with the number of topics of each model that a process of its own has trained.
    """
    # Before the models are trained, which takes long.
    plot_file = prepare_plot(request.plot) if request.plot else None
    skipped: list[int] = []

    def note(number: int, was_complete: bool) -> None:
        if was_complete:
            skipped.append(number)
        elif processes > 1 and trained is not None:
            # A process of its own does not report its epochs.
            trained(number)

    processes = request.processes(settings.sampler)
    corpus = make_corpus(
        request.matrix, request.prefix, request.cells, request.regions, client, overwrite=request.replace
    )
    execution = Execution(client, callbacks, request.device, request.n_threads, processes, request.replace)
    bundles = train_grid(corpus, request.prefix, request.numbers, settings, execution, note)
    facts: Facts = {
        "prefix": request.prefix,
        "cells": corpus.n_documents,
        "regions": len(corpus.columns or []),
        "accessible": corpus.n_tokens,
        "n_topics": [bundle.settings.n_topics for bundle in bundles],
        "complete_before": sorted(skipped),
    }
    if request.with_anndata:
        for bundle in bundles:
            bundle.write_anndata(corpus)
    if request.with_statistics or plot_file:
        comparison = compare(bundles, corpus)
        facts |= dict(comparison)
        if plot_file:
            plot(comparison, plot_file)
            facts["plot"] = plot_file
    return facts
