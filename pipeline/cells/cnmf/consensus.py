"""Consensus of many restarts, in the files of cNMF's steps ``k_selection_plot`` and ``consensus``.

The matrices of cells are read in blocks, three times in all. The first pass finds the usages of the clusters' medians
in the counts of genes of high variance. The second one sums up the expression of all genes (TPM) by usage. The spectra
of all genes follow from these sums. The third pass finds the usages of these spectra.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np

from ....io.errors import DataError
from ....io.matrices.anndata import MatrixFile
from .clustering import Clusters, cluster, count_neighbors, distances, local_density, silhouette, unit_rows
from .refit import Moments, Progress, moments, nonnegative_rows, refit_usages, shares
from .study import Study, Table, write_table, write_text

#: Variances below this one are replaced by it before genes are scaled to variance 1.
LEAST_VARIANCE = 1e-12
#: Sum of each of the spectra that starCAT takes, before they are scaled.
REFERENCE_SUM = 1e6


class Selection(TypedDict):
    """The figures by which a number of components is chosen, in its order."""

    n_components: list[int]
    silhouette: list[float]
    prediction_error: list[float]


@dataclass(frozen=True)
class Filter:
    """Which spectra are left out: those far from their nearest neighbours."""

    threshold: float = 0.5  # of the mean distance; 2 keeps all
    neighborhood: float = 0.3  # share of the restarts that are neighbours

    @property
    def label(self) -> str:
        """The threshold as it appears in names of files."""
        return str(self.threshold).replace(".", "_")


class Group(NamedTuple):
    """The spectra of one number of components, before and after the filter."""

    clusters: Clusters
    density: np.ndarray  # (restarts * K,): mean distance of every spectrum to its neighbours
    between: np.ndarray  # (n, n): distances of the spectra that were kept


def numbers_of(study: Study, chosen: Sequence[int] = ()) -> list[int]:
    """Return the numbers of components to use, ascending; raise DataError for restarts that are missing."""
    trained = study.trained()
    planned = study.n_planned()
    n_trained = sum(len(iterations) for iterations in trained.values())
    if n_trained != planned:
        raise DataError(
            f"{study.folder}: prepare planned {planned} restarts, and the spectra of {n_trained} exist; run "
            f"`corpusmill cnmf factorize --skip-completed-runs`, or delete the spectra of an earlier plan"
        )
    unknown = sorted(set(chosen) - set(trained))
    if unknown:
        raise DataError(f"{study.folder}: no restarts with {unknown[0]} components; choose from {sorted(trained)}")
    return sorted(set(chosen)) or list(trained)


def select(study: Study, numbers: Sequence[int], progress: Progress) -> Selection:
    """Compute stability and error for each number of components, without a filter, and write the file of figures."""
    check_parameters(study)
    counts = study.matrix("norm_counts.h5ad")
    genes = counts.column_names or []
    clusters = [cluster(unit_rows(study.merged_spectra(number, genes).data), number) for number in numbers]
    stability = [silhouette(each) for each in clusters]
    refits = refit_usages(counts, [each.medians for each in clusters], progress)
    errors = [refit.squared_error for refit in refits]
    # cNMF writes its default threshold here, although nothing is filtered.
    columns = [numbers, [Filter().threshold] * len(numbers), stability, errors]
    names = ["k", "local_density_threshold", "silhouette", "prediction_error"]
    table = Table(np.array(columns, np.float64).T, np.arange(len(numbers)), names)
    write_table(study.result("k_selection_stats.df.npz"), table)
    return {"n_components": list(numbers), "silhouette": stability, "prediction_error": errors}


def consensus(study: Study, numbers: Sequence[int], chosen: Filter, progress: Progress) -> list[Group]:
    """Find the programs for each number of components, and write all files of results; return the clusters."""
    check_parameters(study)
    counts = study.matrix("norm_counts.h5ad")
    tpm = study.matrix("tpm.h5ad")
    variable = _places(counts, tpm)
    groups = [_filtered(study, number, counts.column_names or [], chosen) for number in numbers]
    usages = []
    medians = []
    refits = refit_usages(counts, [group.clusters.medians for group in groups], progress)
    for group, refit in zip(groups, refits, strict=True):
        # Programs are numbered by the sum of their shares, the largest first.
        order = np.argsort(-shares(refit.usages).sum(axis=0), kind="stable")
        usages.append(refit.usages[:, order])
        medians.append(group.clusters.medians[order])
    del refits
    sums = moments(tpm, usages, progress)
    spectra = [_spectra(sums, place, U) for place, U in enumerate(usages)]
    scores = [_scores(sums, place, U) for place, U in enumerate(usages)]
    del usages
    # Of TPM, the genes of high variance count in the last usages. They are divided by their sample deviation, and
    # spectra by the population deviation, as cNMF does.
    deviations = np.sqrt(sums.variances[variable])
    deviations[deviations == 0] = 1
    weights = np.zeros(len(sums.sums))
    weights[variable] = 1 / (deviations * np.sqrt(sums.n_cells / max(1, sums.n_cells - 1)))
    scaled = [np.zeros_like(each) for each in spectra]
    for place, each in enumerate(spectra):
        scaled[place][:, variable] = each[:, variable] / deviations
    last = refit_usages(tpm, scaled, progress, weights)
    cells = counts.row_names.to_pylist() if counts.row_names is not None else []
    variable_genes = counts.column_names or []
    for place, number in enumerate(numbers):
        # The spectra that starCAT takes have a fixed sum, and are then divided by the deviations.
        totals = spectra[place].sum(axis=1, keepdims=True)
        reference = (spectra[place] / np.where(totals > 0, totals, 1) * REFERENCE_SUM)[:, variable] / deviations
        programs = np.arange(1, number + 1)
        label = f"k_{number}.dt_{chosen.label}"
        tables = {
            f"spectra.{label}.consensus": Table(medians[place], programs, variable_genes),
            f"usages.{label}.consensus": Table(last[place].usages, cells, programs),
            f"gene_spectra_tpm.{label}": Table(spectra[place], programs, tpm.column_names or []),
            f"gene_spectra_score.{label}": Table(scores[place], programs, tpm.column_names or []),
            f"starcat_spectra.{label}": Table(reference, [f"GEP{program}" for program in programs], variable_genes),
        }
        for name, table in tables.items():
            write_table(study.path(f"{name}.df.npz"), table)
            write_text(study.result(f"{name}.txt"), table)
    return groups


def check_parameters(study: Study) -> None:
    """Raise ValueError unless the restarts were trained by least squares without penalties."""
    parameters = study.parameters()
    loss = parameters.get("beta_loss", "frobenius")
    if loss != "frobenius":
        raise ValueError(f"beta_loss is {loss!r}, but usages are found by least squares here: use `cnmf consensus`")
    for name in ("alpha_W", "alpha_H"):
        if parameters.get(name, 0):
            raise ValueError(f"{name} is {parameters[name]}, but there are no penalties here: use `cnmf consensus`")


def _filtered(study: Study, number: int, genes: Sequence[str], chosen: Filter) -> Group:
    """Cluster the spectra that have near neighbours, and write the file of local densities."""
    merged = study.merged_spectra(number, genes)
    rows = unit_rows(merged.data)
    between = distances(rows)
    density = local_density(between, count_neighbors(len(rows), number, chosen.neighborhood))
    table = Table(density[:, None], merged.rows, ["local_density"])
    write_table(study.path(f"local_density_cache.k_{number}.merged.df.npz"), table)
    is_kept = density < chosen.threshold
    return Group(cluster(rows[is_kept], number), density, between[np.ix_(is_kept, is_kept)])


def _places(counts: MatrixFile, tpm: MatrixFile) -> np.ndarray:
    """Return the columns of TPM that are the columns of the counts: (V,)."""
    if counts.shape[0] != tpm.shape[0]:
        raise DataError(
            f"{tpm.where}: {tpm.shape[0]} cells, but {counts.where} has {counts.shape[0]}; run prepare again"
        )
    column = {name: place for place, name in enumerate(tpm.column_names or [])}
    missing = [name for name in counts.column_names or [] if name not in column]
    if missing:
        raise DataError(f"{tpm.where}: there is no gene {missing[0]!r}, but {counts.where} has it; run prepare again")
    return np.array([column[name] for name in counts.column_names or []], np.int64)


# --- regressions ---


def _spectra(sums: Moments, place: int, usages: np.ndarray) -> np.ndarray:
    """Return the spectra (K, G) of all genes: the cells' shares times them are nearest to TPM, and none is negative."""
    part = shares(usages)
    found, _ = nonnegative_rows(sums.share_products[place].T, part.T @ part)
    return found.T


def _scores(sums: Moments, place: int, usages: np.ndarray) -> np.ndarray:
    """Return the coefficients (K, G) of least squares of the z-scores of TPM on the usages, without an intercept."""
    deviations = np.sqrt(np.maximum(sums.variances, LEAST_VARIANCE))
    centred = sums.products[place] - np.outer(usages.sum(axis=0), sums.means)
    return np.linalg.lstsq(usages.T @ usages, centred / deviations, rcond=None)[0]
