"""Write the topics or the vectors of a model as files for other tools."""

import re
from collections.abc import Iterable, Iterator

from ....io.stores.corpus import Corpus
from ....io.stores.store import Store
from ...models.base.topics import TopicModel
from ...models.lda.estimator import LDA
from ...topics import Topic, weight_of, words_of
from . import Facts
from .hub import write_card
from .models import load_topic_model, load_vector_model

#: Words per topic, as many as MALLET writes by default.
MALLET_WORDS = 20
TSV_WORDS = 100


def export(model_url: str, out: str, file_format: str, corpus_url: str | None = None, part: str = "train") -> Facts:
    """Write a model below ``out``. Formats: "tsv", "mallet", "card" and "vectors", for which ``out`` is a file.

    Raises ValueError for models without what is written: topics, or vectors. Every model has a card.
    """
    if file_format == "card":
        return {"out": out, "files": ", ".join(write_card(model_url, out, corpus_url))}
    if file_format == "vectors":
        vectors = load_vector_model(model_url).wv
        vectors.save(out)
        return {"out": out, "words": len(vectors), "dimensions": vectors.vector_size}
    model = load_topic_model(model_url)
    if file_format == "tsv":
        names = write_tsv(model, out)
    elif isinstance(model, LDA):
        corpus = Corpus(corpus_url, part) if corpus_url else None
        names = write_mallet(model, out, corpus)
    else:
        raise ValueError(f"{model_url}: MALLET's files are for LDA models, since they hold the prior; use --format tsv")
    return {"out": out, "files": ", ".join(names)}


def write_tsv(model: TopicModel, out: str) -> list[str]:
    """Write top-words.tsv, one line per topic and word, and topics.tsv, one line per topic; return their names.

    The last column of the words is the probability in the topic for LDA, and the weight for NMF. topics.tsv has the
    names that users gave.
    """
    value = "probability" if isinstance(model, LDA) else "weight"
    lines = [f"topic\trank\tword\t{value}"]
    topics = model.topics(TSV_WORDS)
    for topic in topics:
        for rank, entry in enumerate(topic["words"], 1):
            lines.append(_row(topic["topic"], rank, entry["word"], f"{weight_of(entry):.6g}"))
    _write_lines(out, "top-words.tsv", lines)
    _write_lines(out, "topics.tsv", _topic_lines(topics))
    return ["top-words.tsv", "topics.tsv"]


def write_mallet(model: LDA, out: str, corpus: Corpus | None = None) -> list[str]:
    """Write MALLET's topic-keys.txt and, with a corpus, doc-topics.txt, and return their names.

    MALLET's files have no place for the names that users gave to topics. With such names, topics.tsv has them.
    """
    alpha = model.model_.shared["alpha"]
    keys = []
    for topic in model.topics(MALLET_WORDS):
        number = topic["topic"]
        words = " ".join(words_of(topic))
        keys.append(_row(number, f"{alpha[number]:.5f}", f"{words} "))  # MALLET ends each line with a space
    _write_lines(out, "topic-keys.txt", keys)
    written = ["topic-keys.txt"]
    if corpus is not None:
        _write_lines(out, "doc-topics.txt", _document_lines(model, corpus))
        written.append("doc-topics.txt")
    if model.topic_names_:
        _write_lines(out, "topics.tsv", _topic_lines(model.topics(MALLET_WORDS)))
        written.append("topics.tsv")
    return written


def _topic_lines(topics: Iterable[Topic]) -> Iterator[str]:
    """Yield the lines of topics.tsv: number, name and size of each topic."""
    yield "topic\tname\tsize"
    for topic in topics:
        yield _row(topic["topic"], topic.get("name", ""), f"{topic['size']:.6g}")


def _document_lines(model: LDA, corpus: Corpus) -> Iterator[str]:
    keys = corpus.documents["key"].to_pylist()
    weights = model.transform(corpus)
    for number, (key, row) in enumerate(zip(keys, weights, strict=True)):
        yield _row(number, key, *(repr(float(weight)) for weight in row))


def _row(*fields: object) -> str:
    """Return a line. A tab or a line break in a field, such as in a word of a list, becomes a space."""
    return "\t".join(re.sub(r"[\t\r\n]", " ", str(field)) for field in fields)


def _write_lines(out: str, name: str, lines: Iterable[str]) -> None:
    Store(out).write_bytes(name, "".join(f"{line}\n" for line in lines).encode())
