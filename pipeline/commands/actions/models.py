"""Use a trained model: its topics, similar words and documents, scores, files for other tools."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.store import DataError
from ...models.registry import load_model

Facts = dict[str, Any]


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
    sums = estimator.score_sums(corpus, client=client, **options or {})
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
    from ...models.lda.export import export as write

    estimator = _for_text(model_url, "to_gensim")
    corpus = Corpus(corpus_url, part) if corpus_url else None
    return {"out": out, "files": ", ".join(write(estimator, out, form, corpus))}


def transform(model_url: str, corpus_url: str, out: str, part: str, client: Any | None) -> Facts:
    """Write a row of topic weights for each document of a corpus, as Parquet files below ``out``."""
    estimator, corpus = _for_text(model_url, "transform_to"), Corpus(corpus_url, part)
    counts = estimator.transform_to(corpus, out, client=client)
    return {"out": out, "files": len(corpus.chunks), "columns": ["document", "weights"], **counts}


def _for_text(model_url: str, method: str) -> Any:
    estimator = load_model(model_url)
    if not hasattr(estimator, method):
        raise ValueError(f"{model_url}: models of kind {estimator.kind} do not apply to documents")
    return estimator
