"""Random corpora, and LDA on them, for the benchmarks on a CUDA device."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from corpusmill.kernels import random

#: Tokens and words of a quick run. A chunk has one document, and its words are more than the 200 of all topics.
QUICK_TOKENS = 40
QUICK_WORDS = 210


class Topics:
    """A random corpus in chunks, and its topics as training proceeds."""

    def __init__(self, n_topics: int, n_tokens: int, n_chunks: int = 1, n_words: int = 100_000):
        self.n_topics = n_topics
        self.n_words = n_words
        self.epoch = 0
        self.chunks = [random_documents(c, n_tokens // n_chunks, n_words) for c in range(n_chunks)]
        self.z = [None] * n_chunks
        self._set(np.zeros(n_words + 1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32))

    def _set(self, *counts):
        from corpusmill.kernels.lda.counts import topic_totals
        from corpusmill.kernels.lda.model import ModelBlock

        totals = topic_totals(counts[1], counts[2], self.n_topics)
        alpha = np.full(self.n_topics, 50 / self.n_topics, np.float32)
        self.model = ModelBlock(*counts, 0, totals, alpha, 0.01, self.n_words)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all chunks."""
        return sum(chunk.n_tokens for chunk in self.chunks)

    def sweep(self, pool=None, streamed=False) -> float:
        """Draw and count all chunks on the device; return the seconds. ``streamed``: copy the chunks again."""
        from corpusmill.kernels.cuda import memory
        from corpusmill.kernels.cuda.lda import esca as lda
        from corpusmill.kernels.cuda.residents import RESIDENTS
        from corpusmill.kernels.lda.counts import WordCounts

        def sweep_shard(numbers):
            """Return the new topics of some chunks, and their counts, which stay on the device."""
            topics = []
            counts = None
            for c in numbers:
                chunk = self.chunks[c]
                z = lda.sweep(chunk, [self.model], self.z[c], random.key(1, self.epoch, c))
                counts = lda.add_words(chunk.word_ids, chunk.word_ptr, z, (0, self.n_words), self.n_topics, counts)
                topics.append(z)
                if streamed:
                    for array in (*chunk[1:], z):
                        memory.COPIES.drop(array)
            counts = lda.finish_words(counts)
            memory.share_residents(counts.values(), "counts")
            return topics, WordCounts(**counts)

        # Two threads sweep one shard each.
        n_shards = min(2, len(self.chunks)) if pool else 1
        shards = [range(first, len(self.chunks), n_shards) for first in range(n_shards)]
        started = time.perf_counter()
        swept = list((pool.map if pool else map)(sweep_shard, shards))
        merged = lda.merge_many([counts for _, counts in swept], self.n_topics)
        RESIDENTS.bring_back(merged, keep=True)
        seconds = time.perf_counter() - started
        for numbers, (topics, _) in zip(shards, swept, strict=True):
            for c, z in zip(numbers, topics, strict=True):
                self.z[c] = z
        self.epoch += 1
        self._set(*merged)
        return seconds

    def train(self, passes: int):
        """Train some passes, so that documents have few topics."""
        for _ in range(passes):
            self.sweep()
        return self

    def row_bytes(self) -> float:
        """Return how many bytes of A, the topic counts of its document, the draw of a token reads on average."""
        from corpusmill.kernels.lda.counts import count_documents

        total = 0.0
        for chunk, z in zip(self.chunks, self.z, strict=True):
            rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
            total += float((4.0 * np.diff(rows.row_ptr) * np.diff(chunk.doc_ptr)).sum())
        return total / self.n_tokens

    def cpu_rate(self, most: int) -> float:
        """Return tokens per second of the CPU kernels on one thread, for at most ``most`` tokens of the same state."""
        from corpusmill.io.stores.chunk import make_chunk
        from corpusmill.kernels.lda import esca as cpu
        from corpusmill.kernels.lda.counts import count_words

        chunk = self.chunks[0]
        n = int(np.searchsorted(chunk.doc_ptr, most))
        doc_ptr = chunk.doc_ptr[: max(2, n)]
        in_documents = np.empty_like(self.z[0])
        in_documents[chunk.word_to_doc_order] = self.z[0]
        part = make_chunk(0, doc_ptr, chunk.words[: doc_ptr[-1]])
        z = in_documents[: doc_ptr[-1]][part.word_to_doc_order]
        seconds = []
        for turn in range(3):
            started = time.perf_counter()
            new = cpu.sweep(part, [self.model], z, random.key(2, turn))
            count_words(part.word_ids, part.word_ptr, new, (0, self.n_words), self.n_topics)
            seconds.append(time.perf_counter() - started)
        return part.n_tokens / min(seconds)


def random_documents(number: int, n_tokens: int, n_words: int):
    """Return a chunk of documents of about 330 tokens, as in NYTimes: a few of 500 topics each, words by Zipf's law."""
    from corpusmill.io.stores.chunk import make_chunk

    rng = np.random.default_rng(number)
    ends = np.cumsum(rng.poisson(330, n_tokens // 330 + 1) + 1)
    doc_ptr = np.r_[0, ends[ends < n_tokens], n_tokens]
    docs = np.repeat(np.arange(len(doc_ptr) - 1), np.diff(doc_ptr))
    topics = rng.integers(0, 500, (len(doc_ptr) - 1, 6))[docs, rng.integers(0, 6, n_tokens)]
    rank = np.exp(rng.random(n_tokens) * np.log(n_words)).astype(np.int64) - 1
    # All topics share the 200 most frequent words. Of the others, each topic has its own.
    words = np.where(rank < 200, rank, 200 + (rank * 977 + topics * 7919) % (n_words - 200))
    return make_chunk(number, doc_ptr, words.astype(np.uint32), group_tokens=1 << 62)


def pool_of(streams: int):
    """Return a pool of threads, each with its own stream."""
    return ThreadPoolExecutor(streams)


def trained(session, n_topics: int, tokens: int, n_chunks: int = 1) -> Topics:
    """Return a corpus of about ``tokens`` tokens after 30 passes."""
    if session.quick:
        return Topics(n_topics, QUICK_TOKENS, min(n_chunks, 2), QUICK_WORDS).train(1)
    return Topics(n_topics, tokens, n_chunks).train(30)
