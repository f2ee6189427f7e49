"""All of these tests are slow: they run in a simulator, or compile every kernel for three generations of GPUs."""

import pytest


def pytest_ignore_collect(config):
    if config.option.markexpr == "not slow":
        return True
    return None  # as without this function


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.slow)
