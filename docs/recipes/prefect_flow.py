"""Prefect: retrain every night. Run `python prefect_flow.py` to serve the flow.

A failure is retried and resumes, unless a retry cannot help: a bad configuration (2), a worse model (3), bad data (4).
"""

import json
import subprocess
from typing import Any

from prefect import flow, task


class RetryInVain(Exception):
    """A failure that the same command meets again."""


def may_pass(task: object, task_run: object, state: Any) -> bool:
    """Return whether a retry of a failed task may succeed."""
    return not isinstance(state.result(raise_on_failure=False), RetryInVain)


@task(retries=2, retry_delay_seconds=600, retry_condition_fn=may_pass)
def retrain(config: str) -> dict[str, object]:
    """Run the command. A failure raises with the reason, and a retry resumes after the last epoch."""
    result = subprocess.run(["corpusmill", "retrain", config, "--json"], capture_output=True, text=True)
    if result.returncode:
        reason = result.stderr.strip()[-2000:] or "no message"
        kind = RetryInVain if result.returncode in (2, 3, 4) else RuntimeError
        raise kind(f"corpusmill retrain: exit code {result.returncode}: {reason}")
    return json.loads(result.stdout)


@flow(name="corpusmill-retrain")
def nightly(config: str = "/srv/corpusmill/my.yaml") -> dict[str, object]:
    """Retrain the published model."""
    return retrain(config)


if __name__ == "__main__":
    nightly.serve(name="nightly", cron="30 2 * * *")
