"""Every CUDA kernel compiles for the devices that are out there, and no register of it spills without a reason."""

import importlib.util

import pytest
from corpusmill.kernels.cuda.launch import Launch
from helpers import cuda_ptx as ptx
from helpers.cuda_launches import LAUNCHES, kernels

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="numba-cuda is not installed")
CAPABILITIES = (7, 5), (8, 0), (9, 0)
#: How many kernels each model has, so that none goes unseen.
EXPECTED = {"lda": 11, "lda, mini-batches": 3, "random indexing": 9, "word2vec": 2, "walks": 1, "nmf": 6}
#: Bytes that a kernel may store and load beside its registers, and why.
SPILLS = {
    # Three numbers a token at most, for half of the warps under way on 8.0 and 9.0 instead of three eighths and less.
    "lda.esca._make_kernel.draw": 24,
}


@pytest.mark.parametrize("model", LAUNCHES)
def test_kernels_compile_and_fit_their_registers(model):
    launches = kernels(model)
    assert len(launches) == EXPECTED[model]
    for launch in launches:
        name = ptx.full_name(launch)
        for capability, text in ptx.ptx_of(launch, *CAPABILITIES).items():
            assert f".target sm_{capability[0]}{capability[1]}" in text
            assert ".entry" in text
            if ptx.ptxas():
                assert ptx.resources_of(text, capability).spilled <= SPILLS.get(name, 0), name


def test_occupancy_is_that_of_the_scarcest_resource():
    launch = Launch(None, 1, 256, (), 0)
    assert ptx.occupancy(launch, ptx.Resources(32, 0, 0), (9, 0)) == 1.0
    assert ptx.occupancy(launch, ptx.Resources(64, 0, 0), (9, 0)) == 0.5
    assert ptx.occupancy(launch._replace(shared=113 << 10), ptx.Resources(32, 0, 0), (9, 0)) == 0.25
    assert ptx.occupancy(launch._replace(threads=32), ptx.Resources(32, 0, 0), (8, 0)) == 0.5
