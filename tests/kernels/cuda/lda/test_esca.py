"""LDA on a device against LDA on the CPU, to the bit."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda import memory
from corpusmill.kernels.cuda.lda import document_counts
from corpusmill.kernels.cuda.lda import esca as lda
from corpusmill.kernels.cuda.lda import model as lda_model
from corpusmill.kernels.cuda.lda import order as lda_order
from corpusmill.kernels.cuda.random import uniform64
from corpusmill.kernels.errors import DeviceError
from corpusmill.kernels.lda import esca as cpu
from corpusmill.kernels.lda.counts import PADDING, count_documents, count_words, topic_totals
from corpusmill.kernels.lda.model import ModelBlock
from helpers.on_device import emulated, on_device
from helpers.toy import write_topic_corpus
from numba import cuda

BETA = 0.01

# --- kernels ---


def model_of(chunk, z, n_topics, n_words, words=None):
    first, stop = words or (0, n_words)
    whole = count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    block = count_words(chunk.word_ids, chunk.word_ptr, z, (first, stop), n_topics)
    totals = topic_totals(whole.topics, whole.counts, n_topics)
    alpha = np.random.default_rng(1).uniform(0.05, 0.6, n_topics).astype(np.float32)
    return ModelBlock(*block, first, totals, alpha, BETA, n_words)


def small_case(n_topics, n_tokens=50, n_words=12, n_documents=5, seed=0):
    rng = np.random.default_rng(seed)
    doc_ptr = np.r_[0, np.sort(rng.integers(0, n_tokens, n_documents - 1)), n_tokens]
    words = np.minimum(rng.geometric(0.2, n_tokens) - 1, n_words - 1).astype(np.uint32)
    chunk = make_chunk(0, doc_ptr, words, group_tokens=40)
    return chunk, rng.integers(0, min(n_topics, 60), n_tokens).astype(np.uint16)


@pytest.fixture(autouse=True)
def _few_blocks():
    with mock.patch.multiple(lda, BLOCKS=2), mock.patch.multiple(document_counts, BLOCKS=2, WARPS=2):
        yield


@on_device
@pytest.mark.parametrize(
    ("n_topics", "cuts", "leave_out"), [(7, (0, 12), True), (200, (0, 12), False), (1100, (0, 3, 12), True)]
)
def test_sweeps_equal_those_of_the_cpu(n_topics, cuts, leave_out):
    chunk, z = small_case(n_topics)
    models = [model_of(chunk, z, n_topics, 12, words) for words in zip(cuts, cuts[1:], strict=False)]
    for old in (None, z):
        expected = cpu.sweep(chunk, models, old, random.key(5), leave_out)
        found = lda.sweep(chunk, models, old, random.key(5), leave_out)
        np.testing.assert_array_equal(found, expected)
    assert np.count_nonzero(expected != z) > 15


@on_device
@pytest.mark.parametrize("n_topics", [7, 300])
@pytest.mark.parametrize("bytes_per_topic", [4, 3.9])
def test_topics_beyond_shared_memory(n_topics, bytes_per_topic):
    # First topics, and next topics from dense rows (7 topics) and from sparse rows (300 topics). Only φ fits into four
    # bytes per topic.
    chunk, z = small_case(n_topics, n_tokens=30)
    models = [model_of(chunk, z, n_topics, 12)]
    for old in (None, z):
        with mock.patch.object(lda_model, "shared_memory_limit", return_value=int(bytes_per_topic * n_topics)):
            found = lda.sweep(chunk, models, old, random.key(2))
        np.testing.assert_array_equal(found, cpu.sweep(chunk, models, old, random.key(2)))


@on_device
def test_rows_of_either_kind_are_drawn_as_on_the_cpu():
    """Here the host cannot tell whether the CPU draws from dense or from sparse rows: the device decides."""
    for n_different in (1, 30):
        chunk, _ = small_case(40, n_tokens=60, n_documents=2)
        z = np.random.default_rng(4).integers(0, n_different, chunk.n_tokens).astype(np.uint16)
        model = model_of(chunk, z, 40, 12)
        _, kinds = lda._old_topics(chunk, z, model.alpha)
        assert kinds == ("sparse", "dense")
        assert cpu.is_dense(count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z), 40) == (n_different == 30)
        found = lda.sweep(chunk, [model], z, random.key(2))
        np.testing.assert_array_equal(found, cpu.sweep(chunk, [model], z, random.key(2)))


@on_device
def test_words_with_more_topics_than_a_node_of_the_tree_has_leaves():
    # One word with more than 32 * 32 topics. Large alpha: most draws are made in its tree.
    n_topics, n_tokens = 2000, 2500
    chunk = make_chunk(0, np.array([0, 1250, n_tokens]), np.zeros(n_tokens, np.uint32))
    z = np.random.default_rng(3).integers(0, n_topics, n_tokens).astype(np.uint16)
    model = model_of(chunk, z, n_topics, 1)._replace(alpha=np.full(n_topics, 5.0, np.float32))
    assert model.row_ptr[1] > 32 * 32
    few = make_chunk(0, np.array([0, 25, 40]), np.zeros(40, np.uint32))
    for old in (None, z[:40]):
        found = lda.sweep(few, [model], old, random.key(2))
        np.testing.assert_array_equal(found, cpu.sweep(few, [model], old, random.key(2)))


def test_blocks_with_much_shared_memory_have_more_warps():
    row = np.array([0, 3])
    model = ModelBlock(row, None, None, 0, None, np.zeros(1000, np.float32), BETA, 1)
    layouts = {}
    for n_topics in (100, 2000, 5000, 9000, 15_000):
        with mock.patch.object(lda_model, "shared_memory_limit", return_value=46 << 10):
            layouts[n_topics] = lda_model.choose_layout(
                model._replace(alpha=np.zeros(n_topics, np.float32)), 8, "sparse"
            )
    assert [layout.warps for layout in layouts.values()] == [8, 16, 32, 32, 8]
    places = [layout.place for layout in layouts.values()]
    assert places == [lda_model.Place.ALL] * 3 + [lda_model.Place.PHI, lda_model.Place.NOTHING]


# --- counts by document ---


@on_device
@pytest.mark.parametrize("n_topics", [7, 60, 1500])
@pytest.mark.parametrize("shared_bytes", [46 << 10, 4 << 10])
def test_rows_of_documents_have_the_entries_of_the_cpu_in_its_order(n_topics, shared_bytes, monkeypatch):
    monkeypatch.setattr(document_counts, "shared_memory_limit", lambda: shared_bytes)
    monkeypatch.setattr(document_counts, "SHORT_SLOTS", 128)
    lengths = [0, 1, 31, 32, 33, 100, 700, 0, 5]
    doc_ptr = np.r_[0, np.cumsum(lengths)]
    rng = np.random.default_rng(0)
    # Topics with the same lowest bits, and neighbours, share slots of a table.
    z = (rng.choice([1, 2, 3, 64, 128, 129, 256, 1024, 1025], doc_ptr[-1]) % n_topics).astype(np.uint16)
    z[300:600] = rng.integers(0, n_topics, 300)
    order = rng.permutation(len(z)).astype(np.uint32)
    expected = count_documents(doc_ptr, order, z)
    rows = document_counts.count_documents(doc_ptr, order, z, n_topics)
    found = {name: memory.download(getattr(rows, name), name) for name in ("lengths", "entries", "n_entries")}
    assert found["n_entries"][0] == len(expected.entries)
    np.testing.assert_array_equal(found["lengths"], np.diff(expected.row_ptr))
    row_ptr = document_counts.make_row_ptr(doc_ptr, n_topics)
    for d, length in enumerate(found["lengths"]):
        row = found["entries"][row_ptr[d] : row_ptr[d] + length]
        wanted = expected.entries[expected.row_ptr[d] : expected.row_ptr[d + 1]]
        # Unlike the CPU's, the padding has a topic that can be looked up.
        np.testing.assert_array_equal(row, np.where(wanted == PADDING, 0, wanted))


def test_tables_grow_with_a_document_and_not_with_the_topics():
    doc_ptr = np.r_[0, np.cumsum([0, 10, 100, 5000, 512])]
    short, long = document_counts.by_table_size(doc_ptr, 20_000)
    assert dict(zip(short.numbers.tolist(), short.slots.tolist(), strict=True)) == {4: 1024, 2: 256, 0: 32, 1: 32}
    assert dict(zip(long.numbers.tolist(), long.slots.tolist(), strict=True)) == {3: 16384}
    # With few topics there is one slot for each.
    short, long = document_counts.by_table_size(doc_ptr, 1000)
    assert short.slots.max() == 1024
    assert not len(long.numbers)


@pytest.mark.parametrize("words", [(0, 12), (3, 9)])
def test_jobs_cover_every_token_of_their_words_once(words):
    chunk, _ = small_case(5, n_tokens=4000)
    order = lda_order.word_order(chunk.word_ids, chunk.word_ptr)
    jobs = lda_order.make_jobs(order, words, smallest=256, jobs=1000)
    places = np.concatenate([np.arange(a, b) for a, b in zip(jobs.starts, jobs.ends, strict=True)])
    segments = np.searchsorted(order.before, places, "right") - 1
    tokens = chunk.word_ptr[order.segments[segments]] + places - order.before[segments]
    words_of = np.repeat(chunk.word_ids, np.diff(chunk.word_ptr))
    np.testing.assert_array_equal(np.sort(tokens), np.flatnonzero((words_of >= words[0]) & (words_of < words[1])))
    np.testing.assert_array_equal(words_of[tokens], words[0] + np.repeat(jobs.rows, jobs.ends - jobs.starts))
    lengths = jobs.ends - jobs.starts
    assert (np.diff(lengths) <= 0).all()
    assert lengths.max() <= 256 < lengths.sum()


@on_device
def test_draws_are_addressed_as_on_the_cpu():
    @cuda.jit
    def draw(key, out):
        out[cuda.threadIdx.x] = uniform64(key, cuda.threadIdx.x)

    out = np.zeros(32)
    draw[1, 32](random.key(3), out)
    np.testing.assert_array_equal(out, [random.uniform64(random.key(3), i) for i in range(32)])


# --- through the engine ---


@on_device
def test_training_on_a_device_equals_training_on_the_cpu(tmp_path):
    from corpusmill import LDA

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=3, length=8)
    models = {}
    for device in ("cpu", "cuda"):
        model = LDA(3, max_iter=2, n_blocks=2, device=device, learn_priors="asymmetric", learn_every=1)
        models[device] = model.fit(corpus, evaluate_every=0)
    np.testing.assert_array_equal(models["cpu"].components_, models["cuda"].components_)
    np.testing.assert_array_equal(models["cpu"].model_.shared["alpha"], models["cuda"].model_.shared["alpha"])
    assert len(set(models["cpu"].model_.shared["alpha"])) > 1
    # The metrics of an epoch include the bytes that were copied: each chunk's topics, and the counts of each block.
    row = models["cuda"].history_[-1]
    assert row["device_download_bytes"] > 2 * corpus.n_tokens
    # Per chunk: rows of documents by four launches, and the draws for each block of the model, whose cursor is cleared.
    # Per block: a table is cleared, both chunks are counted in it, and it becomes rows, which are measured and packed.
    assert row["device_launch_calls"] == len(corpus.chunks) * (4 + 2 * 2) + 2 * (1 + 2 + 2 + 2)
    assert not [name for name in models["cpu"].history_[-1] if name.startswith("device")]


@on_device
def test_a_long_document_is_refused():
    chunk = make_chunk(0, np.array([0, 1 << 16]), np.zeros(1 << 16, np.uint32))
    z = np.zeros(1 << 16, np.uint16)
    with pytest.raises(ValueError, match=r"a document has 65,536 tokens, on a device at most 65,535"):
        lda.sweep(chunk, [model_of(chunk, z, 10, 1)], z, random.key(0))


on_ptx = pytest.mark.skipif(not emulated(), reason="tests/ptx checks bounds, a GPU does not, and rarely fails")


@on_ptx
def test_an_error_names_its_kernel():
    chunk, z = small_case(5)
    broken = chunk._replace(word_to_doc_order=chunk.word_to_doc_order + np.uint32(1 << 20))
    with pytest.raises(DeviceError, match=r"CUDA kernel shuffle: .*out of bounds"):
        lda.sweep(broken, [model_of(chunk, z, 5, 12)], z, random.key(0))


@on_ptx
@pytest.mark.parametrize(("where", "call"), [("stream", "synchronize"), ("event", "record")])
def test_a_late_error_names_the_kernels_before_it(where, call):
    chunk, z = small_case(5)
    with (
        mock.patch.object(getattr(cuda, where), call, side_effect=RuntimeError("an illegal address")),
        pytest.raises(
            DeviceError,
            match=r"^CUDA kernel (shuffle, then .* then draw: |of another thread: )an illegal address$",
        ),
    ):
        lda.sweep(chunk, [model_of(chunk, z, 5, 12)], z, random.key(0))
