"""An analysis by cNMF with planted programs, whose restarts are already trained."""

import numpy as np
import scipy.sparse
import yaml
from corpusmill.pipeline.cells.cnmf.study import Restart, Study, Table, write_table
from helpers.cells import write_h5ad

GENES = [f"gene{column}" for column in range(30)]
CELLS = [f"cell{row}" for row in range(80)]
#: Genes of high variance, in another order than in the file of all genes.
VARIABLE = GENES[20:] + GENES[:15]


def planted():
    """Return programs (3, 30) that share some genes, usages (80, 3), and their product."""
    rng = np.random.default_rng(0)
    programs = rng.uniform(0, 0.3, (3, 30))
    for program in range(3):
        programs[program, 10 * program : 10 * program + 10] += rng.uniform(1, 2, 10)
    usages = rng.dirichlet([0.3, 0.4, 0.5], 80)
    return programs, usages, usages @ programs


def write_spectra(study, number, n_restarts, spectra, noise=0.01):
    """Write the result of restarts that found these spectra, each in another order. The last one found nothing."""
    rng = np.random.default_rng(number)
    for iteration in range(n_restarts):
        found = spectra[rng.permutation(len(spectra))] * rng.uniform(0.9, 1.1, (len(spectra), 1))
        found = np.abs(found + noise * rng.standard_normal(found.shape))
        if iteration == n_restarts - 1:
            found = rng.random(found.shape)
        table = Table(found, np.arange(1, number + 1), VARIABLE)
        write_table(study.spectra(Restart(number, iteration, 0)), table)


def write_study(folder):
    """Return an analysis with ten restarts for two and for three components."""
    programs, _, cells = planted()
    below = folder / "s" / "cnmf_tmp"
    below.mkdir(parents=True)
    tpm = 1e4 * cells
    columns = [GENES.index(gene) for gene in VARIABLE]
    counts = cells[:, columns] / cells[:, columns].std(axis=0, ddof=1)
    write_h5ad(below / "s.norm_counts.h5ad", scipy.sparse.csr_matrix(counts), cells=CELLS, genes=VARIABLE)
    write_h5ad(below / "s.tpm.h5ad", scipy.sparse.csr_matrix(tpm), cells=CELLS, genes=GENES)
    parameters = {"alpha_W": 0.0, "alpha_H": 0.0, "beta_loss": "frobenius", "init": "random"}
    (below / "s.nmf_idvrun_params.yaml").write_text(yaml.safe_dump(parameters))
    np.savez_compressed(below / "s.nmf_params.df.npz", data=np.zeros((20, 4)), index=np.arange(20))
    study = Study(str(folder), "s")
    spectra = programs[:, columns] / cells[:, columns].std(axis=0, ddof=1)
    write_spectra(study, 3, 10, spectra)
    write_spectra(study, 2, 10, spectra[:2])
    return study
