"""Devices that fail in the middle of an epoch: one sentence says so, and no epoch is lost."""

from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.kernels.cuda import launch, memory
from corpusmill.kernels.cuda.lda import document_counts, esca, word_counts
from corpusmill.kernels.errors import DeviceError
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus


class FailingDevice:
    """Fails at the second draw of topics, which is that of the second chunk."""

    def __init__(self, fault):
        self.fault = fault
        self.draws = 0
        self.submit, self.array, self.stream = launch.submit, memory.cuda.device_array, launch.stream

    @property
    def has_failed(self):
        return self.draws > 1

    def launched(self, what):
        self.draws += what.name == "draw"
        if self.has_failed and self.fault != "memory":
            raise RuntimeError("[700] Call to cuLaunchKernel results in CUDA_ERROR_ILLEGAL_ADDRESS")
        self.submit(what)

    def allocated(self, *arguments, **options):
        # All memory is taken from the first chunk on.
        if self.draws and self.fault == "memory":
            raise MemoryError
        if self.has_failed:
            raise RuntimeError("[46] Call to cuMemAlloc results in CUDA_ERROR_DEVICE_UNAVAILABLE")
        return self.array(*arguments, **options)

    def streamed(self):
        if self.has_failed and self.fault == "lost":
            raise RuntimeError("[46] Call to cuStreamSynchronize results in CUDA_ERROR_DEVICE_UNAVAILABLE")
        return self.stream()

    def __enter__(self):
        self.patches = ExitStack()
        self.patches.enter_context(mock.patch.object(launch, "submit", self.launched))
        self.patches.enter_context(mock.patch.object(memory.cuda, "device_array", self.allocated))
        for module in (launch, memory):
            self.patches.enter_context(mock.patch.object(module, "stream", self.streamed))

    def __exit__(self, *error):
        self.patches.close()


@pytest.fixture(autouse=True)
def _few_blocks():
    with mock.patch.multiple(esca, BLOCKS=1), mock.patch.multiple(document_counts, BLOCKS=1, WARPS=1):
        with mock.patch.multiple(word_counts, BLOCKS=1):
            yield


@on_device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "memory",
            r"^chunk \d: [\d,]+ bytes do not fit the device: [\d,]+ of [\d,]+ are free; .* has the epochs up to 1: ",
        ),
        ("kernel", r"^chunk 1: CUDA kernel draw: \[700\] .*; .* has the epochs up to 1: "),
        ("lost", r"^chunk 1: CUDA kernel draw: \[700\] .*; .* has the epochs up to 1: "),
    ],
)
def test_a_run_goes_on_after_its_device_has_failed(fault, message, device, tmp_path):
    corpus = write_topic_corpus(str(tmp_path / "corpus"), 2, words_per_topic=3, n_chunks=3, documents=3, length=8)
    run = str(tmp_path / "run")

    def train(epochs, on, run=None):
        return LDA(3, max_iter=epochs, device=on, random_state=1).fit(corpus, run=run, evaluate_every=0)

    first = train(1, "cuda", run)
    with FailingDevice(fault), pytest.raises(DeviceError, match=message) as caught:
        train(3, "cuda", run)
    assert "or with device 'cpu'" in str(caught.value)
    assert "\n" not in str(caught.value)
    again = train(3, device, run)
    assert again.history_[0] == first.history_[0], "the first epoch is not trained again"
    np.testing.assert_array_equal(again.components_, train(3, "cpu").components_)
