"""Prefect: python prefect_flow.py serves the flow every night."""

import json
import subprocess

from prefect import flow, task


@task(retries=2, retry_delay_seconds=600)
def retrain(config: str) -> dict:
    """Run the command; a failure raises, and the next try goes on from the last epoch."""
    done = subprocess.run(["corpusmill", "retrain", config, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@flow(name="corpusmill-retrain")
def nightly(config: str = "/srv/corpusmill/my.yaml") -> dict:
    """Bring the published model up to date."""
    return retrain(config)


if __name__ == "__main__":
    nightly.serve(name="nightly", cron="30 2 * * *")
