"""Skip-gram by sub-models: a sweep copies the rows that its chunk needs, and returns how they changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....io.stores.corpus import ChunkInfo
from ....io.stores.store import Arrays
from ....kernels.word2vec import skip_gram as kernels
from ...engine.algorithm import Model
from .algorithm import MATRICES, SkipGram, TrainingRows
from .hogwild import n_copies

#: Rows that `_subtract_model` subtracts at a time.
SUBTRACTED_ROWS = 1 << 10


class BlockRows(NamedTuple):
    """The rows of a list of rows that belong to one block."""

    block: int
    part: slice  # their positions in the list
    rows: np.ndarray  # (n,) int64, counted from the block's first row


@dataclass(frozen=True, kw_only=True)
class SubModelSkipGram(SkipGram):
    """Shards train in parallel, or one after another on a model of several blocks.

    A delta of one block has four arrays for the R rows of the block that the shard needed: ``rows`` (R,) uint32,
    ``occurrences`` (R,) float32 (how often each row's word occurs in the shard's text), and the changes of ``W_in``
    and ``W_out``, (R, padded D) float32. ``tokens`` is the number of tokens that the shard trained.
    """

    def _max_rows(self, chunk: ChunkInfo) -> int:
        # A segment is a word of the chunk, or of a part of it.
        return min(self.n_rows, chunk.segments + self._table_size(chunk.tokens))

    # --- a sweep ---

    def _gather(
        self,
        model: Model,
        table: np.ndarray,
        texts: list[kernels.Text],
        deltas: list[Arrays] | None,
        threads: int,
    ) -> TrainingRows:
        needed = self._needed([table, *(text.words for text in texts)])
        if deltas is not None:
            # The shard's delta has to keep the rows of its earlier chunks.
            for first, delta in zip(self.bounds[:-1], deltas, strict=True):
                needed[delta["rows"].astype(np.int64) + first] = True
        rows, positions = _number(needed)
        W_in, W_out = self._copy_rows(model, rows, n_copies(threads, len(rows)))
        if deltas is not None:
            for block, part, local in self._by_block(rows):
                earlier = np.searchsorted(local, deltas[block]["rows"])
                W_in[part][earlier] += deltas[block]["W_in"]
                W_out[part][earlier] += deltas[block]["W_out"]
        renumbered = [text._replace(words=positions[text.words]) for text in texts]
        return TrainingRows(rows, W_in, W_out, positions[table], renumbered)

    def _deltas(self, model: Model, training: TrainingRows, previous: list[Arrays] | None, tokens: int) -> list[Arrays]:
        self._subtract_model(model, training)
        occurrences = np.zeros(len(training.rows), np.float32)
        for text in training.texts:
            occurrences += np.bincount(text.words, minlength=len(training.rows))
        arrays: Arrays = {
            "rows": training.rows,
            "occurrences": occurrences,
            "W_in": training.W_in,
            "W_out": training.W_out,
        }
        count: Arrays = {"tokens": np.int64(tokens)}
        empty = {name: array[:0] for name, array in arrays.items()}
        deltas = [empty | count] * self.n_blocks
        for block, part, local in self._by_block(training.rows):
            delta = {name: array[part] for name, array in arrays.items()}
            delta["rows"] = local.astype(np.uint32)
            if previous is not None:
                earlier = np.searchsorted(local, previous[block]["rows"])
                delta["occurrences"][earlier] += previous[block]["occurrences"]
            deltas[block] = delta | count
        return deltas

    def _needed(self, lists: list[np.ndarray]) -> np.ndarray:
        """Return which rows occur in the lists of words: (n_rows,) bool."""
        needed = np.zeros(self.n_rows, bool)
        for words in lists:
            needed[words] = True
        return needed

    def _copy_rows(self, model: Model, rows: np.ndarray, copies: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Copy rows of W_in and W_out. Another ``copies`` rows follow, which are not initialised."""
        W_in = kernels.empty_rows(len(rows) + copies, self.dimension)
        W_out = kernels.empty_rows(len(rows) + copies, self.dimension)
        for index, part, local in self._by_block(rows):
            block = model.block(index)
            np.take(block["W_in"], local, axis=0, out=W_in[part])
            np.take(block["W_out"], local, axis=0, out=W_out[part])
        return W_in, W_out

    def _subtract_model(self, model: Model, training: TrainingRows) -> None:
        """Turn trained rows into their changes, in place. Few rows at a time, so that no second copy is needed."""
        for index, part, local in self._by_block(training.rows):
            block = model.block(index)
            for name, W in zip(MATRICES, (training.W_in, training.W_out), strict=True):
                for first in range(0, len(local), SUBTRACTED_ROWS):
                    stop = first + SUBTRACTED_ROWS
                    W[part][first:stop] -= block[name][local[first:stop]]

    def _by_block(self, rows: np.ndarray) -> Iterator[BlockRows]:
        """Yield each block that has some of ``rows`` (R,), which ascend."""
        cuts = np.searchsorted(rows, self.bounds)
        for block in range(self.n_blocks):
            part = slice(int(cuts[block]), int(cuts[block + 1]))
            if part.start < part.stop:
                yield BlockRows(block, part, rows[part].astype(np.int64) - self.bounds[block])

    # --- a commit ---

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add the changes, occurrences and tokens of two shards."""
        rows = np.union1d(left["rows"], right["rows"])
        merged: Arrays = {"tokens": left["tokens"] + right["tokens"], "rows": rows}
        for name in ("occurrences", *MATRICES):
            merged[name] = np.zeros((len(rows), *left[name].shape[1:]), np.float32)
            for delta in (left, right):
                merged[name][np.searchsorted(rows, delta["rows"])] += delta[name]
        return merged

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Add the summed changes of a round's shards, each row with its weight; see ``kernels.merge_weights``."""
        progress = int(shared["trained"]) / max(1, self.total_tokens)
        alpha = max(self.min_alpha, self.alpha * (1 - progress))
        pairs = delta["occurrences"] * 2 * (self.window + 1)
        weights = kernels.merge_weights(pairs, self.shards_per_round, alpha)
        changed = {name: block[name].copy() for name in MATRICES}
        for name in MATRICES:
            changed[name][delta["rows"]] += weights[:, None] * delta[name]
        return changed, {"rows_changed": np.int64(len(delta["rows"]))}

    # --- evaluation ---

    def _rows_for_loss(
        self, model: Model, pairs: np.ndarray, negatives: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        if self.n_blocks == 1:
            return super()._rows_for_loss(model, pairs, negatives)
        rows, positions = _number(self._needed([pairs, negatives]))
        W_in, W_out = self._copy_rows(model, rows)
        return W_in, W_out, positions[pairs], positions[negatives]


def _number(needed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows where ``needed`` (n_rows,) bool is True, and the position of each row in that list.

    Both are uint32; the positions of other rows have no meaning.
    """
    positions = (np.cumsum(needed) - 1).astype(np.uint32)
    return np.flatnonzero(needed).astype(np.uint32), positions
