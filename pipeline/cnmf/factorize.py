"""The restarts of consensus NMF, on the files that cNMF's ``prepare`` writes and for the steps that follow.

Files below ``{output_dir}/{name}/cnmf_tmp``, each beginning with ``{name}.``::

    norm_counts.h5ad                    cells by genes, scaled and not centred; read
    nmf_params.df.npz                   one row per restart; only the number of its rows is read
    nmf_idvrun_params.yaml              parameters of all restarts; read
    spectra.k_{K}.iter_{i}.df.npz       data (K, genes) float64, index (K,) from 1, columns (genes,) names; written
"""

import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import yaml

from ...io.matrices.files import MatrixFile
from ...io.stores.matrix import Matrix, write_matrix
from ...io.stores.store import DataError
from ..models.nmf.estimator import NMF
from ..models.nmf.rows import blocks_of

if TYPE_CHECKING:
    from distributed import Client

#: Seeds of restarts are drawn from 1 to this number, without it.
SEED_LIMIT = 2**31 - 1
#: Values of cNMF's parameter beta_loss, and the solvers for them.
SOLVERS = {"frobenius": "hals", "kullback-leibler": "mu"}


class Restart(NamedTuple):
    """One factorisation: its number of components, its number among those, and its seed."""

    n_components: int
    iteration: int
    seed: int


@dataclass(frozen=True)
class Study:
    """The files of one analysis."""

    output_dir: str
    name: str

    def path(self, rest: str) -> Path:
        """Return the path of a temporary file of cNMF."""
        return Path(self.output_dir) / self.name / "cnmf_tmp" / f"{self.name}.{rest}"

    def spectra(self, restart: Restart) -> Path:
        """Return the path of the result of a restart."""
        return self.path(f"spectra.k_{restart.n_components}.iter_{restart.iteration}.df.npz")

    def check_number(self, n_restarts: int) -> None:
        """Raise DataError unless ``prepare`` planned this number of restarts.

        The file has pickled objects, which are code. Its array of row numbers has none, and only that is read.
        """
        path = self.path("nmf_params.df.npz")
        if not path.exists():
            raise DataError(f"{path}: no such file; run `cnmf prepare` first")
        with np.load(path, allow_pickle=False) as arrays:
            planned = len(arrays["index"])
        if planned != n_restarts:
            raise DataError(
                f"{path}: prepare planned {planned} restarts, and the options give {n_restarts}; pass the values of "
                f"--components and --n-iter that prepare was given"
            )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that all restarts share."""
        path = self.path("nmf_idvrun_params.yaml")
        if not path.exists():
            raise DataError(f"{path}: no such file; run `cnmf prepare` first")
        return yaml.safe_load(path.read_text())


def restarts(numbers: Sequence[int], n_iter: int, seed: int | None) -> list[Restart]:
    """Return the restarts that ``prepare`` plans for these options, with the same seeds."""
    pairs = list(product(sorted(set(numbers)), range(n_iter)))
    # Without a seed, prepare draws different seeds each time; any will do.
    seeds = np.random.RandomState(seed or 0).randint(low=1, high=SEED_LIMIT, size=len(numbers) * n_iter)
    return [Restart(k, i, int(seeds[position])) for position, (k, i) in enumerate(pairs)]


def factorize(
    study: Study,
    planned: Sequence[Restart],
    skip_completed: bool = False,
    client: "Client | None" = None,
    report: Callable[[Restart], None] | None = None,
) -> list[Restart]:
    """Train the planned restarts and write their spectra; return those that were trained.

    A file is written in one step, so a file that exists is complete.
    """
    parameters = study.parameters()
    missing = [restart for restart in planned if not (skip_completed and study.spectra(restart).exists())]
    if not missing:
        return []
    _estimator(missing[0], parameters)  # refuses a loss that is not supported before the data is read
    counts = MatrixFile(str(study.path("norm_counts.h5ad")))
    with tempfile.TemporaryDirectory(prefix="corpusmill-cnmf-") as folder:
        matrix = write_matrix(folder, blocks_of(counts))
        for restart in missing:
            spectra = _train(restart, parameters, matrix, client)
            _write(study.spectra(restart), spectra, counts.column_names or [])
            if report is not None:
                report(restart)
    return missing


def _train(restart: Restart, parameters: dict[str, Any], matrix: Matrix, client: "Client | None") -> np.ndarray:
    model = _estimator(restart, parameters)
    return model.fit(matrix, client=client, evaluate_every=0, dashboard=False).components_.astype(np.float64)


def _estimator(restart: Restart, parameters: dict[str, Any]) -> NMF:
    loss = parameters.get("beta_loss", "frobenius")
    if loss not in SOLVERS:
        raise ValueError(f"beta_loss is {loss!r}: choose frobenius or kullback-leibler when you run `cnmf prepare`")
    return NMF(
        n_components=restart.n_components,
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
        random_state=restart.seed,
    )


def _write(path: Path, spectra: np.ndarray, genes: list[str]) -> None:
    temporary = path.with_name(f".tmp-{uuid.uuid4().hex}.npz")
    try:
        np.savez_compressed(
            temporary, data=spectra, index=np.arange(1, len(spectra) + 1), columns=np.array(genes, dtype=np.str_)
        )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
