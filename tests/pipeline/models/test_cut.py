"""The engine cuts a model so that tasks fit, and the arrays are those of the model that was not cut."""

import json
import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, DataError, FastRP, Node2Vec, RandomIndexing, Word2Vec, ingest, ingest_graph
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.pipeline.engine import packing
from corpusmill.pipeline.engine.algorithm import recut
from corpusmill.pipeline.engine.epoch import train
from corpusmill.pipeline.engine.events import RunStarted
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.memory import PROCESS_BYTES, Capacity, limit_for
from corpusmill.pipeline.engine.plan import TooLarge, plan_run
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.training import Training
from corpusmill.pipeline.engine.worker.tasks import recut_block
from corpusmill.pipeline.models.base.estimator import PREVIOUS
from corpusmill.pipeline.models.base.saved import SavedModel
from corpusmill.pipeline.models.own import OwnModel


def in_turn(estimator):
    """Let some restarts begin when others have left."""
    estimator._max_columns = 20
    return estimator


CASES = {
    "lda": lambda n: LDA(60, max_iter=n),
    "lda-warp": lambda n: LDA(60, max_iter=n, sampler="warp", learn_priors="symmetric", learn_every=2),
    "nmf": lambda n: NMF(12, max_iter=n, tol=0),
    "nmf-penalties": lambda n: NMF(12, max_iter=n, tol=0, weighting="tfidf", alpha_W=1e-4, l1_ratio=0.5),
    "nmf-gradient": lambda n: NMF(12, max_iter=n, tol=0, convergence="gradient"),
    "nmf-mu": lambda n: NMF(12, max_iter=n, tol=0, solver="mu"),
    "nmf-kl": lambda n: NMF(12, max_iter=n, tol=0, solver="mu", beta_loss="kullback-leibler"),
    "nmf-known": lambda n: NMF(12, max_iter=n, tol=0, missing="unknown"),
    "nmf-nndsvd": lambda n: NMF(12, max_iter=n, tol=0, init="nndsvdar"),
    "nmf-restarts": lambda n: NMF(12, max_iter=n, tol=0, restart_components=[3, 12], restarts=2, alpha_W=1e-4),
    "nmf-restarts-in-turn": lambda n: in_turn(NMF(12, max_iter=n, tol=0, restarts=3)),
    "random-indexing": lambda n: RandomIndexing(256),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, 20_001)
    words = np.array([f"w{number}" for number in range(len(weights))])
    documents = words[rng.choice(len(words), (600, 60), p=weights / weights.sum())].tolist()
    return ingest(documents, tmp_path_factory.mktemp("corpus") / "corpus", chunk_tokens=6_000)


@pytest.fixture(scope="module")
def ratings(corpus, tmp_path_factory):
    """The counts of the corpus as a matrix."""
    blocks = (corpus.read_chunk(index).counts(corpus.n_words) for index in range(len(corpus.chunks)))
    return write_matrix(tmp_path_factory.mktemp("ratings") / "ratings", map(scipy.sparse.csr_matrix, blocks))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    rng = np.random.default_rng(0)
    nodes = rng.integers(0, 8_000, (40_000, 2))
    edges = scipy.sparse.coo_array((np.ones(len(nodes)), nodes.T), (8_000, 8_000)).tocsr()
    return ingest_graph(edges, tmp_path_factory.mktemp("graph") / "graph", directed=True, chunk_edges=10_000)


@pytest.fixture
def limited(monkeypatch):
    """Return a function that sets the memory of this process; 0 is no limit."""

    def limit(memory):
        monkeypatch.setattr(Synchronous, "capacities", lambda self, devices=False: [Capacity("here", "", 1, memory)])

    limit(0)
    return limit


def least_memory(estimator, corpus, previous=None):
    """Return the least memory, up to 100 kB more, in which a model can be trained."""
    algorithm = estimator._algorithm(corpus, previous)
    cut = estimator._cut(algorithm, corpus, previous)
    too_little, enough = PROCESS_BYTES, 1 << 34
    while enough - too_little > 100_000:
        middle = (too_little + enough) // 2
        try:
            plan_run(algorithm, cut, corpus, [Capacity("here", "", 1, middle)])
            enough = middle
        except TooLarge:
            too_little = middle
    return enough


def fitted(estimator, corpus, **options):
    """Return the number of blocks of the plan, and the arrays of the model by name, joined."""
    plans = []
    estimator.fit(
        corpus, callbacks=[lambda event: plans.append(event.plan) if isinstance(event, RunStarted) else None], **options
    )
    blocks = estimator.model_.blocks
    names = [name for name in blocks[0] if name not in ("first_row", "size")]
    arrays = {name: [np.atleast_1d(block[name]) for block in blocks] for name in names}
    # The lengths of rows do not depend on the blocks.
    arrays = {name: [np.diff(a) for a in found] if name == "row_ptr" else found for name, found in arrays.items()}
    return plans[0]["blocks"], {name: np.concatenate(found) for name, found in arrays.items()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, name)


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_is_cut_has_the_same_arrays(case, corpus, ratings, limited):
    corpus = ratings if case == "nmf-known" else corpus
    few, expected = fitted(CASES[case](4), corpus)
    # Random indexing would sum single rows otherwise.
    limited(least_memory(CASES[case](4), corpus) + 500_000 * (case == "random-indexing"))
    many, found = fitted(CASES[case](4), corpus)
    assert many > few
    assert_same(found, expected)


@pytest.mark.parametrize(
    "options",
    [{"alpha_W": 1e-3, "l1_ratio": 0.5}, {"solver": "mu"}, {"solver": "mu", "beta_loss": "kullback-leibler"}],
    ids=["hals", "mu", "kl"],
)
@pytest.mark.parametrize("init", ["random", "nndsvda"])
def test_a_factor_of_dense_rows_that_is_cut_has_the_same_arrays(options, init, limited, tmp_path):
    numbers = np.random.default_rng(0).random((60, 10_000)) ** 9
    matrix = write_matrix(tmp_path / "matrix", numbers, chunk_numbers=100_000)
    estimator = NMF(12, max_iter=3, tol=0, init=init, **options)
    few, expected = fitted(estimator, matrix)
    limited(least_memory(estimator, matrix))
    many, found = fitted(estimator, matrix)
    assert many > few
    assert_same(found, expected)


@pytest.mark.parametrize("case", ["nmf-penalties", "nmf-mu", "nmf-kl"])
def test_a_continued_factor_that_is_cut_has_the_same_arrays(case, corpus, limited, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "PART_BYTES", 100_000)
    CASES[case](2).fit(corpus).save(tmp_path / "model")
    whole, in_blocks = NMF.load(tmp_path / "model"), NMF.load(tmp_path / "model")
    whole.partial_fit(corpus)
    limited(least_memory(in_blocks, corpus, SavedModel.open(str(tmp_path / "model"))))
    plans = []

    def note(event):
        if isinstance(event, RunStarted):
            plans.append(event.plan)

    in_blocks.partial_fit(corpus, run=tmp_path / "run", callbacks=[note])
    assert plans[0]["blocks"] > 1
    # The model that it continues is read a block at a time too.
    (copied,) = (tmp_path / "run" / PREVIOUS).iterdir()
    assert max(array["W"].nbytes for array in SavedModel.open(copied).blocks()) < 150_000
    np.testing.assert_array_equal(in_blocks.components_, whole.components_)


@pytest.mark.parametrize("is_dense", [False, True])
def test_a_start_from_singular_vectors_takes_no_more_memory_than_planned(is_dense, tmp_path):
    numbers = np.random.default_rng(0).random((60, 40_000)) ** 9
    given = numbers if is_dense else scipy.sparse.csr_matrix(np.floor(2 * numbers))
    matrix = write_matrix(tmp_path / "matrix", given, chunk_numbers=200_000)
    algorithm = NMF(40, init="nndsvda", device="cpu")._algorithm(matrix)
    cut = NMF(40, init="nndsvda", device="cpu")._cut(algorithm, matrix, None)(13)
    list(NMF(2, init="nndsvda")._algorithm(matrix).begin(matrix, range(1), None))  # compiles
    tracemalloc.start()
    for _ in cut.begin(matrix, range(13), None):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    planned = max(algorithm.memory(matrix, chunk).total for chunk in matrix.chunks)
    least = max(cut.memory(matrix, chunk).total for chunk in matrix.chunks)
    assert peak < least < planned


@pytest.mark.parametrize("case", ["lda", "nmf", "nmf-restarts"])
def test_a_run_is_cut_again_when_it_is_resumed_with_less_memory(case, corpus, limited, tmp_path):
    _, expected = fitted(CASES[case](4), corpus)
    fitted(CASES[case](2).set_params(n_blocks=1), corpus, run=tmp_path / "run")
    limited(least_memory(CASES[case](4), corpus))
    many, found = fitted(CASES[case](4), corpus, run=tmp_path / "run")
    assert many > 1
    assert_same(found, expected)
    # The cut stays when there is memory in plenty again.
    limited(0)
    again, found = fitted(CASES[case](4), corpus, run=tmp_path / "run")
    assert again == many
    assert_same(found, expected)


@pytest.mark.parametrize("case", ["lda", "nmf"])
def test_a_run_that_was_cut_again_may_go_on_with_the_blocks_that_it_was_begun_with(case, corpus, limited, tmp_path):
    whole = CASES[case](6).set_params(n_blocks=1)
    _, expected = fitted(whole, corpus)
    fitted(CASES[case](2).set_params(n_blocks=1), corpus, run=tmp_path / "run")
    limited(least_memory(CASES[case](4), corpus))
    assert fitted(CASES[case](4), corpus, run=tmp_path / "run")[0] > 1
    limited(0)
    blocks, found = fitted(whole, corpus, run=tmp_path / "run")
    assert blocks == 1
    assert_same(found, expected)


def test_a_number_of_blocks_that_the_user_has_chosen_is_not_changed(corpus, limited):
    assert fitted(NMF(12, max_iter=1, n_blocks=3), corpus)[0] == 3


@pytest.mark.parametrize(
    "estimator",
    [
        LDA(4000, n_blocks=1),
        NMF(500, n_blocks=1),
        RandomIndexing(40_000, n_blocks=1),
        Word2Vec(3000),
        Word2Vec(3000, method="full"),
    ],
    ids=["lda", "nmf", "random-indexing", "strata", "full"],
)
def test_a_smaller_model_is_named_only_if_it_fits(estimator, corpus):
    algorithm = estimator._algorithm(corpus)
    found = set()
    for memory in (limit_for(0) + (1 << bits) for bits in range(16, 29)):
        workers = [Capacity("here", "", 1, memory)]
        try:
            plan_run(algorithm, None, corpus, workers, lambda: estimator._smaller(corpus))
        except DataError as error:
            named = [other for other in estimator._smaller(corpus) if other.advice in str(error)]
            for other in named[:1]:
                plan_run(other.algorithm, other.cut, corpus, workers)
            found.add(len(named) > 0)
    assert found == {True, False}


LARGE = {
    "lda": LDA(4000),
    "lda-one-block": LDA(4000, n_blocks=1),
    "lda-auto": LDA(4000, sampler="auto"),
    "lda-gibbs": LDA(400, sampler="gibbs"),
    "lda-minibatch": LDA(400, sampler="minibatch"),
    "nmf": NMF(500),
    "nmf-one-block": NMF(500, n_blocks=1),
    "nmf-extrapolated": NMF(500, extrapolate=True),
    "nmf-extrapolated-nndsvd": NMF(500, extrapolate=True, init="nndsvd"),
    "nmf-nndsvd": NMF(500, init="nndsvd"),
    "nmf-kl": NMF(500, solver="mu", beta_loss="kullback-leibler"),
    "nmf-restarts": NMF(300, restarts=3),
    "random-indexing": RandomIndexing(40_000),
    "random-indexing-retrained": RandomIndexing(4_000, retrain=1),
    "word2vec": Word2Vec(3000),
    "word2vec-full": Word2Vec(3000, method="full"),
    "node2vec": Node2Vec(vector_size=3000),
    "fastrp": FastRP(20_000),
    "fastrp-one-block": FastRP(20_000, n_blocks=1),
}


@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.parametrize("case", LARGE)
def test_each_remedy_that_a_refusal_names_is_enough_alone(case, corpus, graph):
    estimator = LARGE[case]
    if case.startswith("fastrp"):
        corpus = graph
    algorithm = estimator._algorithm(corpus)
    cut = estimator._cut(algorithm, corpus, None)
    rng = random.Random(case)

    def refusal_of(memory, threads, n_workers):
        try:
            plan_run(algorithm, cut, corpus, [Capacity("here", "", threads, memory)] * n_workers)
        except TooLarge as error:
            return error.remedies
        return None

    found = 0
    for _ in range(12):
        tried = {
            "memory": (330 << 20) + int(2 ** rng.uniform(20, 30)),
            "threads": rng.choice([1, 2, 4, 16]),
            "n_workers": rng.choice([1, 2, 5]),
        }
        remedies = refusal_of(**tried)
        if remedies is not None:
            assert 1 <= len(remedies) <= 2, tried
            found += len(remedies)
            for name, value in remedies.items():
                assert refusal_of(**tried | {name: value}) is None, (tried, name, value)
    assert found


def least_limit(estimator, corpus, n):
    """Return the least memory limit in which a model can be trained that is cut into ``n``."""
    algorithm = estimator._cut(estimator._algorithm(corpus), corpus, None)(n)
    with pytest.raises(TooLarge) as refusal:
        plan_run(algorithm, None, corpus, [Capacity("here", "", 1, 1 << 20)])
    return refusal.value.limit


def test_a_run_may_be_cut_twice_into_the_same_number_of_blocks(limited, tmp_path):
    """Random indexing has six blocks of these words in two ranges and in three, and their bounds differ."""
    words = [f"w{number}" for number in range(30_002)]
    corpus = ingest([words, words[:20_000]], tmp_path / "corpus")
    estimator = RandomIndexing(64)
    assert estimator._cut(estimator._algorithm(corpus), corpus, None)(2).n_blocks == 6
    _, expected = fitted(estimator, corpus)
    fitted(estimator, corpus, run=tmp_path / "run")
    for n in (2, 3):
        limited(least_limit(estimator, corpus, n))
        blocks, found = fitted(estimator, corpus, run=tmp_path / "run")
        assert blocks == 6
        assert_same(found, expected)


def test_a_run_that_was_cut_before_folders_had_the_name_of_the_cut_goes_on(corpus, limited, tmp_path):
    _, expected = fitted(CASES["lda"](4), corpus)
    fitted(CASES["lda"](2), corpus, run=tmp_path / "run")
    limited(least_memory(CASES["lda"](4), corpus))
    many, _ = fitted(CASES["lda"](3), corpus, run=tmp_path / "run")
    # As it was stored.
    meta = json.loads((tmp_path / "run/run.json").read_text())
    (step,) = (tmp_path / "run/epochs").glob("000003-*")
    (step / meta.pop("blocks")).rename(step / f"blocks-{many}")
    (tmp_path / "run/run.json").write_text(json.dumps(meta))
    assert fitted(CASES["lda"](3), corpus, run=tmp_path / "run")[0] == many
    assert_same(fitted(CASES["lda"](4), corpus, run=tmp_path / "run")[1], expected)


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_a_model_is_cut_so_that_tasks_fit_a_device(corpus):
    estimator = LDA(60)
    algorithm = estimator._algorithm(corpus)
    needed = max(algorithm.memory(corpus, chunk).device for chunk in corpus.chunks)
    small = Capacity("w0", "tcp://x", 1, 0, device=int(needed / 0.7 * 0.9))
    with pytest.raises(TooLarge, match=r"of device memory, but .* free\): .*choose device 'cpu'"):
        plan_run(algorithm, None, corpus, [small])
    cut, plan = plan_run(algorithm, estimator._cut(algorithm, corpus, None), corpus, [small])
    assert plan.blocks == cut.n_blocks > 1
    assert cut.device == "auto"


def test_a_refusal_of_a_small_device_names_what_helps(corpus):
    algorithm = NMF(60, device="auto")._algorithm(corpus)
    needed = max(algorithm.memory(corpus, chunk).device for chunk in corpus.chunks)
    workers = [Capacity("w0", "tcp://x", 4, 0, device=int(needed / 0.7 * 2.5))]
    with pytest.raises(
        TooLarge, match=r"free\): use at most 2 thread\(s\) per worker, .*or choose device 'cpu'"
    ) as refusal:
        plan_run(algorithm, None, corpus, workers, lambda: NMF(60, device="cuda")._smaller(corpus))
    assert "memory" not in refusal.value.remedies
    assert ", ," not in str(refusal.value)


def test_the_memory_that_a_refusal_names_is_enough_for_workers_of_several_kinds(corpus):
    algorithm = NMF(60, device="cpu")._algorithm(corpus)
    workers = [Capacity("w0", "tcp://x", 1, 350 << 20), Capacity("w1", "tcp://y", 8, 350 << 20)]
    for order in (workers, workers[::-1]):
        with pytest.raises(TooLarge) as refusal:
            plan_run(algorithm, None, corpus, order)
        memory = refusal.value.remedies["memory"]
        plan_run(algorithm, None, corpus, [replace(worker, memory=memory) for worker in order])


def test_nmf_that_reads_w_block_by_block_runs_on_the_cpu(corpus):
    """A run that was cut elsewhere may be resumed where there is a device."""
    algorithm = NMF(12, device="auto")._algorithm(corpus)
    assert algorithm.device == "auto"
    assert recut(algorithm, {"bounds": (0, 3072, algorithm.n_rows), "n_ranges": 2}).device == "cpu"
    # A user who asks for a device does not get the CPU in silence.
    estimator = NMF(12, device="cuda")
    assert estimator._cut(estimator._algorithm(corpus), corpus, None) is None


def test_ranges_do_not_count_as_tasks_at_the_same_time(tmp_path, cluster_of):
    corpus = ingest([["sea", "boat"], ["boat", "oven"]], tmp_path / "corpus")
    algorithm = replace(LDA(2)._algorithm(corpus), bounds=(0, 1, 3), n_ranges=2)
    events = []
    training = Training(algorithm, corpus, RunStore(str(tmp_path / "run")), 1, callbacks=[events.append])
    train(training, OnDask(cluster_of(2)))
    assert events[0].idle.startswith("1 task at a time for 2 threads of workers")


def test_a_block_is_cut_without_unpacking_all_of_it(corpus, tmp_path):
    n_words, per_row = 8_000, 60
    algorithm = replace(LDA(60, device="cpu")._algorithm(corpus), bounds=(0, n_words), n_topics=60)
    topics = np.tile(np.arange(per_row, dtype=np.uint16), n_words)
    block = {
        "row_ptr": np.arange(n_words + 1) * per_row,
        "topics": topics,
        "counts": np.ones(len(topics), np.int32),
    }
    before = RunStore(str(tmp_path / "run"), 1, {0: 1}, "blocks")
    after = replace(before, blocks="blocks-100-1")
    before.write_block(0, 0, algorithm.merge.pack(block))
    bounds = tuple(range(0, n_words + 1, n_words // 100))
    recut_block(before, after, 0, algorithm.bounds, recut(algorithm, {"bounds": bounds}), 0)
    tracemalloc.start()
    recut_block(before, after, 0, algorithm.bounds, recut(algorithm, {"bounds": bounds}), 50)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < sum(array.nbytes for array in block.values()) / 2
    found = after.block(0, 50)
    np.testing.assert_array_equal(found["topics"], topics[: len(found["topics"])])
    assert len(found["row_ptr"]) == n_words // 100 + 1


def test_a_model_without_a_number_of_components_is_refused_with_the_numbers(corpus):
    """A user's own algorithm has parameters of its own."""
    algorithm = NMF(200, n_blocks=1)._algorithm(corpus)
    estimator = OwnModel(parameters={})
    workers = [Capacity("here", "", 1, limit_for(1))]
    with pytest.raises(TooLarge, match="raise memory_limit to"):
        plan_run(algorithm, None, corpus, workers, lambda: estimator._smaller(corpus))
