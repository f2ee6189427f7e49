"""Random indexing for the engine: what RandomIndexing trains."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays, DataError
from ....kernels import random
from ....kernels.random_indexing import accumulate as ri
from ....kernels.random_indexing import text as ri_text
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Model, PreviousModel, SweepResult
from ...engine.device import kernels
from ..base.vectors import WordVectors

#: Words that ``describe`` shows, and the most frequent ones among which it looks for their neighbours.
DESCRIBED, DESCRIBED_AMONG = 5, 5_000


@dataclass(frozen=True, kw_only=True)
class Indexing(Algorithm[Corpus, Chunk]):
    """Random indexing (algorithm 4.1 of the paper). Epoch 1 has sparse seeds, each further one the last one's rows.

    No state. Model: sums (rows, D) int32 and statistics (rows, 3) int64 by block, and vectors (rows, D) float32 once
    retrained; shared: words' hashes and which words count. Deltas hold the rows of the chunks' words alone.
    """

    name: ClassVar[str] = "random-indexing"
    keeps_state: ClassVar[bool] = False
    dimension: int = 2048
    seed_length: int = 10
    radius: int = 5
    order: str = "permutation"
    weighting: str = "uniform"
    contexts: str = "words"
    min_count: int = 1
    max_count: int | None = None
    stop_words: tuple[str, ...] = ()
    only: int = 0  # the block that a sweep sums

    def for_range(self, index: int) -> "Indexing":
        """Sum one block's rows alone; the documents are counted with the first."""
        return replace(self, only=index)

    @property
    def window(self) -> ri_text.Window:
        """Neighbours that count."""
        return (
            ri_text.SELF_WINDOW
            if self.contexts == "documents"
            else ri_text.make_window(self.radius, self.order, self.weighting)
        )

    def memory(self, data: Any, chunk: Any) -> MemoryEstimate:
        """Bytes of one sweep: the chunk padded and by word, a row a word of the chunk, a block's rows as seeds."""
        row = 4 * self.dimension
        of_block = -(-self.n_rows // self.n_blocks)
        rows = min(of_block, chunk.segments)
        text = 4 * (chunk.tokens + self.radius * (chunk.documents + 1))
        lists = 8 * 2 * self.radius * min(chunk.tokens, ri.BATCH) + 8 * self.radius * ri.BUFFER_STRIDE
        return MemoryEstimate(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            model=2 * of_block * row + 9 * self.n_rows,
            # Its own, another one, one that waits to be merged, and a block of a sum.
            delta=(3 * rows + min(2 * rows, of_block)) * (row + 28),
            scratch=text + 4 * chunk.tokens + lists + rows * row + 8 * self.n_rows,
            # Sums, sums of pieces, a block's rows and these as seeds.
            device=text
            + 4 * chunk.tokens
            + 2 * rows * row
            + 2 * of_block * row
            + 4 * self.seed_length * chunk.segments,
        )

    def begin(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays:
        """Return the number of rows that the block will have."""
        return {"size": np.int64(self.bounds[block + 1] - self.bounds[block])}

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return the words' hashes, and which words count."""
        vocabulary = data.vocabulary
        words, frequency = vocabulary["word"].to_pylist(), vocabulary["term_frequency"].to_numpy()
        stop = set(self.stop_words)
        kept = (frequency >= self.min_count) & np.fromiter((w not in stop for w in words), bool, len(words))
        if self.max_count is not None:
            kept &= frequency <= self.max_count
        return {"hashes": ri_text.hash_words(words), "kept": kept, "documents": np.int64(0)}

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Sum the contexts of one chunk's words of one block."""
        reach = 0 if self.contexts == "documents" else self.radius
        tokens = ri_text.prepare_tokens(chunk, model.shared["kept"], reach)
        first, last = self.bounds[self.only : self.only + 2]
        lo, hi = (int(i) for i in np.searchsorted(tokens.ids, (first, last)))
        ids, focus = tokens.ids[lo:hi], tokens._replace(occurrence_ptr=tokens.occurrence_ptr[lo : hi + 1])
        if address.epoch == 1:
            sums = self._sweep_sparse(model.shared, chunk, focus, random.key(address.seed))
            statistics = ri_text.word_statistics(ids, chunk.word_ids, chunk.word_ptr, chunk.docs)
            swept = {"sums": sums, "statistics": statistics}
        else:
            swept = {"sums": self._sweep_dense(model, focus)}
        delta = {"rows": ids - np.uint32(first)} | swept
        documents = {} if self.only else {"documents": np.int64(chunk.n_documents)}
        return SweepResult(None, [delta if deltas is None else self.merge(deltas[0], delta)], documents)

    def _sweep_sparse(self, shared: Arrays, chunk: Chunk, focus: ri_text.Tokens, salt: np.uint64) -> np.ndarray:
        if self.contexts == "documents":
            focus = focus._replace(text=ri_text.document_numbers(chunk))
            hashes = ri_text.document_hashes(chunk.doc_ptr, chunk.words, shared["hashes"])
        else:
            hashes = shared["hashes"][focus.ids]
        seeds = ri_text.make_seeds(hashes, salt, self.dimension, self.seed_length // 2)
        try:
            return kernels("random_indexing.accumulate", self.device).accumulate(
                focus, self.window, seeds, self.dimension
            )
        except OverflowError as error:
            raise DataError(f"chunk {chunk.number}: {error}") from None

    def _sweep_dense(self, model: Model, focus: ri_text.Tokens) -> np.ndarray:
        out = np.zeros((len(focus.occurrence_ptr) - 1, self.dimension), np.float32)
        cuts, dense = np.searchsorted(focus.ids, self.bounds), kernels("random_indexing.accumulate", self.device)
        for j, (lo, hi) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            if lo < hi:
                rows = focus.ids[lo:hi] - np.uint32(self.bounds[j])
                slabs = dense.make_slabs(last_pass(model.block(j)), rows)
                dense.accumulate_dense(focus, self.window, slabs, int(lo), out)
        return out

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add rows of words, integers exactly. Raises DataError when a sum passes 32 bits."""
        rows = np.union1d(left["rows"], right["rows"])
        return {"rows": rows} | {k: _sum_rows(rows, (left, right), k) for k in left if k != "rows"}

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Epoch 1 makes sums and statistics, a further one the vectors. Totals: rows that are there."""
        size = len(block["sums"]) if "sums" in block else int(block["size"])
        summed = {k: _sum_rows(np.arange(size), (delta,), k) for k in delta if k != "rows"}
        totals = {"rows": np.int64(len(delta["rows"]))}
        return (block | {"vectors": summed["sums"]} if "sums" in block else summed), totals

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """Count the documents; say the dimension, which may have been chosen."""
        return shared | sums, {"words_indexed": float(totals["rows"]), "dimension": float(self.dimension)}

    def describe(self, model: Model, data: Any) -> list[str]:
        """Return a few words with their nearest among the most frequent ones."""
        rows = last_pass(model.block(0))[:DESCRIBED_AMONG]
        kept = np.flatnonzero(model.shared["kept"][: len(rows)])
        wv = WordVectors(data.vocabulary["word"].take(kept).to_pylist(), rows[kept])
        ranks = np.geomspace(1 + len(kept) // 50, max(1, len(kept)), DESCRIBED).astype(int)
        words = [wv.index_to_key[i] for i in np.unique(ranks) - 1] if len(kept) else []
        return [f"{word}: {' '.join(near for near, _ in wv.most_similar(word, topn=8))}" for word in words]


def last_pass(block: Arrays) -> np.ndarray:
    """Return the rows that the last pass made: (rows, D) int32, or float32 once retrained."""
    return block["vectors"] if "vectors" in block else block["sums"]


def _sum_rows(rows: np.ndarray, deltas: tuple[Arrays, ...], name: str) -> np.ndarray:
    """Add what deltas have in the rows ``rows`` (ascending): (rows, columns)."""
    first = deltas[0][name]
    out = np.zeros((len(rows), first.shape[1]), first.dtype)
    for delta in deltas:
        places = np.searchsorted(rows, delta["rows"])
        if first.dtype == np.float32:
            out[places] += delta[name]
        else:
            exactly(ri.add_rows(out, places, delta[name], 1))
    return out


def exactly(exact: bool) -> None:
    """Raise DataError unless sums were exact."""
    if not exact:
        raise DataError("a sum passes 2^31 - 1: leave out the most frequent words (stop_words, max_count)")
