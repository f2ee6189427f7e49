"""What a command's result looks like, for machines and on a terminal."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from ...formatting import format_duration, format_number, label, pluralize, with_minus_sign

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
        f"{_label('corpus')}{found['url']}: {pluralize(found['documents'], 'document')}{held_out}, "
        f"{pluralize(found['tokens'], 'token')}, {pluralize(found['words'], 'word')}, "
        f"{pluralize(found['chunks'], 'chunk')}{there}"
    )


def trained(found: Facts) -> None:
    """Print what training came to: topics, figures, and where things are."""
    topics(found["topics"], most=40)
    there = "" if found["trained_epochs"] else ", there already"
    per_second = found["tokens_per_second"]
    rate = f", the median one at {format_number(per_second)} tokens/s" if per_second else ""
    seconds = format_duration(found["training_seconds"])
    click.echo(f"{_label('trained')}{pluralize(found['epochs'], 'epoch')} in {seconds}{rate}{there}")
    score = found.get("held_out_log_likelihood")
    if score is not None:
        perplexity = format_number(math.exp(min(-score, 700.0)))
        click.echo(
            f"{_label('held out')}{with_minus_sign(f'{score:.4f}')} log-likelihood per token (perplexity {perplexity})"
        )
    elif found["measures"]:
        measures = (f"{label(name)} {value:.6g}" for name, value in found["measures"].items())
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


def retrained(found: Facts) -> None:
    """Print what a retraining did."""
    click.echo(f"{_label(found['status'])}{_news(found)}")
    for name in ("added", "changed", "removed"):
        if found[name]:
            shown = found[name][:5] + ([f"and {len(found[name]) - 5:,} more"] if len(found[name]) > 5 else [])
            published = found["status"] == "published"
            what = " (subtracted)" if name == "removed" and found["forgotten"] and published else ""
            click.echo(_label(name) + ", ".join(shown) + what)
    if found["documents"]:
        click.echo(
            f"{_label('learned')}{found['documents']:,} documents, {found['tokens']:,} tokens, "
            f"{found['new_words']:,} new words of {found['words']:,}"
        )
    if found["score"] is not None:
        before = f", {found['score_before']:.6g} before" if found["score_before"] is not None else ""
        click.echo(f"{_label('held out')}{label(found['measure'].removeprefix('held_out_'))} ", nl=False)
        click.echo(with_minus_sign(f"{found['score']:.6g}{before}"))
    if found["reason"]:
        click.echo(_label("reason") + found["reason"])
    if found["model"]:
        click.echo(_label("model") + found["model"])


def _news(found: Facts) -> str:
    number, before = found["version"], found["previous"]
    if found["status"] == "published":
        return f"version {number} of {found['url']}" + (f", was {before}" if before else "")
    if found["status"] == "refused":
        return f"version {number} of {found['url']}; version {before} stays in use"
    if found["status"] == "planned":
        return f"{found['url']}: " + (
            f"would go on from version {before}" if before else "would make the first version"
        )
    return f"{found['url']}: nothing new in {found['partitions']:,} partitions; version {before} stays in use"


def versions(found: Sequence[Facts]) -> None:
    """Print a line a version, newest first."""
    click.echo("version  made                  files    new  changed  removed     score  state")
    for row in found:
        made = row["made"].replace("T", " ").partition("+")[0]
        score = "" if row["score"] is None else with_minus_sign(f"{row['score']:.5g}")
        click.echo(
            f"{row['version']:>7}  {made:<19} {row['partitions']:>7,} {row['added']:>6,} {row['changed']:>8,} "
            f"{row['removed']:>8,} {score:>9}  {row['state']}"
        )


def drift(found: Facts) -> None:
    """Print how two versions differ."""
    old, new = found["old"], found["new"]
    click.echo(f"{_label('versions')}{old} and {new} of {found['url']} ({found['kind']})")
    scores = [row["score"] for row in found["scores"]]
    if None not in scores:
        measure = label(found["scores"][1]["measure"].removeprefix("held_out_"))
        click.echo(f"{_label('held out')}{measure} " + with_minus_sign(f"{scores[0]:.6g}, then {scores[1]:.6g}"))
    for name in ("words_added", "words_removed"):
        some = found[name]
        shown = f": {' '.join(some['first'])}" if some["first"] else ""
        click.echo(f"{_label(name.removeprefix('words_'))}{some['number']:,} words{shown}")
    if "topics" in found:
        _topic_drift(found)
    elif found["kept_neighbours"] is not None:
        _neighbour_drift(found)


def _topic_drift(found: Facts) -> None:
    click.echo(f"{_label('drift')}{found['mean_drift']:.3f} in the mean\n\n topic    was  drift   size  words")
    for row in found["topics"][:40]:
        was, drift = ("new", "") if row["was"] is None else (row["was"], f"{row['drift']:.3f}")
        came = set(row["entered"])
        words = " ".join(f"+{word}" if word in came else word for word in row["words"])
        left = f"  gone: {' '.join(row['left'])}" if row["left"] else ""
        click.echo(f"{row['topic']:>6} {was:>6}  {drift:>5} {row['size']:>6.1%}  {words}{left}")
    if len(found["topics"]) > 40:
        click.echo(f"       and {len(found['topics']) - 40:,} that moved less")


def _neighbour_drift(found: Facts) -> None:
    kept, compared = found["kept_neighbours"], found["compared"]
    click.echo(f"{_label('kept')}{kept:.1%} of the neighbours of {compared:,} words; least:\n")
    for row in found["moved"]:
        before, now = ([w for w in row[k] if w not in row[o]] for k, o in (("before", "now"), ("now", "before")))
        click.echo(f"{row['word']:>16}  {row['kept']:>4.0%}  now {' '.join(now[:6])}  before {' '.join(before[:6])}")


def neighbours(found: Sequence[Facts]) -> None:
    """Print a word or a document a line, nearest first."""
    for name, similarity in (near.values() for near in found):
        click.echo(f"{similarity:.4f}  {name}")


def facts(found: Facts) -> None:
    """Print one fact a line."""
    width = max(len(name) for name in found) + 2
    for name, value in found.items():
        click.echo(click.style(f"{label(name):<{width}}", bold=True) + _fact(name, value))


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
