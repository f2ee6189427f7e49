"""The estimator NMF: non-negative matrix factorisation with scikit-learn's names."""

import os
import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

from ..io.corpus import Corpus
from ..io.data import open_data
from ..io.matrix import Matrix, write_matrix
from ..io.store import Arrays, DataError
from ..kernels import nmf
from .algorithm import add
from .corpora import map_words
from .estimator import Estimator, Fitted
from .hals import HALS, gram, heaviest, word_counts
from .run import RunStore
from .vectors import WordVectors

SOLVERS, ORDERS = ("hals", "mu", "anls"), ("separable", "paper")
INITS = ("random", "nndsvd", "nndsvda", "nndsvdar")


class NMF(Estimator):
    """Non-negative matrix factorisation, out of core on Dask. Parameters as in scikit-learn's NMF, and:

    ``solver``: "hals" (FAST-HALS), "mu" or "anls", all for the Frobenius norm. ``order``: "separable" takes each entry
    to its best (scikit-learn's coordinate descent); "paper" is Algorithm 1 of ALO-NMF, which normalises W on the way.
    ``sweeps``: sweeps over a factor while its products are at hand. ``weighting`` of a corpus: "counts" or "tfidf".
    ``n_blocks``: blocks of W's rows that workers update apart. Every entry counts, zeros too: there is no mask for
    unobserved ones, which would need S anew for each row.

    Bytes moved an epoch, A aside: 12(V + D)K for "separable"; "paper" reads W once more for each tile of columns.
    """

    kind = "nmf"

    def __init__(
        self,
        n_components: int = 100,
        solver: str = "hals",
        init: str = "random",
        tol: float = 1e-4,
        max_iter: int = 200,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        order: str = "separable",
        sweeps: int = 1,
        weighting: str = "counts",
        dtype: str = "float32",
        n_blocks: int = 1,
        random_state: int | None = 0,
    ):
        self.n_components = n_components
        self.solver = solver
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.alpha_W = alpha_W
        self.alpha_H = alpha_H
        self.l1_ratio = l1_ratio
        self.order = order
        self.sweeps = sweeps
        self.weighting = weighting
        self.dtype = dtype
        self.n_blocks = n_blocks
        self.random_state = random_state

    # --- training ---

    def open(self, data: Any) -> Corpus | Matrix:
        """Return the store for a Corpus, a Matrix, a URL, or an array: NumPy, SciPy sparse or Dask."""
        if isinstance(data, Corpus | Matrix):
            return data
        if isinstance(data, str | os.PathLike):
            return open_data(os.fspath(data))
        folder = tempfile.TemporaryDirectory(prefix="corpusmill-matrix-")
        matrix = write_matrix(folder.name, _blocks_of(data), self.dtype)
        matrix.folder = folder
        return matrix

    def algorithm(self, data: Any) -> HALS:
        """Return the algorithm for a store; raise ValueError for parameters out of range."""
        self._check(data)
        D, V, K = data.n_documents, data.n_words, self.n_components
        total = data.total if isinstance(data, Matrix) else float(data.n_tokens)
        return HALS(
            data=data.url,
            n_words=V,
            n_components=K,
            solver=self.solver,
            sweeps=self.sweeps,
            order=self.order,
            init=self.init,
            scale=float(np.sqrt(total / (D * V) / K)),
            penalties=self._penalties(D, V),
            weighting=self.weighting if isinstance(data, Corpus) else "counts",
            dtype=self.dtype,
            tol=self.tol,
            seed=int(self.random_state or 0),
            bounds=tuple(int(b) for b in np.linspace(0, V, min(self.n_blocks, V) + 1)),
        )

    def _penalties(self, D: int, V: int) -> tuple[float, float, float, float]:
        """ℓ1 and ℓ2 of W, then of H; scikit-learn's W is H here, the factor of the rows, scaled by the columns."""
        alpha_H = self.alpha_W if self.alpha_H == "same" else float(self.alpha_H)
        of_W, of_H, ratio = alpha_H * D, self.alpha_W * V, self.l1_ratio
        return of_W * ratio, of_W * (1 - ratio), of_H * ratio, of_H * (1 - ratio)

    def _check(self, data: Any) -> None:
        smallest = min(data.n_documents, data.n_words)
        if not 1 <= self.n_components <= smallest:
            raise ValueError(
                f"n_components is {self.n_components}: a matrix of {data.n_documents} rows and {data.n_words} columns "
                f"allows 1 to {smallest}"
            )
        known = {"solver": SOLVERS, "order": ORDERS, "init": INITS, "weighting": ("counts", "tfidf")}
        known["dtype"] = ("float32", "float64")
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose one of {', '.join(values)}")
        if self.sweeps < 1 or self.n_blocks < 1 or self.max_iter < 1:
            raise ValueError("sweeps, n_blocks and max_iter must be 1 or more")
        if self.order == "paper" and self.n_blocks > 1:
            raise ValueError("order='paper' needs all rows of W at once: set n_blocks to 1")
        penalised = self.alpha_W != 0 or self.alpha_H not in ("same", 0)
        if penalised and (self.order == "paper" or self.solver != "hals"):
            raise ValueError("alpha_W and alpha_H need solver='hals' and order='separable'")

    def fit_transform(self, data: Any, run: str | None = None, **options: Any) -> np.ndarray:
        """Train and return the rows' factor as training left it: (D, K). Options as in ``fit``."""
        store = self.open(data)
        with tempfile.TemporaryDirectory(prefix="corpusmill-run-") as folder:
            url = run if run is not None else folder
            self.fit(store, run=url, **options)
            kept = RunStore(url)
            return np.concatenate([kept.state(kept.step, c)["H"] for c in range(len(store.chunks))])

    def partial_fit(self, data: Any) -> "NMF":
        """Train on some more rows: their H with W fixed, then W from the sums of P and Q over all rows seen."""
        store = self.open(data)
        if not hasattr(self, "model_"):
            self._begin(store)
        for c in range(len(store.chunks)):
            self._learn(self._algorithm(store), self._known_rows(store, store.read_chunk(c)))
        self.n_iter_ += 1
        return self

    def _begin(self, store: Any) -> None:
        algorithm = self.algorithm(store)
        W = algorithm.begin(0)["W"]
        about = {"data": store.url, "data_hash": store.hash, "step": 0, "metrics": []}
        shared = algorithm.begin_shared() | {"S": gram(W)}
        self.model_ = Fitted([{"W": W}], shared, getattr(store, "vocabulary", pa.table({})), about)
        self.history_, self.n_iter_ = [], 0

    def _learn(self, algorithm: HALS, A: Any) -> None:
        W, S = self._W, self.model_.shared["S"]
        H, _ = algorithm.fold_in(A, W, S)
        P = np.zeros_like(W)
        if isinstance(A, nmf.Rows):
            nmf.add_products(nmf.by_column(A, len(W)), H, P)
        else:
            P += A.T @ H
        delta = {"P": P, "Q": gram(H)}
        self._seen: Arrays = add(getattr(self, "_seen", {}), delta)
        block, totals = algorithm.apply({"W": W}, self._seen, {})
        self.model_ = Fitted(
            [block], self.model_.shared | {"S": totals["S"]}, self.model_.vocabulary, self.model_.about
        )

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
        """V."""
        return len(self._W)

    @property
    def reconstruction_err_(self) -> float:
        """‖A − HWᵀ‖ after the last epoch (Frobenius norm)."""
        self._fitted()
        return float(self.history_[-1]["error"])

    @property
    def vectors_(self) -> WordVectors:
        """The columns' factor as word vectors, which save as Parquet, Zarr, safetensors and text."""
        return WordVectors(self._names(), self._W)

    def _names(self) -> list[str]:
        vocabulary = self._fitted().vocabulary
        return (
            vocabulary["word"].to_pylist()
            if "word" in vocabulary.column_names
            else [str(v) for v in range(len(self._W))]
        )

    def topics(self, n_words: int = 10) -> list[dict[str, Any]]:
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

    def transform(self, data: Any) -> np.ndarray:
        """Return the rows' factor with W fixed: (D, K). Raises DataError when the columns are not the model's."""
        store = self.open(data)
        algorithm, W, S = self._algorithm(store), self._W, self._fitted().shared["S"]
        chunks = (self._known_rows(store, store.read_chunk(c)) for c in range(len(store.chunks)))
        return np.concatenate([algorithm.fold_in(A, W, S)[0] for A in chunks])

    def inverse_transform(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (D, K) times components: (D, V)."""
        return rows @ self.components_

    def _algorithm(self, store: Any) -> HALS:
        """The algorithm for rows of a fitted model: however few, its own columns."""
        about, K = self._fitted().about, self.n_components
        if isinstance(store, Matrix) and store.n_words != len(self._W):
            raise DataError(
                f"{store.url}: has {store.n_words} columns, the model {len(self._W)}: give the same columns"
            )
        return HALS(
            data=about["data"],
            n_words=len(self._W),
            n_components=K,
            penalties=self._penalties(store.n_documents, len(self._W)),
            dtype=self.dtype,
            bounds=(0, len(self._W)),
        )

    def _known_rows(self, store: Any, chunk: Any) -> Any:
        """Return a chunk's rows in the model's columns; words that it does not know are left out."""
        shared = self._fitted().shared
        if not isinstance(store, Corpus):
            return self._algorithm(store).rows(chunk, shared)
        ids = map_words(store.vocabulary, self.model_.vocabulary)
        A = word_counts(chunk, None, self.dtype)
        columns = ids[A.indices]
        matrix = scipy.sparse.csr_matrix((A.data * (columns >= 0), np.maximum(columns, 0), A.indptr), copy=False)
        found = nmf.Rows(A.indptr, matrix.indices.astype(np.int32), matrix.data)
        if "idf" in shared:
            nmf.weigh(found, shared["idf"])
        return found


def _blocks_of(data: Any) -> Iterable[Any]:
    """Return blocks of rows of an array: a Dask array's are computed one by one."""
    if hasattr(data, "dask"):
        rows = data.rechunk({1: -1}) if len(data.chunks[1]) > 1 else data
        return (rows.blocks[i, 0].compute() for i in range(rows.numblocks[0]))
    return [data if scipy.sparse.issparse(data) else np.asarray(data)]
