"""Skip-gram with negative sampling for the engine: what Word2Vec and Node2Vec train.

`SkipGram` has what all methods share. Two subclasses train:

- `strata.StrataSkipGram` trains pairs of blocks of words, on any number of workers. It is used by default.
- `sequential.SequentialSkipGram` trains the text in its order, on one worker, by one of two published methods.
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....io.words import find_word_ids
from ....kernels import random
from ....kernels.word2vec import text as text_kernels
from ....kernels.word2vec.skip_gram import loss
from ....kernels.word2vec.text import Text, first_vectors, negative_table, subsample
from ...engine.algorithm import Address, Algorithm, Metrics, ModelView, PreviousModel, Scores
from ...topics import WordList
from ..base.advice import TrainingWarning
from ..vectors.vectors import WordVectors

#: The two matrices of the model. W_in has the word vectors that users get. In strata it has the centres of windows and
#: W_out their neighbours, and in the other methods W_in has the neighbours and W_out the centres.
MATRICES = ("W_in", "W_out")
#: Keys of draws that belong to no epoch: the first vectors, and the pairs on which the loss is measured.
FIRST_VECTORS = -1
LOSS = -2
#: Maximum number of pairs of neighbours per chunk on which the loss is measured.
LOSS_PAIRS = 1 << 14
#: Training diverges if the loss is this many times that of vectors of zeros. In a healthy training of a tiny corpus,
#: whose negatives are also neighbours, it can be a little higher than that of zeros.
DIVERGED = 1.5
#: How `describe_vectors` chooses words: it skips the most frequent ones, which have no typical neighbours.
DESCRIBED_FROM = 100
DESCRIBED = 12
DESCRIBED_NEIGHBOURS = 6
DESCRIBED_VOCABULARY = 20_000


@dataclass(frozen=True, kw_only=True)
class SkipGram(Algorithm[Corpus, Chunk]):
    """Skip-gram with negative sampling.

    Chunks have no state. Each block of the model has W_in and W_out, (rows, padded D) float32. The shared arrays are
    the words' frequencies and the number of tokens trained so far.
    """

    name: ClassVar[str] = "word2vec"
    #: Whether there are kernels for a CUDA device.
    has_cuda_kernels: ClassVar[bool] = True
    #: What a user can do if training diverges.
    divergence_advice: ClassVar[str] = "lower alpha, window or negative"

    dimension: int = 100
    window: int = 5
    negative: int = 5
    ns_exponent: float = 0.75
    sample: float = 1e-3
    min_count: int = 5
    alpha: float = 0.025
    min_alpha: float = 0.0001
    ignore_sentence_ends: bool = False
    seed: int = 0
    total_tokens: int = 0  # over all epochs
    device: str = "cpu"

    # --- before the first sweep ---

    def _first_rows(self, data: Corpus, words: np.ndarray, previous: PreviousModel | None) -> Arrays:
        """Return the first vectors of these words (R,): small random W_in and zeros W_out, or the previous ones."""
        W_in = first_vectors(words, self.dimension, random.key(self.seed, FIRST_VECTORS, 0))
        arrays = {"W_in": W_in, "W_out": np.zeros_like(W_in)}
        if previous is not None:
            names = data.vocabulary["word"].take(words)
            _copy_previous_rows(previous, find_word_ids(names, previous.vocabulary), arrays)
        return arrays

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return how often each word occurs, and 0 for the number of tokens trained."""
        return {"frequency": total_frequencies(data, previous)[: self.n_rows], "trained": np.int64(0)}

    def load_chunk(self, data: Corpus, index: int, model: ModelView) -> Chunk:
        """Read a chunk's documents without its word order, which training does not need."""
        return data.read_document_order(index)

    # --- what sweeps share ---

    def keep_probability(self, frequency: np.ndarray) -> np.ndarray:
        """Return the probability that an occurrence is kept: (n_rows,) float32, 0 for words below min_count."""
        return text_kernels.keep_probability(frequency, self.sample, self.min_count)

    def texts(self, chunk: Chunk) -> np.ndarray:
        """Return the bounds of the texts that no window crosses: (n + 1,) int64."""
        if self.ignore_sentence_ends:
            return np.array([0, chunk.n_tokens])
        return chunk.doc_ptr

    # --- a commit ---

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Count the tokens trained so far, on which the learning rate depends."""
        trained = shared["trained"] + sums["tokens"]
        alpha = self.alpha - (self.alpha - self.min_alpha) * float(trained) / max(1, self.total_tokens)
        return shared | {"trained": trained}, {"alpha": max(self.min_alpha, alpha)}

    # --- evaluation ---

    @abstractmethod
    def rows_of(self, model: ModelView, words: np.ndarray, names: Sequence[str] = MATRICES) -> list[np.ndarray]:
        """Return the rows of these words (R,) in each of the matrices: (R, padded D) float32."""

    @property
    def scores(self) -> "LossScores":
        """The loss of a sample of pairs, and the nearest neighbours of some words."""
        return LossScores(self)


@dataclass(frozen=True)
class LossScores(Scores):
    """How all methods are scored and shown."""

    #: A chunk needs rows of all blocks, which are read for each chunk if the model is larger than memory.
    most_chunks: ClassVar[int | None] = 4

    algorithm: SkipGram

    def score(self, model: ModelView, chunk: Chunk, state: Arrays | None, address: Address, data: Corpus) -> Arrays:
        """Sum the loss (Moon 2019, equation 4.3, negated) over a sample of the chunk's pairs of neighbours.

        Negatives are drawn from the words of ``data``, so that added words do not change the loss.
        """
        keys = random.stream(random.key(address.seed, LOSS, chunk.number), 3)
        frequency = model.shared["frequency"][: data.n_words]
        keep = self.algorithm.keep_probability(frequency)
        text = subsample(self.algorithm.texts(chunk), chunk.words, keep, keys[0])
        pairs = np.stack(_draw_neighbours(text, self.algorithm.window, keys[1]), axis=1)
        size = len(pairs) * self.algorithm.negative
        table = negative_table(frequency, self.algorithm.ns_exponent, size, keys[2])
        negatives = table[random.stream(keys[2], size) % np.uint64(max(1, size))]
        # Only the rows of these words are read, because the model may be larger than memory.
        words, positions = np.unique(np.concatenate([pairs.ravel(), negatives]), return_inverse=True)
        W_in, W_out = self.algorithm.rows_of(model, words)
        pairs = positions[: pairs.size].reshape(pairs.shape)
        negatives = positions[pairs.size :].reshape(len(pairs), self.algorithm.negative)
        total = loss(W_in, W_out, pairs, negatives)
        return {"loss": np.float64(total), "pairs": np.int64(len(pairs))}

    def metrics(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the mean loss of a pair of neighbours and its negatives, in natural logarithms."""
        loss = float(sums["loss"] / max(1, sums["pairs"]))
        if held_out:
            return {"held_out_loss": loss}
        self._warn_of_divergence(loss)
        return {"loss": loss}

    def _warn_of_divergence(self, loss: float) -> None:
        """Warn if the loss is much higher than that of vectors of zeros, with which training begins.

        Vectors that diverge can stay finite for a whole training, so a check for infinite numbers does not find them.
        """
        loss_of_zeros = (1 + self.algorithm.negative) * math.log(2)
        if loss > DIVERGED * loss_of_zeros:
            # The text is the same in every epoch, so that Python shows it once.
            warnings.warn(
                f"training diverges: the loss is more than {DIVERGED:g} times {loss_of_zeros:.4g}, that of vectors of "
                f"zeros; {self.algorithm.divergence_advice}",
                TrainingWarning,
                stacklevel=2,
            )

    def describe(self, model: ModelView, data: Corpus) -> list[WordList]:
        """Return some frequent words with their nearest neighbours among the most frequent words."""
        words = data.vocabulary["word"].slice(0, min(self.algorithm.n_rows, DESCRIBED_VOCABULARY)).to_pylist()
        (W_in,) = self.algorithm.rows_of(model, np.arange(len(words)), ["W_in"])
        return describe_vectors(WordVectors(words, W_in[:, : self.algorithm.dimension]))


def describe_vectors(vectors: WordVectors) -> list[WordList]:
    """Return some of these words, the most frequent first, with their nearest neighbours."""
    words = vectors.index_to_key
    first = min(DESCRIBED_FROM, len(words) // 2)
    lists = []
    for word in words[first : first + DESCRIBED]:
        near = vectors.most_similar(word, topn=DESCRIBED_NEIGHBOURS)
        lists.append(WordList(word, [other for other, _ in near]))
    return lists


def total_frequencies(corpus: Corpus, previous: PreviousModel | None) -> np.ndarray:
    """Return how often each word of the corpus occurs in it and in the previous model's documents: (V,) int64."""
    frequency = corpus.vocabulary["term_frequency"].to_numpy().astype(np.int64)
    if previous is not None:
        vocabulary = previous.vocabulary
        ids = find_word_ids(corpus.vocabulary["word"], vocabulary)
        is_known = ids >= 0
        frequency[is_known] += vocabulary["term_frequency"].to_numpy()[ids[is_known]]
    return frequency


def _copy_previous_rows(previous: PreviousModel, ids: np.ndarray, arrays: Arrays) -> None:
    """Copy rows of the previous model, one block at a time. ``ids`` (R,) int64 are its rows, or -1 for new words."""
    first = 0
    for block in previous.blocks():
        stop = first + len(block["W_in"])
        in_block = (ids >= first) & (ids < stop)
        for name in MATRICES:
            arrays[name][in_block] = block[name][ids[in_block] - first]
        first = stop


def _draw_neighbours(text: Text, window: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Draw up to LOSS_PAIRS occurrences and a neighbour of each: the words of both, (n,) uint32."""
    n_words = len(text.words)
    if n_words == 0:
        return text.words, text.words
    draws = random.stream(key, 2 * LOSS_PAIRS)
    centre = (draws[::2] % np.uint64(n_words)).astype(np.int64)
    # Offsets from -window to window without 0.
    offset = (draws[1::2] % np.uint64(2 * window)).astype(np.int64) - window
    neighbour = centre + np.where(offset >= 0, offset + 1, offset)
    document = np.searchsorted(text.ptr, centre, side="right") - 1
    is_inside = (neighbour >= text.ptr[document]) & (neighbour < text.ptr[document + 1])
    return text.words[centre[is_inside]], text.words[neighbour[is_inside]]
