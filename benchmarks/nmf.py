"""NMF: seconds an epoch and seconds to an error, side by side from the same W and H, beside the roofline.

Data: the folder in CORPUSMILL_DATA (20 Newsgroups, TDT2, faces). ``--quick`` runs on a small random matrix.
One thread is timed in CPU seconds, so that neighbours on the machine count less; more threads by the clock.
"""

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import json
import statistics
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import numpy as np
import scipy.sparse
from corpusmill.kernels import nmf, nmf_model, nmf_solvers, nmf_tiled
from corpusmill.pipeline.models.hals import go_ahead, gram

CACHE = 32 << 20
PEERS = ("scikit-learn cd", "scikit-learn mu")


def load(name):
    """Return a float32 matrix of documents by words: CSR, or dense for faces."""
    folder = Path(os.environ.get("CORPUSMILL_DATA", "../shared/data"))
    if name == "quick":
        return scipy.sparse.random(400, 300, 0.05, "csr", np.float32, random_state=0)
    if name == "faces":
        stored = np.load(folder / "faces" / "att_faces_400x10304.npz")
        return np.ascontiguousarray(stored[stored.files[0]], np.float32) / 255
    path = folder / ("tdt2/tdt2_9394x36771.npz" if name == "tdt2" else "20news_bow_18846x26810.npz")
    A = scipy.sparse.load_npz(path).tocsr().astype(np.float32)
    A = A if name == "tdt2" else A[:11314]
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


def error_of(norm, W, P, Q):
    """Return the relative error from the products at hand."""
    S = W.T.astype(float) @ W
    return float(np.sqrt(max(norm - 2 * np.sum(P * W, dtype=float) + np.sum(S * Q), 0) / norm))


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
            self.parts = [nmf.Rows(p.indptr.astype(np.int64), p.indices.astype(np.int32), p.data) for p in self.parts]
        self.rows, self.pool = cuts, ThreadPoolExecutor(threads)
        self.columns = np.linspace(0, A.shape[1], threads + 1).astype(int)
        self.norm = float(np.sum(np.square(A.data if self.sparse else A, dtype=float)))

    def epoch(self):
        """Run one epoch and return the relative error."""
        K = self.W.shape[1]
        products = list(self.pool.map(self._documents, range(self.threads)))
        P = products[0][0]
        for other, _ in products[1:]:
            P += other
        Q = nmf.symmetric(sum(q for _, q in products))
        if self.order == "paper":
            for _ in range(self.sweeps):
                nmf_tiled.update(self.W, P, Q.astype(np.float32), nmf_model.tile_size(K, CACHE), True)
            self.S = gram(self.W)
            inner = nmf.inner(P.reshape(-1), self.W.reshape(-1))
        else:
            found = list(self.pool.map(lambda i: self._words(i, P, Q), range(self.threads)))
            inner, self.S = sum(f[0] for f in found), nmf.symmetric(sum(f[1] for f in found))
        explained = 2 * inner - np.sum(self.S * Q)
        if self.block:
            new = self.W.copy()
            self.block = {"W": new} | go_ahead(self.block, new, explained)
            self.W[:], self.S = self.block["ahead"], gram(self.block["ahead"])
        return float(np.sqrt(max(self.norm - explained, 0) / self.norm))

    def _documents(self, i):
        A, H, W = self.parts[i], self.H[self.rows[i] : self.rows[i + 1]], self.W
        K = W.shape[1]
        P, Q, room = np.zeros_like(W), np.zeros((K, K)), nmf.scratch(K, np.float32)
        rule = nmf.rule(self.S, self.order, "H")
        if self.sparse:
            nmf.sweep_sparse(A, W, rule, H, P, Q, self.sweeps, room)
        else:
            nmf.sweep_rows(A @ W, rule, H, Q, self.sweeps, room)
            np.matmul(A.T, H, out=P)
        return P, Q

    def _words(self, i, P, Q):
        mine, K = slice(self.columns[i], self.columns[i + 1]), len(Q)
        S, rule = np.zeros((K, K)), nmf.rule(Q, self.order, "W")
        return nmf.sweep_rows(P[mine], rule, self.W[mine], S, self.sweeps, nmf.scratch(K, np.float32)), S


class Whole:
    """Solvers over whole matrices on BLAS: Algorithm 1 by columns, Algorithm 2 in phases, MU, ANLS-BPP."""

    def __init__(self, A, W, H, solver):
        self.A, self.T, self.W, self.H = A, A.T.tocsr() if scipy.sparse.issparse(A) else A.T, W, H
        self.solver, self.tile = solver, nmf_model.tile_size(W.shape[1], CACHE)
        self.norm = float(np.sum(np.square(A.data if scipy.sparse.issparse(A) else A, dtype=float)))

    def epoch(self):
        """Run one epoch and return the relative error."""
        self.H = self._update(self.H, self.A @ self.W, self.W.T @ self.W, False)
        P, Q = self.T @ self.H, self.H.T @ self.H
        self.W = self._update(self.W, P, Q, True)
        return error_of(self.norm, self.W, P, Q)

    def _update(self, X, R, S, normalise):
        if self.solver == "columns":
            nmf_tiled.update_by_columns(X, R, S, normalise)
        elif self.solver == "phases":
            nmf_tiled.update_in_phases(X, R, S, self.tile, normalise)
        elif self.solver == "mu":
            X = nmf_solvers.multiply(X, R, S)
        else:
            X = nmf_solvers.pivot(R, S).astype(np.float32)
        return X


def contenders(A, K, threads, slow):
    """Yield names and objects with ``epoch``, each with its own copy of the same start."""
    for order in ("separable", "paper"):
        for sweeps in (1, 2):
            name = f"corpusmill {order}" + (f", {sweeps} sweeps" if sweeps > 1 else "")
            yield name, Blocks(A, *start(A, K, order == "paper"), order, sweeps, threads)
    yield "corpusmill separable, extrapolated", Blocks(A, *start(A, K), threads=threads, extrapolate=True)
    if threads > 1:
        return
    yield "FAST-HALS by columns", Whole(A, *start(A, K, True), "columns")
    yield "ALO-NMF in phases", Whole(A, *start(A, K, True), "phases")
    yield "MU", Whole(A, *start(A, K), "mu")
    if slow:
        yield "ANLS-BPP", Whole(A, *start(A, K), "anls")


def clock(threads):
    """CPU seconds of one thread, or seconds on the wall."""
    return time.process_time if threads == 1 else time.perf_counter


def trace(model, epochs, now):
    """Return seconds of each epoch and the errors after them; compiling comes before."""
    seconds, errors = [], []
    for _ in range(epochs):
        began = now()
        errors.append(model.epoch())
        seconds.append(now() - began)
    return seconds, errors


def scikit(A, K, solver, epochs, now):
    """Return scikit-learn's seconds an epoch and its relative error after ``epochs``."""
    from sklearn.decomposition import NMF

    W, H = start(A, K)
    norm = float(np.sqrt(np.sum(np.square(A.data if scipy.sparse.issparse(A) else A, dtype=float))))
    found = []
    for n in (1, epochs):
        model = NMF(K, init="custom", solver=solver, max_iter=n, tol=0)
        began = now()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit_transform(A, W=H.copy(), H=np.ascontiguousarray(W.T))
        found.append((now() - began, float(model.reconstruction_err_) / norm))
    return (found[1][0] - found[0][0]) / (epochs - 1), found[1][1]


def sgemm_rate():
    """Return this machine's flops a second of float32 products on one thread."""
    a = np.random.default_rng(0).random((1024, 1024), np.float32)
    rates = []
    for _ in range(8):
        began = time.process_time()
        a @ a
        rates.append(2 * 1024**3 / (time.process_time() - began))
    return max(rates)


def compare(name, K, epochs, threads, slow):
    """Measure all contenders on one matrix; print a table and return its rows."""
    A = load(name)
    warm = load("quick") if scipy.sparse.issparse(A) else load("quick").toarray()
    for _, model in contenders(warm, 8, threads, False):
        model.epoch()
    table = []
    for label, model in contenders(A, K, threads, slow):
        seconds, errors = trace(model, epochs, clock(threads))
        table.append({"name": label, "seconds": statistics.median(seconds[1:]), "errors": errors, "all": seconds})
    for label in PEERS if threads == 1 else PEERS[:1]:
        scikit(warm, 8, label.split()[-1], 2, clock(threads))
        each, error = scikit(A, K, label.split()[-1], min(epochs, 3), clock(threads))
        table.append({"name": label, "seconds": each, "errors": [None] * (min(epochs, 3) - 1) + [error], "all": []})
    D, V = A.shape
    stored = A.nnz if scipy.sparse.issparse(A) else A.size
    work, moved = nmf_model.flops(V, D, K, stored), nmf_model.bytes_moved(V, D, K, stored)
    show(f"{name}: {D} x {V}, {stored} stored, K = {K}, {threads} thread(s)", table, work, moved)
    return {"data": name, "K": K, "threads": threads, "flops": work, "bytes": moved, "rows": table}


def draw(found, path):
    """Draw relative errors over epochs and over seconds, a row of two panels for each table."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(found), 2, figsize=(10, 4 * len(found)), squeeze=False)
    for (left, right), table in zip(axes, found, strict=True):
        for row in (r for r in table["rows"] if r["all"]):
            left.plot(range(1, len(row["errors"]) + 1), row["errors"], label=row["name"])
            right.plot(np.cumsum(row["all"]), row["errors"])
        left.set(xlabel="epochs", ylabel="relative error", title=f"{table['data']}, K = {table['K']}")
        right.set(xlabel="CPU seconds" if table["threads"] == 1 else "seconds", xscale="log")
        left.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=70)


def show(title, table, work, moved):
    """Print one table: seconds, ratio to scikit-learn's cd (or to the first row), errors."""
    base = next((r["seconds"] for r in table if r["name"] == PEERS[0]), table[0]["seconds"])
    rate = sgemm_rate()
    floor = work / rate
    print(f"\n{title}\n  needs {work / 1e9:.2f} Gflop: {floor:.3f} s at one core's sgemm, {rate / 1e9:.0f} GF/s")
    print(f"  and {moved / 1e6:.0f} MB; ratio: to scikit-learn's cd, or to the first row")
    print(f"  {'':36}{'s/epoch':>9}{'ratio':>8}{'GF/s':>8}{'error 3':>11}{'error last':>11}")
    for row in table:
        third = row["errors"][2] if len(row["errors"]) > 2 else float("nan")
        each = row["seconds"]
        numbers = f"{each:9.3f}{base / each:8.2f}{work / each / 1e9:8.1f}{third:11.6f}{row['errors'][-1]:11.6f}"
        print(f"  {row['name']:36}{numbers}")


@click.command()
@click.option("--data", multiple=True, default=("20news-tfidf",), help="20news-tfidf, 20news-counts, tdt2, faces")
@click.option("--components", "-k", multiple=True, type=int, default=(80, 256))
@click.option("--epochs", default=6)
@click.option("--threads", multiple=True, type=int, default=(1, 2))
@click.option("--slow", is_flag=True, help="ANLS-BPP too")
@click.option("--json", "path", type=click.Path(), help="Write all numbers here")
@click.option("--picture", type=click.Path(), help="Draw errors over epochs and over seconds: .svg or .png")
@click.option("--quick", is_flag=True, help="A few seconds on a small random matrix")
def main(data, components, epochs, threads, slow, path, picture, quick):
    """Compare."""
    if quick:
        data, components, epochs, slow = ("quick",), (8,), 3, True
    found = [compare(d, K, epochs, n, slow) for d in data for K in components for n in threads]
    if picture:
        draw(found, picture)
    if path:
        Path(path).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
