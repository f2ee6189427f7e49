"""Cell types found by NMF: adjusted Rand index against the labels of 700 blood cells that scanpy ships.

    python -m benchmarks.nmf.cells 10x_pbmc68k_reduced.h5ad

The file is in scanpy's folder ``datasets``. Each cell belongs to the component with its largest weight, or to one of as
many clusters of k-means on the weights. The values are logarithms of normalised counts. cNMF takes part if it is
installed, with 20 factorisations of all genes.
"""

import tempfile
import time
import warnings
from importlib.util import find_spec
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


def consensus(cells: anndata.AnnData, loss: str, n_components: int) -> np.ndarray:
    """Return the weights (D, K) of cNMF."""
    from cnmf import cNMF

    with tempfile.TemporaryDirectory() as folder:
        raw = cells.raw.to_adata()
        raw.write_h5ad(f"{folder}/cells.h5ad")
        study = cNMF(output_dir=folder, name="study")
        options = {"n_iter": 20, "seed": 1, "num_highvar_genes": raw.n_vars, "beta_loss": loss}
        study.prepare(counts_fn=f"{folder}/cells.h5ad", components=[n_components], **options)
        study.factorize(worker_i=0, total_workers=1)
        study.combine()
        # A distance of 2 leaves out no factorisation.
        study.consensus(k=n_components, density_threshold=2.0, show_clustering=False, close_clustergram_fig=True)
        return study.load_results(K=n_components, density_threshold=2.0)[0].loc[raw.obs_names].to_numpy()


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
    if find_spec("cnmf"):
        for loss in ("frobenius", "kullback-leibler"):
            began = time.process_time()
            largest, k_means = cluster(consensus(cells, loss, n_components), labels, 1)
            print_row(
                "cNMF", loss, "random", f"{largest:.3f}", f"{k_means:.3f}", f"{time.process_time() - began:.2f} s"
            )


if __name__ == "__main__":
    main()
