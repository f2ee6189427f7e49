"""Look into a trained model: topics, similar words and documents, scores."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....io.errors import DataError
from ....io.messages import other_case
from ....io.stores.corpus import Corpus
from ....io.stores.store import Store
from ...models.base.estimator import Estimator
from ...models.base.in_use import model_in_use
from ...models.base.saved import read_model_meta
from ...models.base.text import HasWordVectors
from ...models.base.topics import TopicModel
from ...models.registry import load_model
from ...topics import Topic
from ...views.history import perplexity
from . import Facts

if TYPE_CHECKING:
    from collections.abc import Container

    from distributed import Client


#: What the output calls the parts of a corpus.
PART_NAMES = {"train": "training", "held_out": "held-out"}


def load_topic_model(url: str) -> TopicModel:
    """Read a model that has topics; raise ValueError for a model of another kind."""
    model = load_model(url)
    if not isinstance(model, TopicModel):
        hint = ""
        if isinstance(model, HasWordVectors):
            hint = (
                "; for word vectors, call 'corpusmill similar', or 'corpusmill export' with --format vectors; in "
                "Python, wv.evaluate_word_pairs measures vectors"
            )
        raise ValueError(
            f"{url}: {model._kind} models have no topics, and give documents no likelihood; lda and nmf models do{hint}"
        )
    return model


def load_vector_model(url: str) -> HasWordVectors:
    """Read a model that has word vectors; raise ValueError for a model of another kind."""
    model = load_model(url)
    if not isinstance(model, HasWordVectors):
        raise ValueError(
            f"{url}: {model._kind} models have no word vectors; word2vec, node2vec, fastrp and random-indexing models "
            f"do. Any model searches documents: 'corpusmill similar' with --documents CORPUS"
        )
    return model


def topics_by_size(estimator: Estimator | TopicModel, n_words: int = 10) -> list[Topic]:
    """Return the topics of a model in memory, largest first. The list is empty for models without topics."""
    if not isinstance(estimator, TopicModel):
        return []
    return sorted(estimator.topics(n_words), key=lambda topic: -topic["size"])


def similar(
    model_url: str, words: Sequence[str], without: Sequence[str] = (), number: int = 10, corpus: Corpus | None = None
) -> list[Facts]:
    """Return the words nearest to the sum of ``words`` minus the sum of ``without``, or the documents of ``corpus``.

    Raises DataError for a word that the model does not have, and for a model of a matrix, which has no words;
    ValueError for a model without word vectors, if there is no corpus.
    """
    if corpus is None:
        vectors = load_vector_model(model_url).wv
        _check_words(model_url, [*words, *without], vectors.key_to_index)
        found = vectors.most_similar(list(words), list(without), topn=number)
        return [{"word": word, "similarity": similarity} for word, similarity in found]
    model = load_model(model_url)
    _check_words(model_url, [*words, *without], set(model._vocabulary()["word"].to_pylist()))
    found = model.search(corpus, words, without, number)
    return [{"document": key, "similarity": similarity} for key, similarity in found]


def _check_words(model_url: str, words: Iterable[str], vocabulary: "Container[str]") -> None:
    for word in words:
        if word not in vocabulary:
            hint = other_case(word, vocabulary)
            raise DataError(f"{model_url}: the word {word!r} is not in the vocabulary of this model{hint}")


def check_stored(model_url: str, corpus_url: str = "", part: str = "train") -> int:
    """Return the size of a model; raise DataError if it or a corpus is missing. This needs no cluster."""
    meta = read_model_meta(model_url)
    if corpus_url:
        Corpus(corpus_url, part)
    return Store(model_in_use(model_url)).size(meta["arrays"])


def evaluate(
    model_url: str,
    corpus_url: str,
    part: str = "held_out",
    client: "Client | None" = None,
    method: str | None = None,
    measures: Sequence[str] = (),
) -> Facts:
    """Score a model on one part of a corpus, and measure the coherence of its topics.

    ``method`` is a way in which LDA scores documents; None is the default of the model. ``measures`` are measures of
    coherence. Raises ValueError for what a model of this kind does not have, DataError for a corpus without documents.
    """
    model = load_topic_model(model_url)
    corpus = Corpus(corpus_url, part)
    if not corpus.n_documents:
        raise DataError(
            f"{corpus_url}: the part {part!r} has no documents; choose another --part, or ingest with corpus.held_out "
            f"above 0"
        )
    if method is not None and method not in model._score_methods:
        raise ValueError(f"{model_url}: --method applies to lda models, and this model is of kind {model._kind}")
    sums = model._sum_scores(corpus, client, {} if method is None else {"method": method})
    tokens = int(sums["tokens"])
    score = float(sums["log_likelihood"]) / tokens
    facts: Facts = {
        "model": model_url,
        "corpus": corpus_url,
        "part": part,
        "documents": corpus.n_documents,
        "scored_tokens": tokens,
        "log_likelihood": score,
        "perplexity": perplexity(score),
    }
    if measures:
        facts |= _coherence(model, corpus, measures, client)
    return facts


def _coherence(model: TopicModel, corpus: Corpus, measures: Iterable[str], client: "Client | None") -> Facts:
    """Return the coherence of each topic, the means, and the diversity of the topics."""
    values = {measure: model.coherence(corpus, measure, client=client) for measure in measures}
    # A topic with fewer than two words in the corpus has no coherence: NaN.
    topics = [
        topic | {"coherence": {m: None if np.isnan(each[k]) else float(each[k]) for m, each in values.items()}}
        for k, topic in enumerate(model.topics())
    ]
    facts: Facts = {
        "topics": topics,
        "coherence_counted_in": f"{corpus.n_documents:,} {PART_NAMES[corpus.part]} documents",
        "diversity": model.diversity(),
    }
    for measure, each in values.items():
        facts[f"mean_coherence_{measure}"] = None if np.isnan(each).all() else float(np.nanmean(each))
    return facts
