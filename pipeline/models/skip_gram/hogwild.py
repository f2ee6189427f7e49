"""Several threads train one skip-gram model without locks (Hogwild), except for the rows of frequent words.

If two cores change the same row in turn, the row moves between their caches every time. So each thread has its own
copies of the rows of the most frequent words. After each part of the text, it adds the changes of its copies to the
model.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ....kernels.word2vec import skip_gram as kernels

#: Rows of which each thread has copies. This number of rows fits into a core's second-level cache.
COPIED_ROWS = 256
#: Tokens that all threads together train between two exchanges with the model.
EXCHANGE_TOKENS = 1 << 15


def split_documents(ptr: np.ndarray, threads: int) -> list[np.ndarray]:
    """Split documents into consecutive parts of about equal size; return the ``ptr`` of each part.

    The tokens of document d are ``ptr[d]:ptr[d + 1]``. One thread gets one part.
    """
    if threads == 1:
        return [ptr]
    n_tokens = int(ptr[-1])
    n_parts = max(threads, n_tokens * threads // EXCHANGE_TOKENS)
    cuts = np.searchsorted(ptr, np.arange(1, n_parts) * (n_tokens / n_parts))
    bounds = [0, *cuts.tolist(), len(ptr) - 1]
    return [ptr[first : last + 1] for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def n_copies(threads: int, rows: int) -> int:
    """Return the number of rows that the copies of all threads take."""
    if threads == 1:
        return 0
    return threads * min(COPIED_ROWS, rows)


class Hogwild:
    """Trains the matrices W_in and W_out, each (R + threads * H, D) float32, with several threads.

    The H most frequent words have the first rows. The copies of the threads follow the R rows. ``weights`` (H,) float32
    are the weights with which a thread's changes of its copies are added to the rows.
    """

    def __init__(
        self,
        method: str,
        options: kernels.TrainingOptions,
        matrices: tuple[np.ndarray, np.ndarray],
        weights: np.ndarray,
    ):
        self.method = method
        self.options = options
        self.matrices = matrices
        self.weights = weights
        self.lock = threading.Lock()

    def train(self, texts: list[kernels.Text], threads: int, pool: ThreadPoolExecutor) -> None:
        """Train texts whose words are rows below R. Each text goes to the next free thread."""
        # Threads may share the iterator of a list: each item goes to one of them.
        waiting = iter(texts)
        first_copy = len(self.matrices[0]) - threads * len(self.weights)
        tasks = []
        for thread in range(threads):
            first = first_copy + thread * len(self.weights)
            tasks.append(pool.submit(self._train_waiting, waiting, first))
        for task in tasks:
            task.result()

    def _train_waiting(self, waiting: Iterator[kernels.Text], first: int) -> None:
        """Train one text after another in one thread, whose copies begin at row ``first``."""
        options = self.options._replace(table=self._use_copies(self.options.table, first))
        with self.lock:
            known = [W[: len(self.weights)].copy() for W in self.matrices]
        for W, before in zip(self.matrices, known, strict=True):
            W[first : first + len(before)] = before
        W_in, W_out = self.matrices
        for text in waiting:
            own = text._replace(words=self._use_copies(text.words, first))
            kernels.train(self.method, own, options, W_in, W_out)
            with self.lock:
                for W, before in zip(self.matrices, known, strict=True):
                    kernels.merge_row_copies(W, first, before, self.weights)

    def _use_copies(self, rows: np.ndarray, first: int) -> np.ndarray:
        """Replace the rows of which there are copies by a thread's copies."""
        return np.where(rows < len(self.weights), rows + np.uint32(first), rows)
