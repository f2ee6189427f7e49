"""Adds up the deltas of a step's shards. The result does not depend on which worker swept which shard, or when."""

import threading
from collections.abc import Callable, Sequence

from ....io.stores.store import Arrays
from ..algorithm import nbytes

#: Consecutive shards of a step, from the first to the last plus one: a node of the merge tree.
Node = tuple[int, int]
#: Adds deltas of one block. It may overwrite nothing that others need.
Add = Callable[[Sequence[Arrays]], Arrays]


class PartialSums:
    """Sums of the deltas of some of a step's shards, merged as far as the order of merging allows.

    Floating-point sums depend on their order. So deltas are merged along a binary tree over all shards of the step,
    whose shape is fixed: the children of a node are its first and its second half. Two sums are merged as soon as both
    children of a node are here.

    If adding is exact, ``exact_bytes`` is not None. Then sums wait until the others together are as large as the
    largest one, and all together have at least this number of bytes. Then they are merged all at once. So the largest
    sum, which grows with each merge, is read only a few times.

    Several threads may add sums at the same time.
    """

    def __init__(
        self,
        n_shards: int,
        merge: Add,
        exact_bytes: int | None = None,
    ):
        self._root = (0, n_shards)
        self._merge = merge
        self._exact_bytes = exact_bytes
        self._lock = threading.Lock()
        self._sums: dict[Node, list[Arrays]] = {}
        self._waiting: list[list[Arrays]] = []  # exact sums

    def add(self, node: Node, deltas: list[Arrays]) -> None:
        """Add the merged deltas of a node's shards, one per block."""
        # A copy, because `_merge_blocks` changes the list.
        deltas = list(deltas)
        if self._exact_bytes is not None:
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
            deltas = self._merge_blocks([other, deltas] if sibling < node else [deltas, other])
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
            deltas = self._merge_blocks(waiting)

    def _are_enough(self) -> bool:
        """Return whether the waiting sums are worth a merge."""
        if len(self._waiting) < 2:
            return False
        sizes = [_nbytes(deltas) for deltas in self._waiting]
        return sum(sizes) >= max(2 * max(sizes), self._exact_bytes or 0)

    def _merge_blocks(self, sums: list[list[Arrays]]) -> list[Arrays]:
        """Merge sums block by block. Each has one delta per block, which is released as soon as it is merged."""
        merged = []
        for block in range(len(sums[0])):
            deltas = [each[block] for each in sums]
            for each in sums:
                each[block] = {}
            merged.append(self._merge(deltas))
        return merged

    def items(self) -> list[tuple[Node, list[Arrays]]]:
        """Return the sums that still wait for their sibling in the tree, with their nodes, in the order of shards."""
        with self._lock:
            if self._waiting:
                self._waiting = [self._merge_blocks(self._waiting)]
                return [(self._root, self._waiting[0])]
            return sorted(self._sums.items(), key=lambda item: item[0])

    def total(self) -> list[Arrays]:
        """Return the sum over all shards, one delta per block. All shards must have been added."""
        ((node, deltas),) = self.items()
        assert node == self._root, f"shards {node} of {self._root}"
        return deltas


def _nbytes(deltas: list[Arrays]) -> int:
    """Return the bytes of a sum, which has one delta per block. Arrays that several deltas share count once."""
    arrays = {str(id(array)): array for delta in deltas for array in delta.values()}
    return nbytes(arrays)


def count_waiting(n_shards: int) -> int:
    """Return how many sums wait at most, if the deltas of ``n_shards`` shards are added in order and along the tree."""
    # One for each level below the root.
    return (n_shards - 1).bit_length()


def cut_depth(n_shards: int, cut: int) -> int:
    """Return how deep the merge tree of ``n_shards`` shards is cut between the shards ``cut - 1`` and ``cut``.

    0 is the cut between the children of the root. ``cut`` is above 0 and below ``n_shards``.
    """
    first, stop = 0, n_shards
    depth = 0
    while (middle := (first + stop + 1) // 2) != cut:
        if cut < middle:
            stop = middle
        else:
            first = middle
        depth += 1
    return depth


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
