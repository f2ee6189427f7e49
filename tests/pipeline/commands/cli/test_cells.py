"""The commands with files of single-cell programs."""

import json

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA
from helpers.cells import CELLS, COUNTS, GENES, write_h5ad, write_market, write_names

h5py = pytest.importorskip("h5py")
HERE = ("--set", "cluster.kind=synchronous")


def test_a_file_is_ingested_trained_on_and_receives_the_weights(tmp_path, call):
    path = write_h5ad(tmp_path / "x.h5ad")
    corpus = tmp_path / "corpus"
    code, out, err = call("ingest", path, corpus, *HERE, "--json")
    assert (code, json.loads(out)["documents"], json.loads(out)["words"]) == (0, 7, 4), err
    LDA(2, max_iter=2, device="cpu").fit(str(corpus)).save(str(tmp_path / "model"))
    command = ("transform", tmp_path / "model", path, "--into", path, *HERE)
    code, out, err = call(*command, "--json")
    assert (code, json.loads(out)["obsm"]) == (0, "X_topics"), err
    code, _, err = call(*command)
    assert code == 4
    assert "obsm/X_topics exists already; replace it with --replace" in err
    assert call(*command, "--replace")[0] == 0
    assert call("transform", tmp_path / "model", corpus, "--into", path, "--key", "c", *HERE)[0] == 0
    with h5py.File(path) as file:
        assert file["obsm/X_c"].shape == (7, 2)
        np.testing.assert_array_equal(file["obsm/X_c"][:], file["obsm/X_topics"][:])


def test_out_and_into_exclude_each_other(tmp_path, call):
    for arguments in (("model", "corpus"), ("model", "corpus", "out", "--into", "x.h5ad")):
        code, _, err = call("transform", *arguments)
        assert code == 2
        assert "give either OUT or --into FILE" in err


def test_a_grid_of_models_of_accessible_regions(tmp_path, call):
    matrix = write_market(tmp_path / "x.mtx", COUNTS.T)
    names = ("-c", write_names(tmp_path / "cells.txt", CELLS), "-r", write_names(tmp_path / "regions.txt", GENES))
    command = ("cistopic", matrix, *names, "-o", tmp_path / "out" / "tm", "-n", "3", "-A", "True")
    code, out, err = call(*command, "-t", "2", "3", "5", "--stats", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["cells"], found["regions"], found["accessible"]) == (7, 5, 13)
    assert found["n_topics"] == [2, 3, 5]
    assert found["best"] == 5
    code, out, _ = call(*command, "-t", "2", "3", "5", "--stats")
    header, *rows = [line.split() for line in out[out.index("\n topics") + 1 :].splitlines()]
    statistics = found["statistics"]
    assert header == ["topics", *statistics]
    assert rows[1] == ["3", *(f"{values[1]:,.4f}" for values in statistics.values())]
    assert (tmp_path / "out" / "tm.5_topics.stats.json").exists()
    code, out, _ = call(*command, "-t", "2", "-t", "3")
    assert code == 0
    assert "complete before  2, 3" in out
    code, _, err = call("cistopic", matrix, *names, "-o", tmp_path / "out" / "tm", "-n", "4", "-t", "7")
    assert (code, "(iterations 3, now 4" in err) == (4, True)
    code, _, err = call("cistopic", matrix, "-o", tmp_path / "other", "-t", "2")
    assert (code, "give the names of its cells and regions" in err) == (4, True)


def test_names_that_are_too_few_are_refused_with_the_file_of_the_matrix(tmp_path, call):
    matrix = tmp_path / "x.npz"
    scipy.sparse.save_npz(matrix, scipy.sparse.csr_matrix(COUNTS.T))
    cells = write_names(tmp_path / "cells.txt", CELLS)
    regions = write_names(tmp_path / "regions.txt", GENES)
    command = ("cistopic", matrix, "-o", tmp_path / "tm", "-t", "2")
    code, _, err = call(*command, "-c", write_names(tmp_path / "short.txt", CELLS[:-1]), "-r", regions)
    assert (code, "x.npz, transposed: 7 rows, but 6 names of rows; give one for each" in err) == (4, True), err
    code, _, err = call(*command, "-c", cells, "-r", write_names(tmp_path / "short.txt", GENES[:-1]))
    assert (code, "x.npz, transposed: 5 columns, but 4 names of columns; give one for each" in err) == (4, True), err
