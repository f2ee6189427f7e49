"""The NumPy functions that stand in for the vector code without numba's compiler."""

import importlib
import inspect
import pkgutil

from corpusmill import kernels
from helpers import python_simd
from numba.core.extending import _Intrinsic


def intrinsics():
    """Return all functions of kernels for CPUs that generate vector code, by name."""
    found = {}
    for module in pkgutil.walk_packages(kernels.__path__, kernels.__name__ + "."):
        if ".cuda" not in module.name:
            members = vars(importlib.import_module(module.name)).values()
            found |= {member._name: member._defn for member in members if isinstance(member, _Intrinsic)}
    return found


def test_each_vector_function_has_a_function_in_numpy_with_the_same_parameters():
    found = intrinsics()
    assert len(found) > 30
    del found["trailing_zeros"]  # numba's own
    for name, definition in found.items():
        # The first parameter of an intrinsic is the typing context.
        wanted = list(inspect.signature(definition).parameters)[1:]
        function = getattr(python_simd, name, None)
        assert function, f"tests/helpers/python_simd.py has no {name}({', '.join(wanted)})"
        assert len(inspect.signature(function).parameters) == len(wanted), name
