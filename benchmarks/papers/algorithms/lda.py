"""Two slow Gibbs samplers of LDA from Moon's dissertation (2019), chapter 2: sequential, and uncollapsed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from corpusmill import LDA
from corpusmill.io.stores.chunk import Chunk
from corpusmill.io.stores.corpus import ChunkInfo, Corpus
from corpusmill.kernels import random
from corpusmill.pipeline.engine.algorithm import Address, MemoryEstimate, ModelView
from corpusmill.pipeline.models.lda.algorithm import LdaAlgorithm
from corpusmill.pipeline.models.lda.minibatch import DenseSampler
from corpusmill.pipeline.models.lda.samplers import SAMPLERS

from ..kernels import every_token, uncollapsed

#: Takes the place of the chunk in the address of the draws of φ, which are the same for all chunks.
_ALL_CHUNKS = -1


@dataclass(frozen=True, kw_only=True)
class SequentialGibbs(DenseSampler):
    """Collapsed Gibbs sampling, token by token in document order (Moon 2019, algorithm 1)."""

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw each topic given all current topics of the chunk."""
        z = z.copy()
        counts = self.dense_counts(model, chunk, z, np.unique(chunk.words))
        every_token.sequential(counts.tokens, counts.tables, z, random.key(*address))
        return z


@dataclass(frozen=True, kw_only=True)
class Uncollapsed(DenseSampler):
    """Gibbs sampling that also draws θ and φ (Moon 2019, algorithm 2 and equation 2.2).

    φ is the same for all chunks. So this sampler is exact for any number of chunks, but it mixes slowly.
    """

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Add the counts of all words, and a gamma variate for each entry of θ and φ, to the estimate."""
        estimate = super().memory(data, chunk)
        variates = self.n_topics * (chunk.documents + self.n_words)
        return replace(estimate, scratch=estimate.scratch + 24 * variates)

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw θ of the chunk's documents and φ, then each topic given both."""
        new_z = np.empty_like(z)
        counts = self.dense_counts(model, chunk, z, np.arange(self.n_words))
        shared_address = address._replace(chunk=_ALL_CHUNKS)
        keys = (random.key(*address), random.key(*shared_address))
        uncollapsed.sample(counts.tokens, counts.tables, keys, new_z)
        return new_z


class PaperLDA(LDA):
    """LDA with the samplers of this module in addition: ``sampler="reference"`` and ``sampler="uncollapsed"``."""

    _kind = f"{__name__}:PaperLDA"
    _samplers: ClassVar[Mapping[str, type[LdaAlgorithm]]] = SAMPLERS | {
        "reference": SequentialGibbs,
        "uncollapsed": Uncollapsed,
    }
