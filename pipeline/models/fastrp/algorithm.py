"""FastRP as an algorithm of the engine (Chen et al. 2019, algorithm 1).

A step multiplies the rows of all nodes by the matrix of transitions of a random walk: a node gets the mean of the rows
of its neighbours. A chunk of the graph has all edges of its nodes. So it makes their rows alone, and nothing is added
up but the terms of one row, in the order of the nodes. That is why neither chunks nor blocks nor workers change a bit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from ....io.stores.graph import Graph, GraphChunk, GraphChunkInfo
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.nmf.products import SparseRows, add_products
from ....kernels.random_indexing.accumulate import normalised
from ....kernels.random_indexing.text import HALF, hash_words, make_seeds
from ...engine.algorithm import (
    Address,
    Algorithm,
    MemoryEstimate,
    Merge,
    Metrics,
    ModelView,
    Needs,
    PreviousModel,
    Scores,
    Shard,
    SweepResult,
)
from ...topics import WordList
from ..skip_gram.algorithm import DESCRIBED_VOCABULARY, describe_vectors
from ..vectors.vectors import WordVectors

#: Share of the numbers of a first row that are not 0 (Achlioptas 2003, with s = 3), half of them of each sign.
FILLED = 1 / 3
#: Nodes whose first rows are drawn at a time.
NAMES = 1 << 13


class UnreadChunk(NamedTuple):
    """A chunk of a graph. A step sweeps all chunks once for each block, and most have no node of it."""

    info: GraphChunkInfo
    read: Callable[[], GraphChunk]


class JoinedRows(Merge):
    """Joins rows of different nodes, in any order."""

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Write the rows one below the other."""
        return {name: np.concatenate([delta[name] for delta in deltas]) for name in deltas[0]}

    def exact_bytes(self, step: int) -> int:
        """Return 0: nothing is rounded."""
        return 0


@dataclass(frozen=True)
class FastRPScores(Scores):
    """Shows nodes with many edges and their nearest neighbours. There is nothing to score."""

    bounds: tuple[int, ...]
    dimension: int

    def describe(self, model: ModelView, data: Graph) -> list[WordList]:
        """Return a few of the nodes with most edges, with the nearest ones among them."""
        edges = np.concatenate([model.block(block)["edges"] for block in range(len(self.bounds) - 1)])
        nodes = by_edges(edges)[:DESCRIBED_VOCABULARY]
        blocks = np.searchsorted(self.bounds, nodes, side="right") - 1
        vectors = np.empty((len(nodes), self.dimension), np.float32)
        for block in np.unique(blocks):
            vectors[blocks == block] = last_rows(model.block(block))[nodes[blocks == block] - self.bounds[block]]
        return describe_vectors(WordVectors(data.nodes.take(nodes).to_pylist(), vectors))


@dataclass(frozen=True, kw_only=True)
class FastRPAlgorithm(Algorithm[Graph, UnreadChunk]):
    """The weighted sum of the rows of a random projection after each of several steps of a random walk.

    There is no state. A block of the model has ``edges`` (n,) int64, the number of edges that end at each node, and
    ``rows`` (n, D) float32, the rows of the last step, which the last epoch leaves out. From the first weight on that
    is not 0, it has ``vectors`` (n, D) float32, the sum of the rows of unit length. The shared array is ``step``, the
    number of steps so far.
    """

    name: ClassVar[str] = "fastrp"

    dimension: int  # D
    weights: tuple[float, ...]  # of step 1, 2 and so on
    degree_exponent: float
    seed: int

    def memory(self, data: Graph, chunk: GraphChunkInfo) -> MemoryEstimate:
        """Return the bytes of one sweep."""
        row = 4 * self.dimension
        block_rows = -(-self.n_rows // self.n_blocks)
        return MemoryEstimate(
            # As it is read and as rows of probabilities.
            data=16 * chunk.edges + 16 * chunk.nodes,
            # Rows and vectors, as they are read and as they are made.
            model=(4 * row + 16) * block_rows,
            # The rows that the chunk makes; those of all chunks on a worker are no more than the block.
            delta=row * (min(chunk.nodes, block_rows) + 2 * block_rows),
            # The edges that lead to one block, what is known of each node, and the names of nodes.
            scratch=12 * chunk.edges + 12 * chunk.nodes + 40 * self.n_rows + data.names_nbytes,
        )

    def needs(self, data: Graph, n_workers: int) -> Needs:
        """Return the ranges: each block is one, so that a worker holds new rows of one block only."""
        return Needs(kernels={"nmf.products"}, ranges=self.n_blocks)

    @property
    def merge(self) -> JoinedRows:
        """Rows of different nodes."""
        return JoinedRows()

    @property
    def scores(self) -> FastRPScores:
        """Some nodes with their nearest neighbours."""
        return FastRPScores(self.bounds, self.dimension)

    # --- before the first sweep ---

    def begin(self, data: Graph, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the random rows of the nodes, which depend on their names only, times a power of their degrees."""
        edges, degrees = data.incoming
        scale = np.zeros(len(degrees), np.float32)
        has_edge = degrees > 0
        scale[has_edge] = (degrees[has_edge] / degrees.sum()) ** self.degree_exponent
        for block in blocks:
            own = slice(self.bounds[block], self.bounds[block + 1])
            names = data.read_nodes(own.start, own.stop)
            rows = np.empty((len(names), self.dimension), np.float32)
            # Names as Python's strings take more memory than the rows.
            for first in range(0, len(names), NAMES):
                rows[first : first + NAMES] = self._random_rows(names[first : first + NAMES].to_pylist())
            rows *= scale[own, np.newaxis]
            yield {"rows": rows, "edges": edges[own]}

    def _random_rows(self, names: list[str]) -> np.ndarray:
        """Return the random rows of nodes of these names: (n, D) float32 of 1, -1 and 0."""
        n_pairs = max(1, int(self.dimension * FILLED) // 2)
        seeds = make_seeds(hash_words(names), random.key(self.seed), self.dimension, n_pairs)
        rows = np.zeros((len(names), self.dimension), np.float32)
        np.put_along_axis(rows, (seeds & 0xFFFF).astype(np.int64), 1, axis=1)
        np.put_along_axis(rows, (seeds >> HALF).astype(np.int64), -1, axis=1)
        return rows

    def begin_shared(self, data: Graph, previous: PreviousModel | None) -> Arrays:
        """Return 0 steps."""
        return {"step": np.int64(0)}

    # --- an epoch ---

    def load_chunk(self, data: Graph, index: int, model: ModelView) -> UnreadChunk:
        """Return a chunk that is read by the sweeps that need it."""
        return UnreadChunk(data.chunks[index], partial(data.read_chunk, index))

    def sweep(
        self, model: ModelView, chunk: UnreadChunk, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Make the next rows of the nodes of the chunk that are in one block."""
        (block,) = shard.blocks
        first_node = chunk.info.first_node
        first, stop = np.clip(np.array(self.bounds[block : block + 2]) - first_node, 0, chunk.info.nodes)
        rows = np.zeros((stop - first, self.dimension), np.float32)
        if stop > first:
            edges = self._transitions(chunk.read(), first, stop)
            # Neighbours ascend, so each row is summed in their order, whatever the blocks.
            for other in range(self.n_blocks):
                own = edges[:, self.bounds[other] : self.bounds[other + 1]] if self.n_blocks > 1 else edges
                if own.nnz:
                    A = SparseRows(own.indptr.astype(np.int64), own.indices.astype(np.int32), own.data)
                    add_products(A, model.block(other)["rows"], rows)
        nodes = np.arange(first, stop) + first_node - self.bounds[block]
        return SweepResult(None, shard.plus([{"nodes": nodes, "rows": rows}], self.merge), {})

    def _transitions(self, chunk: GraphChunk, first: int, stop: int) -> scipy.sparse.csr_array:
        """Return the probabilities of the steps from the nodes ``first`` to ``stop - 1`` of a chunk: (n, V) float32."""
        row_ptr = chunk.row_ptr[first : stop + 1]
        entries = slice(row_ptr[0], row_ptr[-1])
        n_edges = np.diff(row_ptr)
        neighbours, weights = chunk.neighbours[entries], chunk.weights[entries]
        if not len(weights):
            weights = np.ones(len(neighbours), np.float32)
        sums = np.bincount(np.repeat(np.arange(len(n_edges)), n_edges), weights, len(n_edges))
        probabilities = (weights / np.repeat(sums, n_edges)).astype(np.float32)
        return scipy.sparse.csr_array((probabilities, neighbours, row_ptr - row_ptr[0]), (len(n_edges), self.n_rows))

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Add the new rows, scaled to unit length and weighted, to the vectors. Count the rows that are zero."""
        step = int(shared["step"])
        rows = np.empty_like(delta["rows"])
        rows[delta["nodes"]] = delta["rows"]
        # Rows of zeros stay so.
        unit = normalised(rows)
        made = {"edges": block["edges"]}
        # Blocks are read in each step. Vectors that are still zero would double their size.
        if self.weights[step] or "vectors" in block:
            made["vectors"] = np.float32(self.weights[step]) * unit
        if "vectors" in block:
            made["vectors"] += block["vectors"]
        if step + 1 < len(self.weights):
            made["rows"] = rows
        return made, {"zeros": np.int64((~rows.any(axis=1)).sum())}

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Count the step. The metric is the number of nodes whose rows are zero."""
        return {"step": np.int64(int(shared["step"]) + 1)}, {"nodes_without_vector": float(totals["zeros"])}


def last_rows(block: Arrays) -> np.ndarray:
    """Return the vectors of a block, or the rows of the last step while all weights so far are 0: (n, D) float32."""
    return block["vectors"] if "vectors" in block else block["rows"]


def by_edges(edges: np.ndarray) -> np.ndarray:
    """Return the numbers of the nodes, those with most edges (V,) first, and then by number."""
    return np.argsort(-edges, kind="stable")
