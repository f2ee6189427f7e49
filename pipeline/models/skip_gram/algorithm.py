"""Skip-gram with negative sampling for the engine: what Word2Vec and Node2Vec train.

`SkipGram` has everything except the exchange of rows with the model. Two subclasses define that exchange:

- `whole_model.WholeModelSkipGram` passes the whole model from chunk to chunk. It is used by default.
- `sub_model.SubModelSkipGram` copies the rows that a chunk needs, and returns their changes. It is used if several
  shards train in parallel, or if the model is cut into blocks.
"""

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....io.text.vocabulary import find_word_ids
from ....kernels import random
from ....kernels.word2vec import skip_gram as kernels
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Metrics, Model, PreviousModel, SweepResult
from ...engine.device import kernels as kernels_on
from ..base.vectors import WordVectors
from .hogwild import COPIED_ROWS, EXCHANGE_TOKENS, Hogwild, n_copies, split_documents

#: The two matrices of the model: a word's vector as the centre of a window, and as a neighbour.
MATRICES = ("W_in", "W_out")
#: Keys of draws that belong to no epoch: the first vectors, and the pairs on which the loss is measured.
FIRST_VECTORS = -1
LOSS = -2
#: Maximum number of pairs of neighbours per chunk on which the loss is measured.
LOSS_PAIRS = 1 << 14
#: Maximum size of a chunk's table of negatives. Such a table fits into a core's cache.
MAX_TABLE = 1 << kernels.TABLE_BITS
#: How `SkipGram.describe` chooses words: it skips the most frequent ones, which have no typical neighbours.
DESCRIBED_FROM = 100
DESCRIBED = 12
DESCRIBED_NEIGHBOURS = 6
DESCRIBED_VOCABULARY = 20_000


class TrainingRows(NamedTuple):
    """The rows of the model that one chunk trains, and the chunk's text by row. R rows, D numbers per row."""

    rows: np.ndarray  # (R,) uint32, ascending: words of the model
    W_in: np.ndarray  # (R + copies, padded D) float32; the copies are those of `Hogwild`
    W_out: np.ndarray  # (R + copies, padded D) float32
    table: np.ndarray  # (n,) uint32: negative samples, as positions in ``rows``
    texts: list[kernels.Text]  # words are positions in ``rows``


@dataclass(frozen=True, kw_only=True)
class SkipGram(Algorithm[Corpus, Chunk]):
    """Skip-gram with negative sampling.

    Chunks have no state. Each block of the model has W_in and W_out, (rows, padded D) float32. Shared are the words'
    frequencies and the number of tokens trained so far.
    """

    name: ClassVar[str] = "word2vec"
    keeps_state: ClassVar[bool] = False
    parallelism_hint: ClassVar[str] = (
        "raise shards_per_round, which trains shards in parallel and merges them, or threads"
    )
    divergence_hint: ClassVar[str] = "lower alpha, window or negative"
    size_hint: ClassVar[str] = "lower vector_size, cut the model with n_blocks"

    method: str = "par"
    dimension: int = 100
    window: int = 5
    negative: int = 5
    ns_exponent: float = 0.75
    sample: float = 1e-3
    min_count: int = 5
    alpha: float = 0.025
    min_alpha: float = 0.0001
    ignore_sentence_ends: bool = False
    threads: int = 1
    seed: int = 0
    total_tokens: int = 0  # over all epochs
    shards_per_round: int = 1

    # --- memory ---

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Bytes of one sweep: its chunk, one block, the rows that it trains, their old values and their changes."""
        row = 2 * 4 * kernels.padded(self.dimension)
        table = self._table_size(chunk.tokens)
        rows = self._max_rows(chunk)
        rows += n_copies(self.threads, rows)
        block_rows = -(-self.n_rows // self.n_blocks)
        return MemoryEstimate(
            data=4 * chunk.tokens + 8 * (chunk.documents + 1),
            model=block_rows * row + 8 * self.n_rows,
            delta=3 * rows * row,
            scratch=rows * row + 8 * chunk.tokens + (20 + 4 * self.threads) * table + 20 * self.n_rows,
            device=rows * row + 12 * chunk.tokens + 8 * chunk.documents + 4 * table,
        )

    @abstractmethod
    def _max_rows(self, chunk: ChunkInfo) -> int:
        """Return the maximum number of rows that a sweep of this chunk trains."""

    def _table_size(self, tokens: int) -> int:
        """Return the size of the table of negatives: a power of two, at least the number of tokens if possible."""
        next_power = 1 << max(0, tokens - 1).bit_length()
        return min(MAX_TABLE, max(1 << 10, next_power))

    # --- before the first sweep ---

    def begin(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays:
        """Return small random vectors W_in and zeros W_out. Words of the previous model keep their vectors."""
        first_row = self.bounds[block]
        n_rows = self.bounds[block + 1] - first_row
        W_in = kernels.first_vectors(n_rows, self.dimension, random.key(self.seed, FIRST_VECTORS, block))
        arrays = {"W_in": W_in, "W_out": np.zeros_like(W_in)}
        if previous is not None:
            words = data.vocabulary["word"].slice(first_row, n_rows)
            _copy_previous_rows(previous, find_word_ids(words, previous.vocabulary), arrays)
        return arrays

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return how often each word occurs, and 0 for the number of tokens trained."""
        return {"frequency": total_frequencies(data, previous)[: self.n_rows], "trained": np.int64(0)}

    def load_chunk(self, data: Corpus, index: int, model: Model) -> Chunk:
        """Read a chunk's documents without its word order, which training does not need."""
        return data.read_document_order(index)

    # --- a sweep ---

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Train the rows that one chunk needs, from the values that the shard's previous chunk gave them."""
        keys = random.stream(random.key(*address), 4)
        frequency = model.shared["frequency"]
        compiled = kernels_on("word2vec.skip_gram", self.device)
        # The option threads is for the processor; a CUDA device runs a text on all of its own threads.
        threads = self.threads if compiled is kernels else 1
        tokens = 0 if deltas is None else int(deltas[0]["tokens"])
        with ThreadPoolExecutor(threads) as pool:
            table, texts = self._draw_text(chunk, frequency, keys, threads, pool)
            training = self._gather(model, table, texts, deltas, threads)
            options = self._training_options(int(model.shared["trained"]), tokens, training.table, keys)
            if threads == 1:
                compiled.train(self.method, training.texts[0], options, training.W_in, training.W_out)
            else:
                weights = self._copy_weights(frequency, training.rows[:COPIED_ROWS], options.alpha)
                hogwild = Hogwild(self.method, options, (training.W_in, training.W_out), weights)
                hogwild.train(training.texts, threads, pool)
        deltas = self._deltas(model, training, deltas, tokens + chunk.n_tokens)
        return SweepResult(None, deltas, {"tokens": np.int64(chunk.n_tokens)})

    @abstractmethod
    def _gather(
        self,
        model: Model,
        table: np.ndarray,
        texts: list[kernels.Text],
        deltas: list[Arrays] | None,
        threads: int,
    ) -> TrainingRows:
        """Return the rows to train. ``table`` and the words of ``texts`` are words of the model."""

    @abstractmethod
    def _deltas(self, model: Model, training: TrainingRows, previous: list[Arrays] | None, tokens: int) -> list[Arrays]:
        """Return the shard's deltas after training. ``tokens`` counts those of the shard's chunks so far."""

    def _draw_text(
        self, chunk: Chunk, frequency: np.ndarray, keys: np.ndarray, threads: int, pool: ThreadPoolExecutor
    ) -> tuple[np.ndarray, list[kernels.Text]]:
        """Return a table of negatives, and the chunk's text without the downsampled words, in parts for threads."""
        keep = self._keep_probability(frequency)
        size = self._table_size(chunk.n_tokens)
        table = pool.submit(kernels.negative_table, frequency, self.ns_exponent, size, keys[0])
        parts = split_documents(self._documents(chunk), threads)
        texts = [pool.submit(kernels.subsample, part, chunk.words, keep, keys[1]) for part in parts]
        return table.result(), [text.result() for text in texts]

    def _training_options(
        self, trained: int, tokens: int, table: np.ndarray, keys: np.ndarray
    ) -> kernels.TrainingOptions:
        """Return the options for a chunk.

        ``trained`` tokens were trained before this round, and ``tokens`` by this shard in this round. Shards of one
        round train at the same time, so each of them advances the learning rate for all of them.
        """
        slope = (self.alpha - self.min_alpha) * self.shards_per_round / max(1, self.total_tokens)
        alpha = self.alpha - slope * (trained / self.shards_per_round + tokens)
        return kernels.TrainingOptions(
            self.window, self.negative, table, keys[2], keys[3], alpha, slope, self.min_alpha
        )

    def _copy_weights(self, frequency: np.ndarray, rows: np.ndarray, alpha: float) -> np.ndarray:
        """Return the weight of a thread's changes to its copies of ``rows`` (H,): (H,) float32."""
        kept = (frequency * self._keep_probability(frequency))[rows]
        occurrences = kept * (EXCHANGE_TOKENS / max(1, frequency.sum()))
        pairs = occurrences * 2 * (self.window + 1)
        return kernels.merge_weights(pairs, self.threads, max(alpha, self.min_alpha))

    def _keep_probability(self, frequency: np.ndarray) -> np.ndarray:
        """Return the probability that an occurrence is kept: (n_rows,) float32, 0 for words below min_count."""
        is_frequent = frequency >= self.min_count
        return is_frequent * kernels.keep_probability(frequency * is_frequent, self.sample)

    def _documents(self, chunk: Chunk) -> np.ndarray:
        """Return the bounds of the texts that no window crosses: (n + 1,) int64."""
        if self.ignore_sentence_ends:
            return np.array([0, chunk.n_tokens])
        return chunk.doc_ptr

    # --- a commit ---

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, Metrics]:
        """Count the tokens trained so far, on which the learning rate depends."""
        trained = shared["trained"] + sums["tokens"]
        alpha = self.alpha - (self.alpha - self.min_alpha) * float(trained) / max(1, self.total_tokens)
        metrics = {"alpha": max(self.min_alpha, alpha), "words_changed": float(totals["rows_changed"])}
        return shared | {"trained": trained}, metrics

    # --- evaluation ---

    def score(self, model: Model, chunk: Chunk, state: Arrays | None, address: Address) -> Arrays:
        """Sum the loss (Moon 2019, equation 4.3, negated) over a sample of the chunk's pairs of neighbours."""
        keys = random.stream(random.key(address.seed, LOSS, chunk.number), 3)
        frequency = model.shared["frequency"]
        keep = self._keep_probability(frequency)
        text = kernels.subsample(self._documents(chunk), chunk.words, keep, keys[0])
        pairs = np.stack(_draw_neighbours(text, self.window, keys[1]), axis=1)
        size = len(pairs) * self.negative
        table = kernels.negative_table(frequency, self.ns_exponent, size, keys[2])
        negatives = table[random.stream(keys[2], size) % np.uint64(max(1, size))]
        W_in, W_out, pairs, negatives = self._rows_for_loss(model, pairs, negatives)
        total = kernels.loss(W_in, W_out, pairs, negatives.reshape(len(pairs), self.negative))
        return {"loss": np.float64(total), "pairs": np.int64(len(pairs))}

    def _rows_for_loss(
        self, model: Model, pairs: np.ndarray, negatives: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return W_in, W_out, and ``pairs`` and ``negatives`` as rows of these."""
        block = model.block(0)
        return block["W_in"], block["W_out"], pairs, negatives

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the mean loss of a pair of neighbours and its negatives, in natural logarithms."""
        name = "held_out_loss" if held_out else "loss"
        return {name: float(sums["loss"] / max(1, sums["pairs"]))}

    def describe(self, model: Model, data: Corpus) -> list[str]:
        """Return some frequent words of the first block with their nearest neighbours in that block."""
        words = data.vocabulary["word"].slice(0, self.bounds[1]).to_pylist()
        vectors = WordVectors(words, model.block(0)["W_in"][:, : self.dimension])
        first = min(DESCRIBED_FROM, len(words) // 2)
        lines = []
        for word in words[first : first + DESCRIBED]:
            near = vectors.most_similar(word, topn=DESCRIBED_NEIGHBOURS, restrict_vocab=DESCRIBED_VOCABULARY)
            lines.append(f"{word:>16}  " + " ".join(other for other, _ in near))
        return lines


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


def _draw_neighbours(text: kernels.Text, window: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
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
