"""Airflow 3: retrain every night.

The task is shown as skipped (exit code 99) if no data is new. A task that failed is retried and resumes, unless a retry
cannot help: a bad configuration (2), a worse model (3), bad data (4).
"""

import re
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException


class Retrain(BashOperator):
    """Runs the command, and lets errors fail at once that a retry cannot change."""

    def execute(self, context: Context) -> object:
        """Run the command of this task."""
        try:
            return super().execute(context)
        except AirflowSkipException:
            raise
        except AirflowException as error:
            if re.search(r"exit code [234]\b", str(error)):
                raise AirflowFailException(str(error)) from error
            raise


with DAG(
    "corpusmill_retrain",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    Retrain(
        task_id="retrain",
        # Yesterday's files are complete. Not {{ ds }}: that is today in Airflow 3, and missing in runs started by hand.
        bash_command="corpusmill retrain /srv/corpusmill/my.yaml --as-of `date -d yesterday +%F` --unchanged 99 --json",
        skip_on_exit_code=99,
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
