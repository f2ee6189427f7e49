"""LDA's other samplers: each draws a chunk's next topics in its own way; model, state and scores are ESCA's."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..io.corpus import Chunk
from ..io.store import Arrays
from ..kernels import lda_collapsed, lda_warp, random
from .algorithm import Address, Model, Need, Swept
from .device import kernels
from .lda import ESCA
from .lda_inference import rows_of


@dataclass(frozen=True)
class Warp(ESCA):
    """LDA by WarpLDA's Metropolis-Hastings, two steps an epoch; blocks of the model are read twice."""

    sampler: str = "warp"

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Propose by word, accept and propose by document, accept by word; the first epoch is ESCA's."""
        if state is None:
            return super().sweep(model, chunk, state, deltas, address)
        key, old = random.key(*address), state["z"]
        packed, z = np.empty(chunk.n_tokens, np.uint32), np.empty(chunk.n_tokens, np.uint16)
        for j in range(self.blocks):
            lda_warp.propose(chunk, self.block_of(model, j), old, key, packed)
        lda_warp.by_document(chunk.doc_ptr, self.block_of(model, 0), key, packed)
        for j in range(self.blocks):
            lda_warp.accept(chunk, self.block_of(model, j), old, key, packed, z)
        return self._swept(chunk, z, deltas, address)


@dataclass(frozen=True)
class Auto(Warp):
    """Warp while it is ahead, then ESCA, which leaves less to find."""

    sampler: str = "auto"
    switch: int = 0  # the first epoch of ESCA

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Sweep as Warp before the epoch of the switch, as ESCA from there on."""
        sampler = Warp if address.epoch < self.switch else ESCA
        return sampler.sweep(self, model, chunk, state, deltas, address)


@dataclass(frozen=True)
class Collapsed(ESCA):
    """Counts that follow every token inside a chunk; what other chunks change arrives with the next epoch (AD-LDA)."""

    sampler: str = "cgs"
    #: Document groups and word blocks of a chunk.
    parts: int = 8
    #: Documents of a mini-batch.
    documents: int = 256

    def need(self, data: Any, chunk: Any) -> Need:
        """ESCA's, and dense counts of the chunk's documents and words; all blocks of B at once."""
        own = super().need(data, chunk)
        rows = chunk.documents + min(chunk.segments, self.n_words)
        return replace(
            own,
            model=own.model * self.blocks,
            scratch=own.scratch + 16 * chunk.tokens + 4 * self.n_topics * rows,
            device=own.device + 24 * chunk.tokens + 4 * self.n_topics * (rows + self.documents),
        )

    def sweep(
        self, model: Model, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Draw each token from counts that hold the chunk's topics of now; the first epoch is ESCA's."""
        if state is None:
            return super().sweep(model, chunk, state, deltas, address)
        z, key = state["z"].copy(), random.key(*address)
        tokens, tables = self._tables(model, chunk, z)
        if self.sampler == "minibatch":
            kernels("lda_collapsed", self.device).minibatch(tokens, tables, z, key, chunk.doc_ptr, self.documents)
        elif self.sampler == "reference":
            lda_collapsed.sequential(tokens, tables, z, key)
        else:
            # One thread: chunks are the parallelism, and totals of a tile's own give the same topics on any number.
            with ThreadPoolExecutor(1) as pool:
                lda_collapsed.diagonals(tokens, tables, z, key, self.parts, pool)
        return self._swept(chunk, z, deltas, address)

    def _tables(self, model: Model, chunk: Chunk, z: np.ndarray) -> tuple[lda_collapsed.Tokens, lda_collapsed.Tables]:
        used, words = np.unique(chunk.words, return_inverse=True)
        rows = rows_of(used, (model.block(j) for j in range(self.blocks)))
        B = np.zeros((len(used), self.n_topics), np.int32)
        B[np.repeat(np.arange(len(used)), np.diff(rows["row_ptr"])), rows["topics"]] = rows["counts"]
        tokens = lda_collapsed.Tokens(chunk.docs, words.astype(np.uint32)[chunk.place], chunk.place)
        A = lda_collapsed.document_counts(tokens, z, chunk.n_documents, self.n_topics)
        N, beta = model.shared["totals"].astype(np.int32), float(model.shared["beta"])
        alpha = np.array(model.shared["alpha"])
        return tokens, lda_collapsed.Tables(A, B, N, alpha, beta, self.n_words * beta)


#: What `LDA(sampler=...)` may name.
SAMPLERS: dict[str, Callable[..., ESCA]] = {
    "esca": ESCA,
    "warp": Warp,
    "auto": Auto,
    "cgs": Collapsed,
    "minibatch": partial(Collapsed, sampler="minibatch"),
    "reference": partial(Collapsed, sampler="reference"),
}
