"""LDA's other samplers: each draws a chunk's next topics in its own way; model, state and scores are ESCA's."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.lda import collapsed as lda_collapsed
from ....kernels.lda import uncollapsed as lda_uncollapsed
from ....kernels.lda import warp as lda_warp
from ...engine.algorithm import Address, MemoryEstimate, Model, PreviousModel, SweepResult
from ...engine.device import kernels
from ..base.sparse_rows import row_of_each_entry
from .algorithm import ESCA
from .inference import rows_of

#: Samplers that have CUDA kernels.
ON_DEVICE = ("esca", "minibatch")
#: Warp is left where likelihood rises by less than this share of its fastest rise.
SLOW = 0.5
#: Epochs of warp where no likelihood is known.
UNSEEN = 30
#: In place of a chunk: the address of draws that all chunks share.
PHI = -1


@dataclass(frozen=True, kw_only=True)
class Warp(ESCA):
    """LDA by WarpLDA's Metropolis-Hastings, two steps an epoch; blocks of the model are read twice."""

    sampler: str = "warp"

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Propose by word, accept and propose by document, accept by word; the first epoch is ESCA's."""
        if state is None:
            return super().sweep(model, chunk, state, deltas, address)
        key, old = random.key(*address), state["z"]
        packed, z = np.empty(chunk.n_tokens, np.uint32), np.empty(chunk.n_tokens, np.uint16)
        for j in range(self.n_blocks):
            lda_warp.propose(chunk, self.block_of(model, j), old, key, packed)
        lda_warp.accept_and_propose(chunk.doc_ptr, self.block_of(model, 0), key, packed)
        for j in range(self.n_blocks):
            lda_warp.accept(chunk, self.block_of(model, j), old, key, packed, z)
        return self._swept(chunk, z, deltas, address)


@dataclass(frozen=True, kw_only=True)
class Auto(Warp):
    """Warp while likelihood rises fast, then ESCA, whose epochs cost more and leave less to find."""

    sampler: str = "auto"

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """ESCA's, and whether its epochs have come."""
        return super().begin_shared(data, previous) | {"slow": np.bool_(False)}

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Sweep as Warp, or as ESCA once likelihood rises slowly."""
        sampler = ESCA if model.shared["slow"] else Warp
        return sampler.sweep(self, model, chunk, state, deltas, address)

    def update_schedule(self, shared: Arrays, history: list[dict[str, float]]) -> Arrays:
        """Say that likelihood rises slowly, once and for all."""
        curve = likelihoods(history)
        slow = is_slow(curve) if curve else len(history) >= UNSEEN
        return shared | {"slow": np.bool_(shared["slow"] or slow)}


def likelihoods(history: list[dict[str, float]]) -> list[tuple[float, float]]:
    """Return (epoch, log-likelihood per token) of the epochs that were scored, on held-out documents if there are."""
    for name in ("held_out_log_likelihood", "log_likelihood"):
        found = [(row["epoch"], row[name]) for row in history if name in row]
        if found:
            return found
    return []


def is_slow(curve: Sequence[tuple[float, float]]) -> bool:
    """Say whether likelihood has lately risen by less than a share of the fastest rise so far, an epoch."""
    rises = [(after - before) / (t - s) for (s, before), (t, after) in pairwise(curve)]
    return len(rises) > 1 and rises[-1] < SLOW * max(rises)


@dataclass(frozen=True, kw_only=True)
class Collapsed(ESCA):
    """Counts that follow every token inside a chunk; what other chunks change arrives with the next epoch (AD-LDA)."""

    sampler: str = "cgs"
    #: Document groups and word blocks of a chunk.
    tiles: int = 8
    #: Documents of a mini-batch.
    documents: int = 256

    def memory(self, data: Any, chunk: Any) -> MemoryEstimate:
        """ESCA's, and dense counts of the chunk's documents and words; all blocks of B at once."""
        own = super().memory(data, chunk)
        rows = chunk.documents + min(chunk.segments, self.n_words)
        return replace(
            own,
            model=own.model * self.n_blocks,
            scratch=own.scratch + 16 * chunk.tokens + 4 * self.n_topics * rows,
            device=own.device + 24 * chunk.tokens + 4 * self.n_topics * (rows + self.documents),
        )

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Draw each token from counts that hold the chunk's topics of now; the first epoch is ESCA's."""
        if state is None:
            return super().sweep(model, chunk, state, deltas, address)
        z, key = state["z"].copy(), random.key(*address)
        tokens, tables = self._tables(model, chunk, z, np.unique(chunk.words))
        if self.sampler == "minibatch":
            kernels("lda.collapsed", self.device).minibatch(tokens, tables, z, key, chunk.doc_ptr, self.documents)
        elif self.sampler == "reference":
            lda_collapsed.sequential(tokens, tables, z, key)
        else:
            # One thread: chunks are the parallelism, and totals of a tile's own give the same topics on any number.
            with ThreadPoolExecutor(1) as pool:
                lda_collapsed.diagonals(tokens, tables, z, key, self.tiles, pool)
        return self._swept(chunk, z, deltas, address)

    def _tables(
        self, model: Model, chunk: Chunk, z: np.ndarray, words: np.ndarray
    ) -> tuple[lda_collapsed.Tokens, lda_collapsed.CountTables]:
        """Return the chunk's tokens, and dense counts whose B has the rows of ascending ``words`` alone."""
        rows = rows_of(words, (model.block(j) for j in range(self.n_blocks)))
        B = np.zeros((len(words), self.n_topics), np.int32)
        B[row_of_each_entry(rows["row_ptr"]), rows["topics"]] = rows["counts"]
        local = np.searchsorted(words, chunk.words).astype(np.uint32)
        tokens = lda_collapsed.Tokens(chunk.docs, local[chunk.word_to_doc_order], chunk.word_to_doc_order)
        A = lda_collapsed.document_counts(tokens, z, chunk.n_documents, self.n_topics)
        N, beta = model.shared["totals"].astype(np.int32), float(model.shared["beta"])
        alpha = np.array(model.shared["alpha"])
        return tokens, lda_collapsed.CountTables(A, B, N, alpha, beta, self.n_words * beta)


@dataclass(frozen=True, kw_only=True)
class Uncollapsed(Collapsed):
    """Topics given θ and φ, which are drawn anew each epoch: exact over any number of chunks, and slow to mix."""

    sampler: str = "uncollapsed"

    def memory(self, data: Any, chunk: Any) -> MemoryEstimate:
        """Counts of all words and of the chunk's documents, and draws of as many gamma variates."""
        own = super().memory(data, chunk)
        return replace(own, scratch=own.scratch + 24 * self.n_topics * (chunk.documents + self.n_words))

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Draw θ of the chunk's documents, φ as all chunks do, and topics from both; the first epoch is ESCA's."""
        if state is None:
            return super().sweep(model, chunk, state, deltas, address)
        z, phi = np.empty_like(state["z"]), address._replace(chunk=PHI)
        tokens, tables = self._tables(model, chunk, state["z"], np.arange(self.n_words))
        lda_uncollapsed.sample(tokens, tables, (random.key(*address), random.key(*phi)), z)
        return self._swept(chunk, z, deltas, address)


#: What `LDA(sampler=...)` may name.
SAMPLERS: dict[str, Callable[..., ESCA]] = {
    "esca": ESCA,
    "warp": Warp,
    "auto": Auto,
    "cgs": Collapsed,
    "minibatch": partial(Collapsed, sampler="minibatch"),
    "reference": partial(Collapsed, sampler="reference"),
    "uncollapsed": Uncollapsed,
}
