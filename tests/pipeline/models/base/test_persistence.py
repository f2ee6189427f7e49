"""Trained models come from runs and saved models as a whole, or not at all."""

import mmap
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec, ingest, ingest_graph
from corpusmill.io.errors import DataError, DataWarning
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine import memory
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import check_destination, open_files
from corpusmill.pipeline.ingest.job import IngestOptions
from corpusmill.pipeline.publishing.versions import Versions
from helpers.documents import BOATS_AND_BREAD


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return ingest([text.split() for text in BOATS_AND_BREAD], str(tmp_path_factory.mktemp("persistence") / "corpus"))


def test_a_model_is_not_saved_into_a_corpus(corpus):
    with pytest.raises(DataError, match="this folder already holds a corpus; choose another folder"):
        LDA(2, max_iter=1).fit(corpus).save(corpus.url)


def enter(folder):
    with Versions(folder).locked():
        pass


def command(folder):
    """Run the command, which looks at the folder first, so that no cluster is started in vain."""
    source = Path(folder).with_name("source.txt")
    source.write_text("one fish\ntwo fish\n")
    options = IngestOptions(overwrite=True)
    check_destination(folder, open_files(str(source), folder, options), options)
    ingest(str(source), folder, overwrite=True)


WRITERS = {
    "corpus": lambda folder, corpus: ingest(["one fish"], folder, overwrite=True),
    "run": lambda folder, corpus: LDA(2, max_iter=1).fit(corpus, run=folder),
    "model": lambda folder, corpus: LDA(2, max_iter=1).fit(corpus).save(folder),
    "graph": lambda folder, corpus: ingest_graph(scipy.sparse.csr_array([[0, 1], [1, 0]]), folder),
    "command": lambda folder, corpus: command(folder),
    "versions": lambda folder, corpus: enter(folder),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_folder_with_other_files_is_said_once_and_they_are_kept(write, corpus, tmp_path):
    (tmp_path / ".DS_Store").touch()
    (tmp_path / "thesis.txt").touch()
    with pytest.warns(DataWarning, match=r"this folder has other files, such as thesis\.txt; they are kept") as caught:
        write(str(tmp_path), corpus)
    assert len([one for one in caught if "other files" in str(one.message)]) == 1
    assert (tmp_path / "thesis.txt").exists()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*other files")
        write(str(tmp_path), corpus)
        write(str(tmp_path / "own"), corpus)


@pytest.mark.parametrize("estimator", [LDA, NMF])
@pytest.mark.parametrize("block", [1, 3])
def test_a_run_without_one_of_its_blocks_is_refused(estimator, block, corpus, tmp_path):
    run = RunStore(str(tmp_path / "run"))
    estimator(2, max_iter=2, n_blocks=4).fit(corpus, run=run.url)
    shutil.rmtree(tmp_path / "run" / run.folder(run.step) / "blocks" / f"{block:04d}")
    with pytest.raises(DataError, match=f"blocks/{block:04d}: missing from its store"):
        estimator.from_run(run.url)


@pytest.mark.parametrize(
    "estimator", [LDA(2, max_iter=2, n_blocks=4), NMF(2, max_iter=2, n_blocks=4), Word2Vec(8, min_count=2, n_blocks=4)]
)
def test_a_model_that_is_mapped_from_files_is_the_same(estimator, corpus, tmp_path, monkeypatch):
    expected = estimator.fit(corpus, run=str(tmp_path / "run")).model_.digest()
    monkeypatch.setattr(memory, "MODEL_SHARE", 0)
    mapped = type(estimator).from_run(str(tmp_path / "run"))
    mapped.save(str(tmp_path / "model"))
    loaded = type(estimator).load(str(tmp_path / "model"))
    assert all(is_mapped(array) for array in loaded.model_.blocks[0].values() if array.size)
    assert [mapped.model_.digest(), loaded.model_.digest()] == [expected, expected]


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_workers_apply_the_parameters_that_were_saved_last(corpus, tmp_path, cluster_of):
    model = RandomIndexing(64, seed_length=4).fit(corpus)
    for weights in ("none", "idf"):
        model.set_params(document_weights=weights).save(str(tmp_path / "model"))
        np.testing.assert_array_equal(model.transform(corpus, client=cluster_of(2)), model.transform(corpus))


def test_saving_deletes_the_arrays_of_the_model_before_and_no_files_of_others(corpus, tmp_path):
    LDA(2, max_iter=1).fit(corpus).save(str(tmp_path))
    [before] = tmp_path.glob("arrays-*")
    others = {"arrays-of-mine", "arrays-2024.npz", f"{before.name}.backup"}
    for name in others:
        (tmp_path / name).touch()
    LDA(2, max_iter=2).fit(corpus).save(str(tmp_path))
    found = {path.name for path in tmp_path.glob("arrays-*")}
    assert before.name not in found
    assert others < found


def test_a_model_that_is_replaced_while_it_is_read_is_not_mixed_with_the_other_one(corpus, tmp_path, monkeypatch):
    url = str(tmp_path)
    old, new = (LDA(2, max_iter=epochs).fit(corpus) for epochs in (1, 2))
    old.save(url)
    read_json = Store.read_json

    def read_before_the_other_is_saved(store, name):
        content = read_json(store, name)
        monkeypatch.undo()
        new.save(url)
        return content

    monkeypatch.setattr(Store, "read_json", read_before_the_other_is_saved)
    loaded = LDA.load(url)
    assert (loaded.get_params(), loaded.history_) == (new.get_params(), new.history_)
    np.testing.assert_array_equal(loaded.components_, new.components_)


def test_a_saved_model_without_its_arrays_is_refused(corpus, tmp_path):
    LDA(2, max_iter=1).fit(corpus).save(str(tmp_path))
    [arrays] = tmp_path.glob("arrays-*")
    shutil.rmtree(arrays)
    with pytest.raises(DataError, match="missing from its store"):
        LDA.load(str(tmp_path))
