"""Stop a run whose numbers diverge, before the epoch is committed."""

import numpy as np

from ...io.errors import DataError
from ...io.stores.store import Arrays
from .algorithm import AnyAlgorithm


def check_finite(algorithm: AnyAlgorithm, step: int, part: str, arrays: Arrays) -> None:
    """Raise DataError if an array of a step contains NaN or infinity. ``part`` says which part of the model it is."""
    for name, array in arrays.items():
        if not _is_finite(np.asarray(array)):
            epoch = -(-step // algorithm.rounds)
            raise DataError(
                f"training diverged: in epoch {epoch}, the array {name!r} of {part} contains numbers that are not "
                f"finite, so this epoch is not saved; {algorithm.divergence_hint}"
            )


def _is_finite(array: np.ndarray) -> bool:
    if array.dtype.kind != "f" or not array.size:
        return True
    # Both extremes are NaN if any number is. Unlike np.isfinite, they need no memory for an array of booleans.
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))
