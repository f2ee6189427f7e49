"""The entry point of the command ``corpusmill``.

Importing this package loads click and little else, so that ``--help`` and shell completion respond at once. Each
command imports the code that it needs when it runs.
"""

import json
import sys
from collections.abc import Sequence

import click

from ...version import version_with_commit
from . import models, retrain, runs, training
from .cistopic import cistopic
from .cnmf import cnmf
from .config import config
from .doctor import doctor
from .errors import explain
from .explore import explore
from .signals import Terminated, install_handlers

#: The commands in the order of the help text, by section.
SECTIONS: dict[str, list[click.Command]] = {
    "Train": [training.run, training.ingest, training.graph, training.train, training.resume, cistopic, cnmf],
    "Use a model": [models.topics, models.similar, models.evaluate, models.transform, models.export],
    "Look at runs and data": [explore, runs.inspect, runs.report, runs.watch],
    "Retrain on a schedule": [retrain.retrain, retrain.versions, retrain.rollback, retrain.diff],
    "Configuration": [config, doctor],
}


class SectionedGroup(click.Group):
    """A group that lists its commands by section."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list per section, without lines between them: the help must fit on a screen."""
        longest_name = max(len(name) for name in self.commands)
        for title, commands in SECTIONS.items():
            width = formatter.width - longest_name - 6
            rows = [(f"{command.name:<{longest_name}}", command.get_short_help_str(width)) for command in commands]
            formatter.write_heading(title)
            with formatter.indentation():
                formatter.write_dl(rows)


def _show_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"corpusmill, version {version_with_commit()}")
        context.exit()


@click.group(
    cls=SectionedGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and the log messages of Dask.")
def cli(debug: bool) -> None:
    """Train topic models and word vectors on corpora that do not fit in memory.

    \b
      corpusmill run quickstart     finds topics in the King James Bible, in a minute
      corpusmill config example lda > my.yaml
      corpusmill run my.yaml --set source.path=articles.jsonl
      corpusmill run --help         each command has arguments and examples
    """


for section in SECTIONS.values():
    for command in section:
        cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; print an error as one sentence on stderr and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # click accepts --debug only before the command. Move it there, so that users can append it.
    given.sort(key=lambda argument: argument != "--debug")
    install_handlers()
    try:
        cli.main(given, prog_name="corpusmill", standalone_mode=False)
    except (Exception, KeyboardInterrupt, Terminated) as error:
        # Options of the program itself have no values, so the first word is the command.
        command = next((argument for argument in given if not argument.startswith("-")), "")
        failure = explain(error, command)
        if "--json" in given:
            click.echo(json.dumps(failure.as_json()))
        if isinstance(error, click.ClickException):
            error.show()
        elif "--debug" in given and not failure.is_stop:
            raise
        else:
            click.echo(f"corpusmill: {failure.message}", err=True)
        sys.exit(failure.code)
