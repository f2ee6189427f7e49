"""Runs that were stored before keep their fingerprints, so they can be resumed; parameters of before are understood."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.run import describe
from corpusmill.pipeline.models.registry import load_model, model_of_run
from helpers.command_line import error_line
from helpers.nightly import call
from helpers.toy import write_toy_corpus

#: Estimators, and the fingerprints that their runs had before algorithms lost n_ranges, max_shards and rounds.
FINGERPRINTS = {
    "lda": (LDA(3), "b70b1dac6f4fe1eb530ea7c29ceb5f79"),
    "lda-gibbs": (LDA(3, sampler="gibbs", seeds=[["w001"]]), "88e24709bfd0695cdb978ba197343b49"),
    "lda-auto": (LDA(2000, sampler="auto", n_blocks=2), "072aa01f471a7fa60ebeef0139d7edda"),
    "lda-minibatch": (LDA(3, sampler="minibatch", learn_priors="asymmetric"), "33bbcf3e42829fbeaf321690a9ab4bd9"),
    "nmf": (NMF(3), "cc1e476d25823776f0bb185d09a01604"),
    "nmf-mu": (NMF(3, solver="mu", init="nndsvda"), "cad85c9bdb375f2b5100282326e65944"),
    "nmf-divergence": (NMF(3, solver="mu", beta_loss="kullback-leibler"), "d92b012a761a868ea00041605966ba72"),
    "nmf-restarts": (NMF(3, restarts=2), "2c2110be2fe2fa2f403f7f76b07440e0"),
    "random-indexing": (RandomIndexing(64, n_blocks=3), "e74128a9b11a3ef0291eea9693e9b5c5"),
    "random-indexing-retrain": (RandomIndexing(64, order="direction", retrain=1), "9b1b0791ae5a58fbb8442a7d8a4bdfb9"),
    "word2vec": (Word2Vec(8, min_count=1), "da32bad3132d4d1dbeb878b3b346f937"),
    "word2vec-par": (Word2Vec(8, min_count=1, method="par"), "41207b0ca23e6e3de92c15af211219d3"),
    "word2vec-full": (Word2Vec(8, min_count=1, method="full"), "5e13c579cf647f6612c61459e016d626"),
}


@pytest.mark.parametrize("case", FINGERPRINTS)
def test_a_run_keeps_its_fingerprint(tmp_path, case):
    estimator, expected = FINGERPRINTS[case]
    algorithm = estimator._algorithm(write_toy_corpus(tmp_path / "corpus"))
    data = SimpleNamespace(url="", title="", part="train", hash="0", kind="corpus")
    assert describe(algorithm, data, None, 0, [[0]], {})["fingerprint"] == expected


def _store(folder, **parameters):
    """Give a stored run or model parameters of its estimator, as another version may have written them."""
    path = next(folder / name for name in ("run.json", "model.json") if (folder / name).exists())
    meta = json.loads(path.read_text())
    (meta["config"]["model"] if path.name == "run.json" else meta["parameters"]).update(parameters)
    path.write_text(json.dumps(meta))


@pytest.fixture
def stopped(tmp_path):
    """A run of NMF that was stopped after two of four epochs, and its model."""
    corpus = write_toy_corpus(tmp_path / "corpus")
    model = NMF(3, max_iter=4, tol=0.0).fit(corpus, run=tmp_path / "run", callbacks=[lambda event: True])
    model.save(str(tmp_path / "model"))
    assert model.n_iter_ < 4
    return tmp_path


def test_a_run_with_a_former_parameter_is_read_and_resumed(stopped):
    for place in ("run", "model"):
        _store(stopped / place, order="separable")
    assert load_model(str(stopped / "model")).get_params() == NMF(3, max_iter=4, tol=0.0).get_params()
    assert model_of_run(str(stopped / "run")).n_iter_ < 4
    assert call("resume", str(stopped / "run"), "--set", "cluster.kind=synchronous") == 0
    expected = NMF(3, max_iter=4, tol=0.0).fit(str(stopped / "corpus"))
    np.testing.assert_array_equal(load_model(str(stopped / "run" / "model")).components_, expected.components_)


def test_a_run_of_an_integer_for_a_real_parameter_is_resumed(stopped):
    _store(stopped / "run", tol=0)
    meta = json.loads((stopped / "run" / "run.json").read_text())
    meta["parameters"]["tol"] = 0
    (stopped / "run" / "run.json").write_text(json.dumps(meta | {"fingerprint": "of an earlier version"}))
    assert call("resume", str(stopped / "run"), "--set", "cluster.kind=synchronous") == 0
    assert model_of_run(str(stopped / "run")).n_iter_ == 4


def test_another_value_of_a_former_parameter_is_refused(stopped, capsys):
    for place in ("run", "model"):
        _store(stopped / place, order="paper")
    with pytest.raises(DataError, match="a model with the parameters 'order', which this version"):
        load_model(str(stopped / "model"))
    assert call("resume", str(stopped / "run")) == 2
    assert "order" in error_line(capsys.readouterr().err)


def test_a_model_of_an_algorithm_that_only_papers_compare_with_says_which_there_are(stopped):
    _store(stopped / "model", solver="anls")
    model = load_model(str(stopped / "model"))
    with pytest.raises(ValueError, match="solver is 'anls': choose one of hals, mu"):
        model.transform(["w001 w002"])
    assert model.set_params(solver="hals").transform(["w001 w002"]).shape == (1, 3)
