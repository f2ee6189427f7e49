"""Deltas whose topics are counted when they are merged."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.kernels.lda import esca
from corpusmill.kernels.lda.counts import count_words
from corpusmill.pipeline.engine.algorithm import nbytes
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.lda import samplers
from corpusmill.pipeline.models.lda.samplers import Esca
from corpusmill.pipeline.models.lda.word_topics import add_up, counted, uncounted
from helpers.lda_cases import random_topics, small_chunk


@pytest.fixture(autouse=True)
def few_topics_are_many(monkeypatch):
    """Let "auto" train few topics as it trains many: by WarpLDA and ESCA."""
    monkeypatch.setattr(samplers, "EXACT_TOPICS", 0)


N_TOPICS = 7


def assert_equal(found, expected):
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("words", [(0, 12), (0, 5), (5, 12)])
def test_topics_and_counts_add_up_to_the_counts_of_all_chunks(words):
    chunks = [small_chunk(seed) for seed in range(4)]
    topics = [random_topics(chunk, N_TOPICS, seed) for seed, chunk in enumerate(chunks)]
    late = [uncounted(chunk, z, words) for chunk, z in zip(chunks, topics, strict=True)]
    tables = []
    for chunk, z, delta in zip(chunks, topics, late, strict=True):
        table = count_words(chunk.word_ids, chunk.word_ptr, z, words, N_TOPICS)._asdict()
        assert_equal(counted(delta, N_TOPICS, esca), table)
        tables.append(counted(table, N_TOPICS, esca))
    whole = add_up(tables, N_TOPICS, esca)
    assert whole["counts"].sum() > 0
    for n_late in range(1, 5):
        assert_equal(add_up([*late[:n_late], *tables[n_late:]], N_TOPICS, esca), whole)


def test_a_model_does_not_depend_on_the_number_of_chunks_in_a_shard(monkeypatch):
    rng = np.random.default_rng(0)
    corpus = corpus_from(rng.poisson(0.5, (60, 30)), chunk_tokens=150)
    assert len(corpus.chunks) > 4
    models = []
    for most in (1, 2, 4096):
        monkeypatch.setattr(Esca, "most_shards", most)
        models.append(LDA(5, max_iter=3, sampler="esca").fit(corpus).model_)
    for model in models[1:]:
        assert_equal(model.blocks[0], models[0].blocks[0])


@pytest.mark.parametrize("sampler", ["esca", "warp", "auto"])
def test_the_memory_plan_contains_topics_that_wait_although_the_model_is_small(sampler):
    corpus = corpus_from(np.random.default_rng(0).poisson(0.5, (2000, 30)), chunk_tokens=3000)
    algorithm = LDA(2, sampler=sampler)._algorithm(corpus)
    chunks = [corpus.read_chunk(index) for index in range(2)]
    waiting = [uncounted(chunk, random_topics(chunk, 2), (0, corpus.n_words)) for chunk in chunks]
    planned = max(algorithm.memory(corpus, chunk).delta for chunk in corpus.chunks)
    # The plan leaves out a few numbers per chunk.
    assert planned > 0.98 * (sum(nbytes(delta) for delta in waiting) + algorithm.block_bytes)
