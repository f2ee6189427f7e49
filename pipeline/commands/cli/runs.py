"""Commands that look at runs, models and stores: inspect, report, watch."""

import contextlib
import json

import click

from ...formatting import without_controls
from . import show
from .options import json_option


@click.command()
@click.argument("url", metavar="PATH")
@json_option
def inspect(url: str, as_json: bool) -> None:
    """Describe what is stored at a path or URL.

    PATH may hold a corpus, matrix, graph, run or model, or the versions of a model.

    \b
    Example:
      corpusmill inspect demo/corpus
    """
    from ..actions.inspect import inspect as describe

    facts = describe(url)
    show.result(facts, as_json)


@click.command()
@click.argument("url", metavar="RUN")
@click.argument("other", required=False)
@click.option(
    "--out",
    metavar="FILE",
    help="HTML file to write.  [default: report.html inside RUN, or comparison.html in the current folder]",
)
@json_option
def report(url: str, other: str | None, out: str | None, as_json: bool) -> None:
    """Write an HTML page about a run, or one that compares two runs.

    RUN and OTHER are runs, complete or not, or models. If they hold the versions of a retrained model, the version in
    use is taken.

    \b
    Examples:
      corpusmill report demo/run --out demo/report.html
      corpusmill report runs/100 runs/200
      corpusmill report models/news/versions/000011-0012/model models/news
    """
    from ...publishing.report import write_comparison, write_report

    if other is None:
        path = write_report(url, out)
    else:
        path = write_comparison(url, other, out)
    facts = {"report": path}
    show.result(facts, as_json)


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option("--once", is_flag=True, help="Print the current state once and exit.")
@json_option
def watch(run_url: str, once: bool, as_json: bool) -> None:
    """Print the progress of a run while another process trains it.

    RUN is the folder or URL of a run or of a retrained model. There is a line every few seconds until the run ends.
    Ctrl-C ends only this command. The live page of a cluster shows more, and so does `corpusmill report`, also before
    the end of a run.

    \b
    Examples:
      corpusmill watch runs/articles
      corpusmill watch models/news                           what retrain trains now
      corpusmill watch runs/articles --json | jq .eta_seconds
    """
    from ..actions.watch import describe, lines, look

    if as_json:
        click.echo(json.dumps(look(run_url).summary()))
    elif once:
        click.echo(without_controls(describe(look(run_url))))
    else:
        # Ctrl-C is the usual way to end this command, not an error.
        with contextlib.suppress(KeyboardInterrupt):
            for line in lines(run_url):
                click.echo(without_controls(line))
