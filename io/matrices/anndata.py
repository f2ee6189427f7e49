"""Reads the matrices of AnnData files (HDF5 or Zarr) without the library anndata.

The format: https://anndata.readthedocs.io/en/latest/fileformat-prose.html
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DataError
from ..messages import listed
from .blocks import RowBlocks
from .compressed import Dense, SparseByColumn, SparseByRow
from .hierarchies import Group, open_hierarchy
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
