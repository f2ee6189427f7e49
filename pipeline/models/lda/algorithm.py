"""Latent Dirichlet allocation as the engine trains it: what all samplers share. They differ in how they draw topics.

Names are those of the papers: A are the topic counts of documents, B those of words, N those of the whole corpus, and z
are the topics of tokens. There are K topics, V words, and T tokens in a chunk.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.lda import esca as esca_on_cpu
from ....kernels.lda import priors
from ....kernels.lda.counts import count_documents, topic_totals
from ....kernels.lda.model import ModelBlock, TokenOrder
from ...engine.algorithm import (
    Address,
    Algorithm,
    MemoryEstimate,
    Metrics,
    ModelView,
    Needs,
    PreviousModel,
    Shard,
    SweepResult,
)
from ...engine.data import cut_blocks
from ...engine.device import kernels
from .scores import TopicScores
from .word_topics import PreviousTopics, TopicCounts, counted, gather_rows, kernel_blocks, uncounted

#: The smallest number of documents from which priors are learned by default. A few do not tell topics from chance.
ENOUGH_DOCUMENTS = 1000
#: Number of bins of the histogram of the counts in B, enough for counts up to 2^40.
_WORD_BINS = int(priors.bins_of(np.array(1 << 40))) + 1


@dataclass(frozen=True, kw_only=True)
class LdaAlgorithm(Algorithm[Corpus, Chunk]):
    """Base class of the LDA samplers. A subclass draws the next topics of one chunk.

    The state of a chunk is z, (T,) uint16, in word order. The model is B, in blocks of sparse rows (see
    `word_topics`), and these shared arrays:

    - ``totals`` (K,) int64: N;
    - ``seeded`` (K,) int64: the pseudo-counts of seed words in N;
    - ``outside_totals`` (K,) int64: the counts in N of words that only the previous model has. It exists only when
      training continues from a model;
    - ``alpha`` (K,) float32 and ``beta`` float64: the priors;
    - ``words`` (V,) uint32: the word of each row of the blocks. Without it, the rows are in the order of the words.

    Some counts belong to no token of the corpus: those of the previous model, and those of seed words. They are the
    first model, and `apply` adds them to the counts of every epoch.
    """

    name: ClassVar[str] = "lda"
    #: Module of the kernels that draw topics.
    kernel_module: ClassVar[str] = ""
    #: Maximum number of shards: enough for a thousand threads. Sums of counts are the same for any number.
    most_shards: ClassVar[int] = 4096
    #: Whether the sampler has kernels for CUDA.
    has_cuda_kernels: ClassVar[bool] = False
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
    n_ranges: int = 1  # see `Needs.ranges`
    device: str = "cpu"

    @classmethod
    def learned_topics(cls, data: Corpus) -> int:
        """Return the largest number of topics whose priors are learned by default."""
        return 50

    @classmethod
    def cut_words(cls, data: Corpus, row_lengths: np.ndarray, n_blocks: int | None) -> tuple[int, ...]:
        """Return the first word of each block, and the number of words. None: the sampler chooses the blocks."""
        return cut_blocks(row_lengths, n_blocks or 1)

    def draw_topics(self, model: ModelView, chunk: Chunk, z: np.ndarray, address: Address) -> np.ndarray:
        """Return the next topics of a chunk's tokens, given their current topics: both (T,) uint16 in word order."""
        raise NotImplementedError(f"{type(self).__name__}: define draw_topics, or draw the topics in cells")

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
        waiting = 2 * (2 * chunk.tokens + 12 * chunk.segments) + self.block_bytes
        return max(2 * chunk_counts, 3 * self.block_bytes, waiting)

    def needs(self, data: Corpus, n_workers: int) -> Needs:
        """Return the kernels, and the bytes of the counts that a worker has swept."""
        return Needs(
            kernels=self._kernel_modules(data),
            device=self.device,
            kept=self._kept_bytes(data, n_workers),
            shards=self.most_shards,
            ranges=self.n_ranges,
        )

    def _kernel_modules(self, data: Corpus) -> Collection[str]:
        return {self.kernel_module} if self.kernel_module else ()

    def _kept_bytes(self, data: Corpus, n_workers: int) -> int:
        """Return the bytes of the counts of a range that a worker has swept, without the block that is being merged."""
        swept = self._count_bytes(-(-data.n_tokens // n_workers))
        kept = swept * (-(-self.n_blocks // self.n_ranges) - 1) // self.n_blocks
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

    @property
    def merge(self) -> TopicCounts:
        """Counts are added exactly."""
        return TopicCounts(self.n_topics, self.block_bytes, self.device)

    @property
    def scores(self) -> TopicScores:
        """Likelihoods, and the words of the largest topics."""
        return TopicScores(self.bounds, self.n_words, self.n_topics)

    # --- before the first sweep ---

    def begin(self, data: Corpus, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the constant counts of each block."""
        order = self.word_order(data)
        for block in blocks:
            words = order[self.bounds[block] : self.bounds[block + 1]]
            if previous is not None:
                yield PreviousTopics(previous).rows(data.vocabulary.take(words))
            else:
                yield gather_rows(words, [self._seed_counts()])

    def word_order(self, data: Corpus) -> np.ndarray:
        """Return the word of each row of the blocks: (V,) int64."""
        return np.arange(self.n_rows)

    def _seed_counts(self) -> Arrays:
        """Return the counts of the seed words, as one block of all words. Without seeds, there are none."""
        words, topics, counts = self._seed_columns()
        row_ptr = np.searchsorted(words, np.arange(self.n_rows + 1))
        return {"row_ptr": row_ptr, "topics": topics.astype(np.uint16), "counts": counts.astype(np.int32)}

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
        self, model: ModelView, chunk: Chunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Draw the topics of a chunk's tokens, and count them by word."""
        if state is None:
            z = self._draw_first_topics(model, chunk, address)
        elif shard.is_later_range:
            return SweepResult(None, self._counts(chunk, state["z"], shard), {})
        else:
            z = self.draw_topics(model, chunk, state["z"], address)
        return SweepResult({"z": z}, self._counts(chunk, z, shard), self._count_documents(chunk, z, address))

    def _draw_first_topics(self, model: ModelView, chunk: Chunk, address: Address) -> np.ndarray:
        """Draw from the prior and the constant counts. All samplers begin like this, with ESCA's kernel."""
        esca = kernels("lda.esca", self.device)
        return esca.sweep(chunk, self.kernel_blocks(model, chunk), None, random.key(*address))

    def _counts(self, chunk: Chunk, z: np.ndarray, shard: Shard) -> list[Arrays]:
        """Return the counts by word of the shard so far. A shard of one chunk is counted later."""
        esca = kernels("lda.esca", self.device)
        if shard.deltas is None and (shard.is_last or esca is esca_on_cpu):
            return [uncounted(chunk, z, (self.bounds[j], self.bounds[j + 1])) for j in shard.blocks]
        before = shard.deltas
        if before is not None:
            before = [counted(delta, self.n_topics, esca) for delta in before]
        totals = self._count_words(chunk, z, before, shard.blocks)
        if shard.is_last:
            totals = [esca.finish_words(delta) for delta in totals]
        return totals

    def _count_words(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None, blocks: range) -> list[Arrays]:
        """Return the counts by word, added to the shard's counts so far, one delta per block."""
        esca = kernels("lda.esca", self.device)
        totals = []
        for position, j in enumerate(blocks):
            words = (self.bounds[j], self.bounds[j + 1])
            before = None if deltas is None else deltas[position]
            totals.append(esca.add_words(chunk.word_ids, chunk.word_ptr, z, words, self.n_topics, before))
        return totals

    def _count_documents(self, chunk: Chunk | TokenOrder, z: np.ndarray, address: Address) -> Arrays:
        """Return histograms of the counts by document, in the epochs that learn priors."""
        if self.learn_priors == "none" or address.step % self.learn_every:
            return {}
        return document_histograms(chunk, z, self.n_topics, self.bins)

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Replace the counts of a block: they are the sum of the counts of all shards, and the constant ones."""
        if self.seeds or "outside_totals" in shared:
            delta = self.merge.add([first(), delta])
        # The next sweep, and the packing for the store, find them on a CUDA device if they are there now.
        RESIDENTS.bring_back(delta.values(), keep=True)
        return delta, self._block_totals(delta)

    def _block_totals(self, block: Arrays) -> Arrays:
        """Return the topic totals of a block and, to learn priors, the histogram of its counts."""
        totals = {"totals": topic_totals(block["topics"], block["counts"], self.n_topics)}
        if self.learn_priors != "none":
            totals |= word_histogram(block["counts"])
        return totals

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
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
            shared = shared | learned_priors(shared, totals | sums, self.n_words, is_symmetric)
        metrics["alpha_sum"] = float(shared["alpha"].sum())
        metrics["beta"] = float(shared["beta"])
        return shared, metrics

    def kernel_blocks(self, model: ModelView, chunk: Chunk | None = None, first: int = 0) -> Iterator[ModelBlock]:
        """Read the blocks one after another; see `word_topics.kernel_blocks`."""
        return kernel_blocks(model, self.bounds, self.n_words, chunk, first)


# --- the priors alpha and beta, learned from histograms of counts (Minka 2000, equation 55) ---


def document_bins(chunks: list[ChunkInfo]) -> int:
    """Return the number of bins that histograms of document lengths need."""
    longest = max((chunk.longest for chunk in chunks), default=0)
    return int(priors.bins_of(np.array(longest))) + 1


def document_histograms(chunk: Chunk | TokenOrder, z: np.ndarray, n_topics: int, n_bins: int) -> Arrays:
    """Return histograms of the documents' topic counts and lengths, for topics ``z`` (T,) uint16 in word order."""
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    topics = priors.topic_histogram(rows, n_topics, n_bins)
    lengths = priors.histogram(np.diff(chunk.doc_ptr), n_bins)
    return _as_arrays("topics", topics) | _as_arrays("lengths", lengths)


def word_histogram(counts: np.ndarray) -> Arrays:
    """Return the histogram of counts in B, (nnz,) int32."""
    return _as_arrays("words", priors.histogram(counts, _WORD_BINS))


def learned_priors(shared: Arrays, sums: Arrays, n_words: int, symmetric: bool) -> Arrays:
    """Return the ``alpha`` (K,) float32 and ``beta`` that make the counted topics most likely.

    ``sums`` has the histograms above, added up over all chunks and blocks.
    """
    topics = _from_arrays("topics", sums)
    lengths = _from_arrays("lengths", sums)
    words = _from_arrays("words", sums)
    alpha = priors.learn_alpha(shared["alpha"], topics, lengths, symmetric)
    beta = priors.learn_beta(float(shared["beta"]), words, shared["totals"], n_words)
    return {"alpha": alpha.astype(np.float32), "beta": np.float64(beta)}


def _as_arrays(name: str, histogram: priors.Histogram) -> Arrays:
    """Return a histogram as named arrays, which the engine adds up."""
    return {name: histogram.numbers, f"{name}_sums": histogram.sums}


def _from_arrays(name: str, sums: Arrays) -> priors.Histogram:
    return priors.Histogram(sums[name], sums[f"{name}_sums"])
