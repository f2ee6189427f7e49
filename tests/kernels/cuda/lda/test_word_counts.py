"""Counts of a shard in a table on a device, against the CPU's sparse rows."""

from unittest import mock

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.cuda import memory
from corpusmill.kernels.cuda.lda import document_counts, esca, word_counts
from corpusmill.kernels.cuda.ledger import LEDGER
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.lda import counts as cpu
from corpusmill.kernels.lda.chunk_counts import ChunkTopics, count_chunks
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
@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("words", [(0, 12), (3, 9), (5, 5)])
def test_chunks_that_waited_are_counted_in_one_table(words, fits):
    n_topics = 80
    chunks = [
        ChunkTopics(chunk.group_ptr, chunk.word_ids, chunk.word_ptr, z) for chunk, z in map(chunk_of, range(1, 5))
    ]
    share = word_counts.TABLE_SHARE if fits else 20.5 * n_topics / memory.device_memory()
    with mock.patch.object(word_counts, "TABLE_SHARE", share), LEDGER.recording() as recorded:
        found = word_counts.count_chunks(chunks, words, n_topics)._asdict()
    tables = [total for entry, total in recorded.items() if entry.cause == "B.table"]
    parts = 1 if fits else max(1, -(-(words[1] - words[0]) // 5))
    assert [total.calls for total in tables] == [parts]
    RESIDENTS.bring_back(found.values())
    assert_equal(found, count_chunks(chunks, words, n_topics)._asdict())


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
    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=3, documents=3, length=6)
    found, expected = (LDA(5, max_iter=2, device=device, random_state=1).fit(corpus) for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_shards_do_not_depend_on_the_device(tmp_path):
    # Otherwise a run could not be continued on another device.
    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=3, length=8)
    algorithms = [LDA(3, device=device)._algorithm(corpus) for device in ("cuda", "cpu", "auto")]
    assert {algorithm.needs(corpus, 1).shards for algorithm in algorithms} == {4096}


@on_device
@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_an_epoch_has_few_tables_and_copies_none(tmp_path):
    n_chunks, K = 8, 600
    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=100, n_chunks=n_chunks, documents=2, length=20)
    V, T = corpus.n_words, corpus.n_tokens
    model = LDA(K, max_iter=2, device="auto", random_state=1, learn_priors="none")
    made = mock.Mock(wraps=word_counts._new_table)
    with mock.patch.object(word_counts, "_new_table", made), mock.patch.multiple(esca, BLOCKS=2):
        with mock.patch.multiple(document_counts, BLOCKS=2, WARPS=2):
            model.fit(corpus, evaluate_every=0)
    # Chunks are counted three times, and not one by one.
    assert made.call_count <= 2 * 3 < 2 * n_chunks
    step = model.history_[-1]
    copied = step["device_upload_bytes"] + step["device_download_bytes"]
    # Topics, orders of the tokens, rows of at most one entry per token, their lengths, and numbers of each topic.
    assert copied < 100 * T + 4 * 8 * V + 60 * K < 4 * V * K
