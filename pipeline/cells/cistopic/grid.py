"""Ingest a matrix once, and train one LDA model for each number of topics.

A call that is repeated skips complete models and continues interrupted ones.
"""

import glob
import hashlib
import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ...engine.events import Callback
from ...engine.executors import Synchronous
from ...engine.run import RunStore
from ...ingest.ingest import ingest
from .bundle import Bundle, Settings
from .statistics import Statistics, best_number, scaled

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Execution:
    """Where models are trained, what is called with their events, and whether earlier models are replaced."""

    client: "Client | None" = None
    callbacks: Sequence[Callback] = ()
    device: str = "auto"
    n_threads: int = 1  # as recorded in the files
    processes: int = 1  # models trained at the same time, each in a process of its own
    replace: bool = False  # whether models with other parameters are trained again


def make_corpus(
    matrix: str,
    prefix: str,
    cells: str | None,
    regions: str | None,
    client: "Client | None" = None,
    overwrite: bool = False,
) -> Corpus:
    """Ingest a matrix of accessibility: regions by cells in MatrixMarket or .npz, or cells by regions in AnnData.

    Counts above 1 become 1. ``cells`` and ``regions`` are files with one name per line; AnnData has names of its own.
    ``overwrite`` replaces the corpus of another matrix.
    """
    if matrix.lower().rstrip("/").endswith((".h5ad", ".zarr")):
        options: dict[str, Any] = {}
    elif cells is None or regions is None:
        raise DataError(f"{matrix}: give the names of its cells and regions with --cells and --regions")
    else:
        options = {"transpose": True, "keys_file": cells, "vocabulary_file": regions}
    return ingest(matrix, f"{prefix}.corpus", client=client, binarize=True, overwrite=overwrite, **options)


def train_grid(
    corpus: Corpus,
    prefix: str,
    numbers: Iterable[int],
    settings: Settings,
    execution: Execution | None = None,
    report: Callable[[int, bool], None] | None = None,
) -> list[Bundle]:
    """Train one model per number of topics, the largest first, and write its files; return the bundles, ascending.

    ``report`` is called with the number of topics and whether the model was complete already. Raises DataError if there
    are models with other parameters or of another matrix, unless ``execution`` replaces all of them.
    """
    numbers = sorted(set(numbers), reverse=True)
    execution = execution or Execution()
    _check_same_models(prefix, settings, numbers, corpus, execution.replace)
    bundles = [Bundle(prefix, replace(settings, n_topics=number)) for number in numbers]
    missing = []
    for bundle in bundles:
        if bundle.is_complete(corpus):
            _finish(bundle, corpus, True, report)
        else:
            missing.append(bundle)
    if execution.processes > 1 and len(missing) > 1:
        _train_at_the_same_time(missing, corpus, execution, report)
    else:
        for bundle in missing:
            _train(bundle, corpus, execution)
            _finish(bundle, corpus, False, report)
    return bundles[::-1]


def _check_same_models(
    prefix: str, settings: Settings, numbers: Sequence[int], corpus: Corpus, may_replace: bool
) -> None:
    """Raise DataError if the files of a prefix would be of models with several parameters, or of several matrices.

    pycisTopic compares all models of a prefix.
    """
    others: dict[int, str] = {}
    for path in sorted(Path(prefix).parent.glob(f"{glob.escape(Path(prefix).name)}.*_topics.parameters.json")):
        found = json.loads(path.read_text()).get("corpusmill")
        if found is None:
            # A model of pycisTopic itself, or of a tool that also writes its files.
            name = path.name.removeprefix(f"{Path(prefix).name}.").removesuffix("_topics.parameters.json")
            others[int(name) if name.isdecimal() else 0] = "trained by another program"
            continue
        number = int(found["settings"]["n_topics"])
        difference = _describe_difference(found, replace(settings, n_topics=number), corpus)
        if difference:
            others[number] = difference
    if not others or (may_replace and others.keys() <= set(numbers)):
        return
    shown = ", ".join(map(str, sorted(others)))
    first = others[min(others)]
    raise DataError(
        f"{prefix}: there are models of other inputs ({first}) with these numbers of topics: {shown}; choose another "
        f"prefix, or train all of them again with --replace"
    )


def _describe_difference(found: dict[str, Any], settings: Settings, corpus: Corpus) -> str:
    """Say how the inputs of a model differ from those of this call; return an empty text if they are equal."""
    if found["data"] != corpus.hash:
        return "another matrix"
    wanted = vars(settings)
    changed = [name for name in wanted if found["settings"].get(name) != wanted[name]]
    return ", ".join(f"{name} {found['settings'].get(name)}, now {wanted[name]}" for name in changed)


def _train_at_the_same_time(
    bundles: Sequence[Bundle], corpus: Corpus, execution: Execution, report: Callable[[int, bool], None] | None
) -> None:
    """Train each model in a process of its own, the first ones first."""
    alone = replace(execution, client=None, callbacks=())
    # A forked process would share locks with threads of this one.
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    n_processes = min(execution.processes, len(bundles))
    with ProcessPoolExecutor(n_processes, context, Synchronous.share_memory, (n_processes,)) as processes:
        try:
            futures = {processes.submit(_train, bundle, corpus, alone): bundle for bundle in bundles}
            for future in as_completed(futures):
                future.result()
                _finish(futures[future], corpus, False, report)
        except BaseException:
            # Otherwise the end of the block would wait until all models are trained.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
            raise


def _finish(bundle: Bundle, corpus: Corpus, was_complete: bool, report: Callable[[int, bool], None] | None) -> None:
    """Delete the run of a model whose files are complete, and report the model."""
    shutil.rmtree(_run_folder(bundle, corpus), ignore_errors=True)
    if report is not None:
        report(bundle.settings.n_topics, was_complete)


def _run_folder(bundle: Bundle, corpus: Corpus) -> str:
    """Return the folder of a model's run. Its name depends on parameters and data, so no run mixes different ones."""
    identity = json.dumps([vars(bundle.settings), corpus.hash])
    return f"{bundle.base}.run-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _train(bundle: Bundle, corpus: Corpus, execution: Execution) -> None:
    """Train a model, or continue its run, and write its files."""
    started = time.monotonic()
    run = _run_folder(bundle, corpus)
    model = bundle.settings.estimator(execution.device)
    callbacks = execution.callbacks
    model.fit(corpus, client=execution.client, run=run, callbacks=callbacks, evaluate_every=0, dashboard=False)
    bundle.write(model, RunStore(run), corpus, time.monotonic() - started, execution.n_threads)


class Comparison(TypedDict):
    """The statistics of a grid of models by name, in the order of the numbers of topics."""

    n_topics: list[int]
    statistics: dict[str, list[float]]
    scaled: dict[str, list[float]]
    best: int


def compare(bundles: Sequence[Bundle], corpus: Corpus) -> Comparison:
    """Write the statistics of each model, and return those of all.

    They are returned as measured and scaled to 0..1, with the number of topics that has the largest sum of the latter.
    """
    numbers = [bundle.settings.n_topics for bundle in bundles]
    grid: list[Statistics] = [bundle.write_statistics(corpus) for bundle in bundles]
    names = ("Arun_2010", "Cao_Juan_2009", "Mimno_2011", "loglikelihood")
    raw = {name: [each[name] for each in grid] for name in names}  # type: ignore[literal-required]
    return {"n_topics": numbers, "statistics": raw, "scaled": scaled(grid), "best": best_number(numbers, grid)}
