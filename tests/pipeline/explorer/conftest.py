"""Fixtures for tests of the explorer."""

import pytest


@pytest.fixture(scope="package", autouse=True)
def cache(tmp_path_factory):
    """A cache of its own, so that tests neither read nor change that of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
