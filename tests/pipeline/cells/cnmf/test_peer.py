"""cNMF's own steps before and after: they plan the restarts and use the spectra, and our consensus equals theirs."""

import shutil

import numpy as np
import pytest
import scipy.sparse
from corpusmill.pipeline.cells.cnmf.consensus import Filter, consensus, numbers_of, select
from corpusmill.pipeline.cells.cnmf.factorize import factorize
from corpusmill.pipeline.cells.cnmf.study import Study, plan_restarts
from helpers.cells import write_h5ad

pytestmark = pytest.mark.slow

cnmf = pytest.importorskip("cnmf")
pandas = pytest.importorskip("pandas")

N_CELLS = 150
N_GENES = 120
PROGRAMS = 3
#: Tables of results without the number of components and the threshold, and whether they exist as text too.
TABLES = ("spectra", "usages", "gene_spectra_tpm", "gene_spectra_score", "starcat_spectra")


def planted():
    """Return usages (cells, programs) and counts (cells, genes) drawn from them."""
    rng = np.random.default_rng(3)
    programs = rng.gamma(0.3, 1, (PROGRAMS, N_GENES))
    programs /= programs.sum(axis=1, keepdims=True)
    usages = rng.dirichlet([0.2] * PROGRAMS, N_CELLS)
    return usages, rng.poisson(3000 * usages @ programs).astype(np.float32)


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Return the peer's analysis after its last step, and ours, from the same spectra of our restarts."""
    folder = tmp_path_factory.mktemp("cnmf")
    cells = [f"cell{row}" for row in range(N_CELLS)]
    genes = [f"gene{column}" for column in range(N_GENES)]
    path = write_h5ad(folder / "counts.h5ad", scipy.sparse.csr_matrix(planted()[1]), cells=cells, genes=genes)
    peer = cnmf.cNMF(output_dir=str(folder / "peer"), name="s")
    peer.prepare(counts_fn=path, components=[3, 4], n_iter=10, seed=14, num_highvar_genes=100, max_NMF_iter=100)
    planned = plan_restarts([3, 4], 10, 14)
    study = Study(str(folder / "peer"), "s")
    study.check_number(len(planned))
    factorize(study, planned)
    shutil.copytree(folder / "peer", folder / "ours")
    ours = Study(str(folder / "ours"), "s")
    select(ours, numbers_of(ours), lambda done, total: None)
    consensus(ours, numbers_of(ours, [3]), Filter(0.5), lambda done, total: None)
    peer.combine()
    peer.k_selection_plot(close_fig=True)
    peer.consensus(k=3, density_threshold=0.5, show_clustering=False)
    return study, ours


def table(path):
    with np.load(path, allow_pickle=True) as arrays:
        return pandas.DataFrame(**arrays)


@pytest.mark.filterwarnings("ignore:Received a view of an AnnData")
@pytest.mark.timeout(900)
def test_the_steps_of_cnmf_find_the_planted_usages(studies):
    found = table(studies[0].path("usages.k_3.dt_0_5.consensus.df.npz"))
    found = found.div(found.sum(axis=1), axis=0)
    correlations = np.corrcoef(found.T, planted()[0].T)[:PROGRAMS, PROGRAMS:]
    assert correlations.max(axis=0).min() > 0.97


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TABLES)
def test_our_consensus_equals_that_of_cnmf(studies, name):
    middle = f"{name}.k_3.dt_0_5" + (".consensus" if name in TABLES[:2] else "")
    theirs, ours = (table(study.path(f"{middle}.df.npz")) for study in studies)
    assert ours.index.tolist() == theirs.index.tolist()
    assert ours.columns.tolist() == theirs.columns.tolist()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs.values).max())
    # As text, too.
    theirs, ours = (pandas.read_csv(study.result(f"{middle}.txt"), sep="\t", index_col=0) for study in studies)
    assert ours.columns.tolist() == theirs.columns.tolist()
    assert ours.index.tolist() == theirs.index.tolist()
    np.testing.assert_allclose(ours, table(studies[1].path(f"{middle}.df.npz")), rtol=1e-12)


@pytest.mark.timeout(900)
def test_our_figures_for_the_number_of_components_equal_those_of_cnmf(studies):
    theirs, ours = (table(study.result("k_selection_stats.df.npz")) for study in studies)
    pandas.testing.assert_frame_equal(ours, theirs.astype(float), rtol=1e-3)
    theirs, ours = (table(study.path("local_density_cache.k_3.merged.df.npz")) for study in studies)
    pandas.testing.assert_frame_equal(ours, theirs, rtol=1e-6)
    theirs, ours = (table(study.path("spectra.k_4.merged.df.npz")) for study in studies)
    pandas.testing.assert_frame_equal(ours, theirs)
