"""A matrix in a file that is opened when its rows are read."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeGuard

from ..stores.store import DATA_KINDS, Store
from .anndata import open_anndata
from .blocks import BLOCK_NUMBERS, Block, RowBlocks
from .hierarchies import is_zarr


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
