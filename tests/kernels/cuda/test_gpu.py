"""What only a GPU shows: many threads, several streams, device memory, clusters of devices. See `make gpu`."""

import importlib.util
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.errors import DeviceError
from corpusmill.kernels.lda import esca as cpu
from corpusmill.kernels.lda.counts import count_words, topic_totals
from corpusmill.kernels.lda.model import ModelBlock
from corpusmill.pipeline.engine.device import has_cuda
from helpers.on_device import emulated
from helpers.toy import write_topic_corpus

pytestmark = pytest.mark.skipif(not has_cuda() or emulated(), reason="this machine has no CUDA device")
N_WORDS = 2000


def chunk_of(seed, n_tokens=100_000, longest=800):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(0, longest, 2 * n_tokens // longest))
    doc_ptr = np.r_[0, ends[ends < n_tokens], n_tokens]
    words = np.minimum(rng.zipf(1.3, n_tokens) - 1, N_WORDS - 1).astype(np.uint32)
    return make_chunk(0, doc_ptr, words, group_tokens=30_000)


def model_of(chunk, z, n_topics):
    counts = count_words(chunk.word_ids, chunk.word_ptr, z, (0, N_WORDS), n_topics)
    totals = topic_totals(counts.topics, counts.counts, n_topics)
    return ModelBlock(*counts, 0, totals, np.full(n_topics, 0.1, np.float32), 0.01, N_WORDS)


def swept(kernels, chunk, n_topics, epochs=4):
    """Topics after some epochs on a corpus of one chunk."""
    z = None
    model = model_of(chunk, np.zeros(chunk.n_tokens, np.uint16), n_topics)
    for epoch in range(epochs):
        z = kernels.sweep(chunk, [model], z, random.key(1, epoch))
        counts = kernels.finish_words(
            kernels.add_words(chunk.word_ids, chunk.word_ptr, z, (0, N_WORDS), n_topics, None)
        )
        RESIDENTS.bring_back(counts.values(), keep=True)
        totals = topic_totals(counts["topics"], counts["counts"], n_topics)
        model = model._replace(**counts, totals=totals)
    return z


@pytest.mark.parametrize("n_topics", [10, 100, 1000, 5000, 30_000])
def test_epochs_have_the_bits_of_the_cpu(n_topics):
    from corpusmill.kernels.cuda.lda import esca as lda

    chunk = chunk_of(1)
    np.testing.assert_array_equal(swept(lda, chunk, n_topics), swept(cpu, chunk, n_topics))


def test_each_thread_has_its_own_stream():
    from corpusmill.kernels.cuda.lda import esca as lda

    chunks = [chunk_of(seed, 20_000 + 1000 * seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda chunk: swept(lda, chunk, 300), chunks))
    for chunk, z in zip(chunks, found, strict=True):
        np.testing.assert_array_equal(z, swept(cpu, chunk, 300))


def test_copies_come_back_in_pieces_and_live_as_long_as_their_arrays():
    from corpusmill.kernels.cuda import memory

    host = np.random.default_rng(0).integers(0, 1 << 32, 5_000_001, np.uint32)
    before = memory.COPIES.nbytes
    copy = memory.cached_copy(host, "host")
    assert memory.cached_copy(host, "host") is copy
    np.testing.assert_array_equal(memory.download(copy, "host"), host)
    assert memory.COPIES.nbytes == before + host.nbytes
    del host
    assert memory.COPIES.nbytes == before


def test_too_little_device_memory_is_an_error_with_the_numbers():
    from corpusmill.kernels.cuda import memory

    with pytest.raises(DeviceError, match=r"1,099,511,627,776 bytes do not fit the device: [\d,]+ of [\d,]+ are free"):
        memory.allocate(1 << 40, np.uint8, "a TiB")


def test_dead_arrays_leave_their_memory_to_others():
    from corpusmill.kernels.cuda import launch, memory
    from numba import cuda

    memory.allocate(1, np.uint8, "context")
    free = cuda.current_context().get_memory_info().free
    for _ in range(300):
        memory.allocate(64 << 20, np.uint8, "one of many")
    launch.synchronize("test")
    memory._DEAD.free()
    assert cuda.current_context().get_memory_info().free >= free - (128 << 20)


def sleep_on_device(seconds):
    """Launch a kernel that takes this long."""
    from corpusmill.kernels.cuda.launch import launch
    from numba import cuda

    @cuda.jit
    def sleep(milliseconds):
        for _ in range(milliseconds):
            cuda.nanosleep(np.uint32(1_000_000))

    launch(sleep, 1, 1, int(1e3 * seconds))


def test_an_upload_ends_while_a_kernel_of_the_same_thread_runs():
    from corpusmill.kernels.cuda import launch, memory

    host = np.zeros(32 << 20, np.uint8)
    sleep_on_device(0.001)  # compiles
    memory.upload(host, "first")
    launch.synchronize("test")
    started = time.perf_counter()
    sleep_on_device(1)
    memory.upload(host, "second")
    launch.copy_stream().synchronize()
    uploaded = time.perf_counter() - started
    launch.synchronize("test")
    assert uploaded < 0.5 * (time.perf_counter() - started)


SCRIPT = """
import sys
from cuda.bindings import driver
from corpusmill import LDA
from corpusmill import open_cluster

if __name__ == "__main__":
    with open_cluster("dask_cuda:LocalCUDACluster", threads_per_worker=2) as client:
        LDA(20, max_iter=5, device="cuda").fit(sys.argv[1], client=client, evaluate_every=0).save(sys.argv[2])
    driver.cuInit(0)
    active = driver.cuDevicePrimaryCtxGetState(driver.cuDeviceGet(0)[1])[2]
    assert not active, "the client has a context on a device"
"""


@pytest.mark.skipif(not importlib.util.find_spec("dask_cuda"), reason="dask-cuda is not installed")
def test_a_cluster_of_devices_trains_the_model_of_the_cpu_and_its_parent_has_no_context(tmp_path):
    corpus = write_topic_corpus(str(tmp_path / "corpus"), 10)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, str(script), corpus.url, str(tmp_path / "model")], check=True)
    expected = LDA(20, max_iter=5, device="cpu").fit(corpus, evaluate_every=0)
    np.testing.assert_array_equal(LDA.load(str(tmp_path / "model")).components_, expected.components_)
