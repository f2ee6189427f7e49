"""Matrices of AnnData files (HDF5 or Zarr), read without the library anndata.

The format: https://anndata.readthedocs.io/en/latest/fileformat-prose.html
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeGuard

from ..errors import DataError
from ..messages import listed
from ..stores.store import DATA_KINDS, Store
from .blocks import BLOCK_NUMBERS, Block, RowBlocks
from .compressed import Dense, SparseByColumn, SparseByRow
from .hierarchies import Group, is_zarr, open_hierarchy
from .names import check_unique, index_of


@contextmanager
def open_anndata(url: str, layer: str | None = None) -> Iterator[RowBlocks]:
    """Open a matrix of an AnnData file: rows are cells, columns are genes.

    ``layer`` is "X" (the default), "raw/X" or a layer such as "layers/counts". Raises DataError if the file is no
    AnnData, is older than AnnData 0.8, has no such layer, or has names that occur twice.
    """
    with open_hierarchy(url) as root:
        check_anndata(root, url)
        yield _matrix(root, layer or "X", url)


def check_anndata(root: Group, url: str) -> None:
    """Raise DataError unless the file was written by AnnData 0.8 or later."""
    encoding = root.attrs.get("encoding-type")
    if encoding == "anndata":
        return
    if encoding is None and "X" in root and "obs" in root:
        raise DataError(
            f"{url}: written by anndata older than 0.8 (2022); open and write it once with a later version of anndata"
        )
    raise DataError(f"{url}: no AnnData here (no X and obs, or encoding-type {encoding!r})")


def names_of(root: Group, axis: str, url: str) -> Any:
    """Return the names of the table "obs", "var" or "raw/var": (n,) large_string."""
    if axis not in root:
        raise DataError(f"{url}: there is no table {axis}")
    return index_of(root[axis], f"{url}, {axis}")


def _matrix(root: Group, layer: str, url: str) -> RowBlocks:
    known = _layers(root)
    if layer not in known:
        raise DataError(f"{url}: no layer {layer!r}; choose one of {listed(known)}")
    row_names = names_of(root, "obs", url)
    var = "raw/var" if layer == "raw/X" else "var"
    column_names = names_of(root, var, url)
    check_unique(row_names, f"{url}, obs", "call adata.obs_names_make_unique() and write the file again")
    check_unique(column_names, f"{url}, {var}", "call adata.var_names_make_unique() and write the file again")
    matrix = _stored_matrix(root[layer], f"{url}, {layer}", row_names, column_names.to_pylist())
    # A frequent mistake is to choose normalised values where counts are needed.
    others = [name for name in known if name != layer]
    if others:
        matrix.advice = f"did you mean layer={' or '.join(others)}?"
    return matrix


def _layers(root: Group) -> list[str]:
    """Return the names of all matrices of cells and genes."""
    names = ["X"] if "X" in root else []
    if "layers" in root:
        names += [f"layers/{name}" for name in sorted(root["layers"].keys())]
    if "raw" in root and "X" in root["raw"]:
        names.append("raw/X")
    return names


def _stored_matrix(element: Any, where: str, row_names: Any, column_names: list[str]) -> RowBlocks:
    encoding = element.attrs.get("encoding-type")
    if encoding == "array":
        return Dense(where, element, row_names, column_names)
    forms = {"csr_matrix": SparseByRow, "csc_matrix": SparseByColumn}
    if encoding not in forms:
        raise DataError(f"{where}: stored as {encoding!r}; dense, csr_matrix and csc_matrix can be read")
    n_rows, n_columns = (int(number) for number in element.attrs["shape"])
    arrays = (element["data"], element["indices"], element["indptr"])
    return forms[encoding](where, (n_rows, n_columns), row_names, column_names, arrays)


class MatrixFile(RowBlocks):
    """A matrix of an AnnData file. Names and shape are read at once, rows when they are needed."""

    def __init__(self, url: str | os.PathLike[str], layer: str | None = None):
        self.url = os.fspath(url)
        self.layer = layer
        with self._open() as matrix:
            super().__init__(matrix.where, matrix.shape, matrix.row_names, matrix.column_names)
            self.advice = matrix.advice

    def _open(self) -> AbstractContextManager[RowBlocks]:
        return open_anndata(self.url, self.layer)

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the rows."""
        with self._open() as matrix:
            yield from matrix.blocks(first, stop, numbers)

    def ranges(self, numbers: int) -> list[tuple[int, int]]:
        """Return the ranges of the matrix in the file."""
        with self._open() as matrix:
            return matrix.ranges(numbers)


def is_anndata_file(data: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether ``data`` is the path or URL of an AnnData file: one that ends in .h5ad, or a Zarr store."""
    if not isinstance(data, str | os.PathLike):
        return False
    url = os.fspath(data)
    if not isinstance(url, str) or not is_zarr(url):
        return str(url).lower().endswith(".h5ad")
    # Stores of this package may be called .zarr too.
    store = Store(url)
    return not any(store.exists(f"{kind}.json") for kind in DATA_KINDS)
