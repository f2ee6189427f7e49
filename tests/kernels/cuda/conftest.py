"""All of these tests are slow: they compile every kernel for three generations of GPUs, and run them on a CPU."""

import os

import pytest


def pytest_ignore_collect(config):
    if config.option.markexpr == "not slow":
        return True
    return None  # as without this function


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Let a test that is skipped fail, if `make gpu` has set CORPUSMILL_NO_SKIPS: there, every test has what it needs.

    Tests that need the device of tests/ptx run in a process of their own; see test_on_ptx.py.
    """
    report = yield
    if report.skipped and os.environ.get("CORPUSMILL_NO_SKIPS") and "tests/ptx" not in report.longrepr[2]:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, but a test on a GPU must run: {report.longrepr[2]}"
    return report
