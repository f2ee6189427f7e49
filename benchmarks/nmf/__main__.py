"""NMF: seconds an epoch and seconds to an error, side by side from the same W and H, beside the roofline.

Data: the folder in CORPUSMILL_DATA (20 Newsgroups, TDT2, faces). ``--quick`` runs on a small random matrix.
CPU seconds of all threads together count neighbours on the machine less; seconds are by the clock.
"""

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import json
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click
import numpy as np
import scipy.sparse
from corpusmill.kernels.nmf import hals as nmf
from corpusmill.kernels.nmf import solvers as nmf_solvers
from corpusmill.kernels.nmf import tiled as nmf_tiled
from corpusmill.pipeline.models.nmf.algorithm import go_ahead, gram

from benchmarks.papers import nmf_data_movement, nmf_sweeps

CACHE = 32 << 20
PEER = "scikit-learn cd"


def load(name):
    """Return a float32 matrix of documents by words: CSR, words by falling frequency as in a store; faces are dense."""
    folder = Path(os.environ.get("CORPUSMILL_DATA", "../shared/data"))
    if name == "quick":
        return scipy.sparse.random(400, 300, 0.05, "csr", np.float32, random_state=0)
    if name == "faces":
        stored = np.load(folder / "faces" / "att_faces_400x10304.npz")
        return np.ascontiguousarray(stored[stored.files[0]], np.float32) / 255
    path = folder / ("tdt2/tdt2_9394x36771.npz" if name == "tdt2" else "20news_bow_18846x26810.npz")
    A = scipy.sparse.load_npz(path).tocsr().astype(np.float32)
    A = A if name == "tdt2" else A[:11314]
    A = A[:, np.argsort(-np.bincount(A.indices, minlength=A.shape[1]), kind="stable")]
    A.sort_indices()
    return A if name == "20news-counts" else tfidf(A)


def tfidf(A):
    """Weigh counts as scikit-learn does."""
    frequency = np.bincount(A.indices, minlength=A.shape[1])
    A = A @ scipy.sparse.diags((np.log((1 + A.shape[0]) / (1 + frequency)) + 1).astype(np.float32))
    lengths = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags(1 / np.maximum(lengths, 1e-30)) @ A, dtype=np.float32)


def start(A, K, normalise=False):
    """Return W (V, K) and H (D, K) at random, as scikit-learn scales them."""
    rng = np.random.default_rng(0)
    scale = np.sqrt(A.mean() / K)
    H, W = (scale * np.abs(rng.standard_normal((n, K))).astype(np.float32) for n in A.shape)
    return (W / np.linalg.norm(W, axis=0) if normalise else W), H


def squared_norm(A):
    """Return ‖A‖²."""
    return float(np.sum(np.square(A.data if scipy.sparse.issparse(A) else A, dtype=float)))


class Blocks:
    """The block scheme, on one thread or on several over documents and then over words."""

    def __init__(self, A, W, H, order="separable", sweeps=1, threads=1, extrapolate=False):
        self.W, self.H, self.order, self.sweeps, self.threads = W, H, order, sweeps, threads
        self.block = {"W": W.copy()} if extrapolate else {}
        self.S = W.T.astype(float) @ W
        cuts = np.linspace(0, A.shape[0], threads + 1).astype(int)
        self.parts = [A[i:j] for i, j in zip(cuts[:-1], cuts[1:], strict=True)]
        self.sparse = scipy.sparse.issparse(A)
        if self.sparse:
            rows = [nmf.SparseRows(p.indptr.astype(np.int64), p.indices.astype(np.int32), p.data) for p in self.parts]
            self.parts = [nmf.sparse_matrix(p, A.shape[1]) for p in rows]
        self.rows, self.pool = cuts, ThreadPoolExecutor(threads)
        self.columns = np.linspace(0, A.shape[1], threads + 1).astype(int)
        self.norm, self.explained = squared_norm(A), 0.0

    def epoch(self):
        """Run one epoch."""
        K = self.W.shape[1]
        products = list(self.pool.map(self._documents, range(self.threads)))
        Q = nmf.symmetric(sum(q for _, q in products))
        if self.order == "paper":
            P = self._sum(products, slice(None))
            for _ in range(self.sweeps):
                nmf_tiled.update(self.W, P, Q.astype(np.float32), nmf_tiled.tile_size(K, CACHE), True)
            self.S = gram(self.W)
            inner = nmf.inner_product(P.reshape(-1), self.W.reshape(-1))
        else:
            found = list(self.pool.map(lambda i: self._words(i, products, Q), range(self.threads)))
            inner, self.S = sum(f[0] for f in found), nmf.symmetric(sum(f[1] for f in found))
        self.explained = 2 * inner - np.sum(self.S * Q)
        if self.block:
            new = self.W.copy()
            further, self.S = go_ahead(self.block, new, self.S, self.explained)
            self.block = {"W": new} | further
            self.W[:] = further["ahead"]

    def error(self):
        """Return the relative error, which the last epoch had at hand."""
        return float(np.sqrt(max(self.norm - self.explained, 0) / self.norm))

    def _documents(self, i):
        A, H, W = self.parts[i], self.H[self.rows[i] : self.rows[i + 1]], self.W
        K = W.shape[1]
        P, Q, room = np.zeros_like(W), np.zeros((K, K)), nmf.make_scratch(K, np.float32)
        rule = nmf.update_rule(self.S, self.order, "H")
        if self.sparse:
            nmf.sweep_sparse(A, W, rule, H, P, Q, self.sweeps, room)
        else:
            nmf.sweep_rows(A @ W, rule, H, Q, self.sweeps, room)
            np.matmul(A.T, H, out=P)
        return P, Q

    def _sum(self, products, rows):
        P = products[0][0][rows]
        for other, _ in products[1:]:
            P += other[rows]
        return P

    def _words(self, i, products, Q):
        mine, K = slice(self.columns[i], self.columns[i + 1]), len(Q)
        P = self._sum(products, mine)
        S, rule = np.zeros((K, K)), nmf.update_rule(Q, self.order, "W")
        return nmf.sweep_rows(P, rule, self.W[mine], S, self.sweeps, nmf.make_scratch(K, np.float32)), S


class Whole:
    """Solvers over whole matrices on BLAS: Algorithm 1 by columns, Algorithm 2 in phases, MU, ANLS-BPP."""

    def __init__(self, A, W, H, solver):
        self.A, self.T, self.W, self.H = A, A.T.tocsr() if scipy.sparse.issparse(A) else A.T, W, H
        self.solver, self.tile = solver, nmf_tiled.tile_size(W.shape[1], CACHE)

    def epoch(self):
        """Run one epoch."""
        self.H = self._update(self.H, self.A @ self.W, self.W.T @ self.W, False)
        self.W = self._update(self.W, self.T @ self.H, self.H.T @ self.H, True)

    def error(self):
        """Return the relative error, without H·Wᵀ."""
        norm, P = squared_norm(self.A), self.T @ self.H
        explained = 2 * np.sum(P * self.W, dtype=float) - np.sum(gram(self.W) * gram(self.H))
        return float(np.sqrt(max(norm - explained, 0) / norm))

    def _update(self, X, R, S, normalise):
        if self.solver == "columns":
            nmf_sweeps.update_by_columns(X, R, S, normalise)
        elif self.solver == "phases":
            nmf_sweeps.update_in_phases(X, R, S, self.tile, normalise)
        elif self.solver == "mu":
            X = nmf_solvers.multiplicative_update(X, R, S)
        else:
            X = nmf_solvers.block_principal_pivoting(R, S).astype(np.float32)
        return X


class ScikitLearn(Whole):
    """scikit-learn's solvers, an epoch a call."""

    def epoch(self):
        """Run one epoch."""
        from sklearn.decomposition import non_negative_factorization

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Wᵀ as it lies in memory: the solver takes its transpose, which is no copy then.
            self.H, transposed, _ = non_negative_factorization(
                self.A, self.H, self.W.T, init="custom", solver=self.solver, max_iter=1, tol=0
            )
        self.W = transposed.T


def contenders(threads, slow):
    """Return by name what makes a contender of a matrix and K; each has its own copy of the same start."""
    found = {}
    for order in ("separable", "paper"):
        for sweeps in (1, 2):
            name = f"corpusmill {order}" + (f", {sweeps} sweeps" if sweeps > 1 else "")
            found[name] = partial(_blocks, order, sweeps, threads, False)
    found["corpusmill separable, extrapolated"] = partial(_blocks, "separable", 1, threads, True)
    if threads == 1:
        found["ALO-NMF in phases"] = lambda A, K: Whole(A, *start(A, K, True), "phases")
        found["FAST-HALS by columns"] = lambda A, K: Whole(A, *start(A, K, True), "columns")
        found["MU"] = lambda A, K: Whole(A, *start(A, K), "mu")
        found["scikit-learn mu"] = lambda A, K: ScikitLearn(A, *start(A, K), "mu")
        if slow:
            found["ANLS-BPP"] = lambda A, K: Whole(A, *start(A, K), "anls")
    return found | {PEER: lambda A, K: ScikitLearn(A, *start(A, K), "cd")}


def _blocks(order, sweeps, threads, extrapolate, A, K):
    return Blocks(A, *start(A, K, order == "paper"), order, sweeps, threads, extrapolate)


def trace(model, epochs):
    """Return CPU seconds and seconds of each epoch, and the errors after them."""
    cpu, wall, errors = [], [], []
    for _ in range(epochs):
        began = time.process_time(), time.perf_counter()
        model.epoch()
        cpu.append(time.process_time() - began[0])
        wall.append(time.perf_counter() - began[1])
        errors.append(model.error())
    return {"cpu": cpu, "wall": wall, "errors": errors}


def sgemm_rate():
    """Return this machine's flops a second of float32 products on one thread."""
    a = np.random.default_rng(0).random((1024, 1024), np.float32)
    rates = []
    for _ in range(8):
        began = time.process_time()
        a @ a
        rates.append(2 * 1024**3 / (time.process_time() - began))
    return max(rates)


def compare(name, K, epochs, threads, chosen):
    """Measure contenders on one matrix; print a table and return its rows."""
    A = load(name)
    warm = load("quick") if scipy.sparse.issparse(A) else load("quick").toarray()
    table = []
    for label, make in chosen.items():
        make(warm, 8).epoch()  # compiles
        table.append({"name": label} | trace(make(A, K), epochs))
    D, V = A.shape
    stored = A.nnz if scipy.sparse.issparse(A) else A.size
    work, moved = nmf_data_movement.flops(V, D, K, stored), nmf_data_movement.bytes_moved(V, D, K, stored)
    show(f"{name}: {D} x {V}, {stored} stored, K = {K}, {threads} thread(s)", table, work, moved)
    return {"data": name, "K": K, "threads": threads, "flops": work, "bytes": moved, "rows": table}


def each(row, what):
    """Return the least seconds of an epoch behind the first: what neighbours on the machine add is not the solver's."""
    return min(row[what][1:])


def until(row, error):
    """Return epochs and CPU seconds to an error, or blanks."""
    reached = next((i for i, e in enumerate(row["errors"], 1) if e <= error), None)
    return ("-", "-") if reached is None else (str(reached), f"{sum(row['cpu'][:reached]):.2f}")


def show(title, table, work, moved):
    """Print one table: seconds, ratios of scikit-learn's CPU seconds (it has one thread) to each row's, errors."""
    base, goal = each(table[-1], "cpu"), table[0]["errors"][-1]
    rate = sgemm_rate()
    print(f"\n{title}\n  needs {work / 1e9:.2f} Gflop: {work / rate:.3f} s at one core's sgemm, {rate / 1e9:.0f} GF/s")
    print(f"  and {moved / 1e6:.0f} MB; ratios: to the last row's CPU seconds; goal: the first row's last error")
    head = ("CPU s", "ratio", "wall s", "ratio", "GF/s", "error 3", "error last", "goal at", "CPU s")
    print(" " * 38 + "".join(f"{name:>11}" for name in head))
    for row in table:
        cpu, wall, third = each(row, "cpu"), each(row, "wall"), row["errors"][min(2, len(row["errors"]) - 1)]
        numbers = f"{cpu:.3f}", f"{base / cpu:.2f}", f"{wall:.3f}", f"{base / wall:.2f}", f"{work / cpu / 1e9:.1f}"
        numbers += f"{third:.6f}", f"{row['errors'][-1]:.6f}", *until(row, goal)
        print(f"  {row['name']:36}" + "".join(f"{number:>11}" for number in numbers))


def draw(found, path):
    """Draw relative errors over epochs and over seconds, a row of two panels for each table."""
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = pyplot.subplots(len(found), 2, figsize=(10, 3.6 * len(found)), squeeze=False, sharey="row")
    for (left, right), table in zip(axes, found, strict=True):
        for row in table["rows"]:
            style = "-" if row["name"].startswith("corpusmill") else (0, (2, 2))  # curves coincide where errors do
            left.plot(range(1, len(row["errors"]) + 1), row["errors"], linestyle=style, label=row["name"])
            right.plot(np.cumsum(row["cpu"]), row["errors"], linestyle=style)
        least = min(error for row in table["rows"] for error in row["errors"])
        left.set_ylim(least - 0.001, table["rows"][0]["errors"][1])
        left.set(xlabel="epochs", ylabel="relative error", title=f"{table['data']}, K = {table['K']}")
        right.set(xlabel="CPU seconds", xscale="log")
        left.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=70, metadata={"Date": None} if path.endswith(".svg") else None)


@click.command()
@click.option("--data", multiple=True, default=("20news-tfidf",), help="20news-tfidf, 20news-counts, tdt2, faces")
@click.option("--components", "-k", multiple=True, type=int, default=(80, 256))
@click.option("--epochs", default=6)
@click.option("--threads", multiple=True, type=int, default=(1, 2))
@click.option("--slow", is_flag=True, help="ANLS-BPP too")
@click.option("--only", multiple=True, help="These contenders alone, by their names")
@click.option("--json", "path", type=click.Path(), help="Write all numbers here")
@click.option("--picture", type=click.Path(), help="Draw errors over epochs and over seconds: .svg or .png")
@click.option("--quick", is_flag=True, help="A few seconds on a small random matrix")
def main(data, components, epochs, threads, slow, only, path, picture, quick):
    """Compare."""
    if quick:
        data, components, epochs, slow = ("quick",), (8,), 3, True
    found = []
    for n in threads:
        chosen = {name: make for name, make in contenders(n, slow).items() if not only or name in only}
        found += [compare(d, K, epochs, n, chosen) for d in data for K in components]
    if picture:
        draw(found, picture)
    if path:
        Path(path).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
