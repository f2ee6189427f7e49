"""The estimator NMF: non-negative matrix factorisation with scikit-learn's names."""

import os
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix, write_matrix
from ....io.stores.open import open_data
from ....io.stores.store import Arrays, DataError
from ....io.text.vocabulary import merge_vocabularies
from ....kernels.nmf import hals as nmf
from ...engine.algorithm import Address, add
from ...engine.device import resolve_device
from ...ingest.ingest import corpus_from
from ..base.blocks import equal_blocks
from ..base.document_completion import select_tokens, split_mask
from ..base.inputs import InputMatrix, is_matrix, read_matrix
from ..base.saved import Fitted, SavedModel
from ..base.text import TextEstimator
from ..base.topics import Topic, TopicModel
from ..base.vectors import WordVectors
from .algorithm import HALS, heaviest
from .kullback_leibler import Divergence

#: Components whose rows fit a block's shared memory on most CUDA devices.
MOST_ON_DEVICE = 600
#: Share of a document's words that a score leaves to their overall frequency.
BACKGROUND = 0.05

if TYPE_CHECKING:
    from distributed import Client


class NMF(TextEstimator, TopicModel):
    """Non-negative matrix factorisation, out of core on Dask. Parameters as in scikit-learn's NMF, and:

    ``solver``: "hals" (FAST-HALS), "mu" (multiplicative, also for ``beta_loss="kullback-leibler"``) or "anls".
    ``order``: "separable" takes each entry to its best (scikit-learn's coordinate descent); "paper" is Algorithm 1 of
    ALO-NMF, which normalises W on the way.
    ``sweeps``: sweeps over a factor while its products are at hand. ``extrapolate``: each epoch starts beyond the W of
    the last one, along its step; where the error has risen, from W itself. To the error of 50 plain epochs it takes
    16 to 20 on tf-idf and 27 to 36 on counts (20 Newsgroups), each a tenth to a fifth longer, and one more copy of W.
    ``weighting`` of a corpus: "counts" or "tfidf".
    ``n_blocks``: blocks of W's rows that workers update apart. Every entry counts, zeros too: there is no mask for
    unobserved ones, which would need S anew for each row. ``partial_fit`` goes on from the trained model with further
    rows: words may be new, components keep their numbers, and rows seen before count as the model has them.
    ``device``: "auto" sweeps on the worker's CUDA device where it has one.

    Bytes moved an epoch, A aside: 12(V + D)K for "separable"; "paper" reads W once more for each tile of columns.
    """

    kind = "nmf"

    def __init__(
        self,
        n_components: int = 100,
        solver: str = "hals",
        beta_loss: str = "frobenius",
        init: str = "random",
        tol: float = 1e-4,
        max_iter: int = 200,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        order: str = "separable",
        sweeps: int = 1,
        extrapolate: bool = False,
        weighting: str = "counts",
        dtype: str = "float32",
        n_blocks: int = 1,
        random_state: int | None = 0,
        device: str = "auto",
    ):
        self.n_components = n_components
        self.solver = solver
        self.beta_loss = beta_loss
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.alpha_W = alpha_W
        self.alpha_H = alpha_H
        self.l1_ratio = l1_ratio
        self.order = order
        self.sweeps = sweeps
        self.extrapolate = extrapolate
        self.weighting = weighting
        self.dtype = dtype
        self.n_blocks = n_blocks
        self.random_state = random_state
        self.device = device

    # --- training ---

    def open(self, data: Any) -> Corpus | Matrix:  # type: ignore[override]
        """Return the store for a Corpus, a Matrix, a URL, documents (strings or token lists), or an array.

        Arrays are NumPy's, SciPy's sparse ones or Dask's. Raises DataError for one that is no matrix.
        """
        if isinstance(data, Corpus | Matrix):
            return data
        if isinstance(data, str | os.PathLike):
            return open_data(os.fspath(data))
        if is_matrix(data):
            data = read_matrix(data, type(self).__name__)
        if not isinstance(data, InputMatrix):
            return corpus_from(data)
        folder = tempfile.TemporaryDirectory(prefix="corpusmill-matrix-")
        matrix = write_matrix(folder.name, _blocks_of(data.values), self.dtype)
        matrix.folder = folder
        return matrix

    def planned_epochs(self) -> int:
        """Return the number of epochs to train."""
        return self.max_iter

    def seed_number(self) -> int:
        """Return the seed of all random draws."""
        return int(self.random_state or 0)

    def algorithm(self, data: Corpus | Matrix, previous: SavedModel | None = None) -> HALS:
        """Return the algorithm for a store; raise ValueError for parameters out of range."""
        self._check(data, previous)
        D, V, K = data.n_documents, data.n_words, self.n_components
        total = data.total if isinstance(data, Matrix) else float(data.n_tokens)
        return self._kind(
            n_components=K,
            solver=self.solver,
            sweeps=self.sweeps,
            extrapolate=self.extrapolate,
            order=self.order,
            init=self.init,
            scale=float(np.sqrt((total or 1.0) / (D * V) / K)),
            penalties=self._penalties(D, V),
            weighting=self.weighting if isinstance(data, Corpus) else "counts",
            dtype=self.dtype,
            tol=self.tol,
            seed=int(self.random_state or 0),
            bounds=equal_blocks(V, self.n_blocks),
            continues=previous is not None,
            device=self._device(),
        )

    def _device(self) -> str:
        if self.n_components > MOST_ON_DEVICE:
            return resolve_device(self.device, False, f"n_components={self.n_components} (more than {MOST_ON_DEVICE})")
        return resolve_device(self.device, self.solver == "hals", f"solver {self.solver!r}")

    @property
    def _kind(self) -> type[HALS]:
        return Divergence if self.beta_loss == "kullback-leibler" else HALS

    def _penalties(self, D: int, V: int) -> tuple[float, float, float, float]:
        """ℓ1 and ℓ2 of W, then of H; scikit-learn's W is H here, the factor of the rows, scaled by the columns."""
        alpha_H = self.alpha_W if self.alpha_H == "same" else float(self.alpha_H)
        of_W, of_H, ratio = alpha_H * D, self.alpha_W * V, self.l1_ratio
        return of_W * ratio, of_W * (1 - ratio), of_H * ratio, of_H * (1 - ratio)

    def _check(self, data: Corpus | Matrix, previous: SavedModel | None) -> None:
        if previous is not None:
            self._check_columns(data)
        smaller = min(data.n_documents, data.n_words)
        if self.init != "random" and previous is None and self.n_components > smaller:
            raise ValueError(
                f"n_components is {self.n_components}: a matrix of {data.n_documents} rows and {data.n_words} columns "
                f"has {smaller} singular vectors for init={self.init!r}: choose 1 to {smaller}, or init='random'"
            )
        if previous is not None and len(self.components_) != self.n_components:
            raise ValueError(
                f"n_components is {self.n_components}, the model to go on from has {len(self.components_)}"
            )
        if self.order == "paper" and self.n_blocks > 1:
            raise ValueError("order='paper' needs all rows of W at once: set n_blocks to 1")
        if self.beta_loss != "frobenius" and self.solver != "mu":
            raise ValueError("beta_loss='kullback-leibler' needs solver='mu'")
        penalised = self.alpha_W != 0 or self.alpha_H not in ("same", 0)
        if (penalised or self.extrapolate) and (self.order == "paper" or self.solver != "hals"):
            raise ValueError("alpha_W, alpha_H and extrapolate need solver='hals' and order='separable'")
        if penalised and self.extrapolate:
            raise ValueError("extrapolate judges by the error alone: set alpha_W and alpha_H to 0, or leave it off")

    def loaded(self) -> None:
        """Leave what only training needs with the run."""
        model = self._fitted()
        model.blocks = [{"W": block["W"]} for block in model.blocks]

    def merge_previous(self, old: Fitted) -> None:
        """Add the rows of words that did not occur again."""
        new, W = self._fitted(), self._W
        shared = {name: array for name, array in new.shared.items() if name != "seen"}
        vocabulary = new.vocabulary
        if "word" in vocabulary.column_names:
            merged = merge_vocabularies(vocabulary, old.vocabulary)
            vocabulary = merged.table
            W = np.concatenate([W, old.joined("W")[merged.only_in_old].astype(W.dtype)])
            if "idf" in shared:
                shared["idf"] = np.concatenate([shared["idf"], old.shared["idf"][merged.only_in_old]])
        shared["S"] = self._fold_in().summed(W)
        self.model_ = Fitted([{"W": W}], shared, vocabulary, new.metadata)

    # --- the trained model ---

    @property
    def _W(self) -> np.ndarray:
        return np.concatenate([b["W"] for b in self._fitted().blocks])

    @property
    def components_(self) -> np.ndarray:
        """The columns' factor: (K, V) float32 or float64."""
        return np.ascontiguousarray(self._W.T)

    @property
    def n_features_in_(self) -> int:
        """Columns of the matrix, or words of the corpus."""
        return len(self._W)

    @property
    def reconstruction_err_(self) -> float:
        """‖A − HWᵀ‖ after the last epoch, or √(2D) of the Kullback-Leibler divergence D, as scikit-learn has them."""
        self._fitted()
        return float(self.history_[-1]["error"])

    @property
    def vectors_(self) -> WordVectors:
        """The columns' factor as word vectors, which save as Parquet, Zarr, safetensors and text."""
        return WordVectors(self._names(), self._W)

    def _names(self) -> list[str]:
        """Return the names of the columns: words, names of a data frame's columns, or numbers."""
        model = self._fitted()
        if "word" in model.vocabulary.column_names:
            return model.vocabulary["word"].to_pylist()
        names = model.metadata.get("feature_names")
        if names is not None:
            return names
        return [str(column) for column in range(len(self._W))]

    def topics(self, n_words: int = 10) -> list[Topic]:
        """Return each component's size (its share of the entries of W) and heaviest words with their weights."""
        W, names = self._W, self._names()
        sizes = W.sum(axis=0) / max(float(W.sum()), np.finfo(float).tiny)
        return [
            {
                "topic": k,
                "size": float(sizes[k]),
                "words": [{"word": names[v], "weight": float(W[v, k])} for v in heaviest(W[:, k], n_words)],
            }
            for k in range(W.shape[1])
        ]

    def transform(self, X: Any, *, client: "Client | None" = None) -> np.ndarray:
        """Return the rows' factor with W fixed: (D, K). Raises DataError when the columns are not the model's.

        Of a corpus, words that the model does not know are skipped.
        """
        store = self._open_for_transform(X)
        if isinstance(store, Corpus):
            return super().transform(store, client=client)
        algorithm, shared, W = self._fold_in(), self._fitted().shared, self._W
        self._check_columns(store)
        chunks = (algorithm.rows(store.read_chunk(c), shared) for c in range(len(store.chunks)))
        rows = np.concatenate([algorithm.fold_in(A, W, shared["S"])[0] for A in chunks])
        return self._as_output(rows, X)

    def score(self, X: Any, y: Any = None, *, client: "Client | None" = None) -> float:
        """Return how well the model fits new rows; larger is better.

        Parameters
        ----------
        X : store, URL or data in memory
            The rows, as for `transform`.
        y : ignored
            Present for scikit-learn's searches.
        client : distributed.Client, optional
            Where to score the documents of a corpus.

        Returns
        -------
        float
            For a corpus, the log-likelihood per token by document completion, as for LDA. For a matrix A, the negative
            relative error -‖A - H Wᵀ‖ / ‖A‖, where H is the result of `transform`, or the negative divergence per unit
            of A for the Kullback-Leibler loss.
        """
        store = self._open_for_transform(X)
        if isinstance(store, Corpus):
            return super().score(store, client=client)
        self._check_columns(store)
        algorithm = self._fold_in()
        fitted = self._fitted()
        model = Fitted([{"W": self._W}], fitted.shared, fitted.vocabulary, fitted.metadata)
        sums: Arrays = {}
        for index in range(len(store.chunks)):
            chunk = algorithm.load_chunk(store, index, model)
            sums = add(sums, algorithm.score(model, chunk, None, Address(0, 0, index)))
        (error,) = algorithm.metrics_from_sums(sums, held_out=True).values()
        return -error

    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the rows' factor of documents given by the model's word ids: (D, K)."""
        shared, W = self._fitted().shared, self._W
        counted = scipy.sparse.csr_matrix((np.ones(len(words), self.dtype), words, doc_ptr), (len(doc_ptr) - 1, len(W)))
        counted.sum_duplicates()
        A = nmf.SparseRows(counted.indptr.astype(np.int64), counted.indices.astype(np.int32), counted.data)
        if "idf" in shared:
            nmf.apply_tfidf(A, shared["idf"])
        return self._fold_in().fold_in(A, W, shared["S"])[0]

    def score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Score documents by completion: sums ``log_likelihood`` and ``tokens``.

        Half of a document gives its row, the other half is scored by that row times components, as shares of their sum,
        of which a twentieth is left to the words' overall frequency: factors may leave a word out altogether, which
        would score minus infinity. The mixture is no part of the model, so compare NMF models by it, not NMF with LDA.
        """
        first = split_mask(doc_ptr, keys)
        rows = self.transform_chunk(*select_tokens(doc_ptr, words, first), keys)
        W = self._W / self._fitted().shared["idf"][:, None] if "idf" in self._fitted().shared else self._W
        frequency = np.asarray(self._fitted().vocabulary["term_frequency"], np.float64)
        total, tokens = 0.0, 0
        sums = rows @ W.sum(axis=0)
        for d, (lo, hi) in enumerate(zip(doc_ptr[:-1], doc_ptr[1:], strict=True)):
            scored = words[lo:hi][~first[lo:hi]]
            share = (W[scored] @ rows[d]) / sums[d] if sums[d] > 0 else 1 / len(W)
            total += float(np.log((1 - BACKGROUND) * share + BACKGROUND * frequency[scored] / frequency.sum()).sum())
            tokens += len(scored)
        return {"log_likelihood": np.float64(total), "tokens": np.int64(tokens)}

    def inverse_transform(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (D, K) times components: (D, V)."""
        return rows @ self.components_

    def _check_columns(self, store: Any) -> None:
        if isinstance(store, Matrix) and store.n_words != len(self._W):
            raise DataError(
                f"{store.url}: has {store.n_words} columns, the model {len(self._W)}: give the same columns"
            )

    def _fold_in(self) -> HALS:
        """The algorithm for rows of a fitted model: however few, its own columns."""
        V = len(self._W)
        return self._kind(
            n_components=self.n_components,
            penalties=self._penalties(1, V),
            dtype=self.dtype,
            bounds=(0, V),
        )


def _blocks_of(data: Any) -> Iterable[Any]:
    """Return blocks of rows of an array: a Dask array's are computed one by one."""
    whole: Any = data if hasattr(data, "dask") or scipy.sparse.issparse(data) else np.asarray(data)
    if whole.ndim != 2:
        raise DataError(f"an array of shape {whole.shape}: NMF takes a matrix, a row a document or a sample")
    if not hasattr(whole, "dask"):
        return [whole]
    rows = whole.rechunk({1: -1}) if len(whole.chunks[1]) > 1 else whole
    return (rows.blocks[i, 0].compute() for i in range(rows.numblocks[0]))
