"""Rows of counts that a device packs, against the bytes of the CPU."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels import count_rows as cpu
from corpusmill.kernels.count_rows import CountRows
from corpusmill.kernels.cuda import count_rows, memory
from corpusmill.kernels.cuda.ledger import LEDGER, Operation
from helpers.on_device import on_device
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = on_device


@pytest.fixture(autouse=True)
def _few_blocks():
    # Each block takes several rows.
    with mock.patch.multiple(count_rows, BLOCKS=2):
        yield


def random_rows(seed, n_rows=9, longest=70, largest=2**16):
    """Return rows that are empty, or shorter or longer than a warp, with small and large gaps and counts."""
    rng = np.random.default_rng(seed)
    rows = [
        np.sort(rng.choice(largest, min(n, largest), replace=False))
        for n in rng.integers(0, longest, n_rows) // 20 * 20
    ]
    columns = np.concatenate([*rows, []]).astype(np.uint16)
    bits = rng.integers(0, 31, len(columns))
    counts = (rng.integers(1, 1 << 31, len(columns)) >> bits).clip(1).astype(np.int32)
    return CountRows(np.cumsum([0, *map(len, rows)], dtype=np.int64), columns, counts)


def left_on_device(rows):
    on_device = [memory.leave_on_device(memory.upload(array, "rows"), "rows") for array in rows[1:]]
    return CountRows(rows.row_ptr, *on_device)


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 20), largest=st.sampled_from([60, 300, 2**16]))
def test_rows_on_the_device_are_packed_into_the_bytes_of_the_cpu(seed, largest):
    rows = random_rows(seed, largest=largest)
    found = count_rows.pack_rows(left_on_device(rows))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, cpu.pack_rows(rows))


@pytest.mark.parametrize("n_rows", [0, 3])
def test_rows_without_entries_are_packed(n_rows):
    rows = CountRows(np.zeros(n_rows + 1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32))
    np.testing.assert_array_equal(count_rows.pack_rows(left_on_device(rows)), cpu.pack_rows(rows))


def test_only_packed_bytes_and_lengths_of_rows_are_downloaded():
    rows = random_rows(1)
    on_the_device = left_on_device(rows)
    with LEDGER.recording() as found:
        packed = count_rows.pack_rows(on_the_device)
    copies = {entry: total.nbytes for entry, total in found.items() if total.nbytes}
    n_rows = len(rows.row_ptr) - 1
    downloads = {entry.cause: nbytes for entry, nbytes in copies.items() if entry.operation == Operation.DOWNLOAD}
    uploads = {entry.cause: nbytes for entry, nbytes in copies.items() if entry.operation == Operation.UPLOAD}
    assert downloads == {"lengths of packed rows": 8 * n_rows, "packed counts": packed.nbytes}
    assert uploads == {"row_ptr of counts": 8 * (n_rows + 1), "starts of packed rows": 8 * (n_rows + 1)}
    assert packed.nbytes < rows.columns.nbytes + rows.counts.nbytes


@pytest.mark.parametrize(
    ("row_ptr", "columns", "counts"),
    [
        ([0, 2], [3, 3], [1, 1]),
        ([0, 2], [4, 3], [1, 1]),
        ([0, 2], [1, 2], [1, 0]),
        ([0, 2], [1, 2], [-5, 1]),
        ([0, 1, 2], [1, 2], [0, 0]),
        ([0, 3], [1, 2], [1, 1]),
        ([0, 2, 1], [1, 2], [1, 1]),
    ],
)
def test_rows_of_another_form_are_not_packed(row_ptr, columns, counts):
    rows = CountRows(np.array(row_ptr), np.array(columns, np.uint16), np.array(counts, np.int32))
    assert cpu.pack_rows(rows) is None
    assert count_rows.pack_rows(left_on_device(rows)) is None


def test_rows_with_many_wrong_entries_are_not_packed():
    rows = CountRows(np.array([0, 1000]), np.zeros(1000, np.uint16), np.zeros(1000, np.int32))
    with mock.patch.object(count_rows, "BLOCKS", 1):
        assert count_rows.pack_rows(rows) is None
