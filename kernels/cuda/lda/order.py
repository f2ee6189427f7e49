"""The order in which a device goes through a chunk's tokens: by word over the whole chunk.

A chunk's tokens are ordered by word inside each group of documents (PDOW in SaberLDA, section 3.1.4), so a word has one
segment of tokens per group. The CPU goes through group after group, to keep a group's documents in its cache. A device
goes through word after word: then a word's row of B is spread once per chunk.
"""

from typing import NamedTuple

import numpy as np

from ..memory import derived


class WordOrder(NamedTuple):
    """A chunk's S segments in order of words. Position t means: the token with t tokens before it in this order."""

    words: np.ndarray  # (S,) uint32, ascending
    segments: np.ndarray  # (S,) int64: numbers of the segments in the chunk
    before: np.ndarray  # (S + 1,) int64: tokens before each segment


class Jobs(NamedTuple):
    """J runs of tokens of one word each, longest first. A thread block draws one job at a time."""

    rows: np.ndarray  # (J,) int64: the word's row in the block of B
    starts: np.ndarray  # (J,) int64: position of the first token in `WordOrder`
    ends: np.ndarray  # (J,) int64: position of the last token + 1
    segments: np.ndarray  # (J,) int64: index in `WordOrder` of the first token's segment


def word_order(word_ids: np.ndarray, word_ptr: np.ndarray) -> WordOrder:
    """Order a chunk's segments, (S,) uint32 words and (S + 1,) int64 pointers, by word. Kept while the chunk lives."""

    def compute() -> WordOrder:
        segments = np.argsort(word_ids, kind="stable")
        tokens = np.diff(word_ptr)[segments]
        before = np.r_[0, np.cumsum(tokens)].astype(np.int64)
        return WordOrder(word_ids[segments], segments.astype(np.int64), before)

    return derived((word_ids, word_ptr), "word order", compute)


def make_jobs(order: WordOrder, words: tuple[int, int], smallest: int, jobs: int) -> Jobs:
    """Cut the tokens of words ``words[0] <= v < words[1]`` into jobs.

    A word becomes one job, unless it is so frequent that its block would still run when all others have ended. So no
    job is longer than the words' tokens divided by ``jobs``, or than ``smallest`` tokens if these are more.
    """
    first, last = np.searchsorted(order.words, words)
    is_new_word = np.diff(order.words[first:last].astype(np.int64), prepend=-1) != 0
    heads = first + np.flatnonzero(is_new_word)
    if not len(heads):
        none = np.zeros(0, np.int64)
        return Jobs(none, none, none, none)
    starts = order.before[heads]
    ends = order.before[np.r_[heads[1:], last]]

    n_tokens = int((ends - starts).sum())
    longest = max(smallest, -(-n_tokens // jobs))
    pieces = -(-(ends - starts) // longest)  # jobs of each word
    word = np.repeat(np.arange(len(heads)), pieces)  # of each job
    nth = np.arange(len(word)) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # of each job among its word's
    job_starts = starts[word] + longest * nth
    job_ends = np.minimum(job_starts + longest, ends[word])

    # The longest first: short jobs fill the gaps at the end of the launch (SaberLDA, section 3.4).
    by_length = np.argsort(job_starts - job_ends, kind="stable")
    rows = order.words[heads[word]].astype(np.int64) - words[0]
    segments = np.searchsorted(order.before, job_starts, "right") - 1
    return Jobs(
        np.ascontiguousarray(rows[by_length]),
        np.ascontiguousarray(job_starts[by_length]),
        np.ascontiguousarray(job_ends[by_length]),
        np.ascontiguousarray(segments[by_length]),
    )
