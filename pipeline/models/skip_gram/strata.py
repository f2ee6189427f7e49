"""Skip-gram that trains pairs of blocks of words, on any number of workers and with the same bits.

The words are dealt to P blocks. Cell (i, j) of the grid has the pairs of neighbours whose centre is in block i and
whose context is in block j. It trains the rows of W_in of block i and of W_out of block j. Its negatives come
from block j too. The engine trains the cells in strata; see ``engine/grid.py``.

A sweep of a chunk trains nothing. It divides the chunk's pairs among the blocks of their centres.

Source: Lerer et al., "PyTorch-BigGraph: a large-scale graph embedding system" (SysML 2019), section 4.1: blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo, Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.dealing import deal
from ....kernels.word2vec.cells import CellOptions
from ....kernels.word2vec.dealing import BLOCK_ROWS, Dealing, arrange, block_negatives, table_size
from ....kernels.word2vec.pairs import join_cells, split_pairs
from ....kernels.word2vec.sub_cells import device_bytes
from ....kernels.word2vec.text import keep_probability, padded
from ...engine.algorithm import (
    Address,
    MemoryEstimate,
    Merge,
    Metrics,
    ModelView,
    Needs,
    PreviousModel,
    Shard,
    SweepResult,
)
from ...engine.device import kernels as kernels_on
from ...engine.grid import Cell, GridAlgorithm
from .algorithm import MATRICES, SkipGram, total_frequencies

#: Parts of the keys of draws that belong to no chunk: how words are dealt, tables of negatives, and negatives. The
#: tables are drawn again in each step.
DEALING = -3
TABLES = -4
NEGATIVES = -6


class JoinedPairs(Merge):
    """Joins the pairs of several chunks. Nothing is copied, because each chunk's arrays have names of their own."""

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Return the pairs of all deltas."""
        return {name: array for delta in deltas for name, array in delta.items()}


@dataclass(frozen=True, kw_only=True)
class StrataSkipGram(SkipGram, GridAlgorithm[Corpus, Chunk]):
    """Skip-gram in cells of two blocks.

    The rows of the model are in the order of the blocks, not of the vocabulary. Further shared arrays are ``places``
    (V,) uint32 (block << 16 | row in the block, for each word) and, for each block, the ``tables`` (P, size) uint16 of
    its negatives, their ``weights`` (P,) and the share of the ``heaviest`` one (P,).

    The delta of a block has the pairs of neighbours whose centre is in the block. Each chunk has two arrays, with its
    number in their names: ``pairs`` (n,) uint32, pass by pass, and their number in each cell, ``counts`` (passes, P)
    int64.
    """

    row_arrays: ClassVar[tuple[str, ...]] = ("W_in",)
    column_arrays: ClassVar[tuple[str, ...]] = ("W_out",)
    # A cell has up to eight thread blocks, each on a multiprocessor of its own, of which large devices have 132.
    device_cells: ClassVar[int] = 16

    steps: int = 1  # of the whole training
    passage: int = 1024  # kept words among which repetitions of a word are thinned
    rounds: int = 1  # see `Needs.rounds`

    def memory(self, data: Corpus, chunk: ChunkInfo) -> MemoryEstimate:
        """Bytes of a sweep: its chunk, the words' blocks and frequencies, and the pairs of the chunk."""
        return MemoryEstimate(
            data=4 * chunk.tokens + 8 * (chunk.documents + 1),
            model=12 * self.n_rows + 2 * self._table_size * self.n_blocks,
            delta=self._pair_bytes(chunk.tokens),
            scratch=22 * chunk.tokens + 20 * self.n_rows,
            device=self.cell_memory(data).device,
        )

    def cell_memory(self, data: Corpus) -> MemoryEstimate:
        """Bytes of a cell: the pairs of its row, its blocks, and what is there for a moment.

        That are pairs that are not sorted yet, a block that is read from the store, which has both of its matrices,
        arrays that are written, or a column that is sent or received: in a message and in an array.
        """
        block = int(max(np.diff(self.bounds))) * 4 * padded(self.dimension)
        row_bytes = self._pair_bytes(data.n_tokens // self.rounds) // self.n_blocks
        return MemoryEstimate(
            data=row_bytes,
            model=2 * block,
            scratch=max(row_bytes, 3 * block),
            device=2 * block + device_bytes(row_bytes // 4 // self.passes, self.n_blocks),
        )

    def needs(self, data: Corpus, n_workers: int) -> Needs:
        """Return the rounds, and the expected bytes of a worker's part of the pairs of a step."""
        mass = mass_of(total_frequencies(data, None), self.min_count, self.sample)
        return Needs(
            kernels={"word2vec.cells"},
            device=self.device,
            kept=self._pair_bytes(int(mass.sum()) // self.rounds) // n_workers,
            rounds=self.rounds,
        )

    @property
    def merge(self) -> JoinedPairs:
        """How deltas are merged: the pairs of all chunks are kept, side by side."""
        return JoinedPairs()

    def _pair_bytes(self, tokens: int) -> int:
        """Return the bytes that the pairs of ``tokens`` tokens take, if all of these tokens are kept."""
        return 4 * (self.window + 1) * tokens

    # --- before the first sweep ---

    def begin(self, data: Corpus, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first vectors of the words of several blocks."""
        order = self._deal(total_frequencies(data, previous)).order
        for block in blocks:
            yield self._first_rows(data, order[self.bounds[block] : self.bounds[block + 1]], previous)

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return the words' frequencies and blocks, and the negatives of the first step."""
        shared = super().begin_shared(data, previous)
        shared["places"] = self._deal(shared["frequency"]).places
        return shared | self._negatives(shared, 0)

    def _deal(self, frequency: np.ndarray) -> Dealing:
        mass = mass_of(frequency[: self.n_rows], self.min_count, self.sample)
        return arrange(deal_words(mass, self.n_blocks, self.seed), self.n_blocks)

    @property
    def _table_size(self) -> int:
        return table_size(int(max(np.diff(self.bounds))))

    def _negatives(self, shared: Arrays, trained: int) -> Arrays:
        """Draw the tables of negatives of the next step, before which ``trained`` tokens were trained."""
        frequency = shared["frequency"]
        keep = self.keep_probability(frequency)
        frequent = frequency * (frequency >= self.min_count)
        dealing = arrange((shared["places"] >> 16).astype(np.uint16), self.n_blocks)
        key = random.key(self.seed, TABLES, trained)
        return block_negatives(dealing, frequent, keep, self.ns_exponent, self._table_size, key)._asdict()

    # --- a sweep ---

    def sweep(
        self, model: ModelView, chunk: Chunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Divide the chunk's pairs of neighbours among the blocks of their centres."""
        keys = random.stream(random.key(*address), 2)
        keep = self.keep_probability(model.shared["frequency"])
        documents, first_documents = self._parts(chunk)
        pairs, counts = split_pairs(
            documents,
            first_documents,
            chunk.words,
            model.shared["places"],
            keep,
            self.window,
            keys[0],
            keys[1],
            self.n_blocks,
            self._thinned_passage(address.step),
        )
        ends = np.cumsum(counts.sum(axis=(0, 2)))
        new: list[Arrays] = []
        for block, own in enumerate(np.split(pairs, ends[:-1])):
            # The numbers have leading zeros, so that the order of names is the order of the text.
            new.append({f"pairs {address.chunk:012}": own, f"counts {address.chunk:012}": counts[:, block]})
        new = shard.plus(new, self.merge)
        return SweepResult(None, new, {"tokens": np.int64(chunk.n_tokens), "trained_pairs": counts.sum()})

    def _thinned_passage(self, step: int) -> int:
        """Return among how many kept words repetitions are thinned in a step: 0 in the first epoch, for none.

        After one epoch, vectors that have seen all pairs answer more analogies. After several epochs, vectors of
        thinned repetitions agree better with human judgments of similarity.
        """
        return 0 if step <= self.rounds else self.passage

    def _parts(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Return the documents' bounds, and the first document of each pass; a document in two passes is cut."""
        documents = self.texts(chunk)
        cuts = np.linspace(0, chunk.n_tokens, self.passes + 1).astype(np.int64)
        bounds = np.unique(np.concatenate([documents, cuts]))
        return bounds, np.searchsorted(bounds, cuts)

    # --- the grid ---

    def prepare(self, row: int, delta: Arrays) -> Arrays:
        """Return the ``pairs`` of a row's cells, sorted by centre, and the cells' ``bounds`` (passes * P + 1,)."""
        n_rows = self.bounds[row + 1] - self.bounds[row]
        names = sorted(name for name in delta if name.startswith("pairs"))
        counts = [delta[name.replace("pairs", "counts")] for name in names]
        passes = np.tile(np.arange(self.passes), len(names))
        joined = np.concatenate([delta[name] for name in names])
        pairs, bounds = join_cells(joined, np.concatenate(counts), passes, self.passes, n_rows)
        return {"pairs": pairs, "bounds": bounds}

    def train_cell(
        self, rows: Arrays, columns: Arrays, prepared: Arrays, shared: Arrays, cell: Cell, step: int
    ) -> None:
        """Train the pairs of one cell."""
        number = cell.grid_pass * self.n_blocks + cell.column
        pairs = prepared["pairs"][prepared["bounds"][number] : prepared["bounds"][number + 1]]
        options = self._options(shared, cell, step, len(pairs))
        table = shared["tables"][cell.column]
        cells = kernels_on("word2vec.cells", self.device)
        if self.device == "auto" and not cells.has_memory_for(rows["W_in"].shape[1]):
            cells = kernels_on("word2vec.cells", "cpu")
            # A larger device of another worker may have trained the column, and sent it to the device of this one.
            RESIDENTS.bring_back(columns.values())
        cells.train_cell(rows["W_in"], columns["W_out"], pairs, table, options)

    def _options(self, shared: Arrays, cell: Cell, step: int, n_pairs: int) -> CellOptions:
        """Return the options of a cell. The learning rate falls from stratum to stratum, and within each."""
        strata = self.steps * self.passes * self.n_blocks
        done = ((step - 1) * self.passes + cell.grid_pass) * self.n_blocks + cell.stratum
        fall = (self.alpha - self.min_alpha) / strata
        return CellOptions(
            negative=self.negative,
            weight=float(shared["weights"][cell.column]),
            heaviest=float(shared["heaviest"][cell.column]),
            alpha=self.alpha - fall * done,
            slope=fall / max(1, n_pairs),
            min_alpha=self.min_alpha,
            key=random.key(self.seed, NEGATIVES, step, cell.grid_pass, cell.row, cell.column),
        )

    # --- a commit ---

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Count the tokens trained so far, and draw the negatives of the next step."""
        shared, metrics = super().reduce(shared, totals, sums, history)
        metrics["trained_pairs"] = float(sums["trained_pairs"])
        return shared | self._negatives(shared, int(shared["trained"])), metrics

    # --- evaluation ---

    def rows_of(self, model: ModelView, words: np.ndarray, names: Sequence[str] = MATRICES) -> list[np.ndarray]:
        """Return the rows of these words (R,) in each of the matrices: (R, padded D) float32."""
        places = model.shared["places"][words]
        blocks = places >> 16
        rows = [np.empty((len(words), padded(self.dimension)), np.float32) for _ in names]
        for block in range(self.n_blocks):
            own = np.flatnonzero(blocks == block)
            arrays = model.block(block)
            for name, matrix in zip(names, rows, strict=True):
                matrix[own] = arrays[name][places[own] & 0xFFFF]
        return rows


def mass_of(frequency: np.ndarray, min_count: int, sample: float) -> np.ndarray:
    """Return how many occurrences of each word are kept, on average: (V,) float64."""
    return frequency * keep_probability(frequency, sample, min_count).astype(np.float64)


def deal_words(mass: np.ndarray, n_blocks: int, seed: int) -> np.ndarray:
    """Return the block of each word: (V,) uint16, for the words' mass (V,)."""
    return deal(mass, n_blocks, random.key(seed, DEALING), BLOCK_ROWS)
