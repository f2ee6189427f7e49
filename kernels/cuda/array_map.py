"""A dictionary whose keys are host arrays, and which does not keep them alive.

NumPy arrays have no hash, so `ArrayMap` finds an array by its ``id`` and then compares a weak reference with the array
itself: Python may give the ``id`` of a dead array to a new one.

An array can die in any thread and at any moment, also inside a method of the map. So the callback of a weak reference
only notes the death in a deque, which is atomic. The next call of `pop_dead`, with the owner's lock held, removes the
entry.
"""

import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

Value = TypeVar("Value")
Arrays = tuple[np.ndarray, ...]
Key = tuple[int, ...]


class ArrayMap(Generic[Value]):
    """A dictionary from tuples of host arrays to values, in order of last use. It does not keep the arrays alive.

    It has no lock of its own: its owner calls it with a lock held.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, tuple[tuple[weakref.ref[np.ndarray], ...], Value]] = OrderedDict()
        self._deaths: deque[tuple[Key, weakref.ref[np.ndarray]]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, arrays: Arrays) -> Value | None:
        """Return the value of these arrays and mark it as used, or None."""
        key = _key(arrays)
        if key not in self._entries:
            return None
        references, value = self._entries[key]
        for reference, array in zip(references, arrays, strict=True):
            if reference() is not array:
                return None  # a new array has the id of a dead one, whose entry has not been removed yet
        self._entries.move_to_end(key)
        return value

    def put(self, arrays: Arrays, value: Value) -> None:
        """Store a value for these arrays. `pop` an older one first."""
        key = _key(arrays)
        deaths = self._deaths

        def note_death(reference: weakref.ref[np.ndarray]) -> None:
            deaths.append((key, reference))

        references = tuple(weakref.ref(array, note_death) for array in arrays)
        self._entries[key] = references, value

    def pop(self, arrays: Arrays) -> Value | None:
        """Remove the entry of these arrays, or of dead arrays that had the same ids, and return its value, or None."""
        _, value = self._entries.pop(_key(arrays), (None, None))
        return value

    def values(self) -> list[Value]:
        """Return all values."""
        return [value for _, value in self._entries.values()]

    def pop_oldest(self) -> Value:
        """Remove the least recently used entry, and return its value."""
        _, (_, value) = self._entries.popitem(last=False)
        return value

    def pop_dead(self) -> Iterator[Value]:
        """Remove the entries of arrays that died, and yield their values."""
        while self._deaths:
            key, reference = self._deaths.popleft()
            references, _ = self._entries.get(key, ((), None))
            # The entry may already belong to a new array with the same id.
            if any(reference is known for known in references):
                _, value = self._entries.pop(key)
                yield value


def _key(arrays: Arrays) -> Key:
    return tuple(id(array) for array in arrays)
