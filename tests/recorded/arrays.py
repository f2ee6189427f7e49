"""Arrays that were recorded on one machine, and are compared with those of another."""

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np


def machine() -> str:
    """Return what rounding depends on: the processor type and the versions of the numerical libraries."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("llvmlite", "numba", "numpy", "scipy")]
    return ", ".join([llvmlite.binding.get_host_cpu_name(), *versions])


def record(file: Path, cases: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Write the arrays of all cases, and the description of this machine."""
    arrays = {f"{case}/{name}": array for case, found in cases.items() for name, array in found.items()}
    np.savez_compressed(file, machine=np.array(machine()), **arrays)


def assert_as_recorded(file: Path, case: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise AssertionError if arrays are not the recorded ones.

    Floating-point arrays of another machine may differ in rounding, and then also the fingerprints of what is trained
    on them.
    """
    with np.load(file) as recorded:
        same_machine = str(recorded["machine"]) == machine() and not numba.config.DISABLE_JIT
        for name, array in arrays.items():
            expected = recorded[f"{case}/{name}"]
            if same_machine or (array.dtype.kind != "f" and name != "fingerprint"):
                np.testing.assert_array_equal(array, expected)
            elif array.dtype.kind == "f":
                np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


def same_bytes(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether two arrays have the same type, shape and bytes."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
