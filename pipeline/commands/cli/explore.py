"""The command that shows a model in the browser: explore."""

import click

from . import show
from .options import json_option


@click.command(short_help="Show a model in the browser.")
@click.argument("url", metavar="RUN_OR_MODEL")
@click.option(
    "--corpus", metavar="CORPUS", help="Corpus whose documents are shown.  [default: the one that was trained on]"
)
@click.option("--html", metavar="FILE", help="Write one file that needs no server, for small models, and exit.")
@click.option(
    "--documents",
    "limit",
    default=100_000,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Number of documents, drawn at random, in which topics are looked for.",
)
@click.option("--labels", metavar="FILE", help="Words or nodes and their labels, one pair per line, to colour the map.")
@click.option("--compare", metavar="MODEL", help="Another model, such as an earlier version, to compare with.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port to listen on.  [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@json_option
def explore(
    url: str,
    corpus: str | None,
    html: str | None,
    limit: int,
    labels: str | None,
    compare: str | None,
    port: int,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Show a model in the browser: its topics, words and documents, or its vectors.

    RUN_OR_MODEL is the folder or URL of a run, of a model, or of the versions of one. The page shows a map of the
    topics, their words and documents, and the topics of each word and document. Topics can be given names there, which
    all commands show. The server listens on this machine only, and its address contains a secret. Ctrl-C ends it.

    \b
    Examples:
      corpusmill explore demo/model
      corpusmill explore demo/model --html topics.html
      corpusmill explore runs/graph/model --labels groups.tsv
    """
    if not as_json:
        click.echo("explore: reading the model and its documents", err=True)
    from ..actions.explore import open_page, serve, write_html

    explorer = open_page(url, corpus, limit, labels, compare)
    if html is not None:
        facts = {"page": html, "bytes": write_html(explorer, html)}
        show.result(facts, as_json)
        return

    def report(address: str) -> None:
        show.result({"url": address}, as_json, lambda: click.echo(f"{address}\nCtrl-C ends the server."))

    serve(explorer, port, not no_browser, report)
