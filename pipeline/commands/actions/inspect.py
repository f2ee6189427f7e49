"""Describe what is stored at a path or URL."""

from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.graph import Graph
from ....io.stores.matrix import Matrix
from ....io.stores.store import Store
from ...engine.run import RunStore, model_kind
from ...models.base.saved import read_model_meta
from ...publishing.versions import Versions
from ...views.history import LIKELIHOODS, last_value
from . import Facts


class CorpusResult(TypedDict):
    """A corpus on disk."""

    what: str
    url: str
    documents: int
    held_out_documents: int
    tokens: int
    words: int
    order: str
    chunks: int
    largest_chunk_tokens: int
    hash: str
    format: int
    chunk_tokens: NotRequired[int]
    chunk_tokens_by: NotRequired[str]
    note: NotRequired[str]
    #: Lines of the source that could not be read and were skipped.
    bad_lines: NotRequired[int]
    #: What a user should look at, such as a column that became text because of a few values.
    warnings: NotRequired[list[str]]
    version: NotRequired[str]
    #: After ingest: False if the corpus was complete before.
    changed: NotRequired[bool]


def inspect(url: str) -> Facts:
    """Describe the corpus, matrix, graph, run, model or versions at a URL; raise DataError if there is none."""
    store = Store(url)
    for name, describe in DESCRIPTIONS.items():
        if store.exists(name):
            return {**describe(url), "bytes": store.size()}
    if not store.exists():
        raise DataError(f"{url}: there is nothing here")
    hint = ""
    # A common mistake is to name the folder above, such as "demo" instead of "demo/model".
    below = [name for name in store.names() if any(store.child(name).exists(known) for known in DESCRIPTIONS)]
    if below:
        hint = f", but there is one in each of its folders {', '.join(below)}"
    raise DataError(f"{url}: no corpus, matrix, graph, run or model here{hint}")


def describe_corpus(url: str) -> CorpusResult:
    """Return the sizes of a corpus, and the options and warnings of the ingest that made it."""
    corpus = Corpus(url)
    about = corpus.meta["about"]
    result: CorpusResult = {
        "what": "corpus",
        "url": url,
        "documents": corpus.n_documents,
        "held_out_documents": corpus.held_out.n_documents,
        "tokens": corpus.n_tokens,
        "words": corpus.n_words,
        "order": "as in the text" if corpus.is_ordered else "bag of words",
        "chunks": len(corpus.chunks),
        "largest_chunk_tokens": max((chunk.tokens for chunk in corpus.chunks), default=0),
        "hash": corpus.hash,
        "format": corpus.meta["format"],
    }
    # Corpora that were not made by ingest do not store these.
    for name in ("chunk_tokens", "chunk_tokens_by", "bad_lines", "note", "warnings", "version"):
        if about.get(name):
            result[name] = about[name]
    return result


def _describe_matrix(url: str) -> Facts:
    matrix = Matrix(url)
    return {
        "what": "matrix",
        "url": url,
        "rows": matrix.n_documents,
        "columns": matrix.n_words,
        "stored_numbers": matrix.n_tokens,
        "sparse": matrix.is_sparse,
        "dtype": matrix.dtype.name,
        "sum": matrix.total,
        "chunks": matrix.meta["chunks"],
        "hash": matrix.hash,
        "format": matrix.meta["format"],
    }


def _describe_graph(url: str) -> Facts:
    graph = Graph(url)
    # An undirected edge is stored with each of its nodes.
    edges = "edges" if graph.is_directed else "edges_in_both_directions"
    facts: Facts = {
        "what": "graph",
        "url": url,
        "nodes": graph.n_nodes,
        edges: graph.n_edges,
        "directed": graph.is_directed,
        "weighted": graph.is_weighted,
        "chunks": graph.meta["chunks"],
        "hash": graph.hash,
        "format": graph.meta["format"],
    }
    # Graphs of earlier versions do not store it.
    found = graph.meta["about"].get("found", {})
    if found:
        facts["read"] = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items())
    return facts


def _describe_run(url: str) -> Facts:
    run = RunStore(url)
    meta = run.meta
    rows = run.metrics
    facts: Facts = {
        "what": "run",
        "url": url,
        "kind": model_kind(meta),
        "data": meta["data"]["url"],
        "seed": meta["seed"],
        "shards": len(meta["shards"]),
        "epochs": int(rows[-1]["epoch"]) if rows else 0,
        "format": meta["format"],
        "versions": meta["versions"],
    }
    for name in LIKELIHOODS:
        score = last_value(rows, name)
        if score is not None:
            facts[name] = score
    return facts


def _describe_model(url: str) -> Facts:
    meta = read_model_meta(url)
    return {
        "what": "model",
        "url": url,
        "kind": meta["model"],
        "parameters": meta["parameters"],
        "epochs": meta["n_iter"],
        "data": meta["about"]["data"],
        "data_hash": meta["about"]["data_hash"],
        "format": meta["format"],
        "versions": meta["versions"],
    }


def _describe_versions(url: str) -> Facts:
    versions = Versions(url)
    versions.check_exist()
    used = versions.read(versions.head.version)
    return {
        "what": "versions of a model",
        "url": url,
        "kind": used["model"],
        "kept": versions.numbers,
        "in_use": used["version"],
        "model": versions.model(used["version"]),
        "partitions": len(used["partitions"]),
        "fresh": used["fresh"],
        "measure": used["measure"],
        "score": used["score"],
        "documents": used["documents"],
        "tokens": used["tokens"],
        "words": used["words"],
        "format": used["format"],
        "versions": used["software"],
    }


#: The function that describes a store, by the file that identifies the store.
DESCRIPTIONS: dict[str, Callable[[str], Mapping[str, object]]] = {
    "corpus.json": describe_corpus,
    "run.json": _describe_run,
    "model.json": _describe_model,
    "matrix.json": _describe_matrix,
    "graph.json": _describe_graph,
    "created.json": _describe_versions,
}
