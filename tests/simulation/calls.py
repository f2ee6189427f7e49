"""Calls of a command: each is a process that may fail or be killed, and is then called again."""

from collections.abc import Callable

from corpusmill.io.errors import DataError, Locked
from corpusmill.pipeline.engine.cluster.watch import TaskLost

from .world import Process, World

#: Errors that a user may see after a fault.
EXCUSED = (DataError, Locked, TaskLost, OSError)
#: Calls after which a command counts as one that never succeeds.
MAX_CALLS = 100


class Caller:
    """Calls a command again and again until it has succeeded."""

    def __init__(self, world: World, name: str, command: Callable[[], object]):
        self.world = world
        self.name = name
        self.command = command
        self.calls = 0
        self.is_done = False
        self._process: Process | None = None
        self._is_over = True
        world.start(name, None, self._call_until_done)
        world.add_fault("client killed", self.kill)

    def _call_until_done(self) -> None:
        while not self.is_done:
            self.calls += 1
            self.world.check(self.calls <= MAX_CALLS, f"{self.name} never succeeds")
            self.world.sleep(self.world.random.choice((0.1, 5.0, 50.0)))
            self._is_over = False
            self._process = self.world.start_process(f"{self.name}-{self.calls}")
            self.world.start(self._process.name, self._process, self._call)
            self.world.wait(lambda: self._is_over)

    def _call(self) -> None:
        self.world.note("begins")
        try:
            self.command()
            self.is_done = True
            self.world.note("succeeds")
        except EXCUSED as error:
            self.world.note(f"fails: {type(error).__name__}: {error}")
            self.world.counts[f"failed: {type(error).__name__}"] += 1
        self.world.exit()
        self._is_over = True

    def kill(self) -> None:
        """Kill the process of the current call."""
        if self._process is not None and self._process.is_alive and not self._is_over:
            self.world.note(f"kills {self._process.name}")
            self.world.kill(self._process)
            self._is_over = True
