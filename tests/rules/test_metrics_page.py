"""The page of metrics names every metric that training writes, and no other."""

import re

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, FastRP, Node2Vec, RandomIndexing, Word2Vec, ingest
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.views.history import is_engine_metric
from corpusmill.pipeline.views.prometheus import PREFIX, BatchJob
from helpers.source_tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
DOCUMENTS = [text.split() for text in ["the fish in the sea", "a boat on the sea", "bread from the oven"] * 8]
COUNTS = np.random.default_rng(0).integers(0, 3, (20, 6))
EDGES = scipy.sparse.csr_matrix(np.ones((4, 4)) - np.eye(4))
#: Only runs on CUDA devices have these.
DEVICE = "device_"


def names_of(table):
    """Return the names in the first column of the table below a heading of the page."""
    section = PAGE.split(f"## {table}\n")[1].split("\n## ")[0]
    columns = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    return {name for column in columns for name in re.findall(r"`([^`]+)`", column)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return ingest(DOCUMENTS, str(tmp_path_factory.mktemp("metrics") / "corpus"), held_out=0.2)


def written_metrics(corpus, folder):
    """Train each model in all ways that have metrics of their own; return the names in metrics.jsonl."""
    topics = {"max_iter": 3, "device": "cpu"}
    vectors = {"vector_size": 4, "min_count": 1, "epochs": 2, "device": "cpu"}
    trainings = [
        (LDA(2, **topics), corpus, "memory://metrics/lda"),
        (LDA(2, learn_priors="symmetric", **topics), corpus, "priors"),
        (NMF(2, **topics), corpus, "nmf"),
        (NMF(2, alpha_W=0.01, **topics), COUNTS, "penalties"),
        (NMF(2, convergence="gradient", **topics), COUNTS, "gradient"),
        (NMF(2, solver="mu", beta_loss="kullback-leibler", **topics), corpus, "divergence"),
        (NMF(2, restarts=2, **topics), COUNTS, "restarts"),
        (NMF(2, missing="unknown", **topics), COUNTS, "known"),
        (NMF(2, restarts=2, validation_fraction=0.1, **topics), COUNTS, "validation"),
        (Word2Vec(**vectors), corpus, "word2vec"),
        (Word2Vec(n_blocks=2, **vectors), corpus, "blocks"),
        (Node2Vec(vector_size=4, epochs=2, device="cpu"), EDGES, "node2vec"),
        (RandomIndexing(16, seed_length=4, retrain=1, device="cpu"), corpus, "random-indexing"),
        (FastRP(16), EDGES, "fastrp"),
    ]
    found = set()
    for model, data, run in trainings:
        url = run if "://" in run else str(folder / run)
        model.fit(data, run=url, evaluate_every=1)
        found |= {name for row in RunStore(url).metrics for name in row}
    return found


def test_the_page_has_every_metric_of_an_epoch_and_no_other(corpus, tmp_path):
    listed = names_of("Metrics of an epoch")
    assert {f"{DEVICE}..._calls", f"{DEVICE}..._bytes"} <= listed
    assert {name for name in listed if not name.startswith(DEVICE)} == written_metrics(corpus, tmp_path)


def test_the_page_has_every_gauge_and_no_other(corpus):
    pytest.importorskip("prometheus_client")
    job = BatchJob("run", "lda")
    model = LDA(2, max_iter=2, device="cpu").fit(corpus, callbacks=[job.observe])
    of_model = {PREFIX + name for name in model.history_[-1] if not is_engine_metric(name)}
    gauges = {family.name for family in job.collect()}
    # The last row stands for the metrics of the model.
    assert names_of("Prometheus") - {PREFIX} | of_model == gauges
