"""Counts of a shard in a table on a device, against the CPU's sparse rows."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.cuda import memory
from corpusmill.kernels.cuda.lda import word_counts
from corpusmill.kernels.cuda.ledger import LEDGER
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.lda import counts as cpu
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus


@pytest.fixture(autouse=True)
def _few_blocks():
    # On a device too, some words of these texts are frequent, and others are rare.
    with mock.patch.multiple(word_counts, BLOCKS=2), mock.patch.object(word_counts, "RARE", 7):
        yield


def chunk_of(seed, n_tokens=50, n_words=12, n_documents=5):
    rng = np.random.default_rng(seed)
    doc_ptr = np.r_[0, np.sort(rng.integers(0, n_tokens, n_documents - 1)), n_tokens]
    words = np.minimum(rng.geometric(0.2, n_tokens) - 1, n_words - 1).astype(np.uint32)
    return make_chunk(seed, doc_ptr, words, group_tokens=40), rng.integers(0, 60, n_tokens).astype(np.uint16)


def left(module, chunks, words, n_topics):
    """Return the counts of a shard where they are in the end."""
    counts = None
    for chunk, z in chunks:
        counts = module.add_words(chunk.word_ids, chunk.word_ptr, z, words, n_topics, counts)
    return module.finish_words(counts)


def counted(module, chunks, words, n_topics):
    """Return the counts of a shard on the host."""
    counts = left(module, chunks, words, n_topics)
    RESIDENTS.bring_back(counts.values())
    return counts


def assert_equal(found, expected):
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
        assert found[name].dtype == expected[name].dtype


@on_device
@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize(
    ("n_topics", "words"), [(80, (0, 12)), (80, (3, 9)), (80, (5, 5)), (2100, (3, 9)), (2100, (5, 5))]
)
def test_counts_of_a_shard_equal_those_of_the_cpu(n_topics, words, fits):
    chunks = [chunk_of(seed) for seed in (1, 2, 3)]
    # If the table does not fit, it is cut into parts of five words.
    share = word_counts.TABLE_SHARE if fits else 20.5 * n_topics / memory.device_memory()
    with mock.patch.object(word_counts, "TABLE_SHARE", share):
        found = counted(word_counts, chunks, words, n_topics)
    assert_equal(found, counted(cpu, chunks, words, n_topics))


@on_device
@pytest.mark.parametrize("words", [(0, 12), (3, 9), (5, 5)])
@pytest.mark.parametrize("places", ["both", "left", "right", "neither"])
def test_counts_of_shards_are_merged_where_they_are(places, words):
    n_topics = 80
    shards = [[chunk_of(1), chunk_of(2)], [chunk_of(3)]]
    expected = [counted(cpu, shard, words, n_topics) for shard in shards]
    whole = cpu.merge_many([cpu.WordCounts(**counts) for counts in expected], n_topics)._asdict()
    on_the_device = {"both": (1, 1), "left": (1, 0), "right": (0, 1), "neither": (0, 0)}[places]
    modules = [word_counts if there else cpu for there in on_the_device]
    tables = [
        cpu.WordCounts(**left(module, shard, words, n_topics)) for module, shard in zip(modules, shards, strict=True)
    ]
    with LEDGER.recording() as recorded:
        found = word_counts.merge_many(tables, n_topics)._asdict()
    downloads = {entry.cause: total.nbytes for entry, total in recorded.items() if entry.operation == "download"}
    n_words = words[1] - words[0]
    # Only the lengths of the rows come to the host.
    assert downloads == ({"B.lengths": 8 * n_words} if any(on_the_device) and n_words else {})
    assert (RESIDENTS.find(found["topics"]) is not None) == any(on_the_device)
    RESIDENTS.bring_back(found.values())
    assert_equal(found, whole)


@on_device
def test_counts_that_do_not_fit_a_table_are_merged_on_the_host():
    shards = [[chunk_of(1)], [chunk_of(2)]]
    expected = counted(cpu, [*shards[0], *shards[1]], (0, 12), 80)
    tables = [cpu.WordCounts(**left(word_counts, shard, (0, 12), 80)) for shard in shards]
    with mock.patch.object(word_counts, "TABLE_SHARE", 20.5 * 80 / memory.device_memory()):
        found = word_counts.merge_many(tables, 80)._asdict()
    assert RESIDENTS.find(found["topics"]) is None
    assert_equal(found, expected)


@on_device
def test_a_run_on_a_device_merges_the_counts_of_a_shard_there(tmp_path):
    from corpusmill import LDA

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=3, documents=3, length=6)
    found, expected = (LDA(5, max_iter=2, device=device, random_state=1).fit(corpus) for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_chunks_are_grouped_where_all_workers_have_a_device(tmp_path):
    from corpusmill import LDA

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=3, length=8)
    most = {device: LDA(3, device=device)._algorithm(corpus).needs(corpus, 1).shards for device in ("cuda", "cpu")}
    assert most == {"cuda": 64, "cpu": 4096}
