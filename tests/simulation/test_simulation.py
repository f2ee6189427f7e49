"""Simulated training and retraining: many interleavings with faults, each determined by its seed."""

import os

import pytest
from simulation.object_store import PROTOCOL, Bucket, SimulatedStore
from simulation.simulate import SCENARIOS, simulate, simulate_many
from simulation.virtual import virtual_library
from simulation.world import Violation, World

#: Seconds of simulation per scenario. `make simulate` runs longer.
SECONDS = float(os.environ.get("CORPUSMILL_SIMULATION_SECONDS", "4"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_interleaving_loses_or_mixes_what_was_committed(scenario):
    for outcome in simulate_many(1, 1_000_000, SECONDS, [scenario]):
        if outcome.error is not None:
            trace = "\n".join(outcome.trace)
            command = f"make simulate SEED={outcome.seed} COUNT=1 SCENARIO={scenario}"
            raise AssertionError(f"{trace}\n{command}") from outcome.error


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_determines_everything_that_happens(scenario):
    first = simulate(5, [scenario])
    assert first.trace
    assert simulate(5, [scenario]).digest == first.digest
    assert simulate(6, [scenario]).digest != first.digest


def test_the_simulation_finds_an_update_that_is_lost_between_two_processes():
    """Two processes each read a number and write the next one, without a lock."""
    found = 0
    for seed in range(20):
        with virtual_library(seed):
            world = World(seed, is_faulty=False)
            SimulatedStore.bucket = Bucket()
            SimulatedStore.bucket.put("bucket/number", b"0")
            store = SimulatedStore()

            def count(store=store):
                number = int(store.cat_file(f"{PROTOCOL}://bucket/number"))
                store.pipe_file(f"{PROTOCOL}://bucket/number", b"%d" % (number + 1))

            for name in ("a", "b"):
                world.start(name, world.start_process(name), count)
            world.run()
            found += SimulatedStore.bucket.objects["bucket/number"].content == b"1"
    assert 0 < found < 20


def test_a_deadlock_is_a_violation():
    with virtual_library(1):
        world = World(1, is_faulty=False)
        world.start("a", world.start_process("a"), lambda: world.wait(lambda: False))
        with pytest.raises(Violation, match="wait for each other"):
            world.run()
