"""cNMF's own steps before and after: they plan the restarts and use the spectra. Needs the extra ``bio``."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.pipeline.cnmf.factorize import Study, factorize, restarts
from helpers.cells import write_h5ad

cnmf = pytest.importorskip("cnmf")


@pytest.mark.timeout(900)
def test_the_steps_of_cnmf_use_the_spectra(tmp_path):
    rng = np.random.default_rng(3)
    programs = rng.gamma(0.3, 1, (3, 120))
    programs /= programs.sum(axis=1, keepdims=True)
    usages = rng.dirichlet([0.2] * 3, 150)
    counts = rng.poisson(3000 * usages @ programs).astype(np.float32)
    cells = [f"cell{row}" for row in range(150)]
    genes = [f"gene{column}" for column in range(120)]
    path = write_h5ad(tmp_path / "counts.h5ad", scipy.sparse.csr_matrix(counts), cells=cells, genes=genes)
    peer = cnmf.cNMF(output_dir=str(tmp_path), name="s")
    peer.prepare(counts_fn=path, components=[3], n_iter=7, seed=14, num_highvar_genes=100)
    study = Study(str(tmp_path), "s")
    planned = restarts([3], 7, 14)
    study.check_number(len(planned))
    factorize(study, planned)
    peer.combine()
    peer.k_selection_plot()
    peer.consensus(k=3, density_threshold=2.0, show_clustering=False)
    found = np.loadtxt(tmp_path / "s" / "s.usages.k_3.dt_2_0.consensus.txt", skiprows=1, usecols=(1, 2, 3))
    found /= found.sum(axis=1, keepdims=True)
    correlations = np.corrcoef(found.T, usages.T)[:3, 3:]
    assert correlations.max(axis=0).min() > 0.97
