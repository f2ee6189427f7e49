"""Where kernels run: the choice of the device, its limits, and that only workers use a device."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec
from corpusmill.io.errors import DataError
from corpusmill.kernels import interfaces
from corpusmill.kernels.cuda.host_memory import BUFFER_BYTES, FREE_BYTES, LIMIT_BYTES, pinned_bytes
from corpusmill.kernels.errors import DeviceError
from corpusmill.pipeline.engine.device import has_cuda, kernels, resolve_device
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import RunStarted
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.grid import CellAlgorithm
from corpusmill.pipeline.engine.memory import PLANNED_SHARE, PROCESS_BYTES, Capacity, usable_bytes
from corpusmill.pipeline.engine.plan import describe_devices, make_plan
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.views.progress import notes_on_start
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError
from helpers.toy import Tally, write_topic_corpus, write_toy_corpus


@pytest.fixture
def corpus(tmp_path):
    return write_topic_corpus(str(tmp_path / "corpus"), 2, words_per_topic=3, n_chunks=2, documents=3, length=8)


def test_a_device_is_chosen_if_there_are_kernels_for_it():
    assert resolve_device("auto", True, "this") == "auto"
    assert resolve_device("auto", False, "this") == "cpu"
    with pytest.raises(ValueError, match=r"this has no CUDA kernels: choose device 'auto' or 'cpu'"):
        resolve_device("cuda", False, "this")
    with pytest.raises(ValueError, match=r"device is 'gpu': choose one of auto, cpu, cuda"):
        resolve_device("gpu", True, "this")
    assert kernels("lda.esca", "cpu").__name__ == "corpusmill.kernels.lda.esca"


MODULES = {
    "lda.minibatch": interfaces.MiniBatchKernels,
    "lda.esca": interfaces.EscaKernels,
    "nmf.hals": interfaces.HalsKernels,
    "nmf.sums": interfaces.FactorSums,
    "node2vec.walks": interfaces.WalkKernels,
    "random_indexing.accumulate": interfaces.RandomIndexingKernels,
    "word2vec.skip_gram": interfaces.SkipGramKernels,
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_modules_have_the_functions_of_their_interface(device, subtests):
    for module, interface in MODULES.items():
        methods = {name: value for name, value in vars(interface).items() if inspect.isfunction(value)}
        methods.pop("__init__", None)
        methods.pop("__subclasshook__", None)
        with subtests.test(module):
            assert methods
            for name, method in methods.items():
                function = getattr(kernels(module, device), name)
                parameters = list(inspect.signature(getattr(function, "py_func", function)).parameters)
                assert ["self", *parameters] == list(inspect.signature(method).parameters)


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_samplers_and_documents_that_do_not_run_on_a_device_are_refused(corpus):
    with pytest.raises(ValueError, match=r"sampler 'warp' has no CUDA kernels"):
        LDA(3, sampler="warp", device="cuda")._algorithm(corpus)
    assert LDA(3, sampler="warp")._algorithm(corpus).device == "cpu"
    long = write_topic_corpus(corpus.url + "-long", 2, n_chunks=1, documents=1, length=70_000)
    with pytest.raises(ValueError, match=r"a document of 70,000 tokens \(more than 65,535\) has no CUDA kernels"):
        LDA(3, device="cuda")._algorithm(long)
    assert LDA(3)._algorithm(long).device == "cpu"


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_a_model_too_large_for_the_device_is_refused_by_the_plan(corpus):
    algorithm = LDA(1000, device="cuda")._algorithm(corpus)
    needed = max(algorithm.memory(corpus, c).device for c in corpus.chunks)
    assert make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 2, 0, device=3 * needed)).total > 0
    with pytest.raises(DataError, match=r"needs [\d.]+ MiB of device memory, but worker w0 has [\d.]+ MiB for each of"):
        make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 2, 0, device=2 * needed))
    make_plan(LDA(1000, device="cpu")._algorithm(corpus), corpus, Capacity("w0", "tcp://x", 2, 0, device=1))


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_a_plan_without_a_device_needs_no_device_memory(corpus):
    algorithm = LDA(1000, device="auto")._algorithm(corpus)
    assert make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 2, 0)).as_numbers()["task_device"] == 0
    with_device = Capacity("w0", "tcp://x", 1, 0, device=1 << 40)
    assert make_plan(algorithm, corpus, with_device).as_numbers()["task_device"] > 0


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_pinned_memory_of_a_worker_with_a_device_is_part_of_its_plan(corpus):
    algorithm = LDA(1000, device="auto")._algorithm(corpus)
    alone, with_device = (
        make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 2, 1 << 30, device=device)) for device in (0, 1 << 40)
    )
    results = 2 * (with_device.task.state + with_device.task.model + with_device.task.delta)
    # Two threads have two buffers each. Results that died, and what buffers are larger than results, are small here.
    assert with_device.pinned == 4 * BUFFER_BYTES + 2 * results
    assert alone.pinned == 0
    assert with_device.as_numbers()["pinned"] == with_device.pinned
    assert with_device.total - with_device.cache - with_device.buffers == (
        alone.total - alone.cache - alone.buffers + with_device.pinned
    )
    # A limit that is enough without a device is named as too small with one.
    needed = alone.task.total * 2 + with_device.pinned
    with pytest.raises(DataError, match=r"and [\d.]+ MiB for copies from and to the GPU\)"):
        make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 2, limit_of(needed - 1), device=1 << 40))
    make_plan(algorithm, corpus, Capacity("w0", "tcp://x", 2, limit_of(needed), device=1 << 40))
    assert pinned_bytes(1, 1 << 40) == 2 * BUFFER_BYTES + FREE_BYTES + (LIMIT_BYTES - FREE_BYTES) // 2


def limit_of(usable):
    """Return the smallest memory limit of which tasks may use this many bytes."""
    limit = int((usable + PROCESS_BYTES) / PLANNED_SHARE) - 2
    while usable_bytes(limit) < usable:
        limit += 1
    return limit


@pytest.mark.skipif(has_cuda(), reason="this machine has a device")
def test_a_machine_without_a_device_is_an_error(corpus):
    with pytest.raises(ValueError, match=r"device is 'cuda', but this process has no CUDA device that works"):
        LDA(3, max_iter=1, device="cuda").fit(corpus)
    assert Synchronous().capacities(devices=True)[0].device == 0


def test_a_run_continues_on_another_device(corpus, tmp_path):
    run = str(tmp_path / "run")
    first = LDA(3, max_iter=1, device="cpu").fit(corpus, run=run)
    both = LDA(3, max_iter=2, device="auto").fit(corpus, run=run)
    assert [row["epoch"] for row in both.history_] == [1, 2]
    assert both.history_[0] == first.history_[0], "the first epoch is not trained again"
    expected = LDA(3, max_iter=2, device="cpu").fit(corpus)
    np.testing.assert_array_equal(both.components_, expected.components_)


class Failing(Tally):
    """Its device fails in the second chunk."""

    def sweep(self, model, chunk, state, deltas, address):
        if address.chunk == 1:
            raise DeviceError("CUDA kernel draw: an illegal address")
        return super().sweep(model, chunk, state, deltas, address)


def test_an_error_names_kernel_and_chunk(tmp_path):
    corpus = write_toy_corpus(str(tmp_path / "corpus"))
    training = Training(Failing(), corpus, RunStore(str(tmp_path / "run")), epochs=1)
    with pytest.raises(
        DeviceError,
        match=r"^chunk 1: CUDA kernel draw: an illegal address; .* has the epochs up to 0: start .* no epoch is kept$",
    ):
        train(training, Synchronous())


@pytest.fixture
def worker_with_a_device(monkeypatch):
    """Return an executor of one worker, which is a thread of this process and seems to have a device."""
    monkeypatch.setattr("numba.cuda.is_available", lambda: True)
    has_cuda.cache_clear()
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        yield OnDask(client)
    has_cuda.cache_clear()


@pytest.mark.parametrize("error", [RuntimeError, CommClosedError])
def test_a_device_that_fails_is_an_error_but_a_worker_that_is_lost_is_not(worker_with_a_device, monkeypatch, error):
    def fail():
        raise error("in the worker")

    if error is CommClosedError:
        monkeypatch.setattr("corpusmill.pipeline.engine.executors.device_memory", fail)
        assert [worker.device for worker in worker_with_a_device.capacities(devices=True)] == [0]
    else:
        monkeypatch.setattr("numba.cuda.current_context", fail)
        with pytest.raises(DeviceError, match=r"^the CUDA device does not answer: in the worker: start the worker"):
            worker_with_a_device.capacities(devices=True)


SCRIPT = """
import sys
import numpy as np
from tests import ptx
from corpusmill import LDA
from corpusmill import open_cluster

if __name__ == "__main__":
    with open_cluster("local", n_workers=1, memory_limit="2GiB") as client:
        client.run(ptx.install)
        model = LDA(3, max_iter=2, device="cuda")
        model.fit(sys.argv[1], client=client, run=sys.argv[2], evaluate_every=0).save(sys.argv[3])
    assert "numba.cuda" not in sys.modules, "the client has loaded what makes contexts"
"""


@pytest.mark.slow
def test_only_workers_touch_a_device(corpus, tmp_path):
    """A worker with the device of tests/ptx trains the CPU's model; the process of the client does not load CUDA."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    tests = Path(__file__).parents[2]
    command = [sys.executable, str(script), corpus.url, str(tmp_path / "run"), str(tmp_path / "model")]
    environment = {"CORPUSMILL_PTX": "9.0", "PYTHONPATH": str(tests.parent), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = LDA(3, max_iter=2, device="cpu").fit(corpus, evaluate_every=0)
    np.testing.assert_array_equal(LDA.load(str(tmp_path / "model")).components_, expected.components_)


def described(algorithm, data, workers):
    """Return the note of a plan about devices."""
    return describe_devices(algorithm.needs(data, 1), data, workers, isinstance(algorithm, CellAlgorithm))


def test_the_plan_says_how_the_deltas_of_devices_are_merged(corpus):
    algorithm = Word2Vec(5, method="par")._algorithm(corpus)
    without = Capacity("w0", "tcp://x:1", 2, 0)
    devices = [
        Capacity(f"w{i}", f"{protocol}://x:1", 2, 0, device=1 << 30) for i, protocol in enumerate(["tcp", "ucx"])
    ]
    assert described(algorithm, corpus, [without]) == ""
    assert described(LDA(5, device="cpu")._algorithm(corpus), corpus, devices) == ""
    assert described(NMF(5)._algorithm(corpus), corpus, devices[:1]) == "1 device, where its deltas are merged"
    # A worker with a device beside one without.
    mixed = "1 of 2 workers have a device, and the others train on the CPU"
    assert described(algorithm, corpus, [without, devices[0]]) == f"1 device, where its deltas are merged; {mixed}"
    assert described(Word2Vec(5)._algorithm(corpus), corpus, [without, devices[0]]).endswith(
        f"{mixed}, so the model depends on where each part is trained: choose device 'cuda' or 'cpu' for equal bits"
    )
    assert described(Word2Vec(5)._algorithm(corpus), corpus, devices[:1]).startswith("1 device; its deltas")
    assert described(algorithm, corpus, devices).endswith("through the memory of the host (tcp and ucx)")
    # Other models merge deltas on devices, and the blocks of word vectors are trained there.
    for model in (NMF(5), LDA(5), RandomIndexing(50)):
        assert described(model._algorithm(corpus), corpus, [devices[1]] * 4) == (
            "4 devices, one per worker; their deltas move from device to device (ucx)"
        )
    assert described(NMF(5)._algorithm(corpus), corpus, devices).endswith("of the host (tcp and ucx)")
    assert described(Word2Vec(5)._algorithm(corpus), corpus, [devices[1]] * 2) == (
        "2 devices, one per worker; the blocks that they exchange move from device to device (ucx)"
    )
    started = RunStarted("runs/news", "lda", 0, 10, 3, 900, {}, devices="2 devices")
    assert notes_on_start(started, "") == ["2 devices"]


class Sizes(NamedTuple):
    """The sizes of a chunk."""

    documents: int
    tokens: int


@pytest.mark.parametrize(
    ("chunks", "devices", "advice"),
    [
        (16 * [500_000], 1, 4_194_304),
        (16 * [500_000], 4, 2_000_000),
        (16 * [500_000], 16, None),  # each device has one chunk
        (8 * [3_000_000], 1, None),
        ([500_000], 1, None),
    ],
)
def test_small_chunks_for_a_device_are_noted_with_a_size_that_keeps_all_devices_busy(corpus, chunks, devices, advice):
    workers = [Capacity(f"w{i}", f"tcp://x:{i}", 2, 0, device=1 << 30) for i in range(devices)]
    data = SimpleNamespace(chunks=[Sizes(100, tokens) for tokens in chunks])
    found = describe_devices(LDA(5)._algorithm(corpus).needs(corpus, 1), data, workers)
    if advice is None:
        assert "chunk" not in found
    else:
        assert "chunks of about 500,000 tokens are small for a device, which then mostly waits for launches: " in found
        assert found.endswith(f"ingest with chunk_tokens={advice}")
    # A matrix of vectors in training is launched once for each chunk, which takes much longer.
    assert "chunk" not in describe_devices(Word2Vec(5)._algorithm(corpus).needs(corpus, 1), data, workers, True)
