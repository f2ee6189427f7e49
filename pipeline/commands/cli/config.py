"""The commands about configurations: show, example, list, schema."""

import json

import click

from ..terminal import show
from .options import config_options, json_option, load_config


@click.group()
def config() -> None:
    """Show configurations and what they may say."""


@config.command("show")
@click.argument("configs", nargs=-1, metavar="CONFIG...")
@config_options
@json_option
def config_show(configs: tuple[str, ...], settings: tuple[str, ...], as_json: bool) -> None:
    """Print what a command would use.

    Defaults, then files, environment and --set.

    \b
      corpusmill config show my.yaml clusters/jobqueue --set model.max_iter=50
    """
    import yaml

    from ....configs.resolve import public

    shown = public(load_config(configs or ("quickstart",), settings))
    show.say(shown, as_json, lambda: click.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), nl=False))


@config.command("example")
@click.argument("name")
def config_example(name: str) -> None:
    """Print one that ships, comments and all.

    \b
      corpusmill config example lda > my.yaml
    """
    from ....configs.layers import read_file

    click.echo(read_file(name).text, nl=False)


@config.command("list")
@json_option
def config_list(as_json: bool) -> None:
    """Print the names of those that ship."""
    from ....configs.layers import shipped

    show.say({"configs": shipped()}, as_json, lambda: click.echo("\n".join(shipped())))


@config.command("schema")
def config_schema() -> None:
    """Print every key, its meaning and default, as JSON schema."""
    from ....configs.schema import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))
