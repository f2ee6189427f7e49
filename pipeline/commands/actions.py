"""What the commands do. Each takes a checked configuration or URLs and returns plain data, which others print."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ...configs.resolve import public
from ...configs.schema import Config
from ...io.readers.edges import EdgeOptions
from ...io.stores.corpus import Corpus
from ...io.stores.graph import write_graph
from ...io.stores.store import DataError, Store
from ..engine.events import Event, Subscriber
from ..engine.run import RunStore
from ..ingest.ingest import IngestOptions, Listener
from ..ingest.ingest import ingest as ingest_source
from ..models.base.estimator import read_model_meta
from ..models.base.text import load_model
from ..models.versions import Versions
from ..views.report.render import MEASURED, last
from .pages import report

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
    return _corpus_facts(config.corpus.url) | {"changed": stages[-1] != "unchanged"}


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


def train(config: Config, client: Any | None, subscribers: Sequence[Subscriber] = (), overwrite: bool = False) -> Facts:
    """Train, or go on with, the model of a configuration; leave model and report; return the results."""
    estimator = estimator_of(config)
    if overwrite:
        _forget(config.run.url)
    began = _Began()
    estimator.fit(
        config.corpus.url,
        client=client,
        run=config.run.url,
        subscribers=[began, *subscribers],
        evaluate_every=config.run.evaluate_every,
        config=public(config),
    )
    estimator.save(config.model_url)
    facts = results(estimator) | {"run": config.run.url, "model": config.model_url, "trained_epochs": began.trained}
    if config.report:
        facts["report"] = report(config.run.url, config.report_path, estimator, config.report.n_words)
    return facts


def estimator_of(config: Config) -> Any:
    """Return the estimator that a configuration's model section describes, not fitted."""
    from .. import ESTIMATORS

    kind = config.model.kind
    if kind not in ESTIMATORS:
        raise ValueError(f"model.kind: this version has no {kind}; choose one of {', '.join(ESTIMATORS)}")
    return ESTIMATORS[kind](**config.model.model_dump(exclude={"kind"}))


class _Began:
    """Counts the epochs that a call of fit trained."""

    def __init__(self) -> None:
        self.trained = 0

    def __call__(self, event: Event) -> None:
        self.trained += type(event).__name__ == "EpochFinished"


def _forget(url: str) -> None:
    """Delete a run's files, and nothing else that lies beside them."""
    store = Store(url)
    if store.exists("run.json"):
        with RunStore(url).locked():
            for name in ("run.json", "HEAD", "metrics.jsonl", "epochs", "base"):
                store.delete(name)


def results(estimator: Any) -> Facts:
    """Return what a trained estimator's rows of metrics say at the end."""
    rows = estimator.history_
    rates = sorted(row["tokens_per_second"] for row in rows)
    facts: Facts = {
        "kind": estimator.kind,
        "epochs": estimator.n_iter_,
        "training_seconds": rows[-1]["training_seconds"] if rows else 0.0,
        "tokens_per_second": rates[len(rates) // 2] if rates else None,
    }
    for name in ("log_likelihood", "held_out_log_likelihood"):
        if last(rows, name) is not None:
            facts[name] = last(rows, name)
    own = rows[-1].items() if rows else ()
    facts["measures"] = {k: v for k, v in own if k not in MEASURED and k not in facts and not k.startswith("seconds")}
    return facts


def topics(estimator: Any, n_words: int = 10) -> list[Facts]:
    """Return a model's topics, largest first; an empty list for a model that has none."""
    found = estimator.topics(n_words) if hasattr(estimator, "topics") else []
    return sorted(found, key=lambda topic: -topic["size"])


def similar(
    model_url: str, words: Sequence[str], corpus_url: str | None, without: Sequence[str], number: int, part: str
) -> list[Facts]:
    """Return the words, or a corpus's documents, nearest to ``words`` together, those ``without`` subtracted.

    Words' neighbours are those of a model with vectors; any model of text finds documents.
    """
    estimator = load_model(model_url) if corpus_url is None else _for_text(model_url, "search")
    vectors = hasattr(estimator, "wv")
    if corpus_url is None and not vectors:
        raise ValueError(f"{model_url}: models of kind {estimator.kind} have no word vectors; see --documents")
    known = estimator.wv if vectors else set(estimator.words_)
    for word in (*words, *without):
        if word not in known:
            raise DataError(f"{model_url}: the word {word!r} is not in its vocabulary")
    if corpus_url is None:
        what, found = "word", estimator.wv.most_similar(list(words), list(without), topn=number)
    else:
        what, found = "document", estimator.search(Corpus(corpus_url, part), words, without, number)
    return [{what: name, "similarity": similarity} for name, similarity in found]


def evaluate(
    model_url: str, corpus_url: str, part: str, client: Any | None, options: dict[str, Any] | None = None
) -> Facts:
    """Score a model on one part of a corpus; options are those of its ``score``."""
    estimator, corpus = _for_text(model_url, "score_sums"), Corpus(corpus_url, part)
    if not corpus.n_documents:
        raise DataError(f"{corpus_url}: no document is in its part {part!r}; choose --part, or ingest with held_out")
    sums = estimator.score_sums(corpus, client, **options or {})
    score = float(sums["log_likelihood"]) / int(sums["tokens"])
    return {
        "model": model_url,
        "corpus": corpus_url,
        "part": part,
        "documents": corpus.n_documents,
        "scored_tokens": int(sums["tokens"]),
        "log_likelihood": score,
        "perplexity": math.exp(min(-score, 700.0)),
    }


def coherence(model_url: str, corpus_url: str, part: str, measures: Sequence[str], client: Any | None) -> Facts:
    """Return the mean over topics of each measure of coherence, and the topics' diversity where any is asked for."""
    if not measures:
        return {}
    estimator, corpus = _for_text(model_url, "coherence"), Corpus(corpus_url, part)
    means = {f"coherence_{m}": float(np.nanmean(estimator.coherence(corpus, m, client=client))) for m in measures}
    return means | {"diversity": estimator.diversity()}


def export(model_url: str, out: str, form: str, corpus_url: str | None = None, part: str = "train") -> Facts:
    """Write a topic model as files for other tools."""
    from ..models.lda.export import export as write

    estimator = _for_text(model_url, "to_gensim")
    corpus = Corpus(corpus_url, part) if corpus_url else None
    return {"out": out, "files": ", ".join(write(estimator, out, form, corpus))}


def transform(model_url: str, corpus_url: str, out: str, part: str, client: Any | None) -> Facts:
    """Write a row of topic weights for each document of a corpus, as Parquet files below ``out``."""
    estimator, corpus = _for_text(model_url, "transform_to"), Corpus(corpus_url, part)
    counts = estimator.transform_to(corpus, out, client)
    return {"out": out, "files": len(corpus.chunks), "columns": ["document", "weights"], **counts}


def _for_text(model_url: str, method: str) -> Any:
    estimator = load_model(model_url)
    if not hasattr(estimator, method):
        raise ValueError(f"{model_url}: models of kind {estimator.kind} do not apply to documents")
    return estimator


# --- inspect ---


def inspect(url: str) -> Facts:
    """Say what lies at a URL; raise DataError where it is nothing of ours."""
    store = Store(url)
    known = {
        "corpus.json": _corpus_facts,
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


def _corpus_facts(url: str) -> Facts:
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
    scores = {n: last(rows, n) for n in ("log_likelihood", "held_out_log_likelihood")}
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
