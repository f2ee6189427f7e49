"""Models of accessible regions in pycisTopic's files: their content, their statistics, and interruptions."""

import json
import multiprocessing
import os
import resource
import runpy
import signal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.cells.cistopic.bundle import Bundle, Settings, read_lists
from corpusmill.pipeline.cells.cistopic.grid import Execution, compare, make_corpus, train_grid
from corpusmill.pipeline.cells.cistopic.statistics import CellGroup, best_number, scaled, statistics
from corpusmill.pipeline.engine.events import EpochFinished
from helpers.cells import write_h5ad, write_market, write_names

SETTINGS = Settings(n_topics=2, iterations=4)


def planted(n_cells=60, n_regions=90, n_modules=3, seed=0):
    """Return a binary matrix (cells, regions) of modules that share no region; cell 5 and region 7 are empty."""
    rng = np.random.default_rng(seed)
    module = np.arange(n_cells) % n_modules
    probability = np.where(np.arange(n_regions)[None, :] % n_modules == module[:, None], 0.5, 0.02)
    matrix = (rng.random((n_cells, n_regions)) < probability).astype(int)
    matrix[5] = 0
    matrix[:, 7] = 0
    return matrix


@pytest.fixture
def files(tmp_path):
    """Return the matrix and a function that makes its corpus from a MatrixMarket file in an order of entries."""
    matrix = planted()
    cells = write_names(tmp_path / "cells.txt", [f"cell{row}" for row in range(60)])
    regions = write_names(
        tmp_path / "regions.txt", [f"chr1:{500 * column}-{500 * column + 500}" for column in range(90)]
    )

    def corpus(prefix="tm", order="row"):
        path = tmp_path / f"{order}.mtx.gz"
        if not path.exists():
            write_market(path, 2 * matrix.T, order)
        return make_corpus(str(path), str(tmp_path / prefix), cells, regions)

    return matrix, corpus, str(tmp_path / "tm")


def contents(prefix, number):
    bundle = Bundle(prefix, Settings(number))
    return read_lists(bundle.cells), read_lists(bundle.regions)


def test_the_files_hold_all_cells_and_regions_in_the_order_of_the_input(files):
    matrix, corpus, prefix = files
    (bundle,) = train_grid(corpus(), prefix, [3], SETTINGS)
    shares, counts = contents(prefix, 3)
    assert shares.shape == (60, 3)
    assert counts.shape == (3, 90)
    assert (
        pq.read_schema(bundle.cells).to_string() == "cell_topic_probabilities: fixed_size_list<element: float>[3]\n"
        "  child 0, element: float"
    )
    assert "fixed_size_list<element: int32>[90]" in pq.read_schema(bundle.regions).to_string()
    assert counts.sum() == matrix.sum()
    np.testing.assert_array_equal(counts.sum(axis=0), matrix.sum(axis=0))
    lengths = matrix.sum(axis=1)
    np.testing.assert_allclose((shares * lengths[:, None]).sum(axis=0), counts.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(shares.sum(axis=1), lengths > 0, rtol=1e-6)
    assert (shares[5] == 0).all()
    assert (counts[:, 7] == 0).all()
    parameters = json.loads(bundle.parameters.read_text())
    assert parameters["backend"] == "mallet"
    assert (parameters["n_topics"], parameters["alpha"], parameters["alpha_by_topic"]) == (3, 50.0, True)
    assert not list(Path(prefix).parent.glob("*.run-*"))


def test_the_order_of_the_entries_and_the_format_of_the_matrix_do_not_matter(files, tmp_path):
    matrix, corpus, prefix = files
    train_grid(corpus(), prefix, [2], SETTINGS)
    expected = contents(prefix, 2)
    train_grid(corpus("by_column", "column"), str(tmp_path / "by_column"), [2], SETTINGS)
    pytest.importorskip("h5py")
    names = [line.split("\n")[0] for line in (tmp_path / "regions.txt").read_text().splitlines()]
    path = write_h5ad(tmp_path / "x.h5ad", matrix, cells=[f"cell{row}" for row in range(60)], genes=names)
    train_grid(make_corpus(path, str(tmp_path / "h5ad"), None, None), str(tmp_path / "h5ad"), [2], SETTINGS)
    for other in ("by_column", "h5ad"):
        for found, wanted in zip(contents(str(tmp_path / other), 2), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_planted_modules_are_found(files):
    _, corpus, prefix = files
    train_grid(corpus(), prefix, [3], Settings(3, alpha=1.0, iterations=60))
    counts = contents(prefix, 3)[1]
    phi = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    modules = np.array([np.arange(90) % 3 == module for module in range(3)], float)
    modules[:, 7] = 0
    modules /= np.linalg.norm(modules, axis=1, keepdims=True)
    assert (phi @ modules.T).max(axis=1).min() > 0.9


def test_complete_models_are_skipped_and_others_are_made_again(files):
    _, corpus, prefix = files
    notes = []
    train_grid(corpus(), prefix, [2, 3], SETTINGS, report=lambda *note: notes.append(note))
    assert notes == [(3, False), (2, False)]
    before = [path.read_bytes() for path in sorted(Path(prefix).parent.glob("tm.3_topics*"))]
    Bundle(prefix, Settings(2)).parameters.unlink()
    notes.clear()
    train_grid(corpus(), prefix, [2, 3], SETTINGS, report=lambda *note: notes.append(note))
    assert notes == [(3, True), (2, False)]
    assert [path.read_bytes() for path in sorted(Path(prefix).parent.glob("tm.3_topics*"))] == before


def test_models_of_other_parameters_are_not_mixed_under_one_prefix(files):
    _, corpus, prefix = files
    train_grid(corpus(), prefix, [2], SETTINGS)
    longer = Settings(2, iterations=5)
    with pytest.raises(
        DataError, match=r"\(iterations 4, now 5\) with these numbers of topics: 2; choose .*--replace$"
    ):
        train_grid(corpus(), prefix, [3], longer)
    # Models that the call does not train would still be those of other parameters.
    with pytest.raises(DataError, match="numbers of topics: 2"):
        train_grid(corpus(), prefix, [3], longer, Execution(replace=True))
    notes = []
    train_grid(corpus(), prefix, [2, 3], longer, Execution(replace=True), lambda *note: notes.append(note))
    assert notes == [(3, False), (2, False)]
    # Another prefix that begins with the same letters has models of its own.
    train_grid(corpus(), prefix[:-1], [2], SETTINGS)


def train_with_little_memory(prefix, corpus, message):
    """Train two models at the same time in a process that may use 700 MiB, and write why it fails."""
    # Linux does not enforce this limit, but plans do.
    resource.setrlimit(resource.RLIMIT_RSS, (700 << 20, 700 << 20))
    with pytest.raises(DataError) as found:
        train_grid(Corpus(corpus), prefix, [2, 3], SETTINGS, Execution(processes=2))
    Path(message).write_text(str(found.value))


@pytest.mark.slow
def test_processes_that_train_at_the_same_time_divide_the_memory(files, tmp_path):
    _, corpus, prefix = files
    arguments = (prefix, corpus().url, str(tmp_path / "message"))
    process = multiprocessing.get_context("spawn").Process(target=train_with_little_memory, args=arguments)
    process.start()
    process.join()
    assert "(350.00 MiB memory limit," in (tmp_path / "message").read_text()


@pytest.mark.slow
def test_processes_of_their_own_write_the_same_files(files, tmp_path):
    _, corpus, prefix = files
    train_grid(corpus(), prefix, [2, 3], SETTINGS)
    other = str(tmp_path / "other")
    notes = []
    train_grid(corpus(), other, [3, 2], SETTINGS, Execution(processes=2), lambda *note: notes.append(note))
    assert sorted(notes) == [(2, False), (3, False)]
    for number in (2, 3):
        for found, expected in zip(contents(other, number), contents(prefix, number), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_model_that_cannot_be_trained_ends_the_grid(files):
    _, corpus, prefix = files
    others = set(multiprocessing.active_children())
    with pytest.raises(ValueError, match="sampler is 'none'"):
        train_grid(corpus(), prefix, [2, 3], Settings(2, sampler="none"), Execution(processes=2))
    assert set(multiprocessing.active_children()) <= others


class Stop(Exception):
    """Raised by a callback, as if the process were killed."""


def test_an_interrupted_grid_gives_the_same_files(files, tmp_path):
    _, corpus, prefix = files
    train_grid(corpus(), prefix, [2], SETTINGS)
    expected = contents(prefix, 2)
    other = str(tmp_path / "other")

    def stop(event):
        if getattr(event, "epoch", 0) == 2:
            raise Stop

    with pytest.raises(Stop):
        train_grid(corpus("other"), other, [2], SETTINGS, Execution(callbacks=[stop]))
    assert not Bundle(other, Settings(2)).parameters.exists()
    train_grid(corpus("other"), other, [2], SETTINGS)
    for found, wanted in zip(contents(other, 2), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def train_until_killed(path, prefix, names, epoch):
    """Train a grid in a process of its own, which is killed after an epoch of the smaller model."""

    def kill(event):
        # The model with more topics is trained first.
        if isinstance(event, EpochFinished) and event.epoch == epoch and Bundle(prefix, Settings(3)).regions.exists():
            os.kill(os.getpid(), signal.SIGKILL)

    corpus = make_corpus(path, prefix, *names)
    train_grid(corpus, prefix, [2, 3], SETTINGS, Execution(callbacks=[kill]))


@pytest.mark.slow
def test_a_grid_that_was_killed_is_continued_to_the_same_files(files, tmp_path):
    _, corpus, prefix = files
    train_grid(corpus(), prefix, [2, 3], SETTINGS)
    other = str(tmp_path / "killed")
    names = (str(tmp_path / "cells.txt"), str(tmp_path / "regions.txt"))
    arguments = (str(tmp_path / "row.mtx.gz"), other, names, 2)
    process = multiprocessing.get_context("spawn").Process(target=train_until_killed, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert Bundle(other, Settings(3)).parameters.exists()
    assert not Bundle(other, Settings(2)).parameters.exists()
    resumed = []
    train_grid(corpus("killed"), other, [2, 3], SETTINGS, Execution(callbacks=[resumed.append]))
    # Only the smaller model is continued, from its last epoch.
    assert [event.epoch for event in resumed if isinstance(event, EpochFinished)] == [3, 4]
    for number in (2, 3):
        for found, wanted in zip(contents(other, number), contents(prefix, number), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert not list(tmp_path.glob("*.run-*"))


def test_learned_priors_are_recorded_in_the_form_that_holds_them(files):
    _, corpus, prefix = files
    settings = Settings(2, iterations=4, optimize_interval=2)
    (bundle,) = train_grid(corpus(), prefix, [2], settings)
    parameters = json.loads(bundle.parameters.read_text())
    assert parameters["backend"] == "tomotopy"
    assert len(parameters["alpha"]) == 2
    assert parameters["alpha_input"] == 50.0
    assert np.isfinite(bundle.write_statistics(corpus())["loglikelihood"])


def test_a_wrong_number_of_names_is_refused_with_both_numbers(tmp_path):
    path = write_market(tmp_path / "x.mtx", planted().T)
    names = write_names(tmp_path / "names.txt", [f"n{row}" for row in range(59)])
    with pytest.raises(DataError, match="60 rows, but 59 names of rows; give one for each"):
        make_corpus(path, str(tmp_path / "tm"), names, names)
    with pytest.raises(DataError, match="give the names of its cells and regions with --cells and --regions"):
        make_corpus(path, str(tmp_path / "tm"), names, None)


def test_the_anndata_files_hold_shares_of_cells_and_of_topics(files):
    h5py = pytest.importorskip("h5py")
    _, corpus, prefix = files
    (bundle,) = train_grid(corpus(), prefix, [3], SETTINGS)
    bundle.write_anndata(corpus())
    shares, counts = contents(prefix, 3)
    for path, values, first in (
        (bundle.cells_anndata, shares, "cell0"),
        (bundle.regions_anndata, (counts / counts.sum(axis=1, keepdims=True)).T, "chr1:0-500"),
    ):
        with h5py.File(path) as file:
            np.testing.assert_allclose(file["X"][:], values, rtol=1e-6)
            assert file["X"].dtype == np.float32
            assert file["obs/_index"].asstr()[0] == first
            assert file["var/_index"].asstr()[:].tolist() == ["Topic1", "Topic2", "Topic3"]
    # Files of other parameters do not stay.
    train_grid(corpus(), prefix, [3], Settings(3, iterations=5), Execution(replace=True))
    assert not bundle.cells_anndata.exists()


def test_the_library_anndata_reads_the_files(files):
    anndata = pytest.importorskip("anndata")
    _, corpus, prefix = files
    (bundle,) = train_grid(corpus(), prefix, [3], SETTINGS)
    bundle.write_anndata(corpus())
    found = anndata.read_h5ad(bundle.regions_anndata)
    assert found.shape == (90, 3)
    assert found.obs_names[1] == "chr1:500-1000"
    np.testing.assert_allclose(found.X.sum(axis=0), 1, rtol=1e-5)


# --- statistics ---


def test_statistics_of_the_reference_example():
    regions = [[1, 1, 0, 0, 1], [1, 1, 0, 0, 0], [1, 0, 0, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 1]]
    accessible = scipy.sparse.csr_matrix(np.array(regions).T)
    counts = np.array([[2, 2, 1, 0, 0, 0], [1, 0, 2, 2, 3, 2]])
    theta = np.array([[1, 0], [2 / 3, 1 / 3], [0, 1], [0, 1], [0, 1]], np.float32)
    groups = [CellGroup(theta[:2], accessible[:2]), CellGroup(theta[2:], accessible[2:])]
    found = statistics(counts, groups, np.array([25.0, 25.0]), 0.1)
    assert found["Arun_2010"] == pytest.approx(0.0221415, abs=2e-6)
    assert found["Cao_Juan_2009"] == pytest.approx(0.2842676, abs=1e-6)
    assert found["Mimno_2011"] == pytest.approx(-6.2969700, abs=1e-6)
    assert found["coherence"] == pytest.approx([-6.2969700, -6.2969700], abs=1e-6)
    assert found["loglikelihood"] == pytest.approx(-44.7901281, abs=1e-4)
    assert found["marg_topic"] == pytest.approx([1 / 3, 2 / 3], abs=1e-6)
    assert found["assignments"] == [5, 10]


def test_a_grid_is_compared(files):
    _, corpus, prefix = files
    bundles = train_grid(corpus(), prefix, [2, 3], SETTINGS)
    comparison = compare(bundles, corpus())
    assert comparison["n_topics"] == [2, 3]
    assert set(json.loads(bundles[0].statistics.read_text())) == {
        "Arun_2010",
        "Cao_Juan_2009",
        "Mimno_2011",
        "loglikelihood",
        "coherence",
        "marg_topic",
        "assignments",
    }
    for values in comparison["scaled"].values():
        assert sorted(values) in ([0.0, 1.0], [1.0, 1.0])


def test_the_recipe_reads_the_tables(files, tmp_path):
    matrix, corpus, prefix = files
    compare(train_grid(corpus(), prefix, [3], SETTINGS), corpus())
    recipe = Path(__file__).parents[4] / "docs" / "recipes" / "cistopic_model.py"
    read_model = runpy.run_path(str(recipe))["read_model"]
    tables = read_model(prefix, 3, str(tmp_path / "cells.txt"), str(tmp_path / "regions.txt"))
    assert tables["cell_topic"].shape == (3, 60)
    assert tables["topic_region"].index[1] == "chr1:500-1000"
    np.testing.assert_allclose(tables["topic_region"].sum(), 1)
    assert tables["topic_ass"]["Assignments"].sum() == matrix.sum()
    assert list(tables["metrics"].columns) == ["Arun_2010", "Cao_Juan_2009", "Mimno_2011", "loglikelihood"]


def test_few_topics_are_chosen_only_if_there_is_nothing_else():
    def fake(value):
        return dict.fromkeys(("Mimno_2011", "loglikelihood"), value) | dict.fromkeys(
            ("Arun_2010", "Cao_Juan_2009"), -value
        )

    assert scaled([fake(1.0), fake(3.0)])["Arun_2010"] == [0.0, 1.0]
    assert best_number([2, 5, 10], [fake(9.0), fake(2.0), fake(1.0)]) == 5
    assert best_number([2, 4], [fake(1.0), fake(2.0)]) == 4
