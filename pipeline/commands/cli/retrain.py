"""Commands for models that are retrained again and again: retrain, versions, rollback, diff."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from . import show
from .errors import ExitCode
from .options import configs_argument, json_option, set_option
from .session import job_metrics, load_config, mlflow_of, open_session

if TYPE_CHECKING:
    from ...engine.events import Callback


@click.command()
@configs_argument
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Use only files dated up to this day. Dates are found in the paths by the pattern retrain.dates.",
)
@click.option("--fresh", is_flag=True, help="Train a new model on all files instead of updating the version in use.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and write nothing.")
@click.option(
    "--verify",
    type=click.Choice(["time", "digest"]),
    default="time",
    show_default=True,
    help="How to find changed files: by size and times (on object stores, by tags), or by a digest of the content, "
    "which reads every file.",
)
@click.option(
    "--unchanged",
    "unchanged_code",
    type=click.IntRange(0, 255),
    default=0,
    show_default=True,
    metavar="CODE",
    help="Exit code if there is nothing to do.",
)
@set_option
@json_option
def retrain(
    configs: tuple[str, ...],
    as_of: datetime | None,
    fresh: bool,
    dry_run: bool,
    verify: str,
    unchanged_code: int,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Update a published model with new documents.

    Run this on a schedule, for example every night. It reads only the files that are new or changed since the last
    call, and continues training from the version in use. The result is a new version. It is published unless it scores
    worse on the held-out documents, which stay the same from call to call. If a call is killed, the next one completes
    its work.

    The first call trains the first version. CONFIG is a YAML file or a name from `corpusmill config list`; its section
    retrain says where the versions are and how much worse a new one may be.

    \b
    Examples:
      corpusmill config example retrain > my.yaml
      corpusmill retrain my.yaml --dry-run
      corpusmill retrain my.yaml
      corpusmill retrain my.yaml --as-of 2026-11-20 --json

    \b
    Exit codes:
      0     published, or nothing to do
      1     any other error, such as lost workers or a full disk
      2     bad configuration
      3     refused: the new version is worse; it is kept, and the version in use stays
      4     bad data, or a run that does not fit in memory
      75    another process is retraining this model
      130   interrupted by Ctrl-C
      143   terminated by SIGTERM
    """
    config = load_config(configs, settings)
    from ...publishing.plan import RetrainRequest
    from ...publishing.retrain import Listeners
    from ...publishing.retrain import retrain as retrain_model

    if dry_run:
        # A dry run must not report success to the monitoring.
        config.run.metrics_file = None
        config.mlflow = None
    with job_metrics(config, config.retrain.url) as job, open_session(config, as_json) as session:
        request = RetrainRequest(as_of.date() if as_of else None, fresh, dry_run, verify_digests=verify == "digest")
        training: list[Callback] = [session.display, job.observe]
        callback = mlflow_of(config)
        if callback is not None:
            training.append(callback)
        found = retrain_model(config, session.client, request, Listeners(session.display, training))
        if callback is not None and found["version"] is not None:
            callback.log_version(config.retrain.url, found)
        if found["status"] == "refused":
            job.exit_status = ExitCode.REFUSED
    show.result(found, as_json, lambda: show.retraining(found))
    if found["status"] == "refused":
        sys.exit(ExitCode.REFUSED)
    if found["status"] == "unchanged":
        # Schedulers can skip later steps if nothing is new.
        sys.exit(unchanged_code)


@click.command()
@click.argument("url", metavar="VERSIONS")
@json_option
def versions(url: str, as_json: bool) -> None:
    """List the versions of a retrained model, newest first.

    VERSIONS is the folder or URL that retrain.url names in the configuration.

    \b
    Examples:
      corpusmill versions models/news
      corpusmill topics models/news                          topics of the version in use
      corpusmill topics models/news/versions/000012-0014/model    topics of another version
    """
    from ...publishing.versions import Versions

    rows = Versions(url).rows()
    show.result({"url": url, "versions": rows}, as_json, lambda: show.versions(rows))


@click.command()
@click.argument("url", metavar="VERSIONS")
@click.argument("version", required=False, type=click.IntRange(1))
@json_option
def rollback(url: str, version: int | None, as_json: bool) -> None:
    """Put another version of a model in use.

    Without VERSION, goes back to the version before the one in use. You can also choose a version that was refused.
    The version that was in use until now is marked as withdrawn: retrain does not publish it again.

    \b
    Examples:
      corpusmill rollback models/news
      corpusmill rollback models/news 12
    """
    from ...publishing.versions import Versions

    facts = Versions(url).rollback(version)
    show.result(facts, as_json)


@click.command()
@click.argument("url", metavar="VERSIONS")
@click.argument("old", required=False, type=click.IntRange(1))
@click.argument("new", required=False, type=click.IntRange(1))
@json_option
def diff(url: str, old: int | None, new: int | None, as_json: bool) -> None:
    """Show how two versions of a model differ.

    Without OLD and NEW, compares the version in use with the one before it. Topics are matched by their words. The
    drift of a topic is the distance between its old and new word distribution: 0 if they are equal, 1 if they share no
    word. For word vectors, shows how many nearest neighbours each word kept.

    \b
    Examples:
      corpusmill diff models/news
      corpusmill diff models/news 11 13
    """
    from ...publishing.compare import compare_versions

    found = compare_versions(url, old, new)
    show.result(found, as_json, lambda: show.version_diff(found))
