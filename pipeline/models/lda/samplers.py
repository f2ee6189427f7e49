"""Samplers of LDA that read sparse counts of the last epoch (ESCA, WarpLDA, and both in turn), and the choice of one.

The counts of the sampler in `gibbs` change with every token. The sampler in `minibatch` has dense counts. It is
slower, and serves for comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.lda import warp
from ....kernels.lda.model import ModelBlock
from ...engine.algorithm import Address, MemoryEstimate, Metrics, ModelView, PreviousModel
from ...engine.device import kernels
from .algorithm import LdaAlgorithm
from .gibbs import WordOrderGibbs
from .minibatch import MinibatchGibbs

#: Number of topics up to which "auto" is `WordOrderGibbs`. docs/choosing.md has the measurements.
EXACT_TOPICS = 1000
#: `Auto` changes to ESCA when the likelihood rises by less than this share of its fastest rise.
SLOW_SHARE = 0.5
#: Number of epochs after which `Auto` changes to ESCA if the likelihood is never measured.
UNSCORED_EPOCHS = 30


@dataclass(frozen=True, kw_only=True)
class Esca(LdaAlgorithm):
    """ESCA (SaberLDA, Li et al. 2017, section 2.2): draw every topic from its full conditional distribution."""

    kernel_module: ClassVar[str] = "lda.esca"
    has_cuda_kernels: ClassVar[bool] = True

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw from equation (1)."""
        return draw_by_esca(self, model, chunk, z, address)


@dataclass(frozen=True, kw_only=True)
class Warp(LdaAlgorithm):
    """WarpLDA (Chen et al. 2016): two Metropolis-Hastings steps per epoch. Time does not grow with the topics."""

    kernel_module: ClassVar[str] = "lda.warp"
    unread: ClassVar[tuple[str, ...]] = ("words", "docs")

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Return the bytes of a sweep, which reads two of the four arrays per token and makes no rows of A."""
        estimate = super().memory(data, chunk)
        return replace(
            estimate,
            data=4 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            # Blocks that are kept for the second step, and one that is not.
            model=2 * self.block_bytes,
            # A sweep packs topics and proposals, and sorts segments by word. A score needs the documents of the tokens
            # and rows of A, when there is no next state.
            scratch=12 * chunk.tokens + 8 * chunk.segments + 64 * chunk.documents + 48 * self.n_topics,
        )

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Make one step with proposals by word and one with proposals by document."""
        return draw_by_warp(self, model, chunk, z, address)


@dataclass(frozen=True, kw_only=True)
class Auto(LdaAlgorithm):
    """WarpLDA while the likelihood rises fast, then ESCA, which takes longer per epoch but finds better topics.

    The shared array ``slow`` selects the sampler.
    """

    kernel_module: ClassVar[str] = "lda.warp"

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Return the bytes of a sweep by ESCA, or of one by WarpLDA, which may keep blocks for its second step."""
        estimate = super().memory(data, chunk)
        return replace(estimate, model=min(2, self.n_blocks) * self.block_bytes)

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Begin with WarpLDA."""
        return super().begin_shared(data, previous) | {"slow": np.bool_(False)}

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Draw by one of the two samplers."""
        if model.shared["slow"]:
            return draw_by_esca(self, model, chunk, z, address)
        return draw_by_warp(self, model, chunk, z, address)

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Change to ESCA when the likelihood rises slowly, and never back."""
        shared, metrics = super().reduce(shared, totals, sums, history)
        curve = likelihoods(history)
        if curve:
            now_slow = is_slow(curve)
        else:
            now_slow = len(history) >= UNSCORED_EPOCHS
        return shared | {"slow": np.bool_(shared["slow"] or now_slow)}, metrics


def draw_by_esca(
    algorithm: LdaAlgorithm, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address
) -> np.ndarray:
    """Return the next topics of a chunk by ESCA: (T,) uint16 in word order."""
    esca = kernels("lda.esca", algorithm.device)
    return esca.sweep(chunk, algorithm.kernel_blocks(model, chunk), z, random.key(*address), algorithm.leave_out)


def draw_by_warp(
    algorithm: LdaAlgorithm, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address
) -> np.ndarray:
    """Return the next topics of a chunk by WarpLDA: (T,) uint16 in word order."""
    key = random.key(*address)
    # The kernels pack the topic and the proposal of a token into one number.
    packed = np.empty(chunk.n_tokens, np.uint32)
    new_z = np.empty(chunk.n_tokens, np.uint16)
    # Both steps need all blocks. A block of a large model is unpacked each time, so those that fit into the memory of
    # one block with all of its rows are kept for the second step.
    kept: list[ModelBlock] = []
    left = algorithm.block_bytes
    for block in algorithm.kernel_blocks(model, chunk):
        warp.propose(chunk, block, z, key, packed)
        left -= block.row_ptr.nbytes + block.topics.nbytes + block.counts.nbytes
        if left >= 0:
            kept.append(block)
    # This step needs the totals and the priors only, which every block has.
    warp.accept_and_propose(chunk.doc_ptr, block, key, packed)
    for block in chain(kept, algorithm.kernel_blocks(model, chunk, first=len(kept))):
        warp.accept(chunk, block, z, key, packed, new_z)
    return new_z


def likelihoods(history: list[Metrics]) -> list[tuple[float, float]]:
    """Return (epoch, log-likelihood per token) of the epochs that were scored; of held-out documents, if possible."""
    for name in ("held_out_log_likelihood", "log_likelihood"):
        found = [(row["epoch"], row[name]) for row in history if name in row]
        if found:
            return found
    return []


def is_slow(curve: Sequence[tuple[float, float]]) -> bool:
    """Return whether the last rise per epoch is less than a share of the fastest rise so far."""
    rises = []
    for (first_epoch, before), (second_epoch, after) in pairwise(curve):
        rises.append((after - before) / (second_epoch - first_epoch))
    return len(rises) > 1 and rises[-1] < SLOW_SHARE * max(rises)


def choose(sampler: type[LdaAlgorithm], n_topics: int, device: str) -> type[LdaAlgorithm]:
    """Return the sampler or, for `Auto`, the one that suits the number of topics. On a device, only ESCA runs."""
    if sampler is not Auto:
        return sampler
    if device == "cuda":
        return Esca
    return WordOrderGibbs if n_topics <= EXACT_TOPICS else Auto


#: The values of ``LDA(sampler=...)``.
SAMPLERS: dict[str, type[LdaAlgorithm]] = {
    "esca": Esca,
    "gibbs": WordOrderGibbs,
    "warp": Warp,
    "auto": Auto,
    "minibatch": MinibatchGibbs,
}
