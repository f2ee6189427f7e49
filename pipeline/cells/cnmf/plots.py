"""Charts: stability and error by number of components, and the clustered distances of all spectra."""

from pathlib import Path

import numpy as np

from ....io.extras import needing
from ....io.stores.filesystems import replacing
from .clustering import order_of_rows
from .consensus import Filter, Group, Selection

#: Dots per inch.
RESOLUTION = 150
#: Intervals of the histogram of local densities.
BINS = 50


def plot_selection(selection: Selection, path: Path) -> None:
    """Draw stability and error over the number of components, each with an axis of its own."""
    with needing("matplotlib", "corpusmill[cnmf]", str(path)):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6, 4), layout="constrained")
    left = figure.add_subplot()
    right = left.twinx()
    lines = [
        (left, "silhouette", "Stability (mean silhouette)", "C0"),
        (right, "prediction_error", "Squared error", "C3"),
    ]
    for axes, name, label, color in lines:
        axes.plot(selection["n_components"], selection[name], "o-", color=color)  # type: ignore[literal-required]
        axes.set_ylabel(label, color=color)
        axes.tick_params(axis="y", labelcolor=color)
    left.set_xlabel("Number of components")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.grid(True, axis="x")
    _save(figure, path)


def plot_clusters(group: Group, chosen: Filter, path: Path) -> None:
    """Draw the distances of the spectra cluster by cluster, and a histogram of the local densities."""
    with needing("matplotlib", "corpusmill[cnmf]", str(path)):
        from matplotlib.figure import Figure

    clusters = group.clusters
    order = order_of_rows(group.between, clusters.labels)
    figure = Figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(0.3, 6, 4), height_ratios=(1, 1))
    strip = figure.add_subplot(grid[:, 0], xticks=[], yticks=[])
    strip.imshow(clusters.labels[order][:, None], aspect="auto", interpolation="none", cmap="Spectral")
    strip.set_ylabel("Spectra, by cluster")
    square = figure.add_subplot(grid[:, 1], xticks=[], yticks=[])
    image = square.imshow(group.between[np.ix_(order, order)], aspect="auto", interpolation="none", cmap="viridis")
    figure.colorbar(image, ax=square, location="bottom", shrink=0.6, label="Euclidean distance")
    histogram = figure.add_subplot(grid[0, 2])
    edges = np.linspace(0, max(1.0, float(group.density.max())), BINS)
    histogram.hist(group.density, bins=edges.tolist())
    histogram.axvline(chosen.threshold, linestyle="--", color="black")
    histogram.set_xlabel("Mean distance to nearest neighbours")
    histogram.set_ylabel("Spectra")
    n_removed = len(group.density) - len(group.between)
    share = 100 * n_removed / len(group.density)
    histogram.set_title(f"{n_removed} of {len(group.density)} spectra ({share:.0f}%) left out", fontsize="medium")
    _save(figure, path)


def _save(figure: "object", path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=RESOLUTION, format=path.suffix[1:])  # type: ignore[attr-defined]
