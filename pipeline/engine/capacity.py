"""The threads and the memory of a worker, by which work is divided and plans are made."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Capacity:
    """The threads and the memory of one worker, in bytes; ``memory`` is 0 if there is no limit."""

    name: str
    address: str  # "" for this process
    threads: int
    memory: int
    device: int = 0  # bytes of its CUDA device; 0 if it has none or if nobody requested the figure
    device_manager: str = ""  # where arrays take the device's memory from

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"worker {self.name}" if self.address else self.name
