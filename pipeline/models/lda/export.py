"""LDA models as other tools take them: pyLDAvis, gensim, MALLET's text files, tables of words.

``model`` is an ``LDA``, whose module imports this one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.store import DataError, Store
from ....io.text.vocabulary import find_word_ids
from ..base.sparse_rows import row_of_each_entry

#: Words of a topic in MALLET's topic keys and in the table of top words.
KEYS, TOP = 20, 100


def to_pyldavis(model: Any, data: Any, client: Any | None = None) -> dict[str, Any]:
    """Return the arguments of ``pyLDAvis.prepare``, documents' topics estimated from ``data``.

    ``topic_term_dists`` (K, V), ``doc_topic_dists`` (D, K), ``doc_lengths`` (D,), ``vocab`` (V,), ``term_frequency``
    (V,); documents without a word that the model knows are left out. Raises DataError when none is left.
    """
    corpus = model.open(data)
    lengths = known_lengths(model, corpus)
    if not lengths.any():
        raise DataError(f"{corpus.url}: no document has a word that the model knows")
    topics = word_probabilities(model)
    weights = np.asarray(model.transform(corpus, client=client), np.float64)[lengths > 0]
    return {
        "topic_term_dists": topics,
        "doc_topic_dists": weights / weights.sum(axis=1, keepdims=True),
        "doc_lengths": lengths[lengths > 0],
        "vocab": model.words_,
        "term_frequency": np.maximum(1, word_counts(model).sum(axis=0)),
    }


def word_counts(model: Any) -> np.ndarray:
    """Return the counts of words by topic, in the order of ``words_``: (K, V) int64."""
    fitted = model.model_
    counts = np.zeros((model.n_components, len(model.words_)), np.int64)
    for first, block in zip(model.bounds_[:-1], fitted.blocks, strict=True):
        words = first + row_of_each_entry(block["row_ptr"])
        counts[block["topics"], words] = block["counts"]
    return counts


def word_probabilities(model: Any) -> np.ndarray:
    """Return the topics' distributions over ``words_``: (K, V) float64, rows sum to one."""
    found = word_counts(model) + float(model.model_.shared["beta"])
    return found / found.sum(axis=1, keepdims=True)


def known_lengths(model: Any, corpus: Corpus) -> np.ndarray:
    """Return how many tokens of each document the model knows: (D,) int64."""
    known = find_word_ids(corpus.vocabulary["word"], model.model_.vocabulary) >= 0
    parts = [np.zeros(0, np.int64)]
    for c in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(c)
        parts.append(np.diff(np.r_[0, np.cumsum(known[chunk.words])][chunk.doc_ptr]))
    return np.concatenate(parts)


def to_gensim(model: Any) -> Any:
    """Return a gensim LdaModel of the same topics, with a Dictionary of the same words; raises ImportError without."""
    from gensim.corpora import Dictionary
    from gensim.models import LdaModel

    words, shared = model.words_, model.model_.shared
    dictionary = Dictionary()
    dictionary.token2id = {word: v for v, word in enumerate(words)}
    dictionary.dfs = dict(enumerate(model.model_.vocabulary["document_frequency"].to_pylist()))
    dictionary.id2token = dict(enumerate(words))
    alpha = np.asarray(shared["alpha"], np.float32)
    found = LdaModel(id2word=dictionary, num_topics=model.n_components, alpha=alpha, eta=float(shared["beta"]))
    # Its expectation of the topics is λ = η + counts, of which it keeps the counts.
    found.state.sstats = word_counts(model).astype(found.dtype)
    found.sync_state()
    return found


# --- files ---


def export(model: Any, out: str, form: str, corpus: Corpus | None = None, client: Any | None = None) -> list[str]:
    """Write a model below ``out`` in the form of another tool and return the files' names.

    Forms: "tsv" (top words) and "mallet" (topic keys; with a corpus, its documents' topics). Raises ValueError for
    another one.
    """
    if form not in FORMS:
        raise ValueError(f"format is {form!r}: choose one of {', '.join(FORMS)}")
    store, names = Store(out), []
    for name, lines in FORMS[form](model, corpus, client):
        store.write_bytes(name, "".join(f"{line}\n" for line in lines).encode())
        names.append(name)
    return names


def _tsv(model: Any, corpus: Corpus | None, client: Any | None) -> Iterator[tuple[str, Iterator[str]]]:
    rows = (
        f"{topic['topic']}\t{rank}\t{word['word']}\t{word['probability']:.6g}"
        for topic in model.topics(TOP)
        for rank, word in enumerate(topic["words"], 1)
    )
    yield "top-words.tsv", _headed("topic\trank\tword\tprobability", rows)


def _mallet(model: Any, corpus: Corpus | None, client: Any | None) -> Iterator[tuple[str, Iterator[str]]]:
    alpha = model.model_.shared["alpha"]
    keys = (
        f"{topic['topic']}\t{alpha[topic['topic']]:.5f}\t{' '.join(w['word'] for w in topic['words'])} "
        for topic in model.topics(KEYS)
    )
    yield "topic-keys.txt", keys
    if corpus is not None:
        names, weights = corpus.documents["key"].to_pylist(), model.transform(corpus, client=client)
        rows = (
            "\t".join([str(d), name, *(repr(float(x)) for x in row)])
            for d, (name, row) in enumerate(zip(names, weights, strict=True))
        )
        yield "doc-topics.txt", rows


def _headed(head: str, rows: Iterator[str]) -> Iterator[str]:
    yield head
    yield from rows


#: What writes each form: (name, lines) of its files.
FORMS: dict[str, Callable[..., Iterator[tuple[str, Iterator[str]]]]] = {"tsv": _tsv, "mallet": _mallet}
