"""Prefect: retrain every night. Run `python prefect_flow.py` to serve the flow."""

import json
import subprocess

from prefect import flow, task


@task(retries=2, retry_delay_seconds=600)
def retrain(config: str) -> dict[str, object]:
    """Run the command. A failure raises, and the retry resumes after the last epoch."""
    result = subprocess.run(["corpusmill", "retrain", config, "--json"], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@flow(name="corpusmill-retrain")
def nightly(config: str = "/srv/corpusmill/my.yaml") -> dict[str, object]:
    """Retrain the published model."""
    return retrain(config)


if __name__ == "__main__":
    nightly.serve(name="nightly", cron="30 2 * * *")
