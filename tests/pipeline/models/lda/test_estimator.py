"""The estimator LDA: exact counts, quality of topics, further documents, invalid parameters, memory."""

import os
import shutil
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import Corpus, commit_corpus, write_chunk
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.base import apply
from corpusmill.pipeline.models.lda import word_topics
from helpers.faults import Faulty, peak_rss
from helpers.toy import vocabulary_table, write_topic_corpus, write_toy_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents drawn from five topics that share no words."""
    return write_topic_corpus(tmp_path_factory.mktemp("lda") / "corpus", n_topics=5)


@pytest.fixture(scope="module")
def model(corpus):
    return LDA(5, doc_topic_prior=0.1, max_iter=40, random_state=3).fit(corpus)


def small(**parameters):
    return LDA(**({"n_components": 5, "max_iter": 6, "random_state": 3} | parameters))


def test_counts_add_up_to_the_tokens_of_the_corpus(corpus, model):
    block = model.model_.block(0)
    assert block["counts"].sum() == corpus.n_tokens
    assert model.model_.shared["totals"].sum() == corpus.n_tokens
    per_word = np.add.reduceat(block["counts"], block["row_ptr"][:-1])
    np.testing.assert_array_equal(per_word, corpus.vocabulary["term_frequency"].to_numpy())


def test_the_best_of_a_few_starts_finds_the_planted_topics(corpus):
    starts = [LDA(5, doc_topic_prior=0.1, max_iter=30, random_state=seed).fit(corpus) for seed in range(4)]
    model = max(starts, key=lambda m: m.history_[-1]["log_likelihood"])
    groups = [{int(w["word"][1:]) // 20 for w in topic["words"]} for topic in model.topics(10)]
    assert all(len(group) == 1 for group in groups)
    assert {g for group in groups for g in group} == set(range(5))


def test_training_raises_the_likelihood(model):
    scored = [row for row in model.history_ if "held_out_log_likelihood" in row]
    assert scored[-1]["held_out_log_likelihood"] > scored[0]["held_out_log_likelihood"] + 0.5
    assert scored[-1]["log_likelihood"] > scored[0]["log_likelihood"] + 0.5


@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.parametrize("n_topics, alpha", [(2, 0.1), (50, 0.1), (100, 0.05), (1000, 0.005)])
def test_the_default_prior_of_topics_falls_with_their_number_from_fifty_on(corpus, n_topics, alpha):
    assert LDA(n_topics)._algorithm(corpus).alpha == (alpha,)
    assert LDA(n_topics, doc_topic_prior=50 / n_topics)._algorithm(corpus).alpha == (50 / n_topics,)


@pytest.mark.slow
def test_killed_workers_do_not_change_the_result(corpus, tmp_path, cluster_of):
    estimator = small()
    table = ((2, 1, 1, "kill"), (4, 0, 1, "kill"))
    faulty = Faulty(estimator._algorithm(corpus), table, str(tmp_path))
    run = RunStore(str(tmp_path / "run"))
    train(Training(faulty, corpus, run, 6, seed=3), OnDask(cluster_of(2)))
    expected = small().fit(corpus).model_.block(0)
    for name, array in run.block(run.step, 0).items():
        np.testing.assert_array_equal(array, expected[name])
    assert faulty.attempts(2, 1) >= 2
    assert faulty.attempts(4, 0) >= 2


def test_the_number_of_blocks_does_not_change_the_result(corpus):
    whole, cut = small().fit(corpus), small(n_blocks=3).fit(corpus)
    assert len(cut.model_.blocks) == 3
    np.testing.assert_array_equal(cut.components_, whole.components_)


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_the_largest_number_of_topics(corpus):
    model = small(n_components=32768, max_iter=3).fit(corpus)
    assert model.model_.shared["totals"].sum() == corpus.n_tokens
    assert model.model_.block(0)["topics"].max() > 30000
    np.testing.assert_allclose(model.transform(corpus.held_out).sum(axis=1), 1, rtol=1e-4)


def test_the_weights_of_a_document_depend_on_its_own_words_only(corpus, model):
    rows = model.transform(corpus)
    assert rows.shape == (corpus.n_documents, 5)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    chunk = corpus.read_chunk(2)
    together = model._transform_chunk(chunk.doc_ptr, chunk.words)
    one = slice(chunk.doc_ptr[4], chunk.doc_ptr[5])
    alone = model._transform_chunk(np.array([0, one.stop - one.start]), chunk.words[one])
    np.testing.assert_array_equal(together[4:5], alone)


def test_an_empty_document_gets_the_prior(model):
    row = model._transform_chunk(np.array([0, 0]), np.empty(0, np.uint32))
    np.testing.assert_allclose(row, [[0.2] * 5], rtol=1e-6)


def test_workers_transform_as_this_process_does(corpus, model, cluster_of):
    client = cluster_of(2)
    np.testing.assert_array_equal(model.transform(corpus, client=client), model.transform(corpus))
    assert model.score(corpus.held_out, client=client) == model.score(corpus.held_out)


def test_workers_read_the_saved_model_only_if_it_equals_the_one_in_memory(corpus, model, tmp_path):
    url = str(tmp_path / "model")
    model.save(url)
    loaded = LDA.load(url)
    assert loaded._saved_name() == model._saved_name() != ""
    assert loaded.set_params(random_state=9)._saved_name() == ""
    small(max_iter=1).fit(corpus).save(url)
    assert model._saved_name() == ""


def test_transform_to_writes_bounded_groups_of_rows(corpus, model, tmp_path, monkeypatch):
    monkeypatch.setattr(apply, "GROUP_BYTES", 4 * model.n_components * 7)
    model.transform_to(corpus, str(tmp_path))
    files = [pq.ParquetFile(path) for path in sorted(tmp_path.glob("part-*"))]
    sizes = [file.metadata.row_group(g).num_rows for file in files for g in range(file.num_row_groups)]
    assert max(sizes) == 7 and sum(sizes) == corpus.n_documents
    rows = np.concatenate([np.stack(file.read()["weights"].to_numpy()) for file in files])
    np.testing.assert_array_equal(rows, model.transform(corpus))


def test_words_without_an_id_in_the_model_are_skipped_and_counted(tmp_path, model):
    store = Store(str(tmp_path / "other"))
    chunk = make_chunk(0, np.array([0, 4, 4]), np.array([0, 1, 2, 2], np.uint32))
    info = write_chunk(store, "train", chunk)
    vocabulary = vocabulary_table(["w000", "unheard", "w001"], np.array([1, 1, 2]))
    write_toy_documents(store, 2)
    commit_corpus(store, vocabulary, {"train": [info], "held_out": []}, True, "other", {})
    counts = model.transform_to(Corpus(store.url), str(tmp_path / "out"))
    assert counts == {"documents": 2, "tokens": 4, "unseen_tokens": 1}


def write_toy_documents(store, n):
    import pyarrow as pa

    store.write_bytes("x", b"")
    with store.fs.open(store.where("documents-train.parquet"), "wb") as file:
        pq.write_table(pa.table({"key": [str(i) for i in range(n)]}), file)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"n_components": 0}, "an integer from"),
        ({"n_components": 40000}, "to 32768"),
        ({"doc_topic_prior": [0.1, 0.2]}, "2 values"),
        ({"doc_topic_prior": -1.0}, "a number above 0"),
        ({"topic_word_prior": float("nan")}, "a number above 0"),
        ({"n_blocks": 0}, "n_blocks is 0: choose an integer of 1 or more"),
    ],
)
def test_parameters_out_of_range_are_refused(corpus, parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(corpus)


def test_a_word_whose_count_might_not_fit_32_bits_is_refused(tmp_path):
    corpus = write_toy_corpus(str(tmp_path))
    first = small(max_iter=1).fit(corpus)
    table = corpus.vocabulary
    for added, fit in ((1, small().fit), (0, first.partial_fit)):
        frequency = np.full(table.num_rows, (1 << 31) - 1 + added)
        corpus.vocabulary = table.set_column(1, "term_frequency", pa.array(frequency))
        with pytest.raises(
            ValueError, match=r"2,147,48\d,\d+ tokens of the most frequent word \(leave it out by max_df"
        ):
            fit(corpus)
    small()._algorithm(corpus)


def test_parameters_as_in_scikit_learn():
    estimator = small()
    assert estimator.get_params()["n_components"] == 5
    assert estimator.set_params(max_iter=9).max_iter == 9
    with pytest.raises(ValueError, match="no parameter 'topics'"):
        estimator.set_params(topics=3)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_whole_numbers_of_any_type_are_counts(convert, dtype):
    counts = np.array([[2, 0, 1], [0, 3, 1], [1, 1, 0]])
    model = small(n_components=2).fit(convert(counts.astype(dtype)))
    np.testing.assert_allclose(model.components_.sum(axis=0), counts.sum(axis=0) + 2 * 0.01, rtol=1e-6)


@pytest.mark.parametrize("n_columns", [2, 6])
@pytest.mark.parametrize("method", ["transform", "score", "perplexity", "to_pyldavis", "partial_fit"])
def test_a_matrix_with_other_columns_is_refused(n_columns, method):
    model = small(n_components=2).fit(np.ones((4, 3), int))
    with pytest.raises(ValueError, match=f"X has {n_columns} features, but LDA is expecting 3"):
        getattr(model, method)(np.ones((4, n_columns), int))


def test_perplexity_is_the_exponential_of_the_score(corpus, model):
    assert model.perplexity(corpus.held_out) == pytest.approx(np.exp(-model.score(corpus.held_out)))


# --- memory ---

MEMORY_LIMIT = 600 << 20


@pytest.fixture(scope="module")
def large_corpus(tmp_path_factory):
    """Three times the memory limit of chunks and states: one chunk, linked many times."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    lengths = np.full(6000, 250)
    words = np.minimum(rng.zipf(1.3, lengths.sum()) - 1, 1999).astype(np.uint32)
    chunk = make_chunk(0, np.r_[0, np.cumsum(lengths)], words)
    store = Store(str(folder / "corpus"))
    info = write_chunk(store, "train", chunk)
    first = folder / "corpus" / "train" / "000000"
    # A state has one byte per token, since there are at most 256 topics.
    count = -(-3 * MEMORY_LIMIT // (store.size("train/000000") + info.tokens))
    for c in range(1, count):
        shutil.copytree(first, first.with_name(f"{c:06d}"), copy_function=os.link)
    vocabulary = vocabulary_table([f"w{i}" for i in range(2000)], np.bincount(words, minlength=2000) * count)
    infos = [info for _ in range(count)]
    commit_corpus(store, vocabulary, {"train": infos, "held_out": []}, True, "large", {})
    yield Corpus(store.url)
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_corpus_three_times_the_memory_limit_trains_within_the_estimate(large_corpus, tmp_path):
    plans = []
    estimator = LDA(16, max_iter=2)
    training = Training(
        estimator._algorithm(large_corpus),
        large_corpus,
        RunStore(str(tmp_path / "run")),
        epochs=2,
        evaluate_every=0,
        callbacks=[lambda e: plans.append(getattr(e, "plan", None))],
    )
    with open_cluster("local", n_workers=2, memory_limit=MEMORY_LIMIT) as client:
        train(training, OnDask(client))
        peaks = client.run(peak_rss)
    assert training.run.shared(2)["totals"].sum() == large_corpus.n_tokens
    assert max(peaks.values()) <= plans[0]["total"] <= MEMORY_LIMIT


class Keeping(Synchronous):
    """Trains in this process, and notes the bytes of the deltas that are kept until the end of each step."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def update(self, phase, contributions, blocks):
        self.kept.append(sum(contribution.source.nbytes for contribution in contributions))
        return super().update(phase, contributions, blocks)


@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.parametrize("n_blocks", [1, 8])
@pytest.mark.parametrize("n_chunks", [2, 32])
def test_the_plan_counts_what_a_worker_has_swept_however_many_chunks_there_are(tmp_path, n_chunks, n_blocks):
    corpus = write_topic_corpus(tmp_path / "corpus", n_topics=20, n_chunks=n_chunks)
    algorithm = LDA(400, n_blocks=n_blocks)._algorithm(corpus)
    executor = Keeping()
    train(Training(algorithm, corpus, RunStore(str(tmp_path / "run")), 1, evaluate_every=0), executor)
    largest = max((algorithm.memory(corpus, chunk) for chunk in corpus.chunks), key=attrgetter("total"))
    planned = largest.delta + algorithm.needs(corpus, 1).kept
    # As many counts may wait to be merged as the kept sum has.
    assert 2 * executor.kept[0] <= planned <= 4 * executor.kept[0]


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_more_workers_keep_fewer_counts_each_unless_all_have_those_of_the_whole_model(corpus):
    few, many = (LDA(n_topics, n_blocks=4)._algorithm(corpus) for n_topics in (2, 1000))
    assert few.needs(corpus, 2).kept == few.needs(corpus, 1).kept > 0
    assert many.needs(corpus, 2).kept < 0.6 * many.needs(corpus, 1).kept


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_a_model_that_is_too_large_for_the_workers_is_refused_with_the_numbers(large_corpus, tmp_path):
    with (
        open_cluster("local", n_workers=1, memory_limit=MEMORY_LIMIT) as client,
        pytest.raises(DataError, match=r"a task needs .*MiB.*600.00 MiB memory limit.*: raise memory_limit to \d+MiB"),
    ):
        LDA(32768, n_blocks=1).fit(large_corpus, client=client)


def test_the_synchronous_executor_is_the_default(corpus):
    assert isinstance(Synchronous().capacities(), list)
    assert small(max_iter=1).fit(corpus).n_iter_ == 1


def test_random_words_have_a_low_likelihood(tmp_path):
    corpus = write_toy_corpus(tmp_path / "corpus")
    fitted = small(max_iter=20).fit(corpus)
    assert fitted.score(corpus) < -2.0


@pytest.mark.parametrize("listed", [1, 7, 100])
def test_entries_are_listed_for_a_few_words_at_a_time(corpus, monkeypatch, listed):
    model = LDA(3, max_iter=2, random_state=1).fit(corpus)
    topics, components = model.topics(4), model.components_
    monkeypatch.setattr(word_topics, "LISTED_ENTRIES", listed)
    most = max(len(entries.words) for entries in word_topics.list_entries(model.model_.blocks))
    assert most <= listed + 3  # a word has at most three entries, one for each topic
    assert model.topics(4) == topics
    np.testing.assert_array_equal(model.components_, components)
