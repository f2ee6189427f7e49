"""Distributes the shards of a step to the workers, a few at a time.

If the shards were divided once, the slowest worker would set the pace of every epoch. Here, each worker begins with the
shards whose data its cache may have. A worker that has swept its own shards takes over shards of another worker.
"""

import time
from bisect import bisect, bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice

from ..memory import Capacity
from ..worker.merging import cut_depth

#: A worker takes its remaining shards divided by this number at a time. It takes many shards at first, so that requests
#: are few, and single shards at the end, so that others can take over the rest.
PARTS = 8
#: The same for a worker that was not slow in the last step.
PARTS_IF_FAST = 2
#: A cut between the shards of two workers moves by at most the shards of one of them divided by this number.
CUT_SLACK = 6
#: No worker takes more than its share of all remaining shards divided by this number, so that all end at the same time.
SHARES = 2
#: A worker is slow if a shard takes it this many times as long as the fastest worker.
SLOW = 1.5
#: How fast the workers are is computed again after a number of requests: the number of workers divided by this one.
SPEEDS_USED = 8


def balanced_places(weights: Sequence[int], workers: Iterable[Capacity]) -> list[str]:
    """Choose the address of a worker for each shard, given the shards' weights.

    Each worker gets consecutive shards in proportion to its threads. Most merges then find both deltas on their own
    worker. Workers are ordered by name, so that a shard returns to the same worker, and to its cache, in every epoch.
    Most shards keep their worker when another worker joins or leaves.
    """
    places = sorted(workers, key=lambda place: place.name)
    if not places or not places[0].address:
        return [""] * len(weights)
    ends = list(accumulate(place.threads for place in places))
    scale = ends[-1] / max(1, sum(weights))
    middles = (end - weight / 2 for end, weight in zip(accumulate(weights), weights, strict=True))
    return [places[min(bisect(ends, middle * scale), len(places) - 1)].address for middle in middles]


def divided(tokens: Mapping[int, int], n_shards: int, workers: Iterable[Capacity]) -> dict[str, deque[int]]:
    """Divide shards as `balanced_places` does, but cut near nodes of the merge tree of all ``n_shards`` shards.

    ``tokens`` has the size of each shard by its position, in order. Returns positions by the address of a worker. A
    worker that has swept whole nodes of the tree sends few sums, and each of them is as large as the model.
    """
    positions = list(tokens)
    places = balanced_places(list(tokens.values()), workers)
    before = [0, *accumulate(tokens.values())]
    changes = (index for index in range(1, len(places)) if places[index - 1] != places[index])
    cuts = [0, *changes, len(places)]
    for last, cut, following in zip(cuts, cuts[1:], cuts[2:], strict=False):
        slack = min(before[cut] - before[last], before[following] - before[cut]) / CUT_SLACK
        # Shards without tokens are near any cut.
        first = max(last + 1, bisect_left(before, before[cut] - slack))
        near = range(first, min(following, bisect(before, before[cut] + slack)))
        best = min(near, key=lambda index: (cut_depth(n_shards, positions[index]), abs(index - cut)))
        places[best:cut] = [places[cut]] * (cut - best)
        places[cut:best] = [places[cut - 1]] * (best - cut)
    homes: dict[str, deque[int]] = {}
    for position, address in zip(positions, places, strict=True):
        homes.setdefault(address, deque()).append(position)
    return homes


@dataclass
class _WorkerSpeed:
    """How fast a worker has swept in this pool."""

    since: float
    threads: int
    taken: int = 0  # shards
    #: What `seconds` returned when the worker last took shards. It had swept all of its earlier ones then.
    measured: float = float("inf")

    def seconds(self, now: float) -> float:
        """Return how many seconds a thread of the worker needs per shard; infinity if it has taken no shard yet."""
        if not self.taken:
            return float("inf")
        return (now - self.since) * self.threads / self.taken


@dataclass
class _Speeds:
    """How fast all workers of a pool were at one moment."""

    workers: int  # that have swept
    fastest: float  # seconds of a thread of the fastest worker for a shard
    shards_per_second: float
    uses: int = 0

    @classmethod
    def of(cls, paces: Sequence[_WorkerSpeed], now: float) -> "_Speeds":
        """Return the speeds of these workers."""
        seconds = [pace.seconds(now) for pace in paces]
        rate = sum(pace.threads / max(1e-9, each) for pace, each in zip(paces, seconds, strict=True))
        return cls(len(paces), min(seconds, default=0.0), rate)


@dataclass
class Pool:
    """The shards of a step that no worker has taken yet.

    ``homes`` has, by the address of a worker, the positions of the shards that it should sweep and that nobody has
    taken. ``taken`` has the positions of the other shards, and the addresses of the workers that have taken them.
    """

    name: str
    run: str  # a run has one open pool at a time
    client: str
    shards: range  # numbers of the step's shards; a position is an index of this range
    homes: dict[str, deque[int]] = field(default_factory=dict)
    taken: dict[int, str] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)  # addresses of the workers that train a grid
    paces: dict[str, _WorkerSpeed] = field(default_factory=dict)
    speeds: "_Speeds | None" = None
    #: Addresses of the workers that were not slow in the last step.
    fast: set[str] = field(default_factory=set)

    @property
    def left(self) -> int:
        """Number of shards that no worker has taken."""
        return sum(len(home) for home in self.homes.values())

    def take(self, address: str, threads: int, now: float | None = None, least: int = 0) -> list[int]:
        """Return the next shards for a worker that has swept all shards that it took before.

        ``least`` is the number of shards for which a request is worth its time. The list is empty if no shard is left,
        or if faster workers will have swept the rest before this one could sweep another shard.
        """
        now = time.monotonic() if now is None else now
        pace = self.paces.setdefault(address, _WorkerSpeed(now, threads))
        pace.measured = pace.seconds(now)
        if self._is_too_slow(pace, now):
            return []
        home = self.homes.get(address, ())
        parts = PARTS_IF_FAST if address in self.fast else PARTS
        share = self.left
        if len(self.homes) > 1:
            share = -(-share // (SHARES * len(self.homes)))
        count = max(threads, min(share, max(least, len(home) // parts)))
        if home:
            shards = [home.popleft() for _ in range(min(count, len(home)))]
        else:
            shards = self._steal(count, now)
        pace.taken += len(shards)
        self.taken |= dict.fromkeys(shards, address)
        return shards

    def give_back(self, address: str) -> None:
        """Let others take all shards of a worker that died, also those that it has swept: its deltas are lost."""
        lost = [position for position, worker in self.taken.items() if worker == address]
        for position in lost:
            del self.taken[position]
        if lost:
            self.homes[address] = deque(sorted([*lost, *self.homes.get(address, ())]))
        self.paces.pop(address, None)
        self.speeds = None

    def measure_anew(self) -> None:
        """Forget how fast the workers were, because some of them are paused now."""
        now = time.monotonic()
        self.paces = {address: _WorkerSpeed(now, pace.threads) for address, pace in self.paces.items()}
        self.speeds = None

    def fast_workers(self) -> set[str]:
        """Return the workers that were not slow in this step; those of the last step if nothing was measured."""
        fastest = min((pace.measured for pace in self.paces.values()), default=float("inf"))
        if fastest == float("inf"):
            return self.fast
        return {address for address, pace in self.paces.items() if pace.measured <= SLOW * fastest}

    def upcoming(self, address: str, count: int) -> list[int]:
        """Return up to ``count`` shards that a worker will probably take next. Others may take them before."""
        return list(islice(self.homes.get(address, ()), count))

    def _is_too_slow(self, pace: _WorkerSpeed, now: float) -> bool:
        if not pace.taken:
            return False
        speeds = self.speeds
        # Many workers take shards at nearly the same time.
        if speeds is None or speeds.uses * SPEEDS_USED > len(self.paces):
            speeds = _Speeds.of([other for other in self.paces.values() if other.taken], now)
            self.speeds = speeds
        speeds.uses += 1
        if speeds.workers < 2:
            return False
        return pace.seconds(now) > SLOW * speeds.fastest + self.left / speeds.shards_per_second

    def _steal(self, count: int, now: float) -> list[int]:
        """Take the last shards of the worker that would finish last. It keeps the shards before them."""
        homes = {address: home for address, home in self.homes.items() if home}
        if not homes:
            return []

        def seconds_left(address: str) -> float:
            pace = self.paces.get(address)
            if pace is None:
                return float("inf")
            return len(homes[address]) * pace.seconds(now) / pace.threads

        home = homes[max(homes, key=seconds_left)]
        return [home.pop() for _ in range(min(count, -(-len(home) // 2)))]
