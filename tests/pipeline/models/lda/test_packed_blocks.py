"""Blocks of counts are packed in the store and between workers, and runs of earlier versions continue."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.pipeline.engine.algorithm import nbytes
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.run import RunStore
from helpers.toy import write_topic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("packed") / "corpus", n_topics=8, n_chunks=3)


def lda(epochs):
    return LDA(40, max_iter=epochs, n_blocks=2, random_state=3)


def test_blocks_take_less_than_half_of_their_bytes_on_disk(corpus, tmp_path):
    lda(2).fit(corpus, run=str(tmp_path / "run"))
    run = RunStore(str(tmp_path / "run"))
    for index in range(2):
        stored = run.store.read_arrays(f"{run.folder(2)}/blocks/{index:04d}")
        assert stored.keys() == {"packed_topics"}
        assert nbytes(stored) < 0.5 * nbytes(run.block(2, index))


def test_a_run_with_blocks_of_an_earlier_version_continues_to_the_same_bits(corpus, tmp_path):
    def stop_after_two(event):
        return isinstance(event, EpochFinished) and event.epoch == 2

    expected = lda(4).fit(corpus).components_
    lda(4).fit(corpus, run=str(tmp_path / "run"), callbacks=[stop_after_two])
    run = RunStore(str(tmp_path / "run"))
    for index in range(2):
        run.write_block(2, index, run.block(2, index))
    run.store.write_json("run.json", run.meta | {"format": 1})
    continued = lda(4).fit(corpus, run=str(tmp_path / "run"))
    np.testing.assert_array_equal(continued.components_, expected)
