"""Estimators of text: what they accept, and applying a trained model to other documents."""

import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....io.stores.corpus import Chunk, Corpus
from ....io.stores.store import Arrays, DataError, Store
from ....io.text.vocabulary import find_word_ids
from ....kernels import random
from ...engine.algorithm import add
from ...engine.cache import CACHE
from ...engine.executors import executor_for
from ...engine.run import RunStore
from .estimator import Estimator, read_model_meta
from .similarity import top_indices, unit_vector

#: Files that ``transform_to`` writes.
OUTPUT = re.compile(r"part-\d{6}\.parquet")
#: Bytes of the rows that it holds at once, a row group of a file.
GROUP_BYTES = 32 << 20


class TextEstimator(Estimator):
    """Base of the models that train on a corpus of documents and apply to others."""

    def open(self, data: Any) -> Corpus:
        """Return the corpus for a Corpus, its URL, a scipy sparse matrix, or documents (strings or token lists)."""
        if isinstance(data, Corpus):
            return data
        if isinstance(data, str | os.PathLike):
            return Corpus(os.fspath(data))
        from ...ingest.ingest import corpus_from

        corpus = corpus_from(data)
        self.n_features_in_ = data.shape[1] if hasattr(data, "shape") else corpus.n_words
        return corpus

    @property
    def words_(self) -> list[str]:
        """The vocabulary, in the order of the model's columns."""
        return self._fitted().vocabulary["word"].to_pylist()

    def in_input_order(self, columns: np.ndarray, missing: float) -> np.ndarray:
        """Reorder (K, V) columns as in the matrix that fit was given; those that were all zero get ``missing``."""
        width = getattr(self, "n_features_in_", None)
        words = self.words_
        if width is None or not all(w.isdigit() for w in words):
            return columns
        ordered = np.full((len(columns), width), missing, columns.dtype)
        ordered[:, [int(w) for w in words]] = columns
        return ordered

    # --- other documents ---

    @abstractmethod
    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the (D, K) float32 rows of documents given in document order by the model's word ids."""

    @abstractmethod
    def score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` of such documents; further options are the model's own."""

    def transform(self, data: Any, client: Any | None = None) -> np.ndarray:
        """Return a row a document: (D, K) float32. Words that the model does not know are skipped.

        A document's row depends on its own words alone, whatever else is in the batch.
        """
        corpus = self.open(data)
        if not corpus.chunks:
            raise DataError(f"{corpus.url}: there is no document in it")
        executor = executor_for(client)
        with self._on_workers(executor) as model:
            arguments = [(model, Store(corpus.url).absolute, corpus.part, c, None) for c in range(len(corpus.chunks))]
            rows = executor.run(_transform_chunk, arguments, key=f"transform-{os.urandom(4).hex()}")
            found = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
        return np.concatenate(found)

    def transform_to(self, corpus: Corpus, out: str, client: Any | None = None) -> dict[str, int]:
        """Write a Parquet file a chunk, with columns ``document`` and ``weights``; return what was counted."""
        executor = executor_for(client)
        with self._on_workers(executor) as model:
            arguments = [
                (model, Store(corpus.url).absolute, corpus.part, c, Store(out).absolute)
                for c in range(len(corpus.chunks))
            ]
            counts: dict[str, int] = {"documents": 0, "tokens": 0, "unseen_tokens": 0}
            for _, one in executor.run(_transform_chunk, arguments, key=f"transform-{os.urandom(4).hex()}"):
                counts = {name: counts[name] + one[name] for name in counts}
        for name in Store(out).names():
            # Of an earlier corpus with more chunks.
            if OUTPUT.fullmatch(name) and name not in {f"part-{c:06d}.parquet" for c in range(len(corpus.chunks))}:
                Store(out).delete(name)
        return counts

    def query(self, words: Sequence[str]) -> np.ndarray:
        """Return the row (K,) float32 of a few words, as of a document; raise KeyError if none is known."""
        places = find_word_ids(list(words), self._fitted().vocabulary)
        known = places[places >= 0].astype(np.uint32)
        if not len(known):
            raise KeyError(f"none of {', '.join(words)} is among the words of this model")
        doc_ptr = np.array([0, len(known)])
        return self.transform_chunk(doc_ptr, known, _document_keys(self, doc_ptr, known))[0]

    def search(
        self, data: Any, words: Sequence[str], without: Sequence[str] = (), topn: int = 10, client: Any | None = None
    ) -> list[tuple[str, float]]:
        """Return keys and cosines of the documents nearest to a few words, those ``without`` subtracted.

        Some of a chunk's rows are held at a time, never those of all documents. Raises as ``query``.
        """
        wanted = unit_vector(self.query(words)) - (unit_vector(self.query(without)) if without else 0)
        corpus, executor = self.open(data), executor_for(client)
        with self._on_workers(executor) as model:
            url = Store(corpus.url).absolute
            arguments = [(model, url, corpus.part, c, wanted, topn) for c in range(len(corpus.chunks))]
            found = dict(executor.run(_search_chunk, arguments, key=f"search-{os.urandom(4).hex()}"))
        pairs = [pair for chunk in sorted(found) for pair in found[chunk]]
        return sorted(pairs, key=lambda pair: -pair[1])[:topn]

    def score(self, data: Any, client: Any | None = None, **options: Any) -> float:
        """Return the held-out log-likelihood per token by document completion."""
        sums = self.score_sums(data, client, **options)
        return float(sums["log_likelihood"] / int(sums["tokens"]))

    def score_sums(self, data: Any, client: Any | None = None, **options: Any) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` over all documents; raise DataError without any token."""
        corpus = self.open(data)
        executor = executor_for(client)
        with self._on_workers(executor) as model:
            url = Store(corpus.url).absolute
            arguments = [(model, url, corpus.part, c, options) for c in range(len(corpus.chunks))]
            results = dict(executor.run(_score_chunk, arguments, key=f"score-{os.urandom(4).hex()}"))
        sums: Arrays = {}
        for chunk in sorted(results):
            sums = add(sums, results[chunk])
        if not int(sums.get("tokens", 0)):
            raise DataError(f"{corpus.url}: nothing to score: no document has two words that the model knows")
        return sums

    def _on_workers(self, executor: Any) -> "_Published":
        return _Published(self, executor)


class Saved(NamedTuple):
    """A saved model as tasks are told of it; ``name`` differs when the content does."""

    url: str
    name: str


class _Published:
    """The trained model as tasks find it: itself in this process, a saved copy for other processes."""

    def __init__(self, estimator: TextEstimator, executor: Any):
        estimator._fitted()
        self.estimator, self.local = estimator, not executor.capacities()[0].address
        self.folder: Any = None

    def __enter__(self) -> Any:
        if self.local:
            return self.estimator
        name = self.estimator.saved_name()
        if name:
            # Workers on other machines see what the user saved, not this machine's temporary folder.
            return Saved(self.estimator.saved_at, name)
        import tempfile

        self.folder = tempfile.TemporaryDirectory(prefix="corpusmill-model-")
        self.estimator.save(self.folder.name)
        return Saved(self.folder.name, self.folder.name)

    def __exit__(self, *_: Any) -> None:
        if self.folder is not None:
            self.folder.cleanup()


def load_model(url: str) -> Any:
    """Read a saved model of whatever kind."""
    from ... import ESTIMATORS

    kind = read_model_meta(url)["model"]
    if kind not in ESTIMATORS:
        raise DataError(f"{url}: a model of kind {kind!r}, which this version does not know")
    return ESTIMATORS[kind].load(url)


def model_of_run(url: str) -> Any:
    """Read the model that a run of whatever kind committed last."""
    return estimator_of_run(RunStore(url).meta).from_run(url)


def estimator_of_run(meta: dict[str, Any]) -> Any:
    """Return the estimator that a run's run.json describes, not fitted."""
    from ... import ESTIMATORS

    parameters = dict(meta["config"].get("model", {}))
    kind = parameters.pop("kind", None)
    if kind not in ESTIMATORS:
        raise DataError(f"a run of {meta['algorithm']}, whose model this version does not know")
    return ESTIMATORS[kind](**parameters)


def _known(model: Any, corpus: Corpus, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """Return the chunk's documents by the model's word ids, words it does not know left out."""
    ids = find_word_ids(corpus.vocabulary["word"], model.model_.vocabulary)[chunk.words]
    kept = ids >= 0
    return np.r_[0, np.cumsum(kept)][chunk.doc_ptr], ids[kept].astype(np.uint32)


def _document_keys(model: Any, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
    """One key a document, from the seed and its words, so that a document's row does not depend on its neighbours."""
    seed = random.key(int(model.random_state or 0))
    return random.fingerprints(doc_ptr, words, seed)


def _documents(model: Any, url: str, part: str, index: int) -> tuple[Any, Corpus, Chunk, np.ndarray, np.ndarray]:
    if isinstance(model, Saved):
        saved = model
        model = CACHE.load((saved, "model"), 0, lambda: load_model(saved.url), lambda _: 0, 0)
    corpus = Corpus(url, part)
    chunk = corpus.read_chunk(index)
    doc_ptr, words = _known(model, corpus, chunk)
    return model, corpus, chunk, doc_ptr, words


def _transform_chunk(model: Any, url: str, part: str, index: int, out: str | None) -> Any:
    model, corpus, chunk, doc_ptr, words = _documents(model, url, part, index)
    keys = _document_keys(model, doc_ptr, words)
    if out is None:
        return model.transform_chunk(doc_ptr, words, keys)
    names = corpus.documents["key"].slice(corpus.chunks[index].first_document, chunk.n_documents)
    groups, sink = _row_groups(model, doc_ptr, words, keys), pa.BufferOutputStream()
    none = next(groups)
    weights = pa.list_(pa.from_numpy_dtype(none.dtype), none.shape[1])
    with pq.ParquetWriter(sink, pa.schema({"document": names.type, "weights": weights})) as file:
        for rows in groups:
            group = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), type=weights)
            file.write_table(pa.table({"document": names[: len(rows)], "weights": group}, file.schema))
            names = names[len(rows) :]
    Store(out).write_bytes(f"part-{index:06d}.parquet", sink.getvalue())
    tokens = chunk.n_tokens
    return {"documents": chunk.n_documents, "tokens": tokens, "unseen_tokens": tokens - len(words)}


def _row_groups(model: Any, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Iterator[np.ndarray]:
    """Yield documents' rows, GROUP_BYTES of them at a time; none of them first, for their type and width."""
    none = model.transform_chunk(doc_ptr[:1], words[:0], keys[:0])
    yield none
    step = max(1, GROUP_BYTES // (none.itemsize * none.shape[1]))
    for first in range(0, len(keys), step):
        own = doc_ptr[first : first + step + 1]
        yield model.transform_chunk(own - own[0], words[own[0] : own[-1]], keys[first : first + step])


def _search_chunk(
    model: Any, url: str, part: str, index: int, wanted: np.ndarray, topn: int
) -> list[tuple[str, float]]:
    model, corpus, _, doc_ptr, words = _documents(model, url, part, index)
    groups = _row_groups(model, doc_ptr, words, _document_keys(model, doc_ptr, words))
    cosines = np.concatenate([_cosines(rows, unit_vector(wanted)) for rows in groups])
    places = top_indices(cosines, topn)
    keys = corpus.documents["key"].take(corpus.chunks[index].first_document + places)
    return list(zip(keys.to_pylist(), cosines[places].tolist(), strict=True))


def _cosines(rows: np.ndarray, direction: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1)
    return rows @ direction / np.where(lengths > 0, lengths, 1)


def _score_chunk(model: Any, url: str, part: str, index: int, options: dict[str, Any]) -> Arrays:
    model, _, _, doc_ptr, words = _documents(model, url, part, index)
    return model.score_chunk(doc_ptr, words, _document_keys(model, doc_ptr, words), **options)
