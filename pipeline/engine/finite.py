"""Stop a run whose numbers diverge, before the epoch is committed."""

import numpy as np

from ...io.errors import DataError
from ...io.stores.store import Arrays


class Diverged(DataError):
    """A model has numbers that are not finite. The engine completes the message with advice."""


def check_finite(epoch: int, part: str, arrays: Arrays) -> None:
    """Raise Diverged if an array contains NaN or infinity. ``part`` says which part of the model it is."""
    for name, array in arrays.items():
        if not _is_finite(np.asarray(array)):
            raise Diverged(
                f"training diverged: in epoch {epoch}, the array {name!r} of {part} contains numbers that are not "
                f"finite, so this epoch is not saved"
            )


def _is_finite(array: np.ndarray) -> bool:
    if array.dtype.kind != "f" or not array.size:
        return True
    # Both extremes are NaN if any number is. Unlike np.isfinite, they need no memory for an array of booleans.
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))
