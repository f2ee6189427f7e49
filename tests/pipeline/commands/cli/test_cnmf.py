"""The commands for consensus NMF."""

import json

import numpy as np
import pytest
from corpusmill.pipeline.cells.cnmf.study import Restart
from helpers.cnmf_study import CELLS, GENES, VARIABLE, planted, write_spectra, write_study

pytest.importorskip("h5py")


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "out")


def read_text(path):
    """Return the names of the rows and columns of a table as text, and its numbers."""
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return [line[0] for line in lines[1:]], lines[0][1:], np.array([line[1:] for line in lines[1:]], float)


def test_the_commands_find_the_planted_programs(study, call):
    options = ("--output-dir", study.output_dir, "--name", "s")
    pytest.importorskip("matplotlib")
    code, out, err = call("cnmf", "k_selection_plot", *options, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["n_components"] == [2, 3]
    assert found["prediction_error"][1] < 0.01 * found["prediction_error"][0]
    assert study.result("k_selection.png").read_bytes().startswith(b"\x89PNG")
    threshold = ("--local-density-threshold", "0.3", "--show-clustering")
    code, out, err = call("cnmf", "consensus", *options, "-k", "3", *threshold, "--json")
    assert code == 0, err
    assert json.loads(out)["spectra_left_out"] == [3]
    assert study.result("clustering.k_3.dt_0_3.png").read_bytes().startswith(b"\x89PNG")
    cells, numbers, usages = read_text(study.result("usages.k_3.dt_0_3.consensus.txt"))
    assert (cells, numbers) == (CELLS, ["1", "2", "3"])
    # Programs are numbered by their share, the largest first.
    shares = usages / usages.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares.sum(axis=0), sorted(shares.sum(axis=0), reverse=True))
    correlations = np.corrcoef(shares.T, planted()[1].T)[:3, 3:]
    order = correlations.argmax(axis=1)
    assert sorted(order) == [0, 1, 2]
    assert correlations.max(axis=1).min() > 0.99
    rows, genes, spectra = read_text(study.result("gene_spectra_tpm.k_3.dt_0_3.txt"))
    assert (rows, genes) == (["1", "2", "3"], GENES)
    assert min(np.corrcoef(spectra[k], planted()[0][order[k]])[0, 1] for k in range(3)) > 0.95
    rows, genes, _ = read_text(study.result("starcat_spectra.k_3.dt_0_3.txt"))
    assert (rows, genes) == (["GEP1", "GEP2", "GEP3"], VARIABLE)


def test_restarts_that_are_missing_and_other_losses_are_refused(study, call):
    command = ("cnmf", "consensus", "--output-dir", study.output_dir, "--name", "s")
    code, _, err = call(*command, "-k", "7")
    assert code == 4
    assert "no restarts with 7 components; choose from [2, 3]" in err
    code, _, err = call(*command, "-k", "3", "--local-density-threshold", "0.0001")
    assert code == 4
    assert "0 spectra remain for 3 components: raise --local-density-threshold" in err
    code, _, err = call(*command, "--local-neighborhood-size", "0.05")
    assert code == 4
    assert "0.05 of 10 restarts is less than one neighbour" in err
    study.spectra(Restart(3, 4, 0)).unlink()
    code, _, err = call(*command)
    assert code == 4
    assert "prepare planned 20 restarts, and the spectra of 19 exist" in err
    write_spectra(study, 3, 10, planted()[0][:, :25])
    study.path("nmf_idvrun_params.yaml").write_text("beta_loss: kullback-leibler\n")
    code, _, err = call(*command)
    assert code == 2
    assert "beta_loss is 'kullback-leibler'" in err
    assert "use `cnmf consensus`" in err


def test_factorize_without_the_options_of_prepare_says_why_it_needs_them(study, call):
    code, _, err = call("cnmf", "factorize", "--output-dir", study.output_dir, "--name", "s")
    assert code == 2
    assert "give -k, -n and --seed as for `cnmf prepare`: its plan is a file of pickled objects" in err


def test_processes_that_are_numbered_from_one_train_all_restarts(study, call):
    options = ("--output-dir", study.output_dir, "--name", "s", "-k", "2", "3", "-n", "10", "--seed", "14")
    trained = []
    for number in (1, 2, 3):
        process = ("--worker-index", number, "--total-workers", 3, "--skip-completed-runs")
        study.spectra(Restart(2, 0, 0)).unlink(missing_ok=True)
        code, out, err = call("cnmf", "factorize", *options, *process, "--json")
        assert code == 0, err
        trained.append(json.loads(out)["trained"])
    assert trained == [0, 0, 1]
