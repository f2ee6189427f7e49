"""The chunk of a corpus as kernels see it. Kernels do not import io, so they describe the fields that they read."""

from typing import Protocol

import numpy as np


class Chunk(Protocol):
    """T tokens of D documents in two orders, as ``io.stores.chunk.Chunk`` has them.

    *Document order* is the order of the text. *Word order* cuts the documents into G consecutive groups; inside one
    group, tokens are sorted by word, then by document. A segment is the run of one word in one group; there are S
    segments. Sampling runs in word order, so that one row of the model serves all tokens of a segment, and group by
    group, so that the rows of a group's documents stay in the processor's cache.
    """

    @property
    def n_documents(self) -> int:
        """Number of documents, empty ones included."""

    @property
    def doc_ptr(self) -> np.ndarray:
        """(D + 1,) int64: document d has the tokens ``doc_ptr[d]:doc_ptr[d + 1]`` of document order."""

    @property
    def words(self) -> np.ndarray:
        """(T,) uint32: the word ids in document order."""

    @property
    def group_ptr(self) -> np.ndarray:
        """(G + 1,) int64: group g has the segments ``group_ptr[g]:group_ptr[g + 1]``, by ascending word id."""

    @property
    def word_ids(self) -> np.ndarray:
        """(S,) uint32: the word of each segment."""

    @property
    def word_ptr(self) -> np.ndarray:
        """(S + 1,) int64: segment s has the tokens ``word_ptr[s]:word_ptr[s + 1]`` of word order."""

    @property
    def docs(self) -> np.ndarray:
        """(T,) uint32: the document of each token, counted from 0 in this chunk, in word order."""

    @property
    def word_to_doc_order(self) -> np.ndarray:
        """(T,) uint32: the position in document order of each token in word order."""


def as_int32(numbers: np.ndarray, what: str) -> np.ndarray:
    """Return integers as int32. Raises ValueError, which names them, if one of them does not fit."""
    largest = int(numbers.max(initial=0))
    if largest > np.iinfo(np.int32).max:
        raise ValueError(f"{largest:,} {what} do not fit 32 bits, which end at {np.iinfo(np.int32).max:,}")
    return numbers.astype(np.int32)
