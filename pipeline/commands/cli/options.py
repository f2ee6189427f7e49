"""Options and arguments that several commands share."""

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

configs_argument = click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")

set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override one key of the configuration, such as model.max_iter=50. May be repeated.",
)

overwrite_option = click.option(
    "--overwrite",
    is_flag=True,
    help="Replace a result that was made from other data or with other settings. Without it, that is an error.",
)

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the result, or the error, as one JSON object on stdout, and show no progress.",
)


def config_option(use: str) -> Callable[[Command], Command]:
    """Return the option --config; ``use`` says what the command takes from the configuration."""
    return click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="CONFIG",
        help=f"{use}: a YAML file, or a name from `corpusmill config list`. May be repeated; later files override "
        "earlier ones.",
    )


def number_option(name: str, help_text: str) -> Callable[[Command], Command]:
    """Return an option for a number from 1 upwards, 10 by default."""
    return click.option(name, default=10, show_default=True, type=click.IntRange(1), metavar="N", help=help_text)


def part_option(default: str) -> Callable[[Command], Command]:
    """Return the option --part with the given default."""
    return click.option(
        "--part",
        type=click.Choice(["train", "held_out"]),
        default=default,
        show_default=True,
        help="Documents to use: those to train on, or those that ingest held out for evaluation.",
    )
