"""Answers the questions of the page about a topic model."""

import contextlib
import threading
from functools import cached_property

import numpy as np

from ...io.errors import DataError
from ...io.stores.corpus import Corpus
from ...io.stores.store import Arrays, JsonObject
from ...io.words import find_word_ids, translate_words
from ..models.vectors.similarity import top_indices
from .documents import DocumentTable, SourceTexts
from .model import ExploredModel, Explorer
from .scan import Scan
from .table import FORMAT, TopicTable, build_table, cached_arrays, rounded

#: Words of a topic that are named in lists and on the map.
TITLE_WORDS = 6
#: Topics listed of a word and of a document.
LISTED_TOPICS = 30
DOCUMENT_TOPICS = 10
#: Results of a search, of each kind.
FOUND = 8
#: Most characters and words of a document that are shown.
SHOWN_CHARACTERS = 200_000
SHOWN_WORDS = 20_000
#: Characters of a document in a list.
SNIPPET = 240


class TopicExplorer(Explorer):
    """Answers requests of the page about the topics of LDA and NMF."""

    def __init__(self, model: ExploredModel, corpus: Corpus | None, limit: int, comparison: JsonObject | None = None):
        super().__init__(model, comparison)
        self.table = TopicTable(**cached_arrays(f"topics-{FORMAT}-{model.kind}-{model.digest}", self._build))
        self.documents: DocumentTable | None = None
        self.scan: Scan | None = None
        if corpus is not None and corpus.n_documents:
            self.documents = DocumentTable(corpus)
            self.texts = SourceTexts(self.documents)
            self.corpus = corpus
            self.scan = Scan(self.documents, self._shares, self.n_topics, limit)

    def _build(self) -> Arrays:
        return build_table(self.model.distributions)._asdict()

    def start(self) -> None:
        """Begin to read what later answers need. The page is usable meanwhile."""
        threading.Thread(target=self._prepare, name="explorer-prepare", daemon=True).start()
        if self.scan is not None:
            self.scan.start()

    def _prepare(self) -> None:
        """Read the model and the vocabulary, so that the first click need not wait for them."""
        # An error is raised again by the answer that needs the model, which shows it.
        with contextlib.suppress(DataError, OSError):
            self.model.search.containing("a", 1)
            self.answer_word(0)

    def stop(self) -> None:
        """Stop looking at documents."""
        if self.scan is not None:
            self.scan.stop()

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return len(self.table.sizes)

    @cached_property
    def _names(self) -> dict[int, str]:
        return self.model.read_names()

    # --- answers ---

    def answer_model(self) -> JsonObject:
        """Return what the page shows first: the map, and the size and the first words of each topic."""
        words = self.model.words
        heads = [[words[v] for v in self.table.most_relevant(topic, TITLE_WORDS)] for topic in range(self.n_topics)]
        return {
            "type": "topics",
            "kind": self.model.kind,
            "title": self.model.title,
            "words": len(words),
            "x": rounded(self.table.xy[:, 0], 4),
            "y": rounded(self.table.xy[:, 1], 4),
            "radius": rounded(self.table.radii, 5),
            "size": rounded(self.table.sizes, 6),
            "heads": heads,
            "names": {str(topic): name for topic, name in self._names.items()},
            "compared": self.comparison is not None,
            "can_name": self.model.is_saved,
            "documents": len(self.documents) if self.documents is not None else 0,
            "columns": self.documents.corpus.kept_columns if self.documents is not None else [],
        }

    def answer_topic(self, topic: int) -> JsonObject:
        """Return the words of a topic, and the topics near it."""
        start, stop = self.table.word_ptr[topic], self.table.word_ptr[topic + 1]
        ids = self.table.words[start:stop]
        near = zip(self.table.near[topic].tolist(), rounded(self.table.distances[topic], 3), strict=True)
        return {
            "topic": topic,
            "size": float(self.table.sizes[topic]),
            "ids": ids.tolist(),
            "words": [self.model.words[v] for v in ids],
            "probability": rounded(self.table.probabilities[start:stop], 6),
            "overall": rounded(self.table.overall[ids], 8),
            "near": [{"topic": other, "distance": distance} for other, distance in near],
        }

    def answer_documents(self, topic: int) -> JsonObject:
        """Return the documents that have most of a topic, and topics in the same documents, of those seen so far."""
        if self.scan is None or self.documents is None:
            return {"seen": 0, "wanted": 0, "documents": [], "together": [], "failure": ""}
        found = []
        for number, share in self.scan.documents(topic):
            key = str(self.documents.row(number)["key"])
            # The first words, as the vocabulary has them: texts would take too long for a list.
            words = " ".join(self._corpus_words[v] for v in self.documents.words(number)[:40])
            found.append({"document": number, "key": key, "share": round(share, 4), "start": words[:SNIPPET]})
        together = self.scan.together(topic, LISTED_TOPICS)
        return {
            "seen": self.scan.seen,
            "wanted": self.scan.limit,
            "documents": found,
            "together": [{"topic": other, "ratio": round(ratio, 2), "documents": n} for other, ratio, n in together],
            "failure": self.scan.failure,
        }

    def answer_groups(self, topic: int, column: str) -> JsonObject:
        """Return the mean share of a topic in each group of documents; a column of metadata names the groups."""
        if self.scan is None or self.documents is None or column not in self.documents.corpus.kept_columns:
            raise DataError(f"the corpus has no column {column!r}")
        return {"column": column, "groups": self.scan.groups(column, topic)}

    def answer_word(self, word: int) -> JsonObject:
        """Return the topics that a word occurs in, and the share of its occurrences that each has."""
        shares = self.model.distributions.rows(np.array([word]))[0]
        weights = shares * self.table.sizes
        given_word = weights / max(float(weights.sum()), 1e-300)
        best = top_indices(given_word, LISTED_TOPICS)
        best = best[given_word[best] > 1e-4]
        large = np.flatnonzero(given_word > 1e-3)
        topics = zip(best.tolist(), rounded(given_word[best], 5), rounded(shares[best], 7), strict=True)
        return {
            "id": word,
            "word": self.model.words[word],
            "overall": float(self.table.overall[word]),
            "topics": [{"topic": k, "share": share, "probability": p} for k, share, p in topics],
            "map": {"topics": large.tolist(), "shares": rounded(given_word[large], 4)},
        }

    def answer_document(self, document: int) -> JsonObject:
        """Return the metadata, the topics and the text of a document, each word with its most likely topic."""
        if self.documents is None or not 0 <= document < len(self.documents):
            raise DataError(f"there is no document {document}")
        row = self.documents.row(document)
        corpus_ids = self.documents.words(document)
        known = self._model_ids[corpus_ids]
        shares = self._shares(np.array([0, len(corpus_ids)]), corpus_ids)[0]
        best = [k for k in top_indices(shares, DOCUMENT_TOPICS).tolist() if shares[k] >= 0.01]
        text = self.texts.text(document, row)
        segments = self._colour_text(text, shares) if text else self._colour_words(corpus_ids, shares)
        return {
            "document": document,
            "key": str(row["key"]),
            "file": str(row.get("file", "")),
            "metadata": {name: str(row[name]) for name in self.documents.corpus.kept_columns if row[name] is not None},
            "tokens": len(corpus_ids),
            "unknown": int((known < 0).sum()),
            "topics": [{"topic": k, "share": round(float(shares[k]), 4)} for k in best],
            "is_text": bool(text),
            "is_bag": not self.corpus.is_ordered,
            "segments": segments,
        }

    def answer_search(self, text: str) -> JsonObject:
        """Return words, names of topics and keys of documents that contain a text."""
        text = text.strip()[:100]
        if not text:
            return {"words": [], "topics": [], "documents": []}
        ids = self.model.search.containing(text, FOUND)
        wanted = text.casefold()
        topics = [topic for topic, name in sorted(self._names.items()) if wanted in name.casefold()]
        if text.isdecimal() and int(text) < self.n_topics:
            topics.insert(0, int(text))
        found: list[tuple[int, str]] = []
        if self.documents is not None:
            found = self.documents.find(text, FOUND)
        return {
            "words": [{"id": v, "word": self.model.words[v]} for v in ids],
            "topics": topics[:FOUND],
            "documents": [{"document": number, "key": key} for number, key in found],
        }

    def store_name(self, topic: int, name: str) -> JsonObject:
        """Store the name of a topic and return all names."""
        if not 0 <= topic < self.n_topics:
            raise DataError(f"there is no topic {topic}")
        self._names = self.model.name_topic(topic, name)
        return {"names": {str(number): text for number, text in self._names.items()}}

    # --- documents ---

    @cached_property
    def _corpus_words(self) -> list[str]:
        return self.corpus.vocabulary["word"].to_pylist()

    @cached_property
    def _model_ids(self) -> np.ndarray:
        """The model's id of each word of the corpus, -1 for words that the model does not have."""
        return find_word_ids(self.corpus.vocabulary["word"], self.model.vocabulary)

    def _shares(self, doc_ptr: np.ndarray, corpus_ids: np.ndarray) -> np.ndarray:
        """Return the topic shares of documents given by the ids of the corpus: (D, K), rows sum to one."""
        doc_ptr, words = translate_words(doc_ptr, corpus_ids, self._model_ids)
        rows = self.model.estimator._transform_chunk(doc_ptr, words)
        return rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-30)

    def _topics_of_words(self, ids: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the most likely topic of each word in a document, -1 for unknown words, and its probability."""
        # A word has the same topic wherever it occurs in the document.
        distinct, positions = np.unique(ids, return_inverse=True)
        is_known = distinct >= 0
        weights = self.model.distributions.rows(distinct[is_known]) * shares
        sums = weights.sum(axis=1)
        best = weights.argmax(axis=1)
        topics = np.full(len(distinct), -1)
        topics[is_known] = np.where(sums > 0, best, -1)
        probabilities = np.zeros(len(distinct))
        probabilities[is_known] = weights[np.arange(len(best)), best] / np.maximum(sums, np.finfo(sums.dtype).tiny)
        return topics[positions], probabilities[positions]

    def _colour_text(self, text: str, shares: np.ndarray) -> list[list[object]]:
        """Return the pieces of a text: [text, topic or -1, probability]."""
        text = text[:SHOWN_CHARACTERS]
        tokens = self.texts.tokens(text)
        ids = find_word_ids([word for _, _, word in tokens], self.model.vocabulary)
        topics, probabilities = self._topics_of_words(ids, shares)
        segments: list[list[object]] = []
        position = 0
        for (start, stop, _), topic, probability in zip(tokens, topics.tolist(), probabilities.tolist(), strict=True):
            if topic < 0:
                continue
            if start > position:
                segments.append([text[position:start], -1, 0])
            segments.append([text[start:stop], topic, round(probability, 2)])
            position = stop
        if position < len(text):
            segments.append([text[position:], -1, 0])
        return segments

    def _colour_words(self, corpus_ids: np.ndarray, shares: np.ndarray) -> list[list[object]]:
        """Return the words of a document without text: in their order, or once with their number in a bag of words."""
        counts = np.ones(len(corpus_ids), np.int64)
        if not self.corpus.is_ordered:
            corpus_ids, counts = np.unique(corpus_ids, return_counts=True)
            order = np.argsort(-counts, kind="stable")
            corpus_ids, counts = corpus_ids[order], counts[order]
        corpus_ids = corpus_ids[:SHOWN_WORDS]
        counts = counts[:SHOWN_WORDS]
        topics, probabilities = self._topics_of_words(self._model_ids[corpus_ids], shares)
        rows = zip(corpus_ids, counts, topics.tolist(), probabilities.tolist(), strict=True)
        segments: list[list[object]] = []
        for word, count, topic, probability in rows:
            text = self._corpus_words[word]
            if count > 1:
                text += f" ×{count}"
            segments += [[text, topic, round(probability, 2)], [" ", -1, 0]]
        return segments
