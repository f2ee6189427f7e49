"""The priors alpha and beta, learned from histograms of counts (Minka 2000, equation 55)."""

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import ChunkInfo
from ....io.stores.store import Arrays
from ....kernels.lda import priors as kernels
from ....kernels.lda.counts import count_documents
from ....kernels.lda.model import TokenOrder

#: The smallest number of documents from which priors are learned by default. A few do not tell topics from chance.
ENOUGH_DOCUMENTS = 1000
#: Number of bins of the histogram of the counts in B, enough for counts up to 2^40.
_WORD_BINS = int(kernels.bins_of(np.array(1 << 40))) + 1


def document_bins(chunks: list[ChunkInfo]) -> int:
    """Return the number of bins that histograms of document lengths need."""
    longest = max((chunk.longest for chunk in chunks), default=0)
    return int(kernels.bins_of(np.array(longest))) + 1


def document_histograms(chunk: Chunk | TokenOrder, z: np.ndarray, n_topics: int, n_bins: int) -> Arrays:
    """Return histograms of the documents' topic counts and lengths, for topics ``z`` (T,) uint16 in word order."""
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    topics = kernels.topic_histogram(rows, n_topics, n_bins)
    lengths = kernels.histogram(np.diff(chunk.doc_ptr), n_bins)
    return _as_arrays("topics", topics) | _as_arrays("lengths", lengths)


def word_histogram(counts: np.ndarray) -> Arrays:
    """Return the histogram of counts in B, (nnz,) int32."""
    return _as_arrays("words", kernels.histogram(counts, _WORD_BINS))


def learn(shared: Arrays, sums: Arrays, n_words: int, symmetric: bool) -> Arrays:
    """Return the ``alpha`` (K,) float32 and ``beta`` that make the counted topics most likely.

    ``sums`` has the histograms above, added up over all chunks and blocks.
    """
    topics = _from_arrays("topics", sums)
    lengths = _from_arrays("lengths", sums)
    words = _from_arrays("words", sums)
    alpha = kernels.learn_alpha(shared["alpha"], topics, lengths, symmetric)
    beta = kernels.learn_beta(float(shared["beta"]), words, shared["totals"], n_words)
    return {"alpha": alpha.astype(np.float32), "beta": np.float64(beta)}


def _as_arrays(name: str, histogram: kernels.Histogram) -> Arrays:
    """Return a histogram as named arrays, which the engine adds up."""
    return {name: histogram.numbers, f"{name}_sums": histogram.sums}


def _from_arrays(name: str, sums: Arrays) -> kernels.Histogram:
    return kernels.Histogram(sums[name], sums[f"{name}_sums"])
