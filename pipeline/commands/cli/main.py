"""The command line. Start-up is quick: what a command needs is imported when it runs."""

import json
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NoReturn

import click

from ..terminal import show
from .config import config
from .options import (
    CONFIGS,
    INTERRUPTED,
    TERMINATED,
    USAGE,
    Facts,
    Terminated,
    cluster_option,
    config_options,
    explain,
    json_option,
    load_config,
    measured,
    overwrite_option,
    part_option,
    working,
)
from .retrain import diff, retrain, rollback, versions


class Commands(click.Group):
    """Lists commands in the order in which a user meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of this file."""
        return list(self.commands)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 2 bad command or configuration, 3 a retrained model was refused, 4 bad data, "
    "75 locked by another process, 130 and 143 stopped by Ctrl-C and SIGTERM, 1 anything else.",
)
@click.version_option(package_name="corpusmill")
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and what Dask logs.")
def cli(debug: bool) -> None:
    """Topics, factors and embeddings from corpora that do not fit in memory.

    \b
    Try it:
      corpusmill run quickstart              topics of the King James Bible, in a minute
    \b
    Your own documents:
      corpusmill config example lda > my.yaml
      corpusmill run my.yaml --set source.path=articles.jsonl
      corpusmill run my.yaml --set model.n_components=200 --set run.url=runs/200
      corpusmill topics runs/articles/model
    """


# --- the commands ---


@cli.command()
@CONFIGS
@config_options
@overwrite_option
@json_option
def run(configs: tuple[str, ...], settings: tuple[str, ...], overwrite: bool, as_json: bool) -> None:
    """Ingest and train: from documents to a model and a report.

    CONFIG is a YAML file, or the name of one that ships (corpusmill config list); of several, later ones win.
    What is there already is not done again.

    \b
      corpusmill run quickstart
      corpusmill run my.yaml --set source.path='s3://news/*.parquet'
      corpusmill run my.yaml clusters/jobqueue
      CORPUSMILL_MODEL__N_COMPONENTS=200 corpusmill run my.yaml
    """
    from ..actions import ingest as ingest_actions
    from ..actions import train as train_actions

    config = load_config(configs, settings)
    train_actions.estimator_of(config)
    with measured(config, config.run.url) as job, working(config, as_json) as (client, display):
        corpus = ingest_actions.ingest(config, client, display.ingest, overwrite) if config.source else None
        trained = _train(config, client, display, job, overwrite)
    show.say({"corpus": corpus, **trained}, as_json, lambda: show.run(corpus, trained))


@cli.command()
@click.argument("source")
@click.argument("corpus")
@cluster_option
@config_options
@overwrite_option
@json_option
def ingest(
    source: str, corpus: str, configs: tuple[str, ...], settings: tuple[str, ...], overwrite: bool, as_json: bool
) -> None:
    """Turn documents into a corpus store.

    SOURCE is a file, folder, glob or URL: Parquet, JSONL, CSV, text, UCI docword, svmlight, MatrixMarket.
    An interrupted ingest goes on where it stopped; a repeated one does nothing.

    \b
      corpusmill ingest articles.jsonl.gz corpus --set source.text=body
      corpusmill ingest 's3://news/*.parquet' s3://work/corpus --set source.stop_words=english
      corpusmill ingest docword.nips.txt.gz corpus --set source.vocabulary_file=vocab.nips.txt
    """
    config = load_config(configs, settings, {"source": {"path": source}, "corpus": {"url": corpus}})
    with working(config, as_json) as (client, display):
        from ..actions import ingest as ingest_actions

        facts = ingest_actions.ingest(config, client, display.ingest, overwrite)
    show.say(facts, as_json, lambda: show.corpus(facts))


@cli.command()
@click.argument("edges")
@click.argument("graph")
@click.option("--directed", is_flag=True, help="An edge leads from its first node to its second alone.")
@click.option("--unweighted", is_flag=True, help="Leave weights aside.")
@click.option("--header/--no-header", default=None, help="Whether a list's first line names its columns.")
@click.option("--columns", nargs=2, metavar="FROM TO", help="Parquet columns of an edge's nodes; else the first two.")
@overwrite_option
@json_option
def graph(edges: str, graph: str, overwrite: bool, as_json: bool, **options: Any) -> None:
    """Turn edges into a graph store, for node2vec.

    EDGES is a file, glob or URL: lines of two nodes and maybe a weight (tabs, commas or spaces), Parquet, a sparse
    matrix as .npz, MatrixMarket.

    \b
      corpusmill graph edges.tsv graphs/links --directed
      corpusmill config example node2vec > my.yaml
      corpusmill train my.yaml --set corpus.url=graphs/links
    """
    from ..actions import ingest as ingest_actions

    facts = ingest_actions.graph(edges, graph, overwrite, **options)
    show.say(facts, as_json, lambda: show.facts(facts))


@cli.command()
@CONFIGS
@config_options
@overwrite_option
@json_option
def train(configs: tuple[str, ...], settings: tuple[str, ...], overwrite: bool, as_json: bool) -> None:
    """Train on a corpus that is there already.

    \b
      corpusmill train my.yaml
      corpusmill train my.yaml --set model.max_iter=400      goes on from the last epoch
    """
    config = load_config(configs, settings)
    with measured(config, config.run.url) as job, working(config, as_json) as (client, display):
        trained = _train(config, client, display, job, overwrite)
    show.say(trained, as_json, lambda: show.trained(trained))


@cli.command()
@click.argument("run_url", metavar="RUN")
@config_options
@json_option
def resume(run_url: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Go on with a run that was broken off.

    It goes on from its last epoch, with the configuration that it was last trained with.

    \b
      corpusmill resume runs/articles
      corpusmill resume runs/articles --set model.max_iter=400
    """
    from ....configs.layers import Layer
    from ...engine.run import RunStore

    meta = RunStore(run_url).meta
    # A run that began in Python knows no more than its model and its data.
    remembered = Layer(f"{run_url}/run.json", {"corpus": {"url": meta["data"]["url"]}} | meta["config"])
    config = load_config([remembered], settings, {"run": {"url": run_url}})
    with measured(config, config.run.url) as job, working(config, as_json) as (client, display):
        trained = _train(config, client, display, job, False)
    show.say(trained, as_json, lambda: show.trained(trained))


@cli.command()
@click.argument("model")
@click.argument("corpus")
@part_option("held_out")
@click.option("--method", type=click.Choice(("completion", "left-to-right")), help="How an LDA model scores documents.")
@click.option(
    "--coherence",
    "measures",
    multiple=True,
    type=click.Choice(("u_mass", "npmi", "c_v")),
    help="Also say how well topics' words belong together in these documents; may be repeated.",
)
@cluster_option
@config_options
@json_option
def evaluate(
    model: str,
    corpus: str,
    part: str,
    method: str | None,
    measures: tuple[str, ...],
    configs: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Score a model on documents.

    Half of each document estimates its topics, the other half is scored.

    \b
      corpusmill evaluate demo/model demo/corpus
      corpusmill evaluate demo/model demo/corpus --part train --coherence c_v
      corpusmill evaluate demo/model demo/corpus --method left-to-right    whole documents; for small sets
    """
    config = load_config(configs, settings)
    with working(config, as_json) as (client, _):
        from ..actions import models as models_actions

        options = {"method": method} if method else {}
        facts = models_actions.evaluate(model, corpus, part, client, options)
        facts |= models_actions.coherence(model, corpus, part, measures, client)
    show.say(facts, as_json, lambda: show.facts(facts))


@cli.command()
@click.argument("model")
@click.argument("out")
@click.option("--format", "form", type=click.Choice(("tsv", "mallet")), default="tsv", show_default=True)
@click.option("--corpus", help="A corpus whose documents' topics are written too (mallet).")
@part_option("train")
@json_option
def export(model: str, out: str, form: str, corpus: str | None, part: str, as_json: bool) -> None:
    """Write a topic model as files for other tools.

    tsv: the heaviest words of each topic. mallet: topic-keys.txt and, with --corpus, doc-topics.txt.

    \b
      corpusmill export demo/model topics/
      corpusmill export demo/model topics/ --format mallet --corpus demo/corpus
    """
    from ..actions import models as models_actions

    facts = models_actions.export(model, out, form, corpus, part)
    show.say(facts, as_json, lambda: show.facts(facts))


@cli.command()
@click.argument("model")
@click.argument("corpus")
@click.argument("out")
@part_option("train")
@cluster_option
@config_options
@json_option
def transform(
    model: str,
    corpus: str,
    out: str,
    part: str,
    configs: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write each document's topic weights as Parquet.

    A file a chunk, with the columns document and weights.

    \b
      corpusmill transform demo/model demo/corpus demo/weights
      python -c "import pandas; print(pandas.read_parquet('demo/weights'))"
    """
    config = load_config(configs, settings)
    with working(config, as_json) as (client, _):
        from ..actions import models as models_actions

        facts = models_actions.transform(model, corpus, out, part, client)
    show.say(facts, as_json, lambda: show.facts(facts))


@cli.command()
@click.argument("model")
@click.option("--words", default=10, show_default=True, type=click.IntRange(1), help="Words of each topic.")
@json_option
def topics(model: str, words: int, as_json: bool) -> None:
    """Print a model's topics as words, largest first.

    \b
      corpusmill topics demo/model
      corpusmill topics demo/model --words 20 --json | jq '.topics[0]'
    """
    from ...models.registry import load_model
    from ..actions import models as models_actions

    estimator = load_model(model)
    found = models_actions.topics(estimator, words)
    if not found:
        raise click.UsageError(f"{model}: models of kind {estimator.kind} have no topics; see corpusmill similar")
    show.say({"model": model, "topics": found}, as_json, lambda: show.topics(found))


@cli.command()
@click.argument("model")
@click.argument("words", nargs=-1, required=True)
@click.option("--without", multiple=True, metavar="WORD", help="Subtract a word.")
@click.option("--documents", metavar="CORPUS", help="Find documents of this corpus instead.")
@part_option("train")
@click.option("--number", default=10, show_default=True, type=click.IntRange(1), help="How many to print.")
@json_option
def similar(model: str, words: tuple[str, ...], documents: str | None, as_json: bool, **options: Any) -> None:
    """Print the words, or the documents, nearest to some words.

    Words: of a model with vectors, word2vec, node2vec or random-indexing. Documents: of any model of text.

    \b
      corpusmill similar runs/vectors/model sea
      corpusmill similar runs/vectors/model king woman --without man
      corpusmill similar demo/model sea ships --documents demo/corpus
    """
    from ..actions import models as models_actions

    found = models_actions.similar(model, words, documents, **options)
    show.say({"model": model, "similar": found}, as_json, lambda: show.neighbours(found))


@cli.command()
@click.argument("url", metavar="ANYTHING")
@json_option
def inspect(url: str, as_json: bool) -> None:
    """Say what lies at a path or URL.

    A corpus, matrix, graph, run, model or versions of one; how big it is, and of which format.

    \b
      corpusmill inspect demo/corpus
    """
    from ..actions import inspect as inspect_actions

    facts = inspect_actions.inspect(url)
    show.say(facts, as_json, lambda: show.facts(facts))


@cli.command()
@click.argument("url", metavar="RUN")
@click.argument("other", required=False)
@click.option("--out", metavar="FILE", help="Where to; by default report.html inside the run, or comparison.html.")
@json_option
def report(url: str, other: str | None, out: str | None, as_json: bool) -> None:
    """Write a page about a run, or one that compares two.

    RUN and OTHER are runs, finished or not, or models; with versions it is the one in use.

    \b
      corpusmill report demo/run --out demo/report.html
      corpusmill report runs/100 runs/200
      corpusmill report models/news/versions/000011/model models/news
    """
    from ..actions import report as pages

    facts = {"report": pages.compare(url, other, out) if other else pages.report(url, out)}
    show.say(facts, as_json, lambda: show.facts(facts))


@cli.command()
@click.argument("run_url", metavar="RUN")
@click.option("--once", is_flag=True, help="Show how it stands now, and end.")
@json_option
def watch(run_url: str, once: bool, as_json: bool) -> None:
    """Look on while another process trains.

    RUN is a run's folder or URL, or the address of a Dask dashboard. It ends with the run; Ctrl-C ends the watching
    only.

    \b
      corpusmill watch runs/articles
      corpusmill watch http://127.0.0.1:8787
      corpusmill watch runs/articles --json | jq .eta_seconds
    """
    import contextlib

    from ..terminal.watch import Watch, show_all

    watched = Watch(run_url)
    if as_json:
        click.echo(json.dumps(watched.look().as_json()))
        return
    with contextlib.suppress(KeyboardInterrupt):
        show_all([watched.look()] if once else watched.follow())


for command in (retrain, versions, rollback, diff, config):
    cli.add_command(command)


# --- around a command ---


def _train(config: Any, client: Any, display: Any, job: Any, overwrite: bool) -> Facts:
    from ...models.registry import load_model
    from ..actions import models as models_actions
    from ..actions import train as train_actions

    if client is not None and client.dashboard_link and find_spec("bokeh"):
        display.page = client.dashboard_link.replace("/status", "/training")
    trained = train_actions.train(config, client, [display.train, job.observe], overwrite)
    return trained | {"topics": models_actions.topics(load_model(trained["model"]))}


# --- errors and signals ---


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: an error is one sentence on stderr and an exit code."""
    # --debug belongs before the command; it is understood wherever it stands.
    given = sorted(sys.argv[1:] if arguments is None else arguments, key=lambda argument: argument != "--debug")
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _once_more
    try:
        cli.main(given, prog_name="corpusmill", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except (Exception, KeyboardInterrupt, Terminated) as error:
        sentence, code = explain(error)
        if "--debug" in given and code not in (INTERRUPTED, TERMINATED):
            raise
        _fail(sentence, code)


def _terminate(*_: Any) -> NoReturn:
    """Leave whatever goes on; what is being closed then is not left a second time."""
    # A signal that is ignored would be so in processes that start now, and nothing could end them.
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise Terminated(TERMINATED)


def _once_more(lost: Any) -> None:
    """Let a stop come again that came while Python freed an object: what is raised there goes nowhere."""
    if not isinstance(lost.exc_value, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(lost)
        return
    signum = signal.SIGINT
    if isinstance(lost.exc_value, Terminated):
        signum = signal.SIGTERM
        signal.signal(signum, _terminate)
    # Not at once: it would be lost in the same place. A signal also ends what the main thread waits for.
    threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signum)).start()


def _fail(sentence: str, code: int) -> NoReturn:
    click.echo(f"corpusmill: {sentence}", err=True)
    sys.exit(code)
