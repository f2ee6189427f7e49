"""A chunk of a corpus: documents in document order and in word order."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

#: Tokens whose documents' topic rows stay in a core's cache: the inner level of the word order.
GROUP_TOKENS = 1 << 20


class Chunk(NamedTuple):
    """A run of documents in both orders. T tokens, D documents, G groups, S segments (a word in a group).

    Word order (PDOW: partition by document, order by word): documents are cut into G consecutive groups; inside a
    group tokens are ordered by word, then by document. Segment s holds the tokens
    ``word_ptr[s]:word_ptr[s + 1]`` of word ``word_ids[s]``; group g holds the segments
    ``group_ptr[g]:group_ptr[g + 1]``, its words ascending.
    """

    number: int
    doc_ptr: np.ndarray  # (D + 1,) int64: tokens of document d stand at doc_ptr[d]:doc_ptr[d + 1] of document order
    words: np.ndarray  # (T,) uint32: word ids in document order; in a bag of words they ascend in a document
    group_ptr: np.ndarray  # (G + 1,) int64: segments of each group
    word_ids: np.ndarray  # (S,) uint32: the word of each segment
    word_ptr: np.ndarray  # (S + 1,) int64: tokens of each segment, in word order
    docs: np.ndarray  # (T,) uint32: row of the document, from 0 in this chunk, in word order
    word_to_doc_order: np.ndarray  # (T,) uint32: position in document order, so the word of i is words[it[i]]

    @property
    def n_documents(self) -> int:
        """Number of documents, empty ones included."""
        return len(self.doc_ptr) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.doc_ptr[-1])

    def counts(self, n_words: int) -> scipy.sparse.csr_matrix:
        """Return the (D, n_words) int32 matrix of word counts."""
        ones = np.ones(self.n_tokens, np.int32)
        matrix = scipy.sparse.csr_matrix(
            (ones, self.words.astype(np.int32), self.doc_ptr), shape=(self.n_documents, n_words)
        )
        matrix.sum_duplicates()
        return matrix


def make_chunk(index: int, doc_ptr: np.ndarray, words: np.ndarray, group_tokens: int = GROUP_TOKENS) -> Chunk:
    """Order documents by word: ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order."""
    doc_ptr = np.ascontiguousarray(doc_ptr, np.int64)
    words = np.ascontiguousarray(words, np.uint32)
    cuts = _group_cuts(doc_ptr, group_tokens)
    word_to_doc_order = np.empty(len(words), np.uint32)
    docs = np.empty(len(words), np.uint32)
    word_ids, starts, group_ptr = [], [], [0]
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        lo, hi = doc_ptr[first], doc_ptr[last]
        ids, heads, group_docs, order = _by_word(doc_ptr[first : last + 1] - lo, words[lo:hi])
        np.add(order, lo, out=word_to_doc_order[lo:hi], casting="unsafe")
        np.add(group_docs, first, out=docs[lo:hi], casting="unsafe")
        word_ids.append(ids)
        starts.append(heads + lo)
        group_ptr.append(group_ptr[-1] + len(ids))
    return Chunk(
        number=index,
        doc_ptr=doc_ptr,
        words=words,
        group_ptr=np.array(group_ptr, np.int64),
        word_ids=np.concatenate(word_ids).astype(np.uint32) if word_ids else np.empty(0, np.uint32),
        word_ptr=np.r_[np.concatenate(starts) if starts else np.empty(0, np.int64), len(words)].astype(np.int64),
        docs=docs,
        word_to_doc_order=word_to_doc_order,
    )


def _by_word(doc_ptr: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Order a group's tokens by word, then by place: return words, first token of each, documents, places."""
    distinct = None
    if len(words) and int(words.max()) > 4 * len(words):
        distinct, words = np.unique(words, return_inverse=True)
    width = int(words.max()) + 1 if len(words) else 0
    places = np.arange(len(words), dtype=np.int32)
    # From rows to columns is a counting sort by column that keeps the order of rows: no comparisons.
    rows = scipy.sparse.csr_array((places, words.astype(np.int32), doc_ptr), shape=(len(doc_ptr) - 1, width))
    columns = rows.tocsc()
    used = np.flatnonzero(np.diff(columns.indptr))
    heads = columns.indptr[used].astype(np.int64)
    return used if distinct is None else distinct[used], heads, columns.indices, columns.data


def _group_cuts(doc_ptr: np.ndarray, group_tokens: int) -> np.ndarray:
    """Cut D documents into groups of about ``group_tokens`` tokens: the first document of each, then D."""
    n_documents = len(doc_ptr) - 1
    n_groups = max(1, round(int(doc_ptr[-1]) / group_tokens))
    marks = np.arange(1, n_groups) * (int(doc_ptr[-1]) / n_groups)
    inner = np.searchsorted(doc_ptr, marks)
    return np.unique(np.r_[0, np.clip(inner, 0, n_documents), n_documents])
