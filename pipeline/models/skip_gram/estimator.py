"""What the estimators Word2Vec and Node2Vec have in common: parameters, checks of the corpus, and the trained model."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ....io.data import Kind, recognise
from ....io.errors import DataError
from ....io.messages import pluralize
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....io.words import merge_vocabularies, rank
from ...engine.algorithm import MAX_SHARDS
from ...engine.data import count_shards
from ...engine.device import resolve_device
from ...engine.memory import EmptyArrays
from ...engine.training import Advice, Alternative
from ...topics import WordList
from ..base.inputs import CheckedInput, DataLike, FitOptions
from ..base.saved import SavedModel, TrainedModel
from ..base.text import TextEstimator
from ..vectors.similarity import mean_vectors
from ..vectors.vectors import WordVectors
from .algorithm import DESCRIBED_VOCABULARY, MATRICES, SkipGram, describe_vectors, total_frequencies
from .grid_size import grid_size
from .sequential import SequentialSkipGram
from .strata import StrataSkipGram, deal_words, mass_of


class SkipGramEstimator(TextEstimator):
    """Base class of the estimators that train skip-gram with negative sampling.

    Subclasses store these parameters in their constructors and document them.
    """

    #: The loss is measured after every epoch.
    _evaluate_every = 1
    _fixed_parameters = ("vector_size",)
    _size = "vector_size"

    #: The values of ``method``. A subclass may add methods that are defined elsewhere.
    _methods: ClassVar[Mapping[str, type[StrataSkipGram | SequentialSkipGram]]] = {
        "strata": StrataSkipGram,
        "par": SequentialSkipGram,
        "full": SequentialSkipGram,
    }

    vector_size: int
    window: int
    min_count: int
    negative: int
    ns_exponent: float
    sample: float
    alpha: float
    min_alpha: float
    epochs: int
    seed: int
    method: str
    minibatch_words: int
    ignore_sentence_ends: bool
    threads: int
    n_blocks: int | None
    device: str

    _wv: WordVectors | None

    # --- training ---

    def _seed_number(self) -> int:
        """Return the seed of all random draws."""
        return self.seed

    def _planned_epochs(self) -> int:
        """Return the number of epochs to train."""
        return self.epochs

    def _training_input(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> CheckedInput:
        self._refuse_numbers(X)
        return super()._training_input(X, options, previous)

    def _refuse_numbers(self, X: DataLike) -> None:
        """Raise ValueError for lists of numbers, which would be a matrix for other models."""
        if isinstance(X, list | tuple) and recognise(X).kind is Kind.MATRIX:
            raise ValueError(
                f"{type(self).__name__} takes lists of strings, and these are lists of numbers: pass "
                f"[[str(word) for word in document] for document in documents]"
            )

    def _algorithm(self, data: Corpus, previous: SavedModel | None = None) -> SkipGram:
        """Return the algorithm for a corpus; raise DataError if no word of the corpus has a neighbour."""
        frequency = total_frequencies(data, previous)
        n_rows = self._check_corpus(data, frequency)
        parameters: dict[str, Any] = {
            "dimension": self.vector_size,
            "window": self.window,
            "negative": self.negative,
            "ns_exponent": self.ns_exponent,
            "sample": self.sample,
            "min_count": self.min_count,
            "alpha": self.alpha,
            "min_alpha": self.min_alpha,
            "ignore_sentence_ends": self.ignore_sentence_ends,
            "seed": self.seed,
            "total_tokens": self.epochs * data.n_tokens,
        }
        kind = self._chosen("method", self._methods)
        device = resolve_device(self.device, kind.has_cuda_kernels, f"method {self.method!r}")
        if issubclass(kind, StrataSkipGram):
            return self._strata(data, frequency[:n_rows], parameters | {"device": device})
        if self.method == "par":
            parameters["minibatch"] = self.minibatch_words
        return kind(bounds=(0, n_rows), method=self.method, device=device, **parameters)

    def _advice(self) -> Advice:
        names = {"dimension": "vector_size"}
        if self.method == "strata":
            return Advice(
                divergence=StrataSkipGram.divergence_advice,
                idle="to use more, raise n_blocks, the number of blocks of words",
                names=names,
            )
        return Advice(
            divergence=SequentialSkipGram.divergence_advice,
            idle="to use more, choose method strata, which trains on any number of workers",
            names=names,
        )

    def _smaller(self, data: Corpus) -> Iterator[Alternative]:
        if self.method != "strata":
            words = "choose method strata, which needs two blocks of the model at a time"
            yield self._changed(data, words, "method", "strata")
        yield from super()._smaller(data)

    def _strata(self, data: Corpus, frequency: np.ndarray, parameters: dict[str, Any]) -> StrataSkipGram:
        mass = mass_of(frequency, self.min_count, self.sample)
        size = grid_size(
            mass, data.n_tokens, count_shards(len(data.chunks), MAX_SHARDS), self.epochs, self.window, self.n_blocks
        )
        blocks = deal_words(mass, size.n_blocks, self.seed)
        bounds = np.r_[0, np.cumsum(np.bincount(blocks, minlength=size.n_blocks))]
        return StrataSkipGram(
            bounds=tuple(bounds.tolist()),
            rounds=size.rounds,
            passes=size.passes,
            steps=size.rounds * self.epochs,
            threads=self.threads,
            **parameters,
        )

    def _check_corpus(self, data: Corpus, frequency: np.ndarray) -> int:
        """Return how many words of the vocabulary, which is sorted by frequency, the model has rows for.

        They are the words up to the last one that occurs ``min_count`` times or more; ``frequency`` (V,) int64 is how
        often each word occurs. Raises DataError if no word does, or if no word has a neighbour.
        """
        if not data.is_ordered:
            raise DataError(f"{data.title}: a bag of words, whose words have no neighbours: ingest the text itself")
        frequent = np.flatnonzero(frequency >= self.min_count)
        if len(frequent) == 0:
            highest = frequency.max(initial=0)
            raise DataError(
                f"{data.title}: no word occurs {pluralize(self.min_count, 'time')} (the most frequent one occurs "
                f"{pluralize(highest, 'time')}): lower min_count, or ingest more text"
            )
        longest = max((chunk.longest for chunk in data.chunks), default=0)
        if longest < 2 and not self.ignore_sentence_ends:
            raise DataError(
                f"{data.title}: no document has two words, so no word has a neighbour: ingest longer documents, or set "
                f"ignore_sentence_ends"
            )
        return int(frequent[-1]) + 1

    def _merge_previous(self, previous: TrainedModel) -> None:
        """Add the words of the previous model that the new corpus does not have, with their vectors."""
        model = self._fitted()
        merged = merge_vocabularies(model.vocabulary, previous.vocabulary)
        # Frequencies in the new model include the previous one's documents already (see `total_frequencies`), so the
        # sums of the merged vocabulary would count these twice.
        further = previous.shared["frequency"][merged.only_in_old]
        frequency = np.concatenate([model.shared["frequency"], further])
        rows = pa.array(np.arange(len(frequency)))
        table = rank(_with_term_frequency(merged.table, frequency).append_column("row", rows))
        order = table["row"].to_numpy()
        block = {}
        for name in MATRICES:
            W = np.concatenate([model.joined(name), previous.joined(name)[merged.only_in_old]])
            block[name] = W[order]
        shared = model.shared | {"frequency": frequency[order]}
        self.model_ = TrainedModel([block], shared, table.drop_columns("row"), model.metadata)
        self._loaded()

    # --- the trained model ---

    def _loaded(self) -> None:
        """Keep the words that occur at least min_count times, in one block, with their frequencies so far."""
        model = self._fitted()
        frequency = model.shared["frequency"]
        is_frequent = frequency >= self.min_count
        frequent = np.flatnonzero(is_frequent)
        block = model.blocks[0]
        if "places" in model.shared or len(frequent) < len(frequency):
            words = np.arange(len(frequency))
            if "places" in model.shared:
                # Places ascend with the rows of the model.
                words = np.argsort(model.shared["places"])
            block = _rows_of_words(model.blocks, words, is_frequent)
        table = _with_term_frequency(model.vocabulary.take(frequent), frequency[frequent])
        shared = {"frequency": frequency[frequent], "trained": model.shared["trained"]}
        self.model_ = TrainedModel([block], shared, table, model.metadata)
        self._wv = None

    def _describe(self, data: Corpus) -> list[WordList]:
        """Describe the words that have a vector. They have no longer the blocks in which they were trained."""
        first = slice(DESCRIBED_VOCABULARY)
        return describe_vectors(WordVectors(self.words_[first], self.wv.vectors[first]))

    @property
    def wv(self) -> WordVectors:
        """The vectors of the words, with the usual methods of gensim's KeyedVectors."""
        model = self._fitted()
        if self._wv is None:
            vectors = model.joined("W_in")[:, : self.vector_size]
            self._wv = WordVectors(self.words_, vectors, counts=model.shared["frequency"])
        return self._wv

    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the mean of the vectors of each document's words: (D, vector_size) float32, zeros without words."""
        return mean_vectors(self.wv.vectors, doc_ptr, words)


def _rows_of_words(blocks: list[Arrays], words: np.ndarray, is_kept: np.ndarray) -> Arrays:
    """Return the matrices with a row for each word that is kept, in the order of the words.

    ``words`` (V,) int64 are those of the rows of the blocks.
    """
    row_of_word = np.cumsum(is_kept) - 1
    shape = (int(is_kept.sum()), blocks[0][MATRICES[0]].shape[1])
    empty = EmptyArrays()
    block = {name: empty(shape, np.float32) for name in MATRICES}
    first = 0
    for arrays in blocks:
        own = words[first : first + len(arrays[MATRICES[0]])]
        kept = is_kept[own]
        for name, W in block.items():
            W[row_of_word[own[kept]]] = arrays[name] if kept.all() else arrays[name][kept]
        first += len(own)
    return block


def _with_term_frequency(table: pa.Table, frequency: np.ndarray) -> pa.Table:
    """Return the vocabulary with other frequencies, (V,) int64."""
    column = table.column_names.index("term_frequency")
    return table.set_column(column, "term_frequency", pa.array(frequency))
