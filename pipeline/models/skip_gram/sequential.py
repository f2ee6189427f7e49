"""Skip-gram that trains the text in its order: the methods "par" and "full", after their publications.

Their modules in ``kernels/word2vec`` say what differs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.word2vec.text import MINIBATCH, Text, TrainingOptions, empty_rows, negative_table, padded, subsample
from ....kernels.word2vec.updates import TABLE_BITS
from ...engine.algorithm import Address, MemoryEstimate, ModelView, Needs, PreviousModel, Shard, SweepResult
from ...engine.device import kernels as kernels_on
from ...engine.run import ADDED
from .algorithm import MATRICES, SkipGram

#: Maximum size of a chunk's table of negatives. Such a table fits into a core's cache.
MAX_TABLE = 1 << TABLE_BITS


@dataclass(frozen=True, kw_only=True)
class SequentialSkipGram(SkipGram):
    """Skip-gram that trains the text in its order: all chunks are one shard, and the model is one block.

    The delta is not a change: it is W_in and W_out themselves. The next chunk trains them in place, without a copy,
    and the commit takes them as they are. Since there is one shard, no two deltas ever have to be merged.
    """

    divergence_advice: ClassVar[str] = (
        "lower alpha, window or negative, or choose method strata, which limits the steps of a batch"
    )

    max_shards: int = 1
    method: str = "par"
    minibatch: int = field(default=MINIBATCH, metadata=ADDED)  # words that share negatives, for "par"

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Bytes of one sweep: its chunk, the model, and the copy of the model that it trains."""
        model = self.n_rows * 2 * 4 * padded(self.dimension)
        table = self._table_size(chunk.tokens)
        return MemoryEstimate(
            data=4 * chunk.tokens + 8 * (chunk.documents + 1),
            model=model + 8 * self.n_rows,
            delta=model,
            scratch=8 * chunk.tokens + 24 * table + 20 * self.n_rows,
            device=model + 12 * chunk.tokens + 8 * chunk.documents + 4 * table,
        )

    def needs(self, data: Corpus, n_workers: int) -> Needs:
        """Return that there is one shard: its delta is the whole model, and cannot be added to another one."""
        return Needs(device=self.device, shards=self.max_shards)

    def begin(self, data: Corpus, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first vectors of the words of each block."""
        for block in blocks:
            yield self._first_rows(data, np.arange(self.bounds[block], self.bounds[block + 1]), previous)

    def _table_size(self, tokens: int) -> int:
        """Return the size of the table of negatives: a power of two, at least the number of tokens if possible."""
        next_power = 1 << max(0, tokens - 1).bit_length()
        return min(MAX_TABLE, max(1 << 10, next_power))

    # --- a sweep ---

    def sweep(
        self, model: ModelView, chunk: Chunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Train the whole model on one chunk."""
        keys = random.stream(random.key(*address), 4)
        frequency = model.shared["frequency"]
        table = negative_table(frequency, self.ns_exponent, self._table_size(chunk.n_tokens), keys[0])
        text = subsample(self.texts(chunk), chunk.words, self.keep_probability(frequency), keys[1])
        if shard.deltas is None:
            tokens = 0
            W_in, W_out = (self._trainable(model.block(0)[name]) for name in MATRICES)
        else:
            (before,) = shard.deltas
            tokens = int(before["tokens"])
            W_in, W_out = (before[name] for name in MATRICES)
        options = self._training_options(int(model.shared["trained"]) + tokens, table, keys)
        self.train(text, options, W_in, W_out)
        delta: Arrays = {"tokens": np.int64(tokens + chunk.n_tokens), "W_in": W_in, "W_out": W_out}
        return SweepResult(None, [delta], {"tokens": np.int64(chunk.n_tokens)})

    def train(self, text: Text, options: TrainingOptions, W_in: np.ndarray, W_out: np.ndarray) -> None:
        """Train W_in and W_out (rows, padded D) in place on a text."""
        kernels_on("word2vec.skip_gram", self.device).train(self.method, text, options, W_in, W_out)

    def _trainable(self, W: np.ndarray) -> np.ndarray:
        """Copy a matrix of the model, which must not change, into an aligned array."""
        copied = empty_rows(len(W), self.dimension)
        copied[...] = W
        return copied

    def _training_options(self, trained: int, table: np.ndarray, keys: np.ndarray) -> TrainingOptions:
        """Return the options for a chunk, before which ``trained`` tokens were trained."""
        slope = (self.alpha - self.min_alpha) / max(1, self.total_tokens)
        alpha = self.alpha - slope * trained
        return TrainingOptions(
            self.window, self.negative, table, keys[2], keys[3], alpha, slope, self.min_alpha, self.minibatch
        )

    # --- a commit ---

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Replace the block by the trained matrices."""
        RESIDENTS.bring_back(delta[name] for name in MATRICES)
        return {name: delta[name] for name in MATRICES}, {}

    # --- evaluation ---

    def rows_of(self, model: ModelView, words: np.ndarray, names: Sequence[str] = MATRICES) -> list[np.ndarray]:
        """Return the rows of these words (R,) in each of the matrices: (R, padded D) float32."""
        return [model.block(0)[name][words] for name in names]
