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


@pytest.fixture(params=[(500, 5, 5), (0, 10, 10)])
def thresholds(request):
    """Return thresholds of the collector that a user has set; zero is one way to turn it off."""
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield request.param
    gc.set_threshold(*before)


def test_the_collector_is_paused_while_numba_compiles_and_restored_afterwards(thresholds):
    seen = []

    def one():
        """The overload takes its place in compiled code."""
        return 0

    @overload(one)
    def one_when_compiled():
        seen.append((gc.get_threshold()[0], gc.isenabled()))
        return lambda: 1

    @kernel(cache=False)
    def function():
        return one()

    assert function() == 1
    assert set(seen) == {(0, True)}  # a library that is imported now finds the collector enabled
    assert gc.get_threshold() == thresholds


def test_the_collector_is_restored_after_an_error_of_compilation(thresholds):
    @kernel(cache=False)
    def wrong():
        return 1 + "a"

    with pytest.raises(numba.TypingError):
        wrong()
    assert gc.get_threshold() == thresholds


def test_a_compilation_that_started_before_the_import_has_only_an_end(thresholds):
    listener = PauseCollector()
    listener.on_end(None)
    listener.on_start(None)
    try:
        assert gc.get_threshold()[0] == 0
    finally:
        listener.on_end(None)
    assert gc.get_threshold() == thresholds
