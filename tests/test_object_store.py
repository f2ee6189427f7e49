"""Corpora, runs and models on s3:// against a real S3 server (moto's, on this machine)."""

import numpy as np
import pytest
from corpusmill.io.store import DataError, Store
from corpusmill.pipeline import LDA, Corpus
from corpusmill.pipeline.clusters import open_cluster
from corpusmill.pipeline.ingest import IngestOptions, ingest

DOCUMENTS = [["apple", "pear", "plum"] * 4, ["car", "road", "wheel"] * 4] * 10


@pytest.fixture(scope="module")
def corpus(bucket):
    return ingest(DOCUMENTS, f"{bucket}/corpus", IngestOptions(chunk_tokens=80))


def fitted(corpus, **options):
    return LDA(2, doc_topic_prior=0.1, max_iter=3, random_state=1).fit(corpus, **options)


def test_a_corpus_on_s3_is_read_back(corpus, bucket):
    again = Corpus(f"{bucket}/corpus")
    assert again.n_tokens == 240
    assert sorted(again.vocabulary["word"].to_pylist()) == ["apple", "car", "pear", "plum", "road", "wheel"]


def test_a_run_on_s3_can_be_broken_off_and_gives_the_same_bits(corpus, bucket):
    class Break:
        def after_epoch(self, progress):
            if progress.epoch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(corpus, run=f"{bucket}/run", callbacks=[Break()])
    resumed = fitted(corpus, run=f"{bucket}/run")
    np.testing.assert_array_equal(resumed.components_, fitted(corpus).components_)
    assert Store(f"{bucket}/run/epochs").names() == ["000002", "000003"]


def test_workers_read_and_write_s3(corpus, bucket):
    with open_cluster("local", n_workers=2, memory_limit="2GiB") as client:
        spread = fitted(corpus, client=client, run=f"{bucket}/spread")
    np.testing.assert_array_equal(spread.components_, fitted(corpus).components_)


def test_a_model_on_s3_is_saved_and_loaded(corpus, bucket):
    model = fitted(corpus)
    model.save(f"{bucket}/model")
    np.testing.assert_array_equal(LDA.load(f"{bucket}/model").components_, model.components_)


def test_what_is_not_there_is_said(bucket):
    with pytest.raises(DataError, match="no corpus here"):
        Corpus(f"{bucket}/nothing")
