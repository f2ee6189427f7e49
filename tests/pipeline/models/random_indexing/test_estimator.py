"""Random indexing through the engine: exact sums everywhere, growing, shrinking, documents, bad input."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from corpusmill import RandomIndexing
from corpusmill.io.errors import DataError
from corpusmill.kernels import random
from corpusmill.kernels.random_indexing import text as ri_text
from corpusmill.pipeline.engine.algorithm import Address, Shard
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import Described, RunStarted
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.saved import TrainedModel
from helpers.faults import Faulty, peak_rss
from helpers.naive import ri_normalised, ri_seed, ri_train, ri_train_by_offset
from helpers.toy import write_documents, write_toy_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("ri") / "corpus")


def small(**parameters):
    return RandomIndexing(**({"vector_size": 64, "window": 3, "seed_length": 4, "random_state": 5} | parameters))


def documents_of(corpus):
    chunks = [corpus.read_chunk(c) for c in range(len(corpus.chunks))]
    return [c.words[lo:hi] for c in chunks for lo, hi in zip(c.doc_ptr[:-1], c.doc_ptr[1:], strict=True)]


def seeds_of(words, random_state=5, dimension=64, seed_length=4):
    salt = int(random.key(random_state))
    return np.array([ri_seed(int(h), salt, dimension, seed_length) for h in ri_text.hash_words(words)])


def bits(estimator):
    return [block[name].tobytes() for block in estimator.model_.blocks for name in sorted(block)]


def sums_by_word(estimator):
    """The model's sums and statistics, whatever its order of words; words that never occurred left out."""
    sums, statistics = estimator.model_.joined("sums"), estimator.model_.joined("statistics")
    rows = zip(estimator.words_, sums, statistics, strict=True)
    return {word: (s.tobytes(), t.tolist()) for word, s, t in rows if t[0]}


# --- the same as the paper, the same everywhere ---


@pytest.mark.parametrize("order", ["permutation", "direction", "none"])
def test_equals_algorithm_2_1(corpus, order):
    model = small(order=order).fit(corpus)
    S = seeds_of(model.words_)
    expected = ri_train(documents_of(corpus), S, corpus.n_words, 3, order)
    np.testing.assert_array_equal(model.model_.block(0)["sums"], expected)
    np.testing.assert_allclose(model.wv.vectors, ri_normalised(expected), atol=1e-6)
    assert model.model_.shared["documents"] == corpus.n_documents


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_retraining_equals_algorithm_2_1_with_the_last_rows_as_seeds(corpus, n_blocks):
    model = small(retrain=2, n_blocks=n_blocks).fit(corpus)
    T = ri_train(documents_of(corpus), seeds_of(model.words_), corpus.n_words, 3)
    for _ in range(2):
        T = ri_train(documents_of(corpus), ri_normalised(T), corpus.n_words, 3)
    np.testing.assert_allclose(model.wv.vectors, ri_normalised(T), atol=1e-4)


def test_sums_of_rare_words_are_those_of_other_words(corpus):
    expected = small().fit(corpus)
    algorithm = small()._algorithm(corpus)
    shared = algorithm.begin_shared(corpus, None)
    assert shared["rare"].any()
    shared["rare"] = np.zeros_like(shared["rare"])
    begun = TrainedModel([next(algorithm.begin(corpus, range(1), None))], shared, corpus.vocabulary, {})
    chunks = [corpus.read_chunk(number) for number in range(len(corpus.chunks))]
    alone = Shard(None, range(1))
    deltas = [algorithm.sweep(begun, chunk, None, alone, Address(5, 1, chunk.number)).deltas[0] for chunk in chunks]
    block, _ = algorithm.apply(begun.block(0), algorithm.merge.add(deltas), shared, dict)
    for name, array in expected.model_.block(0).items():
        np.testing.assert_array_equal(block[name], array)


@pytest.mark.slow
def test_killed_workers_do_not_change_the_sums(corpus, tmp_path, cluster_of):
    model = small(retrain=1)
    expected = model.fit(corpus).model_.block(0)
    faulty = Faulty(model._algorithm(corpus), ((1, 1, 1, "kill"), (2, 4, 1, "kill")), str(tmp_path))
    run = RunStore(str(tmp_path / "run"))
    train(Training(faulty, corpus, run, 2, seed=5), OnDask(cluster_of(2)))
    for name, array in run.block(2, 0).items():
        np.testing.assert_array_equal(array, expected[name])
    assert faulty.attempts(1, 1) >= 2
    assert faulty.attempts(2, 4) >= 2


@pytest.mark.parametrize("method", ["partial_fit", "forget"])
def test_nothing_is_trained_for_a_model_that_will_be_retrained(corpus, method, tmp_path):
    model = RandomIndexing(64, seed_length=4).fit(corpus).set_params(retrain=1)
    with pytest.raises(ValueError, match="retrained vectors cannot be added or subtracted"):
        getattr(model, method)(corpus, run=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_retrained_models_are_not_merged(corpus):
    model = small(retrain=1).fit(corpus)
    with pytest.raises(ValueError, match="retrain=0"):
        model.set_params(retrain=0).merge(model)


@pytest.mark.parametrize("n_blocks", [3, 1000])
def test_blocks_do_not_change_the_sums(corpus, n_blocks):
    cut = small(n_blocks=n_blocks).fit(corpus)
    assert len(cut.model_.blocks) == min(n_blocks, corpus.n_words)
    assert sums_by_word(cut) == sums_by_word(small().fit(corpus))


@pytest.mark.slow
def test_the_parts_that_workers_update_do_not_change_retrained_vectors(tmp_path, cluster_of):
    n_words = 12_000
    rng = np.random.default_rng(0)
    texts = [np.split(rng.permutation(n_words).astype(np.uint32), 100) for _ in range(3)]
    corpus = write_documents(tmp_path / "corpus", {"train": texts, "held_out": []}, n_words, "wide")
    algorithm = RandomIndexing(16, retrain=2)._algorithm(corpus)
    assert algorithm.n_blocks == 2 and algorithm.n_ranges == 1
    whole, cut = (RunStore(str(tmp_path / name)) for name in ("whole", "cut"))
    train(Training(replace(algorithm, bounds=(0, n_words)), corpus, whole, 3), Synchronous())
    train(Training(algorithm, corpus, cut, 3), OnDask(cluster_of(2)))
    expected = whole.block(3, 0)
    blocks = [cut.block(3, index) for index in range(2)]
    for name in ("vectors", "statistics"):
        np.testing.assert_array_equal(np.concatenate([block[name] for block in blocks]), expected[name])


def test_blocks_make_a_retraining_task_smaller(corpus):
    whole, cut = (small(n_blocks=n)._algorithm(corpus).memory(corpus, corpus.chunks[0]) for n in (1, 10))
    assert cut.model < whole.model / 4
    assert cut.total < whole.total


def bible(real_data):
    books = {}
    for line in real_data("kjv.tsv").read_text().splitlines():
        book, chapter, _, text = line.split("\t")
        books.setdefault((book, chapter), []).extend(re.findall("[a-z]+", text.lower()))
    return list(books.values())


@pytest.mark.slow
def test_the_bible_is_the_sum_of_its_testaments(real_data):
    chapters = bible(real_data)
    whole = RandomIndexing(256).fit(corpus_from(chapters, chunk_tokens=200_000))
    old, new = (RandomIndexing(256).fit(corpus_from(part)) for part in (chapters[:929], chapters[929:]))
    merged = old.merge(new)
    assert sums_by_word(merged) == sums_by_word(whole)
    assert merged.words_ == whole.words_
    np.testing.assert_array_equal(merged.wv.vectors, whole.wv.vectors)
    ids = {word: i for i, word in enumerate(whole.words_)}
    S = seeds_of(whole.words_, 0, 256, 10)
    expected = ri_train_by_offset([np.array([ids[w] for w in c]) for c in chapters], S, len(ids), 5)
    np.testing.assert_array_equal(whole.model_.joined("sums"), expected)
    assert {word for word, _ in whole.wv.most_similar("brother", topn=6)} & {"father", "sister", "son", "mother"}


# --- growing and shrinking ---


@pytest.mark.parametrize("seed", range(2))
def test_merging_partial_fit_and_forgetting_are_exact(seed):
    rng = np.random.default_rng(seed)
    left, right = (
        [rng.choice(list("abcdefghij")[: 6 + 4 * i], n).tolist() for n in rng.integers(1, 30, 5)] for i in range(2)
    )
    whole = small().fit(corpus_from(left + right))
    a, b = (small().fit(corpus_from(part)) for part in (left, right))
    assert sums_by_word(a.merge(b)) == sums_by_word(b.merge(a)) == sums_by_word(whole)
    grown = small().partial_fit(corpus_from(left)).partial_fit(corpus_from(right))
    assert sums_by_word(grown) == sums_by_word(whole)
    assert grown.model_.shared["documents"] == len(left) + len(right)
    assert sums_by_word(grown.forget(corpus_from(right))) == sums_by_word(a)
    assert set(grown.words_) == {word for document in left for word in document}


def test_a_merged_model_is_saved_and_grows(tmp_path):
    a, b = (small().fit(corpus_from([words])) for words in (["one", "two"], ["two", "three", "one"]))
    a.merge(b).save(str(tmp_path / "model"))
    loaded = RandomIndexing.load(str(tmp_path / "model"))
    assert sums_by_word(loaded) == sums_by_word(a.merge(b))
    assert sums_by_word(loaded.forget(corpus_from([["one", "two"]]))) == sums_by_word(b)


def test_documents_that_were_never_added_are_not_subtracted():
    model = small().fit(corpus_from([["one", "two"]]))
    for other in (["three", "four"], ["one", "one", "two"]):
        with pytest.raises(DataError, match="not all in the model"):
            model.forget(corpus_from([other]))


@pytest.mark.parametrize(
    "mine, other",
    [
        ({}, {"random_state": 6}),
        ({}, {"window": 2}),
        ({}, {"vector_size": 128}),
        ({}, {"stop_words": ["one"]}),
        ({"retrain": 1}, {"retrain": 1}),
        ({"max_count": 9}, {"max_count": 9}),
    ],
)
def test_models_with_different_parameters_are_not_merged(mine, other):
    documents = [["one", "two", "three"]]
    a, b = (small(**parameters).fit(corpus_from(documents)) for parameters in (mine, other))
    with pytest.raises(ValueError, match="|".join(mine | other)):
        a.merge(b)


def test_sums_that_do_not_fit_32_bits_are_refused():
    model = small().fit(corpus_from([["one", "two"]]))
    model.model_.block(0)["sums"][:] = 2**30
    with pytest.raises(DataError, match="2\\^31"):
        model.merge(model)


# --- options ---


def test_stop_words_may_be_a_set(corpus, tmp_path):
    model = small(stop_words=frozenset(["w006", "w005"])).fit(corpus)
    model.save(str(tmp_path))
    assert RandomIndexing.load(str(tmp_path)).stop_words == ["w005", "w006"]
    expected = small(stop_words=["w005", "w006"]).fit(corpus)
    np.testing.assert_array_equal(model.wv.vectors, expected.wv.vectors)
    assert set(model.merge(expected).wv.index_to_key) == set(expected.wv.index_to_key)


def test_words_outside_the_frequency_limits_are_null_terms(corpus):
    documents, frequency = documents_of(corpus), corpus.vocabulary["term_frequency"].to_numpy()
    model = small(min_count=20, max_count=200, stop_words=["w005", "w006"], weighting="linear").fit(corpus)
    kept = (frequency >= 20) & (frequency <= 200)
    kept[[5, 6]] = False
    assert 0 < kept.sum() < len(kept)
    masked = [[w if kept[w] else None for w in d] for d in documents]
    expected = ri_train(masked, seeds_of(model.words_), corpus.n_words, 3, weighting="linear")
    np.testing.assert_array_equal(model.model_.block(0)["sums"], expected)
    assert model.wv.index_to_key == [word for word, k in zip(model.words_, kept, strict=True) if k]
    np.testing.assert_array_equal(model.wv.counts, frequency[kept])


def test_the_dimension_may_follow_the_vocabulary(corpus):
    model = small(vector_size="auto").fit(corpus)
    assert model.wv.vector_size == 512
    assert model.history_[0]["dimension"] == 512


def test_vectors_may_keep_their_length(corpus):
    model = small(normalize=False).fit(corpus)
    np.testing.assert_array_equal(model.wv.vectors, model.model_.block(0)["sums"])


def test_contexts_may_be_documents_of_a_bag_of_words():
    counts = scipy.sparse.csr_matrix([[2, 1, 0], [2, 1, 0], [0, 3, 1]])
    model = small(order="none", contexts="documents").fit(corpus_from(counts, vocabulary=["a", "b", "c"]))
    assert np.count_nonzero(model.wv["a"]) == 4
    assert model.wv.similarity("a", "b") > model.wv.similarity("a", "c")
    halves = [small(order="none", contexts="documents").fit(corpus_from(d)) for d in (["aa aa bb"], ["bb bb cc bb"])]
    whole = small(order="none", contexts="documents").fit(corpus_from(["bb aa aa", "cc bb bb bb"]))
    assert sums_by_word(halves[0].merge(halves[1])) == sums_by_word(whole)


def test_retraining_relates_words_that_share_no_neighbour():
    rng = np.random.default_rng(0)
    # cat and dog meet different verbs; the verbs meet the same food.
    pairs = ["cat purrs", "dog barks", "purrs milk", "barks milk", "stone lies", "lies road"]
    documents = [pairs[i].split() for i in rng.integers(0, len(pairs), 600)]
    options = {"order": "direction", "window": 1, "vector_size": 256}
    before = small(**options).fit(corpus_from(documents)).wv
    after = small(retrain=1, **options).fit(corpus_from(documents)).wv
    assert abs(before.similarity("cat", "dog")) < 0.2
    # Half of the context of purrs is that of barks.
    assert after.similarity("cat", "dog") == pytest.approx(0.5, abs=0.1)
    assert abs(after.similarity("cat", "stone")) < 0.2


def test_training_finds_neighbours_of_a_few_words(corpus):
    events = []
    model = small(stop_words=["w000"]).fit(corpus, callbacks=[events.append])
    lists = next(event.lists for event in events if isinstance(event, Described))
    assert 1 < len(lists) <= 5
    for word, near in lists:
        assert near == [w for w, _ in model.wv.most_similar(word, topn=8)]
        assert "w000" not in [word, *near]


# --- documents ---


@pytest.mark.parametrize("weights", ["none", "idf", "entropy"])
def test_documents_are_sums_of_their_words(corpus, weights):
    model = small(document_weights=weights).fit(corpus)
    documents = documents_of(corpus)
    counts = np.array([np.bincount(d, minlength=corpus.n_words) for d in documents])
    if weights == "idf":
        w = np.log((1 + len(documents)) / (1 + (counts > 0).sum(axis=0)))
    elif weights == "entropy":
        share = counts / np.maximum(counts.sum(axis=0), 1)
        w = 1 + (share * np.log(np.where(share > 0, share, 1))).sum(axis=0) / np.log(len(documents))
    else:
        w = np.ones(corpus.n_words)
    expected = ri_normalised((counts * w) @ ri_normalised(model.model_.block(0)["sums"]))
    np.testing.assert_allclose(model.transform(corpus), expected, atol=1e-4)


@pytest.mark.parametrize("changed", [{"document_weights": "idf"}, {"normalize": False}], ids=str)
def test_vectors_follow_parameters_that_change_after_training(corpus, changed):
    model = small().fit(corpus)
    model.transform(corpus)
    _ = model.wv
    model.set_params(**changed)
    expected = small(**changed).fit(corpus)
    np.testing.assert_array_equal(model.transform(corpus), expected.transform(corpus))
    np.testing.assert_array_equal(model.wv.vectors, expected.wv.vectors)


def test_documents_are_found_by_each_other_and_by_a_few_words():
    documents = {
        "sea": "fish swim water boat fish net water sail wind",
        "lake": "water fish boat swim row water",
        "farm": "cow grass milk barn cow field hay",
    }
    corpus = corpus_from([text.split() for text in documents.values()])
    model = RandomIndexing(512, window=3, document_weights="idf").fit(corpus)
    found = model.document_vectors(corpus)
    sea, lake, farm = found.index_to_key
    assert found.most_similar(sea)[0][0] == lake
    for words in (["hay", "unheard"], ["net", "sail"]):
        expected = found.most_similar(model.query(words))
        keys, cosines = zip(*model.search(corpus, words), strict=True)
        assert keys == tuple(key for key, _ in expected)
        np.testing.assert_allclose(cosines, [cosine for _, cosine in expected], atol=1e-6)
    assert model.search(corpus, ["hay", "unheard"], topn=1)[0][0] == farm
    assert model.search(corpus, ["water"], without=["net"], topn=1)[0][0] == lake
    with pytest.raises(ValueError, match=r"topn is 2\.5: choose an integer of 0 or more"):
        model.search(corpus, ["hay"], topn=2.5)
    with pytest.raises(KeyError, match="unheard"):
        model.query(["unheard"])
    assert not hasattr(model, "score")


# --- memory ---


@pytest.mark.slow
def test_a_term_matrix_larger_than_the_memory_limit_is_trained_within_the_estimate(tmp_path):
    n_words, dimension, limit = 90_000, 2048, 640 << 20
    rng = np.random.default_rng(0)
    texts = [np.split(rng.permutation(n_words).astype(np.uint32), 300) for _ in range(2)]
    corpus = write_documents(tmp_path / "corpus", {"train": texts, "held_out": []}, n_words, "wide")
    algorithm, plans = RandomIndexing(dimension, n_blocks=60)._algorithm(corpus), []
    run = RunStore(str(tmp_path / "run"))
    training = Training(algorithm, corpus, run, 1, evaluate_every=0, callbacks=[plans.append])
    with open_cluster("local", n_workers=1, memory_limit=limit) as client:
        train(training, OnDask(client))
        peak = max(client.run(peak_rss).values())
    assert run.store.size(run.folder(1)) > 4 * n_words * dimension > limit
    assert peak <= plans[0].plan["total"] <= limit
    block = run.block(1, 7)
    assert block["statistics"][:, 0].tolist() == [2] * (n_words // 60)
    assert np.abs(block["sums"]).sum(axis=1).min() > 0


@pytest.mark.slow
def test_sums_of_a_retraining_that_wait_to_be_merged_are_in_the_plan(tmp_path):
    n_words, n_chunks = 1000, 200
    rng = np.random.default_rng(0)
    texts = [[rng.permutation(n_words).astype(np.uint32)] for _ in range(n_chunks)]
    corpus = write_documents(tmp_path / "corpus", {"train": texts, "held_out": []}, n_words, "wide")
    algorithm, events = small(vector_size=512, retrain=1)._algorithm(corpus), []

    def trained(name):
        run = RunStore(str(tmp_path / name))
        train(Training(algorithm, corpus, run, 2, evaluate_every=0, callbacks=[events.append]), Synchronous())

    # Kernels that are compiled or loaded take memory, too.
    trained("first")
    tracemalloc.start()
    trained("second")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    plan = next(event.plan for event in events if isinstance(event, RunStarted))
    parts = ("data", "state", "model", "delta", "scratch")
    planned = sum(plan[f"task_{part}"] for part in parts) + plan["held"] + plan["cache"]
    assert 0.6 * planned < peak <= planned


# --- bad input ---


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"window": 0}, "window is 0"),
        ({"seed_length": 5}, "even integer"),
        ({"seed_length": 0}, "even integer"),
        ({"vector_size": 7}, "vector_size is 7: choose 'auto' or 8"),
        ({"vector_size": 65537}, "65536"),
        ({"order": "random"}, "order is 'random': choose one of permutation, direction, none"),
        ({"weighting": "x"}, "uniform, linear"),
        ({"contexts": "x"}, "words, documents"),
        ({"document_weights": "x"}, "none, idf, entropy"),
        ({"retrain": -1}, "retrain is -1"),
        ({"n_blocks": 0}, "n_blocks is 0"),
        ({"contexts": "documents"}, "order='none'"),
        ({"contexts": "documents", "order": "none", "retrain": 1}, "retrain=0"),
        ({"stop_words": "french"}, "stop_words is 'french': choose 'english', a list"),
    ],
)
def test_parameters_out_of_range(corpus, parameters, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        small(**parameters).fit(corpus)


def test_a_bag_of_words_has_no_neighbours():
    with pytest.raises(DataError, match="contexts='documents'"):
        small(order="none").fit(corpus_from(np.array([[1, 2], [3, 0]])))
