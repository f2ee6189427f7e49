"""Adds up the deltas of a step's shards. The result does not depend on which worker swept which shard, or when."""

import threading
from collections.abc import Callable, Sequence
from functools import reduce

from ....io.stores.store import Arrays
from ..algorithm import nbytes

#: Consecutive shards of a step, from the first to the last plus one: a node of the merge tree.
Node = tuple[int, int]


class PartialSums:
    """Sums of the deltas of some of a step's shards, merged as far as the order of merging allows.

    Floating-point sums depend on their order. So deltas are merged along a binary tree over all shards of the step,
    whose shape is fixed: the children of a node are its first and its second half. Two sums are merged as soon as both
    children of a node are here.

    If merging is exact, any sums may be merged. With ``merge_many``, sums wait until they are together as large as the
    largest of them, and are then merged at once. So the largest sum, which grows with each merge, is read only a few
    times. Without ``merge_many``, any two sums are merged as soon as they are here.

    Several threads may add sums at the same time.
    """

    def __init__(
        self,
        n_shards: int,
        merge: Callable[[Arrays, Arrays], Arrays],
        is_exact: bool,
        merge_many: Callable[[Sequence[Arrays]], Arrays] | None = None,
    ):
        self._root = (0, n_shards)
        self._merge = merge
        self._is_exact = is_exact
        self._merge_many = merge_many
        self._lock = threading.Lock()
        self._sums: dict[Node, list[Arrays]] = {}
        self._waiting: list[list[Arrays]] = []  # exact sums

    def add(self, node: Node, deltas: list[Arrays]) -> None:
        """Add the merged deltas of a node's shards, one per block."""
        if self._is_exact:
            self._add_exact(deltas)
            return
        while True:
            sibling, parent = _relatives(self._root, node)
            with self._lock:
                other = self._sums.pop(sibling, None)
                if other is None:
                    self._sums[node] = deltas
                    return
            # Merging takes long, so other threads may add sums meanwhile.
            if sibling < node:
                deltas = [self._merge(a, b) for a, b in zip(other, deltas, strict=True)]
            else:
                deltas = [self._merge(a, b) for a, b in zip(deltas, other, strict=True)]
            node = parent

    def _add_exact(self, deltas: list[Arrays]) -> None:
        """Add deltas whose order makes no difference."""
        while True:
            with self._lock:
                self._waiting.append(deltas)
                if not self._are_enough():
                    return
                waiting = self._waiting
                self._waiting = []
            deltas = self._merge_exact(waiting)

    def _are_enough(self) -> bool:
        """Return whether the waiting sums are worth a merge."""
        if self._merge_many is None:
            return len(self._waiting) > 1
        sizes = [sum(nbytes(delta) for delta in deltas) for deltas in self._waiting]
        return len(sizes) > 1 and sum(sizes) >= 2 * max(sizes)

    def _merge_exact(self, waiting: list[list[Arrays]]) -> list[Arrays]:
        """Merge waiting sums, block by block."""
        if self._merge_many is not None:
            return [self._merge_many(deltas) for deltas in zip(*waiting, strict=True)]
        return [reduce(self._merge, deltas) for deltas in zip(*waiting, strict=True)]

    def items(self) -> list[tuple[Node, list[Arrays]]]:
        """Return the sums that are left, in the order of their shards."""
        with self._lock:
            if self._waiting:
                self._waiting = [self._merge_exact(self._waiting)]
                return [(self._root, self._waiting[0])]
            return sorted(self._sums.items(), key=lambda item: item[0])

    def total(self) -> list[Arrays]:
        """Return the sum over all shards, one delta per block. All shards must have been added."""
        ((node, deltas),) = self.items()
        assert node == self._root, f"shards {node} of {self._root}"
        return deltas


def _relatives(root: Node, node: Node) -> tuple[Node, Node]:
    """Return the sibling and the parent of a node of the merge tree. The root is its own sibling and parent."""
    parent = root
    while parent != node:
        first, stop = parent
        middle = (first + stop + 1) // 2
        left = (first, middle)
        right = (middle, stop)
        if node == left:
            return right, parent
        if node == right:
            return left, parent
        parent = left if node[1] <= middle else right
    return root, root
