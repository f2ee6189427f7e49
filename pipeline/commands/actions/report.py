"""Pages about runs and models: what the report shows is gathered here, from one of them or from two to compare."""

from typing import Any

from ....io.stores.open import open_data
from ....io.stores.store import DataError, Store
from ...engine.run import RunStore
from ...models.base.saved import read_model_meta
from ...models.registry import load_model, model_of_run
from ...views.report.comparison import render_comparison
from ...views.report.contents import Contents
from ...views.report.render import render

Facts = dict[str, Any]


#: Words shown of each topic.
WORDS = 12


def report(url: str, path: str | None = None, estimator: Any | None = None, n_words: int = WORDS) -> str:
    """Write the page of a run, finished or not, or of a model; return its path.

    ``path``: by default report.html inside it. ``estimator``: its trained model, if it is at hand already.
    """
    return _write(path or f"{url.rstrip('/')}/report.html", render(contents_of(url, n_words, estimator)))


def compare(first: str, second: str, path: str | None = None) -> str:
    """Write the page that compares two runs or models; return its path, by default comparison.html."""
    both = {url: contents_of(url, 0) for url in (first, second)}
    if len(both) < 2:
        raise ValueError(f"{first}: nothing to compare, both are the same")
    return _write(path or "comparison.html", render_comparison(both))


def contents_of(url: str, n_words: int, estimator: Any | None = None) -> Contents:
    """Gather what a page shows of a run or a model; ``n_words`` 0: no topics. Raises DataError where neither is."""
    store = Store(url)
    if not store.exists("run.json") and _is_model(url):
        meta = read_model_meta(url)
        kind, rows, config = meta["model"], meta["history"], {"model": {"kind": meta["model"]} | meta["parameters"]}
        data = {"url": meta["about"]["data"], "part": "train", "kind": "store"}
        estimator = estimator or (load_model(url) if n_words else None)
    else:
        run = RunStore(url)
        meta, rows = run.meta, run.metrics
        kind, data, config = meta["algorithm"], meta["data"], meta["config"]
        estimator = estimator or (_committed(url) if n_words else None)
    label = kind.replace("-", " ")
    return Contents(
        title=f"{label.upper() if len(label) < 4 else label.capitalize()} of {data['url'].rstrip('/')}",
        lead=_lead(data),
        rows=rows,
        topics=estimator.topics(n_words) if estimator is not None and hasattr(estimator, "topics") else (),
        config=config,
        versions=meta["versions"],
    )


def _is_model(url: str) -> bool:
    try:
        read_model_meta(url)
    except DataError:
        return False
    return True


def _committed(url: str) -> Any | None:
    """Return the model of the last committed epoch; None where there is none yet, or its data is gone."""
    try:
        return model_of_run(url)
    except DataError:
        return None


def _lead(found: Facts) -> str:
    try:
        data = open_data(found["url"], found["part"] or "train")
    except DataError:
        return f"trained on a {found['kind']} that is no longer there"
    names = {"n_documents": "documents", "n_tokens": "tokens", "n_words": "words"}
    lead = " · ".join(f"{getattr(data, name):,} {label}" for name, label in names.items() if hasattr(data, name))
    held_out = getattr(data, "held_out", None)
    return lead + (f" · {held_out.n_documents:,} documents held out" if held_out and held_out.chunks else "")


def _write(path: str, page: str) -> str:
    folder, _, name = path.rpartition("/")
    Store(folder or ("/" if path.startswith("/") else ".")).write_bytes(name, page.encode())
    return path
