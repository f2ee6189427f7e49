"""Compilation pauses Python's garbage collector and leaves it as it was."""

import gc

import numba
import pytest
from corpusmill.kernels.jit import PauseCollector, kernel
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.fixture(autouse=True)
def alone():
    """Keep other threads from compiling: one that an earlier test has left behind would pause the collector as well."""
    with global_compiler_lock:
        yield


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


def test_a_compilation_that_started_before_the_import_has_only_an_end():
    listener = PauseCollector()
    listener.on_end(None)
    listener.on_start(None)
    try:
        assert not gc.isenabled()
    finally:
        listener.on_end(None)
    assert gc.isenabled()
