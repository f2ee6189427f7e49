"""The command group config: show, example, list, schema."""

import json

import click

from . import show
from .options import json_option, set_option
from .session import load_config


@click.group()
def config() -> None:
    """Print configurations, and list every key that they may hold."""


@config.command("show")
@click.argument("configs", nargs=-1, metavar="[CONFIG]...")
@set_option
@json_option
def config_show(configs: tuple[str, ...], settings: tuple[str, ...], as_json: bool) -> None:
    """Print the complete configuration that a command would use.

    Combines four sources, each overriding the one before: the defaults, the CONFIG files (quickstart if there are
    none), environment variables, and --set. Passwords and other secrets are hidden.

    \b
    Examples:
      corpusmill config show my.yaml clusters/jobqueue --set model.max_iter=50
      CORPUSMILL_MODEL__MAX_ITER=50 corpusmill config show my.yaml
    """
    import yaml

    from ....configs.resolve import without_secrets

    shown = without_secrets(load_config(configs or ("quickstart",), settings))
    as_yaml = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    show.result(shown, as_json, lambda: click.echo(as_yaml, nl=False))


@config.command("example")
@click.argument("name")
def config_example(name: str) -> None:
    """Print a configuration that ships with corpusmill, with its comments.

    NAME is a name from `corpusmill config list`. Redirect the output to a file and edit that.

    \b
    Example:
      corpusmill config example lda > my.yaml
    """
    from ....configs.layers import read_file

    click.echo(read_file(name).text, nl=False)


@config.command("list")
@json_option
def config_list(as_json: bool) -> None:
    """Print the names of the configurations that ship with corpusmill.

    \b
    Example:
      corpusmill config list
    """
    from ....configs.layers import shipped

    names = shipped()
    show.result({"configs": names}, as_json, lambda: click.echo("\n".join(names)))


@config.command("schema")
def config_schema() -> None:
    """Print every key with its meaning and default, as a JSON schema.

    Editors can use it to check and complete configuration files.

    \b
    Example:
      corpusmill config schema > schema.json
    """
    from ....configs.schema import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))
