"""What a command's result looks like, for machines and on a terminal."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from .wording import duration, minus, short

Facts = dict[str, Any]


def say(found: Facts, as_json: bool, show: Callable[[], None]) -> None:
    """Print a result for machines or for people."""
    if as_json:
        click.echo(json.dumps(found))
    else:
        show()


def corpus(found: Facts) -> None:
    """Print what a corpus holds."""
    held_out = f" and {found['held_out_documents']:,} held out" if found["held_out_documents"] else ""
    there = "" if found["changed"] else ", there already"
    click.echo(
        f"{_label('corpus')}{found['url']}: {found['documents']:,} documents{held_out}, {found['tokens']:,} tokens, "
        f"{found['words']:,} words, {found['chunks']} chunks{there}"
    )


def trained(found: Facts) -> None:
    """Print what training came to: topics, figures, and where things are."""
    topics(found["topics"], most=40)
    there = "" if found["trained_epochs"] else ", there already"
    rate = f", {short(found['tokens_per_second'])} tokens/s" if found["tokens_per_second"] else ""
    click.echo(f"{_label('trained')}{found['epochs']} epochs in {duration(found['training_seconds'])}{rate}{there}")
    score = found.get("held_out_log_likelihood")
    if score is not None:
        perplexity = short(math.exp(min(-score, 700.0)))
        click.echo(f"{_label('held out')}{minus(f'{score:.4f}')} log-likelihood per token (perplexity {perplexity})")
    elif found["measures"]:
        measures = (f"{name.replace('_', ' ')} {value:.6g}" for name, value in found["measures"].items())
        click.echo(_label("measured") + ", ".join(measures))
    for name in ("model", "report"):
        if name in found:
            click.echo(f"{_label(name)}{found[name]}")


def run(of_corpus: Facts | None, of_training: Facts) -> None:
    """Print both."""
    if of_corpus is not None:
        corpus(of_corpus)
    trained(of_training)


def topics(found: Sequence[Facts], most: int | None = None) -> None:
    """Print a line a topic."""
    if not found:
        return
    click.echo("\n topic   size  words")
    for topic in found[:most]:
        words = " ".join(word["word"] for word in topic["words"])
        click.echo(f"{topic['topic']:>6}  {topic['size']:>5.1%}  {words}")
    if most is not None and len(found) > most:
        click.echo(f"        and {len(found) - most:,} smaller ones")
    click.echo()


def neighbours(found: Sequence[Facts]) -> None:
    """Print a word a line, nearest first."""
    for near in found:
        click.echo(f"{near['similarity']:.4f}  {near['word']}")


def facts(found: Facts) -> None:
    """Print one fact a line."""
    width = max(len(name) for name in found) + 2
    for name, value in found.items():
        click.echo(click.style(f"{name.replace('_', ' '):<{width}}", bold=True) + _fact(name, value))


def _label(name: str) -> str:
    return click.style(f"{name:<10}", bold=True)


def _fact(name: str, value: Any) -> str:
    if name == "bytes":
        from dask.utils import format_bytes

        return format_bytes(value)
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
