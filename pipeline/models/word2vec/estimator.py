"""Word2Vec: the estimator. Its algorithm is in ``skip_gram``."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays, DataError
from ....io.text.vocabulary import find_word_ids, rank
from ....kernels.word2vec.skip_gram import METHODS
from ...engine.device import resolve_device
from ...engine.epoch import shards_of
from ..base.blocks import equal_blocks
from ..base.saved import Fitted, SavedModel
from ..base.text import TextEstimator
from ..base.vectors import WordVectors
from ..skip_gram.algorithm import SIDES, SkipGram, frequencies


class Word2Vec(TextEstimator):
    """Word2Vec by skip-gram with negative sampling, out of core on Dask. Names and meanings as in gensim.

    ``vector_size``, ``window``, ``min_count``, ``negative``, ``ns_exponent``, ``sample``, ``alpha``, ``min_alpha``,
    ``epochs``, ``seed``: gensim's. ``method``: "par" (attraction, then repulsion from negatives that 24 words share),
    "full" (negatives of a window; its width is fixed at half of ``window``) or "sgns" (one pair at a time, as in the
    original). ``ignore_sentence_ends``: windows reach from one document into the next of its chunk. ``threads``:
    threads of one sweep, which share the model without locks; with one, the same call gives the same bits.
    ``shards_per_round``: shards trained from the same model, on as many workers, before their changes are joined, which
    costs quality, the less the smaller a chunk is; 1 is one after the other. ``n_blocks``: cut the model into blocks of
    words, read one at a time. ``device``: "auto" trains on the worker's CUDA device where it has one, whose blocks of
    threads share the model without locks.

    CBOW and hierarchical softmax are not offered: neither fits the products that make this fast.
    """

    kind = "word2vec"
    #: The loss is measured after every epoch.
    evaluate_every: ClassVar[int] = 1

    def __init__(
        self,
        vector_size: int = 100,
        window: int = 5,
        min_count: int = 5,
        negative: int = 5,
        ns_exponent: float = 0.75,
        sample: float = 1e-3,
        alpha: float = 0.025,
        min_alpha: float = 0.0001,
        epochs: int = 5,
        seed: int = 1,
        method: str = "par",
        ignore_sentence_ends: bool = False,
        threads: int = 1,
        shards_per_round: int = 1,
        n_blocks: int = 1,
        device: str = "auto",
    ):
        self.vector_size = vector_size
        self.window = window
        self.min_count = min_count
        self.negative = negative
        self.ns_exponent = ns_exponent
        self.sample = sample
        self.alpha = alpha
        self.min_alpha = min_alpha
        self.epochs = epochs
        self.seed = seed
        self.method = method
        self.ignore_sentence_ends = ignore_sentence_ends
        self.threads = threads
        self.shards_per_round = shards_per_round
        self.n_blocks = n_blocks
        self.device = device

    @property
    def random_state(self) -> int:
        """The seed, as other estimators call it."""
        return self.seed

    def seed_number(self) -> int:
        """Return the seed of all random draws."""
        return self.seed

    def planned_epochs(self) -> int:
        """Epochs to train."""
        return self.epochs

    def algorithm(self, data: Corpus, previous: SavedModel | None = None) -> SkipGram:
        """Return the algorithm for a corpus; raise ValueError for parameters, DataError for what has no windows."""
        self._check()
        n_words = self._check_corpus(data, frequencies(data, previous))
        # Shards one after the other might as well be one, and save the commits between them, if its rows may be many.
        most = 1 if self.shards_per_round == self.n_blocks == 1 else None
        shards = len(shards_of(data.chunks, most))
        together = min(self.shards_per_round, shards)
        return SkipGram(
            method=self.method,
            dimension=self.vector_size,
            window=self.window,
            negative=self.negative,
            ns_exponent=self.ns_exponent,
            sample=self.sample,
            min_count=self.min_count,
            alpha=self.alpha,
            min_alpha=self.min_alpha,
            whole_chunks=self.ignore_sentence_ends,
            threads=self.threads,
            seed=self.seed,
            tokens=self.planned_epochs() * data.n_tokens,
            together=together,
            max_shards=most,
            rounds=math.ceil(shards / together),
            bounds=equal_blocks(n_words, self.n_blocks),
            device=resolve_device(self.device, self.method != "sgns", f"method {self.method!r}"),
        )

    def _check(self) -> None:
        for name in ("vector_size", "window", "min_count", "negative", "threads", "shards_per_round", "n_blocks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 1 or more")
        if self.planned_epochs() < 1:
            raise ValueError(f"epochs is {self.epochs}: choose 1 or more")
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}: choose one of {', '.join(METHODS)}")
        if not 0 <= self.min_alpha <= self.alpha < 1 or self.alpha == 0:
            raise ValueError(f"alpha is {self.alpha}, min_alpha {self.min_alpha}: they fall from below 1, not below 0")
        if not 0 <= self.sample < 1 or not math.isfinite(self.ns_exponent):
            raise ValueError(f"sample is {self.sample}, ns_exponent {self.ns_exponent}: sample lies in 0 to 1")

    def _check_corpus(self, data: Corpus, frequency: np.ndarray) -> int:
        """Return how many words have rows: up to the last one that occurs often enough."""
        if not data.is_ordered:
            raise DataError(f"{data.url}: a bag of words, whose words have no neighbours: ingest the text itself")
        counted = np.flatnonzero(frequency >= self.min_count)
        if not len(counted):
            most = frequency.max(initial=0)
            raise DataError(
                f"{data.url}: no word occurs {self.min_count} times (the most frequent one does {most} times): "
                f"lower min_count, or ingest more text"
            )
        if not self.ignore_sentence_ends and max((c.longest for c in data.chunks), default=0) < 2:
            raise DataError(
                f"{data.url}: no document has two words, so that no word has a neighbour: ingest longer documents, or "
                f"set ignore_sentence_ends"
            )
        return int(counted[-1]) + 1

    def merge_previous(self, old: Fitted) -> None:
        """Keep the vectors of words that did not occur again. Frequencies are those of all documents so far."""
        self.model_ = _joined_models(old, self._fitted())
        self.loaded()

    # --- the trained model ---

    def loaded(self) -> None:
        """Leave out words that occur too rarely, count all documents so far, forget vectors of an earlier model."""
        model = self._fitted()
        frequency = model.shared["frequency"]
        counted = np.flatnonzero(frequency >= self.min_count)
        table = model.vocabulary.take(counted)
        column = table.column_names.index("term_frequency")
        table = table.set_column(column, "term_frequency", pa.array(frequency[counted]))
        rows = {side: _rows(model, side) for side in SIDES}
        block = rows if len(counted) == len(frequency) else {side: W[counted] for side, W in rows.items()}
        self.model_ = Fitted([block], model.shared | {"frequency": frequency[counted]}, table, model.metadata)
        self._wv: WordVectors | None = None

    def joined(self, side: str) -> np.ndarray:
        """Return W_in or W_out of all words, padding included: (V, padded D) float32."""
        return _rows(self._fitted(), side)

    @property
    def wv(self) -> WordVectors:
        """The vectors of the words, to look up and to compare."""
        if self._fitted() and self._wv is None:
            vectors = self.joined("W_in")[:, : self.vector_size]
            self._wv = WordVectors(self.words_, vectors, counts=self._fitted().shared["frequency"])
        return self._wv  # type: ignore[return-value]

    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the mean of the vectors of each document's words: (documents, D) float32."""
        found = np.zeros((len(doc_ptr) - 1, self.vector_size), np.float32)
        for d, (lo, hi) in enumerate(zip(doc_ptr[:-1], doc_ptr[1:], strict=True)):
            if lo < hi:
                found[d] = self.wv.vectors[words[lo:hi]].mean(axis=0)
        return found

    def score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Raise ValueError: negative sampling gives documents no likelihood."""
        raise ValueError("word vectors give documents no likelihood: see evaluate, or held_out_loss in history_")

    def evaluate(self, pairs: str | None = None, analogies: str | None = None) -> dict[str, Any]:
        """Judge the vectors by files of word pairs or analogies; see word_evaluation. Raises DataError."""
        from ..base.word_evaluation import evaluate_analogies, evaluate_pairs

        found: dict[str, Any] = {}
        if pairs is not None:
            found["pairs"] = evaluate_pairs(self.wv, pairs)
        if analogies is not None:
            found["analogies"] = evaluate_analogies(self.wv, analogies)
        return found


def _rows(model: Fitted, side: str) -> np.ndarray:
    parts: Iterable[np.ndarray] = (block[side] for block in model.blocks)
    return model.blocks[0][side] if len(model.blocks) == 1 else np.concatenate(list(parts))


def _joined_models(old: Fitted, new: Fitted) -> Fitted:
    """The new model, and the words of the old one that it does not have, in the order of frequency."""
    apart = np.flatnonzero(find_word_ids(old.vocabulary["word"], new.vocabulary) < 0)
    names = ["word", "term_frequency", "document_frequency"]
    tables = [t.select(names).cast(new.vocabulary.select(names).schema) for t in (new.vocabulary, old.vocabulary)]
    table = pa.concat_tables([tables[0], tables[1].take(apart)])
    table = rank(table.append_column("row", pa.array(np.arange(table.num_rows))))
    order = table["row"].to_numpy()
    block = {side: np.concatenate([_rows(new, side), _rows(old, side)[apart]])[order] for side in SIDES}
    frequency = table["term_frequency"].to_numpy().astype(np.int64)
    return Fitted([block], new.shared | {"frequency": frequency}, table.drop_columns("row"), new.metadata)
