"""Collapsed Gibbs sampling in word order, in which the counts follow every token of a shard.

Within a chunk, the kernel updates the counts. From one chunk of a shard to the next, the deltas carry them. With few
topics, they carry the kernel's dense counts. With more, they carry the changes: the counts of the new topics, and those
of the old ones, which are subtracted from the model. The changes of other shards arrive with the next epoch, as in
AD-LDA (Newman, Asuncion, Smyth and Welling, JMLR 2009).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.lda import gibbs
from ....kernels.lda import gibbs_registers as gibbs_registers
from ....kernels.lda.changing_rows import padded, padded_to_four, with_changes
from ....kernels.lda.counts import WordCounts, topic_totals
from ....kernels.lda.model import ModelBlock
from ...engine.algorithm import Address, MemoryEstimate, ModelView, Shard, SweepResult
from .algorithm import LdaAlgorithm

#: Ends the name of an array of a delta that counts the topics before the sweep.
BEFORE = "_before"


@dataclass(frozen=True, kw_only=True)
class WordOrderGibbs(LdaAlgorithm):
    """Collapsed Gibbs sampling in word order.

    With more shards, more workers share an epoch, but the counts of each shard are older, and more epochs are needed.
    """

    most_shards: ClassVar[int] = 1
    # The next chunk of a shard is drawn from these counts.
    counts_late: ClassVar[bool] = False

    def _kernel_modules(self, data: Corpus) -> Collection[str]:
        """Return the modules of the kernels, which depend on the number of topics and the lengths of documents."""
        if self._has_few_topics:
            return {"lda.gibbs_registers"}
        return {"lda.gibbs_dense" if self._has_dense_rows(chunk) else "lda.gibbs" for chunk in data.chunks}

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Add to the estimate what the kernel changes, and the counts of the topics before the sweep.

        The kernel takes all blocks of B at once, and copies rows of A and of B to rows with free places.
        """
        estimate = super().memory(data, chunk)
        model = estimate.model * self.n_blocks
        if self._has_few_topics:
            # Dense rows of A, and two of B for each word, of which one counts the shard's tokens.
            rows = 4 * padded(self.n_topics) * (chunk.documents + 2 * self.n_words)
            return replace(estimate, model=model, scratch=estimate.scratch + rows + self.n_words)
        if self._has_dense_rows(chunk):
            documents = 4 * padded_to_four(self.n_topics) * chunk.documents
        else:
            documents = 12 * chunk.tokens + 80 * chunk.documents
        words = 2 * model + 6 * chunk.tokens
        scratch = estimate.scratch + documents + words
        return replace(estimate, model=model, delta=2 * estimate.delta, scratch=scratch)

    def sweep(
        self, model: ModelView, chunk: Chunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Draw the topics of a chunk's tokens from the counts after the chunks of the shard before it."""
        if state is None:
            return super().sweep(model, chunk, state, shard, address)
        if self._has_few_topics:
            counts = self._dense_counts(model, shard.deltas)
            z = gibbs_registers.sweep(chunk, self.kernel_blocks(model), state["z"], random.key(*address), counts)
            deltas = [counts._asdict()]  # all blocks in one
            if shard.is_last:
                deltas = [gibbs_registers.drawn_counts(counts, *words)._asdict() for words in pairwise(self.bounds)]
            return SweepResult({"z": z}, deltas, self._count_documents(chunk, z, address))
        z = gibbs.sweep(chunk, self._current_blocks(model, shard.deltas), state["z"], random.key(*address))
        deltas = self._count_words(chunk, z, _tables(shard.deltas, ""), shard.blocks)
        if not shard.is_last:
            before = self._count_words(chunk, state["z"], _tables(shard.deltas, BEFORE), shard.blocks)
            deltas = [new | _renamed(old, BEFORE) for new, old in zip(deltas, before, strict=True)]
        return SweepResult({"z": z}, deltas, self._count_documents(chunk, z, address))

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw a topic for one token after the other. Each draw sees those before it."""
        return gibbs.sweep(chunk, self.kernel_blocks(model), z, random.key(*address))

    @property
    def _has_few_topics(self) -> bool:
        return self.n_topics <= gibbs_registers.MOST_TOPICS

    def _has_dense_rows(self, chunk: ChunkInfo) -> bool:
        return gibbs.has_dense_rows(self.n_topics, chunk.tokens, chunk.documents)

    def _dense_counts(self, model: ModelView, deltas: list[Arrays] | None) -> gibbs_registers.ShardCounts:
        """Return the counts after the shard's last chunk, or before its first one."""
        if deltas is None:
            return gibbs_registers.begin(model.shared["totals"], self.n_words)
        return gibbs_registers.ShardCounts(**deltas[0])

    def _current_blocks(self, model: ModelView, deltas: list[Arrays] | None) -> Iterator[ModelBlock]:
        """Read the blocks one after another, with the changes of the shard's chunks so far."""
        if deltas is None:
            yield from self.kernel_blocks(model)
            return
        gained = [WordCounts(**_table(delta, "")) for delta in deltas]
        lost = [WordCounts(**_table(delta, BEFORE)) for delta in deltas]
        totals = model.shared["totals"] + self._sum(gained) - self._sum(lost)
        for block, more, less in zip(self.kernel_blocks(model), gained, lost, strict=True):
            yield with_changes(block, more, less, totals)

    def _sum(self, tables: Sequence[WordCounts]) -> np.ndarray:
        """Sum tables over all words: (K,) int64."""
        total = np.zeros(self.n_topics, np.int64)
        for table in tables:
            total += topic_totals(table.topics, table.counts, self.n_topics)
        return total


def _tables(deltas: list[Arrays] | None, ending: str) -> list[Arrays] | None:
    """Return one table of each delta, or None for the first chunk of a shard."""
    if deltas is None:
        return None
    return [_table(delta, ending) for delta in deltas]


def _table(delta: Arrays, ending: str) -> Arrays:
    """Return the arrays of `WordCounts` whose names in a delta have this ending."""
    return {name: delta[name + ending] for name in WordCounts._fields}


def _renamed(arrays: Arrays, ending: str) -> Arrays:
    """Return arrays with an ending of their names."""
    return {name + ending: array for name, array in arrays.items()}
