"""Cell types found by NMF: adjusted Rand index against the labels of 700 blood cells that scanpy ships.

    python -m benchmarks.nmf.cells 10x_pbmc68k_reduced.h5ad

The file is in scanpy's folder ``datasets``. Each cell belongs to the component with its largest weight, or to one of as
many clusters of k-means on the weights. The values are logarithms of normalised counts.
"""

import time
import warnings
from pathlib import Path

import anndata
import click
import numpy as np
from corpusmill import NMF
from sklearn import decomposition
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

from benchmarks.common import print_row

#: Parameters of both systems: the start, and the solver with its loss.
STARTS = ("random", "nndsvd", "nndsvda", "nndsvdar")
LOSSES = {"hals": {"solver": "hals"}, "kl": {"solver": "mu", "beta_loss": "kullback-leibler"}}


def cluster(weights: np.ndarray, labels: np.ndarray, seed: int) -> tuple[float, float]:
    """Return the adjusted Rand index of the largest weights (D, K), and that of k-means on them."""
    k_means = KMeans(weights.shape[1], n_init=10, random_state=seed).fit_predict(normalize(weights))
    return adjusted_rand_score(labels, weights.argmax(axis=1)), adjusted_rand_score(labels, k_means)


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("-k", "n_components", default=10, show_default=True)
@click.option("--seeds", default=5, show_default=True)
def main(file: Path, n_components: int, seeds: int) -> None:
    """Print the means over seeds, their standard deviations, and CPU-seconds."""
    warnings.simplefilter("ignore")
    cells = anndata.read_h5ad(file)
    X = cells.raw.X.astype(np.float32)
    labels = cells.obs["bulk_labels"].to_numpy()
    for loss, options in LOSSES.items():
        theirs = {"solver": "cd"} if loss == "hals" else options
        for start in STARTS:
            if loss == "kl" and start == "nndsvd":
                continue  # multiplicative updates cannot leave zeros
            for name, make in (("corpusmill", NMF), ("scikit-learn", decomposition.NMF)):
                parameters = options if name == "corpusmill" else theirs
                began, found = time.process_time(), []
                for seed in range(seeds):
                    model = make(n_components, init=start, max_iter=200, random_state=seed, **parameters)
                    found.append(cluster(np.asarray(model.fit_transform(X)), labels, seed))
                seconds = (time.process_time() - began) / seeds
                largest, k_means = np.mean(found, axis=0)
                spread = np.std(found, axis=0)
                shown = f"{largest:.3f} ± {spread[0]:.3f}", f"{k_means:.3f} ± {spread[1]:.3f}"
                print_row(name, loss, start, *shown, f"{seconds:.2f} s")


if __name__ == "__main__":
    main()
