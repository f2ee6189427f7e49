"""The rates of a GPU, and the time that a part of an epoch takes at these rates: see prediction.py."""

from typing import NamedTuple


class Device(NamedTuple):
    """Rates of a GPU and of the host that it is in, per second."""

    memory: float  # bytes that kernels read and write
    cache: float  # bytes that kernels read from the L2 cache
    shared: float  # bytes of all shared memories
    flops: float  # float32
    issued: float  # PTX instructions of warps
    atomics: float  # atomic additions to device memory
    bus: float  # bytes that the host copies through pinned buffers, in one direction
    pinned: float  # bytes that the device copies to pinned results, or from them
    launches: float  # kernels with nested tuples of arrays that one host thread launches
    small_launches: float  # kernels with a few arrays that one host thread launches
    barriers: float  # times that all blocks of a kernel wait for each other
    batches: float  # batches of a cell of strata that one block trains


#: Instructions of the processor by instruction of PTX: 1.5 to 1.67 in the kernels of LDA and NMF, by the lines of PTX
#: that ptxas notes.
SASS = 1.6
#: Each of the 132 multiprocessors issues up to four instructions of warps per clock, at 1.98 GHz, and reads 128 bytes
#: of shared memory. 4.3 TB/s is what a copy reaches. The L2 cache of an H100 was measured at about 5.5 TB/s. One host
#: thread copies to and from pinned buffers at 10 GB/s; the bus itself, PCIe 5, allows about 50 to pinned memory. A
#: launch takes Numba about 0.2 ms with nested tuples, and 0.05 with a few arrays: on a CPU without a GPU, nine arrays
#: in tuples took 0.13 ms to prepare, and three arrays 0.02, to which the driver's time is added. All blocks wait for
#: each other in about 3 µs. A batch of a cell takes one block about 4 µs, which is the latency of reading its rows, of
#: nine barriers of the block, and of moves that follow one another.
H200 = Device(
    memory=4.3e12,
    cache=5.5e12,
    shared=33.4e12,
    flops=67e12,
    issued=1.05e12 / SASS,
    atomics=150e9,
    bus=10e9,
    pinned=50e9,
    launches=5e3,
    small_launches=2e4,
    barriers=3e5,
    batches=2.5e5,
)


class Work(NamedTuple):
    """What a part of an epoch does."""

    name: str
    memory: float = 0.0
    cache: float = 0.0
    shared: float = 0.0
    flops: float = 0.0
    issued: float = 0.0  # counted by `benchmarks.gpu instructions`
    atomics: float = 0.0
    bus: float = 0.0
    pinned: float = 0.0
    launches: float = 0.0
    small_launches: float = 0.0
    barriers: float = 0.0
    batches: float = 0.0  # one after another, in the block that has most
    idle_launches: float = 0.0  # those of the launches before which the host has waited, so that the device is idle

    def seconds_without_overlap(self, device: Device) -> float:
        """Return the time of this part if no launch overlapped with a kernel or a copy."""
        launched = self.launches / device.launches + self.small_launches / device.small_launches
        rest = self._replace(launches=0.0, small_launches=0.0, idle_launches=0.0)
        return launched + rest.seconds(device)[0]

    def seconds(self, device: Device) -> tuple[float, str]:
        """Return the time of this part, and the resource that limits it."""
        added = {
            "barriers": self.barriers / device.barriers,
            "idle launches": self.idle_launches / device.launches,
        }
        hidden = self._replace(launches=self.launches - self.idle_launches)
        together = {name: getattr(hidden, name) / getattr(device, name) for name in TOGETHER}
        limit = max(together, key=together.__getitem__)
        seconds = together[limit] + sum(added.values())
        largest = max(added, key=added.__getitem__)
        if added[largest] > together[limit]:
            limit = largest
        return seconds, limit


#: The resources of a part that work at the same time.
TOGETHER = (
    "memory",
    "cache",
    "shared",
    "flops",
    "issued",
    "atomics",
    "bus",
    "pinned",
    "launches",
    "small_launches",
    "batches",
)
