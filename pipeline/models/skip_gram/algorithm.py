"""Skip-gram with negative sampling for the engine: what Word2Vec and Node2Vec train."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....io.text.vocabulary import find_word_ids
from ....kernels import random
from ....kernels.word2vec import skip_gram as kernels
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Model, PreviousModel, SweepResult
from ...engine.device import kernels as kernels_on
from ..base.vectors import WordVectors
from .hogwild import APART, HOT, Hogwild, parts_of, room_for

#: Addresses of draws that belong to no epoch: first vectors, and the pairs that a loss is measured on.
BEGIN, LOSS = -1, -2
#: Pairs of words in a chunk that its loss is measured on, at most.
LOSS_PAIRS = 1 << 14
#: Entries of a chunk's table of negatives, at most: at 2^20 it lies in a core's cache.
MOST_NEGATIVES = 1 << kernels.TABLE_BITS
#: Rows subtracted at a time.
PIECE = 1 << 10
SIDES = ("W_in", "W_out")


@dataclass(frozen=True, kw_only=True)
class SkipGram(Algorithm[Corpus, Chunk]):
    """Skip-gram by sub-models: a sweep gathers the rows that its chunk needs, trains them, returns their changes.

    No state. Model: W_in and W_out (rows, D) float32 by block; shared: words' frequencies, tokens trained. A delta has
    the rows that a shard needed, and their changes.
    """

    name: ClassVar[str] = "word2vec"
    keeps_state: ClassVar[bool] = False
    parallelism_hint: ClassVar[str] = "raise shards_per_round (shards learn apart, then are joined) or threads"
    method: str = "par"
    dimension: int = 100
    window: int = 5
    negative: int = 5
    ns_exponent: float = 0.75
    sample: float = 1e-3
    min_count: int = 5
    alpha: float = 0.025
    min_alpha: float = 0.0001
    whole_chunks: bool = False
    threads: int = 1
    seed: int = 0
    tokens: int = 0  # to train, over all epochs
    together: int = 1  # shards a round
    max_shards: int | None = 1

    def memory(self, data: Any, chunk: Any) -> MemoryEstimate:
        """Bytes of one sweep: the chunk, a block, the sub-model, its rows before and its changes."""
        row = 8 * kernels.padded(self.dimension)
        rows = self.n_rows if self.max_shards else min(self.n_rows, chunk.segments + self._table_size(chunk.tokens))
        rows += room_for(self.threads, rows)
        table = self._table_size(chunk.tokens)
        return MemoryEstimate(
            data=4 * chunk.tokens + 8 * (chunk.documents + 1),
            model=-(-self.n_rows // self.n_blocks) * row + 8 * self.n_rows,
            delta=3 * rows * row,
            scratch=rows * row + 8 * chunk.tokens + (20 + 4 * self.threads) * table + 20 * self.n_rows,
            device=rows * row + 12 * chunk.tokens + 8 * chunk.documents + 4 * table,
        )

    def begin(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays:
        """Return small random vectors, and zeros. Words that the previous model knows keep their vectors."""
        rows = self.bounds[block + 1] - self.bounds[block]
        W_in = kernels.first_vectors(rows, self.dimension, random.key(self.seed, BEGIN, block))
        W_out = np.zeros_like(W_in)
        if previous is not None:
            words = data.vocabulary["word"].slice(self.bounds[block], rows)
            ids = find_word_ids(words, previous.vocabulary)
            first = 0
            for arrays in previous.blocks():
                here = (ids >= first) & (ids < first + len(arrays["W_in"]))
                W_in[here] = arrays["W_in"][ids[here] - first]
                W_out[here] = arrays["W_out"][ids[here] - first]
                first += len(arrays["W_in"])
        return {"W_in": W_in, "W_out": W_out}

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return how often each word occurs, and that no token has been trained."""
        frequency = frequencies(data, previous)[: self.n_rows]
        return {"frequency": frequency, "trained": np.int64(0)}

    def load_chunk(self, data: Corpus, index: int, model: Model) -> Chunk:
        """Read a chunk's text, but not its word order."""
        return data.read_document_order(index)

    @property
    def is_whole(self) -> bool:
        """Whether one shard trains all rows and hands on these, not their changes."""
        return self.max_shards == 1

    # --- a sweep ---

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Train the rows that one chunk needs, which begin as the shard's last chunk left them."""
        keys, frequency = random.stream(random.key(*address), 4), model.shared["frequency"]
        here = kernels_on("word2vec.skip_gram", self.device)
        threads = self.threads if here is kernels else 1
        with ThreadPoolExecutor(threads) as pool:
            each = pool.map if threads > 1 else map
            table, *texts = each(lambda task: task(), self._drawn(chunk, frequency, keys, threads))
            rows, (table, *words) = self._numbered((table, *(t.words for t in texts)), deltas, self.is_whole)
            texts = [text._replace(words=w) for text, w in zip(texts, words, strict=True)]
            W = self._gather(model, rows, deltas, room_for(threads, len(rows)))
            done = 0 if deltas is None else int(deltas[0]["tokens"])
            step = self._step(int(model.shared["trained"]), done, table, keys)
            if threads == 1:
                here.train(self.method, texts[0], step, W[0], W[1])
            else:
                share = self._share(frequency, rows[:HOT], step.alpha)
                Hogwild(self.method, step, W, share).train(texts, threads, pool)
        if not self.is_whole:
            self._subtract(model, rows, W)
        deltas = self._deltas(rows, (self._stood(rows, texts), *W), deltas, done + chunk.n_tokens)
        return SweepResult(None, deltas, {"tokens": np.int64(chunk.n_tokens)})

    def _drawn(self, chunk: Chunk, frequency: np.ndarray, keys: np.ndarray, threads: int) -> list[Callable[[], Any]]:
        """Tasks that make the table of negatives, and thin out each part of the text."""
        keep, size = self._keep(frequency), self._table_size(chunk.n_tokens)
        parts = parts_of(self._documents(chunk), threads)
        thin = (partial(kernels.subsample, part, chunk.words, keep, keys[1]) for part in parts)
        return [partial(kernels.negative_table, frequency, self.ns_exponent, size, keys[0]), *thin]

    def _step(self, trained: int, done: int, table: np.ndarray, keys: np.ndarray) -> kernels.TrainingOptions:
        """How to train a chunk when so many tokens were trained before this round, and by this shard in it."""
        slope = (self.alpha - self.min_alpha) * self.together / max(1, self.tokens)
        alpha = self.alpha - slope * (trained / self.together + done)
        return kernels.TrainingOptions(
            self.window, self.negative, table, keys[2], keys[3], alpha, slope, self.min_alpha
        )

    def _share(self, frequency: np.ndarray, rows: np.ndarray, alpha: float) -> np.ndarray:
        """What share of a thread's changes the most frequent words take, from the pairs between two exchanges."""
        words = (frequency * self._keep(frequency))[rows] * (APART / max(1, frequency.sum()))
        return kernels.merge_weights(words * 2 * (self.window + 1), self.threads, max(alpha, self.min_alpha))

    def _stood(self, rows: np.ndarray, texts: list[kernels.Text]) -> np.ndarray:
        """How often each row's word stood in the text: (rows,) float32; not counted where nobody asks."""
        stood = np.zeros(len(rows), np.float32)
        for text in () if self.is_whole else texts:
            stood += np.bincount(text.words, minlength=len(rows))
        return stood

    def _table_size(self, tokens: int) -> int:
        return min(MOST_NEGATIVES, max(1 << 10, 1 << max(0, tokens - 1).bit_length()))

    def _keep(self, frequency: np.ndarray) -> np.ndarray:
        """The chance of each word that has a row to stay, 0 for those that do not count: (n_words,) float32."""
        counted = frequency >= self.min_count
        return counted * kernels.keep_probability(frequency * counted, self.sample)

    def _documents(self, chunk: Chunk) -> np.ndarray:
        return np.array([0, chunk.n_tokens]) if self.whole_chunks else chunk.doc_ptr

    def _numbered(
        self, lists: tuple[np.ndarray, ...], deltas: list[Arrays] | None = None, all_rows: bool = False
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the words of all lists, and of the deltas' rows, ascending; and the lists by their places there."""
        if all_rows:
            return np.arange(self.n_rows, dtype=np.uint32), list(lists)
        needed = np.zeros(self.n_rows, bool)
        for words in lists:
            needed[words] = True
        for first, delta in zip(self.bounds[:-1], deltas or (), strict=False):
            needed[delta["rows"].astype(np.int64) + first] = True
        numbers = (np.cumsum(needed) - 1).astype(np.uint32)
        return np.flatnonzero(needed).astype(np.uint32), [numbers[words] for words in lists]

    def _gather(
        self, model: Model, rows: np.ndarray, deltas: list[Arrays] | None, room: int = 0
    ) -> tuple[np.ndarray, ...]:
        """The given rows of W_in and W_out as the shard left them, which begins with the model's; room for more."""
        if deltas is not None and self.is_whole:
            return tuple(deltas[0][side] for side in SIDES)
        gathered = tuple(kernels.empty_rows(len(rows) + room, self.dimension) for _ in SIDES)
        for j, part, mine in self._by_block(rows):
            block = model.block(j)
            for W, side in zip(gathered, SIDES, strict=True):
                np.take(block[side], mine, axis=0, out=W[part])
                if deltas is not None:
                    W[part][np.searchsorted(mine, deltas[j]["rows"])] += deltas[j][side]
        return gathered

    def _subtract(self, model: Model, rows: np.ndarray, trained: tuple[np.ndarray, ...]) -> None:
        """Turn trained rows into their changes, a few at a time, so that no second copy of them is there."""
        for j, part, mine in self._by_block(rows):
            block = model.block(j)
            for W, side in zip(trained, SIDES, strict=True):
                for first in range(0, len(mine), PIECE):
                    W[part][first : first + PIECE] -= block[side][mine[first : first + PIECE]]

    def _by_block(self, rows: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield each block that has some of the rows, where these are in the list, and their places in the block."""
        cuts = np.searchsorted(rows, self.bounds)
        for j, (lo, hi) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            if lo < hi:
                yield j, slice(int(lo), int(hi)), rows[lo:hi].astype(np.int64) - self.bounds[j]

    def _deltas(
        self, rows: np.ndarray, parts: tuple[np.ndarray, ...], before: list[Arrays] | None, tokens: int
    ) -> list[Arrays]:
        """Cut by blocks: how often each row's word stood in the text, and W_in and W_out; if whole, with their room."""
        named = dict(zip(("stood", *SIDES), parts, strict=True))
        nothing: Arrays = {"tokens": np.int64(tokens), "rows": rows[:0]} | {name: p[:0] for name, p in named.items()}
        deltas = [nothing] * self.n_blocks
        for j, part, mine in self._by_block(rows):
            part = slice(None) if self.is_whole else part
            deltas[j] = nothing | {"rows": mine.astype(np.uint32)} | {name: p[part] for name, p in named.items()}
            if before is not None:
                deltas[j]["stood"][np.searchsorted(mine, before[j]["rows"])] += before[j]["stood"]
        return deltas

    # --- a commit ---

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add changes, and how often words stood in the text."""
        rows = np.union1d(left["rows"], right["rows"])
        merged: Arrays = {"tokens": left["tokens"] + right["tokens"], "rows": rows}
        for name in ("stood", *SIDES):
            merged[name] = np.zeros((len(rows), *left[name].shape[1:]), np.float32)
            for delta in (left, right):
                merged[name][np.searchsorted(rows, delta["rows"])] += delta[name]
        return merged

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Add a share of the summed changes to the rows; or take over the rows, where one shard trained all of them."""
        changed = {side: delta[side][: len(delta["rows"])] for side in SIDES}
        if not self.is_whole:
            changed = {side: block[side].copy() for side in SIDES}
            alpha = max(self.min_alpha, self.alpha * (1 - int(shared["trained"]) / max(1, self.tokens)))
            share = kernels.merge_weights(delta["stood"] * 2 * (self.window + 1), self.together, alpha)
            for side in SIDES:
                changed[side][delta["rows"]] += share[:, None] * delta[side]
        return changed, {"rows_changed": np.int64(len(delta["rows"]))}

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """Count the tokens trained, which sets the learning rate."""
        trained = shared["trained"] + sums["tokens"]
        alpha = self.alpha - (self.alpha - self.min_alpha) * float(trained) / max(1, self.tokens)
        metrics = {"alpha": max(self.min_alpha, alpha), "words_changed": float(totals["rows_changed"])}
        return shared | {"trained": trained}, metrics

    # --- what users watch ---

    def score(self, model: Model, chunk: Any, state: Arrays | None, address: Address) -> Arrays:
        """Sum the loss (dissertation, equation 4.3, negated) over a sample of the chunk's pairs of neighbours."""
        keys, frequency = random.stream(random.key(address.seed, LOSS, chunk.number), 3), model.shared["frequency"]
        ptr, words, _ = kernels.subsample(self._documents(chunk), chunk.words, self._keep(frequency), keys[0])
        pairs = np.stack(_neighbours(ptr, words, self.window, keys[1]), axis=1)
        size = len(pairs) * self.negative
        table = kernels.negative_table(frequency, self.ns_exponent, size, keys[2])
        others = table[random.stream(keys[2], size) % np.uint64(max(1, size))]
        if self.n_blocks == 1:
            W_in, W_out = (model.block(0)[side] for side in SIDES)
        else:
            rows, (pairs, others) = self._numbered((pairs, others))
            W_in, W_out = self._gather(model, rows, None)
        total = kernels.loss(W_in, W_out, pairs, others.reshape(len(pairs), self.negative))
        return {"loss": np.float64(total), "pairs": np.int64(len(pairs))}

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Loss a pair of neighbours with its negatives, natural logarithm."""
        return {"held_out_loss" if held_out else "loss": float(sums["loss"] / max(1, sums["pairs"]))}

    def describe(self, model: Model, data: Any) -> list[str]:
        """The nearest neighbours of some frequent words, among the words of the first block."""
        names = data.vocabulary["word"].slice(0, self.bounds[1]).to_pylist()
        vectors = WordVectors(names, model.block(0)["W_in"][:, : self.dimension])
        some = names[min(100, len(names) // 2) :][:12]
        near = ((word, vectors.most_similar(word, topn=6, restrict_vocab=20_000)) for word in some)
        return [f"{word:>16}  " + " ".join(other for other, _ in found) for word, found in near]


def frequencies(corpus: Corpus, previous: PreviousModel | None) -> np.ndarray:
    """Return how often each word of the corpus occurs in it and in the previous model's documents: (V,) int64."""
    frequency = corpus.vocabulary["term_frequency"].to_numpy().astype(np.int64)
    if previous is not None:
        before = previous.vocabulary
        places = find_word_ids(corpus.vocabulary["word"], before)
        frequency[places >= 0] += before["term_frequency"].to_numpy()[places[places >= 0]]
    return frequency


def _neighbours(ptr: np.ndarray, words: np.ndarray, window: int, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Draw up to LOSS_PAIRS words and a neighbour of each: two arrays (n,) uint32."""
    if not len(words):
        return words, words
    drawn = random.stream(key, 2 * LOSS_PAIRS)
    first = (drawn[::2] % np.uint64(len(words))).astype(np.int64)
    offset = (drawn[1::2] % np.uint64(2 * window)).astype(np.int64) - window
    second = first + np.where(offset >= 0, offset + 1, offset)
    document = np.searchsorted(ptr, first, side="right") - 1
    inside = (second >= ptr[document]) & (second < ptr[document + 1])
    return words[first[inside]], words[second[inside]]
