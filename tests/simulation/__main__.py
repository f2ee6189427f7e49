"""Runs simulations: make simulate SEED=1 COUNT=1000. A failing seed is replayed with SEED=... COUNT=1."""

import sys
import time
import traceback
from collections import Counter

import click

from .simulate import SCENARIOS, simulate_many
from .world import Violation


@click.command()
@click.option("--seed", default=1, help="The first seed.")
@click.option("--count", default=1000, help="How many seeds.")
@click.option("--seconds", default=float("inf"), help="Stop after this time.")
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), help="Only this one; by default all in turn.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
@click.option("--trace", is_flag=True, help="Print the last operations, even of a simulation without a failure.")
def main(seed, count, seconds, scenario, keep_going, trace):
    """Print what was simulated, and the operations before the first failure."""
    names = [scenario] if scenario else list(SCENARIOS)
    counts = Counter()
    began = time.monotonic()
    failures = 0
    for outcome in simulate_many(seed, count, seconds, names):
        counts["simulations"] += 1
        counts += outcome.counts
        if trace or (outcome.error is not None and not keep_going):
            click.echo("\n".join(outcome.trace))
        if outcome.error is not None:
            failures += 1
            option = f" SCENARIO={scenario}" if scenario else ""
            if not isinstance(outcome.error, Violation):
                traceback.print_exception(outcome.error)
            click.echo(f"{outcome.scenario}: {outcome.error!r}\nmake simulate SEED={outcome.seed} COUNT=1{option}")
            if not keep_going:
                break
    elapsed = time.monotonic() - began
    click.echo("\n".join(f"{name:<28} {number}" for name, number in sorted(counts.items())))
    click.echo(f"{counts['simulations'] / elapsed * 60:.0f} simulations per minute, {failures} failures")
    sys.exit(failures > 0)


main()
