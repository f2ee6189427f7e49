"""How the deltas of NMF are added: P and Q of one shard to those of another."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ....io.stores.store import Arrays
from ...engine.algorithm import Merge, add
from ...engine.device import kernels, runs_on_cuda
from .late_products import add_late, computed, is_late


class FactorSums(Merge):
    """Adds P and Q."""

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add P in place if the deltas may be overwritten."""
        return reduce(add_in_place if may_overwrite else add, deltas)


@dataclass(frozen=True)
class HalsSums(Merge):
    """Adds P and Q of coordinate descent, on a CUDA device if they are there. P may be computed only now."""

    device: str

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add P and Q, with the bits of `FactorSums`. On a CUDA device, a new array costs nothing."""
        add_sums = kernels("nmf.sums", self.device).add_sums
        total = deltas[0]
        for delta in deltas[1:]:
            if is_late(total) or is_late(delta):
                total = add_late(total, delta, may_overwrite)
            elif may_overwrite and not runs_on_cuda(self.device):
                total = add_in_place(total, delta)
            else:
                total = {name: add_sums(array, delta[name], name) for name, array in total.items()}
        return total

    def pack(self, arrays: Arrays) -> Arrays:
        """Compute P of a delta before it travels."""
        return computed(arrays)


def add_in_place(left: Arrays, right: Arrays) -> Arrays:
    """Add two deltas, P in place. The deltas of all blocks have the same Q, so its sum is a new array."""
    np.add(left["P"], right["P"], out=left["P"])
    return {"P": left["P"], "Q": left["Q"] + right["Q"]}
