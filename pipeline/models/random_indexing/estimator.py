"""Random indexing: the estimator. Its algorithm is in ``indexing``."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays, DataError
from ....io.text.vocabulary import rank, stop_list
from ....kernels.random_indexing import accumulate as ri
from ....kernels.random_indexing import text as ri_text
from ...engine.device import resolve_device
from ..base.blocks import equal_blocks
from ..base.estimator import FitOptions
from ..base.saved import Fitted, SavedModel
from ..base.text import TextEstimator
from ..base.vectors import WordVectors
from .algorithm import Indexing, exactly, last_pass

if TYPE_CHECKING:
    from distributed import Client

#: Positions of a seed are 16 bits wide.
MAX_DIMENSION = 1 << 16
#: Dimension by vocabulary when it is "auto": below so many words, that many. The paper took 2048 for 97,335 words.
DIMENSIONS = ((5_000, 512), (50_000, 1024), (500_000, 2048))
LARGEST_AUTO = 4096
CONTEXTS = ("words", "documents")
DOCUMENT_WEIGHTS = ("none", "idf", "entropy")
#: Columns of the model's statistics of a word.
FREQUENCY, DOCUMENTS, INFORMATION = 0, 1, 2


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

    def seed_number(self) -> int:
        """Return the seed of all random draws."""
        return int(self.random_state or 0)

    def algorithm(self, data: Corpus, previous: SavedModel | None = None) -> Indexing:
        """Return the algorithm for a corpus; raise ValueError for parameters, DataError for a corpus without order."""
        self._check()
        if self.contexts == "words" and not data.is_ordered:
            raise DataError(
                f"{data.url}: a bag of words, whose words have no neighbours: ingest text, or set order='none' and "
                f"contexts='documents'"
            )
        n_blocks = min(self.n_blocks, data.n_words)
        return Indexing(
            # One task per block: the rows of all blocks that a chunk changes can be as many as its tokens.
            n_ranges=n_blocks,
            dimension=_dimension(data.n_words) if self.dimension == "auto" else int(self.dimension),
            seed_length=self.seed_length,
            radius=self.window,
            order=self.order,
            weighting=self.weighting,
            contexts=self.contexts,
            min_count=self.min_count,
            max_count=self.max_count,
            stop_words=tuple(stop_list(self.stop_words)),  # type: ignore[arg-type]
            device=resolve_device(self.device, True, "random indexing"),
            bounds=equal_blocks(data.n_words, n_blocks),
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
        choices = {"order": ri_text.ORDERS, "weighting": ri_text.WEIGHTINGS, "contexts": CONTEXTS}
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
            counted = self._counted()
            words = np.array(self.words_, dtype=object)[counted]
            counts = self._joined("statistics")[counted, FREQUENCY]
            self._wv = WordVectors(words.tolist(), self._vectors()[counted], counts)
        return self._wv  # type: ignore[return-value]

    def _counted(self) -> np.ndarray:
        return self._joined("statistics")[:, FREQUENCY] > 0

    def _joined(self, name: str) -> np.ndarray:
        blocks = self._fitted().blocks
        return blocks[0][name] if len(blocks) == 1 else np.concatenate([block[name] for block in blocks])

    def _vectors(self) -> np.ndarray:
        """The (V, D) float32 vectors in the order of ``words_``."""
        rows = [last_pass(block) for block in self._fitted().blocks]
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
        entropy = np.log2(frequency) - statistics[:, INFORMATION] / (ri_text.INFORMATION_UNIT * frequency)
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

    def document_vectors(self, X: Any, *, client: "Client | None" = None) -> WordVectors:
        """Return the vectors of documents by their keys, to compare with each other and with ``query``."""
        corpus = self.open(X)
        return WordVectors(corpus.documents["key"].to_pylist(), self.transform(corpus, client=client))

    # --- growing and shrinking ---

    def _continue(self, X: Any, options: FitOptions) -> Self:
        """Add documents: the model is then that of all documents together, to the bit. Raises as ``merge``."""
        if getattr(self, "model_", None) is None:
            return self._train(X, options, None)
        return self._become(self._combined(self._trained_on(X, options), 1))

    def forget(self, X: Any, *, client: "Client | None" = None, **options: Any) -> Self:
        """Take documents out again: the model is then as if they had never been there, to the bit.

        Raises DataError when they cannot have been there; otherwise as ``merge``.
        """
        return self._become(self._combined(self._trained_on(X, FitOptions(client=client, **options)), -1))

    def merge(self, other: "RandomIndexing") -> "RandomIndexing":
        """Return the model of both models' documents, to the bit as if trained on all of them.

        Raises ValueError for models of other parameters or seeds, retrained ones, and ones with cut-offs by count.
        """
        merged = type(self)(**self.get_params())
        return merged._become(self._combined(other, 1))

    def _trained_on(self, X: Any, options: FitOptions) -> "RandomIndexing":
        self._check_additive(self)
        parameters = self.get_params() | {"dimension": self.n_components}
        return type(self)(**parameters)._train(X, options, None)

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
        documents = self._fitted().shared["documents"] + sign * other._fitted().shared["documents"]
        if documents < 0 or statistics.min(initial=0) < 0:
            raise DataError("these documents are not all in the model: only what was added can be taken away")
        columns = {"term_frequency": statistics[:, FREQUENCY], "document_frequency": statistics[:, DOCUMENTS]}
        table = pa.table({"word": pa.array(words, pa.large_string()), **columns, "row": np.arange(len(words))})
        table = rank(table.filter(pa.array(statistics[:, FREQUENCY] > 0)))
        order = table["row"].to_numpy()
        table = table.drop_columns("row")
        shared = {
            "hashes": ri_text.hash_words(table["word"].to_pylist()),
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
    exactly(ri.add_rows(out, places[1], right, sign))
    return out
