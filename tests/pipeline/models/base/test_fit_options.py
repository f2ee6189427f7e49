"""The options of ``fit``: held-out data in any form, and errors that name what to pass instead."""

from pathlib import Path

import numpy as np
import pytest
from corpusmill import LDA, NMF, Corpus, ProgressLines, RandomIndexing, Word2Vec, ingest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.explorer.model import ExploredModel
from corpusmill.pipeline.models.registry import model_of_run
from corpusmill.pipeline.publishing.report import write_report
from helpers.documents import BOATS_AND_BREAD

MATRIX = np.array([[3, 2, 0], [0, 1, 4], [2, 2, 0], [0, 0, 5]])


def topics(**parameters):
    return LDA(**({"n_components": 2, "max_iter": 2} | parameters))


def last_scores(model):
    return {name for name in model.history_[-1] if name.startswith("held_out")}


# --- held-out data ---


def test_held_out_documents_may_be_a_list_or_the_path_of_a_corpus(tmp_path):
    corpus = ingest([text.split() for text in BOATS_AND_BREAD], str(tmp_path / "corpus"))
    in_memory = topics().fit(corpus, held_out=BOATS_AND_BREAD[:6])
    held_out = ingest(
        [text.split() for text in BOATS_AND_BREAD[:6]], str(tmp_path / "held-out"), vocabulary=corpus.vocabulary
    )
    stored = topics().fit(corpus, held_out=str(tmp_path / "held-out"))
    opened = topics().fit(corpus, held_out=Corpus(held_out.url))
    scores = [model.history_[-1]["held_out_log_likelihood"] for model in (in_memory, stored, opened)]
    assert scores[0] == scores[1] == scores[2] < 0


def test_held_out_rows_of_a_matrix_measure_nmf():
    model = NMF(2, max_iter=2).fit(MATRIX, held_out=MATRIX[:2])
    assert last_scores(model) == {"held_out_relative_error"}


def test_held_out_data_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="held_out is a matrix: pass documents"):
        topics().fit(MATRIX, held_out=MATRIX)
    with pytest.raises(DataError, match="held_out has 2 columns and the training data 3"):
        NMF(2, max_iter=2).fit(MATRIX, held_out=MATRIX[:, :2])


# --- arguments ---


def test_callbacks_must_be_a_list_of_functions():
    with pytest.raises(TypeError, match=r"callbacks is print: pass a list of functions"):
        topics().fit(BOATS_AND_BREAD, callbacks=print)
    with pytest.raises(TypeError, match=r"callbacks is ProgressLines: .*, such as callbacks=\[ProgressLines\(\)\]"):
        topics().fit(BOATS_AND_BREAD, callbacks=ProgressLines())
    with pytest.raises(TypeError, match=r"callbacks contains 5, which is not a function"):
        topics().fit(BOATS_AND_BREAD, callbacks=[5])


def test_a_run_may_be_a_path_but_nothing_else(tmp_path):
    run = tmp_path / "run"
    topics().fit(BOATS_AND_BREAD, run=run)
    assert LDA(2, max_iter=3).fit(BOATS_AND_BREAD, run=str(run)).n_iter_ == 3
    assert topics().fit(BOATS_AND_BREAD).partial_fit(BOATS_AND_BREAD, run=tmp_path / "second").n_iter_ == 2
    with pytest.raises(TypeError, match="run is 5: pass the path or URL of a folder"):
        topics().fit(BOATS_AND_BREAD, run=5)


@pytest.mark.parametrize("every", [-1, 2.5, "10", True])
def test_a_number_of_epochs_between_scores_that_cannot_be_is_refused(every):
    with pytest.raises(ValueError, match=f"evaluate_every is {every!r}: choose an integer of 0 or more, or None"):
        topics().fit(BOATS_AND_BREAD, evaluate_every=every)


def test_an_address_is_no_client():
    with pytest.raises(TypeError, match=r"client is 'tcp://other:8786': pass a distributed\.Client"):
        topics().fit(BOATS_AND_BREAD, client="tcp://other:8786")


def test_a_run_or_a_model_cannot_be_put_where_a_file_is(tmp_path):
    (tmp_path / "a.py").touch()
    for place in ("a.py", "a.py/below/it"):
        with pytest.raises(DataError, match=r"a\.py: this is a file, and a folder is needed here"):
            topics().fit(BOATS_AND_BREAD, run=str(tmp_path / place))
    with pytest.raises(DataError, match=r"a\.py: this is a file, and a folder is needed here"):
        topics().fit(BOATS_AND_BREAD).save(str(tmp_path / "a.py"))


def test_a_single_text_is_not_taken_for_the_path_of_a_corpus():
    long_text = "one fish two fish " * 1000
    for estimator in (topics(), NMF(2)):
        with pytest.raises(ValueError, match=r"nothing is stored at this path.* pass documents as a list of strings"):
            estimator.fit("one fish two fish")
    with pytest.raises(ValueError, match="pass documents as a list of strings"):
        topics().fit(BOATS_AND_BREAD).transform(long_text)


def test_a_corpus_whose_path_has_a_space_is_opened(tmp_path):
    ingest([text.split() for text in BOATS_AND_BREAD], str(tmp_path / "my corpus"))
    assert topics().fit(str(tmp_path / "my corpus")).n_iter_ == 2


# --- messages about data in memory name no temporary folder ---


@pytest.mark.parametrize(
    "attempt, message",
    [
        (lambda: topics().fit(["  "]), "documents in memory: there is no word to train on"),
        (
            lambda: topics().fit(["a b c"]),
            "words of one letter are left out .* token_pattern, and kept in lists of words",
        ),
        (lambda: Word2Vec(min_count=999).fit(BOATS_AND_BREAD), "documents in memory: no word occurs 999 times"),
        (lambda: Word2Vec(min_count=2).fit([["sea", "boat"]]), r"no word occurs 2 times \(the most .* occurs 1 time\)"),
        (lambda: Word2Vec(min_count=1).fit(MATRIX), "documents in memory: a bag of words"),
        (lambda: RandomIndexing(64, seed_length=4).fit(MATRIX), "documents in memory: a bag of words"),
        (lambda: topics(seeds=[["whale"]]).fit(BOATS_AND_BREAD), "seeds: documents in memory does not contain whale"),
        (lambda: topics().fit(BOATS_AND_BREAD).transform([]), "documents in memory: contains no document"),
        (lambda: topics().fit(BOATS_AND_BREAD).score(["whale"]), "documents in memory: nothing to score"),
        (lambda: topics().fit(BOATS_AND_BREAD).score([]), "documents in memory: nothing .* are no documents here$"),
        (lambda: topics().fit([[0, 0], [0, 0]]), "there is nothing to train on, because all counts are 0$"),
        (lambda: LDA.load("nowhere"), r"nowhere: no model here \(no model\.json\); pass the folder of a saved model"),
    ],
)
def test_errors_name_data_in_memory(attempt, message):
    with pytest.raises(ValueError, match=message) as caught:
        attempt()
    assert "/tmp" not in str(caught.value)


def test_a_corpus_without_held_out_documents_cannot_be_scored(tmp_path):
    corpus = ingest([text.split() for text in BOATS_AND_BREAD], str(tmp_path / "corpus"))
    with pytest.raises(DataError, match=r"the part 'held_out' has 0 documents: ingest with held_out=0\.1"):
        topics().fit(corpus).score(corpus.held_out)


def test_a_run_of_documents_in_memory_is_refused_by_what_it_was_trained_on(tmp_path):
    run = str(tmp_path / "run")
    model = topics().fit(BOATS_AND_BREAD, run=run)
    assert model.model_.metadata["data"] == "documents in memory"
    with pytest.raises(DataError, match=r"\(lda on documents in memory\), .* in the data: .* delete that run"):
        topics().fit(BOATS_AND_BREAD[:5], run=run)
    message = r"data that is not stored \(documents in memory\): .* fit with .* the same data and run='.*run' continues"
    with pytest.raises(DataError, match=message):
        LDA.from_run(run)
    again = topics().fit(BOATS_AND_BREAD, run=run)
    np.testing.assert_array_equal(again.components_, model.components_)


# --- random indexing ---


def test_only_random_indexing_can_be_added_to_random_indexing():
    with pytest.raises(TypeError, match="5 cannot be added: pass a trained RandomIndexing"):
        RandomIndexing(64, seed_length=4).fit(BOATS_AND_BREAD).merge(5)


def test_random_indexing_of_a_matrix_adds_matrices_with_its_columns_only():
    model = RandomIndexing(64, seed_length=4, contexts="documents", order="none").fit(MATRIX)
    for _ in range(2):
        with pytest.raises(ValueError, match="X has 4 features, but RandomIndexing is expecting 3"):
            model.partial_fit(np.ones((2, 4), int))
        model.partial_fit(MATRIX)


@pytest.mark.parametrize(
    "config", [{"model": "mine", "run": 3, "corpus": ["x"]}, {"model": None, "run": None}, {"a": 1}]
)
def test_a_configuration_of_any_form_is_kept_beside_the_parameters(tmp_path, config):
    corpus = ingest([text.split() for text in BOATS_AND_BREAD], str(tmp_path / "corpus"))
    run = str(tmp_path / "run")
    trained = topics(random_state=3).fit(corpus, run=run, config=config)
    stored = RunStore(run).meta["config"]
    assert stored == config | {"model": {"kind": "lda"} | trained.get_params()}
    assert model_of_run(run).get_params() == trained.get_params()
    assert ExploredModel(run).kind == "lda"
    # Runs of earlier versions have the user's own section.
    store = RunStore(run).store
    store.write_json("run.json", store.read_json("run.json") | {"config": config})
    assert ExploredModel(run).kind == "lda"
    with pytest.raises(DataError, match="this run does not record the parameters of its model"):
        LDA.from_run(run)
    assert "lda" in Path(write_report(run, str(tmp_path / "report.html"))).read_text().lower()
