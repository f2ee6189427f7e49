"""Every test of retraining starts in a folder with two days of documents."""

import pytest
from helpers.nightly import write_first_days


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A folder with two days of documents, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_first_days()
    return tmp_path
