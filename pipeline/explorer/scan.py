"""Looks at documents in the background: which have most of a topic, and which topics occur together."""

import threading
from collections.abc import Callable

import numpy as np
import scipy.sparse

from .documents import DocumentTable

#: Most documents that a scan transforms at a time, and most numbers of their shares. Other answers wait for a batch.
BATCH = 500
BATCH_SHARES = 2_000_000
#: Documents kept for each topic.
TOP_DOCUMENTS = 18
#: A topic with a smaller share of a document does not count as occurring in it.
LEAST_SHARE = 0.05
#: Half of this weight is taken from a document of this many tokens, so that very short ones do not come first.
SHORT_DOCUMENT = 20
#: Entries that are collected before they are sorted into the result.
PENDING_ENTRIES = 1 << 18
#: Groups of a column that are kept, in order of their first occurrence.
MAX_GROUPS = 400

#: Returns the topic shares of documents given as doc_ptr (D + 1,) and words (T,): (D, K), rows sum to one.
Transform = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Group:
    """The documents with one value in a column of metadata: their number, and sums of their topic shares."""

    def __init__(self, n_topics: int):
        self.sums = np.zeros(n_topics)
        self.squares = np.zeros(n_topics)
        self.documents = 0


class Scan:
    """The result of looking at a sample of the documents, which grows while a thread works."""

    def __init__(self, table: DocumentTable, transform: Transform, n_topics: int, limit: int):
        self.table = table
        self.transform = transform
        self.n_topics = n_topics
        self.limit = min(limit, len(table))
        self.seen = 0
        self.failure = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._entries: list[np.ndarray] = []
        self._n_pending = 0
        self._top = np.empty((0, 4))  # columns: topic, document, share, discounted share; by topic, best first
        self._together = scipy.sparse.csr_matrix((n_topics, n_topics), dtype=np.float32)
        self._occurrences = np.zeros(n_topics)
        #: By column, then by value.
        self._groups: dict[str, dict[str, Group]] = {name: {} for name in table.corpus.kept_columns}
        self._thread = threading.Thread(target=self._run, name="explorer-scan", daemon=True)

    def start(self) -> None:
        """Start to look at documents, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end after its current batch, and wait for it."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def wait(self) -> None:
        """Wait until the thread has looked at all documents of the sample."""
        self._thread.join()

    def _run(self) -> None:
        try:
            for chunk, first, stop in self._sample():
                if self._stop.is_set():
                    return
                self._look_at(chunk, first, stop)
        except Exception as error:
            # The page shows why there are no more documents. The rest of it still works.
            self.failure = f"{type(error).__name__}: {error}"

    def _sample(self) -> list[tuple[int, int, int]]:
        """Return batches (chunk, first row, row after the last), drawn at random without repetition."""
        batches = []
        step = max(20, min(BATCH, BATCH_SHARES // self.n_topics))
        for number, chunk in enumerate(self.table.corpus.chunks):
            starts = range(0, chunk.documents, step)
            batches += [(number, first, min(first + step, chunk.documents)) for first in starts]
        order = np.random.default_rng(0).permutation(len(batches))
        chosen = []
        n_documents = 0
        for index in order:
            if n_documents >= self.limit:
                break
            chosen.append(batches[index])
            n_documents += batches[index][2] - batches[index][1]
        self.limit = n_documents
        return chosen

    def _look_at(self, chunk: int, first: int, stop: int) -> None:
        doc_ptr, words = self.table.corpus.read_documents(chunk, first, stop)
        shares = self.transform(doc_ptr, words)
        lengths = np.diff(doc_ptr)
        shares[lengths == 0] = 0
        number = self.table.corpus.chunks[chunk].first_document + first
        documents, topics = np.nonzero(shares >= LEAST_SHARE)
        values = shares[documents, topics].astype(np.float64)
        discount = lengths[documents] / (lengths[documents] + SHORT_DOCUMENT)
        entries = np.column_stack([topics, number + documents, values, values * discount])
        present = scipy.sparse.csr_matrix((values > 0, (documents, topics)), (len(lengths), self.n_topics), np.float32)
        together = (present.T @ present).tocsr()
        with self._lock:
            self._entries.append(entries)
            self._n_pending += len(entries)
            self._together = self._together + together
            self._occurrences += np.asarray(present.sum(axis=0)).ravel()
            if self._groups:
                self._add_groups(number, shares, lengths)
            self.seen += len(lengths)
            if self._n_pending > PENDING_ENTRIES:
                self._merge()

    def _add_groups(self, number: int, shares: np.ndarray, lengths: np.ndarray) -> None:
        rows = self.table.rows(number, number + len(shares))
        for name, groups in self._groups.items():
            values = [str(value)[:60] if value is not None else "" for value in rows[name].to_pylist()]
            for value, row, length in zip(values, shares, lengths, strict=True):
                if not value or not length:
                    continue
                if value not in groups:
                    if len(groups) == MAX_GROUPS:
                        continue
                    groups[value] = Group(self.n_topics)
                group = groups[value]
                group.sums += row
                group.squares += row**2
                group.documents += 1

    def _merge(self) -> None:
        """Sort the pending entries into the result and keep the best of each topic."""
        if not self._entries:
            return
        entries = np.concatenate([self._top, *self._entries])
        order = np.lexsort((entries[:, 1], -entries[:, 3], entries[:, 0]))
        entries = entries[order]
        starts = np.searchsorted(entries[:, 0], entries[:, 0])
        self._top = entries[np.arange(len(entries)) - starts < TOP_DOCUMENTS]
        self._entries = []
        self._n_pending = 0

    # --- results ---

    def documents(self, topic: int) -> list[tuple[int, float]]:
        """Return the documents seen so far that have most of a topic, and their shares of it."""
        with self._lock:
            self._merge()
            start, stop = np.searchsorted(self._top[:, 0], [topic, topic + 1])
            return [(int(row[1]), float(row[2])) for row in self._top[start:stop]]

    def together(self, topic: int, limit: int) -> list[tuple[int, float, int]]:
        """Return topics that occur in the same documents as a topic: (topic, times as often as by chance, documents).

        Only topics with at least three such documents are listed, the most frequent of them first by the ratio.
        """
        with self._lock:
            row = self._together[topic]
            seen = max(1, self.seen)
            expected = self._occurrences[topic] * self._occurrences[row.indices] / seen
            found = zip(row.indices.tolist(), (row.data / np.maximum(expected, 1e-9)).tolist(), row.data, strict=True)
            pairs = [(other, ratio, int(count)) for other, ratio, count in found if other != topic and count >= 3]
        return sorted(pairs, key=lambda pair: -pair[1])[:limit]

    def groups(self, column: str, topic: int) -> list[dict[str, object]]:
        """Return the mean share of a topic in the documents of each group, with its standard error."""
        with self._lock:
            found = []
            for name, group in self._groups[column].items():
                n = group.documents
                mean = group.sums[topic] / n
                variance = max(0.0, group.squares[topic] / n - mean**2)
                found.append({"name": name, "mean": mean, "error": (variance / max(1, n - 1)) ** 0.5, "documents": n})
        return found
