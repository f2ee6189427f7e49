"""Word2Vec: the algorithm for the engine, and the estimator."""

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from ..io.corpus import Chunk, Corpus
from ..io.store import Arrays, DataError
from ..io.vocabulary import rank
from ..kernels import random
from ..kernels import word2vec as kernels
from .algorithm import Address, Algorithm, Model, Need, Swept
from .corpora import TextEstimator, map_words
from .device import choose
from .device import kernels as kernels_on
from .engine import shards_of
from .estimator import Fitted
from .vectors import WordVectors

#: Addresses of draws that belong to no epoch: first vectors, and the pairs that a loss is measured on.
BEGIN, LOSS = -1, -2
#: Pairs of words in a chunk that its loss is measured on, at most.
LOSS_PAIRS = 1 << 14
#: Entries of a chunk's table of negatives, at most: at 2^20 it lies in a core's cache.
MOST_NEGATIVES = 1 << kernels.TABLE_BITS
#: Rows subtracted at a time.
PIECE = 1 << 10
SIDES = ("W_in", "W_out")


@dataclass(frozen=True)
class SkipGram(Algorithm):
    """Skip-gram by sub-models: a sweep gathers the rows that its chunk needs, trains them, returns their changes.

    No state. Model: W_in and W_out (rows, D) float32 by block; shared: words' frequencies, tokens trained. A delta has
    the rows that a shard needed, and their changes.
    """

    name: ClassVar[str] = "word2vec"
    keeps_state: ClassVar[bool] = False
    corpus: str = ""
    base: str = ""  # a saved model to start from
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
    shards: int | None = 1
    rounds: int = 1
    bounds: tuple[int, ...] = ()  # first word of each block, then the number of words
    device: str = "cpu"

    @property
    def blocks(self) -> int:  # type: ignore[override]
        """Blocks of words."""
        return len(self.bounds) - 1

    @property
    def n_words(self) -> int:
        """Words that have a row."""
        return self.bounds[-1]

    def need(self, data: Any, chunk: Any) -> Need:
        """Bytes of one sweep: the chunk, a block, the sub-model, its rows before and its changes."""
        row = 8 * kernels.padded(self.dimension)
        rows = self.n_words if self.shards else min(self.n_words, chunk.segments + self._table_size(chunk.tokens))
        return Need(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            model=-(-self.n_words // self.blocks) * row + 8 * self.n_words,
            delta=3 * rows * row,
            scratch=rows * row + 8 * chunk.tokens + 20 * self._table_size(chunk.tokens) + 20 * self.n_words,
            device=rows * row + 12 * chunk.tokens + 8 * chunk.documents + 4 * self._table_size(chunk.tokens),
        )

    def begin(self, block: int) -> Arrays:
        """Small random vectors, and zeros; the rows of words that ``base`` knows are taken from there."""
        size = (self.bounds[block + 1] - self.bounds[block], kernels.padded(self.dimension))
        W_in, W_out = np.zeros(size, np.float32), np.zeros(size, np.float32)
        drawn = random.stream(random.key(self.seed, BEGIN, block), size[0] * self.dimension)
        uniform = (drawn >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
        W_in[:, : self.dimension] = (uniform / self.dimension).reshape(size[0], self.dimension)
        if self.base:
            base = Word2Vec.load(self.base)
            words = Corpus(self.corpus).vocabulary.slice(self.bounds[block], size[0])
            places = map_words(words, base.model_.vocabulary)
            for W, side in ((W_in, "W_in"), (W_out, "W_out")):
                W[places >= 0] = base.joined(side)[places[places >= 0]]
        return {"W_in": W_in, "W_out": W_out}

    def begin_shared(self) -> Arrays:
        """How often each word occurs, and that no token has been trained."""
        frequency = frequencies(Corpus(self.corpus), self.base)[: self.n_words]
        return {"frequency": frequency, "trained": np.int64(0)}

    @property
    def is_whole(self) -> bool:
        """Whether one shard trains all rows and hands on these, not their changes."""
        return self.shards == 1

    # --- a sweep ---

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Train the rows that one chunk needs, which begin as the shard's last chunk left them."""
        keys, frequency = random.stream(random.key(*address), 4), model.shared["frequency"]
        table = kernels.negative_words(frequency, self.ns_exponent, self._table_size(chunk.n_tokens), keys[0])
        ptr, words, places = kernels.subsample(self._documents(chunk), chunk.words, self._keep(frequency), keys[1])
        rows, (words, table) = self._numbered((words, table), deltas, self.is_whole)
        W = self._gather(model, rows, deltas)
        done = 0 if deltas is None else int(deltas[0]["tokens"])
        slope = (self.alpha - self.min_alpha) * self.together / max(1, self.tokens)
        alpha = self.alpha - slope * (int(model.shared["trained"]) / self.together + done)
        step = kernels.Step(self.window, self.negative, table, keys[2], keys[3], alpha, slope, self.min_alpha)
        self._train(kernels.Text(ptr, words, places), step, *W)
        if not self.is_whole:
            self._subtract(model, rows, W)
        stood = np.bincount(words, minlength=len(rows)).astype(np.float32)
        deltas = self._deltas(rows, (stood, *W), deltas, done + chunk.n_tokens)
        return Swept(None, deltas, {"tokens": np.int64(chunk.n_tokens)})

    def _table_size(self, tokens: int) -> int:
        return min(MOST_NEGATIVES, max(1 << 10, 1 << max(0, tokens - 1).bit_length()))

    def _keep(self, frequency: np.ndarray) -> np.ndarray:
        """The chance of each word of the corpus to stay, 0 for those that do not count: (V,) float32."""
        counted = frequency >= self.min_count
        keep = np.zeros(Corpus(self.corpus).n_words, np.float32)
        keep[: len(frequency)] = counted * kernels.keep_probability(frequency * counted, self.sample)
        return keep

    def _documents(self, chunk: Chunk) -> np.ndarray:
        return np.array([0, chunk.n_tokens]) if self.whole_chunks else chunk.doc_ptr

    def _numbered(
        self, lists: tuple[np.ndarray, ...], deltas: list[Arrays] | None = None, all_rows: bool = False
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the words of all lists, and of the deltas' rows, ascending; and the lists by their places there."""
        if all_rows:
            return np.arange(self.n_words, dtype=np.uint32), list(lists)
        needed = np.zeros(self.n_words, bool)
        for words in lists:
            needed[words] = True
        for first, delta in zip(self.bounds[:-1], deltas or (), strict=False):
            needed[delta["rows"].astype(np.int64) + first] = True
        numbers = (np.cumsum(needed) - 1).astype(np.uint32)
        return np.flatnonzero(needed).astype(np.uint32), [numbers[words] for words in lists]

    def _gather(self, model: Model, rows: np.ndarray, deltas: list[Arrays] | None) -> tuple[np.ndarray, ...]:
        """The given rows of W_in and W_out as the shard left them, which begins with the model's."""
        if deltas is not None and self.is_whole:
            return tuple(deltas[0][side] for side in SIDES)
        gathered = tuple(np.empty((len(rows), kernels.padded(self.dimension)), np.float32) for _ in SIDES)
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

    def _train(self, text: kernels.Text, step: kernels.Step, W_in: np.ndarray, W_out: np.ndarray) -> None:
        """Train on one thread, or on several that write to the same rows without locks (Hogwild)."""
        marks = np.arange(self.threads + 1) * (len(text.words) / self.threads)
        cuts = np.searchsorted(text.ptr, marks)
        cuts[0], cuts[-1] = 0, len(text.ptr) - 1
        parts = [slice(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        here = kernels_on("word2vec", self.device)
        if self.threads == 1 or here is not kernels:
            here.train(self.method, text, step, W_in, W_out)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(lambda part: kernels.train(self.method, text, step, W_in, W_out, part), parts))

    def _deltas(
        self, rows: np.ndarray, parts: tuple[np.ndarray, ...], before: list[Arrays] | None, tokens: int
    ) -> list[Arrays]:
        """Cut by blocks: how often each row's word stood in the text, and W_in and W_out."""
        named = dict(zip(("stood", *SIDES), parts, strict=True))
        nothing: Arrays = {"tokens": np.int64(tokens), "rows": rows[:0]} | {name: p[:0] for name, p in named.items()}
        deltas = [nothing] * self.blocks
        for j, part, mine in self._by_block(rows):
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
        changed = {side: delta[side] for side in SIDES}
        if not self.is_whole:
            changed = {side: block[side].copy() for side in SIDES}
            alpha = max(self.min_alpha, self.alpha * (1 - int(shared["trained"]) / max(1, self.tokens)))
            share = kernels.common_share(delta["stood"] * 2 * (self.window + 1), self.together, alpha)
            for side in SIDES:
                changed[side][delta["rows"]] += share[:, None] * delta[side]
        return changed, {"rows_changed": np.int64(len(delta["rows"]))}

    def finish(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
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
        targets, inputs = _neighbours(ptr, words, self.window, keys[1])
        others = kernels.negative_words(frequency, self.ns_exponent, len(targets) * self.negative, keys[2])
        others = others[np.argsort(random.stream(keys[2], len(others)))]
        rows, (targets, inputs, others) = self._numbered((targets, inputs, others))
        W_in, W_out = self._gather(model, rows, None)
        held = W_in[inputs]
        total = np.logaddexp(0, -np.einsum("nd,nd->n", held, W_out[targets])).sum(dtype=np.float64)
        for column in others.reshape(len(targets), self.negative).T:
            total += np.logaddexp(0, np.einsum("nd,nd->n", held, W_out[column])).sum(dtype=np.float64)
        return {"loss": np.float64(total), "pairs": np.int64(len(targets))}

    def rate(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Loss a pair of neighbours with its negatives, natural logarithm."""
        return {"held_out_loss" if held_out else "loss": float(sums["loss"] / max(1, sums["pairs"]))}

    def describe(self, model: Model, data: Any) -> list[str]:
        """The nearest neighbours of some frequent words, among the words of the first block."""
        names = data.vocabulary["word"].slice(0, self.bounds[1]).to_pylist()
        vectors = WordVectors(names, model.block(0)["W_in"][:, : self.dimension])
        some = names[min(100, len(names) // 2) :][:12]
        near = ((word, vectors.most_similar(word, topn=6, restrict_vocab=20_000)) for word in some)
        return [f"{word:>16}  " + " ".join(other for other, _ in found) for word, found in near]


def frequencies(corpus: Corpus, base: str = "") -> np.ndarray:
    """Return how often each word of the corpus occurs, in it and in what ``base`` was trained on: (V,) int64."""
    frequency = corpus.vocabulary["term_frequency"].to_numpy().astype(np.int64)
    if base:
        before = Word2Vec.load(base).model_.vocabulary
        places = map_words(corpus.vocabulary, before)
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


class Word2Vec(TextEstimator):
    """Word2Vec by skip-gram with negative sampling, out of core on Dask. Names and meanings as in gensim.

    ``vector_size``, ``window``, ``min_count``, ``negative``, ``ns_exponent``, ``sample``, ``alpha``, ``min_alpha``,
    ``epochs``, ``seed``: gensim's. ``method``: "par" (attraction, then repulsion from negatives that 24 words share),
    "full" (negatives of a window; its width is fixed at half of ``window``) or "sgns" (one pair at a time, as in the
    original). ``ignore_sentence_ends``: windows reach from one document into the next of its chunk. ``threads``:
    threads of one sweep, which share the model without locks; with one, the same call gives the same bits.
    ``shards_per_round``: shards trained from the same model, on as many workers, before their changes are joined; 1 is
    one after the other. ``n_blocks``: cut the model into blocks of words, read one at a time. ``device``: "auto" trains
    on the worker's CUDA device where it has one, whose blocks of threads share the model without locks.

    CBOW and hierarchical softmax are not offered: neither fits the products that make this fast.
    """

    kind = "word2vec"

    def __init__(
        self,
        vector_size: int = 100,
        window: int = 5,
        min_count: int = 5,
        negative: int = 5,
        ns_exponent: float = 0.75,
        sample: float = 1e-3,
        alpha: float = 0.025,
        min_alpha: float = 0.0001,
        epochs: int = 5,
        seed: int = 1,
        method: str = "par",
        ignore_sentence_ends: bool = False,
        threads: int = 1,
        shards_per_round: int = 1,
        n_blocks: int = 1,
        device: str = "auto",
    ):
        self.vector_size = vector_size
        self.window = window
        self.min_count = min_count
        self.negative = negative
        self.ns_exponent = ns_exponent
        self.sample = sample
        self.alpha = alpha
        self.min_alpha = min_alpha
        self.epochs = epochs  # type: ignore[assignment, method-assign]
        self.seed = seed
        self.method = method
        self.ignore_sentence_ends = ignore_sentence_ends
        self.threads = threads
        self.shards_per_round = shards_per_round
        self.n_blocks = n_blocks
        self.device = device

    @property
    def random_state(self) -> int:
        """The seed, as other estimators call it."""
        return self.seed

    def planned_epochs(self) -> int:
        """Epochs to train."""
        return self.epochs  # type: ignore[return-value]

    def algorithm(self, data: Corpus) -> SkipGram:
        """Return the algorithm for a corpus; raise ValueError for parameters, DataError for what has no windows."""
        self._check()
        n_words = self._check_corpus(data, frequencies(data, self._base))
        # Shards one after the other might as well be one, and save the commits between them, if its rows may be many.
        most = 1 if self.shards_per_round == self.n_blocks == 1 else None
        shards = len(shards_of(data.chunks, most))
        together = min(self.shards_per_round, shards)
        return SkipGram(
            corpus=data.url,
            base=self._base,
            method=self.method,
            dimension=self.vector_size,
            window=self.window,
            negative=self.negative,
            ns_exponent=self.ns_exponent,
            sample=self.sample,
            min_count=self.min_count,
            alpha=self.alpha,
            min_alpha=self.min_alpha,
            whole_chunks=self.ignore_sentence_ends,
            threads=self.threads,
            seed=self.seed,
            tokens=self.planned_epochs() * data.n_tokens,
            together=together,
            shards=most,
            rounds=math.ceil(shards / together),
            bounds=tuple(int(b) for b in np.linspace(0, n_words, min(self.n_blocks, n_words) + 1)),
            device=choose(self.device, self.method != "sgns", f"method {self.method!r}"),
        )

    def _check(self) -> None:
        for name in ("vector_size", "window", "min_count", "negative", "threads", "shards_per_round", "n_blocks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 1 or more")
        if self.planned_epochs() < 1:
            raise ValueError(f"epochs is {self.epochs}: choose 1 or more")
        if self.method not in kernels.METHODS:
            raise ValueError(f"method is {self.method!r}: choose one of {', '.join(kernels.METHODS)}")
        if not 0 <= self.min_alpha <= self.alpha < 1 or self.alpha == 0:
            raise ValueError(f"alpha is {self.alpha}, min_alpha {self.min_alpha}: they fall from below 1, not below 0")
        if not 0 <= self.sample < 1 or not math.isfinite(self.ns_exponent):
            raise ValueError(f"sample is {self.sample}, ns_exponent {self.ns_exponent}: sample lies in 0 to 1")

    def _check_corpus(self, data: Corpus, frequency: np.ndarray) -> int:
        """Return how many words have rows: up to the last one that occurs often enough."""
        if not data.is_ordered:
            raise DataError(f"{data.url}: a bag of words, whose words have no neighbours: ingest the text itself")
        counted = np.flatnonzero(frequency >= self.min_count)
        if not len(counted):
            most = frequency.max(initial=0)
            raise DataError(
                f"{data.url}: no word occurs {self.min_count} times (the most frequent one does {most} times): "
                f"lower min_count, or ingest more text"
            )
        if not self.ignore_sentence_ends and max((c.longest for c in data.chunks), default=0) < 2:
            raise DataError(
                f"{data.url}: no document has two words, so that no word has a neighbour: ingest longer documents, or "
                f"set ignore_sentence_ends"
            )
        return int(counted[-1]) + 1

    def fit(  # type: ignore[override]
        self, data: Any, client: Any | None = None, *, evaluate_every: int = 1, **options: Any
    ) -> Self:
        """Train as ``Estimator.fit`` does; the loss is measured after every epoch."""
        return super().fit(data, client, evaluate_every=evaluate_every, **options)

    def joined_with(self, old: Fitted) -> None:
        """Keep the vectors of words that did not occur again. Frequencies are those of all documents so far."""
        self.model_ = _joined_models(old, self.model_)
        self.loaded()

    # --- the trained model ---

    def loaded(self) -> None:
        """Leave out words that occur too rarely, count all documents so far, forget vectors of an earlier model."""
        model = self.model_
        frequency = model.shared["frequency"]
        counted = np.flatnonzero(frequency >= self.min_count)
        table = model.vocabulary.take(counted)
        column = table.column_names.index("term_frequency")
        table = table.set_column(column, "term_frequency", pa.array(frequency[counted]))
        rows = {side: _rows(model, side) for side in SIDES}
        block = rows if len(counted) == len(frequency) else {side: W[counted] for side, W in rows.items()}
        self.model_ = Fitted([block], model.shared | {"frequency": frequency[counted]}, table, model.about)
        self._wv: WordVectors | None = None

    def joined(self, side: str) -> np.ndarray:
        """Return W_in or W_out of all words, padding included: (V, padded D) float32."""
        return _rows(self._fitted(), side)

    @property
    def wv(self) -> WordVectors:
        """The vectors of the words, to look up and to compare."""
        if self._fitted() and self._wv is None:
            self._wv = WordVectors(self.words_, self.joined("W_in")[:, : self.vector_size])
        return self._wv  # type: ignore[return-value]

    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the mean of the vectors of each document's words: (documents, D) float32."""
        found = np.zeros((len(doc_ptr) - 1, self.vector_size), np.float32)
        for d, (lo, hi) in enumerate(zip(doc_ptr[:-1], doc_ptr[1:], strict=True)):
            if lo < hi:
                found[d] = self.wv.vectors[words[lo:hi]].mean(axis=0)
        return found

    def score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Raise ValueError: negative sampling gives documents no likelihood."""
        raise ValueError("word vectors give documents no likelihood: see evaluate, or held_out_loss in history_")

    def evaluate(self, pairs: str | None = None, analogies: str | None = None) -> dict[str, Any]:
        """Judge the vectors by files of word pairs or analogies; see word_evaluation. Raises DataError."""
        from .word_evaluation import evaluate_analogies, evaluate_pairs

        found: dict[str, Any] = {}
        if pairs is not None:
            found["pairs"] = evaluate_pairs(self.wv, pairs)
        if analogies is not None:
            found["analogies"] = evaluate_analogies(self.wv, analogies)
        return found


def _rows(model: Fitted, side: str) -> np.ndarray:
    parts: Iterable[np.ndarray] = (block[side] for block in model.blocks)
    return model.blocks[0][side] if len(model.blocks) == 1 else np.concatenate(list(parts))


def _joined_models(old: Fitted, new: Fitted) -> Fitted:
    """The new model, and the words of the old one that it does not have, in the order of frequency."""
    apart = np.flatnonzero(map_words(old.vocabulary, new.vocabulary) < 0)
    names = ["word", "term_frequency", "document_frequency"]
    tables = [t.select(names).cast(new.vocabulary.select(names).schema) for t in (new.vocabulary, old.vocabulary)]
    table = pa.concat_tables([tables[0], tables[1].take(apart)])
    table = rank(table.append_column("row", pa.array(np.arange(table.num_rows))))
    order = table["row"].to_numpy()
    block = {side: np.concatenate([_rows(new, side), _rows(old, side)[apart]])[order] for side in SIDES}
    frequency = table["term_frequency"].to_numpy().astype(np.int64)
    return Fitted([block], new.shared | {"frequency": frequency}, table.drop_columns("row"), new.about)
