"""Latent Dirichlet allocation as the engine trains it: what all samplers share. They differ in how they draw topics.

Names are those of the papers: A are the topic counts of documents, B those of words, N those of the whole corpus, and z
are the topics of tokens. There are K topics, V words, and T tokens in a chunk.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.lda import esca as esca_on_cpu
from ....kernels.lda.counts import count_documents, topic_totals
from ....kernels.lda.esca import log_likelihood
from ....kernels.lda.model import ModelBlock
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Metrics, ModelView, PreviousModel, SweepResult
from ...engine.device import kernels
from ...engine.packing import pack_counts
from ...topics import WordGroup
from . import priors
from .continuation import PreviousTopics
from .inference import TrainedTopics, score_by_completion
from .late_counts import add_up, counted, uncounted
from .word_topics import kernel_block, top_words

#: Takes the place of the step in the address of the draws that split held-out documents. No step has this number.
_HELD_OUT = -2
#: How many topics, and words of each, `LdaAlgorithm.describe` shows.
_SHOWN_TOPICS = 24
_SHOWN_WORDS = 8


@dataclass(frozen=True, kw_only=True)
class LdaAlgorithm(Algorithm[Corpus, Chunk]):
    """Base class of the LDA samplers. A subclass draws the next topics of one chunk.

    The state of a chunk is z, (T,) uint16, in word order. The model is B, in blocks of sparse rows (see
    `word_topics`), and these shared arrays:

    - ``totals`` (K,) int64: N;
    - ``seeded`` (K,) int64: the pseudo-counts of seed words in N;
    - ``outside_totals`` (K,) int64: the counts in N of words that only the previous model has. It exists only when
      training continues from a model;
    - ``alpha`` (K,) float32 and ``beta`` float64: the priors.

    Some counts belong to no token of the corpus: those of the previous model, and those of seed words. They never
    change. The engine adds them to the counts of every epoch, see `constant_delta`.
    """

    name: ClassVar[str] = "lda"
    # Enough for a thousand threads. Sums of counts are the same for any number of shards.
    default_max_shards: ClassVar[int] = 4096
    merges_on_device: ClassVar[bool] = True
    device_chunk_tokens: ClassVar[int] = 1 << 22
    size_hint: ClassVar[str] = "lower n_components, cut the model with n_blocks"
    setting_names: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"alpha": "doc_topic_prior", "beta": "topic_word_prior", "n_topics": "n_components"}
    )
    #: Whether the sampler has kernels for CUDA.
    has_cuda_kernels: ClassVar[bool] = False
    #: Whether the topics of a chunk may be counted when its delta is merged with others.
    counts_late: ClassVar[bool] = True
    #: Arrays of a chunk that sweeps do not need.
    unread: ClassVar[tuple[str, ...]] = ("words",)

    n_words: int  # V, including words that only the previous model has
    n_topics: int
    alpha: tuple[float, ...]  # one number for all topics, or one per topic
    beta: float
    leave_out: bool = True  # whether ESCA excludes a token from the counts while its topic is drawn
    entries: int = 0  # upper bound of the number of entries in B
    seeds: tuple[tuple[int, int, int], ...] = ()  # (word, topic, pseudo-count), ascending
    learn_priors: str = "none"
    learn_every: int = 10  # epochs
    bins: int = 0  # of histograms of documents, if priors are learned

    @abstractmethod
    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Return the next topics of a chunk's tokens, given their current topics: both (T,) uint16 in word order."""

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Return the bytes of a sweep: the chunk in both orders, old and new topics, B, and deltas being merged."""
        largest_block = self.block_bytes
        return MemoryEstimate(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            state=4 * chunk.tokens,
            model=largest_block,
            delta=self._merged_bytes(chunk) + 16 * self.n_topics * self.bins,
            # Topics in document order, rows of A twice while they are trimmed, and dense rows of A for one group of
            # documents. Scoring held-out documents, which are a chunk too, needs the same.
            scratch=22 * chunk.tokens + 64 * chunk.documents + 48 * self.n_topics,
            # The same, with rows of A padded to 128 bytes, and dense buffers of about a thousand thread blocks. Beside
            # a block of B, there are two deltas that are merged, and their sum.
            device=44 * chunk.tokens
            + 28 * chunk.segments
            + 160 * chunk.documents
            + 4 * largest_block
            + (40 << 10) * self.n_topics,
        )

    def _merged_bytes(self, chunk: ChunkInfo) -> int:
        """Return the bytes of the deltas of two chunks like this one, and of a block while it is merged."""
        chunk_counts = self._count_bytes(chunk.tokens)
        # Topics that are counted late: those of two chunks wait even if the model is smaller.
        waiting = 0
        if self.counts_late:
            waiting = 2 * (2 * chunk.tokens + 12 * chunk.segments) + self.block_bytes
        return max(2 * chunk_counts, 3 * self.block_bytes, waiting)

    def swept_memory(self, data: Corpus, n_workers: int) -> int:
        """Return the bytes of the counts that a worker has swept, in all blocks but the one that is being merged."""
        swept = self._count_bytes(-(-data.n_tokens // n_workers))
        kept = swept * (self.n_blocks - 1) // self.n_blocks
        # As many bytes wait to be merged as the largest sum has, see `PartialSums`. `memory` includes those of a chunk.
        waiting = kept - max(self._merged_bytes(chunk) for chunk in data.chunks) // 2
        return kept + max(0, waiting)

    def _count_bytes(self, tokens: int) -> int:
        """Return an upper bound of the bytes of the counts of some tokens, in all blocks."""
        return 6 * min(self.entries, tokens) + 8 * self.n_words

    @property
    def block_bytes(self) -> int:
        """Upper bound of the bytes of a block of B."""
        return self._count_bytes(self.entries) // self.n_blocks

    # --- before the first sweep ---

    def begin(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays:
        """Return the constant counts of a block."""
        first_word = self.bounds[block]
        stop_word = self.bounds[block + 1]
        if previous is not None:
            return PreviousTopics(previous).rows(data.vocabulary.slice(first_word, stop_word - first_word))
        # Without a previous model, the only constant counts are those of the seed words.
        words, topics, counts = self._seed_columns()
        row_ptr = np.searchsorted(words, np.arange(first_word, stop_word + 1))
        in_block = slice(row_ptr[0], row_ptr[-1])
        return {
            "row_ptr": row_ptr - row_ptr[0],
            "topics": topics[in_block].astype(np.uint16),
            "counts": counts[in_block].astype(np.int32),
        }

    def constant_delta(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays | None:
        """Return the counts of the previous model or of the seed words, if there are any."""
        if previous is None and not self.seeds:
            return None
        return self.begin(data, block, previous)

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return the topic totals of the constant counts, and the priors."""
        if previous is not None:
            return self._continue_shared(data, PreviousTopics(previous))
        _, topics, counts = self._seed_columns()
        seeded = topic_totals(topics.astype(np.uint16), counts.astype(np.int32), self.n_topics)
        return {"totals": seeded, "seeded": seeded} | self._given_priors()

    def _continue_shared(self, data: Corpus, previous: PreviousTopics) -> Arrays:
        shared = {
            "totals": previous.shared["totals"],
            "seeded": previous.shared["seeded"],
            "outside_totals": previous.totals_outside(data.vocabulary),
        }
        if self.learn_priors == "none":
            return shared | self._given_priors()
        return shared | {"alpha": previous.shared["alpha"], "beta": previous.shared["beta"]}

    def _given_priors(self) -> Arrays:
        alpha = np.broadcast_to(np.asarray(self.alpha, np.float32), self.n_topics).copy()
        return {"alpha": alpha, "beta": np.float64(self.beta)}

    def _seed_columns(self) -> np.ndarray:
        """Return words, topics and pseudo-counts of the seeds as rows of one array: (3, n) int64."""
        return np.array(self.seeds, np.int64).reshape(-1, 3).T

    # --- one epoch ---

    def load_chunk(self, data: Corpus, index: int, model: ModelView) -> Chunk:
        """Read the arrays of a chunk that sweeps need. Scores are rare, and derive the others."""
        return data.read_chunk(index, self.unread)

    def sweep(
        self, model: ModelView, chunk: Chunk, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Draw the topics of a chunk's tokens, and count them by word."""
        if state is None:
            z = self._draw_first_topics(model, chunk, address)
        else:
            z = self.draw_topics(model, chunk, state["z"], address)
        return SweepResult({"z": z}, self._counts(chunk, z, deltas), self._count_documents(chunk, z, address))

    def _draw_first_topics(self, model: ModelView, chunk: Chunk, address: Address) -> np.ndarray:
        """Draw from the prior and the constant counts. All samplers begin like this, with ESCA's kernel."""
        esca = kernels("lda.esca", self.device)
        return esca.sweep(chunk, self.kernel_blocks(model, chunk), None, random.key(*address))

    def _counts(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None) -> list[Arrays]:
        """Return the same as `_count_words`. On the CPU, the first chunk of a shard is counted later, if possible."""
        if deltas is None and self.counts_late and kernels("lda.esca", self.device) is esca_on_cpu:
            return [uncounted(chunk, z, (self.bounds[j], self.bounds[j + 1])) for j in range(self.n_blocks)]
        if deltas is not None:
            deltas = [counted(delta, self.n_topics) for delta in deltas]
        return self._count_words(chunk, z, deltas)

    def _count_words(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None) -> list[Arrays]:
        """Return the counts by word, added to the shard's counts so far, one delta per block."""
        esca = kernels("lda.esca", self.device)
        totals = []
        for j in range(self.n_blocks):
            words = (self.bounds[j], self.bounds[j + 1])
            before = None if deltas is None else deltas[j]
            totals.append(esca.add_words(chunk.word_ids, chunk.word_ptr, z, words, self.n_topics, before))
        return totals

    def finish_shard(self, deltas: list[Arrays]) -> list[Arrays]:
        """Return the counts as sparse rows."""
        esca = kernels("lda.esca", self.device)
        return [esca.finish_words(delta) for delta in deltas]

    def _count_documents(self, chunk: Chunk, z: np.ndarray, address: Address) -> Arrays:
        """Return histograms of the counts by document, in the epochs that learn priors."""
        if self.learn_priors == "none" or address.step % self.learn_every:
            return {}
        return priors.document_histograms(chunk, z, self.n_topics, self.bins)

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add counts, exactly."""
        return self.merge_many([left, right])

    def merge_many(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add the counts of many chunks, exactly, on a CUDA device if some of them are there."""
        return add_up(deltas, self.n_topics, kernels("lda.esca", self.device).merge_many)

    @property
    def wait_bytes(self) -> int:
        """As many bytes as a block of B can have. `memory` counts three times as many for deltas."""
        return self.block_bytes

    def is_exact(self, step: int) -> bool:
        """Return True: all deltas are counts."""
        return True

    def pack(self, arrays: Arrays) -> Arrays:
        """Pack rows of counts into a quarter of their size or less."""
        return pack_counts(arrays, "topics", self.device)

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Replace the counts of a block: they are the sum of the counts of all shards."""
        # The next sweep, and the packing for the store, find them on a CUDA device if they are there now.
        RESIDENTS.bring_back(delta.values(), keep=True)
        totals = {"totals": topic_totals(delta["topics"], delta["counts"], self.n_topics)}
        if self.learn_priors != "none":
            totals |= priors.word_histogram(delta["counts"])
        return delta, totals

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, Metrics]:
        """Return the new topic totals and, in epochs that learn them, new priors."""
        n_tokens = totals["totals"]
        # Words of a previous model that this corpus lacks are in no block, but their tokens belong to the totals.
        shared = shared | {"totals": n_tokens + shared.get("outside_totals", 0)}
        # Pseudo-counts of seed words are not tokens, so they do not make a topic count as used.
        metrics = {"topics_used": float(np.count_nonzero(n_tokens - shared["seeded"]))}
        if self.learn_priors == "none":
            return shared, metrics
        if sums:
            is_symmetric = self.learn_priors == "symmetric"
            shared = shared | priors.learn(shared, totals | sums, self.n_words, is_symmetric)
        metrics["alpha_sum"] = float(shared["alpha"].sum())
        metrics["beta"] = float(shared["beta"])
        return shared, metrics

    # --- evaluation ---

    def score(self, model: ModelView, chunk: Chunk, state: Arrays | None, address: Address, n_words: int) -> Arrays:
        """Return the log-likelihood of a chunk and its number of tokens.

        Training documents are scored given the topics of their tokens, held-out documents by document completion.
        """
        chunk = chunk.completed()
        if state is None:
            keys = random.stream(random.key(address.seed, _HELD_OUT, address.chunk), chunk.n_documents)
            return score_by_completion(chunk.doc_ptr, chunk.words, self._topics_of_words(model, n_words), keys)
        rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, state["z"])
        total = sum(log_likelihood(chunk, rows, block) for block in self.kernel_blocks(model, chunk))
        return {"log_likelihood": np.float64(total), "tokens": np.int64(chunk.n_tokens)}

    def _topics_of_words(self, model: ModelView, n_words: int) -> TrainedTopics:
        """Return the topics as distributions over the corpus's first ``n_words`` words, as if it had no others."""
        shared = model.shared
        n_later = max(0, self.bounds[-1] - n_words)
        if n_later:
            later = np.zeros_like(shared["totals"])
            for j in range(self.n_blocks):
                if self.bounds[j + 1] > n_words:
                    block = model.block(j)
                    start = block["row_ptr"][max(0, n_words - self.bounds[j])]
                    later += topic_totals(block["topics"][start:], block["counts"][start:], self.n_topics)
            shared = {**shared, "totals": shared["totals"] - later}
        return TrainedTopics(self.stored_blocks(model), shared, self.n_words - n_later)

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the log-likelihood per token (Moon 2019, equation 2.4, there of test documents)."""
        name = "held_out_log_likelihood" if held_out else "log_likelihood"
        return {name: float(sums["log_likelihood"] / max(1, sums["tokens"]))}

    def describe(self, model: ModelView, data: Corpus) -> list[WordGroup]:
        """Return size and top words of the largest topics."""
        totals = model.shared["totals"] - model.shared["seeded"]
        shares = totals / max(1, totals.sum())
        best = top_words(self.stored_blocks(model), self.n_topics, _SHOWN_WORDS)
        names = data.vocabulary["word"]
        groups = []
        for k in np.argsort(-totals, kind="stable")[:_SHOWN_TOPICS]:
            words = [names[word].as_py() for word, _ in best[k]]
            groups.append(WordGroup(f"{shares[k]:.1%}", words))
        return groups

    # --- blocks of the model ---

    def stored_blocks(self, model: ModelView) -> Iterator[Arrays]:
        """Read the blocks one after another."""
        return (model.block(j) for j in range(self.n_blocks))

    def kernel_blocks(self, model: ModelView, chunk: Chunk | None = None, first: int = 0) -> Iterator[ModelBlock]:
        """Read the blocks from number ``first`` on one after another, in the form that kernels take.

        With a chunk, the rows of words that do not occur in it may be empty.
        """
        used = None
        if chunk is not None:
            used = np.zeros(self.n_words, np.bool_)
            used[chunk.word_ids] = True
        for index in range(first, self.n_blocks):
            first_word = self.bounds[index]
            stop_word = self.bounds[index + 1]
            rows = None
            if used is not None:
                rows = used[first_word:stop_word]
            yield kernel_block(model.block(index, rows), model.shared, first_word, self.n_words)
