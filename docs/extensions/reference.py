"""Parts of the reference that are generated from the code: commands, configuration, exit codes, events, stores."""

import dataclasses
import inspect
import itertools
import json
import re
import sys
from functools import partial
from importlib.metadata import distribution
from typing import get_args

import click
from corpusmill.configs.model_schema import Section
from corpusmill.configs.schema import Config
from corpusmill.configs.validation import describe_values
from corpusmill.io.stores import corpus, graph, matrix
from corpusmill.pipeline.commands.cli import errors, main
from corpusmill.pipeline.engine import events, run
from corpusmill.pipeline.models.base import saved
from corpusmill.pipeline.publishing import versions
from packaging.requirements import Requirement
from pydantic_core import PydanticUndefined

from benchmarks.papers import page
from benchmarks.papers.catalogue import FIGURES


def cell(text):
    """Return text for a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def code(text):
    """Return text as code, also if it has backquotes."""
    return f"``{text}``" if "`" in str(text) else f"`{text}`"


# --- commands ---


def command_line():
    """Return a section for each command: its usage, what it does, arguments, options and examples."""
    parts = []
    for title, commands in main.SECTIONS.items():
        parts.append(f"## {title}\n")
        for command in commands:
            parts += describe_command(command, f"corpusmill {command.name}", "###")
    return "\n".join(parts)


def describe_command(command, name, level):
    """Yield the lines about one command, and about those below it."""
    context = click.Context(command, info_name=name)
    yield f"{level} {name.removeprefix('corpusmill ')}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{name} {usage}\n```\n"
    yield from help_text(command.help)
    # The text describes the arguments, which have no meaning of their own.
    rows = (parameter.get_help_record(context) for parameter in command.params)
    options = [row for row in rows if row and row[1]]
    if options:
        yield "| option | meaning |\n|---|---|"
        for names, meaning in options:
            yield f"| {code(cell(names))} | {cell(meaning)} |"
        yield ""
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from describe_command(child, f"{name} {child.name}", level + "#")


def help_text(text):
    """Yield the paragraphs of a help text. A paragraph that keeps its line breaks becomes a block of code."""
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            title, _, lines = paragraph.removeprefix("\b\n").partition("\n")
            if lines:
                yield f"{title}\n\n```text\n{inspect.cleandoc(lines)}\n```\n"
            else:
                yield f"{title}\n"
        else:
            yield f"{paragraph}\n"


# --- configuration ---


def configuration():
    """Return a table of keys for each section of the configuration."""
    parts = []
    for name, field in Config.model_fields.items():
        kinds = sections_of(field.annotation)
        if field.description and len(kinds) == 1:
            parts.append(f"## {name}\n\n{inspect.getdoc(kinds[0])} {field.description}.\n")
        elif len(kinds) == 1:
            parts.append(f"## {name}\n\n{inspect.getdoc(kinds[0])}\n")
        else:
            parts.append(f"## {name}\n\nThe key `kind` says which of the following sections this is.\n")
        for kind in kinds:
            if len(kinds) > 1:
                parts.append(f"### {name}: {kind.model_fields['kind'].default}\n\n{inspect.getdoc(kind)}\n")
            parts += keys_of(kind, name)
    return "\n".join(parts)


def sections_of(annotation):
    """Return the classes of sections that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_of(part)]


def keys_of(section, prefix):
    """Yield a table with one row per key."""
    yield "| key | meaning |\n|---|---|"
    for name, field in section.model_fields.items():
        if name == "kind":
            continue
        values = cell(values_of(field))
        if field.default is not PydanticUndefined:
            values += f"; default {code(as_yaml(field.default))}"
        yield f"| {code(f'{prefix}.{name}')} | {cell(field.description or '')}.<br>*{values}* |"
    yield ""


def values_of(field):
    """Return which values a key takes, with the constants of YAML instead of those of Python."""
    return describe_values(field).replace("None", "null").replace("True or False", "true or false")


def as_yaml(value):
    """Return a default as a configuration file has it."""
    if value is None:
        return "null"
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value)
    return value


# --- exit codes, events, formats ---

#: What each exit code means, and what a script should do.
EXIT_CODES = {
    errors.ExitCode.DONE: ("Success, also if there was nothing to do.", "continue"),
    errors.ExitCode.FAILED: (
        "Any other error, such as lost workers, memory that ran out, a full disk or a store that does not answer.",
        "read the message",
    ),
    errors.ExitCode.USAGE: ("Invalid command, configuration or cluster; a library is missing.", "correct it"),
    errors.ExitCode.REFUSED: (
        "`retrain`: the new version is worse, or has too many unknown words. The version in use stays.",
        "look at both versions",
    ),
    errors.ExitCode.DATA: (
        "Invalid or damaged data, a file that cannot be read or written, or a run that does not fit in memory.",
        "correct what the message names",
    ),
    errors.ExitCode.LOCKED: ("Another process uses the run, the corpus or the versions.", "try again later"),
    errors.ExitCode.INTERRUPTED: ("Ctrl-C.", "call it again: it continues"),
    errors.ExitCode.TERMINATED: ("SIGTERM.", "call it again: it continues"),
}


def exit_codes():
    """Return the table of all exit codes, in Markdown."""
    rows = ["| code | meaning | what to do |", "|---|---|---|"]
    for number in errors.ExitCode:
        meaning, advice = EXIT_CODES[number]
        rows.append(f"| {int(number)} | {meaning} | {advice} |")
    return "\n".join(rows)


def event_classes():
    """Return a table of the events of a run, with their fields."""
    rows = ["| event | when | fields |", "|---|---|---|"]
    for event in get_args(events.Event):
        fields = ", ".join(code(field.name) for field in dataclasses.fields(event))
        rows.append(f"| {code(event.__name__)} | {cell(inspect.getdoc(event)).replace('``', '`')} | {fields} |")
    return "\n".join(rows)


def formats():
    """Return a table of the format number of each store."""
    numbers = {
        "corpus.json": corpus.FORMAT,
        "matrix.json": matrix.FORMAT,
        "graph.json": graph.FORMAT,
        "run.json": run.FORMAT,
        "model.json": saved.MODEL_FORMAT,
        "HEAD and version.json of versions": versions.FORMAT,
    }
    rows = ["| file | format that this version writes |", "|---|---|"]
    rows += [f"| {name} | {number} |" for name, number in numbers.items()]
    return "\n".join(rows)


#: One line of a layout: the name of a file or folder, which is indented inside a folder, and what it has.
LAYOUT_LINE = re.compile(r"(?P<indent> {0,4})(?P<name>\S+)(?: +(?P<content>.*))?")


def layout(module):
    """Return the layout of a store as its module describes it, as a table."""
    text = inspect.getdoc(module)
    start = text.index("Layout below the URL::")
    block = text[start:].split("::\n\n", 1)[1]
    lines = list(itertools.takewhile(lambda line: not line or line.startswith("    "), block.splitlines()))
    rows = ["| file | content |", "|---|---|"]
    folder = ""
    for line in inspect.cleandoc("\n".join(lines)).splitlines():
        found = LAYOUT_LINE.fullmatch(line)
        if not found:
            # The description goes on.
            rows[-1] = f"{rows[-1].removesuffix(' |')} {cell(line)} |"
            continue
        if not found["indent"]:
            folder = ""
        rows.append(f"| {code(folder + found['name'])} | {cell(found['content'] or '')} |")
        if not found["indent"] and found["name"].endswith("/"):
            folder = found["name"]
    return "\n".join(rows)


def weight():
    """Return a table of the packages that corpusmill needs without extras, with their sizes in this environment."""
    sizes, waiting = {}, ["corpusmill"]
    while waiting:
        package = distribution(waiting.pop())
        files = [package.locate_file(file) for file in package.files or []]
        sizes[package.name.lower()] = sum(file.stat().st_size for file in files if file.is_file())
        needed = [Requirement(line) for line in package.requires or []]
        wanted = [each.name.lower() for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
        waiting += [name for name in wanted if name not in sizes and name not in waiting]
    sizes.pop("corpusmill")  # a checkout has no files of its own in the environment
    heavy = sorted(sizes, key=sizes.__getitem__, reverse=True)[:10]
    rows = [(name, sizes.pop(name)) for name in heavy]
    rows += [
        (f"{len(sizes)} others", sum(sizes.values())),
        ("**all**", sum(size for _, size in rows) + sum(sizes.values())),
    ]
    return "\n".join(["| package | MB |", "|---|---|", *(f"| {name} | {size / 1e6:.0f} |" for name, size in rows)])


# --- papers ---


def claims(paper):
    """Return which claims about a paper hold for the recorded values."""
    return page.summary(paper, page.read_results(page.RECORDS), FIGURES, "../live/papers.html")


#: Names of the places in pages.
GENERATED = {
    "weight": weight,
    "commands": command_line,
    "configuration": configuration,
    "exit-codes": exit_codes,
    "events": event_classes,
    "formats": formats,
    "layout-corpus": lambda: layout(corpus),
    "layout-matrix": lambda: layout(matrix),
    "layout-graph": lambda: layout(graph),
    "layout-run": lambda: layout(run),
    "layout-model": lambda: layout(saved),
    "layout-versions": lambda: layout(versions),
    **{f"papers-{name}": partial(claims, name) for name in page.PAPERS},
}

if __name__ == "__main__":  # python docs/extensions/reference.py weight
    sys.stdout.write("".join(f"{GENERATED[name]()}\n" for name in sys.argv[1:]))
