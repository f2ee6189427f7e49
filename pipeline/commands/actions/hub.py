"""Models in repositories of the Hugging Face Hub, and their cards.

A card is a Markdown file that says what a model is, what it was trained on, and how well it does.
"""

import html
import json
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ....io.errors import DataError
from ....io.extras import needing
from ....io.stores.corpus import Corpus
from ....io.stores.store import JsonObject, Store
from ...formatting import capitalize, format_duration, format_number, label
from ...models.base.saved import read_model_meta
from ...models.registry import estimator_class, load_model
from ...topics import Topic, words_of
from ...views.history import latest_measures
from .models import topics_by_size

if TYPE_CHECKING:
    from ...models.base.estimator import Estimator

#: Words of a topic in the card.
CARD_WORDS = 10


def push_to_hub(
    model: "Estimator | str",
    repo_id: str,
    license: str,  # noqa: A002 (the Hub's name)
    corpus: str | None = None,
    private: bool = False,
    token: str | None = None,
) -> str:
    """Write a model and its card to a repository of the Hugging Face Hub, in one commit. Needs the extra ``hub``.

    Parameters
    ----------
    model : estimator or str
        A trained model, or the folder or URL of one.
    repo_id : str
        The repository, such as "me/topics", which is made if it is missing. Its earlier files are replaced.
    license : str
        The licence of the model as the Hub names it, such as "cc-by-4.0". That of the data may limit your choice.
    corpus : str, optional
        The folder or URL of the corpus, if it was moved after the training. Its sizes and its digest are in the card.
    private : bool, default=False
        Whether a new repository is private.
    token : str, optional
        A token of the Hub. By default, the one of ``hf auth login`` or of the variable HF_TOKEN.

    Returns
    -------
    str
        The address of the commit.

    Raises
    ------
    ImportError
        If the extra is missing.

    Notes
    -----
    The card names the path of the corpus, the scores, the parameters and the words of the topics. The model has its
    whole vocabulary, so check that no word of it is private.

    Examples
    --------
    >>> from corpusmill import LDA, push_to_hub
    >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
    >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
    >>> push_to_hub(lda, "me/ships-and-bread", "cc0-1.0")  # doctest: +SKIP
    """
    with needing("huggingface_hub", "corpusmill[hub]", "push_to_hub"):
        from huggingface_hub import HfApi
    hub = HfApi(token=token)
    if isinstance(model, str):
        model = load_model(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        write_card(folder, folder, corpus, license, repo_id)
        hub.create_repo(repo_id, private=private, exist_ok=True)
        # Names of arrays differ from one save to the next.
        commit = hub.upload_folder(
            repo_id=repo_id, folder_path=folder, delete_patterns="*", commit_message="Model of corpusmill"
        )
    return str(commit.commit_url)


def from_pretrained(repo_id: str, revision: str | None = None, token: str | None = None) -> "Estimator":
    """Read a model from a repository of the Hugging Face Hub, through the Hub's cache. Needs the extra ``hub``.

    Parameters
    ----------
    repo_id : str
        The repository, such as "me/topics".
    revision : str, optional
        A branch, tag or commit. A commit gives the same model for ever.
    token : str, optional
        A token of the Hub, for private repositories.

    Returns
    -------
    estimator
        A trained model of the kind that was written.

    Raises
    ------
    DataError
        If the repository has no model of corpusmill.
    ImportError
        If the extra is missing.

    Examples
    --------
    >>> from corpusmill import from_pretrained
    >>> lda = from_pretrained("me/ships-and-bread", revision="main")  # doctest: +SKIP
    """
    with needing("huggingface_hub", "corpusmill[hub]", "from_pretrained"):
        from huggingface_hub import snapshot_download
    return load_model(snapshot_download(repo_id, revision=revision, token=token))


# --- the card ---


def write_card(
    model_url: str, out: str, corpus_url: str | None = None, licence: str | None = None, repo_id: str | None = None
) -> list[str]:
    """Write README.md, where model hubs look for a card, and return its name.

    ``corpus_url`` is the corpus that the model was trained on, if it was moved. ``repo_id`` is the repository of the
    Hugging Face Hub that the card is for.
    """
    meta = read_model_meta(model_url)
    lines = [*_head(meta, licence), *_data(meta, corpus_url), *_quality(meta), *_parameters(meta)]
    if topics := topics_by_size(load_model(model_url), CARD_WORDS):
        lines += _topics(topics)
    lines += _use(meta, repo_id)
    Store(out).write_bytes("README.md", "\n".join([*lines, ""]).encode())
    return ["README.md"]


def _head(meta: JsonObject, licence: str | None) -> Iterator[str]:
    yield "---"
    yield "library_name: corpusmill"
    if licence is not None:
        yield f"license: {json.dumps(licence)}"
    yield f"tags: [corpusmill, {meta['model']}]"
    yield "---"
    yield ""
    yield f"# {meta['model']} model"
    yield ""
    yield f"Trained by corpusmill {meta['versions']['corpusmill']} in {meta['n_iter']} epochs."


def _data(meta: JsonObject, corpus_url: str | None) -> Iterator[str]:
    about = meta["about"]
    url = corpus_url or about.get("data")
    yield from ("", "## Data", "")
    rows = {"corpus": about.get("data", "data in memory"), "hash": about.get("data_hash", "")}
    try:
        corpus = Corpus(str(url))
    except DataError:
        # The corpus was moved or deleted, or the model was trained on a graph, a matrix or data in memory.
        yield from _table(rows)
        return
    rows |= {
        "documents": f"{corpus.n_documents:,} for training, {corpus.held_out.n_documents:,} held out",
        "tokens": f"{corpus.n_tokens:,}",
        "words": f"{corpus.n_words:,}",
    }
    if corpus.kept_columns:
        rows["kept columns"] = ", ".join(corpus.kept_columns)
    yield from _table(rows)


def _quality(meta: JsonObject) -> Iterator[str]:
    """Yield the last value of each metric of the model. Its scores on held-out documents come with the epoch."""
    last = {}
    for name, (value, epoch) in latest_measures(meta["history"]).items():
        last[capitalize(label(name))] = f"{format_number(value)} (epoch {epoch})"
    seconds = meta["history"][-1].get("training_seconds") if meta["history"] else None
    if seconds is not None:
        last["Training time"] = format_duration(seconds)
    yield from ("", "## Results", "")
    yield from _table(last)


def _parameters(meta: JsonObject) -> Iterator[str]:
    yield from ("", "## Parameters", "")
    yield from _table({name: json.dumps(value) for name, value in meta["parameters"].items()})


def _topics(topics: Sequence[Topic]) -> Iterator[str]:
    yield from ("", "## Topics", "", "| topic | share | words |", "|---|---|---|")
    for topic in topics:
        name = f"{topic['topic']}: {topic['name']}" if topic.get("name") else topic["topic"]
        words = " ".join(words_of(topic))
        yield f"| {_escaped(name)} | {topic['size']:.1%} | {_escaped(words)} |"


def _use(meta: JsonObject, repo_id: str | None) -> Iterator[str]:
    kind = meta["model"]
    yield from ("", "## Use", "", "```python")
    if ":" in kind:
        yield f"import {kind.partition(':')[0]}  # the module of the model: get it from its author"
        yield "from corpusmill.pipeline.models.registry import load_model"
        yield ""
        yield 'model = load_model("FOLDER")'
    elif repo_id is not None:
        yield "from corpusmill import from_pretrained"
        yield ""
        yield f"model = from_pretrained({json.dumps(repo_id)})"
    else:
        name = estimator_class(kind).__name__
        yield f"from corpusmill import {name}"
        yield ""
        yield f'model = {name}.load("FOLDER")'
    yield "```"
    yield from ("", "Made with:", "")
    yield from _table(meta["versions"])


def _table(rows: dict[str, str]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for name, value in rows.items():
        yield f"| {_escaped(name)} | {_escaped(value)} |"


def _escaped(text: object) -> str:
    """Return text that is neither HTML nor Markdown: words of a corpus may come from strangers."""
    shown = html.escape(" ".join(str(text).split()), quote=False)
    for sign in "\\|`*_[]":
        shown = shown.replace(sign, "\\" + sign)
    return shown
