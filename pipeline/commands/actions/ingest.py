"""Make the stores that models train on: a corpus from documents, a graph from edges."""

from dataclasses import fields
from typing import Any

from ....configs.schema import Config
from ....io.readers.edges import EdgeOptions
from ....io.stores.graph import write_graph
from ....io.stores.store import DataError, Store
from ...ingest.ingest import IngestOptions, Listener
from ...ingest.ingest import ingest as ingest_source
from .inspect import corpus_facts, inspect

Facts = dict[str, Any]


def ingest(config: Config, client: Any | None, progress: Listener | None = None, overwrite: bool = False) -> Facts:
    """Make the corpus of a configuration, or find it there; return what it holds."""
    options = ingest_options(config, overwrite)
    stages: list[str] = []

    def listen(step: Any) -> None:
        stages.append(step.stage)
        if progress is not None:
            progress(step)

    ingest_source(config.source.path, config.corpus.url, options, client, listen)  # type: ignore[union-attr]
    return corpus_facts(config.corpus.url) | {"changed": stages[-1] != "unchanged"}


def ingest_options(config: Config, overwrite: bool = False) -> IngestOptions:
    """Return what a configuration says of how documents become a corpus."""
    if config.source is None:
        raise ValueError("source: nothing to ingest; say source.path, or train on a corpus that is there")
    known = {f.name for f in fields(IngestOptions)}
    given = {k: v for k, v in (config.source.model_dump() | config.corpus.model_dump()).items() if k in known}
    return IngestOptions(**given | {"stop_words": _hashable(config.source.stop_words), "overwrite": overwrite})


def _hashable(words: str | list[str] | None) -> str | tuple[str, ...] | None:
    return tuple(words) if isinstance(words, list) else words


def graph(
    edges: str,
    url: str,
    overwrite: bool = False,
    directed: bool = False,
    unweighted: bool = False,
    header: bool | None = None,
    columns: tuple[str, str] | None = None,
) -> Facts:
    """Make a graph store from edges; return what it holds. Raises DataError where a graph is already."""
    if Store(url).exists("graph.json") and not overwrite:
        raise DataError(f"{url}: a graph is here already; choose another folder, or --overwrite it")
    source, target = columns or (None, None)
    options = EdgeOptions(
        directed=directed, weighted=False if unweighted else None, header=header, source=source, target=target
    )
    return inspect(write_graph(edges, url, options).url)
