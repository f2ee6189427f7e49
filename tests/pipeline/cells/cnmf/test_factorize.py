"""Restarts of consensus NMF in cNMF's files."""

import itertools
import json

import numpy as np
import pytest
import scipy.sparse
import yaml
from corpusmill.io.errors import DataError
from corpusmill.pipeline.cells.cnmf.factorize import factorize
from corpusmill.pipeline.cells.cnmf.study import Study, plan_restarts
from helpers.cells import write_h5ad

pytest.importorskip("h5py")

PARAMETERS = {
    "alpha_W": 0.0,
    "alpha_H": 0.0,
    "l1_ratio": 0.0,
    "beta_loss": "frobenius",
    "solver": "cd",
    "init": "random",
    # Few epochs, because a run in a folder writes to the disk after each.
    "max_iter": 60,
    "tol": 0.001,
}
GENES = [f"gene{column}" for column in range(30)]


def planted(seed=0):
    """Return programs (3, 30) and a matrix of 80 cells that consists of them."""
    rng = np.random.default_rng(seed)
    programs = np.zeros((3, 30))
    for program in range(3):
        programs[program, 10 * program : 10 * program + 10] = rng.uniform(1, 2, 10)
    usages = rng.dirichlet([0.3] * 3, 80)
    return programs, usages @ programs


@pytest.fixture
def study(tmp_path):
    folder = tmp_path / "out" / "s" / "cnmf_tmp"
    folder.mkdir(parents=True)
    cells = [f"cell{row}" for row in range(80)]
    write_h5ad(folder / "s.norm_counts.h5ad", scipy.sparse.csr_matrix(planted()[1]), cells=cells, genes=GENES)
    (folder / "s.nmf_idvrun_params.yaml").write_text(yaml.safe_dump(PARAMETERS))
    np.savez_compressed(folder / "s.nmf_params.df.npz", data=np.zeros((4, 4)), index=np.arange(4))
    return Study(str(tmp_path / "out"), "s")


def test_restarts_have_the_seeds_that_prepare_draws():
    found = plan_restarts([3, 2], 2, 14)
    np.random.seed(14)
    seeds = np.random.randint(low=1, high=(2**31) - 1, size=4)
    assert [restart[:2] for restart in found] == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert [restart.seed for restart in found] == seeds.tolist()


def test_spectra_are_written_for_each_restart_and_find_the_programs(study):
    planned = plan_restarts([2, 3], 2, 1)
    assert factorize(study, planned) == planned
    programs = planted()[0]
    for restart in planned:
        with np.load(study.spectra(restart), allow_pickle=False) as arrays:
            assert arrays["data"].shape == (restart.n_components, 30)
            assert arrays["data"].dtype == np.float64
            assert arrays["index"].tolist() == list(range(1, restart.n_components + 1))
            assert arrays["columns"].tolist() == GENES
            spectra = arrays["data"]
    spectra = spectra / np.linalg.norm(spectra, axis=1, keepdims=True)
    wanted = programs / np.linalg.norm(programs, axis=1, keepdims=True)
    best = max(min(spectra[order[k]] @ wanted[k] for k in range(3)) for order in itertools.permutations(range(3)))
    assert best > 0.99


def test_the_name_of_an_analysis_may_have_brackets(tmp_path):
    study = Study(str(tmp_path), "run[1]")
    (study.folder / "cnmf_tmp").mkdir(parents=True)
    for restart in plan_restarts([2], 3, 1):
        study.spectra(restart).touch()
    assert study.trained() == {2: [0, 1, 2]}


def test_completed_restarts_are_skipped_on_request(study):
    planned = plan_restarts([2], 2, 1)
    factorize(study, planned[:1])
    before = study.spectra(planned[0]).stat().st_mtime_ns
    assert factorize(study, planned, skip_completed=True) == planned[1:]
    assert study.spectra(planned[0]).stat().st_mtime_ns == before
    assert factorize(study, planned, skip_completed=True) == []


def test_other_losses_and_other_plans_are_refused(study):
    study.path("nmf_idvrun_params.yaml").write_text(yaml.safe_dump(PARAMETERS | {"beta_loss": "itakura-saito"}))
    with pytest.raises(ValueError, match="beta_loss is 'itakura-saito': choose frobenius or kullback-leibler"):
        factorize(study, plan_restarts([2], 1, 1))
    with pytest.raises(DataError, match="prepare planned 4 restarts, and the options give 6"):
        study.check_number(6)
    with pytest.raises(DataError, match="no such file; run `cnmf prepare` first"):
        Study(study.output_dir, "t").check_number(4)


def test_a_frame_of_pandas_reads_the_spectra(study):
    pandas = pytest.importorskip("pandas")
    (restart,) = factorize(study, plan_restarts([2], 1, 1))
    with np.load(study.spectra(restart), allow_pickle=True) as arrays:
        frame = pandas.DataFrame(**arrays)
    assert frame.columns.tolist() == GENES
    assert frame.index.tolist() == [1, 2]


def test_processes_share_the_restarts(study):
    planned = plan_restarts([2, 3], 2, 1)
    shares = [planned[worker::3] for worker in range(3)]
    assert sorted(itertools.chain(*shares)) == sorted(planned)
    assert json.dumps(shares[0])
