"""Blocks of counts are packed in the store and between workers."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.pipeline.engine.algorithm import Address, Shard, nbytes
from corpusmill.pipeline.engine.memory import Capacity
from corpusmill.pipeline.engine.plan import make_plan
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.worker.buffers import CACHE
from corpusmill.pipeline.engine.worker.tasks import StepModel
from corpusmill.pipeline.models.lda import samplers
from helpers.toy import job_of, write_topic_corpus


@pytest.fixture(autouse=True)
def few_topics_are_many(monkeypatch):
    """Let "auto" train few topics as it trains many: by WarpLDA and ESCA."""
    monkeypatch.setattr(samplers, "EXACT_TOPICS", 0)


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


@pytest.mark.parametrize("sampler", ["esca", "warp", "auto"])
def test_sweeps_of_a_model_that_is_larger_than_the_cache_have_the_same_result(corpus, tmp_path, sampler):
    model = LDA(40, max_iter=2, n_blocks=3, sampler=sampler, random_state=3)
    model.fit(corpus, run=str(tmp_path / "run"), evaluate_every=0)
    algorithm = model._algorithm(corpus)
    run = RunStore(str(tmp_path / "run"))
    results = []
    # Nothing is cached; one packed block is; all packed blocks are; all blocks are, and not packed.
    for cache_bytes in (0, 4000, 12_000, 1 << 20):
        job = job_of(algorithm, corpus, run, f"{sampler} {cache_bytes}", cache_bytes)
        stored = StepModel(job, 2)
        chunk = algorithm.load_chunk(corpus, 1, stored)
        result = algorithm.sweep(stored, chunk, run.state(2, 1), Shard(None, range(3)), Address(3, 3, 1))
        score = algorithm.scores.score(stored, chunk, run.state(2, 1), Address(3, 2, 1), corpus)
        results.append({"z": result.state["z"]} | score)
        assert CACHE.nbytes <= cache_bytes
        assert (CACHE.nbytes > 0) == (cache_bytes > 0)
    for found in results[:-1]:
        for name, expected in results[-1].items():
            np.testing.assert_array_equal(found[name], expected)


def test_only_the_rows_that_are_needed_are_unpacked_if_the_cache_is_too_small(corpus, tmp_path):
    model = lda(1).fit(corpus, run=str(tmp_path / "run"))
    run = RunStore(str(tmp_path / "run"))
    expected = run.block(1, 0)
    lengths = np.diff(expected["row_ptr"])
    rows = np.arange(len(lengths)) % 3 == 1
    for cache_bytes, others in ((0, 0), (1 << 20, lengths[~rows])):
        job = job_of(model._algorithm(corpus), corpus, run, f"rows {cache_bytes}", cache_bytes)
        block = StepModel(job, 1).block(0, rows)
        found = np.diff(block["row_ptr"])
        np.testing.assert_array_equal(found[rows], lengths[rows])
        np.testing.assert_array_equal(found[~rows], others)


@pytest.mark.parametrize("sampler", ["esca", "warp"])
def test_the_plan_of_a_worker_with_enough_memory_has_space_for_all_that_sweeps_read_again(corpus, tmp_path, sampler):
    model = LDA(40, max_iter=1, n_blocks=8, sampler=sampler).fit(corpus, run=str(tmp_path / "run"))
    algorithm = model._algorithm(corpus)
    run = RunStore(str(tmp_path / "run"))
    needed = sum(nbytes(run.block(1, block)) for block in range(8))
    for index in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(index, algorithm.unread)
        needed += nbytes(run.state(1, index)) + nbytes(chunk._asdict())
    assert needed <= make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 1, 0)).cache


def test_the_plan_of_auto_counts_the_blocks_that_warp_keeps_for_its_second_step(corpus):
    def model_bytes(sampler, n_blocks):
        algorithm = LDA(40, n_blocks=n_blocks, sampler=sampler)._algorithm(corpus)
        return algorithm.memory(corpus, corpus.chunks[0]).model / algorithm.block_bytes

    assert model_bytes("auto", 3) == model_bytes("warp", 3) == 2
    # The only block is kept, and no other is read.
    assert model_bytes("auto", 1) == 1
