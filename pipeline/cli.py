"""The command line. Start-up is quick: what a command needs is imported when it runs."""

import json
import math
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import click

USAGE, DATA, FAILED, LOCKED, INTERRUPTED, TERMINATED = 2, 4, 1, 75, 130, 143

Facts = dict[str, Any]


class Commands(click.Group):
    """Lists commands in the order in which a user meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of this file."""
        return list(self.commands)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 2 bad command or configuration, 4 bad data, 75 locked by another process.",
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
      corpusmill config show lda > my.yaml   a configuration to start from
      corpusmill run my.yaml                 ingest, train, report
      corpusmill run my.yaml --set model.n_components=200 --set run.url=runs/200
      corpusmill topics runs/articles/model
    """


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what decides the configuration of a command."""
    return click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a key, such as model.max_iter=50."
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and no progress.")(command)


def part_option(default: str) -> Callable[..., Any]:
    """Add --part."""
    return click.option(
        "--part",
        type=click.Choice(["train", "held_out"]),
        default=default,
        show_default=True,
        help="Which of the corpus's documents.",
    )


cluster_option = click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="CONFIG",
    help="A configuration whose cluster is to be used, such as clusters/jobqueue.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what another configuration left there.")
CONFIGS = click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")


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
    config = load_config(configs, settings)
    with working(config, as_json) as (client, display):
        from . import commands

        corpus = commands.ingest(config, client, display.ingest, overwrite)
        trained = _train(config, client, display, overwrite)
    say({"corpus": corpus, **trained}, as_json, lambda: _show_run(corpus, trained))


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
    layer = {"source": {"path": source}, "corpus": {"url": corpus}}
    config = load_config(configs, settings, layer)
    with working(config, as_json) as (client, display):
        from . import commands

        facts = commands.ingest(config, client, display.ingest, overwrite)
    say(facts, as_json, lambda: _show_corpus(facts))


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
    with working(config, as_json) as (client, display):
        trained = _train(config, client, display, overwrite)
    say(trained, as_json, lambda: _show_trained(trained))


@cli.command()
@click.argument("run_url", metavar="RUN")
@config_options
@json_option
def resume(run_url: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Go on with a run that was broken off, from its last epoch, with the configuration that it began with.

    \b
      corpusmill resume runs/articles/run
    """
    from .run import RunStore

    config = load_config((), settings, RunStore(run_url).meta["config"], {"run": {"url": run_url}})
    with working(config, as_json) as (client, display):
        trained = _train(config, client, display, False)
    say(trained, as_json, lambda: _show_trained(trained))


@cli.command()
@click.argument("model")
@click.argument("corpus")
@part_option("held_out")
@cluster_option
@config_options
@json_option
def evaluate(
    model: str, corpus: str, part: str, configs: tuple[str, ...], settings: tuple[str, ...], as_json: bool
) -> None:
    """Score a model on documents: half of each one estimates its topics, the other half is scored.

    \b
      corpusmill evaluate demo/model demo/corpus
    """
    config = load_config(configs, settings, {"corpus": {"url": corpus}})
    with working(config, as_json) as (client, _):
        from . import commands

        facts = commands.evaluate(model, corpus, part, client)
    say(facts, as_json, lambda: show_facts(facts))


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
    """Write each document's topic weights as Parquet: columns document and weights.

    \b
      corpusmill transform demo/model demo/corpus demo/weights
      python -c "import pandas; print(pandas.read_parquet('demo/weights'))"
    """
    config = load_config(configs, settings, {"corpus": {"url": corpus}})
    with working(config, as_json) as (client, _):
        from . import commands

        facts = commands.transform(model, corpus, out, part, client)
    say(facts, as_json, lambda: show_facts(facts))


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
    from . import commands
    from .corpora import load_model

    found = commands.topics(load_model(model), words)
    say({"model": model, "topics": found}, as_json, lambda: _show_topics(found))


@cli.command()
@click.argument("url", metavar="ANYTHING")
@json_option
def inspect(url: str, as_json: bool) -> None:
    """Say what lies at a path or URL: a corpus, a run or a model; how big it is, and of which version.

    \b
      corpusmill inspect demo/corpus
    """
    from . import commands

    facts = commands.inspect(url)
    say(facts, as_json, lambda: show_facts(facts))


@cli.command()
@click.argument("run_url", metavar="RUN")
@click.option("--out", metavar="FILE", help="Where to; by default report.html inside the run.")
@json_option
def report(run_url: str, out: str | None, as_json: bool) -> None:
    """Write one self-contained HTML page about a run, finished or not.

    \b
      corpusmill report demo/run --out demo/report.html
    """
    from . import commands

    facts = commands.report_of_run(run_url, out)
    say(facts, as_json, lambda: show_facts(facts))


@cli.group()
def config() -> None:
    """Show configurations and what they may say."""


@config.command("show")
@click.argument("configs", nargs=-1, metavar="CONFIG...")
@config_options
@json_option
def config_show(configs: tuple[str, ...], settings: tuple[str, ...], as_json: bool) -> None:
    """Print the configuration that a command would use: defaults, then files, environment and --set.

    \b
      corpusmill config show lda > my.yaml
      corpusmill config show my.yaml clusters/jobqueue --set model.max_iter=50
    """
    import yaml

    from ..configs.resolve import public

    shown = public(load_config(configs or ("quickstart",), settings))
    say(shown, as_json, lambda: click.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), nl=False))


@config.command("list")
@json_option
def config_list(as_json: bool) -> None:
    """Print the names of the configurations that ship."""
    from ..configs.resolve import shipped

    say({"configs": shipped()}, as_json, lambda: click.echo("\n".join(shipped())))


@config.command("schema")
def config_schema() -> None:
    """Print the JSON schema of a configuration: every key, what it means, its default."""
    from ..configs.schema import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))


# --- around a command ---


def load_config(configs: Sequence[str], settings: Sequence[str], *trees: Facts) -> Any:
    """Resolve a command's configuration; ``trees`` are what its arguments say, above the files."""
    from ..configs import resolve

    arguments = [resolve.Layer("the command's arguments", tree) for tree in trees]
    return resolve.load(configs, settings, arguments=arguments)


@contextmanager
def working(config: Any, as_json: bool) -> Iterator[tuple[Any, Any]]:
    """Yield a client of the configured cluster and a display; keep Dask's log off the screen unless --debug."""
    import contextlib
    import logging
    import warnings

    import dask

    from .clusters import open_cluster
    from .progress import display

    debug = click.get_current_context().find_root().params["debug"]
    level = "warning" if debug else "critical"
    logging.getLogger("distributed").setLevel(level.upper())
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        if not debug:
            warnings.simplefilter("ignore")
        stack.enter_context(dask.config.set({"logging.distributed": level}))
        client = stack.enter_context(open_cluster(**config.cluster.arguments()))
        yield client, stack.enter_context(display(quiet=as_json))


def _train(config: Any, client: Any, display: Any, overwrite: bool) -> Facts:
    from . import commands
    from .corpora import load_model

    subscribers = [display.train]
    if client is not None:
        from .dashboard import publish

        subscribers.append(publish(client))
        if find_spec("bokeh") and client.dashboard_link:
            display.note(f"live page {client.dashboard_link.replace('/status', '/training')}")
    trained = commands.train(config, client, subscribers, overwrite)
    return trained | {"topics": commands.topics(load_model(trained["model"]))}


def say(facts: Facts, as_json: bool, show: Callable[[], None]) -> None:
    """Print a result for machines or for people."""
    if as_json:
        click.echo(json.dumps(facts))
    else:
        show()


def _show_run(corpus: Facts, trained: Facts) -> None:
    _show_corpus(corpus)
    _show_trained(trained)


def _show_corpus(facts: Facts) -> None:
    held_out = f" and {facts['held_out_documents']:,} held out" if facts["held_out_documents"] else ""
    there = "" if facts["changed"] else ", there already"
    click.echo(
        f"{_label('corpus')}{facts['url']}: {facts['documents']:,} documents{held_out}, {facts['tokens']:,} tokens, "
        f"{facts['words']:,} words, {facts['chunks']} chunks{there}"
    )


def _show_trained(facts: Facts) -> None:
    from .report import duration, minus, short

    _show_topics(facts["topics"], most=40)
    there = "" if facts["trained_epochs"] else ", there already"
    rate = f", {short(facts['tokens_per_second'])} tokens/s" if facts["tokens_per_second"] else ""
    click.echo(f"{_label('trained')}{facts['epochs']} epochs in {duration(facts['training_seconds'])}{rate}{there}")
    score = facts.get("held_out_log_likelihood")
    if score is not None:
        perplexity = short(math.exp(min(-score, 700.0)))
        click.echo(f"{_label('held out')}{minus(f'{score:.4f}')} log-likelihood per token (perplexity {perplexity})")
    for name in ("model", "report"):
        if name in facts:
            click.echo(f"{_label(name)}{facts[name]}")


def _show_topics(topics: Sequence[Facts], most: int | None = None) -> None:
    if not topics:
        return
    click.echo("\n topic   size  words")
    for topic in topics[:most]:
        words = " ".join(word["word"] for word in topic["words"])
        click.echo(f"{topic['topic']:>6}  {topic['size']:>5.1%}  {words}")
    if most is not None and len(topics) > most:
        click.echo(f"        and {len(topics) - most:,} smaller ones")
    click.echo()


def _label(name: str) -> str:
    return click.style(f"{name:<10}", bold=True)


def show_facts(facts: Facts) -> None:
    """Print one fact a line."""
    width = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        click.echo(click.style(f"{name.replace('_', ' '):<{width}}", bold=True) + _fact(name, value))


def _fact(name: str, value: Any) -> str:
    if name == "bytes":
        from dask.utils import format_bytes

        return format_bytes(value)
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


# --- errors and signals ---


def main() -> None:
    """Run the command line: an error is one sentence on stderr and an exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        cli.main(prog_name="corpusmill", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted; the same command goes on from the last epoch", INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        _fail(*explain(error))


def _terminate(*_: Any) -> None:
    click.echo("corpusmill: terminated; the same command goes on from the last epoch", err=True)
    sys.exit(TERMINATED)


def _fail(sentence: str, code: int) -> None:
    click.echo(f"corpusmill: {sentence}", err=True)
    sys.exit(code)


def explain(error: Exception) -> tuple[str, int]:
    """Return one sentence and the exit code for an error."""
    from ..configs.resolve import ConfigError
    from ..io.store import DataError
    from .clusters import ClusterError
    from .executors import TaskLost
    from .run import Locked

    sentence = " ".join(str(error).split())
    codes = {ConfigError: USAGE, ClusterError: USAGE, ValueError: USAGE, ImportError: USAGE}
    codes |= {DataError: DATA, OSError: DATA, Locked: LOCKED, TaskLost: FAILED}
    for kind, code in codes.items():
        if isinstance(error, kind):
            return sentence, code
    return f"{type(error).__name__}: {sentence} (--debug shows where)", FAILED
