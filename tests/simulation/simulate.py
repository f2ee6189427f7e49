"""Runs one simulation after another."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from .power import PowerScenario
from .publishing import PublishingScenario
from .training import TrainingScenario
from .virtual import virtual_library
from .world import World


class Scenario(Protocol):
    """What happens in a world."""

    def close(self) -> None:
        """Free what the scenario holds."""

    def check_end(self) -> None:
        """Raise Violation if the result is wrong."""


SCENARIOS: dict[str, Callable[[World], Scenario]] = {
    "training": TrainingScenario,
    "publishing": PublishingScenario,
    "power": PowerScenario,
}


@dataclass
class Outcome:
    """What one simulation found."""

    seed: int
    scenario: str
    error: BaseException | None = None
    digest: str = ""
    trace: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def simulate(seed: int, names: list[str]) -> Outcome:
    """Run the simulation of a seed in one of these scenarios."""
    scenario_name = names[seed % len(names)]
    outcome = Outcome(seed, scenario_name)
    with virtual_library(seed):
        world = World(seed)
        scenario = SCENARIOS[scenario_name](world)
        try:
            world.run()
            scenario.check_end()
        except Exception as error:
            outcome.error = error
        finally:
            scenario.close()
    outcome.digest = world.digest
    outcome.trace = list(world.trace)
    outcome.counts = world.counts
    return outcome


def simulate_many(first: int, count: int, seconds: float, names: list[str]) -> Iterator[Outcome]:
    """Run the simulations of consecutive seeds until all are done or the time is over."""
    end = time.monotonic() + seconds
    # Collections take longer than simulations, because the compiled kernels and their types are many objects.
    gc.collect()
    gc.freeze()
    try:
        for seed in range(first, first + count):
            yield simulate(seed, names)
            if time.monotonic() > end:
                return
    finally:
        gc.unfreeze()
