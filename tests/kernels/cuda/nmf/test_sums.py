"""Sums of shards on a device: the bits of the CPU, wherever the arrays are, and in any thread."""

import threading
from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels.cuda import memory
from corpusmill.kernels.cuda.ledger import LEDGER, Operation
from corpusmill.kernels.cuda.nmf import sums as nmf_sums
from corpusmill.kernels.cuda.residents import RESIDENTS
from helpers.on_device import on_device

pytestmark = on_device


@pytest.fixture(autouse=True)
def _few_blocks():
    with mock.patch.multiple(nmf_sums, BLOCKS=2):
        yield


def on_a_device(host):
    return memory.leave_on_device(memory.upload(host, "P"), "P")


def operations(found, operation):
    return sum(total.calls for entry, total in found.items() if entry.operation == operation)


@pytest.mark.parametrize("places", ["both", "left", "right", "neither"])
def test_sums_have_the_bits_of_the_cpu_and_stay_on_the_device(places):
    left, right = (np.random.default_rng(seed).random((7, 5)).astype(np.float32) for seed in range(2))
    first = on_a_device(left) if places in ("both", "left") else left
    second = on_a_device(right) if places in ("both", "right") else right
    with LEDGER.recording() as found:
        total = nmf_sums.add_sums(first, second, "P")
    assert (RESIDENTS.find(total) is None) == (places == "neither")
    assert operations(found, Operation.DOWNLOAD) == 0
    assert operations(found, Operation.UPLOAD) == (places in ("left", "right"))
    RESIDENTS.bring_back([total])
    np.testing.assert_array_equal(total, left + right)


def test_some_rows_of_a_resident_array_are_found_on_the_device():
    whole = np.random.default_rng(0).random((7, 5)).astype(np.float32)
    resident = on_a_device(whole)
    total = nmf_sums.add_sums(resident[2:5], resident[4:7], "P")
    RESIDENTS.bring_back([total])
    np.testing.assert_array_equal(total, whole[2:5] + whole[4:7])


def test_two_threads_that_bring_back_parts_of_one_array_both_find_its_contents():
    whole = np.random.default_rng(0).random((64, 5)).astype(np.float32)
    resident = on_a_device(whole)
    found = []

    def bring_back(part):
        RESIDENTS.bring_back([part])
        found.append(part.copy())

    threads = [threading.Thread(target=bring_back, args=[resident]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for part in found:
        np.testing.assert_array_equal(part, whole)


def test_sums_that_do_not_fit_the_device_are_brought_back():
    whole = np.ones((7, 5), np.float32)
    resident = on_a_device(whole)
    with mock.patch.object(memory, "device_memory", return_value=whole.nbytes):
        memory.share_residents([resident], "P")
    assert RESIDENTS.get(resident) is None
    np.testing.assert_array_equal(resident, whole)
