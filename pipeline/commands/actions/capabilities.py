"""Load a model for a task, or explain why a model of its kind cannot do it."""

from ...models.base.capabilities import HasWordVectors
from ...models.base.topics import TopicModel
from ...models.registry import load_model


def load_topic_model(url: str) -> TopicModel:
    """Read a model that has topics; raise ValueError for a model of another kind."""
    model = load_model(url)
    if not isinstance(model, TopicModel):
        hint = ""
        if isinstance(model, HasWordVectors):
            hint = "; for word vectors, call 'corpusmill similar', or 'corpusmill export' with --format vectors"
        raise ValueError(f"{url}: {model._kind} models have no topics; lda and nmf models do{hint}")
    return model


def load_scored_model(url: str) -> TopicModel:
    """Read a model that scores documents; raise ValueError for a model of another kind."""
    model = load_model(url)
    if not isinstance(model, TopicModel):
        hint = ""
        if isinstance(model, HasWordVectors):
            hint = "; in Python, wv.evaluate_word_pairs and Node2Vec.evaluate measure vectors"
        raise ValueError(f"{url}: {model._kind} models give documents no likelihood; lda and nmf models do{hint}")
    return model


def load_vector_model(url: str) -> HasWordVectors:
    """Read a model that has word vectors; raise ValueError for a model of another kind."""
    model = load_model(url)
    if not isinstance(model, HasWordVectors):
        raise ValueError(
            f"{url}: {model._kind} models have no word vectors; word2vec, node2vec and random-indexing models do. Any "
            f"model searches documents: 'corpusmill similar' with --documents CORPUS"
        )
    return model
