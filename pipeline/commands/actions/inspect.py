"""Describe whatever lies at a path or URL."""

from typing import Any

from ....io.stores.corpus import Corpus
from ....io.stores.store import DataError, Store
from ...engine.run import RunStore
from ...models.base.saved import read_model_meta
from ...models.versions import Versions
from ...views.history import last_value

Facts = dict[str, Any]


def inspect(url: str) -> Facts:
    """Say what lies at a URL; raise DataError where it is nothing of ours."""
    store = Store(url)
    known = {
        "corpus.json": corpus_facts,
        "run.json": _run_facts,
        "model.json": _model_facts,
        "matrix.json": lambda url: _data_facts(url, "matrix.json"),
        "graph.json": lambda url: _data_facts(url, "graph.json"),
    }
    for name, facts in known.items():
        if store.exists(name):
            return facts(url) | {"bytes": store.size()}
    if not store.exists():
        raise DataError(f"{url}: nothing is here")
    if store.names("versions"):
        return _versions_facts(url) | {"bytes": store.size()}
    below = [n for n in store.names() if any(store.exists(f"{n}/{name}") for name in known)]
    hint = f", but below it: {', '.join(below)}" if below else ""
    raise DataError(f"{url}: no corpus, run, model, matrix or graph is here{hint}")


def _versions_facts(url: str) -> Facts:
    versions = Versions(url)
    versions.exist()
    used = versions.read(versions.head.version)
    names = ("fresh", "measure", "score", "documents", "tokens", "words", "format")
    return {
        "what": "versions of a model",
        "url": url,
        "kind": used["model"],
        "kept": versions.numbers,
        "in_use": used["version"],
        "model": versions.model(used["version"]),
        "partitions": len(used["partitions"]),
        **{name: used[name] for name in names},
        "versions": used["software"],
    }


def corpus_facts(url: str) -> Facts:
    corpus = Corpus(url)
    about = corpus.meta["about"]
    longest = max((c.tokens for c in corpus.chunks), default=0)
    facts = {
        "what": "corpus",
        "url": url,
        "documents": corpus.n_documents,
        "held_out_documents": corpus.held_out.n_documents,
        "tokens": corpus.n_tokens,
        "words": corpus.n_words,
        "order": "as in the text" if corpus.is_ordered else "bag of words",
        "chunks": len(corpus.chunks),
        "largest_chunk_tokens": longest,
        "hash": corpus.hash,
        "format": corpus.meta["format"],
    }
    plan = ("chunk_tokens", "chunk_tokens_by", "note", "version")
    return facts | {name: about[name] for name in plan if about.get(name)}


def _data_facts(url: str, name: str) -> Facts:
    meta = Store(url).read_json(name)
    plain = {k: v for k, v in meta.items() if isinstance(v, str | int | float) and k != "kind"}
    return {"what": meta["kind"], "url": url, "chunks": len(meta["chunks"])} | plain


def _run_facts(url: str) -> Facts:
    run = RunStore(url)
    meta, rows = run.meta, run.metrics
    facts = {
        "what": "run",
        "url": url,
        "kind": meta["algorithm"],
        "data": meta["data"]["url"],
        "seed": meta["seed"],
        "shards": len(meta["shards"]),
        "epochs": int(rows[-1]["epoch"]) if rows else 0,
        "format": meta["format"],
        "versions": meta["versions"],
    }
    scores = {n: last_value(rows, n) for n in ("log_likelihood", "held_out_log_likelihood")}
    return facts | {name: score for name, score in scores.items() if score is not None}


def _model_facts(url: str) -> Facts:
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
