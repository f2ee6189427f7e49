"""The commands of models that are brought up to date again and again: retrain, versions, rollback, diff."""

import sys
from typing import Any

import click

from ..terminal import show
from .options import CONFIGS, REFUSED, as_one_line, config_options, json_option, load_config, measured, working


@click.command()
@CONFIGS
@click.option("--as-of", type=click.DateTime(["%Y-%m-%d"]), help="Take partitions up to this day only, for backfills.")
@click.option("--fresh", is_flag=True, help="Train anew on all partitions instead of going on from the last model.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@click.option("--unchanged", default=0, metavar="CODE", help="Exit code when there is nothing to do.")
@config_options
@json_option
def retrain(
    configs: tuple[str, ...],
    as_of: Any,
    fresh: bool,
    dry_run: bool,
    unchanged: int,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Bring a published model up to date, every night.

    Only files that are new or changed since the last time are read. The model goes on from the version in use, is
    judged on held-out documents that stay the same, and is published unless it is worse. A call that was killed is
    finished by the next one.

    \b
      corpusmill retrain my.yaml
      corpusmill retrain my.yaml --dry-run
      corpusmill retrain my.yaml --as-of 2026-11-20 --json
    \b
    Exit codes: 0 published or nothing to do, 3 refused (the version in use stays, the new one is kept beside it),
    2 bad configuration, 4 bad data, 75 another process retrains, 143 terminated.
    """
    from ..actions.retraining.retrain import Request, Watchers
    from ..actions.retraining.retrain import retrain as bring_up_to_date

    with as_one_line(as_json):
        config = load_config(configs, settings)
        if dry_run:
            config.run.metrics_file = None
        with measured(config, config.retrain.url) as job, working(config, as_json) as (client, display):
            request = Request(as_of.date() if as_of else None, fresh, dry_run)
            facts = bring_up_to_date(config, client, request, Watchers(display.ingest, [display.train, job.observe]))
            job.exit_status = REFUSED if facts["status"] == "refused" else 0
    show.say(facts, as_json, lambda: show.retrained(facts))
    sys.exit({"refused": REFUSED, "unchanged": unchanged}.get(facts["status"], 0))


@click.command()
@click.argument("url", metavar="VERSIONS")
@json_option
def versions(url: str, as_json: bool) -> None:
    """List the versions of a retrained model, newest first.

    \b
      corpusmill versions models/news
      corpusmill topics models/news                          the version in use
      corpusmill topics models/news/versions/000012/model    any other
    """
    from ...models.versions import Versions

    rows = Versions(url).list()
    show.say({"url": url, "versions": rows}, as_json, lambda: show.versions(rows))


@click.command()
@click.argument("url", metavar="VERSIONS")
@click.argument("version", required=False, type=click.IntRange(1))
@json_option
def rollback(url: str, version: int | None, as_json: bool) -> None:
    """Put another version in use, by default the one before.

    The version that is left is withdrawn: it is not published again by itself. A version that was refused can be put
    in use as well.

    \b
      corpusmill rollback models/news
      corpusmill rollback models/news 12
    """
    from ...models.versions import Versions

    facts = Versions(url).rollback(version)
    show.say(facts, as_json, lambda: show.facts(facts))


@click.command()
@click.argument("url", metavar="VERSIONS")
@click.argument("old", required=False, type=click.IntRange(1))
@click.argument("new", required=False, type=click.IntRange(1))
@json_option
def diff(url: str, old: int | None, new: int | None, as_json: bool) -> None:
    """Show how two versions of a model differ.

    By default the version in use and the one before. Topics are matched, and drift is how far each moved: 0 is the
    same, 1 has no word in common. Of vectors, the neighbours that words kept.

    \b
      corpusmill diff models/news
      corpusmill diff models/news 11 13
    """
    from ..actions.diff import compare_versions

    facts = compare_versions(url, old, new)
    show.say(facts, as_json, lambda: show.drift(facts))
