"""Random indexing as an algorithm of the engine (Polok and Smrž 2011, Algorithm 4.1)."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....io.errors import DataError
from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.random_indexing import accumulate as ri
from ....kernels.random_indexing import contexts as ri_contexts
from ....kernels.random_indexing import text as ri_text
from ...engine.algorithm import (
    MAX_SHARDS,
    Address,
    Algorithm,
    MemoryEstimate,
    Metrics,
    ModelView,
    Needs,
    PreviousModel,
    Scores,
    Shard,
    SweepResult,
    block_range,
)
from ...engine.device import kernels, runs_on_cuda
from ...engine.worker.merging import count_waiting
from ...topics import WordList
from ..vectors.vectors import WordVectors
from .deltas import RowSums, add_checked, cut_delta, rows_of_sums

#: Words that `describe` shows.
DESCRIBED = 5
#: Number of the most frequent words among which `describe` looks for neighbours.
NEIGHBOURS_AMONG = 5_000


class NearestWords(Scores):
    """Shows words with their nearest neighbours. There is nothing to score."""

    def describe(self, model: ModelView, data: Corpus) -> list[WordList]:
        """Return a few words with their nearest neighbours among the most frequent words."""
        rows = last_rows(model.block(0))[:NEIGHBOURS_AMONG]
        kept = np.flatnonzero(model.shared["kept"][: len(rows)])
        if not len(kept):
            return []
        vectors = WordVectors(data.vocabulary["word"].take(kept).to_pylist(), rows[kept])
        # Ranks in equal ratios, without the most frequent words, whose neighbours say little.
        ranks = np.unique(np.geomspace(1 + len(kept) // 50, len(kept), DESCRIBED).astype(int))
        lists = []
        for rank in ranks:
            word = vectors.index_to_key[rank - 1]
            neighbours = vectors.most_similar(word, topn=8)
            lists.append(WordList(word, [neighbour for neighbour, _ in neighbours]))
        return lists


@dataclass(frozen=True, kw_only=True)
class RandomIndexingAlgorithm(Algorithm[Corpus, Chunk]):
    """Each word's row is the sum of the rotated seeds of its neighbours.

    Epoch 1 sums sparse seeds. Each further epoch takes the rows of the previous one as seeds.

    There is no state. A block of the model has statistics (rows, 3) int64, and sums (rows, D) int32 or after a second
    epoch vectors (rows, D) float32. The shared arrays are the words' hashes and the mask of the words that are kept,
    and before the first epoch the mask of the rare words. Module `deltas` has the layout of a delta.

    A sweep sums the rows of one of ``n_ranges`` ranges of blocks. The bits of vectors depend on the ranges, but not on
    how a range is cut into blocks.
    """

    name: ClassVar[str] = "random-indexing"

    dimension: int  # D
    seed_length: int = 10  # entries of a seed that are not 0
    radius: int = 5  # neighbours on each side
    order: str = "permutation"
    weighting: str = "uniform"
    contexts: str = "words"
    min_count: int = 1
    max_count: int | None = None
    stop_words: tuple[str, ...] = ()
    max_iter: int = 1  # epochs
    range_index: int = 0  # of no use; it is part of the fingerprints of stored runs
    n_ranges: int = 1  # see `Needs.ranges`
    device: str = "cpu"

    @property
    def window(self) -> ri_text.Window:
        """The offsets of a word's neighbours, with their rotations and weights."""
        if self.contexts == "documents":
            return ri_text.SELF_WINDOW
        return ri_text.make_window(self.radius, self.order, self.weighting)

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Return the bytes of one sweep."""
        row = 4 * self.dimension
        range_rows = self._range_rows
        block_rows = -(-self.n_rows // self.n_blocks)
        rows = min(range_rows, chunk.segments)
        padded_text = 4 * (chunk.tokens + self.radius * (chunk.documents + 1))
        neighbour_lists = 8 * 2 * self.radius * min(chunk.tokens, ri.BATCH) + 8 * self.radius * ri.BUFFER_STRIDE
        chunk_sums = self._sum_bytes(data, rows, chunk.tokens)
        range_sums = self._sum_bytes(data, range_rows, data.n_tokens)
        # A further epoch joins the other blocks of the range, and makes seeds of them.
        others = 2 * (range_rows - block_rows) * row if self.max_iter > 1 else 0
        return MemoryEstimate(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            # With the hashes and the seeds of all words.
            model=2 * block_rows * row + (9 + 2 * self.seed_length) * self.n_rows,
            # The chunk's delta, that of another chunk, and a merged one.
            delta=2 * chunk_sums + range_sums,
            scratch=padded_text + 20 * chunk.tokens + neighbour_lists + chunk_sums + 8 * self.n_rows + others,
            # Sums of words and of runs of occurrences; a range's rows, and the same as seeds; a delta that is merged
            # with that of the shard, and their sum.
            device=padded_text
            + 4 * chunk.tokens
            + 2 * rows * row
            + 4 * range_rows * row
            + 4 * self.seed_length * chunk.segments,
        )

    @property
    def _range_rows(self) -> int:
        return -(-self.n_rows // self.n_ranges)

    def _sum_bytes(self, data: Corpus, rows: int, tokens: int) -> int:
        """Return the bytes of the delta of some chunks, which have ``tokens`` tokens of ``rows`` words of a range."""
        row = 4 * self.dimension
        most = rows * row
        # A CUDA device, and a further epoch, sum the rows of all words. Otherwise, rare words have their contexts only,
        # which take no more than a row.
        if self.max_iter == 1 and self.device == "cpu":
            n_frequent, rare_tokens = _frequent(data, self._most_contexts())
            contexts = 4 * (len(self.window.offsets) + 1) * min(tokens, rare_tokens)
            most = min(most, min(rows, n_frequent) * row + contexts)
        return most + 28 * rows

    def needs(self, data: Corpus, n_workers: int) -> Needs:
        """Return the ranges, and the bytes of the sums that wait to be merged, except for the one in `memory`."""
        if self.max_iter == 1:
            # Integers wait until they are as large as their sum. `memory` has one chunk's.
            waiting = 1
        else:
            waiting = max(0, count_waiting(min(len(data.chunks), MAX_SHARDS)) - 1)
        kept = waiting * self._sum_bytes(data, self._range_rows, data.n_tokens)
        return Needs(
            kernels={"random_indexing.accumulate"},
            device=self.device,
            kept=kept,
            ranges=self.n_ranges,
        )

    @property
    def merge(self) -> RowSums:
        """Sums of rows, which are integers in the first epoch."""
        return RowSums(self.device)

    @property
    def scores(self) -> NearestWords:
        """Some words with their nearest neighbours."""
        return NearestWords()

    # --- before the first sweep ---

    def begin(self, data: Corpus, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the number of rows that each block will have."""
        for block in blocks:
            yield {"size": np.int64(self.bounds[block + 1] - self.bounds[block])}

    def recut_block(self, arrays: Arrays, block: int) -> Arrays:
        """Set the number of rows that a block will have."""
        size = np.int64(self.bounds[block + 1] - self.bounds[block])
        return arrays | {"size": size} if "size" in arrays else arrays

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return the words' hashes, the masks of words that are kept and that are rare, and 0 for the documents."""
        words = data.vocabulary["word"].to_pylist()
        frequency = data.vocabulary["term_frequency"].to_numpy()
        excluded = set(self.stop_words)
        is_allowed = np.fromiter((word not in excluded for word in words), bool, len(words))
        kept = is_allowed & (frequency >= self.min_count)
        if self.max_count is not None:
            kept &= frequency <= self.max_count
        return {
            "hashes": ri_text.hash_words(words),
            "kept": kept,
            "rare": frequency <= self._most_contexts(),
            "documents": np.int64(0),
        }

    def _most_contexts(self) -> int:
        """Return the largest frequency of a word whose contexts are listed, and summed only after the last chunk."""
        # Documents have no number that is valid in all chunks.
        if self.contexts == "documents":
            return 0
        return ri_contexts.most_occurrences(self.window, self.dimension)

    # --- an epoch ---

    def sweep(
        self, model: ModelView, chunk: Chunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Sum the contexts of the words of one range of blocks that occur in one chunk."""
        tokens = ri_text.prepare_tokens(chunk, model.shared["kept"], self.window.reach)
        bounds = self.bounds[shard.blocks.start : shard.blocks.stop + 1]
        lo, hi = (int(position) for position in np.searchsorted(tokens.ids, (bounds[0], bounds[-1])))
        ids = tokens.ids[lo:hi]
        focus = tokens._replace(occurrence_ptr=tokens.occurrence_ptr[lo : hi + 1])
        delta: Arrays = {"rows": ids}
        if address.step == 1:
            # Seeds depend only on the seed of the run, so that models of different corpora can be added.
            delta |= self._sum_seeds(model.shared, chunk, focus, ids, random.key(address.seed))
            delta["statistics"] = ri_text.word_statistics(ids, chunk.word_ids, chunk.word_ptr, chunk.docs)
        else:
            delta["sums"] = self._sum_rows(model, focus)
        sums: Arrays = {}
        if not shard.is_later_range:
            sums["documents"] = np.int64(chunk.n_documents)
        return SweepResult(None, shard.plus(cut_delta(delta, bounds), self.merge), sums)

    def _sum_seeds(
        self, shared: Arrays, chunk: Chunk, focus: ri_text.Tokens, ids: np.ndarray, salt: np.uint64
    ) -> Arrays:
        """Return the sums of sparse seeds over the neighbours of the words in focus, ``ids``, as parts of a delta."""
        if self.contexts == "documents":
            # A word's only neighbour is the document that it occurs in.
            focus = focus._replace(text=ri_text.document_numbers(chunk))
            hashes = ri_text.document_hashes(chunk.doc_ptr, chunk.words, shared["hashes"])
        else:
            hashes = shared["hashes"][focus.ids]
        seeds = ri_text.make_seeds(hashes, salt, self.dimension, self.seed_length // 2)
        try:
            if runs_on_cuda(self.device):
                module = kernels("random_indexing.accumulate", self.device)
                return {"sums": module.accumulate(focus, self.window, seeds, self.dimension)}
            is_rare = shared["rare"][ids]
            sums = ri.sum_pieces(focus, self.window, ri.with_null(seeds), self.dimension, ~is_rare)
        except OverflowError as error:
            raise DataError(f"chunk {chunk.number}: {error}") from None
        words, contexts = ri_contexts.list_contexts(focus, self.window, is_rare, self.n_rows)
        return {
            "sum_rows": ids[sums.words],
            "sums": sums.rows,
            "context_rows": ids[words],
            "contexts": contexts,
            "salt": np.asarray(salt),
        }

    def _sum_rows(self, model: ModelView, focus: ri_text.Tokens) -> np.ndarray:
        """Return the sums of the last epoch's rows over the neighbours of the words in focus: (rows, D) float32.

        The rows are read range by range, so the model need not fit into memory.
        """
        module = kernels("random_indexing.accumulate", self.device)
        sums = np.zeros((len(focus.occurrence_ptr) - 1, self.dimension), np.float32)
        # Word ids ascend, so the words of a block are neighbours.
        cuts = np.searchsorted(focus.ids, self.bounds)
        for range_index in range(self.n_ranges):
            parts = []
            blocks = block_range(self.n_blocks, self.n_ranges, range_index)
            for block in blocks:
                rows = focus.ids[cuts[block] : cuts[block + 1]] - np.uint32(self.bounds[block])
                if len(rows):
                    parts.append((last_rows(model.block(block)), rows))
            if parts:
                slabs = module.make_slabs(parts)
                module.accumulate_dense(focus, self.window, slabs, int(cuts[blocks.start]), sums)
        return sums

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Epoch 1 makes sums and statistics; each further epoch makes the vectors. The total is the number of rows."""
        totals = {"rows": np.int64(len(delta["rows"]))}
        if "size" not in block:
            vectors = delta["sums"]
            # A word may occur in no chunk.
            if len(vectors) < len(block["statistics"]):
                vectors = add_checked(self.merge.sum_at, len(block["statistics"]), [(delta["rows"], vectors)])
            RESIDENTS.bring_back([vectors], keep=True)
            return {"statistics": block["statistics"], "vectors": vectors}, totals
        size = int(block["size"])
        statistics = add_checked(ri.sum_at, size, [(delta["rows"], delta["statistics"])])
        sums = add_checked(self.merge.sum_at, size, [(rows_of_sums(delta), delta["sums"])])
        # Those of a CUDA device have no contexts to add. They stay there for the next epoch.
        RESIDENTS.bring_back([sums], keep=True)
        if len(delta.get("contexts", ())):
            self._add_contexts(sums, delta, shared["hashes"])
        return {"sums": sums, "statistics": statistics}, totals

    def _add_contexts(self, sums: np.ndarray, delta: Arrays, hashes: np.ndarray) -> None:
        """Add the contexts of rare words to a block's sums."""
        salt = np.uint64(delta["salt"])
        seeds = ri.with_null(ri_text.make_seeds(hashes, salt, self.dimension, self.seed_length // 2))
        rows = delta["context_rows"].astype(np.int64)
        try:
            ri_contexts.add_contexts(sums, rows, delta["contexts"], self.window, seeds)
        except OverflowError as error:
            raise DataError(str(error)) from None

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Add up the counts of documents. The metrics have the dimension, which may have been chosen automatically."""
        # Rare words matter in the first epoch only.
        kept = {name: array for name, array in shared.items() if name != "rare"}
        return kept | sums, {"words_indexed": float(totals["rows"]), "dimension": float(self.dimension)}


@functools.lru_cache(maxsize=1)
def _frequent(data: Corpus, most: int) -> tuple[int, int]:
    """Return how many words occur more than ``most`` times, and how many tokens the others have."""
    frequency = data.vocabulary["term_frequency"].to_numpy()
    return int((frequency > most).sum()), int(frequency[frequency <= most].sum())


def last_rows(block: Arrays) -> np.ndarray:
    """Return the rows of the last epoch: (rows, D) int32, or float32 after a second epoch."""
    if "vectors" in block:
        return block["vectors"]
    return block["sums"]
