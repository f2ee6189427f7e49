"""The restarts of consensus NMF, on the files that cNMF's ``prepare`` writes and for the steps that follow.

Restarts are trained side by side, in waves. The spectra of a wave are written when all its restarts have converged. A
wave that was interrupted is continued by the same call.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....io.stores.matrix import Matrix, write_matrix
from ...models.nmf.estimator import NMF
from ...models.nmf.rows import blocks_of
from ...models.nmf.side_by_side import MAX_COLUMNS
from .study import Restart, Study, Table, write_table

#: Values of cNMF's parameter beta_loss, and the solvers for them.
SOLVERS = {"frobenius": "hals", "kullback-leibler": "mu"}
#: Bytes of the usages of all restarts of a wave, about. A run keeps those of two epochs on disk.
WAVE_BYTES = 2 << 30


def factorize(study: Study, planned: Sequence[Restart], skip_completed: bool = False, **options: Any) -> list[Restart]:
    """Train the planned restarts and write their spectra; return those that were trained.

    A file is written in one step, so a file that exists is complete. ``options`` are those of `NMF.fit`, such as
    ``client`` and ``callbacks``.
    """
    parameters = study.parameters()
    missing = [restart for restart in planned if not (skip_completed and study.spectra(restart).exists())]
    if not missing:
        return []
    estimator = make_estimator(parameters)  # refuses a loss that is not supported before the data is read
    counts = study.matrix("norm_counts.h5ad")
    with tempfile.TemporaryDirectory(prefix="corpusmill-cnmf-") as folder:
        matrix = write_matrix(folder, blocks_of(counts), columns=counts.column_names)
        most_columns = min(MAX_COLUMNS, WAVE_BYTES // (4 * matrix.n_documents))
        for wave in waves(missing, most_columns):
            _train_wave(study, wave, estimator, matrix, options)
    return missing


def make_estimator(parameters: dict[str, Any]) -> NMF:
    """Return an estimator with the parameters that ``prepare`` wrote; raise ValueError for a loss of another kind."""
    loss = parameters.get("beta_loss", "frobenius")
    if loss not in SOLVERS:
        raise ValueError(f"beta_loss is {loss!r}: choose frobenius or kullback-leibler when you run `cnmf prepare`")
    return NMF(
        solver=SOLVERS[loss],
        beta_loss=loss,
        init=parameters.get("init", "random"),
        tol=parameters.get("tol", 1e-4),
        max_iter=parameters.get("max_iter", 1000),
        # scikit-learn's criterion, because cNMF's tol is meant for it.
        convergence="gradient" if loss == "frobenius" else "error",
        alpha_W=parameters.get("alpha_W", 0.0),
        alpha_H=parameters.get("alpha_H", 0.0),
        l1_ratio=parameters.get("l1_ratio", 0.0),
    )


def waves(restarts: Sequence[Restart], most_columns: int) -> Iterator[list[Restart]]:
    """Cut restarts into groups that have up to ``most_columns`` components together, or are one restart."""
    wave: list[Restart] = []
    for restart in restarts:
        if wave and sum(other.n_components for other in wave) + restart.n_components > most_columns:
            yield wave
            wave = []
        wave.append(restart)
    if wave:
        yield wave


def _train_wave(study: Study, wave: Sequence[Restart], estimator: NMF, matrix: Matrix, options: dict[str, Any]) -> None:
    """Train some restarts, or continue their run, and write their spectra."""
    run = _run_folder(study, wave, estimator, matrix)
    pairs = [(restart.n_components, restart.seed) for restart in wave]
    if estimator.solver == "hals" and estimator.init == "random":
        models = estimator.fit_restarts(matrix, pairs, run=str(run), dashboard=False, **options)
    else:
        models = [_train_alone(pair, estimator, matrix, run, options) for pair in pairs]
    for restart, model in zip(wave, models, strict=True):
        spectra = model.components_.astype(np.float64)
        index = np.arange(1, len(spectra) + 1)
        write_table(study.spectra(restart), Table(spectra, index, matrix.columns or []))
    shutil.rmtree(run, ignore_errors=True)


def _train_alone(pair: tuple[int, int], estimator: NMF, matrix: Matrix, run: Path, options: dict[str, Any]) -> NMF:
    """Train one restart, for solvers and first factors that do not allow several side by side."""
    components, seed = pair
    model = type(estimator)(**estimator.get_params() | {"n_components": components, "random_state": seed})
    return model.fit(matrix, run=str(run / f"{components}-{seed}"), evaluate_every=0, dashboard=False, **options)


def _run_folder(study: Study, wave: Sequence[Restart], estimator: NMF, matrix: Matrix) -> Path:
    """Return the folder of a wave's run. Its name depends on restarts, parameters and data, so that none are mixed."""
    identity = json.dumps([wave, estimator.get_params(), matrix.hash])
    return study.path(f"corpusmill-run-{hashlib.sha256(identity.encode()).hexdigest()[:12]}")
