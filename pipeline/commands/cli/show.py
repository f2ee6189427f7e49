"""Print the results of commands, as text for people or as JSON for programs."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ....io.messages import pluralize
from ...formatting import format_bytes, format_duration, format_number, label, without_controls
from ...topics import words_of
from ...views.history import perplexity

# Only for annotations: these modules load numpy, and `corpusmill --help` must not wait for that.
if TYPE_CHECKING:
    from ...publishing.results import RetrainResult, VersionDiff
    from ...publishing.versions import VersionRow
    from ...topics import Topic
    from ..actions import Facts
    from ..actions.doctor import Finding
    from ..actions.inspect import CorpusResult
    from ..actions.train import TrainingResult

#: Topics listed by training and by diff: with the other lines, they fit a screen.
MAX_TOPICS = 20
#: Files listed by retrain, for each kind of change.
MAX_FILES = 5
#: Colours of the states of a finding.
STATUS_COLOURS = {"fine": "green", "advice": "yellow", "problem": "red"}
#: New neighbours listed by diff, for each word.
MAX_NEIGHBOURS = 6


def result(found: Mapping[str, object], as_json: bool, show: Callable[[], None] | None = None) -> None:
    """Print a result as one JSON object, or for people: by calling ``show``, or one name and value per line."""
    if as_json:
        click.echo(json.dumps(found))
    elif show is not None:
        show()
    else:
        facts(found)


def _echo(text: str = "") -> None:
    """Print text that may contain words, keys and names of files, which must not control the terminal."""
    click.echo(without_controls(text))


def corpus(found: "CorpusResult") -> None:
    """Print the size of a corpus."""
    held_out = ""
    if found["held_out_documents"]:
        held_out = f" and {found['held_out_documents']:,} held out"
    sizes = [
        pluralize(found["documents"], "document") + held_out,
        pluralize(found["tokens"], "token"),
        pluralize(found["words"], "word"),
        pluralize(found["chunks"], "chunk"),
    ]
    if found.get("bad_lines"):
        sizes.append(f"{pluralize(found['bad_lines'], 'bad line')} skipped")
    if not found["changed"]:
        sizes.append("already complete")
    _line("corpus", f"{found['url']}: {', '.join(sizes)}")
    for warning in found.get("warnings", []):
        _line("warning", warning)


def training(found: "TrainingResult") -> None:
    """Print the topics, the scores, and where the model and the report are."""
    topics(found["topics"], MAX_TOPICS)
    parts = [f"{pluralize(found['epochs'], 'epoch')} in {format_duration(found['training_seconds'])}"]
    if found["tokens_per_second"]:
        parts.append(f"{format_number(found['tokens_per_second'])} {found['unit']}/s in the median epoch")
    if not found["trained_epochs"]:
        parts.append("already complete")
    _line("trained", ", ".join(parts))
    score = found.get("held_out_log_likelihood")
    if score is not None:
        _line("held out", f"{score:.4f} log-likelihood per token (perplexity {format_number(perplexity(score))})")
    elif found["measures"]:
        measures = [f"{label(name)} {_measure(value)}" for name, value in found["measures"].items()]
        _line("measured", ", ".join(measures))
    _line("model", found["model"])
    for restart in found.get("restarts", []):
        kind = f"{restart['n_components']} components, seed {restart['random_state']}"
        left_out = f", of left-out entries {restart['validation_error']:.6g}," if "validation_error" in restart else ""
        trained = f"error {restart['error']:.6g}{left_out} after {pluralize(restart['epochs'], 'epoch')}"
        _line("restart", f"{kind}: {trained}, {restart['model']}")
    if "report" in found:
        _line("report", found["report"])


def _measure(value: float) -> str:
    """Return a number as text: six digits below 100,000, and a short form such as 1.23 M from there on."""
    if abs(value) >= 1e5:
        return format_number(value)
    return f"{value:.6g}"


def run(of_corpus: "CorpusResult | None", of_training: "TrainingResult") -> None:
    """Print the results of ingest and training."""
    if of_corpus is not None:
        corpus(of_corpus)
    training(of_training)


def topics(found: "Sequence[Topic]", most: int | None = None) -> None:
    """Print one line per topic, for the first ``most`` topics."""
    if not found:
        return
    _echo("\n topic   size  words")
    for topic in found[:most]:
        _echo(f"{topic['topic']:>6}  {topic['size']:>5.1%}  {_name_and_words(topic)}")
    if most is not None and len(found) > most:
        _echo(f"        and {len(found) - most:,} smaller ones, which `corpusmill topics` lists")
    _echo()


def topics_of_model(found: "Sequence[Topic]", model: str, epochs: int) -> None:
    """Print the topics of a saved model, and after how many epochs it was saved."""
    topics(found)
    _line("model", f"{model}, after {pluralize(epochs, 'epoch')}")


def _name_and_words(topic: "Topic") -> str:
    words = " ".join(words_of(topic))
    if "name" in topic:
        return click.style(f"{topic['name']}: ", bold=True) + words
    return words


def retraining(found: "RetrainResult") -> None:
    """Print the result of the command retrain, or the plan of its dry run."""
    _line(found["status"], f"{found['url']}: {_retraining_summary(found)}")
    _files("added", found["added"])
    _files("changed", found["changed"])
    _files("removed", found["removed"], _note_on_removed(found))
    if found["too_young"]:
        _line("left out", f"{pluralize(found['too_young'], 'file')} changed a moment ago (retrain.least_age)")
    if found["documents"] and found["tokens"] and found["words"]:
        documents = pluralize(found["documents"], "document")
        tokens = pluralize(found["tokens"], "token")
        new_words = pluralize(found["new_words"] or 0, "new word")
        _line("learned", f"{documents}, {tokens}, {new_words} of {found['words']:,}")
    if found["bad_lines"]:
        _line("skipped", pluralize(found["bad_lines"], "bad line"))
    if found["measure"] and found["score"] is not None:
        scores = f"{found['score']:.6g}"
        if found["score_before"] is not None:
            scores += f", {found['score_before']:.6g} before"
        _line("held out", f"{_held_out_label(found['measure'])} {scores}")
    if found["reason"]:
        _line("reason", found["reason"])
    if found["model"]:
        _line("model", found["model"])


def _note_on_removed(found: "RetrainResult") -> str:
    """Say what becomes of the documents of files that were removed."""
    if not found["forgotten"]:
        return " (the model keeps what it learned from their documents)"
    if found["status"] == "published":
        return " (subtracted)"
    return " (to be subtracted)"


def _retraining_summary(found: "RetrainResult") -> str:
    version, previous = found["version"], found["previous"]
    if found["status"] == "published":
        replaced = f", replaces version {previous}" if previous else ""
        return f"version {version}{replaced}"
    if found["status"] == "refused":
        return f"version {version} is refused, version {previous} stays in use"
    if found["status"] == "planned":
        return _planned_summary(found)
    return f"nothing to do for {pluralize(found['partitions'], 'file')}; version {previous} stays in use"


def _planned_summary(found: "RetrainResult") -> str:
    version, previous = found["version"], found["previous"]
    files = pluralize(found["files_to_read"], "file")
    if version != previous:
        return f"would publish version {version}, which an earlier call completed"
    if found["continues_from"]:
        return f"would continue from version {found['continues_from']} and read {files}"
    if previous:
        return f"would train a new model from scratch on {files}; version {previous} is in use"
    return f"would train the first version on {files}"


def _files(title: str, urls: Sequence[str], note: str = "") -> None:
    if not urls:
        return
    shown = list(urls[:MAX_FILES])
    if len(urls) > MAX_FILES:
        shown.append(f"and {len(urls) - MAX_FILES:,} more")
    _line(title, ", ".join(shown) + note)


def versions(found: "Sequence[VersionRow]") -> None:
    """Print one line per version."""
    _echo("version  made (UTC)            files    new  changed  removed     score  state")
    for row in found:
        made = row["made"].replace("T", " ").partition("+")[0]
        score = ""
        if row["score"] is not None:
            score = f"{row['score']:.5g}"
        _echo(
            f"{row['version']:>7}  {made:<19} {row['partitions']:>7,} {row['added']:>6,} {row['changed']:>8,} "
            f"{row['removed']:>8,} {score:>9}  {row['state']}"
        )


def version_diff(found: "VersionDiff") -> None:
    """Print how two versions differ."""
    _line("versions", f"{found['old']} and {found['new']} of {found['url']} ({found['kind']})")
    before, after = found["scores"]
    if before["score"] is not None and after["score"] is not None:
        scores = f"{before['score']:.6g}, then {after['score']:.6g}"
        _line("held out", f"{_held_out_label(after['measure'])} {scores}")
    for title, words in (("added", found["words_added"]), ("removed", found["words_removed"])):
        examples = f": {' '.join(words['first'])}" if words["first"] else ""
        _line(title, pluralize(words["number"], "word") + examples)
    if "topics" in found:
        _topic_changes(found)
    elif found.get("kept_neighbours") is not None:
        _neighbour_changes(found)


def _topic_changes(found: "VersionDiff") -> None:
    _line("drift", f"{found['mean_drift']:.3f} on average")
    _echo("\n topic    was  drift   size  words")
    for change in found["topics"][:MAX_TOPICS]:
        # A new topic has no match in the old model, and no drift.
        was = "new"
        drift = ""
        if change["was"] is not None:
            was = str(change["was"])
            drift = f"{change['drift']:.3f}"
        words = [f"+{word}" if word in change["entered"] else word for word in change["words"]]
        left = ""
        if change["left"]:
            left = f"  removed: {' '.join(change['left'])}"
        if "name" in change:
            words.insert(0, click.style(f"{change['name']}:", bold=True))
        elif "name_before" in change:
            # A fresh model has no names. Those of the matched topics help to find the old ones.
            words.insert(0, click.style(f"(was {change['name_before']})", bold=True))
        _echo(f"{change['topic']:>6} {was:>6}  {drift:>5} {change['size']:>6.1%}  {' '.join(words)}{left}")
    if len(found["topics"]) > MAX_TOPICS:
        _echo(f"       and {len(found['topics']) - MAX_TOPICS:,} with a smaller drift")


def _neighbour_changes(found: "VersionDiff") -> None:
    kept, compared = found["kept_neighbours"], found["compared"]
    _line("kept", f"{kept:.1%} of the neighbours of {compared:,} words; the words that kept the fewest:\n")
    for change in found["moved"]:
        now = [word for word in change["now"] if word not in change["before"]]
        before = [word for word in change["before"] if word not in change["now"]]
        _echo(
            f"{change['word']:>16}  {change['kept']:>4.0%}  now {' '.join(now[:MAX_NEIGHBOURS])}  "
            f"before {' '.join(before[:MAX_NEIGHBOURS])}"
        )


def similar(found: "Sequence[Facts]") -> None:
    """Print one word or document per line, nearest first."""
    for entry in found:
        name = entry.get("word") or entry.get("document")
        _echo(f"{entry['similarity']:.4f}  {name}")


def finding(found: "Finding") -> None:
    """Print what a check found on one line."""
    status = click.style(f"{found['status']:<9}", fg=STATUS_COLOURS[found["status"]])
    _echo(status + click.style(f"{found['check']:<15}", bold=True) + found["text"])


def evaluation(found: Mapping[str, Any]) -> None:
    """Print the coherence of each topic if it was measured, and then the scores, one per line."""
    measured = found.get("topics", [])
    if measured:
        _echo("\n topic  " + "".join(f"{measure:>8}" for measure in measured[0]["coherence"]) + "  words")
    for topic in measured:
        values = "".join("       -" if value is None else f"{value:>8.4f}" for value in topic["coherence"].values())
        _echo(f"{topic['topic']:>6}  {values}  {_name_and_words(topic)}")
    if measured:
        _echo()
    facts({name: value for name, value in found.items() if name != "topics"})


def facts(found: Mapping[str, object]) -> None:
    """Print one named value per line."""
    width = max(len(name) for name in found) + 2
    for name, value in found.items():
        _echo(click.style(f"{label(name):<{width}}", bold=True) + _value(name, value))


def model_grid(found: Mapping[str, Any]) -> None:
    """Print facts about a grid of models, and one line of statistics per model if they were measured."""
    facts({name: value for name, value in found.items() if name not in ("statistics", "scaled", "best")})
    if "statistics" not in found:
        return
    statistics = found["statistics"]
    _echo("\n topics  " + "".join(f"{name:>18}" for name in statistics))
    for row, number in enumerate(found["n_topics"]):
        _echo(f"{number:>7}  " + "".join(f"{values[row]:>18,.4f}" for values in statistics.values()))
    _echo()
    facts({"best": found["best"]})


def _line(title: str, text: str) -> None:
    _echo(click.style(f"{title:<10}", bold=True) + text)


def _held_out_label(measure: str) -> str:
    return label(measure.removeprefix("held_out_"))


def _value(name: str, value: object) -> str:
    if name == "bytes" and isinstance(value, int):
        return format_bytes(value)
    if value is None:
        return "unknown"
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_value(name, item) if isinstance(item, float) else str(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:,.4f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
