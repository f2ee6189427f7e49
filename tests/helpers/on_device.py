"""Marks tests that need a device."""

import os

import pytest
from numba import cuda

#: A real device, or the one of tests/ptx, which CORPUSMILL_PTX turns on: test_on_ptx.py does.
on_device = pytest.mark.skipif(not cuda.is_available(), reason="runs where there is a device, or CORPUSMILL_PTX=9.0")


def emulated() -> bool:
    """Return whether the device is that of tests/ptx."""
    return bool(os.environ.get("CORPUSMILL_PTX"))
