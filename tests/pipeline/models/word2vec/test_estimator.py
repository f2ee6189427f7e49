"""Word2Vec through the engine: cells, the published methods, resuming, new words, bad input."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import skip_gram as kernels
from corpusmill.kernels.word2vec.cells import CellOptions, train_cell
from corpusmill.kernels.word2vec.dealing import arrange
from corpusmill.kernels.word2vec.pairs import split_pairs
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.grid import Grid
from corpusmill.pipeline.engine.memory import Capacity
from corpusmill.pipeline.engine.plan import make_plan
from corpusmill.pipeline.engine.worker.held import map_deltas
from corpusmill.pipeline.ingest.ingest import corpus_from, ingest
from corpusmill.pipeline.models.base.advice import TrainingWarning
from corpusmill.pipeline.models.node2vec.estimator import Node2Vec
from corpusmill.pipeline.models.skip_gram.algorithm import MATRICES
from corpusmill.pipeline.models.skip_gram.grid_size import MIN_PASSES, grid_size
from corpusmill.pipeline.models.skip_gram.sequential import SequentialSkipGram
from corpusmill.pipeline.models.skip_gram.strata import NEGATIVES
from corpusmill.pipeline.models.word2vec.estimator import Word2Vec
from gensim.models.word2vec import LineSentence
from helpers.models import bits
from helpers.toy import write_documents, write_topic_corpus, write_toy_corpus


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


@pytest.mark.parametrize(("method", "words"), [("full", 24), ("par", 24), ("par", 8)])
def test_published_methods_are_the_kernel_chunk_by_chunk(corpus, method, words):
    estimator = small(method=method, epochs=1, minibatch_words=words)
    model = estimator.fit(corpus)
    algorithm = estimator._algorithm(corpus)
    begun, frequency = next(algorithm.begin(corpus, range(1), None)), algorithm.begin_shared(corpus, None)["frequency"]
    W_in, W_out = (begun[name].copy() for name in MATRICES)
    slope, done = (0.025 - 0.0001) / corpus.n_tokens, 0
    for c in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(c)
        keys = random.stream(random.key(1, 1, c), 4)
        size = max(1024, 1 << (chunk.n_tokens - 1).bit_length())
        table = negative_table(frequency, 0.75, size, keys[0])
        text = Text(chunk.doc_ptr, chunk.words, np.arange(chunk.n_tokens, dtype=np.uint32))
        step = TrainingOptions(3, 5, table, keys[2], keys[3], 0.025 - slope * done, slope, 0.0001, words)
        kernels.train(method, text, step, W_in, W_out)
        done += chunk.n_tokens
    np.testing.assert_allclose(matrix(model, "W_in"), W_in, atol=1e-6)
    np.testing.assert_allclose(matrix(model, "W_out"), W_out, atol=1e-6)
    assert model.history_[-1]["alpha"] == pytest.approx(0.0001)


@pytest.mark.parametrize("workers", [1, 2])
def test_idle_workers_are_reported_with_advice(corpus, workers, cluster_of):
    events = []
    small(method="par").fit(corpus, client=cluster_of(workers), callbacks=[events.append])
    advice = "1 task at a time for 2 threads of workers: to use more, choose method strata"
    assert events[0].idle.startswith(advice) if workers == 2 else events[0].idle == ""


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "threads"), [(1, 3), (2, 1), (3, 3)])
def test_same_vectors_on_any_number_of_workers_and_threads(corpus, workers, threads, cluster_of):
    expected = small(n_blocks=8).fit(corpus)
    model = small(n_blocks=8, threads=threads).fit(corpus, client=cluster_of(workers))
    assert bits(model) == bits(expected)


def test_repetitions_are_thinned_from_the_second_epoch_on(topics):
    history = small(epochs=3).fit(topics).history_
    first, second, third = (row["trained_pairs"] for row in history)
    assert second < 0.9 * first
    assert third == pytest.approx(second, rel=0.1)


def test_cells_are_trained_as_the_kernel_trains_them(corpus):
    algorithm = small(n_blocks=2, epochs=1)._algorithm(corpus)
    model = small(n_blocks=2, epochs=1).fit(corpus)
    shared = algorithm.begin_shared(corpus, None)
    dealing = arrange((shared["places"] >> 16).astype(np.uint16), 2)
    blocks = list(algorithm.begin(corpus, range(2), None))
    pieces = {}
    for c in range(len(corpus.chunks)):
        chunk, keys = corpus.read_chunk(c), random.stream(random.key(1, 1, c), 2)
        cuts = np.linspace(0, chunk.n_tokens, algorithm.passes + 1).astype(int)
        for grid_pass in range(algorithm.passes):
            ptr = np.unique(np.clip(chunk.doc_ptr, cuts[grid_pass], cuts[grid_pass + 1]))
            keep = np.ones(corpus.n_words, np.float32)
            whole = np.array([0, len(ptr) - 1])
            pairs, counts = split_pairs(ptr, whole, chunk.words, dealing.places, keep, 3, *keys, 2)
            ends = np.cumsum(counts)
            for cell, own in enumerate(np.split(pairs, ends[:-1])):
                pieces.setdefault((grid_pass, *divmod(cell, 2)), []).append(own)
    strata = algorithm.passes * 2
    for number, cell in Grid(1, 1, 2, algorithm.passes).cells(range(2), 2):
        W_in, W_out = blocks[cell.row]["W_in"], blocks[cell.column]["W_out"]
        own = np.concatenate(pieces[cell.grid_pass, cell.row, cell.column])
        own = own[np.argsort(own >> 16, kind="stable")]
        fall = (0.025 - 0.0001) / strata
        key = random.key(1, NEGATIVES, 1, cell.grid_pass, cell.row, cell.column)
        weight, heaviest = shared["weights"][cell.column], shared["heaviest"][cell.column]
        options = CellOptions(5, weight, heaviest, 0.025 - fall * number, fall / len(own), 0.0001, key)
        train_cell(W_in, W_out, own, shared["tables"][cell.column], options)
    for name in MATRICES:
        trained = np.concatenate([block[name] for block in blocks])
        np.testing.assert_array_equal(matrix(model, name)[dealing.order], trained)


@pytest.mark.slow
def test_a_model_that_is_too_large_for_a_task_trains_by_blocks(tmp_path):
    rng = np.random.default_rng(0)
    parts = {"train": [[rng.integers(0, 15_000, 30) for _ in range(200)]], "held_out": []}
    corpus = write_documents(tmp_path / "corpus", parts, 15_000, "wide")
    wide = {"vector_size": 1024, "epochs": 1}
    with open_cluster("local", n_workers=1, memory_limit="512MiB") as client:
        with pytest.raises(DataError, match=r"raise memory_limit to \d+MiB or more"):
            small(**wide, n_blocks=1).fit(corpus, client=client)
    with open_cluster("local", n_workers=2, memory_limit="1GiB") as client:
        model = small(**wide, n_blocks=8).fit(corpus, client=client, evaluate_every=0)
    assert matrix(model, "W_out").any(axis=1).mean() > 0.1


def test_the_plan_counts_the_pairs_that_a_worker_keeps_during_a_step(corpus):
    algorithm = small(n_blocks=4)._algorithm(corpus)
    alone, shared = (make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 1, 1 << 30), n) for n in (1, 2))
    assert alone.kept - shared.kept == algorithm.needs(corpus, 2).kept > 0


def test_pairs_that_do_not_fit_wait_on_disk(corpus):
    algorithm = small(n_blocks=16)._algorithm(corpus)
    tokens = corpus.n_tokens // algorithm.rounds
    algorithm = replace(algorithm, window=(3 << 30) // (4 * tokens) - 1)
    plan = make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 1, 12 << 30))
    assert plan.kept + plan.held < algorithm.needs(corpus, 1).kept + 16 * plan.task.total
    assert plan.total <= plan.limit


def test_a_full_or_missing_scratch_folder_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=rf"the scratch folder {tmp_path}/gone cannot take 8 B .*No such file"):
        map_deltas([{"pairs": np.zeros(2, np.int32)}], f"{tmp_path}/gone")


@pytest.mark.parametrize("tokens", [10**4, 10**6, 10**8, 10**10])
def test_the_grid_fits_the_corpus(tokens):
    mass = tokens / np.arange(1, 10**5) / np.log(10**5)
    mass = np.minimum(mass, tokens / 200)
    size = grid_size(mass, tokens, 256, epochs=2, window=5, n_blocks=None)
    assert size.n_blocks & (size.n_blocks - 1) == 0
    assert size.passes * size.rounds * 2 >= MIN_PASSES
    largest = {2: 1 << 25, 8: 1 << 25, 16: 95e6}
    assert mass.sum() * 6 / size.rounds <= largest[size.n_blocks] or size.rounds == 256
    assert size.n_blocks == {10**4: 2, 10**6: 8, 10**8: 16, 10**10: 16}[tokens]


def test_more_blocks_take_longer_steps_and_passes():
    mass = np.full(10**5, 1e4)
    sizes = [grid_size(mass, 10**9, 256, epochs=1, window=5, n_blocks=n_blocks) for n_blocks in (4, 8, 16, 32)]
    assert sizes[0][1:] == sizes[1][1:]
    for smaller, larger in zip(sizes[1:], sizes[2:], strict=False):
        assert larger.rounds <= smaller.rounds / 2 + 1
        assert larger.rounds * larger.passes <= 0.6 * smaller.rounds * smaller.passes
    assert sizes[-1].rounds * sizes[-1].passes >= MIN_PASSES


def test_steps_of_very_many_blocks_still_fit_into_the_memory_of_one_worker():
    sizes = [grid_size(np.full(10**5, 1e5), 10**10, 512, 1, 5, n_blocks) for n_blocks in (32, 64, 256)]
    assert len({size.rounds for size in sizes}) == 1


def test_vectors_that_became_infinite_are_an_error_that_names_the_learning_rate(corpus):
    model = small(epochs=1).fit(corpus)
    model.model_.blocks[0]["W_in"][3, 5] = np.inf
    with pytest.raises(DataError, match=r"training diverged: in epoch 1, .*; lower alpha, window or negative"):
        model.partial_fit(corpus)


def test_vectors_that_diverge_but_stay_finite_are_reported_with_advice():
    rng = np.random.default_rng(0)
    corpus = corpus_from([[f"w{word}" for word in rng.zipf(1.3, 200) % 300] for _ in range(60)])
    message = r"the loss is more than \S+ times 4\.159, that of vectors of zeros; lower .*, or choose method strata"
    with pytest.warns(TrainingWarning, match=message) as shown:
        model = small(method="par", vector_size=32, window=5, epochs=3, alpha=0.2, sample=1e-3).fit(corpus)
    # Python and the command line show equal texts once.
    assert len({str(warning.message) for warning in shown}) == 1
    assert np.isfinite(matrix(model, "W_in")).all()


def test_strata_do_not_diverge_at_any_learning_rate(recwarn):
    rng = np.random.default_rng(0)
    corpus = corpus_from([[f"w{word}" for word in rng.zipf(1.3, 200) % 300] for _ in range(60)])
    for alpha in (0.2, 0.99):
        model = small(vector_size=32, window=5, epochs=1, alpha=alpha, sample=1e-3).fit(corpus)
        assert model.history_[-1]["loss"] < 3
    assert not [warning for warning in recwarn if "diverges" in str(warning.message)]


def test_word_vectors_do_not_score_documents(corpus):
    model = small(epochs=1).fit(corpus)
    assert not hasattr(model, "score")
    with pytest.raises(AttributeError, match="no likelihood; see held_out_loss in history_"):
        model.score(corpus)


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


@pytest.mark.parametrize(("method", "n_blocks"), [("strata", None), ("strata", 4), ("par", 1), ("full", 1)])
def test_words_of_a_topic_come_together(topics, method, n_blocks):
    model = small(method=method, n_blocks=n_blocks, epochs=15, alpha=0.1).fit(topics)
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


@pytest.mark.parametrize("method", ["strata", "par"])
def test_added_words_do_not_change_the_loss_of_held_out_documents(method):
    old = corpus_from(["red green blue red", "cat dog cow dog", "red blue", "cat cow"] * 20, held_out=0.3)
    names = [*old.vocabulary["word"].to_pylist(), *(f"new{k}" for k in range(9))]
    new = corpus_from([" ".join(names[-9:])] * 30, vocabulary=names)
    model = small(method=method, epochs=10, alpha=0.1).fit(old)
    before = model.history_[-1]["held_out_loss"]
    # Negatives are known words, so at a usual rate their vectors would change.
    model.alpha = model.min_alpha = 1e-12
    model.partial_fit(new, held_out=old.held_out)
    assert model.history_[-1]["held_out_loss"] == pytest.approx(before, rel=1e-6)


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"negative": 1 << 62}, "negative is .*: choose an integer from 1 to 1000"),
        ({"threads": 1 << 31}, "threads is .*: choose an integer from 1 to 1024"),
        ({"n_blocks": 1 << 62}, "n_blocks is .*: choose an integer from 1 to 65536 or None"),
        ({"vector_size": 0}, "vector_size is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"method": "cbow"}, "choose one of strata, par, full"),
        ({"n_blocks": 12}, "n_blocks is 12: choose a power of two"),
        ({"method": "par", "n_blocks": 2}, "'par' trains one block with one thread: choose method 'strata'"),
        ({"method": "full", "threads": 2}, "'full' trains one block with one thread: choose method 'strata'"),
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


def test_ingest_can_read_the_words_of_gensims_line_sentence(tmp_path):
    (tmp_path / "text.txt").write_text("It is a Test, A b c!\n\nthe cat's naïve cafe\u0301\n", encoding="utf-8")
    sentences = LineSentence(str(tmp_path / "text.txt"))
    # As docs/how-to/from-gensim.md says.
    options = {"token_pattern": r"\S+", "lowercase": False}
    corpus = ingest(str(tmp_path / "text.txt"), str(tmp_path / "corpus"), **options)
    assert bits(small(min_count=1).fit(corpus)) == bits(small(min_count=1).fit([words for words in sentences if words]))


@pytest.mark.parametrize("documents", [[[1, 2, 3], [1, 2]], [[1, 2]], (np.array([1, 2]), np.array([3]))])
def test_words_that_are_numbers_are_refused_with_what_to_pass(documents):
    with pytest.raises(ValueError, match=r"Word2Vec takes lists of strings, .* pass \[\[str\(word\)"):
        small().fit(documents)
    if isinstance(documents, list):
        with pytest.raises(ValueError, match="Node2Vec takes lists of strings"):
            Node2Vec().fit(documents)


def test_documents_of_one_word_are_skipped():
    model = small(epochs=1).fit([["a"], ["b", "c", "b"], ["a"]] * 20)
    corpus = corpus_from([["a"], ["b", "c", "b"], ["a"]] * 20)
    start = small(epochs=1)._algorithm(corpus).begin(corpus, range(1), None)
    start = next(start)["W_in"]
    np.testing.assert_array_equal(model.wv["a"], start[model.wv.key_to_index["a"], :12])


def test_published_methods_have_one_shard(corpus):
    algorithm = small(method="par")._algorithm(corpus)
    assert isinstance(algorithm, SequentialSkipGram)
    assert algorithm.needs(corpus, 4).shards == 1
