"""Several threads train one skip-gram model without locks (Hogwild), but for the rows that all of them change.

A row that two cores change in turn travels between their caches each time. So every thread has copies of its own of
the rows of the most frequent words, and adds what changed in them to the model's after each part of the text.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ....kernels.word2vec import skip_gram as kernels

#: Words whose rows each thread has copies of: so many stay in a core's second-level cache.
HOT = 256
#: Tokens that all threads together train between two exchanges.
APART = 1 << 15


def parts_of(ptr: np.ndarray, threads: int) -> list[np.ndarray]:
    """Cut documents, whose tokens are ``ptr[d]:ptr[d + 1]``, into parts for a thread; one part for one thread."""
    most = 1 if threads == 1 else max(threads, int(ptr[-1]) * threads // APART)
    cuts = [0, *np.searchsorted(ptr, np.arange(1, most) * (ptr[-1] / most)).tolist(), len(ptr) - 1]
    return [ptr[first : last + 1] for first, last in zip(cuts[:-1], cuts[1:], strict=True)]


def room_for(threads: int, rows: int) -> int:
    """Return how many rows the threads' copies take."""
    return threads * min(HOT, rows) if threads > 1 else 0


class Hogwild:
    """Trains W_in and W_out (R + threads * H, D) float32; the H most frequent words have the first rows.

    ``share`` (H,) float32: what share of a thread's changes a row takes. Behind the R rows there is room for copies.
    """

    def __init__(self, method: str, step: kernels.TrainingOptions, W: tuple[np.ndarray, ...], share: np.ndarray):
        self.method, self.step, self.W, self.share = method, step, W, share
        self.lock = threading.Lock()

    def train(self, texts: list[kernels.Text], threads: int, pool: ThreadPoolExecutor) -> None:
        """Train texts whose rows are below R, each by the next thread that is free."""
        waiting, room = iter(texts), len(self.W[0]) - threads * len(self.share)
        list(pool.map(lambda lane: self._lane(waiting, room + lane * len(self.share)), range(threads)))

    def _lane(self, texts: Iterator[kernels.Text], first: int) -> None:
        hot = len(self.share)

        def own(rows: np.ndarray) -> np.ndarray:
            return np.where(rows < hot, rows + np.uint32(first), rows)

        step = self.step._replace(table=own(self.step.table))
        with self.lock:
            known = [W[:hot].copy() for W in self.W]
        for W, before in zip(self.W, known, strict=True):
            W[first : first + hot] = before
        W_in, W_out = self.W
        for text in texts:
            kernels.train(self.method, text._replace(words=own(text.words)), step, W_in, W_out)
            with self.lock:
                for W, before in zip(self.W, known, strict=True):
                    kernels.merge_row_copies(W, first, before, self.share)
