"""The model that a page shows, read when its parts are needed, the search for its words, and the base of explorers."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse

from ...io.errors import DataError
from ...io.stores.corpus import Corpus
from ...io.stores.store import JsonObject, Store
from ..engine.run import RunStore, model_kind
from ..models.base.in_use import model_in_use
from ..models.base.saved import SavedModel, clean_name, read_model_meta, read_names, write_names
from ..models.base.text import TextEstimator
from ..models.lda.estimator import LDA
from ..models.lda.word_topics import gather_rows, heaviest_entries, list_entries
from ..models.nmf.estimator import NMF
from ..models.nmf.factorization import heaviest_rows, parts_of_rows
from ..models.registry import load_model, model_of_run
from .table import Distributions


class WordSearch:
    """Finds words by their spelling, in upper or lower case. The number of a word is its place in ``words``."""

    def __init__(self, words: Sequence[str]):
        # Words and texts are folded by the same function: those of Python and Arrow differ for some letters.
        folded = [word.casefold() for word in words]
        self._folded = pa.array(folded, pa.large_string())
        self._first = {word: number for number, word in reversed(list(enumerate(folded)))}

    def first(self, word: str) -> int:
        """Return the number of the first word with this spelling, or -1."""
        return self._first.get(word.casefold(), -1)

    def containing(self, text: str, limit: int) -> list[int]:
        """Return the numbers of words that contain a text: those equal to it first, then those that begin with it."""
        wanted = text.casefold()
        if not wanted:
            return []
        equal = _numbers(pc.equal(self._folded, wanted))
        beginning = _numbers(pc.starts_with(self._folded, wanted))
        containing = _numbers(pc.match_substring(self._folded, wanted))
        # Enough of each, also if the first ones were found before.
        found = [*equal[:limit], *beginning[: 2 * limit], *containing[: 3 * limit]]
        return list(dict.fromkeys(found))[:limit]


def _numbers(are_found: pa.Array) -> list[int]:
    """Return the numbers of the words for which a boolean array is true."""
    return np.flatnonzero(are_found.to_numpy(zero_copy_only=False)).tolist()


class ExploredModel:
    """A saved model, or the last commit of a run that has no saved model yet."""

    def __init__(self, url: str):
        self.url = url
        #: Whether this is a saved model, beside which names can be stored.
        self.is_saved = True
        try:
            self.meta = read_model_meta(url)
        except DataError:
            if not Store(url).exists("run.json"):
                raise
            self.is_saved = False
            self.meta = _meta_of_run(url)
        self._lock = threading.Lock()

    @property
    def kind(self) -> str:
        """The kind of the model, such as "lda"."""
        return str(self.meta["model"])

    @property
    def title(self) -> str:
        """The last part of the path that says something: "news" of runs/news/model, "demo" of demo/run."""
        parts = self.url.rstrip("/").split("/")
        return next((part for part in reversed(parts) if part not in ("", "model", "run")), parts[-1])

    @property
    def data(self) -> str:
        """URL of the data that the model was trained on."""
        return str(self.meta["about"]["data"])

    @cached_property
    def digest(self) -> str:
        """Digest of the model's arrays and vocabulary."""
        if self.is_saved:
            return str(self.meta["arrays"]).removeprefix("arrays-")
        return self.estimator.model_.digest()

    @property
    def estimator(self) -> TextEstimator:
        """The model in memory. The first use reads it."""
        with self._lock:
            return self._estimator

    @cached_property
    def _estimator(self) -> TextEstimator:
        return load_model(self.url) if self.is_saved else model_of_run(self.url)

    @cached_property
    def vocabulary(self) -> pa.Table:
        """The vocabulary: one row per word."""
        if self.is_saved:
            return SavedModel.open(self.url).vocabulary
        return self.estimator.model_.vocabulary

    @cached_property
    def words(self) -> list[str]:
        """The words in the order of their ids. Columns of a matrix without names are numbers."""
        has_column_names = isinstance(self.meta.get("about", {}).get("feature_names"), list)
        if has_column_names or "word" not in self.vocabulary.column_names:
            estimator = self.estimator
            if isinstance(estimator, NMF):
                return estimator.vectors_.index_to_key
        return self.vocabulary["word"].to_pylist()

    @cached_property
    def search(self) -> WordSearch:
        """Finds words whose spelling contains what a user types."""
        return WordSearch(self.words)

    @cached_property
    def distributions(self) -> Distributions:
        """The topics as sparse rows. The first use reads the model."""
        estimator = self.estimator
        if isinstance(estimator, LDA):
            return _distributions_of_lda(estimator)
        if isinstance(estimator, NMF):
            return _distributions_of_nmf(estimator)
        raise DataError(f"{self.url}: {self.kind} models have no topics")

    # --- names ---

    def read_names(self) -> dict[int, str]:
        """Return the names that users gave to topics."""
        if not self.is_saved:
            return {}
        return read_names(model_in_use(self.url), str(self.meta["arrays"]))

    def name_topic(self, topic: int, name: str) -> dict[int, str]:
        """Store the name of a topic, or remove it if it is empty, and return all names."""
        if not self.is_saved:
            raise DataError(f"{self.url}: this run is not finished, and names are stored with a finished model")
        with self._lock:
            names = self.read_names()
            names.pop(topic, None)
            if clean_name(name):
                names[topic] = clean_name(name)
            write_names(model_in_use(self.url), str(self.meta["arrays"]), names)
            return names


def _meta_of_run(url: str) -> JsonObject:
    """Return what the description of a saved model would say of a run: the kind of its model, and its data."""
    run = RunStore(url).meta
    return {
        "model": model_kind(run),
        "about": {"data": run["data"]["url"]},
    }


def _distributions_of_lda(estimator: LDA) -> Distributions:
    model = estimator.model_
    totals = model.shared["totals"].astype(np.float64)
    prior = float(model.shared["beta"])
    n_words = model.vocabulary.num_rows

    def weighted(weights: np.ndarray) -> np.ndarray:
        sums = np.zeros(n_words)
        for words, topics, counts in list_entries(model.blocks):
            sums += np.bincount(words, counts * weights[topics], n_words)
        return sums

    def entries(words: np.ndarray) -> np.ndarray:
        block = gather_rows(words, model.blocks)
        shape = (len(words), len(totals))
        return scipy.sparse.csr_matrix((block["counts"], block["topics"], block["row_ptr"]), shape).toarray()

    heaviest = partial(heaviest_entries, model.blocks, len(totals))
    return Distributions(prior, totals + prior * n_words, estimator.topic_sizes_, heaviest, weighted, entries)


def _distributions_of_nmf(estimator: NMF) -> Distributions:
    W = estimator._W

    def weighted(weights: np.ndarray) -> np.ndarray:
        return np.concatenate([rows @ weights for rows in parts_of_rows(W)])

    totals = W.sum(axis=0, dtype=np.float64)
    return Distributions(0.0, totals, estimator.topic_sizes_, partial(heaviest_rows, W), weighted, W.__getitem__)


def corpus_of(model: ExploredModel, given: str | None) -> Corpus | None:
    """Return the corpus that was given, or the one that the model was trained on if it still exists."""
    if given is not None:
        return Corpus(given)
    try:
        return Corpus(model.data)
    except (DataError, ValueError):
        return None


class Explorer(ABC):
    """Answers a page's requests. The method ``answer_x`` answers the path ``api/x``; the query has its parameters.

    ``comparison`` is how the model differs from another one, or None.
    """

    def __init__(self, model: ExploredModel, comparison: JsonObject | None = None):
        self.model = model
        self.comparison = comparison

    @abstractmethod
    def start(self) -> None:
        """Begin to read what later answers need. The page is usable meanwhile."""

    def stop(self) -> None:
        """Stop reading; by default, there is nothing to stop."""

    @abstractmethod
    def answer_model(self) -> JsonObject:
        """Return what the page shows first."""

    def answer_comparison(self) -> JsonObject:
        """Return how the model differs from the one that ``--compare`` names; raise DataError if there is none."""
        if self.comparison is None:
            raise DataError("there is no other model to compare with: start with --compare MODEL")
        return self.comparison
