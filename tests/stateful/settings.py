"""How many examples the stateful tests run: a few by default, and as many as `make stateful EXAMPLES=...` sets."""

import os

from hypothesis import HealthCheck, Phase, settings

#: Factor of the number of examples.
EXAMPLES = int(os.environ.get("CORPUSMILL_STATEFUL_EXAMPLES", "1"))


#: With few examples, a failure is shown as it was found. To make it smaller takes longer than a test may take.
PHASES = [Phase.generate] if EXAMPLES == 1 else list(Phase)


def few(examples, steps):
    """Return the settings of a machine that runs ``examples`` examples of ``steps`` steps by default."""
    return settings(
        max_examples=examples * EXAMPLES,
        stateful_step_count=steps,
        phases=PHASES,
        deadline=None,
        # A step trains a model, so drawing and shrinking take long compared with other tests.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
