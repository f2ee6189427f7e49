"""The functions that a module of kernels has both on the CPU and on a CUDA device.

Each protocol describes a module below ``kernels`` and the module of the same name below ``kernels.cuda``. A caller
cannot tell which of the two it has: both take and return NumPy arrays. `pipeline.engine.device.kernels` chooses.

Sums and matrices in training may stay on the device. Their NumPy arrays have no contents until the engine calls
`RESIDENTS.bring_back` (``cuda/residents.py``). So callers must pass such arrays to kernels only.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .chunk import Chunk
    from .count_rows import CountRows
    from .lda.chunk_counts import ChunkTopics
    from .lda.counts import WordCounts
    from .lda.minibatch import CountTables
    from .lda.minibatch import Tokens as LdaTokens
    from .lda.model import ModelBlock
    from .nmf.hals import Scratch, SparseForm, UpdateRule
    from .node2vec.walks import Walker
    from .random_indexing.text import Tokens, Window
    from .word2vec.cells import CellOptions
    from .word2vec.text import Text, TrainingOptions


class PackingKernels(Protocol):
    """``count_rows``: sparse rows of counts as bytes."""

    def pack_rows(self, rows: "CountRows") -> np.ndarray | None:
        """Return the bytes of some rows, (n,) uint8, or None if they cannot be packed."""


class EscaKernels(Protocol):
    """``lda.esca``: topics of tokens, and their counts by word."""

    def sweep(
        self,
        chunk: "Chunk",
        models: Iterable["ModelBlock"],
        z: np.ndarray | None,
        key: np.uint64,
        leave_out: bool = True,
    ) -> np.ndarray:
        """Draw the next topics of a chunk's tokens: (T,) uint16 in word order."""

    def add_words(
        self,
        word_ids: np.ndarray,
        word_ptr: np.ndarray,
        z: np.ndarray,
        words: tuple[int, int],
        n_topics: int,
        before: dict[str, np.ndarray] | None,
    ) -> dict[str, np.ndarray]:
        """Add a chunk's topic counts of a range of words to those of the shard's chunks before."""

    def finish_words(self, counts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the fields of `WordCounts` for the counts of a whole shard."""

    def count_chunks(self, chunks: Sequence["ChunkTopics"], words: tuple[int, int], n_topics: int) -> "WordCounts":
        """Return the topic counts of a range of words in some chunks."""

    def merge_many(self, tables: Sequence["WordCounts"], n_topics: int) -> "WordCounts":
        """Add tables of the same words."""


class MiniBatchKernels(Protocol):
    """``lda.minibatch``: topics of tokens by mini-batches of documents."""

    def minibatch(
        self,
        tokens: "LdaTokens",
        tables: "CountTables",
        z: np.ndarray,
        key: np.uint64,
        doc_ptr: np.ndarray,
        documents: int,
    ) -> None:
        """Draw ``z`` (T,) uint16 in place."""


class HalsKernels(Protocol):
    """``nmf.hals``: sweeps of a factor by blocks of rows."""

    def sweep_sparse(
        self,
        A: "SparseForm",
        W: np.ndarray,
        rule: "UpdateRule",
        H: np.ndarray,
        P: np.ndarray,
        Q: np.ndarray,
        sweeps: int,
        scratch: "Scratch",
    ) -> np.ndarray:
        """Return the swept H (D, K) for sparse A and W; add its products to P and Q. A device takes both orders."""

    def sweep_dense(
        self,
        A: np.ndarray,
        W: np.ndarray,
        rule: "UpdateRule",
        H: np.ndarray,
        P: np.ndarray,
        Q: np.ndarray,
        sweeps: int,
        scratch: "Scratch",
    ) -> np.ndarray:
        """Return the swept H (D, K) for dense A (D, V) and W; add its products to P and Q."""

    def sweep_products(
        self, R: np.ndarray, rule: "UpdateRule", X: np.ndarray, sweeps: int, scratch: "Scratch"
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the swept X (n, K) for the products R (n, K), its XᵀX (K, K), and ⟨R, X⟩."""


class FactorSums(Protocol):
    """``nmf.sums``: sums of products over chunks and shards."""

    def zero_sums(
        self, n_rows: int, gram_shape: tuple[int, ...], K: int, dtype: "DTypeLike"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return zeros for the sums of a shard: P (n_rows, K) of ``dtype`` and Q ``gram_shape`` float64."""

    def add_sums(self, left: np.ndarray, right: np.ndarray, cause: str) -> np.ndarray:
        """Return the sum of two arrays."""


class RandomIndexingKernels(Protocol):
    """``random_indexing.accumulate``: sums of seeds over the neighbours of words."""

    def accumulate(self, tokens: "Tokens", window: "Window", seeds: np.ndarray, dimension: int) -> np.ndarray:
        """Sum sparse seeds: (words, dimension) int32."""

    def sum_at(self, n_rows: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Sum rows (n, columns) at their positions: (n_rows, columns)."""

    def make_slabs(self, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Normalise rows of several blocks and cut them by columns, for `accumulate_dense`."""

    def accumulate_dense(
        self, tokens: "Tokens", window: "Window", slabs: np.ndarray, first: int, out: np.ndarray
    ) -> None:
        """Add sums of dense seeds to ``out`` (words, D) float32."""


class WalkKernels(Protocol):
    """``node2vec.walks``: random walks over a graph."""

    def walk(self, walker: "Walker", starts: np.ndarray, length: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
        """Walk once from each start: doc_ptr (D + 1,) int64 and the nodes (T,) uint32."""


class CellKernels(Protocol):
    """``word2vec.cells``: training of word vectors by strata."""

    def has_memory_for(self, D: int) -> bool:
        """Return whether rows of D numbers are short enough for the kernel."""

    def train_cell(
        self, W_in: np.ndarray, W_out: np.ndarray, pairs: np.ndarray, table: np.ndarray, options: "CellOptions"
    ) -> None:
        """Train the blocks W_in and W_out (rows, D) float32 in place on the pairs of a cell."""


class SkipGramKernels(Protocol):
    """``word2vec.skip_gram``: training of word vectors."""

    def train(
        self,
        method: str,
        text: "Text",
        options: "TrainingOptions",
        W_in: np.ndarray,
        W_out: np.ndarray,
    ) -> None:
        """Train W_in and W_out (R, D) float32 in place on a text."""
