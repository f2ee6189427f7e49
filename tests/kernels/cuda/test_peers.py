"""Arrays that go from the device of one worker to that of another: serialized by Dask, and through the engine."""

import contextlib
import time
from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels.cuda import count_rows, launch, memory, peers
from corpusmill.kernels.cuda.lda import document_counts, word_counts
from corpusmill.kernels.cuda.lda import esca as cuda_esca
from corpusmill.kernels.cuda.ledger import LEDGER, Entry, Operation, Total
from corpusmill.kernels.cuda.nmf import products as cuda_products
from corpusmill.kernels.cuda.nmf import sums as cuda_sums
from corpusmill.kernels.cuda.random_indexing import accumulate as cuda_accumulate
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.pipeline.models.skip_gram import grid_size
from distributed import get_worker
from helpers.on_device import emulated
from helpers.toy import write_topic_corpus
from sklearn.base import clone

pytestmark = pytest.mark.skipif(not emulated(), reason="replaces UCX by a protocol of the device of tests/ptx")


@pytest.fixture
def protocol():
    """Return the module of a protocol that sends device arrays."""
    from helpers import device_protocol

    with device_protocol.like_ucx():
        yield device_protocol


def on_a_device(host):
    return memory.leave_on_device(memory.upload(host, "P"), "P")


def transfers(found):
    return {entry.operation for entry in found} & {Operation.UPLOAD, Operation.DOWNLOAD}


@pytest.mark.parametrize("family", ["cuda", "dask"])
def test_an_array_has_the_same_bytes_by_each_way(family, protocol):
    from distributed.protocol import deserialize, serialize, to_serialize

    rng = np.random.default_rng(0)
    P, Q, counts = rng.random((7, 3), np.float32), rng.random((3, 3)), np.arange(5)
    delta = {"P": on_a_device(P)[2:6], "Q": on_a_device(Q), "counts": counts, "none": np.empty((0, 3))}
    with LEDGER.recording() as found:
        header, frames = serialize(to_serialize(peers.sendable(delta)), serializers=(family, "dask", "pickle"))
        back = peers.received(deserialize(header, frames))
    assert protocol.sent == {family: 2}
    assert found == {
        Entry(Operation.RECEIVE, "P"): Total(1, 4 * 4 * 3),
        Entry(Operation.RECEIVE, "Q"): Total(1, 8 * 3 * 3),
    }
    RESIDENTS.bring_back(back.values())
    for name, expected in {"P": P[2:6], "Q": Q, "counts": counts, "none": np.empty((0, 3))}.items():
        np.testing.assert_array_equal(back[name], expected)
        assert back[name].dtype == expected.dtype


def test_received_sums_are_added_on_the_device_with_the_bits_of_the_host():
    rng = np.random.default_rng(1)
    left, right = (rng.random((7, 3), np.float32) for _ in range(2))
    sent = peers.sendable({"P": on_a_device(right)})
    with LEDGER.recording() as found, mock.patch.multiple(cuda_sums, BLOCKS=2):
        total = cuda_sums.add_sums(on_a_device(left), peers.received(sent)["P"], "P")
    # The upload is that of the test.
    assert transfers(found) == {Operation.UPLOAD}
    assert found[Entry(Operation.UPLOAD, "P")] == Total(1, left.nbytes)
    RESIDENTS.bring_back([total])
    np.testing.assert_array_equal(total, left + right)


def test_arrays_beyond_the_share_of_residents_have_no_space():
    waiting = on_a_device(np.zeros(100, np.uint8))
    before = RESIDENTS.nbytes
    with mock.patch.object(peers, "device_memory", return_value=2 * (before + 50)):
        assert peers.has_space_for(50, 0.5)
        assert not peers.has_space_for(51, 0.5)
    assert len(waiting) == 100


# --- through the engine ---


@pytest.fixture
def _both_workers_sweep():
    """The first kernel of a worker waits for that of the other one, which has a shard then."""
    begun = set()
    submit = launch.submit

    def submit_together(what):
        with contextlib.suppress(ValueError):  # not in a worker
            worker = get_worker()
            begun.add((worker.scheduler.address, worker.address))
            deadline = time.monotonic() + 60
            while sum(scheduler == worker.scheduler.address for scheduler, _ in list(begun)) < 2:
                assert time.monotonic() < deadline, "the other worker launches no kernel"
                time.sleep(0.01)
        submit(what)

    with mock.patch.object(launch, "submit", submit_together):
        yield


@pytest.fixture
def cluster(protocol):
    """Return a function that opens a cluster of two workers, which are threads of this process."""
    from distributed import Client, LocalCluster

    def opened(name):
        options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        cluster = LocalCluster(protocol=name, host="127.0.0.1", **options)
        return cluster, Client(cluster)

    return opened


def history(one, other):
    return zip(one.history_, other.history_, strict=True)


def trained(opened, model, corpus):
    cluster, client = opened
    with cluster, client:
        return model.fit(corpus, client=client, evaluate_every=0)


@pytest.fixture
def _few_blocks_of_nmf():
    with mock.patch.multiple(cuda_products, BLOCKS=2):
        with mock.patch.multiple(cuda_sums, BLOCKS=2):
            yield


def copies(one, other):
    """Return how many more arrays were downloaded in each step of one training than in that of another."""
    return [step["device_download_calls"] - row["device_download_calls"] for step, row in history(one, other)]


@pytest.mark.usefixtures("_few_blocks_of_nmf", "_both_workers_sweep")
def test_sums_of_nmf_go_from_device_to_device(cluster, protocol, tmp_path):
    from corpusmill import NMF

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=4, documents=4, length=8)
    K, V = 3, corpus.n_words
    direct, through_host = (
        trained(cluster(name), NMF(K, max_iter=2, tol=0, device="cuda"), corpus) for name in ("ucx", "tcp")
    )
    alone = NMF(K, max_iter=2, tol=0, device="cuda").fit(corpus, evaluate_every=0)
    np.testing.assert_array_equal(direct.components_, alone.components_)
    np.testing.assert_array_equal(through_host.components_, alone.components_)
    received = [step.get("device_receive_calls", 0) for step in direct.history_]
    assert protocol.sent == {"cuda": sum(received)}
    assert sum(received) > 0
    for step, calls, expected in zip(direct.history_, received, alone.history_, strict=True):
        # The worker that updates W fetches P and Q of the other one. Which worker sweeps how many shards depends on
        # time, and shards that are not neighbours are not added before.
        assert step.get("device_receive_bytes", 0) == calls // 2 * (4 * K * V + 8 * K * K)
        # Like a single worker, both together copy to the host what a commit writes, and nothing else.
        for name in ("device_download_bytes", "device_download_calls"):
            assert step[name] == expected[name]
        # W is uploaded again if Dask moves the update to the worker that did not make this W.
        again = step["device_upload_calls"] - expected["device_upload_calls"]
        assert again in (0, 1)
        assert step["device_upload_bytes"] - expected["device_upload_bytes"] == again * 4 * K * V
    # Through the host, P and Q of the other worker are downloaded there, and uploaded to be added.
    for step, calls, row in zip(through_host.history_, copies(through_host, alone), alone.history_, strict=True):
        through = calls // 2 * (4 * K * V + 8 * K * K)
        again = step["device_upload_calls"] - row["device_upload_calls"] - calls
        assert again in (0, 1)
        assert step["device_download_bytes"] - row["device_download_bytes"] == through
        assert step["device_upload_bytes"] - row["device_upload_bytes"] == through + again * 4 * K * V
    assert sum(copies(through_host, alone)) > 0
    assert not any("device_receive_calls" in step for step in through_host.history_)


@pytest.mark.usefixtures("_few_blocks_of_nmf")
def test_a_worker_without_a_device_gets_sums_through_the_host(cluster, protocol, tmp_path):
    from corpusmill import NMF
    from corpusmill.pipeline.engine.cluster import exchange

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=4, documents=4, length=8)
    with mock.patch.object(exchange, "takes_from_device", return_value=False):
        found = trained(cluster("ucx"), NMF(3, max_iter=1, device="cuda"), corpus)
    alone = NMF(3, max_iter=1, device="cuda").fit(corpus, evaluate_every=0)
    np.testing.assert_array_equal(found.components_, alone.components_)
    assert not protocol.sent
    assert "device_receive_calls" not in found.history_[0]


def test_columns_of_strata_go_from_device_to_device(cluster, protocol, tmp_path):
    from corpusmill import Word2Vec

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=8, n_chunks=2, documents=4, length=5)
    options = {"window": 2, "min_count": 1, "negative": 2, "sample": 0, "epochs": 1, "n_blocks": 2, "device": "cuda"}
    with mock.patch.object(grid_size, "MIN_PASSES", 2):
        found = trained(cluster("ucx"), Word2Vec(8, **options), corpus)
        alone = Word2Vec(8, **options).fit(corpus, evaluate_every=0)
    np.testing.assert_array_equal(found.wv.vectors, alone.wv.vectors)
    (step,) = found.history_
    (expected,) = alone.history_
    # After the last stratum, all blocks come back, as those of a single worker do. Before, none does.
    assert protocol.sent == {"cuda": step["device_receive_calls"]}
    assert step["device_receive_bytes"] == step["device_receive_calls"] * 8 * 64 * 4
    for name in ("device_download_bytes", "device_download_calls", "device_upload_bytes", "device_upload_calls"):
        assert step[name] == expected[name]


@pytest.fixture
def _few_blocks_of_lda():
    with mock.patch.multiple(cuda_esca, BLOCKS=1), mock.patch.multiple(document_counts, BLOCKS=1, WARPS=1):
        with mock.patch.multiple(word_counts, BLOCKS=1), mock.patch.multiple(count_rows, BLOCKS=1):
            yield


@pytest.mark.usefixtures("_few_blocks_of_lda", "_both_workers_sweep")
def test_counts_of_lda_go_from_device_to_device(cluster, protocol, tmp_path):
    from corpusmill import LDA

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=4, documents=4, length=8)
    model = LDA(3, max_iter=2, device="cuda", random_state=1)
    direct, through_host = (trained(cluster(name), clone(model), corpus) for name in ("ucx", "tcp"))
    alone, on_host = (
        clone(model).set_params(device=device).fit(corpus, evaluate_every=0) for device in ("cuda", "cpu")
    )
    for found in (direct, through_host, alone):
        np.testing.assert_array_equal(found.components_, on_host.components_)
    received = [step.get("device_receive_calls", 0) for step in direct.history_]
    assert protocol.sent == {"cuda": sum(received)}
    assert sum(received) > 0
    for step, calls, more in zip(direct.history_, received, copies(direct, alone), strict=True):
        # Topics of 2 bytes and counts of 4, for at most all topics of all words.
        assert step.get("device_receive_bytes", 0) <= calls // 2 * 6 * 3 * corpus.n_words
        assert step.get("device_receive_bytes", 0) % 6 == 0
        # Only the lengths of rows come to the host when counts are merged, and merges depend on who swept what.
        expected = alone.history_[0 if step is direct.history_[0] else 1]
        assert step["device_download_bytes"] - expected["device_download_bytes"] == 8 * corpus.n_words * more
    assert not any("device_receive_calls" in step for step in through_host.history_)


@pytest.mark.usefixtures("_few_blocks_of_lda")
def test_counts_that_go_through_the_host_are_packed_on_the_device(protocol, tmp_path):
    from corpusmill import LDA
    from corpusmill.pipeline.engine.packing import unpack
    from corpusmill.pipeline.engine.run import RunStore
    from corpusmill.pipeline.engine.training import Training
    from corpusmill.pipeline.engine.worker.contributions import SweptDeltas
    from corpusmill.pipeline.engine.worker.tasks import Job, SweepPhase

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=1, documents=4, length=8)
    chunk = corpus.read_chunk(0)
    algorithm = LDA(3, device="cuda")._algorithm(corpus)
    z = np.random.default_rng(0).integers(0, 3, chunk.n_tokens).astype(np.uint16)
    words = (0, corpus.n_words)
    counts = cuda_esca.finish_words(cuda_esca.add_words(chunk.word_ids, chunk.word_ptr, z, words, 3, None))
    phase = SweepPhase(Job(Training(algorithm, None, RunStore("run"), 1), n_chunks=1), 1)
    swept = SweptDeltas()
    source = swept.keep(phase, "tcp://", [((0, 1), [counts])])
    assert source.on_device
    with LEDGER.recording() as traffic:
        ((_, (packed,)),) = swept.fetch_packed(source, [0])
    (array,) = packed.values()
    downloads = [entry.cause for entry in traffic if entry.operation == Operation.DOWNLOAD]
    assert downloads == ["lengths of packed rows", "packed counts"]
    assert traffic[Entry(Operation.DOWNLOAD, "packed counts")] == Total(1, array.nbytes)
    RESIDENTS.bring_back(counts.values())
    for name, expected in counts.items():
        np.testing.assert_array_equal(unpack(packed)[name], expected)


@pytest.mark.usefixtures("_both_workers_sweep")
def test_sums_of_random_indexing_go_from_device_to_device(cluster, protocol, tmp_path):
    from corpusmill import RandomIndexing

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=4, documents=5, length=8)
    D, V = 45, corpus.n_words
    # Then the size of a sum does not depend on which worker has swept which chunk.
    assert all(len(corpus.read_chunk(chunk).word_ids) == V for chunk in range(4))
    model = RandomIndexing(D, window=2, seed_length=4, retrain=1, device="cuda")
    with mock.patch.multiple(cuda_accumulate, PIECE=40):
        direct, through_host = (trained(cluster(name), clone(model), corpus) for name in ("ucx", "tcp"))
        alone = clone(model).fit(corpus, evaluate_every=0)
    on_host = clone(model).set_params(device="cpu").fit(corpus, evaluate_every=0)
    for found in (direct, through_host):
        np.testing.assert_allclose(found.wv.vectors, on_host.wv.vectors, atol=1e-5)
        # The vectors are sums of the first epoch's rows, so these are the same, too.
        np.testing.assert_array_equal(found.wv.vectors, alone.wv.vectors)
    received = [step.get("device_receive_calls", 0) for step in direct.history_]
    assert protocol.sent == {"cuda": sum(received)}
    assert sum(received) > 0
    for step, calls, more, row in zip(direct.history_, received, copies(direct, alone), alone.history_, strict=True):
        assert step.get("device_receive_bytes", 0) == calls * 4 * D * V
        # The sums of all chunks are fetched once. A merge asks whether an integer has overflowed.
        assert step["device_download_bytes"] - row["device_download_bytes"] == 4 * more
    assert not any("device_receive_calls" in step for step in through_host.history_)


@pytest.mark.parametrize("model", ["lda", "random indexing"])
@pytest.mark.usefixtures("_few_blocks_of_lda")
def test_other_models_get_deltas_through_the_host_without_a_device(model, cluster, protocol, tmp_path):
    from corpusmill import LDA, RandomIndexing
    from corpusmill.pipeline.engine.cluster import exchange

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=4, documents=4, length=8)
    models = {
        "lda": LDA(3, max_iter=1, device="cuda", random_state=1),
        "random indexing": RandomIndexing(45, window=2, seed_length=4, device="cuda"),
    }
    with mock.patch.object(exchange, "takes_from_device", return_value=False):
        with mock.patch.multiple(cuda_accumulate, PIECE=40):
            found = trained(cluster("ucx"), clone(models[model]), corpus)
    expected = clone(models[model]).set_params(device="cpu").fit(corpus, evaluate_every=0)
    for name, array in expected.model_.block(0).items():
        np.testing.assert_array_equal(found.model_.block(0)[name], array)
    assert not protocol.sent
    assert "device_receive_calls" not in found.history_[0]
