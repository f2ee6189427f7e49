"""Reads the feature-barcode matrices that 10x Genomics' programs write as HDF5 files.

The format: https://www.10xgenomics.com/support/software/cell-ranger/analysis/outputs/cr-outputs-h5-matrices
Version 3 has a group "matrix"; version 2 has one group per genome.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from ..errors import DataError
from ..messages import listed
from .blocks import RowBlocks, SelectedColumns
from .compressed import SparseByRow
from .hierarchies import Group, open_hdf5
from .names import check_unique, make_names_unique, strings


@contextmanager
def open_tenx(url: str, names: str | None = None, feature_type: str | None = None) -> Iterator[RowBlocks]:
    """Open a feature-barcode matrix: rows are cells, columns are features.

    ``names`` chooses the names of the columns: "id" (the default) or "name". ``feature_type``, such as "Peaks", keeps
    the features of one type. Raises DataError for another file and for a type that the file does not have.
    """
    with open_hdf5(url) as root:
        group = _matrix_group(root, url)
        # The file has features by cells, column by column. The same arrays are cells by features, row by row.
        n_features, n_cells = (int(number) for number in group["shape"][:])
        cells = strings(group["barcodes"], f"{url}, barcodes")
        check_unique(cells, f"{url}, barcodes", "every cell needs a name of its own")
        arrays = (group["data"], group["indices"], group["indptr"])
        columns = feature_names(*_features(group, url), names)
        matrix: RowBlocks = SparseByRow(url, (n_cells, n_features), cells, columns, arrays)
        if feature_type is not None:
            matrix = select_features(matrix, _types(group, url), feature_type)
        yield matrix


def _matrix_group(root: Group, url: str) -> Group:
    if "matrix" in root:
        return root["matrix"]
    genomes = [name for name in root if hasattr(root[name], "keys") and "barcodes" in root[name]]
    if len(genomes) == 1:
        return root[genomes[0]]
    if not genomes:
        raise DataError(f"{url}: not a feature-barcode matrix of 10x Genomics (no group 'matrix')")
    raise DataError(f"{url}: matrices of {len(genomes)} genomes ({listed(genomes)}); write one file for each")


def _features(group: Group, url: str) -> tuple[pa.Array, pa.Array]:
    """Return the ids and the names of the features."""
    if "features" in group:
        features = group["features"]
        return strings(features["id"], f"{url}, features/id"), strings(features["name"], f"{url}, features/name")
    return strings(group["genes"], f"{url}, genes"), strings(group["gene_names"], f"{url}, gene_names")


def _types(group: Group, url: str) -> pa.Array:
    if "features" not in group:
        raise DataError(f"{url}: version 2 of the format has no types of features; leave out feature_type")
    return strings(group["features"]["feature_type"], f"{url}, features/feature_type")


def feature_names(ids: pa.Array, names: pa.Array, chosen: str | None) -> list[str]:
    """Return the ids of features, or their names, of which equal ones get a number."""
    if chosen == "name":
        return make_names_unique(names.to_pylist())
    return ids.to_pylist()


def select_features(matrix: RowBlocks, types: pa.Array, feature_type: str) -> RowBlocks:
    """Return the columns of one type; raise DataError if there is none."""
    columns = np.flatnonzero(np.array(types.to_pylist(), object) == feature_type)
    if not len(columns):
        known = listed(sorted(set(types.to_pylist())))
        raise DataError(f"{matrix.where}: no feature of type {feature_type!r}; choose one of {known}")
    return SelectedColumns(matrix, columns)
