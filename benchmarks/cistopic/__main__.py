"""LDA on generated cells and regions, against tomotopy: CPU seconds per epoch, and the joint log-likelihood.

python -m benchmarks.cistopic --help

The cells are drawn from an LDA model at the density of single-cell ATAC data. Both programs have the same priors and
one thread. Hours of a whole data set are extrapolated in proportion to its accessible regions. Each epoch of both
programs draws a topic for each of them.
"""

import os

# One thread each, for BLAS as well. It reads these variables when NumPy is imported.
os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import tempfile
import time
from functools import partial

import click
import numpy as np
import scipy.sparse
from corpusmill import LDA
from corpusmill.pipeline.engine.events import EpochFinished

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.lda.joint import joint_of_run, joint_of_tomotopy

#: pycisTopic's priors: alpha of all topics together, and eta of each region.
ALPHA = 50.0
ETA = 0.1
#: The data set and the epochs to which figures are extrapolated.
CELLS = 200_000
EPOCHS = 150


def generate(n_cells, n_regions, per_cell, modules=40, seed=0):
    """Return a binary matrix (cells, regions) of about ``per_cell`` accessible regions per cell."""
    rng = np.random.default_rng(seed)
    regions = rng.gamma(0.2, size=(modules, n_regions)) * rng.gamma(0.8, size=n_regions)
    cumulative = np.cumsum(regions, axis=1)
    cumulative /= cumulative[:, -1:]
    rows = []
    columns = []
    for cell in range(n_cells):
        length = int(per_cell * rng.gamma(4.0) / 4)
        counts = rng.multinomial(length, rng.dirichlet(np.full(modules, 0.1)))
        for module in np.flatnonzero(counts):
            found = np.searchsorted(cumulative[module], rng.random(counts[module]))
            rows.append(np.full(len(found), cell))
            columns.append(np.minimum(found, n_regions - 1))
    places = (np.concatenate(rows), np.concatenate(columns))
    matrix = scipy.sparse.csr_matrix((np.ones(len(places[0]), np.int32), places), (n_cells, n_regions))
    matrix.data[:] = 1
    return matrix


def ours(matrix, n_topics, epochs, sampler):
    """Train with corpusmill; return CPU-seconds of the fastest epoch but the first, and the log-likelihood."""
    seconds = []
    last = [time.process_time()]

    def note(event):
        if isinstance(event, EpochFinished):
            seconds.append(time.process_time() - last[0])
            last[0] = time.process_time()

    with tempfile.TemporaryDirectory() as folder:
        options = {"max_iter": epochs, "device": "cpu", "sampler": sampler}
        model = LDA(n_topics, doc_topic_prior=ALPHA / n_topics, topic_word_prior=ETA, **options)
        corpus = model._open_data(matrix)
        run = f"{folder}/run"
        last[0] = time.process_time()
        model.fit(corpus, run=run, callbacks=[note], evaluate_every=0)
        return min(seconds[1:]), joint_of_run(model, corpus, run)


def peer(matrix, n_topics, epochs):
    """Train with tomotopy; return CPU-seconds of the fastest epoch but the first, and the log-likelihood."""
    import tomotopy

    model = tomotopy.LDAModel(k=n_topics, alpha=ALPHA / n_topics, eta=ETA, seed=1)
    for cell in range(matrix.shape[0]):
        regions = matrix.indices[matrix.indptr[cell] : matrix.indptr[cell + 1]]
        if len(regions):
            model.add_doc([str(region) for region in regions])
    model.optim_interval = 0
    model.train(1, workers=1)
    seconds = []
    for _ in range(epochs - 1):
        began = time.process_time()
        model.train(1, workers=1)
        seconds.append(time.process_time() - began)
    return min(seconds), joint_of_tomotopy(model)


@click.command()
@click.option("--cells", default=1000)
@click.option("--regions", default=80_000)
@click.option("--per-cell", default=5000, help="Accessible regions of a cell, on average.")
@click.option("--topics", "-t", multiple=True, type=int, default=(10, 50))
@click.option("--epochs", default=20)
@click.option("--sampler", "samplers", multiple=True, default=("gibbs", "esca"), help="Samplers of corpusmill.")
@JSON
@QUICK
def main(cells, regions, per_cell, topics, epochs, samplers, target, quick):
    """Compare CPU-seconds per epoch and log-likelihoods."""
    if quick:
        cells, regions, per_cell, topics, epochs = 60, 500, 80, (5,), 3
    matrix = generate(cells, regions, per_cell)
    contenders = {}
    for sampler in samplers:
        ours(matrix[:20], topics[0], 2, sampler)  # compiles
        contenders[f"corpusmill {sampler}"] = partial(ours, sampler=sampler)
    contenders["tomotopy"] = peer
    print(f"{cells} cells x {regions} regions, {matrix.nnz} accessible; one thread")
    print_row("topics", "program", "CPU s/epoch", "ns/token", "log-likelihood", "hours, all")
    found = []
    for n_topics in topics:
        for name, train in contenders.items():
            seconds, log_likelihood = train(matrix, n_topics, epochs)
            hours = seconds * CELLS / cells * EPOCHS / 3600
            print_row(str(n_topics), name, seconds, 1e9 * seconds / matrix.nnz, f"{log_likelihood:.4f}", hours)
            row = {"topics": n_topics, "name": name, "seconds": seconds, "log_likelihood": log_likelihood}
            found.append(row | {"extrapolated_hours": hours})
    print(f"hours, all: CPU-hours of one thread for {CELLS} cells and {EPOCHS} epochs, in proportion")
    if target:
        write_json(target, found)


if __name__ == "__main__":
    main()
