"""Random indexing: the algorithm for the engine, and the estimator."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from ...io.corpus import Chunk, Corpus
from ...io.store import Arrays, DataError, Store
from ...io.vocabulary import rank, stop_list
from ...kernels import random
from ...kernels import random_indexing as ri
from ..engine.algorithm import Address, Algorithm, Model, Need, Swept
from ..engine.device import choose, kernels
from .corpora import TextEstimator, map_words
from .estimator import Fitted
from .vectors import WordVectors

#: Positions of a seed are 16 bits wide.
MAX_DIMENSION = 1 << 16
#: Dimension by vocabulary when it is "auto": below so many words, that many. The paper took 2048 for 97,335 words.
DIMENSIONS = ((5_000, 512), (50_000, 1024), (500_000, 2048))
LARGEST_AUTO = 4096
CONTEXTS = ("words", "documents")
DOCUMENT_WEIGHTS = ("none", "idf", "entropy")
#: Words that ``describe`` shows, and the most frequent ones among which it looks for their neighbours.
DESCRIBED, DESCRIBED_AMONG = 5, 5_000
#: Columns of the model's statistics of a word.
FREQUENCY, DOCUMENTS, INFORMATION = 0, 1, 2


@dataclass(frozen=True)
class Indexing(Algorithm):
    """Random indexing (algorithm 4.1 of the paper). Epoch 1 has sparse seeds, each further one the last one's rows.

    No state. Model: sums (rows, D) int32 and statistics (rows, 3) int64 by block, and vectors (rows, D) float32 once
    retrained; shared: words' hashes and which words count. Deltas hold the rows of the chunks' words alone.
    """

    name: ClassVar[str] = "random-indexing"
    keeps_state: ClassVar[bool] = False
    corpus: str = ""  # where the words stand
    n_words: int = 0
    dimension: int = 2048
    seed_length: int = 10
    radius: int = 5
    order: str = "permutation"
    weighting: str = "uniform"
    contexts: str = "words"
    min_count: int = 1
    max_count: int | None = None
    stop_words: tuple[str, ...] = ()
    bounds: tuple[int, ...] = ()  # first word of each block, then n_words
    only: int = 0  # the block that a sweep sums
    device: str = "cpu"

    @property
    def blocks(self) -> int:  # type: ignore[override]
        """Blocks of words."""
        return len(self.bounds) - 1

    @property
    def parts(self) -> int:  # type: ignore[override]
        """A block a task: the rows of all blocks that a chunk changes can be as many as its tokens."""
        return self.blocks

    def part(self, index: int) -> "Indexing":
        """Sum one block's rows alone; the documents are counted with the first."""
        return replace(self, only=index)

    @property
    def window(self) -> ri.Window:
        """Neighbours that count."""
        return ri.IN_PLACE if self.contexts == "documents" else ri.make_window(self.radius, self.order, self.weighting)

    def need(self, data: Any, chunk: Any) -> Need:
        """Bytes of one sweep: the chunk padded and by word, a row a word of the chunk, a block's rows as seeds."""
        row = 4 * self.dimension
        of_block = -(-self.n_words // self.blocks)
        rows = min(of_block, chunk.segments)
        text = 4 * (chunk.tokens + self.radius * (chunk.documents + 1))
        lists = 8 * 2 * self.radius * min(chunk.tokens, ri.BATCH) + 8 * self.radius * ri.LINE
        return Need(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            model=2 * of_block * row + 9 * self.n_words,
            # Its own, another one, one that waits to be merged, and a block of a sum.
            delta=(3 * rows + min(2 * rows, of_block)) * (row + 28),
            scratch=text + 4 * chunk.tokens + lists + rows * row + 8 * self.n_words,
            # Sums, sums of pieces, a block's rows and these as seeds.
            device=text
            + 4 * chunk.tokens
            + 2 * rows * row
            + 2 * of_block * row
            + 4 * self.seed_length * chunk.segments,
        )

    def begin(self, block: int) -> Arrays:
        """How many rows there will be."""
        return {"size": np.int64(self.bounds[block + 1] - self.bounds[block])}

    def begin_shared(self) -> Arrays:
        """Words' hashes, and which words count."""
        vocabulary = Corpus(self.corpus).vocabulary
        words, frequency = vocabulary["word"].to_pylist(), vocabulary["term_frequency"].to_numpy()
        stop = set(self.stop_words)
        kept = (frequency >= self.min_count) & np.fromiter((w not in stop for w in words), bool, len(words))
        if self.max_count is not None:
            kept &= frequency <= self.max_count
        return {"hashes": ri.hash_words(words), "kept": kept, "documents": np.int64(0)}

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Sum the contexts of one chunk's words of one block."""
        reach = 0 if self.contexts == "documents" else self.radius
        tokens = ri.localise(chunk, model.shared["kept"], reach)
        first, last = self.bounds[self.only : self.only + 2]
        lo, hi = (int(i) for i in np.searchsorted(tokens.ids, (first, last)))
        ids, focus = tokens.ids[lo:hi], tokens._replace(ptr=tokens.ptr[lo : hi + 1])
        if address.epoch == 1:
            sums = self._sweep_sparse(model.shared, chunk, focus, random.key(address.seed))
            statistics = ri.statistics(ids, chunk.word_ids, chunk.word_ptr, chunk.docs)
            swept = {"sums": sums, "statistics": statistics}
        else:
            swept = {"sums": self._sweep_dense(model, focus)}
        delta = {"rows": ids - np.uint32(first)} | swept
        documents = {} if self.only else {"documents": np.int64(chunk.n_documents)}
        return Swept(None, [delta if deltas is None else self.merge(deltas[0], delta)], documents)

    def _sweep_sparse(self, shared: Arrays, chunk: Chunk, focus: ri.Tokens, salt: np.uint64) -> np.ndarray:
        if self.contexts == "documents":
            focus = focus._replace(text=ri.documents_as_text(chunk))
            hashes = ri.document_hashes(chunk.doc_ptr, chunk.words, shared["hashes"])
        else:
            hashes = shared["hashes"][focus.ids]
        seeds = ri.make_seeds(hashes, salt, self.dimension, self.seed_length // 2)
        try:
            return kernels("random_indexing", self.device).accumulate(focus, self.window, seeds, self.dimension)
        except OverflowError as error:
            raise DataError(f"chunk {chunk.number}: {error}") from None

    def _sweep_dense(self, model: Model, focus: ri.Tokens) -> np.ndarray:
        out = np.zeros((len(focus.ptr) - 1, self.dimension), np.float32)
        cuts, dense = np.searchsorted(focus.ids, self.bounds), kernels("random_indexing", self.device)
        for j, (lo, hi) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            if lo < hi:
                rows = focus.ids[lo:hi] - np.uint32(self.bounds[j])
                slabs = dense.make_slabs(_last_pass(model.block(j)), rows)
                dense.accumulate_dense(focus, self.window, slabs, int(lo), out)
        return out

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add rows of words, integers exactly. Raises DataError when a sum passes 32 bits."""
        rows = np.union1d(left["rows"], right["rows"])
        return {"rows": rows} | {k: _sum_rows(rows, (left, right), k) for k in left if k != "rows"}

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Epoch 1 makes sums and statistics, a further one the vectors. Totals: rows that are there."""
        size = len(block["sums"]) if "sums" in block else int(block["size"])
        summed = {k: _sum_rows(np.arange(size), (delta,), k) for k in delta if k != "rows"}
        totals = {"rows": np.int64(len(delta["rows"]))}
        return (block | {"vectors": summed["sums"]} if "sums" in block else summed), totals

    def finish(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """Count the documents; say the dimension, which may have been chosen."""
        return shared | sums, {"words_indexed": float(totals["rows"]), "dimension": float(self.dimension)}

    def describe(self, model: Model, data: Any) -> list[str]:
        """Return a few words with their nearest among the most frequent ones."""
        rows = _last_pass(model.block(0))[:DESCRIBED_AMONG]
        kept = np.flatnonzero(model.shared["kept"][: len(rows)])
        wv = WordVectors(data.vocabulary["word"].take(kept).to_pylist(), rows[kept])
        ranks = np.geomspace(1 + len(kept) // 50, max(1, len(kept)), DESCRIBED).astype(int)
        words = [wv.index_to_key[i] for i in np.unique(ranks) - 1] if len(kept) else []
        return [f"{word}: {' '.join(near for near, _ in wv.most_similar(word, topn=8))}" for word in words]


def _last_pass(block: Arrays) -> np.ndarray:
    return block["vectors"] if "vectors" in block else block["sums"]


def _sum_rows(rows: np.ndarray, deltas: tuple[Arrays, ...], name: str) -> np.ndarray:
    """Add what deltas have in the rows ``rows`` (ascending): (rows, columns)."""
    first = deltas[0][name]
    out = np.zeros((len(rows), first.shape[1]), first.dtype)
    for delta in deltas:
        places = np.searchsorted(rows, delta["rows"])
        if first.dtype == np.float32:
            out[places] += delta[name]
        else:
            _exactly(ri.add_rows(out, places, delta[name], 1))
    return out


def _exactly(exact: bool) -> None:
    if not exact:
        raise DataError("a sum passes 2^31 - 1: leave out the most frequent words (stop_words, max_count)")


class RandomIndexing(TextEstimator):
    """Random indexing: exact sums of rotated seeds, which grow, shrink and merge without drift.

    ``dimension``: numbers in a vector, or "auto": by the size of the vocabulary, stated in ``history_``. ``window``:
    words to each side. ``seed_length``: positions of a seed that are not zero, half of them +1 and half -1.
    ``order``: "permutation" rotates a neighbour's seed by its offset, "direction" by the offset's sign, "none" not at
    all. ``retrain``: further passes with the last pass's normalised vectors as seeds. ``normalize``: vectors of length
    one. ``weighting``: of neighbours, "uniform", or "linear" in the distance. ``contexts``: "words", or "documents": a
    word is the sum of its documents' seeds, which needs no order of words. ``min_count``, ``max_count``,
    ``stop_words``: words outside are null terms, which have no vector and add nothing. ``document_weights``: of words
    in a document's vector, "none", "idf" or "entropy". ``n_blocks``: cut the model into blocks of words, of which a
    retraining sweep holds one at a time. ``device``: "auto" sums on the worker's CUDA device where it has one, the same
    sums to the bit.
    """

    kind = "random-indexing"
    #: What documents are summed from, and the model that it was made of.
    _document_terms: tuple[Any, ...] | None = None

    def __init__(
        self,
        dimension: int | str = 2048,
        window: int = 5,
        seed_length: int = 10,
        order: str = "permutation",
        retrain: int = 0,
        normalize: bool = True,
        random_state: int | None = 0,
        weighting: str = "uniform",
        contexts: str = "words",
        min_count: int = 1,
        max_count: int | None = None,
        stop_words: str | list[str] | None = None,
        document_weights: str = "none",
        n_blocks: int = 1,
        device: str = "auto",
    ):
        self.dimension = dimension
        self.window = window
        self.seed_length = seed_length
        self.order = order
        self.retrain = retrain
        self.normalize = normalize
        self.random_state = random_state
        self.weighting = weighting
        self.contexts = contexts
        self.min_count = min_count
        self.max_count = max_count
        self.stop_words = stop_words
        self.document_weights = document_weights
        self.n_blocks = n_blocks
        self.device = device

    def planned_epochs(self) -> int:
        """One pass with sparse seeds, then the retraining."""
        return 1 + self.retrain

    def algorithm(self, data: Corpus) -> Indexing:
        """Return the algorithm for a corpus; raise ValueError for parameters, DataError for a corpus without order."""
        self._check()
        if self.contexts == "words" and not data.is_ordered:
            raise DataError(
                f"{data.url}: a bag of words, whose words have no neighbours: ingest text, or set order='none' and "
                f"contexts='documents'"
            )
        return Indexing(
            corpus=Store(data.url).absolute,
            n_words=data.n_words,
            dimension=_dimension(data.n_words) if self.dimension == "auto" else int(self.dimension),
            seed_length=self.seed_length,
            radius=self.window,
            order=self.order,
            weighting=self.weighting,
            contexts=self.contexts,
            min_count=self.min_count,
            max_count=self.max_count,
            stop_words=tuple(stop_list(self.stop_words)),  # type: ignore[arg-type]
            device=choose(self.device, True, "random indexing"),
            bounds=tuple(int(b) for b in np.linspace(0, data.n_words, min(self.n_blocks, data.n_words) + 1)),
        )

    def _check(self) -> None:
        for name in ("window", "n_blocks", "min_count"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 1 or more")
        if self.retrain < 0:
            raise ValueError(f"retrain is {self.retrain}: choose 0 or more further passes")
        if self.seed_length < 2 or self.seed_length % 2:
            raise ValueError(f"seed_length is {self.seed_length}: choose an even number, half +1 and half -1")
        if self.dimension != "auto" and not 2 * self.seed_length <= int(self.dimension) <= MAX_DIMENSION:
            raise ValueError(
                f"dimension is {self.dimension}: choose 'auto' or {2 * self.seed_length} (twice seed_length) to "
                f"{MAX_DIMENSION}"
            )
        choices = {"order": ri.ORDERS, "weighting": ri.WEIGHTINGS, "contexts": CONTEXTS}
        for name, known in (choices | {"document_weights": DOCUMENT_WEIGHTS}).items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose one of {', '.join(known)}")
        if self.contexts == "documents" and (self.order != "none" or self.retrain):
            raise ValueError("contexts='documents' have neither order nor retraining: set order='none' and retrain=0")

    # --- the trained model ---

    def loaded(self) -> None:
        """Forget vectors of an earlier model."""
        self._wv: WordVectors | None = None

    @property
    def n_components(self) -> int:
        """D, as other estimators call it."""
        return self._fitted().block(0)["sums"].shape[1]

    @property
    def wv(self) -> WordVectors:
        """The vectors of the words that count, to look up and to compare."""
        if self._fitted() and self._wv is None:
            words = np.array(self.words_, dtype=object)[self._counted()]
            self._wv = WordVectors(words.tolist(), self._vectors()[self._counted()])
        return self._wv  # type: ignore[return-value]

    def _counted(self) -> np.ndarray:
        return self._joined("statistics")[:, FREQUENCY] > 0

    def _joined(self, name: str) -> np.ndarray:
        blocks = self._fitted().blocks
        return blocks[0][name] if len(blocks) == 1 else np.concatenate([block[name] for block in blocks])

    def _vectors(self) -> np.ndarray:
        """The (V, D) float32 vectors in the order of ``words_``."""
        rows = [_last_pass(block) for block in self._fitted().blocks]
        return np.concatenate([ri.normalised(r) if self.normalize else r.astype(np.float32) for r in rows])

    # --- documents ---

    def _weights(self) -> np.ndarray:
        """Weight of each word in a document's vector: (V,) float32."""
        statistics, n_documents = self._joined("statistics"), int(self._fitted().shared["documents"])
        if self.document_weights == "none":
            return np.ones(len(statistics), np.float32)
        if self.document_weights == "idf":
            return np.log((1 + n_documents) / (1 + statistics[:, DOCUMENTS])).astype(np.float32)
        # 1 - H / log D, where H = log f - (sum of tf log tf) / f is the entropy of a word over documents (log 2).
        frequency = np.maximum(statistics[:, FREQUENCY], 1)
        entropy = np.log2(frequency) - statistics[:, INFORMATION] / (ri.INFORMATION_UNIT * frequency)
        return (1 - entropy / max(1.0, np.log2(max(2, n_documents)))).astype(np.float32)

    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Sum the weighted vectors of documents' words: (documents, D) float32."""
        if self._document_terms is None or self._document_terms[0] is not self.model_:
            self._document_terms = (self.model_, self._weights(), self._vectors())
        _, weights, vectors = self._document_terms
        rows = ri.sum_documents(doc_ptr, words, weights, vectors)
        return ri.normalised(rows) if self.normalize else rows

    def score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Raise ValueError: sums of seeds give documents no likelihood."""
        raise ValueError("random indexing gives documents no likelihood: compare their vectors instead")

    def document_vectors(self, data: Any, client: Any | None = None) -> WordVectors:
        """Return the vectors of documents by their keys, to compare with each other and with ``query``."""
        corpus = self.open(data)
        return WordVectors(corpus.documents["key"].to_pylist(), self.transform(corpus, client))

    def query(self, words: list[str]) -> np.ndarray:
        """Return the vector (D,) float32 of a few words, as of a document; raise KeyError if none is known."""
        places = map_words(pa.table({"word": words}), self._fitted().vocabulary)
        known = places[places >= 0].astype(np.uint32)
        if not len(known):
            raise KeyError(f"none of {', '.join(words)} is among the words of this model")
        return self.transform_chunk(np.array([0, len(known)]), known, np.empty(0, np.uint64))[0]

    # --- growing and shrinking ---

    def partial_fit(self, data: Any, client: Any | None = None, run: str | None = None, **options: Any) -> Self:
        """Add documents: the model is then that of all documents together, to the bit. Raises as ``merge``."""
        if getattr(self, "model_", None) is None:
            return self.fit(data, client, run=run, **options)
        return self._become(self._combined(self._trained_on(data, client, run=run, **options), 1))

    def forget(self, data: Any, client: Any | None = None, **options: Any) -> Self:
        """Take documents out again: the model is then as if they had never been there, to the bit.

        Raises DataError when they cannot have been there; otherwise as ``merge``.
        """
        return self._become(self._combined(self._trained_on(data, client, **options), -1))

    def merge(self, other: "RandomIndexing") -> "RandomIndexing":
        """Return the model of both models' documents, to the bit as if trained on all of them.

        Raises ValueError for models of other parameters or seeds, retrained ones, and ones with cut-offs by count.
        """
        merged = type(self)(**self.get_params())
        return merged._become(self._combined(other, 1))

    def _trained_on(self, data: Any, client: Any | None, **options: Any) -> "RandomIndexing":
        self._check_additive(self)
        parameters = self.get_params() | {"dimension": self.n_components}
        return type(self)(**parameters).fit(data, client, **options)

    def _become(self, model: Fitted) -> Self:
        self.model_, self.history_, self.n_iter_ = model, [], 1
        self.loaded()
        return self

    def _check_additive(self, other: "RandomIndexing") -> None:
        apart = {"dimension", "retrain", "normalize", "document_weights", "n_blocks", "device"}
        for name, value in self.get_params().items():
            if name not in apart and value != getattr(other, name):
                raise ValueError(
                    f"{name} is {value!r} here and {getattr(other, name)!r} there: such sums do not add up"
                )
        if self.n_components != other.n_components:
            raise ValueError(f"dimension is {self.n_components} here and {other.n_components} there")
        if self.retrain or other.retrain:
            raise ValueError("retrained vectors depend on all documents: train with retrain=0 to add and take away")
        if self.min_count > 1 or self.max_count is not None:
            raise ValueError("min_count and max_count depend on all documents: use stop_words to add and take away")

    def _combined(self, other: "RandomIndexing", sign: int) -> Fitted:
        self._check_additive(other)
        words, sides = _aligned(self.words_, other.words_)
        sums, statistics = (
            _combine(len(words), sides, self._joined(k), other._joined(k), sign) for k in ("sums", "statistics")
        )
        documents = self.model_.shared["documents"] + sign * other.model_.shared["documents"]
        if documents < 0 or statistics.min(initial=0) < 0:
            raise DataError("these documents are not all in the model: only what was added can be taken away")
        columns = {"term_frequency": statistics[:, FREQUENCY], "document_frequency": statistics[:, DOCUMENTS]}
        table = pa.table({"word": pa.array(words, pa.large_string()), **columns, "row": np.arange(len(words))})
        table = rank(table.filter(pa.array(statistics[:, FREQUENCY] > 0)))
        order = table["row"].to_numpy()
        table = table.drop_columns("row")
        shared = {
            "hashes": ri.hash_words(table["word"].to_pylist()),
            "kept": np.ones(len(order), bool),
            "documents": np.asarray(documents),
        }
        block = {"sums": sums[order], "statistics": statistics[order]}
        return Fitted([block], shared, table, {"data": "", "data_hash": "", "step": 1, "metrics": []})


def _dimension(n_words: int) -> int:
    return next((dimension for below, dimension in DIMENSIONS if n_words < below), LARGEST_AUTO)


def _aligned(left: list[str], right: list[str]) -> tuple[list[str], tuple[np.ndarray, np.ndarray]]:
    """Return the words of either list, and the places in it of the words of each."""
    numbers = {word: i for i, word in enumerate(dict.fromkeys(left + right))}
    return list(numbers), tuple(np.array([numbers[w] for w in words], np.int64) for words in (left, right))  # type: ignore[return-value]


def _combine(
    n: int, places: tuple[np.ndarray, np.ndarray], left: np.ndarray, right: np.ndarray, sign: int
) -> np.ndarray:
    out = np.zeros((n, left.shape[1]), left.dtype)
    out[places[0]] = left
    _exactly(ri.add_rows(out, places[1], right, sign))
    return out
