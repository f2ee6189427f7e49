"""Collapsed Gibbs sampling in word order, in which the counts follow every token, on any number of workers.

A row of the grid has consecutive chunks, and a column has one of the blocks that the words were dealt to. Cell (i, j)
draws the tokens of row i whose words are in block j. Cells of a stratum share neither a document nor a word, so that A
and B are those of the moment everywhere. Only the K totals N are older: a cell sees those of the last epoch, and the
changes of its own row, as if the other rows changed them alike.

Source: Moon's dissertation (2019), algorithm 3, over-decomposed tiles of documents and words. There, the changes of N
are kept for each thread until the end of an epoch (section 2.4.1.4), here for each row.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.dealing import deal
from ....kernels.lda import gibbs, gibbs_registers
from ....kernels.lda.changing_rows import DocumentRows, WordRows, padded
from ....kernels.lda.counts import WordCounts
from ....kernels.lda.model import ModelBlock, TokenOrder, token_order
from ...engine.algorithm import Address, MemoryEstimate, ModelView, PreviousModel, SweepResult
from ...engine.grid import Cell, ChunkGridAlgorithm
from .algorithm import LdaAlgorithm

#: The default number of blocks: at most MOST_BLOCKS, and at most as many as can have equal shares of the tokens; more
#: if rows would have more than ROW_TOKENS tokens otherwise; but at least CELL_TOKENS tokens in a cell on average.
MOST_BLOCKS = 64
ROW_TOKENS = 1 << 22
CELL_TOKENS = 20_000
#: Part of the key with which words are dealt. The blocks depend on the corpus only.
DEALING = -3


@dataclass(frozen=True, kw_only=True)
class WordOrderGibbs(LdaAlgorithm, ChunkGridAlgorithm[Corpus, Chunk]):
    """Collapsed Gibbs sampling in word order.

    With several blocks, the shared arrays include the ``words`` of rows. Sweeps and scores see the number of a word's
    row instead of the word, and tokens in the order of the rows.

    The arrays of a row are ``z`` (T,) uint16, N as the row sees it, and the rows of A. Those of a column are the rows
    of B, in the form in which kernels change them.
    """

    def _kernel_modules(self, data: Corpus) -> Collection[str]:
        """Return the modules of the kernels, which depend on the number of topics and the lengths of documents."""
        if self.n_topics <= gibbs_registers.MOST_TOPICS:
            return {"lda.gibbs_registers"}
        forms = {gibbs.dense_width(self.n_topics, c.tokens, c.documents, c.longest) > 0 for c in data.chunks}
        return {"lda.gibbs_dense" if is_dense else "lda.gibbs" for is_dense in forms}

    def cell_memory(self, data: Corpus) -> MemoryEstimate:
        """Return the bytes of a row's tokens, of its topics and rows of A, and of a column in use and in transfer."""
        row = 0
        state = 0
        for number in range(self.n_blocks):
            chunks = [data.chunks[index] for index in self.row_chunks(len(data.chunks), number)]
            tokens, documents = sum(c.tokens for c in chunks), sum(c.documents for c in chunks)
            row = max(row, 8 * tokens + 12 * sum(c.segments for c in chunks) + 8 * documents)
            width = gibbs.dense_width(self.n_topics, tokens, documents, max(c.longest for c in chunks))
            # Sparse rows of A are padded to eight entries.
            state = max(state, 2 * tokens + (4 * width * documents if width else 4 * tokens + 48 * documents))
        if self.n_topics <= gibbs_registers.MOST_TOPICS:
            column = 4 * padded(self.n_topics) * int(max(np.diff(self.bounds)))
        else:
            column = self.block_bytes + 16 * int(max(np.diff(self.bounds)))
        # The chunks of a row are there until they are joined, and so are packed rows of A until they are copied.
        return MemoryEstimate(data=row, state=state, model=column, scratch=2 * column + state + row)

    @classmethod
    def learned_topics(cls, data: Corpus) -> int:
        """Return ten for each token of a mean document, since short documents lose some of many topics."""
        return min(1000, max(100, 10 * data.n_tokens // data.n_documents))

    # --- words and rows ---

    @classmethod
    def cut_words(cls, data: Corpus, row_lengths: np.ndarray, n_blocks: int | None) -> tuple[int, ...]:
        """Cut the words into blocks of about equally many tokens."""
        most = min(len(data.chunks), data.n_words)
        if n_blocks is None:
            # All tokens of a word are in one block, so with more blocks the others would wait for that of the heaviest.
            heaviest = max(1, int(np.asarray(data.vocabulary["term_frequency"]).max(initial=0)))
            equal = min(MOST_BLOCKS, data.n_tokens // heaviest)
            most = min(most, max(equal, data.n_tokens // ROW_TOKENS), math.isqrt(data.n_tokens // CELL_TOKENS))
        if n_blocks is None or n_blocks > most:
            n_blocks = 1 << (max(1, most).bit_length() - 1)
        sizes = np.bincount(_dealt_words(data, n_blocks), minlength=n_blocks)
        # The grid refuses a number that is no power of two.
        return (0, *np.cumsum(sizes).tolist())

    def word_order(self, data: Corpus) -> np.ndarray:
        """Return the word of each row of the blocks: (V,) int64. Those of a block ascend."""
        return np.argsort(_dealt_words(data, self.n_blocks), kind="stable")

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Add the word of each row, if that is not its number."""
        shared = super().begin_shared(data, previous)
        return shared if self.n_blocks == 1 else shared | {"words": self.word_order(data).astype(np.uint32)}

    def load_chunk(self, data: Corpus, index: int, model: ModelView) -> Chunk:
        """Read a chunk, and replace its words by their rows."""
        chunk = super().load_chunk(data, index, model)
        return in_order_of_rows(chunk, model.shared["words"]) if "words" in model.shared else chunk

    # --- the grid ---

    def begin_row(
        self, chunks: list[Chunk], states: list[Arrays], shared: Arrays, address: Address
    ) -> tuple[Arrays, Arrays]:
        """Return the topics of the chunks as one, N, and the rows of A.

        Also return the tokens, where each chunk ends, and what ``others`` (K,) int64 have in N, outside of the row.
        """
        order = chunks[0] if len(chunks) == 1 else joined(chunks)
        z = np.concatenate([state["z"] for state in states])
        A = gibbs.document_rows(order, z, self.n_topics)
        documents = A._asdict() if isinstance(A, DocumentRows) else {"A": A}
        totals = shared["totals"].astype(np.int64)
        others = totals - np.bincount(z, minlength=self.n_topics)
        ends = np.cumsum([chunk.n_tokens for chunk in chunks])
        prepared = token_order(order)._asdict() | {"ends": ends, "key": random.key(*address), "others": others}
        return {"z": z, "totals": totals} | documents, prepared

    def begin_column(self, block: Arrays) -> Arrays:
        """Return the rows of B in the form in which they change."""
        rows = _with_bounds(block)
        B = gibbs.word_rows(WordCounts(*(rows[name] for name in WordCounts._fields)), self.n_topics)
        return B._asdict() if isinstance(B, WordRows) else {"B": B}

    def end_column(self, columns: Arrays) -> Arrays:
        """Return the rows of B without their free places, which are most of a column."""
        row_ptr, topics, counts = gibbs.used_rows(_words(columns), self.n_topics)
        return {"lengths": np.diff(row_ptr), "topics": topics, "counts": counts}

    def train_cell(
        self, rows: Arrays, columns: Arrays, prepared: Arrays, shared: Arrays, cell: Cell, step: int
    ) -> None:
        """Draw the topics of the row's tokens whose words are in the block."""
        first, stop = self.bounds[cell.column : cell.column + 2]
        none = np.zeros(stop - first + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.int32)
        block = ModelBlock(*none, first, shared["totals"], shared["alpha"], float(shared["beta"]), self.n_words)
        order = TokenOrder(*(prepared[name] for name in TokenOrder._fields))
        A = rows["A"] if "A" in rows else DocumentRows(*(rows[name] for name in DocumentRows._fields))
        # The other rows probably change N as this one does. Half of their counts is left, so N covers the row's tokens.
        others = prepared["others"]
        expected = np.clip((self.n_blocks - 1) * (rows["totals"] - shared["totals"]), -(others // 2), others)
        totals = rows["totals"] + expected
        gibbs.draw(order, A, _words(columns), totals, block, rows["z"], np.uint64(prepared["key"]))
        rows["totals"][:] = totals - expected

    def finish_row(self, rows: Arrays, prepared: Arrays, address: Address) -> list[SweepResult]:
        """Return the topics of each chunk, and histograms of all documents of the row if priors are learned now."""
        order = TokenOrder(*(prepared[name] for name in TokenOrder._fields))
        topics = np.split(rows["z"], prepared["ends"][:-1])
        sums = [self._count_documents(order, rows["z"], address)] + [{}] * (len(topics) - 1)
        return [SweepResult({"z": z}, [], found) for z, found in zip(topics, sums, strict=True)]

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Replace the counts of a block by those of its column, which include the constant ones."""
        if "B" in delta or "lengths" in delta:
            delta = gibbs.packed_rows(_words(delta), self.n_topics)._asdict()
            return delta, self._block_totals(delta)
        return super().apply(block, delta, shared, first)


def _dealt_words(data: Corpus, n_blocks: int) -> np.ndarray:
    """Return the block of each word: (V,) uint16."""
    if n_blocks == 1:
        return np.zeros(data.n_words, np.uint16)
    return deal(np.asarray(data.vocabulary["term_frequency"]), n_blocks, random.key(0, DEALING), data.n_words)


def in_order_of_rows(chunk: Chunk, words: np.ndarray) -> Chunk:
    """Return a chunk with the number of its row for each word, and with the segments of a group by ascending row.

    ``words`` (V,) is the word of each row.
    """
    row_of_word = np.empty(len(words), np.uint32)
    row_of_word[words] = np.arange(len(words), dtype=np.uint32)
    rows = row_of_word[chunk.word_ids]
    groups = np.repeat(np.arange(len(chunk.group_ptr) - 1), np.diff(chunk.group_ptr))
    order = np.lexsort((rows, groups))
    lengths = np.diff(chunk.word_ptr)[order]
    word_ptr = np.append(0, np.cumsum(lengths))
    tokens = np.repeat(chunk.word_ptr[order] - word_ptr[:-1], lengths) + np.arange(chunk.n_tokens)
    return chunk._replace(
        words=np.empty(0, np.uint32),
        word_ids=rows[order],
        word_ptr=word_ptr,
        docs=chunk.docs[tokens],
        word_to_doc_order=chunk.word_to_doc_order[tokens],
    )


def joined(chunks: list[Chunk]) -> Chunk:
    """Return the documents of several chunks as one chunk, whose groups are those of the chunks."""
    tokens = [chunk.n_tokens for chunk in chunks]
    return chunks[0]._replace(
        doc_ptr=_joined_bounds([chunk.doc_ptr for chunk in chunks]),
        group_ptr=_joined_bounds([chunk.group_ptr for chunk in chunks]),
        word_ids=np.concatenate([chunk.word_ids for chunk in chunks]),
        word_ptr=_joined_bounds([chunk.word_ptr for chunk in chunks]),
        docs=_shifted([chunk.docs for chunk in chunks], [chunk.n_documents for chunk in chunks]),
        word_to_doc_order=_shifted([chunk.word_to_doc_order for chunk in chunks], tokens),
    )


def _joined_bounds(parts: list[np.ndarray]) -> np.ndarray:
    """Return bounds of the same parts, one after the other. Each begins with 0 and ends with a number of things."""
    return np.append(0, _shifted([part[1:] for part in parts], [int(part[-1]) for part in parts]))


def _shifted(parts: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    """Join numbers of things. Those of each part follow those of the parts before, which have these numbers of them."""
    starts = np.cumsum([0, *sizes[:-1]])
    return np.concatenate([part + part.dtype.type(start) for part, start in zip(parts, starts, strict=True)])


def _words(arrays: Arrays) -> gibbs.Words:
    """Return rows of B, given the arrays of a column, or what is sent of it."""
    if "B" in arrays:
        return arrays["B"]
    rows = _with_bounds(arrays)
    return WordRows(*(rows[name] for name in WordRows._fields))


def _with_bounds(arrays: Arrays) -> Arrays:
    """Return the arrays of sparse rows of B, with the bounds of the rows if they were not sent."""
    return arrays if "row_ptr" in arrays else arrays | {"row_ptr": np.append(0, np.cumsum(arrays["lengths"]))}
