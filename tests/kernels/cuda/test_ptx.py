"""Every CUDA kernel compiles for common devices; its registers and its memory are as intended. Needs no device."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from corpusmill.kernels.cuda.launch import Launch
from helpers import cuda_ptx as ptx
from helpers.cuda_launches import LAUNCHES, kernels

from tests.ptx.compiler import CAPABILITIES, name_of
from tests.ptx.parser import parse

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="needs the compiler, numba-cuda")
#: Number of kernels of each model, so that no kernel is left out by mistake.
EXPECTED = {
    "lda": 19,
    "lda, alias tables": 3,
    "lda, mini-batches": 4,
    "random indexing": 9,
    "word2vec": 3,
    "walks": 1,
    "nmf": 7,
    "nmf, tiles": 3,
    "other kernels of papers": 8,
}
#: Bytes that a kernel may store and load because it has too few registers.
SPILLS = {
    # At most four numbers, on 7.5 and 8.0, where the tree lies in device memory. In return, 64 registers are enough,
    # and half of a multiprocessor's warps can be active on 8.0 and 9.0, instead of three eighths.
    "lda.esca._make_kernel.draw": 32,
    # The paper's baseline without shared memory.
    "papers.full_register.train_register": 16,
}
#: Registers per thread of the kernels that take more than 64.
REGISTERS = {
    "nmf.hals._make_sweep_block.sweep_block": 80,
    # It has one block for two multiprocessors.
    "kernels.tiled_cuda._sweep_tile": 120,
    "node2vec.walks._walk": 76,
    # It is meant to have one block per multiprocessor.
    "word2vec.cells.train_sub_cells": 255,
    "word2vec.full.train_full": 72,
    "papers.full_register.train_register": 128,
    "word2vec.par.train_par": 128,
}


@cache
def compiled(model):
    """Return the first launch of each of a model's kernels, with its text for each capability."""
    return [(launch, ptx.ptx_of(launch, *CAPABILITIES)) for launch in kernels(model)]


@pytest.mark.parametrize("model", LAUNCHES)
def test_kernels_compile_for_all_devices_and_use_their_memory_as_meant(model):
    launches = compiled(model)
    assert len(launches) == EXPECTED[model]
    for launch, texts in launches:
        name = name_of(launch.function)
        for capability, text in texts.items():
            assert f".target sm_{capability[0]}{capability[1]}" in text
            assert ".entry" in text
            spaces = ptx.memory_spaces(text)
            assert spaces["local"] == 0, f"{name} keeps arrays or too many numbers in local memory"
            assert spaces["generic"] == 0, f"{name} has addresses that may be shared or global, which are slow"
            assert bool(spaces["shared"]) >= bool(launch.shared), f"{name} does not use its shared memory"
            if ptx.ptxas():
                resources = ptx.resources_of(text, capability)
                assert resources.spilled <= SPILLS.get(name, 0), name
                assert resources.registers <= REGISTERS.get(name, 64), name


@pytest.mark.parametrize("model", ["word2vec", "random indexing"])
def test_dynamic_shared_memory_begins_where_four_numbers_can_be_read_at_once(model):
    """It follows the static arrays at once, and PTX demands no more than four bytes of it."""
    for launch, texts in compiled(model):
        for text in texts.values():
            if re.search(r"(ld|st)\.shared\.v4", text):
                assert parse(text).static_shared % 16 == 0, name_of(launch.function)


@pytest.mark.parametrize("model", ["nmf", "nmf, tiles"])
def test_sums_of_float32_are_no_float64(model):
    for launch, texts in compiled(model):
        name = launch.function.__name__
        # These are meant to add in float64.
        if name not in ("_multiply_columns", "_multiply_and_add", "_sweep_tile", "_add"):
            assert not re.search(r"(add|mul|fma|sub)(\.rn)?\.f64", texts[9, 0]), name
        assert not re.search(r"\.func|call\.uni", texts[9, 0]), f"{name} calls a function"


@pytest.mark.parametrize("kernel", ["train_sub_cells", "train_full", "train_par"])
def test_rows_of_word_vectors_are_read_by_vectors(kernel):
    (text,) = [texts[9, 0] for launch, texts in compiled("word2vec") if launch.function.__name__ == kernel]
    # Of float32, nothing else than rows is in device memory.
    assert "ld.global.v4.f32" in text
    assert "ld.shared.v4.f32" in text
    assert "st.shared.v4.f32" in text
    assert not re.search(r"ld\.global\.(v2\.)?f32", text)
    # The others change rows by atomic additions.
    assert ("st.global.v4.f32" in text) == (kernel == "train_sub_cells")
    assert not re.search(r"st\.global\.(v2\.)?f32", text)


def test_seeds_are_read_by_vectors():
    found = compiled("random indexing")
    text = next(texts[9, 0] for launch, texts in found if launch.function.__name__ == "accumulate_piece")
    assert "ld.global.v4.u32" in text


WITHOUT_ROW_STACK = """
import numpy as np
if hasattr(np, "row_stack"):
    del np.row_stack
    np.__all__.remove("row_stack")
from corpusmill.kernels.cuda.nmf.sums import _add
from numba import float32
from tests.ptx.compiler import compiled
(text,) = compiled(_add.py_func, (float32[::1],) * 3, [(9, 0)]).values()
assert ".entry" in text
assert not hasattr(np, "row_stack")
"""


def test_kernels_compile_with_numpy_2_5_which_has_no_row_stack():
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_ROW_STACK]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])


def test_memory_spaces_are_counted():
    text = "ld.shared.f32 %f1, [%r1]; st.global.u16 [%rd1], %rs1; atom.add.u32 %r1, [%rd1], 1; red.shared.add.u32 x;"
    assert ptx.memory_spaces(text) == {"shared": 2, "global": 1, "generic": 1}


def test_occupancy_is_that_of_the_scarcest_resource():
    launch = Launch(None, 1, 256, (), 0)
    assert ptx.occupancy(launch, ptx.Resources(32, 0, 0), (9, 0)) == 1.0
    assert ptx.occupancy(launch, ptx.Resources(64, 0, 0), (9, 0)) == 0.5
    assert ptx.occupancy(launch._replace(shared=113 << 10), ptx.Resources(32, 0, 0), (9, 0)) == 0.25
    assert ptx.occupancy(launch._replace(threads=32), ptx.Resources(32, 0, 0), (8, 0)) == 0.5
