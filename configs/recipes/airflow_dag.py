"""Airflow: retrain every night.

The task is shown as skipped (exit code 99) if no data is new. A task that failed is retried and resumes.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "corpusmill_retrain",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="retrain",
        bash_command="corpusmill retrain /srv/corpusmill/my.yaml --as-of {{ ds }} --unchanged 99 --json",
        skip_on_exit_code=99,
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
