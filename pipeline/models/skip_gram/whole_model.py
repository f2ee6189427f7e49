"""Skip-gram that passes the whole model from chunk to chunk."""

from dataclasses import dataclass

import numpy as np

from ....io.stores.corpus import ChunkInfo
from ....io.stores.store import Arrays
from ....kernels.word2vec import skip_gram as kernels
from ...engine.algorithm import Model
from .algorithm import MATRICES, SkipGram, TrainingRows
from .hogwild import n_copies


@dataclass(frozen=True, kw_only=True)
class WholeModelSkipGram(SkipGram):
    """One shard trains all rows of a model of one block, chunk after chunk.

    The delta is not a change: it is W_in and W_out themselves. The next chunk trains them in place, without a copy,
    and the commit takes them as they are. Since there is one shard, no two deltas ever have to be merged.
    """

    max_shards: int | None = 1

    def _max_rows(self, chunk: ChunkInfo) -> int:
        return self.n_rows

    def _gather(
        self,
        model: Model,
        table: np.ndarray,
        texts: list[kernels.Text],
        deltas: list[Arrays] | None,
        threads: int,
    ) -> TrainingRows:
        if deltas is None:
            block = model.block(0)
            matrices = [self._with_copies(block[name], threads) for name in MATRICES]
        else:
            matrices = [deltas[0][name] for name in MATRICES]
        rows = np.arange(self.n_rows, dtype=np.uint32)
        return TrainingRows(rows, matrices[0], matrices[1], table, texts)

    def _with_copies(self, W: np.ndarray, threads: int) -> np.ndarray:
        """Copy a matrix of the model into an array that also has rows for the copies of the threads."""
        copied = kernels.empty_rows(len(W) + n_copies(threads, len(W)), self.dimension)
        copied[: len(W)] = W
        return copied

    def _deltas(self, model: Model, training: TrainingRows, previous: list[Arrays] | None, tokens: int) -> list[Arrays]:
        return [{"tokens": np.int64(tokens), "W_in": training.W_in, "W_out": training.W_out}]

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Raise ValueError: there is one shard, so there are no two deltas."""
        raise ValueError("a shard that trained the whole model cannot be merged with another shard")

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Replace the block by the trained rows, without the threads' copies that follow them."""
        trained = {name: delta[name][: self.n_rows] for name in MATRICES}
        return trained, {"rows_changed": np.int64(self.n_rows)}
