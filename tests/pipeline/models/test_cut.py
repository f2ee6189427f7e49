"""The engine cuts a model so that tasks fit, and the arrays are those of the model that was not cut."""

import numpy as np
import pytest
from corpusmill import LDA, NMF, DataError, RandomIndexing, Word2Vec, ingest
from corpusmill.pipeline.engine.events import RunStarted
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.memory import PROCESS_BYTES, Capacity
from corpusmill.pipeline.engine.plan import TooLarge, plan_run

CASES = {
    "lda": lambda n: LDA(60, max_iter=n),
    "lda-warp": lambda n: LDA(60, max_iter=n, sampler="warp", learn_priors="symmetric", learn_every=2),
    "nmf": lambda n: NMF(12, max_iter=n, tol=0),
    "nmf-penalties": lambda n: NMF(12, max_iter=n, tol=0, weighting="tfidf", alpha_W=1e-4, l1_ratio=0.5),
    "nmf-gradient": lambda n: NMF(12, max_iter=n, tol=0, convergence="gradient"),
    "nmf-mu": lambda n: NMF(12, max_iter=n, tol=0, solver="mu"),
    "nmf-kl": lambda n: NMF(12, max_iter=n, tol=0, solver="mu", beta_loss="kullback-leibler"),
    "random-indexing": lambda n: RandomIndexing(256),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, 20_001)
    words = np.array([f"w{number}" for number in range(len(weights))])
    documents = words[rng.choice(len(words), (600, 60), p=weights / weights.sum())].tolist()
    return ingest(documents, tmp_path_factory.mktemp("corpus") / "corpus", chunk_tokens=6_000)


@pytest.fixture
def limited(monkeypatch):
    """Return a function that sets the memory of this process; 0 is no limit."""

    def limit(memory):
        monkeypatch.setattr(Synchronous, "capacities", lambda self, devices=False: [Capacity("here", "", 1, memory)])

    limit(0)
    return limit


def least_memory(estimator, corpus):
    """Return the least memory, up to 100 kB more, in which a model can be trained."""
    algorithm = estimator._algorithm(corpus)
    cut = estimator._cut(algorithm, corpus, None)
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
def test_a_model_that_is_cut_has_the_same_arrays(case, corpus, limited):
    few, expected = fitted(CASES[case](4), corpus)
    # Random indexing would sum single rows otherwise.
    limited(least_memory(CASES[case](4), corpus) + 500_000 * (case == "random-indexing"))
    many, found = fitted(CASES[case](4), corpus)
    assert many > few
    assert_same(found, expected)


@pytest.mark.parametrize("case", ["lda", "nmf"])
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


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("memory", [330 << 20, PROCESS_BYTES * 10 // 7 + 4_000_000])
@pytest.mark.parametrize("case", [*CASES, "nmf-extrapolated", "lda-gibbs", "word2vec"])
def test_each_remedy_that_a_refusal_names_is_enough_alone(case, memory, threads, corpus):
    more = {
        "nmf-extrapolated": lambda n: NMF(200, extrapolate=True),
        "lda-gibbs": lambda n: LDA(400, sampler="gibbs"),
        "word2vec": lambda n: Word2Vec(2000),
    }
    estimator = (CASES | more)[case](4)
    algorithm = estimator._algorithm(corpus)
    cut = estimator._cut(algorithm, corpus, None)

    def refusal_of(memory, threads, n_workers=1):
        try:
            plan_run(algorithm, cut, corpus, [Capacity("here", "", threads, memory)] * n_workers)
        except DataError as error:
            return error.remedies
        return {}

    remedies = refusal_of(memory, threads)
    if memory == 330 << 20:
        assert remedies, "Python alone has no space"
    assert len(remedies) <= 2
    for name, value in remedies.items():
        tried = {"memory": memory, "threads": threads, "n_workers": 1} | {name: value}
        assert not refusal_of(**tried), name
