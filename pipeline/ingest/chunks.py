"""The size of chunks, and which documents each chunk gets."""

import numpy as np

from .job import PARTS, DocumentRange, IngestJob, read_table

#: Maximum size of a chunk by default. Larger chunks are hardly faster, and each needs more of a worker's memory.
MAX_CHUNK_TOKENS = 1 << 22
#: Chunks are not made smaller than this to get MIN_CHUNKS of them: very short tasks are inefficient.
MIN_CHUNK_TOKENS = 1 << 19
#: Minimum number of chunks by default, so that several workers have equal shares.
MIN_CHUNKS = 16


def default_chunk_tokens(tokens: int, longest: int) -> int:
    """Return the maximum number of tokens per chunk for a corpus of ``tokens`` tokens.

    ``longest`` is the number of tokens of the longest document.

    The result gives the fewest chunks of at most MAX_CHUNK_TOKENS (SaberLDA section 4.2.1), but at least MIN_CHUNKS as
    long as each has MIN_CHUNK_TOKENS. It depends on the documents only, because models depend on the chunks: the same
    documents have to give the same model on every machine.
    """
    most = min(MAX_CHUNK_TOKENS, max(MIN_CHUNK_TOKENS, _divide_up(tokens, MIN_CHUNKS)))
    n_chunks = max(1, _divide_up(tokens, most))
    even = _divide_up(tokens, n_chunks)
    # A chunk ends before the document that does not fit. Without a margin for it, the last tokens would need one more
    # chunk, which would be very small.
    return max(1, even + min(longest, even // 8))


def _divide_up(dividend: int, divisor: int) -> int:
    """Divide and round up."""
    return -(-dividend // divisor)


class ChunkCutter:
    """Assigns documents to chunks, in order. A document that does not fit begins a new chunk; none is split."""

    def __init__(self, chunk_tokens: int):
        self.chunk_tokens = chunk_tokens
        self.chunks: list[list[DocumentRange]] = []
        self._used = 0  # tokens of the last chunk

    def add(self, partition: int, batch: int, lengths: np.ndarray) -> None:
        """Assign the documents of a batch, given their lengths (D,) in tokens."""
        tokens_before = np.append(0, np.cumsum(lengths))
        first = 0
        while first < len(lengths):
            if not self.chunks:
                self._begin_chunk()
            free = self.chunk_tokens - self._used
            stop = int(np.searchsorted(tokens_before, tokens_before[first] + free, side="right")) - 1
            if stop <= first and self._used:
                self._begin_chunk()
                continue
            # A document that is longer than a chunk gets a chunk that is larger than the others.
            stop = max(stop, first + 1)
            self.chunks[-1].append(DocumentRange(partition, batch, first, stop))
            self._used += int(tokens_before[stop] - tokens_before[first])
            first = stop

    def _begin_chunk(self) -> None:
        self.chunks.append([])
        self._used = 0


def cut_chunks(job: IngestJob, n_partitions: int, chunk_tokens: int) -> dict[str, list[list[DocumentRange]]]:
    """Return the documents of each chunk of each part. A chunk has up to ``chunk_tokens`` tokens, or one document."""
    cutters = {part: ChunkCutter(chunk_tokens) for part in PARTS}
    for partition in range(n_partitions):
        table = read_table(job.files, f"lengths/{partition:06d}.arrow")
        lengths = table["length"].to_numpy()
        batches = table["batch"].to_numpy()
        is_held_out = table["held_out"].to_numpy()
        for part, is_in_part in (("train", ~is_held_out), ("held_out", is_held_out)):
            for batch in np.unique(batches[is_in_part]):
                cutters[part].add(partition, int(batch), lengths[is_in_part & (batches == batch)])
    return {part: cutter.chunks for part, cutter in cutters.items()}
