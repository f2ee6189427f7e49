"""A simulated world: processes that run in one thread, a virtual clock, and a seeded scheduler.

Each thread of a simulated process is a greenlet. It runs until it pauses, which it does at every operation of a store
and whenever it waits. The scheduler then chooses who runs next, and whether a fault happens. All choices come from
one random generator, so a seed determines everything that happens.
"""

import contextlib
import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator

from corpusmill.pipeline.engine.worker.buffers import Cache
from greenlet import GreenletExit, getcurrent, greenlet

#: Turns of the scheduler after which a simulation counts as stuck.
MAX_TURNS = 30_000
#: Turns after which no more faults happen, so that the work can be finished.
MAX_FAULTY_TURNS = 4_000
#: Lines of the trace that are kept.
TRACE_LINES = 200
#: Seconds for which a process may be stopped. Locks on object stores expire after 60 seconds.
STOPS = (1.0, 20.0, 70.0, 300.0)


class Violation(AssertionError):
    """Something happened that must never happen."""


class Process:
    """A simulated process. It has its own cache, and may be stopped or killed as a whole."""

    def __init__(self, name: str):
        self.name = name
        self.is_alive = True
        self.stopped_until = 0.0
        self.cache = Cache()


class Fiber(greenlet):
    """One thread of a simulated process."""

    def __init__(self, name: str, process: Process | None, work: Callable[[], None], scheduler: greenlet):
        # When a greenlet ends, its parent continues. That must not be the fiber that started this one.
        super().__init__(work, scheduler)
        self.name = name
        self.process = process
        self.ready_at = 0.0
        self.condition: Callable[[], bool] | None = None

    def can_run(self, now: float) -> bool:
        """Return whether the scheduler may choose this fiber."""
        if self.process is not None and self.process.stopped_until > now:
            return False
        return self.ready_at <= now or (self.condition is not None and self.condition())

    def next_time(self) -> float:
        """Return the time at which this fiber can run, if its condition is not met before."""
        if self.process is None:
            return self.ready_at
        return max(self.ready_at, self.process.stopped_until)


class World:
    """Everything that a simulation has: the clock, the fibers, the random generator and the faults."""

    current: "World"

    def __init__(self, seed: int, is_faulty: bool = True):
        World.current = self
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 1e6
        self.clock_error = 0.0
        self.fibers: list[Fiber] = []
        self.processes: list[Process] = []
        self.victims: dict[str, Callable[[], None]] = {}
        self.faults_left = self.random.choice((0, 2, 5, 10))
        if not is_faulty:
            self.faults_left = 0
        self.fault_rate = self.random.choice((0.002, 0.01, 0.04))
        self.counts: Counter[str] = Counter()
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.turns = 0
        self._digest = hashlib.sha256()
        self._main = getcurrent()
        self._is_observing = False
        self._exiting: list[Process] = []
        self._failure: BaseException | None = None

    # --- what happened ---

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        fiber = getcurrent()
        who = fiber.name if isinstance(fiber, Fiber) else "scheduler"
        line = f"{self.now - 1e6:9.3f} {who:<12} {what}"
        self.trace.append(line)
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        """A digest of everything that has happened."""
        return self._digest.hexdigest()

    def check(self, is_right: bool, what: str) -> None:
        """Raise Violation if something is wrong. It ends the simulation, whoever catches it."""
        if not is_right:
            self._failure = Violation(what)
            self.note(f"VIOLATION {what}")
            raise self._failure

    # --- called by fibers ---

    @property
    def current_fiber(self) -> Fiber | None:
        """The fiber that runs now; None in the scheduler."""
        fiber = getcurrent()
        return fiber if isinstance(fiber, Fiber) else None

    @property
    def process(self) -> Process | None:
        """The process that runs now; None if the simulation itself looks at the stores."""
        fiber = self.current_fiber
        if fiber is None or self._is_observing:
            return None
        return fiber.process

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Let nothing go wrong, and no time pass, while the simulation itself looks at the stores."""
        before = self._is_observing
        self._is_observing = True
        try:
            yield
        finally:
            self._is_observing = before

    def sleep(self, seconds: float) -> None:
        """Let others run for at least some virtual seconds."""
        fiber = getcurrent()
        if not isinstance(fiber, Fiber):
            return
        self._leave_if_dead(fiber)
        fiber.ready_at = self.now + seconds
        self._main.switch()
        self._leave_if_dead(fiber)

    def pause(self) -> None:
        """Let others run. An operation of a store takes some milliseconds, now and then many seconds."""
        seconds = 0.02 * self.random.random()
        if self.faults_left and self.random.random() < 0.01:
            seconds = self.random.choice((0.5, 5.0, 40.0))
        self.sleep(seconds)

    def wait(self, condition: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Wait until a condition is met or the time is over; return whether it is met."""
        fiber = getcurrent()
        assert isinstance(fiber, Fiber)
        self._leave_if_dead(fiber)
        fiber.condition = condition
        fiber.ready_at = self.now + seconds
        self._main.switch()
        fiber.condition = None
        self._leave_if_dead(fiber)
        return condition()

    def _leave_if_dead(self, fiber: Fiber) -> None:
        if fiber.process is not None and not fiber.process.is_alive:
            raise GreenletExit

    # --- processes ---

    def start_process(self, name: str) -> Process:
        """Return a new process without threads."""
        process = Process(name)
        self.processes.append(process)
        return process

    def start(self, name: str, process: Process | None, work: Callable[[], object]) -> Fiber:
        """Start a thread of a process."""

        def guarded() -> None:
            try:
                work()
            except Violation:
                pass
            except Exception as error:
                self._failure = self._failure or error

        fiber = Fiber(name, process, guarded, self._main)
        fiber.ready_at = self.now
        self.fibers.append(fiber)
        return fiber

    def kill(self, process: Process) -> None:
        """End a process as SIGKILL does: its threads do no further operation. Only the scheduler may call this."""
        assert getcurrent() is self._main
        if not process.is_alive:
            return
        process.is_alive = False
        self.processes.remove(process)
        for fiber in [fiber for fiber in self.fibers if fiber.process is process]:
            self.fibers.remove(fiber)
            fiber.throw(GreenletExit)

    def exit(self) -> None:
        """End the process that runs now, and all its threads with it."""
        assert self.process is not None
        self._exiting.append(self.process)

    def has_fault(self, rate: float = 1.0) -> bool:
        """Return whether a fault happens now, and count it."""
        if not self.faults_left or self.turns > MAX_FAULTY_TURNS:
            return False
        if self.random.random() > self.fault_rate * rate:
            return False
        self.faults_left -= 1
        return True

    def run_alone(self, work: Callable[[], object]) -> None:
        """Run a function as the only process."""
        self.start("alone", self.start_process("alone"), work)
        self.run()

    def add_fault(self, name: str, cause: Callable[[], None]) -> None:
        """Let the scheduler cause a fault from time to time."""
        self.victims[name] = cause

    def stop_a_process(self) -> None:
        """Stop a process as SIGSTOP does, and let it continue later."""
        if self.processes:
            process = self.random.choice(self.processes)
            process.stopped_until = self.now + self.random.choice(STOPS)
            self.note(f"stops {process.name} for {process.stopped_until - self.now:.0f} s")

    def move_clock(self) -> None:
        """Set the time of day of all processes to another one."""
        self.clock_error = self.random.uniform(-1e5, 1e5)
        self.note("moves the time of day")

    # --- the scheduler ---

    def run(self) -> None:
        """Run all fibers until none is left; raise the first error."""
        self._main = getcurrent()
        while self.fibers and self._failure is None:
            self.turns += 1
            if self.turns > MAX_TURNS:
                raise Violation(f"nothing ends after {MAX_TURNS} turns: {[f.name for f in self.fibers]}")
            if self.victims and self.has_fault():
                name = self.random.choice(list(self.victims))
                self.counts[name] += 1
                self.victims[name]()
            self._take_turn()
            while self._exiting:
                self.kill(self._exiting.pop())
        self._end()
        if self._failure is not None:
            raise self._failure

    def _take_turn(self) -> None:
        able = [fiber for fiber in self.fibers if fiber.can_run(self.now)]
        if not able:
            next_time = min(fiber.next_time() for fiber in self.fibers)
            if next_time == float("inf"):
                raise Violation(f"all wait for each other: {[f.name for f in self.fibers]}")
            self.now = max(self.now, next_time)
            able = [fiber for fiber in self.fibers if fiber.can_run(self.now)]
        fiber = self.random.choice(able)
        fiber.switch()
        if fiber.dead and fiber in self.fibers:
            self.fibers.remove(fiber)

    def _end(self) -> None:
        for process in list(self.processes):
            self.kill(process)
        for fiber in self.fibers:
            fiber.throw(GreenletExit)
        self.fibers.clear()
