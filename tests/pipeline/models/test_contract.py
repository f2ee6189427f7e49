"""The contract that every estimator keeps, tested for all of them."""

import inspect
import pickle
import shutil
from contextlib import suppress
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from corpusmill import LDA, NMF, Corpus, FastRP, Graph, Node2Vec, RandomIndexing, Word2Vec
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.events import Described, EpochFinished, RunFinished, RunStarted
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.graph import ingest_graph
from corpusmill.pipeline.ingest.ingest import ingest
from corpusmill.pipeline.models.registry import MODEL_KINDS, estimator_class, load_model, model_of_run
from helpers.documents import BOATS_AND_BREAD
from helpers.graphs import communities
from helpers.models import interrupt_after, stop_after
from sklearn.base import clone

ESTIMATORS = {
    "lda": LDA(3, max_iter=3),
    "nmf": NMF(3, max_iter=3, tol=0),
    "word2vec": Word2Vec(vector_size=8, min_count=1, epochs=3, sample=0, n_blocks=2),
    # Node2Vec trains on any corpus as if its documents were walks.
    "node2vec": Node2Vec(vector_size=8, epochs=3),
    "random-indexing": RandomIndexing(vector_size=64, seed_length=4, retrain=2),
    # It has a graph for data, where the others have documents.
    "fastrp": FastRP(16, weights=(1.0, 1.0, 1.0)),
}
# Node2Vec warns that it takes documents for walks, which is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:.*Node2Vec takes each document")
each = pytest.mark.parametrize("kind", MODEL_KINDS)
each_of_documents = pytest.mark.parametrize("kind", [kind for kind in MODEL_KINDS if kind != "fastrp"])
OLD = BOATS_AND_BREAD
NEW = [*BOATS_AND_BREAD[:6], "a loaf and a cake for the sailor", "a loaf for the baker"]


def new(kind, **parameters):
    return clone(ESTIMATORS[kind]).set_params(**parameters)


def additive(kind):
    """Return an estimator that `partial_fit` can continue: retrained random indexing cannot."""
    return new(kind, retrain=0) if kind == "random-indexing" else new(kind)


def bits(model):
    arrays = [model.model_.shared, *model.model_.blocks]
    return [(name, np.asarray(group[name]).tobytes()) for group in arrays for name in sorted(group)]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    ingest([text.split() for text in OLD], str(folder / "old"), chunk_tokens=100)
    ingest([text.split() for text in NEW], str(folder / "new"), chunk_tokens=100)
    (folder / "edges.txt").write_text(communities())
    ingest_graph(folder / "edges.txt", folder / "graph", chunk_edges=100)
    return folder


@pytest.fixture(scope="module")
def data_of(corpora):
    """Return a function from a kind to the data that its model is trained on."""
    return lambda kind: Graph(corpora / "graph") if kind == "fastrp" else Corpus(corpora / "old")


@pytest.fixture
def corpus(request, data_of):
    """Return the data of the kind of this test."""
    return data_of(request.node.callspec.params.get("kind") if hasattr(request.node, "callspec") else "lda")


@pytest.fixture(scope="module")
def fitted(data_of):
    """Return a function from a kind to a model that tests must not change."""
    return cache(lambda kind: new(kind).fit(data_of(kind)))


@pytest.fixture(scope="module")
def facts_of_run(data_of, tmp_path_factory):
    """Return a function from a kind to the file ``run.json`` of a run with Python's numbers."""
    folder = tmp_path_factory.mktemp("runs")

    def of(kind):
        new(kind).fit(data_of(kind), run=folder / kind, evaluate_every=1)
        return RunStore(str(folder / kind)).meta

    return cache(of)


# --- parameters ---


@each
def test_the_constructor_only_stores_its_parameters(kind):
    model = estimator_class(kind)()
    assert model._kind == kind
    assert vars(model).keys() == model.get_params().keys()
    for name, parameter in inspect.signature(type(model)).parameters.items():
        assert model.get_params()[name] == parameter.default


@each
def test_clone_and_set_params(kind):
    model = new(kind)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="has no parameter 'topics': it has"):
        model.set_params(topics=5)


#: How a program may give a number in place of Python's: from arrays of any width, and from columns of a table.
NUMBERS = {
    "shortest": lambda value: np.min_scalar_type(value).type(value) if type(value) is int else np.float64(value),
    "longest": lambda value: np.uint64(value) if type(value) is int else np.longdouble(value),
    "array": np.array,
    "integer": lambda value: np.int8(value) if value == int(value) and value < 128 else value,
}


@pytest.mark.parametrize("number", NUMBERS)
@each
def test_numbers_of_numpy_give_the_model_and_the_run_of_python_numbers(
    kind, number, corpus, fitted, facts_of_run, tmp_path
):
    model, wanted = new(kind), fitted(kind)
    for name, value in model.get_params().items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            model.set_params(**{name: NUMBERS[number](value)})
    assert repr(model) == repr(wanted)
    model.fit(corpus, run=tmp_path / "run", evaluate_every=np.uint8(1))
    assert bits(model) == bits(wanted)
    found, expected = RunStore(str(tmp_path / "run")).meta, facts_of_run(kind)
    assert repr(found["parameters"]) == repr(expected["parameters"])
    assert repr(found["config"]) == repr(expected["config"])


@each
def test_a_model_shows_the_parameters_that_are_not_defaults(kind):
    shown = repr(new(kind, n_blocks=7))
    assert "n_blocks=7" in shown
    assert "device" not in shown
    assert repr(estimator_class(kind)()) == f"{estimator_class(kind).__name__}()"


@each
@pytest.mark.parametrize("parameter, value", [("device", "tpu"), ("n_blocks", 0)])
def test_an_invalid_parameter_is_named_when_fit_is_called(kind, parameter, value, corpus):
    model = new(kind, **{parameter: value})
    with pytest.raises(ValueError, match=f"^{parameter} is {value!r}: choose"):
        model.fit(corpus)
    assert not hasattr(model, "model_")


def test_numpy_scalars_are_accepted_as_parameters(corpus, tmp_path):
    parameters = {"n_components": np.int64(3), "max_iter": np.int32(2), "random_state": np.int64(1)}
    model = LDA(**parameters, doc_topic_prior=np.float32(0.5)).fit(corpus, run=str(tmp_path / "run"))
    plain = LDA(3, max_iter=2, random_state=1, doc_topic_prior=0.5)
    assert bits(plain.fit(corpus, run=str(tmp_path / "run"))) == bits(model)
    model.save(str(tmp_path / "model"))
    assert LDA.load(str(tmp_path / "model")).get_params() == plain.get_params()


# --- what users see ---

#: The public names of every model. What the engine and the commands call begins with an underscore.
COMMON = {
    *("fit", "fit_transform", "partial_fit", "transform", "transform_to", "query", "search", "match_halves"),
    *("load", "save", "from_run", "get_params", "set_params", "set_output", "get_feature_names_out"),
    *("words_", "n_features_in_", "feature_names_in_"),
}
TOPICS = ["coherence", "components_", "diversity", "score", "topic_names_", "topic_sizes_", "topic_words", "topics"]
OWN = {
    "lda": [*TOPICS, "doc_topic_prior_", "perplexity", "to_gensim", "to_pyldavis", "topic_word_prior_"],
    "nmf": [
        *TOPICS,
        "fit_restarts",
        "inverse_transform",
        "reconstruction_err_",
        "restarts_",
        "validation_errors_",
        "vectors_",
    ],
    "word2vec": ["wv"],
    "node2vec": ["wv"],
    "random-indexing": ["document_vectors", "forget", "merge", "wv"],
    "fastrp": ["wv"],
}


@each
def test_tab_completion_shows_what_users_use(kind):
    model = new(kind)
    shown = {name for name in dir(model) if not name.startswith("_")}
    assert shown == {*COMMON, *OWN[kind], *model.get_params()}


# --- what a fitted model has ---


@each
def test_a_model_that_is_not_fitted_says_so(kind, corpus):
    with pytest.raises(ValueError, match="is not fitted: call fit first"):
        new(kind).transform(corpus)
    with pytest.raises(AttributeError):
        _ = new(kind).n_features_in_


@each
def test_rows_have_the_named_columns(kind, fitted, corpus):
    model = fitted(kind)
    rows = model.transform(corpus)
    names = model.get_feature_names_out()
    assert rows.shape == (corpus.n_nodes if kind == "fastrp" else corpus.n_documents, len(names))
    assert len(set(names)) == len(names)
    assert model.n_features_in_ == len(model.words_) == corpus.n_words


@each
def test_events_begin_with_the_run_and_end_with_its_reason(kind, corpus):
    events = []
    new(kind).fit(corpus, callbacks=[events.append])
    assert isinstance(events[0], RunStarted)
    assert [event.epoch for event in events if isinstance(event, EpochFinished)] == [1, 2, 3]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "epochs"


# --- reproducible bits ---


@each
@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_bits_on_any_number_of_workers(kind, workers, fitted, corpus, cluster_of):
    client = cluster_of(workers)
    model = new(kind).fit(corpus, client=client, dashboard=False)
    assert bits(model) == bits(fitted(kind))
    np.testing.assert_array_equal(model.transform(corpus, client=client), fitted(kind).transform(corpus))


@each
def test_pickle_and_saving_keep_the_model(kind, fitted, corpus, tmp_path):
    model = fitted(kind)
    expected = model.transform(corpus)
    model.save(str(tmp_path / "model"))
    for again in (pickle.loads(pickle.dumps(model)), type(model).load(str(tmp_path / "model"))):
        assert again.get_params() == model.get_params()
        assert bits(again) == bits(model)
        np.testing.assert_array_equal(again.transform(corpus), expected)
    assert type(load_model(str(tmp_path / "model"))) is type(model)


@each
def test_saving_twice_writes_the_same_bytes(kind, fitted, tmp_path):
    def contents():
        return {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}

    fitted(kind).save(str(tmp_path))
    before = contents()
    load_model(str(tmp_path)).save(str(tmp_path))
    assert contents() == before


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(DataError, match="no model here"):
        load_model(str(tmp_path))


@each
def test_a_saved_model_of_another_kind_is_refused(kind, fitted, tmp_path):
    fitted(kind).save(str(tmp_path / "model"))
    other = estimator_class(next(other for other in MODEL_KINDS if other != kind))
    with pytest.raises(DataError, match=f"a model of kind {kind} where {other._kind} is needed"):
        other.load(str(tmp_path / "model"))


# --- runs ---


@each
@pytest.mark.parametrize("callback", [interrupt_after(1), stop_after(2)], ids=["interrupted", "stopped"])
def test_a_run_is_resumed_to_the_same_bits(kind, callback, fitted, corpus, tmp_path):
    run = str(tmp_path / "run")
    with suppress(KeyboardInterrupt):
        new(kind).fit(corpus, run=run, callbacks=[callback])
    assert RunStore(run).step >= 1
    assert 1 <= RunStore(run).metrics[-1]["epoch"] < 3
    assert model_of_run(run).n_iter_ in (1, 2)
    resumed = new(kind).fit(corpus, run=run)
    assert bits(resumed) == bits(fitted(kind))
    assert [row["epoch"] for row in resumed.history_][-1] == 3


@each
def test_a_run_and_its_corpus_may_move(kind, fitted, corpora, tmp_path):
    shutil.copytree(corpora / ("graph" if kind == "fastrp" else "old"), tmp_path / "here")
    new(kind).fit(str(tmp_path / "here"), run=str(tmp_path / "run"), callbacks=[stop_after(1)])
    (tmp_path / "here").rename(tmp_path / "there")
    (tmp_path / "run").rename(tmp_path / "moved")
    resumed = new(kind).fit(str(tmp_path / "there"), run=str(tmp_path / "moved"))
    assert bits(resumed) == bits(fitted(kind))


@each
def test_a_run_with_other_parameters_is_refused(kind, corpus, tmp_path):
    run = str(tmp_path / "run")
    new(kind).fit(corpus, run=run, callbacks=[stop_after(1)])
    with pytest.raises(DataError, match=r"holds another run .* differs in n_blocks \(.+ there, 4 here\): "):
        new(kind, n_blocks=4).fit(corpus, run=run)


@each
def test_the_model_of_a_run_has_the_words_that_training_showed_last(kind, corpus, tmp_path):
    run, described = str(tmp_path / "run"), []
    new(kind).fit(corpus, run=run, evaluate_every=1, callbacks=[described.append])
    lists = [event.lists for event in described if isinstance(event, Described)][-1]
    assert lists
    assert model_of_run(run)._describe(RunStore(run).open_data()) == lists


# --- partial_fit ---


@each_of_documents
def test_partial_fit_adds_words_and_their_frequencies(kind, corpora):
    old, further = Corpus(str(corpora / "old")), Corpus(str(corpora / "new"))
    model = additive(kind).fit(old).partial_fit(further)
    expected = {}
    for vocabulary in (old.vocabulary, further.vocabulary):
        for word, count in zip(*(vocabulary[name].to_pylist() for name in ("word", "term_frequency")), strict=True):
            expected[word] = expected.get(word, 0) + count
    table = model.model_.vocabulary
    found = dict(zip(table["word"].to_pylist(), table["term_frequency"].to_pylist(), strict=True))
    assert found == expected
    assert {"loaf", "word5"} <= found.keys()


@each_of_documents
def test_the_run_of_a_partial_fit_has_the_words_of_the_previous_model(kind, corpora, tmp_path):
    model = additive(kind).fit(str(corpora / "old"))
    model.partial_fit(str(corpora / "new"), run=str(tmp_path / "run"))
    if kind != "random-indexing":  # its run holds the new documents, which are then added
        read = model_of_run(str(tmp_path / "run"))
        assert bits(read) == bits(model)
        assert read.words_ == model.words_
        assert "word5" in read.words_  # only in the old documents


@pytest.mark.parametrize(
    "kind, changed",
    [
        ("lda", {"n_components": 4}),
        ("nmf", {"n_components": 4}),
        ("nmf", {"weighting": "tfidf"}),
        ("word2vec", {"vector_size": 16}),
        ("node2vec", {"vector_size": 16}),
        ("random-indexing", {"vector_size": 32}),
        ("random-indexing", {"window": 3}),
        ("fastrp", {"vector_size": 32}),
    ],
)
def test_a_parameter_that_the_arrays_depend_on_must_not_change_after_training(kind, changed, corpus, tmp_path):
    model = additive(kind).fit(corpus)
    model.save(str(tmp_path / "model"))
    for trained in (model, load_model(str(tmp_path / "model"))):
        trained.set_params(**changed)
        (name,) = changed
        with pytest.raises(ValueError, match=f"^{name} is .*, but the model was trained with .*: set it back"):
            trained.partial_fit(corpus)
        with pytest.raises(ValueError, match=f"^{name} is .*, but the model was trained with"):
            trained.transform(corpus)
        trained.fit(corpus)


@each
def test_partial_fit_without_a_model_is_fit(kind, corpus):
    assert bits(additive(kind).partial_fit(corpus)) == bits(additive(kind).fit(corpus))


@each_of_documents
def test_an_interrupted_partial_fit_is_resumed_though_everything_moved(kind, corpora, tmp_path):
    old = Corpus(str(corpora / "old"))
    expected = additive(kind).fit(old).partial_fit(str(corpora / "new"))
    run = tmp_path / "run"
    shutil.copytree(corpora / "new", tmp_path / "here")
    with suppress(KeyboardInterrupt):
        additive(kind).fit(old).partial_fit(str(tmp_path / "here"), run=str(run), callbacks=[interrupt_after(1)])
    (tmp_path / "here").rename(tmp_path / "there")
    run.rename(tmp_path / "moved")
    resumed = additive(kind).fit(old).partial_fit(str(tmp_path / "there"), run=str(tmp_path / "moved"))
    assert bits(resumed) == bits(expected)


# --- small and empty corpora ---


@pytest.mark.filterwarnings("ignore:.*choose at most")
@each_of_documents
def test_a_corpus_of_one_document(kind):
    model = new(kind, n_components=1) if kind == "nmf" else new(kind)
    rows = model.fit([OLD[0].split()]).transform([OLD[0].split()])
    assert len(rows) == 1
    assert np.isfinite(rows).all()


@each_of_documents
def test_a_corpus_without_words_is_refused(kind):
    with pytest.raises(DataError, match=r"no (chunk|word|document)"):
        new(kind).fit([[], []])


# --- forms of documents ---


DOCUMENTS = {
    "lists of words": lambda texts: [text.split() for text in texts],
    "a generator": lambda texts: (text for text in texts),
    "an array of str": np.array,
    "an array of objects": lambda texts: np.array(texts, dtype=object),
    "a pandas column": pd.Series,
    "an Arrow array": pa.array,
    "a column of an Arrow table": lambda texts: pa.table({"text": texts})["text"],
}


@pytest.fixture(scope="module")
def of_texts():
    """Return a function from a kind to the bits of its model of the list of texts."""
    return cache(lambda kind: bits(new(kind).fit(OLD)))


@pytest.mark.parametrize("form", DOCUMENTS)
@pytest.mark.parametrize("kind", ["lda", "nmf", "word2vec", "random-indexing"])
def test_documents_in_any_form_give_the_same_model(kind, form, of_texts):
    assert bits(new(kind).fit(DOCUMENTS[form](OLD))) == of_texts(kind)


@each
@pytest.mark.parametrize(
    "data, message",
    [
        ({"text": OLD}, r"not a table with the columns 'text': pass the column"),
        (pa.table({"text": OLD}), r"not a table with the columns 'text': pass the column"),
        (pd.DataFrame({"text": OLD}), r"not a table with the columns 'text': pass the column"),
        (None, "not NoneType"),
        (3, "not int"),
        (b"text", "not bytes"),
        ([1.5, "a"], "not list of float"),
    ],
    ids=["dictionary", "Arrow table", "data frame of text", "None", "number", "bytes", "mixed"],
)
def test_data_that_is_neither_documents_nor_a_matrix_is_refused(kind, data, message):
    if kind in ("node2vec", "fastrp"):
        message = "."
    with pytest.raises(ValueError, match=message):
        new(kind).fit(data)


@pytest.mark.parametrize("model", [LDA(2, max_iter=2), NMF(2, max_iter=2)], ids=["lda", "nmf"])
def test_lists_of_numbers_have_one_length(model):
    rows = [[1, 2], [3, 4], [3, 4, 5]]
    message = "row 2 has the length 3, but row 0 has 2: pass rows of one length, or lists of strings"
    for call in (clone(model).fit, clone(model).fit(rows[:2]).transform):
        with pytest.raises(ValueError, match=message):
            call(rows)


@pytest.mark.parametrize("model", [LDA(2, max_iter=2), NMF(2, max_iter=2)], ids=["lda", "nmf"])
def test_documents_and_matrices_are_not_confused(model):
    counts = np.ones((4, 7), int)
    with pytest.raises(ValueError, match="was fitted on documents: pass documents"):
        clone(model).fit(OLD).transform(counts)
    with pytest.raises(ValueError, match="was fitted on a matrix without column names: pass a matrix"):
        clone(model).fit(counts).transform(OLD)
