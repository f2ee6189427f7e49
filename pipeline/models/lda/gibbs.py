"""Collapsed Gibbs sampling in word order, in which the counts follow every token of a shard.

Within a chunk, the kernel updates the counts. From one chunk of a shard to the next, the deltas carry them. The changes
of other shards arrive with the next epoch, as in AD-LDA (Newman, Asuncion, Smyth and Welling, JMLR 2009).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.lda import gibbs, gibbs_registers
from ....kernels.lda.changing_rows import WordRows, padded
from ....kernels.lda.counts import WordCounts
from ...engine.algorithm import Address, MemoryEstimate, ModelView, Shard, SweepResult
from .algorithm import LdaAlgorithm

#: Begins the names of the arrays of a delta that are the current counts, and not counts of the shard's tokens.
CURRENT = "current_"


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
        if self.n_topics <= gibbs_registers.MOST_TOPICS:
            return {"lda.gibbs_registers"}
        return {"lda.gibbs_dense" if self._dense_width(chunk) else "lda.gibbs" for chunk in data.chunks}

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Add to the estimate the rows of A and of B that the kernel changes. It takes all blocks of B at once."""
        estimate = super().memory(data, chunk)
        model = estimate.model * self.n_blocks
        width = self._dense_width(chunk)
        # Sparse rows of A are padded to eight entries. They are copied from packed ones, which `super` includes.
        documents = 4 * width * chunk.documents if width else 4 * chunk.tokens + 48 * chunk.documents
        if self.n_topics <= gibbs_registers.MOST_TOPICS:
            words = 4 * padded(self.n_topics) * self.n_words
        else:
            # The rows of the chunk before are there until they are copied.
            words = 12 * self.entries + 6 * chunk.tokens + 40 * self.n_words
        return replace(estimate, model=model, scratch=estimate.scratch + documents + words)

    def sweep(
        self, model: ModelView, chunk: Chunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Draw the topics of a chunk's tokens from the counts after the chunks of the shard before it."""
        if state is None:
            return super().sweep(model, chunk, state, shard, address)
        block = gibbs.joined(list(self.kernel_blocks(model)))
        if shard.deltas is None:
            words, totals = gibbs.word_rows(chunk, block), block.totals.astype(np.int64)
        else:
            words, totals = _unpacked(shard.deltas[0])
            words = gibbs.grown(chunk, words, self.n_topics)
            counts = [{name: delta[name] for name in WordCounts._fields} for delta in shard.deltas]
            shard = shard._replace(deltas=counts)
        z = state["z"].copy()
        gibbs.draw(chunk, gibbs.document_rows(chunk, z, self.n_topics), words, totals, block, z, random.key(*address))
        deltas = self._counts(chunk, z, shard)
        if not shard.is_last:
            deltas[0] |= _packed(words, totals)
        return SweepResult({"z": z}, deltas, self._count_documents(chunk, z, address))

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw a topic for one token after the other. Each draw sees those before it."""
        return gibbs.sweep(chunk, self.kernel_blocks(model), z, random.key(*address))

    def _dense_width(self, chunk: ChunkInfo) -> int:
        return gibbs.dense_width(self.n_topics, chunk.tokens, chunk.documents, chunk.longest)


def _packed(words: gibbs.Words, totals: np.ndarray) -> Arrays:
    """Return the current counts as arrays of a delta."""
    rows = words._asdict() if isinstance(words, WordRows) else {"rows": words}
    return {CURRENT + name: array for name, array in (rows | {"totals": totals}).items()}


def _unpacked(delta: Arrays) -> tuple[gibbs.Words, np.ndarray]:
    """Return the current counts of a delta: rows of B, and N."""
    arrays = {name.removeprefix(CURRENT): array for name, array in delta.items() if name.startswith(CURRENT)}
    totals = arrays.pop("totals")
    return arrays["rows"] if "rows" in arrays else WordRows(**arrays), totals
