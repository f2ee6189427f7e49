"""Word2Vec through the engine: sub-models, rounds, resuming, new words, bad input."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import gensim.models
import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.stores.store import DataError
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram as kernels
from corpusmill.pipeline.engine.clusters import open_cluster
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.skip_gram.algorithm import MATRICES
from corpusmill.pipeline.models.skip_gram.gensim_arguments import PARAMETERS
from corpusmill.pipeline.models.skip_gram.hogwild import Hogwild, split_documents
from corpusmill.pipeline.models.skip_gram.sub_model import SubModelSkipGram
from corpusmill.pipeline.models.skip_gram.whole_model import WholeModelSkipGram
from corpusmill.pipeline.models.word2vec.estimator import Word2Vec
from helpers.models import bits
from helpers.toy import write_documents, write_topic_corpus, write_toy_corpus
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("w2v") / "corpus")


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("w2v") / "topics", n_topics=5)


def small(**parameters):
    return Word2Vec(**({"vector_size": 12, "window": 3, "min_count": 1, "epochs": 2, "sample": 0} | parameters))


def matrix(estimator, name):
    return estimator.model_.joined(name)


def text_of(corpus, n=None):
    words = corpus.vocabulary["word"].to_pylist()
    chunks = [corpus.read_chunk(c) for c in range(len(corpus.chunks))]
    documents = [c.words[lo:hi] for c in chunks for lo, hi in zip(c.doc_ptr[:-1], c.doc_ptr[1:], strict=True)]
    return [[words[v] for v in document] for document in documents[:n]]


@pytest.mark.parametrize("method", kernels.METHODS)
def test_shards_one_after_the_other_are_the_kernel_chunk_by_chunk(corpus, method):
    model = small(method=method, epochs=1, shards_per_round=1).fit(corpus)
    algorithm = small(epochs=1, shards_per_round=1).algorithm(corpus)
    begun, frequency = algorithm.begin(corpus, 0, None), algorithm.begin_shared(corpus, None)["frequency"]
    W_in, W_out = (begun[name].copy() for name in MATRICES)
    slope, done = (0.025 - 0.0001) / corpus.n_tokens, 0
    for c in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(c)
        keys = random.stream(random.key(1, 1, c), 4)
        size = max(1024, 1 << (chunk.n_tokens - 1).bit_length())
        table = kernels.negative_table(frequency, 0.75, size, keys[0])
        text = kernels.Text(chunk.doc_ptr, chunk.words, np.arange(chunk.n_tokens, dtype=np.uint32))
        step = kernels.TrainingOptions(3, 5, table, keys[2], keys[3], 0.025 - slope * done, slope, 0.0001)
        kernels.train(method, text, step, W_in, W_out)
        done += chunk.n_tokens
    np.testing.assert_allclose(matrix(model, "W_in"), W_in, atol=1e-6)
    np.testing.assert_allclose(matrix(model, "W_out"), W_out, atol=1e-6)
    assert model.history_[-1]["alpha"] == pytest.approx(0.0001)


def test_rare_words_take_the_sum_of_the_shards_changes_and_frequent_ones_the_mean(corpus):
    algorithm = small(shards_per_round=3).algorithm(corpus)

    def delta(rows, occurrences):
        changes = np.full((len(rows), kernels.PAD), 3, np.float32)
        return {
            "tokens": np.int64(7),
            "rows": np.array(rows, np.uint32),
            "occurrences": np.array(occurrences, np.float32),
            "W_in": changes,
            "W_out": changes,
        }

    merged = algorithm.merge(algorithm.merge(delta([1, 4], [0, 1e6]), delta([4, 9], [1e6, 0])), delta([4], [1e6]))
    assert merged["tokens"] == 21
    begun = algorithm.begin(corpus, 0, None)
    changed, totals = algorithm.apply(begun, merged, {"trained": 0})
    difference = changed["W_out"] - begun["W_out"]
    np.testing.assert_allclose(difference[[1, 4, 9]], 3 * np.ones((3, kernels.PAD)), rtol=1e-4)
    assert not np.delete(difference, [1, 4, 9], axis=0).any()
    assert totals["rows_changed"] == 3


@given(st.floats(0, 1e7), st.integers(1, 64), st.floats(1e-4, 0.1))
def test_shards_trained_together_move_vectors_as_far_as_in_sequence(pairs, shards, alpha):
    p = 1 - np.exp(-kernels.PULL * alpha * pairs / shards)
    share = kernels.merge_weights(np.array([pairs]), shards, alpha)[0]
    assert share * shards * p == pytest.approx(1 - (1 - p) ** shards, rel=1e-3, abs=1e-4)
    assert 0.999 / shards <= share <= 1.0001


@pytest.mark.parametrize("workers", [1, 2])
def test_idle_workers_are_reported_with_advice(corpus, workers, cluster_of):
    events = []
    small(n_blocks=2).fit(corpus, client=cluster_of(workers), callbacks=[events.append])
    advice = "1 task at a time for 2 threads of workers: to use more, raise shards_per_round"
    assert events[0].idle.startswith(advice) if workers == 2 else events[0].idle == ""


@pytest.mark.parametrize("method", kernels.METHODS)
def test_thread_local_copies_of_frequent_rows_get_the_same_changes(corpus, method):
    chunk, algorithm = corpus.read_document_order(0), small(method=method).algorithm(corpus)
    text = kernels.subsample(chunk.doc_ptr, chunk.words, np.ones(corpus.n_words, np.float32), random.key(1))
    table = kernels.negative_table(np.arange(corpus.n_words, 0, -1), 0.75, 1024, random.key(2))
    step = kernels.TrainingOptions(3, 5, table, random.key(3), random.key(4), 0.05, 0.0, 0.0)
    rows, hot = corpus.n_words, 7
    models = [[kernels.empty_rows(rows + copies, 12) for _ in MATRICES] for copies in (0, 2 * hot)]
    for W, name in zip(zip(*models, strict=True), MATRICES, strict=True):
        W[0][:] = W[1][:rows] = algorithm.begin(corpus, 0, None)[name]
    kernels.train(method, text, step, *models[0])
    with ThreadPoolExecutor(2) as pool:
        Hogwild(method, step, tuple(models[1]), np.ones(hot, np.float32)).train([text], 2, pool)
    for alone, shared in zip(*models, strict=True):
        assert shared.ctypes.data % 64 == 0 and not shared[:, 12:].any()
        np.testing.assert_allclose(shared[:rows], alone, atol=1e-6)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=60), st.integers(1, 5))
def test_parts_of_a_text_have_all_of_its_documents(lengths, threads):
    ptr = np.r_[0, np.cumsum(lengths)]
    parts = split_documents(ptr, threads)
    assert len(parts) == 1 if threads == 1 else len(parts) >= threads
    assert [d for part in parts for d in part[:-1].tolist()] + [ptr[-1]] == ptr.tolist()
    assert all(a[-1] == b[0] for a, b in zip(parts[:-1], parts[1:], strict=True))


def test_blocks_train_the_same_model(corpus):
    whole, cut = small(epochs=1).algorithm(corpus), small(epochs=1, n_blocks=4).algorithm(corpus)
    assert (
        cut.n_blocks == 4 and cut.memory(corpus, corpus.chunks[0]).model < whole.memory(corpus, corpus.chunks[0]).model
    )
    model = small(epochs=1, n_blocks=4).fit(corpus)
    assert model.wv.vectors.shape == (corpus.n_words, 12)
    moved = matrix(model, "W_out").any(axis=1)
    assert moved.sum() == matrix(small(epochs=1).fit(corpus), "W_out").any(axis=1).sum()


def test_a_model_larger_than_a_workers_memory_trains_by_blocks(tmp_path):
    rng = np.random.default_rng(0)
    parts = {"train": [[rng.integers(0, 20_000, 30) for _ in range(20)]], "held_out": []}
    corpus = write_documents(tmp_path / "corpus", parts, 20_000, "wide")
    wide = {"vector_size": 512, "epochs": 1}
    with open_cluster("local", n_workers=1, memory_limit="540MiB") as client:
        with pytest.raises(DataError, match="lower vector_size, cut the model with n_blocks, or ingest"):
            small(**wide).fit(corpus, client=client)
        model = small(**wide, n_blocks=8).fit(corpus, client=client, evaluate_every=0)
    assert matrix(model, "W_out").any(axis=1).mean() > 0.9


def test_vectors_that_became_infinite_are_an_error_that_names_the_learning_rate(corpus):
    model = small(epochs=1).fit(corpus)
    model.model_.blocks[0]["W_in"][3, 5] = np.inf
    with pytest.raises(DataError, match=r"training diverged: in epoch 1, .*; lower alpha, window or negative"):
        model.partial_fit(corpus)


def test_word_vectors_do_not_score_documents(corpus):
    with pytest.raises(ValueError, match="no likelihood: see evaluate, or held_out_loss"):
        small(epochs=1).fit(corpus).score(corpus)


class StopAfter:
    def __init__(self, epoch):
        self.epoch = epoch
        self.losses = []

    def __call__(self, event):
        if not isinstance(event, EpochFinished):
            return False
        self.losses.append(event.metrics["loss"])
        return event.epoch == self.epoch


def test_a_stopped_run_is_resumed_to_the_same_bits_and_the_loss_falls(corpus, tmp_path):
    stop, go = StopAfter(2), StopAfter(0)
    small(epochs=4, alpha=0.1).fit(corpus, run=str(tmp_path / "run"), callbacks=[stop])
    resumed = small(epochs=4, alpha=0.1).fit(corpus, run=str(tmp_path / "run"), callbacks=[go])
    assert bits(resumed) == bits(small(epochs=4, alpha=0.1).fit(corpus))
    assert len(stop.losses) == len(go.losses) == 2
    assert go.losses[-1] < stop.losses[0]
    assert resumed.history_[-1]["held_out_loss"] > 0


@pytest.mark.parametrize(("method", "threads"), [("par", 1), ("par", 2), ("full", 1), ("sgns", 1)])
def test_vectors_of_words_of_one_topic_are_similar(topics, method, threads):
    model = small(method=method, threads=threads, epochs=15, alpha=0.1, shards_per_round=2).fit(topics)
    same = [int(model.wv.most_similar(w, topn=1)[0][0][1:]) // 20 == int(w[1:]) // 20 for w in model.wv.index_to_key]
    assert np.mean(same) > 0.95


def test_windows_can_cross_sentence_ends():
    pairs = [["a"], ["b"]] * 50
    with pytest.raises(DataError, match="no document has two words"):
        small().fit(pairs)
    model = small(ignore_sentence_ends=True, epochs=1).fit(pairs)
    assert matrix(model, "W_out").any()


def test_partial_fit_adds_vectors_of_new_words_and_keeps_the_old_ones():
    model = small(epochs=5).fit([["a", "b", "c"]] * 30 + [["x", "y"]] * 10)
    before = {word: model.wv[word].copy() for word in "abcxy"}
    model.partial_fit([["a", "n", "b"]] * 20)
    assert sorted(model.wv.index_to_key) == ["a", "b", "c", "n", "x", "y"]
    for word in "cxy":
        np.testing.assert_array_equal(model.wv[word], before[word])
    assert not np.array_equal(model.wv["a"], before["a"])
    frequencies = {row["word"]: row for row in model.model_.vocabulary.to_pylist()}
    assert frequencies["a"] == {"word": "a", "term_frequency": 50, "document_frequency": 50}
    assert frequencies["x"] == {"word": "x", "term_frequency": 10, "document_frequency": 10}
    np.testing.assert_array_equal(model.wv.counts, model.model_.vocabulary["term_frequency"].to_numpy())


def test_rare_words_have_no_vector(corpus):
    frequency = corpus.vocabulary["term_frequency"].to_numpy()
    model = small(min_count=20).fit(corpus)
    assert len(model.wv) == (frequency >= 20).sum() < corpus.n_words
    np.testing.assert_array_equal(model.wv.counts, frequency[frequency >= 20])


def test_a_saved_model_is_the_same_and_applies_to_documents(corpus, tmp_path):
    model = small(n_blocks=2).fit(corpus)
    model.save(str(tmp_path / "model"))
    loaded = Word2Vec.load(str(tmp_path / "model"))
    assert bits(loaded) == bits(model)
    rows = loaded.transform([["w001", "w002"], ["unknown"]])
    np.testing.assert_allclose(rows[0], model.wv[["w001", "w002"]].mean(axis=0), rtol=1e-6)
    assert not rows[1].any()


def test_evaluation_from_the_estimator(corpus, tmp_path):
    (tmp_path / "pairs").write_text("w000\tw001\t3\nw002\tw003\t1\nw004\tw005\t2\n")
    (tmp_path / "analogies").write_text(": s\nw000 w001 w002 w003\n")
    found = small(epochs=1).fit(corpus).evaluate(str(tmp_path / "pairs"), str(tmp_path / "analogies"))
    assert found["pairs"].pairs == 3
    assert found["analogies"].total.asked == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"vector_size": 0}, "vector_size is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"method": "cbow"}, "choose one of par, full, sgns"),
        ({"alpha": 2.0}, "alpha is 2.0"),
        ({"min_alpha": 0.5}, "min_alpha is 0.5"),
        ({"sample": -1.0}, "sample is -1.0"),
    ],
)
def test_parameters_out_of_range_are_refused(corpus, parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(corpus)


def test_text_without_windows_is_refused():
    with pytest.raises(DataError, match="bag of words"):
        small().fit(scipy.sparse.csr_matrix(np.ones((3, 4), np.int32)))
    with pytest.raises(DataError, match="no word occurs 9 times"):
        small(min_count=9).fit(corpus_from([["a", "b"], ["b", "c"]]))


def test_documents_of_one_word_are_skipped():
    model = small(epochs=1).fit([["a"], ["b", "c", "b"], ["a"]] * 20)
    corpus = corpus_from([["a"], ["b", "c", "b"], ["a"]] * 20)
    start = small(epochs=1).algorithm(corpus).begin(corpus, 0, None)["W_in"]
    np.testing.assert_array_equal(model.wv["a"], start[model.wv.key_to_index["a"], :12])


def test_one_shard_of_one_block_passes_on_the_model_itself(corpus):
    assert isinstance(small().algorithm(corpus), WholeModelSkipGram)
    assert isinstance(small(n_blocks=2).algorithm(corpus), SubModelSkipGram)
    assert isinstance(small(shards_per_round=2).algorithm(corpus), SubModelSkipGram)
    with pytest.raises(ValueError, match="cannot be merged"):
        small().algorithm(corpus).merge({}, {})


# --- users of gensim ---


@pytest.mark.parametrize(
    ("arguments", "parameters", "message"),
    [
        (([["a", "b"]],), {}, r"takes no data: pass the sentences to fit, as in Word2Vec\(vector_size=100\)"),
        (([["a", "b"]],), {"vector_size": 100, "workers": 4}, "takes no data: pass the sentences to fit"),
        ((), {"sentences": [["a", "b"]]}, "has no parameter 'sentences': pass the sentences to fit"),
        ((), {"workers": 4}, "has no parameter 'workers': use threads"),
        ((), {"sg": 1}, "has no parameter 'sg': leave it out"),
        ((), {"hs": 1}, "hierarchical softmax is not supported"),
        ((), {"size": 100}, "its name is vector_size"),
        ((), {"topics": 100}, "unexpected keyword argument 'topics'"),
    ],
)
def test_arguments_that_only_gensim_has_are_explained(arguments, parameters, message):
    with pytest.raises(TypeError, match=message):
        Word2Vec(*arguments, **parameters)


def test_every_parameter_of_gensim_is_accepted_or_explained():
    theirs = inspect.signature(gensim.models.Word2Vec).parameters
    ours = inspect.signature(Word2Vec).parameters
    assert set(theirs) - set(ours) <= set(PARAMETERS)
    assert not set(ours) & set(PARAMETERS)
    for name in set(theirs) & set(ours):
        assert theirs[name].default == ours[name].default, name


@pytest.mark.parametrize("method", ["build_vocab", "train"])
def test_methods_that_only_gensim_has_are_explained(method):
    with pytest.raises(TypeError, match="fit"):
        getattr(Word2Vec(), method)([["a", "b"]], total_examples=1, epochs=1)
