"""Compilation pauses Python's garbage collector and leaves it as it was."""

import gc

import numba
import pytest
from corpusmill.kernels.jit import kernel
from numba.extending import overload

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_paused_while_numba_compiles_and_restored_afterwards(enabled):
    seen = []

    def one():
        """The overload takes its place in compiled code."""
        return 0

    @overload(one)
    def one_when_compiled():
        seen.append(gc.isenabled())
        return lambda: 1

    @kernel(cache=False)
    def function():
        return one()

    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        assert function() == 1
        assert seen
        assert not any(seen)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_the_collector_is_restored_after_an_error_of_compilation():
    @kernel(cache=False)
    def wrong():
        return 1 + "a"

    with pytest.raises(numba.TypingError):
        wrong()
    assert gc.isenabled()
