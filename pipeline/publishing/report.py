"""Gather what the HTML pages show: a report about one run or model, and a comparison of two."""

from collections.abc import Mapping

from ...io.data import open_data
from ...io.errors import DataError
from ...io.messages import pluralize
from ...io.stores.corpus import Corpus
from ...io.stores.graph import Graph
from ...io.stores.store import Store, split_path
from ..engine.run import RunStore, model_kind
from ..formatting import model_title
from ..models.base.estimator import Estimator
from ..models.base.in_use import model_place
from ..models.base.saved import has_model, read_model_meta
from ..models.base.text import HasWordVectors
from ..models.base.topics import TopicModel
from ..models.own import check_trusted
from ..models.registry import load_model, model_of_run
from ..topics import Topic
from ..views.pages.comparison import render_comparison
from ..views.pages.page import Contents, Table
from ..views.pages.report import render

#: Words shown for each topic.
N_WORDS = 12
#: Words whose neighbours are shown, taken evenly from the most frequent ones.
SHOWN_WORDS = 30
FREQUENT_WORDS = 600
NEIGHBOURS = 8


def write_report(url: str, path: str | None = None, estimator: Estimator | None = None, n_words: int = N_WORDS) -> str:
    """Write the page about a run, complete or not, or about a model, and return its path.

    ``path`` is report.html inside the run by default. ``estimator`` is the trained model, if it is in memory already.
    """
    page = render(gather_contents(url, n_words, estimator))
    return _write(path or f"{url.rstrip('/')}/report.html", page)


def write_comparison(first: str, second: str, path: str | None = None) -> str:
    """Write the page that compares two runs or models, and return its path, comparison.html by default."""
    if first == second:
        raise ValueError(f"{first}: both arguments are the same run; give two different ones")
    contents = {url: gather_contents(url, n_words=0) for url in (first, second)}
    return _write(path or "comparison.html", render_comparison(contents))


def gather_contents(url: str, n_words: int, estimator: Estimator | None = None) -> Contents:
    """Gather what a page shows about a run or a model; raise DataError if there is neither.

    ``n_words`` is the number of words per topic; 0 leaves topics out.
    """
    if not Store(url).exists("run.json") and has_model(url):
        return _contents_of_model(url, n_words, estimator)
    return _contents_of_run(url, n_words, estimator)


def _contents_of_model(url: str, n_words: int, estimator: Estimator | None) -> Contents:
    meta = read_model_meta(url)
    if estimator is None and n_words:
        estimator = load_model(url)
    data = {"url": meta["about"]["data"], "part": "train", "kind": "store"}
    return Contents(
        title=_title(meta["model"], data["url"]),
        lead=_lead(data),
        rows=meta["history"],
        topics=_topics(estimator, n_words),
        neighbours=_neighbours(estimator),
        config={"model": {"kind": meta["model"]} | meta["parameters"]},
        versions=meta["versions"],
    )


def _contents_of_run(url: str, n_words: int, estimator: Estimator | None) -> Contents:
    run = RunStore(url)
    meta = run.meta
    if estimator is None and n_words:
        estimator = _last_model(url)
    return Contents(
        title=_title(model_kind(meta), meta["data"].get("title", meta["data"]["url"])),
        lead=_lead(meta["data"]),
        rows=run.metrics,
        topics=_topics(estimator, n_words),
        neighbours=_neighbours(estimator),
        restarts=_restarts(estimator),
        left_out=list(getattr(estimator, "validation_errors_", {}).items()),
        config=meta["config"],
        versions=meta["versions"],
    )


def _topics(estimator: Estimator | None, n_words: int) -> list[Topic]:
    if isinstance(estimator, TopicModel):
        return estimator.topics(n_words)
    return []


def _neighbours(estimator: Estimator | None) -> dict[str, list[str]]:
    """Return the nearest words of some of the most frequent words."""
    if not isinstance(estimator, HasWordVectors):
        return {}
    vectors = estimator.wv
    # The very first are words such as "the", which have no neighbours worth reading.
    step = max(1, min(len(vectors), FREQUENT_WORDS) // SHOWN_WORDS)
    words = vectors.index_to_key[: step * SHOWN_WORDS : step]
    return {word: [near for near, _ in vectors.most_similar(word, topn=NEIGHBOURS)] for word in words}


def _restarts(estimator: Estimator | None) -> Table | None:
    """Return a table of the factorisations that were trained side by side; None if there was only one."""
    if estimator is None:
        return None
    rows = {}
    columns = ["components", "seed", "epochs", "error"]
    for _, restart in estimator._describe_restarts():
        numbers = (restart["n_components"], restart["random_state"], restart["epochs"])
        rows[restart["name"]] = [*map(str, numbers), f"{restart['error']:.6g}"]
        if "validation_error" in restart:
            columns[4:] = ["error of left-out entries"]
            rows[restart["name"]].append(f"{restart['validation_error']:.6g}")
    return Table("Restarts", columns, rows) if rows else None


def _last_model(url: str) -> Estimator | None:
    """Return the model of the last committed epoch; None if there is no epoch yet, or if the data was deleted."""
    kind = model_kind(RunStore(url).meta)
    if ":" in kind:
        check_trusted(kind, url)
    try:
        model = model_of_run(url)
    except DataError:
        return None
    # Names of topics are stored with the saved model.
    model._adopt_names(model_place(RunStore(url).store) or f"{url.rstrip('/')}/model")
    return model


def _title(kind: str, data_url: str) -> str:
    """Return a title such as "LDA of demo/corpus" or "Random indexing of news"."""
    return f"{model_title(kind)} of {data_url.rstrip('/')}"


def _lead(data_meta: Mapping[str, str]) -> str:
    """Return the line below the title: how much data there is."""
    try:
        data = open_data(data_meta["url"], data_meta["part"] or "train")
    except DataError:
        return f"trained on a {data_meta['kind']} that was deleted or moved"
    sizes = {"documents": "n_documents", "tokens": "n_tokens", "words": "n_words"}
    if isinstance(data, Graph):
        sizes = {"nodes": "n_nodes", "entries of the adjacency": "n_edges"}
    parts = [f"{getattr(data, attribute):,} {noun}" for noun, attribute in sizes.items() if hasattr(data, attribute)]
    if isinstance(data, Corpus) and data.held_out.chunks:
        parts.append(f"{pluralize(data.held_out.n_documents, 'document')} held out")
    return " · ".join(parts)


def _write(path: str, page: str) -> str:
    store, name = split_path(path)
    store.write_bytes(name, page.encode())
    return path
