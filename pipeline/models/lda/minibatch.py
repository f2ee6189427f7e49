"""Gibbs sampling of LDA with dense counts, after Moon's dissertation (2019), chapter 2, for comparison.

Chunks are sampled in parallel: the changes of other chunks arrive with the next epoch, as in AD-LDA.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....kernels import random
from ....kernels.chunk import as_int32
from ....kernels.lda import minibatch
from ...engine.algorithm import Address, MemoryEstimate, ModelView
from ...engine.device import kernels
from ..base.sparse_rows import row_of_each_entry
from .algorithm import LdaAlgorithm
from .word_topics import gather_rows, stored_blocks


class DenseCounts(NamedTuple):
    """A chunk as the kernels of this module take it."""

    tokens: minibatch.Tokens
    tables: minibatch.CountTables  # the kernels update them


@dataclass(frozen=True, kw_only=True)
class DenseSampler(LdaAlgorithm):
    """Base class of the samplers that hold the counts of a chunk as dense tables."""

    unread: ClassVar[tuple[str, ...]] = ()
    kernel_module: ClassVar[str] = "lda.minibatch"

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Add dense counts of the chunk's documents and words, and all blocks of B, to the estimate."""
        sparse = super().memory(data, chunk)
        return replace(
            sparse,
            model=sparse.model * self.n_blocks,
            scratch=sparse.scratch + 16 * chunk.tokens + 4 * self.n_topics * self.dense_rows(chunk),
        )

    def dense_rows(self, chunk: ChunkInfo) -> int:
        """Return an upper bound of the number of rows in A and B together."""
        return chunk.documents + min(chunk.segments, self.n_words)

    def dense_counts(self, model: ModelView, chunk: Chunk, z: np.ndarray, words: np.ndarray) -> DenseCounts:
        """Return the counts of a chunk. Row i of B belongs to the word ``words[i]``; words ascend."""
        rows = gather_rows(words, stored_blocks(model, self.bounds))
        B = np.zeros((len(words), self.n_topics), np.int32)
        B[row_of_each_entry(rows["row_ptr"]), rows["topics"]] = rows["counts"]
        # Dense rows exist only for the words of the chunk, so tokens refer to rows instead of ids.
        row_of_token = np.searchsorted(words, chunk.words).astype(np.uint32)
        tokens = minibatch.Tokens(chunk.docs, row_of_token[chunk.word_to_doc_order], chunk.word_to_doc_order)
        beta = float(model.shared["beta"])
        tables = minibatch.CountTables(
            A=minibatch.document_counts(tokens, z, chunk.n_documents, self.n_topics),
            B=B,
            N=as_int32(model.shared["totals"], "tokens of a topic"),
            alpha=np.array(model.shared["alpha"]),
            beta=beta,
            mass=self.n_words * beta,
        )
        return DenseCounts(tokens, tables)


@dataclass(frozen=True, kw_only=True)
class MinibatchGibbs(DenseSampler):
    """Collapsed Gibbs sampling with counts that change after each mini-batch (Moon 2019, algorithms 4, 5 and 7).

    Unlike there, a token is left out of its own counts.
    """

    has_cuda_kernels: ClassVar[bool] = True

    documents: int = 256  # in a mini-batch

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Add the tables on the device to the estimate."""
        estimate = super().memory(data, chunk)
        rows = self.dense_rows(chunk) + min(self.documents, chunk.documents)
        return replace(estimate, device=estimate.device + 24 * chunk.tokens + 4 * self.n_topics * rows)

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw each topic given the topics after the last mini-batch."""
        z = z.copy()
        counts = self.dense_counts(model, chunk, z, np.unique(chunk.words))
        kernel = kernels("lda.minibatch", self.device).minibatch
        documents = min(self.documents, chunk.n_documents)
        kernel(counts.tokens, counts.tables, z, random.key(*address), chunk.doc_ptr, documents)
        return z
